"""Drafts in a tree, against each branch by itself; and drafts without the states after them, against
snapshots."""

import json
import unittest

import numpy as np
from reference import error
from simulated_drafts import branch, random_parents
from simulated_engine import BF16, as_torch, torch
from simulated_layers import LAYERS, Delta, Mamba2

import ejk
from ejk import serving

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    jax = None

P, F32 = 30, 5e-6
# Half of the last place that the pool stores, beside f32's error.
ROUNDED = {"float32": F32, "float16": 5e-4 + F32, "bfloat16": 4e-3 + F32}


@ejk.recurrence
def convolved(S, q, k, v, before):
    """Keys of a short convolution."""
    S = S.decay(-0.5).add(k + 0.5 * k.shifted(1, before) + 0.25 * k.shifted(2, before), v)
    return S, S.read(q)


class Case:
    """Drafts of N sequences of a layer, and a pool."""

    def __init__(self, seed, layer, N=3, T=5, dtype=np.float32):
        self.rng = rng = np.random.default_rng(seed)
        self.layer, self.N, self.T = layer(rng, np.float32), N, T
        one = self.layer
        shape = (one.HV, one.V, one.K) if one.value_major else (one.HV, one.K, one.V)
        self.pool = rng.normal(size=(P, *shape)).astype(dtype)
        self.before = self.pool.copy()
        self.rows = [np.stack(x) for x in zip(*[one.rows(T) for _ in range(N)])]

    def state(self, pool, slot):
        own = np.asarray(pool[slot], np.float64)
        return np.swapaxes(own, -1, -2) if self.layer.value_major else own


