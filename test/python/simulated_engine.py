"""A serving engine without a model: requests arrive, are read in pieces, decode, draft and leave.

Each call is checked against the layer's definition in f64, started from the bits that the pool had before
the call, and so is what the call leaves in the pool. Memory of slots that no row of the call may write, and
between slots, keeps its bits."""

import numpy as np
from reference import error
from simulated_drafts import Drafts
from simulated_layers import LAYERS

try:
    import ml_dtypes
    BF16 = ml_dtypes.bfloat16
except ImportError:
    BF16 = None
try:
    import torch
except ImportError:
    torch = None

# ‖found − expected‖ / ‖expected‖ of outputs: sums of a row in f32; outputs in f16; matmuls of 16-bit
# operands, which a prefill by chunks has.
F32, F16, CHUNKS = 5e-6, 1e-3, 8e-3
# Half of the last place of what a pool stores, beside f32's error; float16's smallest numbers are rounded to
# a multiple of one that is far from zero.
ROUNDING = {"float32": 0.0, "float16": 2.0 ** -11, "bfloat16": 2.0 ** -8}
SMALLEST = 2.0 ** -25
# An output's f32 error where its terms, which are of about 1, cancel: one of 6e5 rows was 0.01 long.
CANCELLED = 2.0 ** -24


def as_torch(array):
    """A tensor of torch in an array's memory."""
    if array.dtype != BF16:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)


class Request:
    """A sequence of rows. `slot` is where its state lies after `done` of them, None for zero; `base` says that
    the slot is a checkpoint, which others may start from as well. The last `pending` rows are in the ring, and
    the state is that before them."""

    def __init__(self, rows, done=0, slot=None, base=None):
        self.rows, self.length = rows, len(rows[0])
        self.done, self.slot, self.base = done, slot, base
        self.first, self.shown, self.pending = done, {}, 0

    @property
    def left(self):
        return self.length - self.done

    def part(self, count):
        return [x[self.done:self.done + count] for x in self.rows]


class Checkpoint:
    """The state after some rows, in a slot that is not written while the checkpoint lives."""

    def __init__(self, slot, rows):
        self.slot, self.rows, self.users = slot, rows, 0


