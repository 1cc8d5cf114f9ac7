"""What `simulated_engine.py` does with drafts in a tree, and with drafts whose states are not kept."""

import numpy as np

from ejk import serving


def branch(parents, t):
    """The rows from the first to t."""
    found = [t]
    while 0 <= parents[found[0]] < found[0]:
        found.insert(0, int(parents[found[0]]))
    return found


def random_parents(rng, N, T, dtype=None):
    """What each row comes after: an earlier row. A first row has any number that is none: below 0, its own or a later
    row's, or one behind the last."""
    dtype = dtype or rng.choice(np.array([np.int32, np.int64]))
    parents = np.array([[rng.integers(-1, t) if t else -1 for t in range(T)] for _ in range(N)], dtype)
    own, most = np.arange(T), np.iinfo(dtype)
    later = rng.integers(own[None].repeat(N, 0), T)  # its own row's number, or one after
    strange = np.stack(np.broadcast_arrays(-1, -9, most.min, own, later, T, T + 5, most.max)).astype(dtype)
    strange = np.take_along_axis(strange, rng.integers(len(strange), size=(1, N, T)), 0)[0]
    return np.where(parents < 0, strange, parents)


class Drafts:
    """Methods of `Engine`."""

    RING = 4  # rows that a request may leave in the ring

    def tree(self, chosen):
        """Rows of which those of one branch are right, as far as they are accepted."""
        rng, T = self.rng, int(self.rng.integers(2, 7))
        calls = []
        for r in chosen:
            if len(self.free) < T:
                continue
            parents = random_parents(rng, 1, T, self.integer)[0].tolist()
            own = branch(parents, int(rng.integers(T)))[:r.left]
            own = own[:int(rng.integers(0, len(own) + 1))]  # what is accepted
            part = self.layer.rows(T)
            for n, t in enumerate(own):
                for x, right in zip(part, r.rows):
                    x[t] = right[r.done + n]
            calls.append((r, part, parents, own, [self.free.pop() for _ in range(T)]))
        if not calls:
            return
        pads = int(rng.integers(3))
        parts = [c[1] for c in calls] + [self.layer.rows(T) for _ in range(pads)]
        parents = [c[2] for c in calls] + [[-1] * T for _ in range(pads)]
        read = [self.none() if c[0].slot is None else c[0].slot for c in calls] + [
            self.none() for _ in range(pads)]
        write = [c[4] for c in calls] + [[self.none() for _ in range(T)] for _ in range(pads)]
        before = self.before()
        o = self.call([np.stack(x) for x in zip(*parts)], pool=self.pool, first_slot=self.first_slot,
                      read_slots=self.ints(read), write_slots=self.ints(write), parents=self.ints(parents))
        written = set()
        for n, part in enumerate(parts):
            if n >= len(calls):
                assert not o[n].any(), "a skipped row's outputs"
                continue
            for t in range(T):
                S, own = self.start(before, read[n]), branch(parents[n], t)
                expected, states = self.layer.run([x[own] for x in part], S)
                self.close(o[n, t], expected[-1], "a row of a tree")
                self.close(self.state(self.pool, write[n][t]), states[-1], f"slot {write[n][t]}", True)
                written.add(write[n][t])
        self.untouched(before, written)
        for n, (r, _, _, own, slots) in enumerate(calls):
            self.accept(r, [o[n, t] for t in own])
            if own:
                self.move(r, slots[own[-1]])
            self.free += [s for t, s in enumerate(slots) if not own or t != own[-1]]

    def replay(self, chosen):
        """Drafted rows that stay in the ring until the next call."""
        usable = []
        for r in chosen:
            if r.base or (r.slot is None and not self.free):
                continue
            if r.slot is None:
                r.slot = self.free.pop()
                self.pool[r.slot] = 0  # as an engine that clears a slot
            usable.append(r)
        self.replayed(usable, int(self.rng.integers(1, self.RING + 1)))

    def settle(self, chosen):
        """Leaves no accepted row of a request in the ring."""
        self.replayed([r for r in chosen if r.pending], 0)

    def replayed(self, chosen, D):
        if not chosen:
            return
        if self.ring is None:
            self.ring = serving.Ring(self.RING)
        rng, pads = self.rng, int(self.rng.integers(3))
        keeps = [int(rng.integers(0, min(D, r.left) + 1)) for r in chosen]
        parts = [[np.concatenate(x) for x in zip(r.part(kept), self.layer.rows(D - kept))]
                 for r, kept in zip(chosen, keeps)] + [self.layer.rows(D) for _ in range(pads)]
        read = [r.slot for r in chosen] + [self.none() for _ in range(pads)]
        accepted = [r.pending for r in chosen] + [int(rng.integers(self.RING + 1)) for _ in range(pads)]
        before = self.before()
        o = self.call([np.stack(x) for x in zip(*parts)], pool=self.pool, first_slot=self.first_slot,
                      read_slots=self.ints(read), accepted=self.ints(accepted), ring=self.ring)
        written = set()
        for n, part in enumerate(parts):
            if n >= len(chosen):
                assert not o[n].any(), "a skipped row's outputs"
                continue
            r = chosen[n]
            earlier = [x[r.done - r.pending:r.done] for x in r.rows]
            rows = [np.concatenate(x) for x in zip(earlier, part)]
            expected, states = self.layer.run(rows, self.start(before, r.slot))
            self.close(o[n], expected[r.pending:], "outputs after a ring's rows")
            if r.pending:
                self.close(self.state(self.pool, r.slot), states[r.pending - 1], f"slot {r.slot}", True)
                written.add(r.slot)
        self.untouched(before, written)
        for n, (r, kept) in enumerate(zip(chosen, keeps)):
            self.accept(r, o[n, :kept])
            r.pending = kept