class Trees(unittest.TestCase):
    def check(self, case, parents, o, pool, read, write, first_slot=0):
        """Holds each row to its branch alone."""
        written = set()
        for n in range(case.N):
            has_start = first_slot <= read[n] < P
            S = case.state(case.before, read[n]) if has_start else np.zeros(
                (case.layer.HV, case.layer.K, case.layer.V))
            for t in range(case.T):
                slots = write[n] if write is not None else [-1] * case.T
                slot = slots[t]
                if not has_start and not any(first_slot <= s < P for s in slots):
                    self.assertFalse(np.any(o[n, t]))
                    continue
                own = branch(parents[n], t)
                expected, states = case.layer.run([x[n, own] for x in case.rows], S)
                self.assertLess(error(o[n, t], expected[-1]), F32)
                if first_slot <= slot < P:
                    written.add(int(slot))
                    self.assertLess(error(case.state(pool, slot), states[-1]), ROUNDED[case.pool.dtype.name])
        others = sorted(set(range(P)) - written)
        np.testing.assert_array_equal(pool[others].view(np.uint8), case.before[others].view(np.uint8))

    def test_random_trees(self):
        dtypes = [np.float32, np.float16, *[BF16] * (BF16 is not None)]
        for seed in range(25):
            with self.subTest(seed=seed):
                case = Case(seed, LAYERS[seed % 5], T=int(seed % 7) + 2, dtype=dtypes[seed % len(dtypes)])
                rng = case.rng
                parents = random_parents(rng, case.N, case.T)
                read = np.array([4, 2, 0], np.int32)  # the last is padding
                first_slot = 1
                write = rng.permutation(np.arange(5, 5 + case.N * case.T)).reshape(case.N, case.T)
                write = np.where((write < P) & (rng.random(write.shape) < 0.8), write, -1)
                write[2] = 0
                o = case.layer.call(case.rows, pool=case.pool, read_slots=read, write_slots=write,
                                    parents=parents, first_slot=first_slot)
                self.check(case, parents, o, case.pool, read, write, first_slot)

    def test_a_first_row_has_a_number_that_is_no_earlier_rows(self):
        # Row 2 has each number that may stand there, and row 3 comes after it.
        for dtype in (np.int32, np.int64):
            most = np.iinfo(dtype)
            for number in (0, 1, 2, 3, 4, 99, most.max, -1, -2, most.min):
                parents = np.array([[-1, 0, number, 2], [0, 1, number, 2], [3, 2, number, 2]], dtype)
                for given in (parents, serving.Tree(parents, depth=4)):
                    case, read, write = Case(9, LAYERS[1], T=4), np.array([4, 2, 0]), np.arange(5, 17).reshape(3, 4)
                    o = case.layer.call(case.rows, pool=case.pool, read_slots=read, write_slots=write, parents=given)
                    with self.subTest(number=number, dtype=dtype, given=type(given)):
                        self.check(case, parents, o, case.pool, read, write)

    def test_outputs_alone(self):
        case = Case(1, LAYERS[1], T=6)
        parents, read = random_parents(case.rng, case.N, case.T), np.array([4, 2, -1])
        o = case.layer.call(case.rows, pool=case.pool, read_slots=read, parents=parents)
        self.check(case, parents, o, case.pool, read, None)

    def test_from_zero(self):
        case = Case(2, LAYERS[2], T=4)
        parents, write = random_parents(case.rng, case.N, case.T), np.arange(12).reshape(3, 4)
        o = case.layer.call(case.rows, pool=case.pool, write_slots=write, parents=parents)
        self.check(case, parents, o, case.pool, [-1] * 3, write)

    def test_a_row_without_a_slot_in_a_sequence_that_has_some(self):
        # The rows that have a slot are in other branches, before the row and after it.
        parents = np.array([[-1, -1, 0, 1]] * 3)
        write = np.array([[5, -1, P, -1], [-1, 6, -1, -1], [-1, -1, 0, P]])
        for number, dtype in enumerate((np.int32, np.int64)):
            for read in (None, np.array([-1, -1, -1]), np.array([P, 4, 0])):
                with self.subTest(read=read, dtype=dtype):
                    case = Case(number, LAYERS[number + 1], T=4)
                    options = {} if read is None else {"read_slots": read.astype(dtype)}
                    o = case.layer.call(case.rows, pool=case.pool, write_slots=write.astype(dtype), parents=parents,
                                        first_slot=1, **options)
                    self.check(case, parents, o, case.pool, [-1] * 3 if read is None else read, write, 1)

    def test_a_chain_skips_what_a_call_without_parents_skips(self):
        chain, rng = np.arange(-1, 2)[None].repeat(3, 0), np.random.default_rng(12)
        for seed in range(10):
            case = Case(seed, LAYERS[seed % 3], T=3)
            other = case.pool.copy()
            table = np.where(rng.random((3, 2)) < 0.4, rng.permutation(6).reshape(3, 2), -1)
            write = np.where(rng.random((3, 3)) < 0.4, np.arange(10, 19).reshape(3, 3), -1)
            options = dict(read_slots=table, accepted=np.array([1, 2, 1]), write_slots=write)
            for own in (options, {n: x for n, x in options.items() if n != "write_slots"}):
                o = case.layer.call(case.rows, pool=case.pool, parents=chain, **own)
                expected = case.layer.call(case.rows, pool=other, **own)
                self.assertLess(error(o, expected), F32)
                self.assertLess(error(case.pool, other), F32)

    def test_after_accepted(self):
        # Where the state lies is said as it is for chains.
        case = Case(3, LAYERS[0], T=3)
        table, accepted = np.array([[1, 2, 3], [4, 5, 6], [-1, -1, -1]]), np.array([2, 3, 1])
        parents, write = random_parents(case.rng, 3, 3), np.arange(10, 19).reshape(3, 3)
        write[2] = -1
        o = case.layer.call(case.rows, pool=case.pool, read_slots=table, accepted=accepted, write_slots=write,
                            parents=parents)
        self.check(case, parents, o, case.pool, [2, 6, -1], write)

    def test_numbers_of_accepted_rows_beyond_the_slots(self):
        # As for chains, 0 counts as 1, and 5 as the number of slots that are read, 3.
        table, accepted = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]]), np.array([0, 5, 2])
        case = Case(7, LAYERS[0], T=3)
        chain, write = np.arange(-1, 2)[None].repeat(3, 0), np.arange(10, 19).reshape(3, 3)
        options = dict(read_slots=table, accepted=accepted, write_slots=write)
        other = case.pool.copy()
        o = case.layer.call(case.rows, pool=case.pool, parents=chain, **options)
        self.check(case, chain, o, case.pool, [1, 6, 8], write)
        expected = case.layer.call(case.rows, pool=other, **options)
        self.assertLess(error(o, expected), F32)
        self.assertLess(error(case.pool, other), F32)

    def test_depth(self):
        # 12 rows whose branches have at most 3; layers share what was found of them.
        parents = np.array([[-1, -1, 0, 0, 1, 1, 2, 2, 3, 4, 5, 5]] * 2)
        for tree in (serving.Tree(parents, depth=3), serving.Tree(parents, depth=99)):
            for number in range(3):
                case = Case(number, LAYERS[number], N=2, T=12)
                read, write = np.array([0, 1]), np.arange(2, 26).reshape(2, 12)
                o = case.layer.call(case.rows, pool=case.pool, read_slots=read, write_slots=write, parents=tree)
                self.check(case, parents, o, case.pool, read, write)

    def test_chain_is_a_chain(self):
        case = Case(5, LAYERS[1], T=4)
        other, read, write = case.pool.copy(), np.array([0, 1, 2]), np.arange(3, 15).reshape(3, 4)
        chain = np.arange(-1, 3)[None].repeat(3, 0)
        o = case.layer.call(case.rows, pool=case.pool, read_slots=read, write_slots=write, parents=chain)
        expected = case.layer.call(case.rows, pool=other, read_slots=read, write_slots=write)
        self.assertLess(error(o, expected), F32)
        self.assertLess(error(case.pool, other), F32)

    def test_rows_before_the_first(self):
        # As many rows of a tree as a halo has, fewer and more.
        rng = np.random.default_rng(10)
        for T in (2, 1, 4):
            q, k, v, before = (rng.normal(size=(3, *s)).astype("f4")
                               for s in ((T, 2, 5), (T, 2, 5), (T, 2, 6), (2, 2, 5)))
            pool, parents = rng.normal(size=(P, 2, 5, 6)).astype("f4"), random_parents(rng, 3, T)
            kept, write = pool.copy(), np.arange(5, 5 + 3 * T).reshape(3, T)
            for options in ({}, {"write_slots": write}):
                read = np.array([4, 2, 1]) if options else np.array([4, 2, -1])
                o, _ = convolved(q, k, v, before, pool=pool, read_slots=read, parents=parents, **options)
                for n in range(3):
                    state = kept[read[n]][None] if read[n] >= 0 else np.zeros((1, 2, 5, 6), "f4")
                    for t in range(T):
                        own = branch(parents[n], t)
                        expected, final = convolved(*(x[n:n + 1, own] for x in (q, k, v)), before[n:n + 1],
                                                    initial_state=state)
                        self.assertLess(error(o[n, t], expected[0, -1] * (read[n] >= 0)), F32)
                        if options:
                            self.assertLess(error(pool[write[n, t]], final[0]), F32)
        with self.assertRaisesRegex(ejk.TensorError, "'before' must be .3, 2, 2, 5., as 'parents' says"):
            convolved(q, k, v, before[:2], pool=pool, read_slots=read, parents=parents)

    def test_torch(self):
        if torch is None:
            self.skipTest("torch is not installed")
        case = Case(6, LAYERS[2], T=5)
        parents, read, write = random_parents(case.rng, 3, 5), np.array([0, 1, -1]), np.arange(3, 18).reshape(3, 5)
        write[2] = -1
        tensors = [as_torch(x) for x in case.rows]
        # Rows as columns of a projection.
        tensors[0] = torch.cat([tensors[0], tensors[0]], -1)[..., :case.layer.K]
        o = case.layer.call(tensors, pool=as_torch(case.pool), read_slots=torch.from_numpy(read),
                            write_slots=torch.from_numpy(write).int(), parents=torch.from_numpy(parents))
        self.check(case, parents, o.numpy(), case.pool, read, write)

    def test_jax(self):
        if jax is None:
            self.skipTest("JAX is not installed")
        case = Case(7, Delta, T=4)
        parents, read, write = random_parents(case.rng, 3, 4), np.array([0, 1, 2]), np.arange(3, 15).reshape(3, 4)
        from simulated_layers import delta

        @jax.jit
        def verify(pool, parents, read, write, *rows):
            return delta(*rows, pool=pool, parents=parents, read_slots=read, write_slots=write,
                         value_major=case.layer.value_major)
        o, pool = verify(*(jnp.asarray(x) for x in (case.pool, parents, read, write, *case.rows)))
        self.check(case, parents, np.asarray(o), np.asarray(pool), read, write)

    def test_refused(self):
        case = Case(8, LAYERS[1], T=3)
        read, write, parents = np.array([0, 1, 2]), np.arange(3, 12).reshape(3, 3), np.zeros((3, 3), np.int32)

        def refused(pattern, **options):
            options = {"pool": case.pool, "read_slots": read, "write_slots": write, "parents": parents, **options}
            with self.assertRaisesRegex(ejk.TensorError, pattern):
                case.layer.call(case.rows, **options)
        refused("'parents' must be int32 or int64 of shape .N, T.", parents=parents.astype("f4"))
        refused("'write_slots' must be .3, 2., as 'parents' says", parents=parents[:, :2])
        refused("'v' must be .3, 2, 4, 12., as 'parents' says", parents=parents[:, :2], write_slots=write[:, :2])
        refused("'read_slots' must be .3., as 'parents' says", read_slots=read[:2])
        refused("give slots of their own", read_slots=write, write_slots=write, accepted=np.array([1, 1, 1]))
        refused("'write_slots' must be int32 or int64 of shape .N, T.", write_slots=read)
        refused("packed by 'cu_seqlens' they are not", cu_seqlens=np.array([0, 3]))
        refused("needs 'read_slots', 'write_slots' or both", read_slots=None, write_slots=None)
        refused("give one", ring=serving.Ring(3))
        for depth in (0, -1):
            with self.assertRaisesRegex(ejk.TensorError, f"'depth' must be at least 1, but is {depth}, for 'parents'"):
                serving.Tree(parents, depth=depth)
        with self.assertRaisesRegex(ejk.TensorError, "'parents' needs a 'pool'"):
            ejk.ops.linear_attn(*(case.rows[0],) * 3, parents=parents)

    def test_more_rows_were_drafted_before(self):
        case = Case(3, LAYERS[0], T=2)
        table, accepted = np.array([[1, 2, 3, 4], [5, 6, 7, 8], [-1, -1, -1, -1]]), np.array([4, 3, 1])
        parents, write = random_parents(case.rng, 3, 2), np.arange(10, 16).reshape(3, 2)
        write[2] = -1
        o = case.layer.call(case.rows, pool=case.pool, read_slots=table, accepted=accepted,
                            write_slots=write, parents=parents)
        self.check(case, parents, o, case.pool, [4, 7, -1], write)


