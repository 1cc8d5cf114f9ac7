"""Calls with pools that repeat an earlier call's form: they skip what Python does for a first one."""

import contextlib
import unittest
import warnings
from unittest import mock

import numpy as np
from kinds_of_numbers import NUMBERS, told_apart
from test_pools import NO_TORCH

import ejk
from ejk import _arrays, _recurrence

if not NO_TORCH:
    import torch

H, K, V, SLOTS = 2, 16, 32, 9


def i32(*values):
    return torch.tensor(values, dtype=torch.int32)


@unittest.skipIf(NO_TORCH, NO_TORCH)
class Quick(unittest.TestCase):

    def rows(self, seed, count=3, steps=1):
        generator = torch.Generator().manual_seed(seed)
        normal = lambda *shape: torch.randn(count, steps, H, *shape, generator=generator)  # noqa: E731
        q, k, v = normal(K), torch.nn.functional.normalize(normal(K), dim=-1), normal(V)
        return q, k, v, -normal().abs(), torch.sigmoid(normal())

    def call(self, rows, pool, **slots):
        return ejk.ops.gated_delta_rule(*rows, pool=pool, **slots)

    def no_long_way(self):
        return mock.patch.object(_recurrence.Recurrence, "_prepare",
                                 side_effect=AssertionError("the long way"))

    def cases(self):
        same, drafted = i32(4, 1, 2), i32(0, 1, 2, 3, 4, 5, 6, 7, -1).reshape(3, 3)
        return [(1, dict(read_slots=i32(0, 3, -1), write_slots=i32(1, 4, 2))),
                (1, dict(read_slots=i32(0, 3, 5))),
                (1, dict(write_slots=i32(0, -1, 5))),
                (1, dict(read_slots=same, write_slots=same)),
                (1, dict(read_slots=i32(6, 3, 0), write_slots=i32(1, 4, 2), first_slot=1)),
                (1, dict(read_slots=torch.tensor([0, 3, 2]), write_slots=torch.tensor([1, 4, 6]))),
                (3, dict(read_slots=drafted, accepted=i32(1, 2, 3), write_slots=drafted.clone())),
                (4, dict(read_slots=i32(0, 3, -1), write_slots=i32(1, 4, 2))),
                (40, dict(read_slots=i32(0, 3, -1), write_slots=i32(1, 4, 2))),
                (50, dict(read_slots=i32(0, 3, -1), write_slots=i32(1, 4, 2)))]

    def test_same_bits(self):
        for dtype in (torch.float32, torch.bfloat16):
            before = torch.randn(SLOTS, H, K, V, generator=torch.Generator().manual_seed(9)).to(dtype)
            for steps, slots in self.cases():
                with self.subTest(dtype=dtype, steps=steps, **{n: str(t) for n, t in slots.items()}):
                    rows = self.rows(steps, steps=steps)
                    first, again = before.clone(), before.clone()
                    expected, _ = self.call(rows, first, **slots)
                    with self.no_long_way():
                        found, pool = self.call(rows, again, **slots)
                    self.assertIs(pool, again)
                    self.assertTrue(torch.equal(found, expected))
                    self.assertTrue(torch.equal(again, first))

    def test_number_of_sequences(self):
        pool = torch.zeros(SLOTS, H, K, V)
        self.call(self.rows(1), pool, read_slots=i32(0, 1, 2), write_slots=i32(0, 1, 2))
        with self.no_long_way():
            o, _ = self.call(self.rows(2, count=2), pool, read_slots=i32(3, 4), write_slots=i32(3, 4))
        self.assertEqual(o.shape, (2, 1, H, V))

    def test_pages(self):
        apart = H * K * V + 64
        pool = torch.as_strided(torch.randn(SLOTS * apart), (SLOTS, H, K, V), (apart, K * V, V, 1))
        slots = dict(read_slots=i32(0, 3, 5), write_slots=i32(1, 4, 2))
        dense = pool.contiguous()
        rows = self.rows(5)
        self.call(rows, dense.clone(), **slots)
        with self.no_long_way():
            self.call(rows, pool, **slots)
        self.call(rows, dense, **slots)
        self.assertTrue(torch.equal(pool, dense))

    def test_two_pools(self):
        def step(C, n, q, k, v, g):
            C, n = C.decay(g).add(k, v), ejk.exp(g) * n + k
            return C, n, C.read(q) / (ejk.sum(n * q) + 2.0)
        two = ejk.recurrence(step, states=2)
        q, k, v, g, _ = self.rows(3)
        slots = dict(read_slots=i32(0, 3, 5), write_slots=i32(1, 4, 2))
        pools = torch.rand(SLOTS, H, K, V), torch.rand(SLOTS, H, K)
        copies = [p.clone() for p in pools]
        expected, _ = two(q.abs(), k.abs(), v, g, pool=pools, **slots)
        with self.no_long_way():
            found, own = two(q.abs(), k.abs(), v, g, pool=copies, **slots)
        self.assertIsInstance(own, tuple)
        self.assertTrue(torch.equal(found, expected))
        self.assertTrue(all(torch.equal(a, b) and a is c for a, b, c in zip(own, pools, copies)))

    def test_indices_that_are_none(self):
        before, rows = torch.randn(SLOTS, H, K, V), self.rows(6)
        r, w = i32(0, 3, 5), i32(1, 4, 2)
        forms = [dict(read_slots=r, write_slots=None), dict(read_slots=None, write_slots=w),
                 dict(read_slots=r, write_slots=w, accepted=None), dict(read_slots=r)]
        for slots in forms * 2:
            pool, expected = before.clone(), before.clone()
            found, _ = self.call(rows, pool, **slots)
            with mock.patch.object(_arrays, "quick_in_pools", None):
                own, _ = self.call(rows, expected, **slots)
            self.assertTrue(torch.equal(found, own) and torch.equal(pool, expected), str(slots))
        with self.assertRaisesRegex(ejk.TensorError, "'accepted' says where"):
            self.call(rows, before, read_slots=None, write_slots=w, accepted=i32(1, 1, 1))

    def test_first_slot(self):
        pool, rows = torch.randn(SLOTS, H, K, V), self.rows(7)
        slots = dict(read_slots=i32(1, 3, 5), write_slots=i32(1, 3, 5))
        self.call(rows, pool, first_slot=1, **slots)
        kept = pool.clone()
        for wrong in (1.0, -0.0, np.float64(1)):
            with self.assertRaisesRegex(ejk.TensorError, "'first_slot' must be an int"):
                self.call(rows, pool, first_slot=wrong, **slots)
        self.assertTrue(torch.equal(pool, kept))
        self.call(rows, pool, first_slot=np.array(1), **slots)
        first = torch.tensor(0)
        own = dict(read_slots=i32(0, 3, 5), write_slots=i32(7, 8, 2))
        self.assertTrue(self.call(rows, pool, first_slot=first, **own)[0][0].any())
        first.fill_(8)
        self.assertFalse(self.call(rows, pool, first_slot=first, **own)[0][0].any())

    def test_equal_constants_that_a_step_tells_apart(self):
        (q, k, v, _, _), slots = self.rows(13), dict(read_slots=i32(0, 3, 5), write_slots=i32(1, 4, 2))
        for number in range(2):
            for kind, code in NUMBERS:
                pool = torch.randn(SLOTS, H, K, V)
                with self.subTest(repr(kind), number=number):
                    with self.no_long_way() if number else contextlib.nullcontext():
                        o, _ = told_apart(q, k, v, kind, pool=pool, **slots)
                    self.assertEqual(set(o.ravel().tolist()), {code})
                    o, _ = told_apart(q, k, v, kind=kind, pool=pool, **slots)
                    self.assertEqual(set(o.ravel().tolist()), {code})

    def test_compiled_beside_eager(self):
        graphs = []

        def backend(module, _):
            graphs.append(module)
            return module.forward
        step = ejk.recurrence(lambda S, q, k, v: ((S := S.add(k, v)), S.read(q)))
        q, k, v, _, _ = self.rows(8)
        call = lambda first, pool: step(q, k, v, pool=pool, read_slots=i32(8, 8, 8),  # noqa: E731
                                        first_slot=first)[0]
        pool = torch.randn(SLOTS, H, K, V)
        compiled = torch.compile(lambda pool: call(0, pool), fullgraph=True, backend=backend)
        for first in range(6):
            compiled(pool)
            call(first, pool)
        self.assertEqual(len(graphs), 1)

    def test_subclasses(self):
        class Own(torch.Tensor):
            pass
        pool, rows = torch.randn(SLOTS, H, K, V), self.rows(9)
        slots = dict(read_slots=i32(1, 3, 5), write_slots=i32(1, 3, 5))
        for _ in range(2):
            o, _ = self.call(rows, pool.clone().as_subclass(Own), **slots)
            self.assertIs(type(o), torch.Tensor)

    def test_versions(self):
        pool, rows = torch.randn(SLOTS, H, K, V), self.rows(10)
        slots = dict(read_slots=i32(1, 3, 5), write_slots=i32(1, 3, 5))
        weight = torch.ones(SLOTS, H, K, V, requires_grad=True)
        for _ in range(2):
            product = weight * pool
            with torch.no_grad():
                self.call(rows, pool, **slots)
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                product.sum().backward()
        with torch.inference_mode():
            own = torch.zeros(SLOTS, H, K, V)
            self.call(rows, own, **slots)
            self.call(rows, own, **slots)

    def test_jit_trace(self):
        pool, rows = torch.randn(SLOTS, H, K, V), self.rows(11)
        with self.assertRaisesRegex(ejk.EjkError, "torch.jit.trace drops calls that write pools"), \
                warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.jit.trace(lambda q: self.call((q, *rows[1:]), pool, read_slots=i32(1, 3, 5),
                                                write_slots=i32(1, 3, 5))[0], rows[0])

    def test_what_is_no_tensor(self):
        rows = self.rows(12)
        for _ in range(2):
            with self.assertRaisesRegex(ejk.TensorError, "'q' must be a tensor"):
                ejk.ops.gated_delta_rule(torch.nn.Linear(2, 2), *rows[1:])

    def test_what_a_first_call_refuses(self):
        pool = torch.zeros(SLOTS, H, K, V)
        rows, slots = self.rows(4), dict(read_slots=i32(0, 1, 2), write_slots=i32(0, 1, 2))
        self.call(rows, pool, **slots)
        kept = pool.clone()
        with self.assertRaisesRegex(ejk.TensorError, r"'read_slots' must be \[B\] with B = 3"):
            self.call(rows, pool, read_slots=i32(0, 1), write_slots=i32(0, 1))
        with self.assertRaisesRegex(ejk.TensorError, "'write_slots' must be int32 or int64"):
            self.call(rows, pool, read_slots=i32(0, 1, 2), write_slots=torch.zeros(3))
        with self.assertRaisesRegex(ejk.EjkError, "slots that are not dense"):
            self.call(rows, torch.zeros(SLOTS, H, V, K).transpose(2, 3), **slots)
        with self.assertRaisesRegex(ejk.EjkError, "has no derivative"):
            self.call((rows[0].clone().requires_grad_(), *rows[1:]), pool, **slots)
        with self.assertRaisesRegex(ejk.TensorError, "give one"):
            self.call(rows, pool, initial_state=torch.zeros(3, H, K, V), **slots)
        with self.assertRaisesRegex(TypeError, "no argument 'slots'"):
            self.call(rows, pool, slots=i32(0, 1, 2), **slots)
        self.assertTrue(torch.equal(pool, kept))


if __name__ == "__main__":
    unittest.main()