class Engine(Drafts):
    """One schedule, drawn from `rng`. `device` of `emulator.py` computes its calls, else the CPU does, on
    NumPy's arrays or torch's tensors."""

    SLOTS = 26

    def __init__(self, rng, layer=None, device=None):
        self.rng = rng
        kind = layer or LAYERS[int(rng.integers(len(LAYERS)))]
        self.layer = kind(rng, rng.choice(np.array([np.float32, np.float32, np.float16])))
        dtypes = [np.float32, np.float32, np.float16, *[BF16] * (BF16 is not None)]
        dtype = dtypes[int(rng.integers(len(dtypes)))]
        self.first_slot = int(rng.integers(2))
        self.integer = rng.choice(np.array([np.int32, np.int32, np.int64]))
        self.in_torch = bool(torch and rng.random() < 0.5 and not device)
        self.make_pool(dtype, device)
        self.free = list(range(self.first_slot, self.SLOTS))
        self.requests, self.checkpoints, self.finished, self.ring = [], [], [], None
        self.worst = 0.0  # the largest error of a request's outputs

    def make_pool(self, dtype, device):
        one = self.layer
        shape = (one.HV, one.V, one.K) if one.value_major else (one.HV, one.K, one.V)
        self.size = int(np.prod(shape))
        apart = self.size + int(self.rng.choice([0, 16]))
        # The last slot ends where the memory does.
        memory = self.rng.normal(size=(self.SLOTS - 1) * apart + self.size).astype(dtype)
        self.memory = device.place(memory) if device else memory
        own = np.cumprod([1, *shape[:0:-1]])[::-1] * self.memory.itemsize
        self.pool = np.lib.stride_tricks.as_strided(
            self.memory, (self.SLOTS, *shape), (apart * self.memory.itemsize, *own))

    def state(self, pool, slot):
        """A slot's state as [HV, K, V]."""
        return np.swapaxes(pool[slot], -1, -2) if self.layer.value_major else pool[slot]

    def none(self):
        """An index that is no slot."""
        return int(self.rng.choice([self.first_slot - 1, -1, -7, self.SLOTS, 2 ** 31 - 1]))

    # The life of requests.

    def arrive(self):
        length, rng = int(self.rng.integers(1, 40)), self.rng
        if self.checkpoints and rng.random() < 0.5:  # a prompt that starts as an earlier one did
            base = self.checkpoints[int(rng.integers(len(self.checkpoints)))]
            base.users += 1
            rows = [np.concatenate(x) for x in zip(base.rows, self.layer.rows(length))]
            request = Request(rows, len(base.rows[0]), base.slot, base)
        else:
            request = Request(self.layer.rows(length))
        self.requests.append(request)

    def release(self, request):
        """Gives back the slot of a request's state, which is not needed any more."""
        if request.base:
            request.base.users -= 1
        elif request.slot is not None:
            self.free.append(request.slot)
        request.base = request.slot = None

    def leave(self, request):
        self.release(request)
        self.requests.remove(request)
        if request.done == request.length:
            self.finished.append(request)

    def preempt(self, request):
        """Evicts a state; the request is computed again from the first row."""
        self.release(request)
        request.done = request.pending = 0

    def keep(self, request):
        """Makes a checkpoint of a request's state, which is written to another slot from here on."""
        if request.slot is None or request.base or len(self.checkpoints) > 3:
            return
        self.settle([request])
        kept = Checkpoint(request.slot, [x[:request.done] for x in request.rows])
        kept.users, request.base = 1, kept
        self.checkpoints.append(kept)

    def drop(self):
        unused = [c for c in self.checkpoints if not c.users]
        if unused:
            self.checkpoints.remove(unused[0])
            self.free.append(unused[0].slot)

    def move(self, request, slot):
        """A request's state lies in another slot now."""
        if slot != request.slot:
            self.release(request)
            request.slot = slot

    def accept(self, request, outputs):
        for row in outputs:
            request.shown[request.done] = row
            request.done += 1

    def run(self, count=5):
        """Until `count` requests are finished; then compares each with its sequence at once."""
        rng = self.rng
        while len(self.finished) < count:
            if len(self.requests) < 4 and rng.random() < 0.5:
                self.arrive()
            if rng.random() < 0.1:
                self.drop()
            if not self.requests:
                continue
            chosen = [r for r in self.requests if rng.random() < 0.8] or self.requests[:1]
            self.step(chosen)
            for request in list(self.requests):
                if not request.left or rng.random() < 0.02:
                    self.leave(request)
                elif rng.random() < 0.03:
                    self.preempt(request)
                elif rng.random() < 0.1:
                    self.keep(request)
        for request in self.finished:
            self.compare(request)

    def step(self, chosen):
        kinds = [self.decode, self.prefill, self.draft, self.draft, self.tree, self.replay]
        kind = kinds[int(self.rng.integers(len(kinds)))]
        if kind != self.replay:
            self.settle(chosen)
        kind(chosen)

    # Calls.

    def ints(self, values):
        return np.array(values, np.int64).astype(self.integer)

    def targets(self, chosen):
        """The slot that each request's state goes to: its own, or a new one."""
        found = []
        for r in chosen:
            if self.free and (r.slot is None or r.base or self.rng.random() < 0.3):
                found.append(self.free.pop(int(self.rng.integers(len(self.free)))))
            else:
                found.append(None if r.base else r.slot)
        return found

    def ready(self, chosen):
        """Those that have a slot to write to, and these slots."""
        pairs = [(r, t) for r, t in zip(chosen, self.targets(chosen)) if t is not None]
        return [r for r, _ in pairs], [t for _, t in pairs]

    def decode(self, chosen):
        chosen, targets = self.ready(chosen)
        if not chosen:
            return
        pads = int(self.rng.integers(3))
        parts = [r.part(1) for r in chosen] + [self.layer.rows(1) for _ in range(pads)]
        read = [self.none() if r.slot is None else r.slot for r in chosen] + [self.none() for _ in range(pads)]
        write = targets + [self.none() for _ in range(pads)]
        for r, t, o in zip(chosen, targets, self.check(parts, read, [[w] for w in write], False)):
            self.accept(r, o)
            self.move(r, t)

    def prefill(self, chosen):
        chosen, targets = self.ready(chosen)
        if not chosen:
            return
        counts = [int(self.rng.integers(1, r.left + 1)) for r in chosen]
        parts = [r.part(n) for r, n in zip(chosen, counts)]
        read = [self.none() if r.slot is None else r.slot for r in chosen]
        write = list(targets)
        for _ in range(int(self.rng.integers(3))):  # padding, which may have no row
            at = int(self.rng.integers(len(parts) + 1))
            parts.insert(at, self.layer.rows(int(self.rng.integers(2))))
            read.insert(at, self.none())
            write.insert(at, self.none())
        shown = self.check(parts, read, [[w] for w in write], True)
        shown = [o for o, w in zip(shown, write) if self.first_slot <= w < self.SLOTS]
        for r, t, o in zip(chosen, targets, shown):
            self.accept(r, o)
            self.move(r, t)

    def draft(self, chosen):
        """Rows of which a prefix is right; the state after each goes to a slot of its own."""
        rng, D = self.rng, int(self.rng.integers(2, 5))
        packed = bool(rng.random() < 0.5)
        chosen = [r for r in chosen if packed or r.left]
        form = str(rng.choice(["one table", "two tables", "start"]))
        calls = []
        for r in chosen:
            count = int(rng.integers(1, D + 1)) if packed else D
            kept = int(rng.integers(0 if form != "one table" else 1, min(count, r.left) + 1))
            needed = D - (form == "one table" and r.slot is not None and not r.base)
            if len(self.free) < needed or (form == "one table" and r.base):
                continue
            # Rows after the last right one are of other tokens.
            right, wrong = r.part(kept), self.layer.rows(count - kept)
            part = [np.concatenate(x) for x in zip(right, wrong)]
            slots = [self.free.pop() for _ in range(needed)]
            start = int(rng.integers(1, D + 1))
            before = [self.none() for _ in range(D)]
            if form == "one table" and r.slot is None:
                # No slot to read; the state after that row is not needed then.
                start = kept % D + 1
                self.free.append(slots[start - 1])
                slots[start - 1] = self.none()
            elif form == "one table":
                slots.insert(start - 1, r.slot)
            elif r.slot is not None:
                before[start - 1] = r.slot
            calls.append((r, part, kept, before, slots, start))
        if not calls:
            return
        pads = int(rng.integers(3))
        parts = [c[1] for c in calls] + [self.layer.rows(1 if packed else D) for _ in range(pads)]
        write = [c[4] for c in calls] + [[self.none() for _ in range(D)] for _ in range(pads)]
        padded = [[self.none() for _ in range(D)] for _ in range(pads)]
        before = [c[3] for c in calls] + padded
        starts = [c[5] for c in calls] + [int(rng.choice([1, D]))] * pads
        if form == "one table":
            read, accepted = write, starts
        elif form == "two tables":
            read, accepted = before, starts
        else:
            read, accepted = [table[n - 1] for table, n in zip(before, starts)], None
        shown = self.check(parts, read, write, packed, accepted, same=form == "one table")
        for (r, _, kept, _, slots, _), o in zip(calls, shown):
            old = r.slot
            self.accept(r, o[:kept])
            own = slots[kept - 1] if kept else old
            self.free += [s for n, s in enumerate(slots) if n != kept - 1 and s != old
                          and self.first_slot <= s < self.SLOTS]
            if form == "one table" and own != old and old is not None:
                self.free.append(old)
                r.slot = own
            elif own is not None:
                self.move(r, own)

    def check(self, parts, read, write, packed, accepted=None, same=False):
        """One call, held to the definition; the outputs of each part."""
        write_table, read_index = self.ints(write), self.ints(read)
        if not same and write_table.shape[1] == 1:
            write_table = write_table[:, 0]
            if [int(x) for x in np.ravel(read)] == [int(x) for x in np.ravel(write)]:
                read_index = write_table  # one tensor for both
        options = dict(read_slots=write_table if same else read_index, write_slots=write_table)
        if accepted is not None:
            options["accepted"] = self.ints(accepted)
        counts = [len(p[0]) for p in parts]
        if packed:
            offsets, after = np.cumsum([0, *counts]), int(self.rng.integers(3))  # rows of no sequence
            inputs = [np.concatenate(x)[None] for x in zip(*parts, self.layer.rows(after))]
            options["cu_seqlens"] = self.ints(offsets)
        else:
            inputs = [np.stack(x) for x in zip(*parts)]
        before = self.before()
        o = self.call(inputs, pool=self.pool, first_slot=self.first_slot, **options)
        assert o.dtype == self.layer.dtype, o.dtype
        shown = [o[0, a:a + n] for a, n in zip(offsets, counts)] if packed else list(o)
        assert not packed or not o[0, offsets[-1]:].any(), "rows of no sequence"
        written = set()
        for n, (part, own, table) in enumerate(zip(parts, shown, write)):
            start = read[n] if accepted is None else read[n][accepted[n] - 1]
            entries = np.ravel(read[n]).tolist() + list(table)
            if not any(self.is_slot(e) for e in entries):
                assert not own.any(), "a skipped row's outputs"
                continue
            S = self.start(before, start)
            expected, states = self.layer.run(part, S)
            self.close(own, expected, "outputs")
            each = states if len(table) > 1 else (states or [S])[-1:]
            for slot, state in zip(table, each):
                if self.is_slot(slot):
                    written.add(slot)
                    self.close(self.state(self.pool, slot), state, f"slot {slot}", True)
        self.untouched(before, written)
        return shown

    def call(self, rows, **options):
        """The layer's outputs, an array of NumPy's."""
        if not self.in_torch:
            return self.layer.call(rows, **options)
        made = {}  # one tensor for an array, which may be read and written slots at once

        def tensor(x):
            return made.setdefault(id(x), as_torch(x)) if isinstance(x, np.ndarray) else x
        with torch.no_grad():
            return self.layer.call([tensor(x) for x in rows],
                                   **{n: tensor(x) for n, x in options.items()}).numpy()

    def before(self):
        """A copy of the pool's memory."""
        return self.memory.copy()

    def start(self, before, slot):
        """The state in a slot of a copy of the pool's memory, or zero, as [HV, K, V] in f64."""
        S = np.zeros((self.layer.HV, self.layer.K, self.layer.V))
        if self.is_slot(slot):
            S += self.state(np.lib.stride_tricks.as_strided(before, self.pool.shape, self.pool.strides), slot)
        return S

    def is_slot(self, index):
        return self.first_slot <= index < self.SLOTS

    def untouched(self, before, written):
        apart = self.pool.strides[0] // self.pool.itemsize
        same = self.memory.view(np.uint8) == before.view(np.uint8)
        same = same.reshape(-1, self.memory.itemsize).all(1)
        for slot in written:
            same[slot * apart:slot * apart + self.size] = True
        wrong = np.flatnonzero(~same)
        assert not wrong.size, f"slot {wrong[0] // apart}, element {wrong[0] % apart} was not to be written"

    def limit(self):
        return F32 if self.layer.dtype == np.float32 else CHUNKS

    def close(self, found, expected, what, stored=False):
        limit = self.limit() + (ROUNDING[self.pool.dtype.name] if stored else 0)
        if self.layer.dtype == np.float16 and not stored:
            limit += F16
        least = 0 if stored else CANCELLED
        least = np.full(expected.shape, max(least, SMALLEST if found.dtype == np.float16 else 0))
        distance = np.linalg.norm(found.astype(np.float64) - expected) - np.linalg.norm(least)
        norm = np.linalg.norm(expected)
        assert distance <= limit * norm, f"{what}: {distance:.1e} is not below {limit:.1e} of {norm:.1e}"

    # The whole.

    def whole(self, rows):
        """The outputs of a sequence at once, from zero, by one call."""
        shape = self.pool.shape[1:]
        return self.call([x[None] for x in rows], pool=np.zeros((1, *shape), np.float32),
                         write_slots=np.zeros(1, np.int32))[0]

    def compare(self, request):
        assert sorted(request.shown) == list(range(request.first, request.length)) or (
            sorted(request.shown) == list(range(request.length)))
        found = np.stack([request.shown[t] for t in sorted(request.shown)])
        expected = self.whole(request.rows)[min(request.shown):]
        # A state is rounded to 16 bits after some calls.
        rounding = 2 * ROUNDING[self.pool.dtype.name]
        limit = self.limit() + rounding + (F16 if self.layer.dtype == np.float16 else 0)
        distance = error(found, expected)
        self.worst = max(self.worst, distance / limit)
        assert distance < limit, f"a request's outputs: {distance:.1e} is not below {limit:.1e}"