class Rings(unittest.TestCase):
    """Rounds of drafts: each accepts some, and starts the next behind them."""

    def rounds(self, case, count, D):
        """(drafted rows, how many of the rows before are right)"""
        for number in range(count):
            rows = [np.stack(x) for x in zip(*[case.layer.rows(D) for _ in range(case.N)])]
            yield rows, case.rng.integers(number > 0, (D if number else 0) + 1, size=case.N).astype(np.int32)

    def check(self, seed, dtype, in_torch=False, N=3, D=4):
        case = Case(seed, LAYERS[seed % 5], N=N, dtype=dtype)
        slots = np.array([5, 2, 9], np.int32)
        slots[2] = 0  # padding
        ring, kept = serving.Ring(D), case.pool
        tensor = as_torch if in_torch else lambda x: x
        # With snapshots, row t of sequence n leaves its state in slot 10 + 4n + t.
        snapshots, table = case.pool.copy(), 10 + np.arange(N * D, dtype=np.int32).reshape(N, D)
        table[2] = 0
        for number, (rows, accepted) in enumerate(self.rounds(case, 6, D)):
            before = kept.copy()
            o = case.layer.call([tensor(x) for x in rows], pool=tensor(kept), read_slots=tensor(slots), ring=ring,
                                accepted=tensor(accepted), first_slot=1)
            if number:
                expected = case.layer.call(rows, pool=snapshots, read_slots=table, write_slots=table,
                                           accepted=np.maximum(accepted, 1), first_slot=1)
            else:
                expected = case.layer.call(rows, pool=snapshots, read_slots=slots, write_slots=table, first_slot=1)
            limit = F32 if dtype == np.float32 else 2 * ROUNDED[np.dtype(dtype).name]
            self.assertLess(error(np.asarray(o), expected), limit)
            self.assertFalse(np.asarray(o)[2].any())
            others = sorted(set(range(P)) - {5, 2})
            np.testing.assert_array_equal(kept[others].view(np.uint8), before[others].view(np.uint8))
            if number == 0:
                np.testing.assert_array_equal(kept.view(np.uint8), before.view(np.uint8))
            last = rows, accepted
        # What is left in the ring, by a call of no rows.
        none = [x[:, :0] for x in last[0]]
        accepted = np.array([D, 1, 2], np.int32)
        o = case.layer.call([tensor(x) for x in none], pool=tensor(kept), read_slots=tensor(slots), ring=ring,
                            accepted=tensor(accepted), first_slot=1)
        self.assertEqual(o.shape[:2], (N, 0))
        for n in range(2):
            snapshot = case.state(snapshots, table[n, accepted[n] - 1])
            self.assertLess(error(case.state(kept, slots[n]), snapshot), ROUNDED[np.dtype(dtype).name])

    def test_snapshots(self):
        for seed in range(15):
            for dtype in (np.float32, np.float16, *[BF16] * (BF16 is not None)):
                with self.subTest(seed=seed, dtype=dtype):
                    self.check(seed, dtype, in_torch=bool(torch) and seed % 2 == 1)

    @unittest.skipUnless(torch, "torch is not installed")
    def test_under_inference_mode_and_no_grad(self):
        case = Case(5, Delta, N=1, T=4)
        expected = None
        modes = torch.inference_mode, torch.no_grad
        for order in (modes[:1] * 2, modes[1:] * 2, modes, modes[::-1]):
            ring, pool, outputs = serving.Ring(2), torch.from_numpy(case.before.copy()), []
            for at, mode in zip((0, 2), order):
                with mode(), self.subTest([m.__name__ for m in order]):
                    outputs.append(case.layer.call([as_torch(x[:, at:at + 2]) for x in case.rows], pool=pool, ring=ring,
                                                   read_slots=torch.tensor([7]), accepted=torch.tensor([at])))
            expected = expected or [o.clone() for o in outputs]
            self.assertTrue(all(torch.equal(a, b) for a, b in zip(outputs, expected)))

    def test_fewer_rows(self):
        # Calls have fewer rows than the ring: what was there from before counts no more.
        case = Case(3, Delta, N=1, T=9)
        ring, at = serving.Ring(4), 0
        S, slots = case.state(case.before, 7), np.array([7])
        expected, states = case.layer.run([x[0] for x in case.rows], S)
        for D, before in ((4, 0), (2, 3), (1, 2), (3, 1), (0, 1)):
            at += before
            o = case.layer.call([x[:, at:at + D] for x in case.rows], pool=case.pool, read_slots=slots, ring=ring,
                                accepted=np.array([before]))
            self.assertLess(error(o[0], expected[at:at + D]), F32)
            if at:
                self.assertLess(error(case.state(case.pool, 7), states[at - 1]), F32)

    def test_refused(self):
        case = Case(4, Mamba2, T=3)
        read, accepted = np.array([0, 1, 2]), np.array([0, 0, 0])

        def refused(pattern, ring=None, **options):
            options = {"pool": case.pool, "read_slots": read, "accepted": accepted, **options}
            with self.assertRaisesRegex(ejk.TensorError, pattern):
                case.layer.call(case.rows, ring=ring or serving.Ring(3), **options)
        refused("leave out 'write_slots'", write_slots=read)
        refused("needs 'read_slots' and 'accepted'", accepted=None)
        refused("at most 2", ring=serving.Ring(2))
        refused("'accepted' must be .3., as 'read_slots' says", accepted=accepted[:2])
        with self.assertRaisesRegex(ejk.TensorError, "at least 1 row"):
            serving.Ring(0)
        rows = np.ones((3, 2, 2, 5), "f4")
        with self.assertRaisesRegex(ejk.TensorError, "'before' has the rows before the first, which a ring"):
            convolved(rows, rows, rows, rows, ring=serving.Ring(2), pool=np.ones((P, 2, 5, 5), "f4"), read_slots=read,
                      accepted=accepted)
        ring = serving.Ring(3)
        case.layer.call(case.rows, ring=ring, pool=case.pool, read_slots=read, accepted=accepted)
        refused("one ring serves one layer", ring=ring, pool=case.pool[:9].copy())
        if jax:
            from simulated_layers import delta
            case = Case(4, Delta, T=3)
            with self.assertRaisesRegex(ejk.TensorError, "which JAX's arrays are not"):
                delta(*map(jnp.asarray, case.rows), pool=jnp.asarray(case.pool), read_slots=jnp.asarray(read),
                      accepted=jnp.asarray(accepted), ring=serving.Ring(3), value_major=case.layer.value_major)


