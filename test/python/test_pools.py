"""States in a pool: where calls start and end, and what stays untouched."""

import copy
import itertools
import json
import re
import unittest

import numpy as np
from reference import error

try:
    import torch
    NO_TORCH = None
except ImportError as absent:
    NO_TORCH = f"torch is not installed ({absent})"

import ejk
from ejk._recurrence import _KEYWORDS

K, V, H = 8, 16, 4
F32, F16 = 2e-6, 2e-3  # of ‖x‖: sums of some rows in f32, and one rounding to 16 bits


@ejk.recurrence
def delta(S, v, q, k, g, beta):
    S = S.decay(g)
    S = S.add(k, beta * (v - S.read(k)))
    return S, S.read(q)


def rows(rng, *lead):
    """v, q, k, g, beta with `lead` = (B, T). q and k have half of v's heads."""
    def normal(*shape):
        return rng.normal(size=(*lead, *shape)).astype(np.float32)
    k = normal(H // 2, K)
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    return [normal(H, V), normal(H // 2, K), k, -rng.random((*lead, H)).astype(np.float32),
            rng.random((*lead, H)).astype(np.float32)]


def by_steps(inputs, state):
    """(outputs, the state after each row) of one sequence's [T, ...] rows, in f64."""
    v, q, k, g, beta = (np.asarray(x, np.float64) for x in inputs)
    S, outputs, states = np.array(state, np.float64), [], []
    for t in range(len(v)):
        o = np.zeros((H, V))
        for h in range(H):
            key, query = k[t, h // 2], q[t, h // 2]
            S[h] *= np.exp(g[t, h])
            S[h] += np.outer(key, beta[t, h] * (v[t, h] - S[h].T @ key))
            o[h] = S[h].T @ query
        outputs.append(o)
        states.append(S.copy())
    return np.array(outputs).reshape(-1, H, V), np.array(states or [S])


def turned(states, value_major):
    return np.swapaxes(states, -1, -2) if value_major else states


def make_pool(rng, count, value_major=False, dtype=np.float32, apart=0):
    """A pool of random states whose slots are `apart` elements further than they are long."""
    memory = rng.normal(size=(count, H * K * V + apart)).astype(dtype)
    shape = (H, V, K) if value_major else (H, K, V)
    return memory, memory[:, :H * K * V].reshape(count, *shape) if not apart else \
        np.lib.stride_tricks.as_strided(memory, (count, *shape),
                                        (memory.strides[0], *(x * memory.itemsize for x in
                                                              (K * V, shape[2], 1))))


class Decode(unittest.TestCase):
    """One token for each of some sequences, in place, on NumPy arrays."""

    def check(self, read, write, dtype=np.float32, value_major=False, apart=0, first_slot=0, T=1,
              packed=None, integer=np.int32):
        rng = np.random.default_rng(len(read) + T)
        memory, pool = make_pool(rng, 9, value_major, dtype, apart)
        before, bytes_before = pool.astype(np.float64), memory.copy()
        lengths = packed or [T] * len(read)
        inputs = rows(rng, 1, sum(lengths)) if packed else rows(rng, len(read), T)
        options = dict(cu_seqlens=np.cumsum([0, *lengths]).astype(np.int32)) if packed else {}
        read = np.array(read, integer)
        write = read if write is None else np.array(write, integer)
        o, same = delta(*inputs, pool=pool, read_slots=read, write_slots=write,
                        first_slot=first_slot, value_major=value_major, **options)
        self.assertIs(same, pool)
        limit = F32 if dtype == np.float32 else F16
        written, starts = set(), np.cumsum([0, *lengths])
        for n, (start, end) in enumerate(zip(read, write)):
            has_start, has_end = first_slot <= start < 9, first_slot <= end < 9
            own = [x[0, starts[n]:starts[n + 1]] if packed else x[n] for x in inputs]
            shown = o[0, starts[n]:starts[n + 1]] if packed else o[n]
            if not has_start and not has_end:
                self.assertFalse(shown.any())
                continue
            state = turned(before[start], value_major) if has_start else np.zeros((H, K, V))
            expected, states = by_steps(own, state)
            self.assertLess(error(shown, expected), F32)
            if has_end:
                written.add(int(end))
                self.assertLess(error(turned(pool[end], value_major), states[-1]), limit)
        memory_of_pool = memory[:, :H * K * V]
        for slot in set(range(9)) - written:
            np.testing.assert_array_equal(memory_of_pool[slot], bytes_before[slot, :H * K * V])
        np.testing.assert_array_equal(memory[:, H * K * V:], bytes_before[:, H * K * V:])

    def test_layouts_and_types(self):
        for dtype, value_major, apart in itertools.product((np.float32, np.float16), (False, True),
                                                           (0, 328)):
            with self.subTest(dtype=dtype, value_major=value_major, apart=apart):
                self.check([4, 0, 7], None, dtype, value_major, apart)

    def test_bfloat16(self):
        try:
            import ml_dtypes
        except ImportError:
            self.skipTest("ml_dtypes is not installed")
        rng = np.random.default_rng(0)
        pool = rng.normal(size=(5, H, V, K)).astype(ml_dtypes.bfloat16)
        before, inputs = pool.astype(np.float64), rows(rng, 2, 1)
        slots = np.array([3, 1])
        o, _ = delta(*inputs, pool=pool, read_slots=slots, write_slots=slots, value_major=True)
        for n, slot in enumerate(slots):
            expected, states = by_steps([x[n] for x in inputs], turned(before[slot], True))
            self.assertLess(error(o[n], expected), F32)
            self.assertLess(error(turned(pool[slot].astype(np.float64), True), states[-1]), 8e-3)
        np.testing.assert_array_equal(pool[[0, 2, 4]].astype(np.float64), before[[0, 2, 4]])

    def test_own_indices(self):
        # A sequence that starts from zero, one that is read alone, and one with no slot.
        for value_major in (False, True):
            self.check([4, -1, 2, -5], [5, 6, -1, -2], value_major=value_major, integer=np.int64)

    def test_read_alone(self):
        rng = np.random.default_rng(5)
        pool = make_pool(rng, 4)[1]
        before, inputs = pool.copy(), rows(rng, 2, 1)
        o, same = delta(*inputs, pool=pool, read_slots=np.array([2, -1]))
        self.assertIs(same, pool)
        np.testing.assert_array_equal(pool, before)
        self.assertLess(error(o[0], by_steps([x[0] for x in inputs], before[2])[0]), F32)
        self.assertFalse(o[1].any())

    def test_written_alone(self):
        rng = np.random.default_rng(6)
        pool = make_pool(rng, 4)[1]
        inputs = rows(rng, 1, 3)
        o, _ = delta(*inputs, pool=pool, write_slots=np.array([1]))
        expected, states = by_steps([x[0] for x in inputs], np.zeros((H, K, V)))
        self.assertLess(error(o[0], expected), F32)
        self.assertLess(error(pool[1], states[-1]), F32)

    def test_first_slot(self):
        self.check([0, 3, -1], None, first_slot=1)
        self.check([0, 3, 5], [2, 0, 0], first_slot=1)

    def test_outside(self):
        # An index of P or more is no slot: nothing is read or written there.
        self.check([9, 4, 2**31 - 1], None)
        self.check([9, 4, 100], [3, 10**6, 9])
        self.check([2**40, 1], None, integer=np.int64)

    def test_no_sequence(self):
        self.check([], None)

    def test_prefill(self):
        for T in (2, 9, 70):
            with self.subTest(T=T):
                self.check([3, -1, -1], [3, 5, -1], T=T, value_major=T == 9)
        self.check([3, -1, 0, -2], [3, 5, 1, -1], packed=[5, 33, 0, 4], value_major=True)

    def test_16_bit_prefill(self):
        # By chunks where the CPU has matmuls of bf16; states are copied then.
        if NO_TORCH:
            self.skipTest(NO_TORCH)
        rng = np.random.default_rng(1)
        kind = torch.bfloat16
        q, k, v = (torch.from_numpy(rng.normal(size=(2, 150, 2, 64)).astype("f4") / 4).to(kind)
                   for _ in range(3))
        g = torch.from_numpy(-rng.random((2, 150, 2)).astype("f4"))
        pool = torch.from_numpy(rng.normal(size=(5, 2, 64, 64)).astype("f4"))
        before, read, write = pool.clone(), torch.tensor([3, -1]), torch.tensor([0, 2])
        o, _ = ejk.ops.simple_gla(q, k, v, g, pool=pool, read_slots=read, write_slots=write)
        h0 = torch.stack([before[3], torch.zeros_like(before[0])])
        expected, ht = ejk.ops.simple_gla(*(x.double() for x in (q, k, v, g)),
                                          initial_state=h0.double())
        self.assertLess(error(o.double().numpy(), expected.numpy()), 6e-3)  # matmuls of bf16
        self.assertLess(error(pool[[0, 2]].numpy(), ht.numpy()), 6e-3)
        self.assertTrue(torch.equal(pool[[1, 3, 4]], before[[1, 3, 4]]))

    def test_refusals(self):
        rng = np.random.default_rng(0)
        inputs, slots = rows(rng, 2, 1), np.array([0, 1])
        pool = make_pool(rng, 3)[1]

        def refused(pattern, **options):
            with self.assertRaisesRegex(ejk.TensorError, pattern):
                delta(*inputs, **options)
        refused("'read_slots' needs a 'pool'", read_slots=slots)
        refused("needs 'read_slots', 'write_slots' or both", pool=pool)
        refused("'read_slots' must be int32 or int64", pool=pool, read_slots=slots.astype("f4"))
        table = slots[:, None]
        refused("give 'accepted'", pool=pool, read_slots=table, write_slots=table)
        refused("both say where sequences start", pool=pool, read_slots=slots,
                initial_state=pool[:2])
        refused("'read_slots' must be", pool=pool, read_slots=np.array([0, 1, 2]), write_slots=slots)
        for first in (-1, np.int64(-3), 2**31, 1.5, None, "0"):  # below 0, indices before the pool would be slots
            refused("'first_slot' must be", pool=pool, read_slots=slots, write_slots=slots, first_slot=first)
        turned_pool = np.swapaxes(np.swapaxes(pool, 1, 2).copy(), 1, 2)
        refused("is written where it lies", pool=turned_pool, read_slots=slots, write_slots=slots)
        for apart in (0, K * V * 4 - 16):  # bytes: slots that overlap
            shared = np.lib.stride_tricks.as_strided(pool, strides=(apart, *pool.strides[1:]))
            refused("is written where it lies", pool=shared, read_slots=slots, write_slots=slots)
        # Of a structure of H·K·V numbers and a byte: slots that are no number of elements apart.
        field = np.zeros(3, [("state", "f4", (H, K, V)), ("used", "u1")])["state"]
        refused("dense slots", pool=field, read_slots=slots, write_slots=slots)
        frozen = pool.copy()
        frozen.flags.writeable = False
        refused("is read-only", pool=frozen, read_slots=slots, write_slots=slots)
        refused("must be", pool=pool[:, :3].copy(), read_slots=slots, write_slots=slots)

        @ejk.recurrence
        def total(s, x):
            s = s + x
            return s, s
        vectors = np.zeros((3, H, V), np.float32)
        with self.assertRaisesRegex(ejk.TensorError, "'pool' must have matrices as slots where the state after each"):
            total(inputs[0], pool=vectors, read_slots=slots, write_slots=slots[:, None])
        with self.assertRaisesRegex(ejk.TensorError, "'pool' must have matrices as slots with 'value_major'"):
            total(inputs[0], pool=vectors, read_slots=slots, write_slots=slots, value_major=True)

    def test_pools_of_another_byte_order(self):
        """A pool that is only read is copied. A copy of one that is written would be lost."""
        rng = np.random.default_rng(0)
        inputs, slots, pool = rows(rng, 2, 1), np.array([0, 1]), make_pool(rng, 3)[1]
        swapped = pool.astype(pool.dtype.newbyteorder("S"))
        wanted, found = (delta(*inputs, pool=p, read_slots=slots)[0] for p in (pool, swapped))
        np.testing.assert_array_equal(found, wanted)
        with self.assertRaisesRegex(ejk.TensorError, "is written where it lies"):
            delta(*inputs, pool=swapped, read_slots=slots, write_slots=slots)
        np.testing.assert_array_equal(swapped, pool)


class Drafts(unittest.TestCase):
    """Several tokens, with the state after each to a slot of its own."""

    def check(self, accepted, table, value_major=False, packed=None, dtype=np.float32):
        rng = np.random.default_rng(3)
        table, count = np.array(table, np.int32), len(table)
        pool = make_pool(rng, 20, value_major, dtype)[1]
        before, T = pool.astype(np.float64), table.shape[1]
        lengths = packed or [T] * count
        inputs = rows(rng, 1, sum(lengths)) if packed else rows(rng, count, T)
        options = dict(cu_seqlens=np.cumsum([0, *lengths]).astype(np.int32)) if packed else {}
        o, _ = delta(*inputs, pool=pool, read_slots=table, write_slots=table,
                     accepted=np.array(accepted, np.int32), first_slot=1, value_major=value_major,
                     **options)
        written, starts = set(), np.cumsum([0, *lengths])
        for n in range(count):
            own = [x[0, starts[n]:starts[n + 1]] if packed else x[n] for x in inputs]
            shown = o[0, starts[n]:starts[n + 1]] if packed else o[n]
            if (table[n] < 1).all():
                self.assertFalse(shown.any())
                continue
            start = table[n, accepted[n] - 1]
            state = turned(before[start], value_major) if start >= 1 else np.zeros((H, K, V))
            expected, states = by_steps(own, state)
            self.assertLess(error(shown, expected), F32)
            for t in range(min(T, lengths[n])):
                if table[n, t] >= 1:
                    written.add(int(table[n, t]))
                    self.assertLess(error(turned(pool[table[n, t]], value_major), states[t]),
                                    F32 if dtype == np.float32 else F16)
        others = sorted(set(range(20)) - written)
        np.testing.assert_array_equal(pool[others].astype(np.float64), before[others])

    def test_batch(self):
        # Each starts from a slot that an earlier row of the same call may write.
        table = [[1, 2, 3, 4], [5, 6, 7, 8], [0, 0, 0, 0], [9, 10, 0, 0]]
        for value_major in (False, True):
            self.check([3, 1, 1, 2], table, value_major)
        self.check([3, 1, 1, 2], table, dtype=np.float16)

    def test_packed(self):
        # Sequences of 1 to D rows, as where drafts were rejected.
        self.check([2, 1, 3], [[1, 2, 3], [4, 5, 6], [7, 8, 9]], packed=[3, 1, 2], value_major=True)
        self.check([1, 1], [[1, 2], [4, 5]], packed=[4, 1])  # more rows than slots

    def test_many_rows(self):
        for T in range(2, 9):
            self.check([T, 1], np.arange(1, 2 * T + 1).reshape(2, T))

    def test_states_after_each_row_of_two_matrices(self):
        def step(S, R, q, k, v):
            S, R = S.add(k, v), R.decay(-0.5).add(v, k)
            return S, R, S.read(q) + R.read(v)
        step = ejk.recurrence(step, states=2)
        rng = np.random.default_rng(0)
        q, k, v = rng.normal(size=(3, 2, 3, 1, 4)).astype(np.float32)
        pools = tuple(rng.normal(size=(2, 9, 1, 4, 4)).astype(np.float32))
        before = [p.copy() for p in pools]
        read, write = np.array([0, 1]), np.arange(2, 8).reshape(2, 3)
        step(q, k, v, pool=pools, read_slots=read, write_slots=write)
        for n in range(2):
            for t in range(3):
                _, (S, R) = step(*(x[n:n + 1, :t + 1] for x in (q, k, v)),
                                 initial_state=tuple(b[n:n + 1] for b in before))
                np.testing.assert_allclose(pools[0][write[n, t]], S[0], rtol=1e-5, atol=1e-5)
                np.testing.assert_allclose(pools[1][write[n, t]], R[0], rtol=1e-5, atol=1e-5)


class Vectors(unittest.TestCase):
    """Recurrences whose states are matrices, vectors and numbers."""

    def test_mlstm(self):
        rng = np.random.default_rng(0)
        q, k, v = rng.normal(size=(3, 3, 1, 2, 8)).astype("f4")
        i, f = rng.normal(size=(2, 3, 1, 2)).astype("f4")
        pools = (rng.normal(size=(6, 2, 8, 8)).astype("f4"), rng.normal(size=(6, 2, 8)).astype("f4"),
                 rng.normal(size=(6, 2)).astype("f4"))
        before, slots = [p.copy() for p in pools], np.array([4, -1, 2])
        o, same = ejk.ops.mlstm(q, k, v, i, f, pool=pools, read_slots=slots, write_slots=slots)
        self.assertIs(same[2], pools[2])
        own = [0, 2]
        expected, states = ejk.ops.mlstm(*(x[own] for x in (q, k, v, i, f)),
                                         initial_state=tuple(p[[4, 2]] for p in before))
        np.testing.assert_array_equal(o[own], expected)
        self.assertFalse(o[1].any())
        for pool, old, state in zip(pools, before, states):
            np.testing.assert_array_equal(pool[[4, 2]], state)
            np.testing.assert_array_equal(pool[[0, 1, 3, 5]], old[[0, 1, 3, 5]])


class Ops(unittest.TestCase):
    """Each named recurrence in a pool gives what it gives from a state."""

    def test_all(self):
        rng = np.random.default_rng(0)

        def normal(*shape):
            return rng.normal(size=(2, 3, *shape)).astype("f4") / 2
        q, k, v, kv = normal(4, 8), normal(4, 8), normal(4, 6), normal(2, 8)
        g, gk, gv = -abs(normal(4)), -abs(normal(4, 8)), -abs(normal(4, 6))
        heads = -rng.random(4).astype("f4")
        o = ejk.ops
        calls = {
            "recurrent": lambda **s: o.recurrent(q, k, v, g, heads, gk, gv, **s),
            "grouped": lambda **s: o.recurrent(q, kv, normal_v, g=g, **s),
            "shared": lambda **s: o.gla(q, kv, normal_v, -abs(kv), shared_state=True, **s),
            "gla": lambda **s: o.gla(q, k, v, gk, **s),
            "simple_gla": lambda **s: o.simple_gla(q, k, v, g, **s),
            "lightning": lambda **s: o.lightning_attn(q, k, v, 1, 4, **s),
            "retention": lambda **s: o.retention(q, k, v, **s),
            "linear": lambda **s: o.linear_attn(q, k, v, scale=0.3, **s),
            "mamba2": lambda **s: o.mamba2_ssd(v, -g, heads, kv, kv, heads, **s),
            "rwkv6": lambda **s: o.rwkv6(q, k, v, gk, abs(k[0, 0]), **s),
            "rwkv7": lambda **s: o.rwkv7(q, gk, k, v, k, -k, **s),
            "hgrn2": lambda **s: o.hgrn2(q, gk, v, **s),
            "delta": lambda **s: o.delta_rule(q, k, v, -g, **s),
            "gated": lambda **s: o.gated_delta_rule(q, k, v, g, -g, **s),
            "kda": lambda **s: o.kda(q, k, v, gk, -g, lower_bound=-5.0, **s)}
        normal_v = normal(2, 6)
        for name, call in calls.items():
            with self.subTest(name=name):
                shape = call()[1].shape
                pool = rng.normal(size=(5, *shape[1:])).astype("f4")
                start, slots = pool[[3, 1]].copy(), np.array([3, 1])
                expected, state = call(initial_state=start)
                shown, _ = call(pool=pool, read_slots=slots, write_slots=slots)
                self.assertLess(error(shown, expected), F32)
                self.assertLess(error(pool[[3, 1]], state), F32)


class Inspection(unittest.TestCase):
    """Explanations and checks of a call with a pool, which they leave as it is."""

    def setUp(self):
        rng = np.random.default_rng(0)
        self.inputs, self.pool = rows(rng, 3, 2), make_pool(rng, 7)[1]
        self.options = dict(pool=self.pool, read_slots=np.array([4, -1, 2]), write_slots=np.array([4, 5, 0]))
        self.before = self.pool.copy()

    def test_explain(self):
        explained = delta.explain(*self.inputs, **self.options)
        self.assertEqual(explained.seconds is None, explained.target.startswith("sm_"))
        np.testing.assert_array_equal(self.pool, self.before)

    def test_check(self):
        errors = delta.check(*self.inputs, **self.options)
        self.assertEqual(set(errors), {"o", "pool"})
        self.assertLess(max(errors.values()), F32)
        np.testing.assert_array_equal(self.pool, self.before)

    @unittest.skipIf(NO_TORCH, NO_TORCH)
    def test_tensors_of_torch(self):
        inputs, options = map(torch.from_numpy, self.inputs), {n: torch.from_numpy(x) for n, x in self.options.items()}
        inputs = list(inputs)
        self.assertLess(max(delta.check(*inputs, **options).values()), F32)
        delta.explain(*inputs, **options)
        np.testing.assert_array_equal(self.pool, self.before)


class Names(unittest.TestCase):
    """A step's parameters have any name: none is one that the program's text has for itself."""

    STEP = """def step({states}, q, {0}, {1}, {2}):
    {added}
    return {states}, S.read(q) * {1} if {2} is None else q, q.shifted(1)
"""

    def step(self, count, names, reverse):
        """Of rows, a row of numbers, a number and None, which have these names."""
        states, scope = ["S", "R"][:count], {}
        exec(self.STEP.format(*names, states=", ".join(states),
                              added="; ".join(f"{s} = {s}.add(q * {names[0]}, q)" for s in states)), scope)
        return ejk.recurrence(scope["step"], states=count, reverse=reverse)

    def call(self, step, q, named):
        named = {n: copy.deepcopy(x) if n == "pool" else x for n, x in named.items()}
        *outputs, states = step(q, q[..., 0], 2.0, None, **named)
        return [*outputs, *(states if isinstance(states, tuple) else [states])]

    @staticmethod
    def accented(name):
        """Another name, of the same letters in ASCII."""
        return re.sub("[aeiou]", lambda m: "àéïöû"["aeiou".index(m[0])], name, count=1)

    def test_every_name_of_the_text(self):
        rng = np.random.default_rng(0)
        q = rng.normal(size=(2, 3, 1, 4)).astype(np.float32)
        packed = {"cu_seqlens": np.array([0, 2, 6], np.int32)}
        slots, drafted = np.array([1, 2], np.int32), np.array([[1, 2, 3], [4, 5, 6]], np.int32)
        for count in (1, 2):
            states, pools = ([rng.normal(size=(n, 1, 4, 4)).astype(np.float32) for _ in range(count)] for n in (2, 9))
            initial = {"initial_state": tuple(states) if count > 1 else states[0]}
            pool = {"pool": tuple(pools) if count > 1 else pools[0], "read_slots": slots}
            for x, named in ((q, initial), (q.reshape(1, 6, 1, 4), {**packed, **pool}),
                             (q, {**pool, "write_slots": slots + 3}),
                             (q, {**pool, "read_slots": drafted, "write_slots": drafted + 0, "accepted": slots})):
                reverse = "pool" not in named
                plain = self.step(count, ("a", "b", "c"), reverse)
                expected = self.call(plain, x, named)
                text = plain.mlir(x, x[..., 0], 2.0, None, **named)
                taken = {n.partition(".")[0] for n in re.findall(r"[%@]([\w.]+)", text)} - {"q"}
                self.assertLessEqual({n for n in named if n != "pool" and n != "initial_state"}, taken)
                for name in sorted(self.accented(n) if n in _KEYWORDS else n for n in taken):
                    for names in ((name, "b", "c"), ("a", name, "c"), ("a", "b", name)):
                        if len(set(names)) == 3:
                            own = self.step(count, names, reverse)
                            with self.subTest(names=names, of=list(named)):
                                for a, b in zip(self.call(own, x, named), expected, strict=True):
                                    np.testing.assert_array_equal(a, b)


class Kernels(unittest.TestCase):
    """What a package does in a call, by its manifest."""

    def entry(self, target, *sizes, **options):
        rng = np.random.default_rng(0)
        program = delta.program(*rows(rng, *sizes), pool=make_pool(rng, 4, options.get(
            "value_major", False))[1], **options)
        data, _ = program.compile(target=target)
        size = int.from_bytes(data[16:24], "little")
        return json.loads(data[64:64 + size])["entries"][0]

    def variants(self, entry):
        return entry["variants"] if "variants" in entry else [entry]

    def targets(self):
        from ejk._library import compiler
        return [t for t in (compiler().native, "sm_90a") if t]

    def test_decode_is_one_kernel(self):
        slots = np.zeros(2, np.int32)
        for target, value_major in itertools.product(self.targets(), (False, True)):
            for write in (slots, np.zeros(2, np.int32)):
                entry = self.entry(target, 2, 1, read_slots=slots, write_slots=write,
                                   value_major=value_major)
                for variant in self.variants(entry):
                    self.assertEqual(len(variant["launches"]), 1)
                    self.assertEqual(variant.get("workspace", []), [])
                self.assertTrue(entry["inputs"][-1]["slots"])
                self.assertTrue(entry["outputs"][-1]["in_place"])

    def test_drafts_are_one_kernel(self):
        table = np.zeros((2, 4), np.int32)
        for target in self.targets():
            entry = self.entry(target, 2, 4, read_slots=table, write_slots=table,
                               accepted=np.ones(2, np.int32))
            for variant in self.variants(entry):
                self.assertEqual(len(variant["launches"]), 1)
                self.assertEqual(variant.get("workspace", []), [])


if __name__ == "__main__":
    unittest.main()
