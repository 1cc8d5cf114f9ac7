"""A simulated engine on states in a pool: each request's outputs are those of its whole sequence at once."""

import unittest

import numpy as np
from reference import error
from test_pools import H, K, V, by_steps, delta, make_pool, rows


class Engine(unittest.TestCase):
    """Random schedules of a server: requests arrive, are read in pieces, decode, draft and leave."""

    SLOTS = 24

    def run_schedule(self, seed, value_major, first_slot):
        rng = np.random.default_rng(seed)
        memory, pool = make_pool(rng, self.SLOTS, value_major, apart=int(rng.choice([0, 8])))
        free = list(range(first_slot, self.SLOTS))
        requests, finished, none = [], 0, first_slot - 1
        untouched = {}
        while finished < 6:
            if len(requests) < 4 and rng.random() < 0.5 and free:
                length = int(rng.integers(1, 40))
                own = [x[0] for x in rows(rng, 1, length)]
                requests.append(dict(rows=own, done=0, shown=[], slot=free.pop(
                    int(rng.integers(len(free)))), length=length))
            if not requests:
                continue
            chosen = [r for r in requests if rng.random() < 0.8] or requests[:1]
            untouched = {s: memory[s].copy() for s in range(self.SLOTS)}
            written = self.step(rng, pool, chosen, free, none, value_major, first_slot)
            for slot in set(range(self.SLOTS)) - written:
                np.testing.assert_array_equal(memory[slot], untouched[slot])
            for r in list(requests):
                if r["done"] == r["length"] or rng.random() < 0.03:  # done, or evicted
                    requests = [x for x in requests if x is not r]
                    free.append(r["slot"])
                    if r["done"] < r["length"]:
                        continue
                    finished += 1
                    expected, _ = by_steps(r["rows"], np.zeros((H, K, V)))
                    self.assertLess(error(np.concatenate(r["shown"]), expected), 5e-6)

    def step(self, rng, pool, chosen, free, none, value_major, first_slot):
        """One call for some requests and padding; the slots that it may write."""
        left = [r["length"] - r["done"] for r in chosen]
        kind = rng.choice(["decode", "prefill", "draft"])
        options = dict(pool=pool, first_slot=first_slot, value_major=value_major)
        pads = int(rng.integers(0, 3))
        if kind == "draft" and len(free) >= 3 * len(chosen):
            return self.draft(rng, chosen, left, free, none, options)
        # Own slots to read and to write: a request may move.
        moves = [free.pop() if free and rng.random() < 0.3 else r["slot"] for r in chosen]
        read = [r["slot"] if r["done"] else none for r in chosen] + [none] * pads
        write = moves + [none] * pads
        read, write = np.array(read, np.int32), np.array(write, np.int32)
        if kind == "prefill":
            counts = [int(rng.integers(1, n + 1)) for n in left] + [1] * pads
            parts = [[x[r["done"]:r["done"] + n] for x in r["rows"]] for r, n in zip(chosen, counts)]
            parts += [[x[0] for x in rows(rng, 1, 1)] for _ in range(pads)]
            inputs = [np.concatenate(x)[None] for x in zip(*parts)]
            offsets = np.cumsum([0, *counts]).astype(np.int32)
            o, _ = delta(*inputs, read_slots=read, write_slots=write, cu_seqlens=offsets, **options)
            shown = [o[0, a:b] for a, b in zip(offsets, offsets[1:])]
        else:
            counts = [1] * len(read)
            parts = [[x[r["done"]][None] for x in r["rows"]] for r in chosen]
            parts += [[x[0] for x in rows(rng, 1, 1)] for _ in range(pads)]
            o, _ = delta(*(np.stack(x) for x in zip(*parts)), read_slots=read, write_slots=write,
                         **options)
            shown = list(o)
        for r, n, own, slot in zip(chosen, counts, shown, moves):
            r["shown"].append(own)
            r["done"] += n
            if slot != r["slot"]:
                free.append(r["slot"])
                r["slot"] = slot
        for own in shown[len(chosen):]:
            self.assertFalse(own.any())
        return set(moves)

    def draft(self, rng, chosen, left, free, none, options):
        """Up to three rows for each request, of which a random prefix is kept."""
        D = 3
        table = np.full((len(chosen), D), none, np.int32)
        counts, starts = [], []
        for n, r in enumerate(chosen):
            counts.append(min(D, left[n]))
            starts.append(int(rng.integers(1, D + 1)))
            own = [free.pop() for _ in range(D - 1)]
            own.insert(starts[-1] - 1, r["slot"])  # where the request's state lies now
            table[n] = own
            if not r["done"]:  # a state of zero, as an engine that clears a slot leaves it
                options["pool"][r["slot"]] = 0
        offsets = np.cumsum([0, *counts]).astype(np.int32)
        inputs = [np.concatenate([x[r["done"]:r["done"] + n]
                                  for r, x, n in zip(chosen, rows_of, counts)])[None]
                  for rows_of in zip(*(r["rows"] for r in chosen))]
        o, _ = delta(*inputs, read_slots=table, write_slots=table,
                     accepted=np.array(starts, np.int32), cu_seqlens=offsets, **options)
        for n, (r, count) in enumerate(zip(chosen, counts)):
            kept = int(rng.integers(1, count + 1))
            r["shown"].append(o[0, offsets[n]:offsets[n] + kept])
            r["done"] += kept
            free.extend(int(s) for t, s in enumerate(table[n]) if t != kept - 1)
            r["slot"] = int(table[n, kept - 1])
        return {int(s) for s in table.ravel()}

    def test_schedules(self):
        for seed in range(24):
            with self.subTest(seed=seed):
                self.run_schedule(seed, value_major=seed % 2 == 1, first_slot=int(seed % 3 == 2))


if __name__ == "__main__":
    unittest.main()