@unittest.skipUnless(torch, "torch is not installed")
class TwoLibraries(unittest.TestCase):
    """NumPy's arrays go with torch's, whichever tensor of a call they are."""

    def call(self, in_numpy, names, **options):
        """Outputs and pool of two calls, in which the tensors `in_numpy` are NumPy's."""
        case, found = Case(2, Delta, T=4), []
        given = {**dict(zip(names, case.rows)), "pool": case.pool, **options}
        for at in range(2):
            if "accepted" in given and at:
                given["accepted"] = given["accepted"] + 1
            mixed = {n: x if n in in_numpy or not isinstance(x, np.ndarray) else as_torch(x) for n, x in given.items()}
            with torch.no_grad():
                found.append(np.asarray(case.layer.call([mixed.pop(n) for n in names], **mixed)))
        return [*found, case.pool]

    def check(self, **options):
        names = [f"row{i}" for i in range(5)]
        every = [*names, "pool", *options]
        expected = self.call((), names, **options)
        for in_numpy in (*[(n,) for n in every], *[[m for m in every if m != n] for n in every], every):
            with self.subTest(in_numpy=in_numpy):
                for a, b in zip(self.call(in_numpy, names, **options), expected):
                    np.testing.assert_array_equal(a, b)

    def test_slots(self):
        self.check(read_slots=np.array([0, 1, 2]), write_slots=np.array([3, 4, 5]))

    def test_rings(self):
        whole, self.call = self.call, lambda *a, **o: whole(*a, ring=serving.Ring(4), **o)
        self.check(read_slots=np.array([0, 1, 2]), accepted=np.array([0, 0, 0]))

    def test_trees(self):
        parents, read = np.array([[-1, 0, 0, 1]] * 3), np.array([0, 1, 2])
        write = np.arange(3, 15).reshape(3, 4)
        self.check(parents=parents, read_slots=read, write_slots=write)
        self.check(parents=parents, read_slots=read)
        self.check(parents=parents, read_slots=write + 12, accepted=np.array([1, 2, 3]), write_slots=write)
        whole = self.call
        for tree in (serving.Tree(parents), serving.Tree(torch.from_numpy(parents))):
            self.call = lambda *a, tree=tree, **o: whole(*a, parents=tree, **o)
            self.check(read_slots=read, write_slots=write)

    def test_a_ring_of_another_library(self):
        case, ring = Case(2, Delta, T=4), serving.Ring(4)
        given = dict(pool=case.pool, read_slots=np.array([0, 1, 2]), accepted=np.array([0, 0, 0]), ring=ring)
        case.layer.call(case.rows, **given)
        with self.assertRaisesRegex(ejk.TensorError, "as float32 .* but got torch.float32"):
            case.layer.call([as_torch(x) for x in case.rows], **given)


class Kernels(unittest.TestCase):
    """What a package does in a call, by its manifest: one kernel, and no workspace."""

    def test_one_kernel(self):
        from ejk._library import compiler
        from simulated_layers import delta
        case = Case(0, Delta, T=4)
        own = dict(pool=case.pool, read_slots=np.array([0, 1, 2]), value_major=case.layer.value_major)
        write = np.arange(3, 15).reshape(3, 4)
        calls = [dict(own, parents=random_parents(case.rng, 3, 4), write_slots=write),
                 dict(own, parents=random_parents(case.rng, 3, 4)),
                 dict(own, ring=serving.Ring(4), accepted=np.array([0, 0, 0]))]
        for target in [t for t in (compiler().native, "sm_90a") if t]:
            for options in calls:
                data, _ = delta.program(*case.rows, **options).compile(target=target)
                entry = json.loads(data[64:64 + int.from_bytes(data[16:24], "little")])["entries"][0]
                for variant in entry.get("variants", [entry]):
                    self.assertEqual(len(variant["launches"]), 1)
                    self.assertEqual(variant.get("workspace", []), [])


if __name__ == "__main__":
    unittest.main()
