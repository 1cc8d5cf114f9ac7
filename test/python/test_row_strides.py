"""Inputs that are views of one projection: their rows lie apart, and no one copies them."""

import unittest
from unittest import mock

import numpy as np
from test_pools import NO_TORCH

import ejk
from ejk import _numpy

if not NO_TORCH:
    import torch

H, K, V = 2, 16, 32


def output(op):
    """The operation without the final state."""
    call = lambda *args, **keywords: op(*args, **keywords)[0]  # noqa: E731
    call.__name__ = op.__name__
    return call


rule = output(ejk.ops.gated_delta_rule)


def rows(rng, batch, steps):
    """q, k and v as parts of one array, and raw gates of another."""
    packed = rng.standard_normal((batch, steps, H * (2 * K + V))).astype("f4")
    ends = [H * K, 2 * H * K]
    q, k, v = np.split(packed, ends, axis=-1)
    q, k, v = [x.reshape(batch, steps, H, -1) for x in (q, k, v)]
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    gates = rng.random((batch, steps, 8 * H)).astype("f4")  # a and b, side by side and 16 bytes apart
    return q, k, v, -gates[..., :H], gates[..., 4 * H:5 * H]


def calls(q, k, v, g, beta):
    yield rule, (q, k, v, g, beta)
    yield output(ejk.ops.gla), (q, k, v, -abs(k))
    yield output(ejk.ops.kda), (q, k, v, -abs(q), beta)


def no_copies():
    return mock.patch.object(_numpy, "_aligned", side_effect=AssertionError("a copy"))


class NumPy(unittest.TestCase):

    def test_views_are_read_where_they_lie(self):
        rng = np.random.default_rng(0)
        for batch, steps in (2, 37), (3, 1), (1, 64), (1, 1):
            q, k, v, g, beta = rows(rng, batch, steps)
            self.assertEqual(q.flags.c_contiguous, batch * steps == 1)
            want = rule(*[np.ascontiguousarray(x) for x in (q, k, v, g, beta)])
            beta = np.ascontiguousarray(beta)
            g = np.ascontiguousarray(g)  # negation made an array of its own
            rule(q, k, v, g, beta)  # compiled, with whatever it copies
            with no_copies():
                o = rule(q, k, v, g, beta)
            np.testing.assert_array_equal(o, want)

    def test_each_kind_of_kernel(self):
        q, k, v, g, beta = rows(np.random.default_rng(1), 2, 70)
        for op, inputs in calls(q, k, v, g, beta):
            for half in (False, True):
                given = [x.astype("f2") if half and x.ndim == 4 else x for x in inputs]
                if half:  # of NumPy's types f16 alone has kernels by chunks
                    wide = np.concatenate([x.reshape(2, 70, -1) for x in given[:3]], axis=-1)
                    ends = np.cumsum([x[0, 0].size for x in given[:2]])
                    given[:3] = [x.reshape(2, 70, H, -1) for x in np.split(wide, ends, axis=-1)]
                with self.subTest(op.__name__, half=half):
                    np.testing.assert_array_equal(op(*given), op(*[np.ascontiguousarray(x) for x in given]))

    def test_what_no_kernel_reads_is_copied(self):
        rng = np.random.default_rng(2)
        q, k, v, g, beta = rows(rng, 2, 20)
        want = rule(q, k, v, g, beta)
        apart = np.zeros((2, 20, 2 * H, K), "f4")[:, :, ::2]     # heads apart
        apart[...] = q
        steps_first = np.ascontiguousarray(q.transpose(1, 0, 2, 3)).transpose(1, 0, 2, 3)
        uneven = np.zeros((2, 21, H, K), "f4")[:, :20]           # a row more between sequences
        uneven[...] = q
        odd = np.lib.stride_tricks.as_strided(np.zeros(2 * 20 * (H * K + 1) + 8, "f4"), q.shape,
                                              [4 * 20 * (H * K + 1), 4 * (H * K + 1), 4 * K, 4])  # not by 16
        odd[...] = q
        reverse = np.ascontiguousarray(q[:, ::-1])[:, ::-1]
        for name, other in dict(apart=apart, steps_first=steps_first, uneven=uneven, odd=odd,
                                reverse=reverse).items():
            with self.subTest(name):
                np.testing.assert_array_equal(rule(other, k, v, g, beta), want)
        same = np.broadcast_to(q[:, :1], q.shape)                # rows that are one
        np.testing.assert_array_equal(rule(same, k, v, g, beta),
                                      rule(same.copy(), k, v, g, beta))

    def test_the_interpreter(self):
        q, k, v, g, beta = [x.astype("f8") for x in rows(np.random.default_rng(3), 2, 9)]
        wide = np.concatenate([x.reshape(2, 9, -1) for x in (q, k)], axis=-1)
        views = [x.reshape(2, 9, H, K) for x in np.split(wide, 2, axis=-1)]
        np.testing.assert_array_equal(rule(*views, v, g, beta),
                                      rule(q, k, v, g, beta))


@unittest.skipIf(NO_TORCH, NO_TORCH)
class Torch(unittest.TestCase):

    def rows(self, seed, batch, steps, dtype):
        views = [torch.from_numpy(x) for x in rows(np.random.default_rng(seed), batch, steps)]
        projection = torch.cat([x.flatten(2) for x in views[:3]], -1).to(dtype).requires_grad_()
        parts = projection.split([H * K, H * K, H * V], -1)
        q, k, v = (x.unflatten(-1, (H, -1)) for x in parts)
        return projection, (q, k, v, *[x.contiguous() for x in views[3:]])

    def copies(self, call):
        with torch.profiler.profile() as profile:
            call()
        return [e.name for e in profile.events() if e.name in ("aten::copy_", "aten::contiguous", "aten::clone")]

    def test_no_copy(self):
        for dtype in torch.float32, torch.bfloat16:
            for batch, steps in (2, 40), (3, 1):
                with self.subTest(dtype, steps=steps), torch.no_grad():
                    _, views = self.rows(4, batch, steps, dtype)
                    self.assertFalse(views[0].is_contiguous())
                    call = lambda: rule(*views)  # noqa: B023, E731
                    want = rule(*[x.contiguous() for x in views])
                    self.assertTrue(torch.equal(call(), want))
                    self.assertEqual(self.copies(call), [])

    def test_a_layers_token_copies_its_taps_alone(self):
        total = H * (2 * K + V)
        draw = lambda *shape: torch.randn(*shape, generator=torch.Generator().manual_seed(7))  # noqa: E731
        rest = [draw(total, 1, 4), draw(H), draw(H), draw(V)]
        before = [draw(3, 3, H, C) for C in (K, K, V)]
        for steps in 1, 5:
            _, (q, k, v, *gates) = self.rows(8, 3, steps, torch.float32)
            z = draw(3, steps, H, V)
            call = lambda q, k, v: ejk.ops.gated_delta_net(  # noqa: E731
                q, k, v, z, *gates, *rest, conv_state=before, output_conv_state=True)  # noqa: B023
            with self.subTest(steps=steps), torch.no_grad():
                want = call(q.contiguous(), k.contiguous(), v.contiguous())
                for found, wanted in zip((*call(q, k, v)[:2], *call(q, k, v)[2]), (*want[:2], *want[2])):
                    self.assertTrue(torch.equal(found, wanted))
                self.assertEqual(self.copies(lambda: call(q, k, v)).count("aten::copy_"), 1)  # noqa: B023

    def test_gradients(self):
        for dtype in torch.float32, torch.bfloat16:
            projection, views = self.rows(5, 2, 70, dtype)
            own = [x.detach().contiguous().requires_grad_() for x in views[:3]]
            wide = torch.randn(2, 70, H, 2 * V, dtype=dtype).flatten(2)
            cotangent = wide[..., :H * V].unflatten(-1, (H, V))
            self.assertFalse(cotangent.is_contiguous())
            rule(*views).backward(cotangent)
            rule(*own, *views[3:]).backward(cotangent.contiguous())
            self.assertTrue(torch.equal(projection.grad, torch.cat([x.grad.flatten(2) for x in own], -1)))

    def test_packed_sequences_and_odd_views(self):
        _, views = self.rows(6, 1, 50, torch.float32)
        offsets = torch.tensor([0, 7, 7, 30, 50], dtype=torch.int32)
        dense = [x.contiguous() for x in views]
        with torch.no_grad():
            want = rule(*dense, cu_seqlens=offsets)
            self.assertTrue(torch.equal(rule(*views, cu_seqlens=offsets), want))
            # Heads before steps, one row for all, and an address that no vector load takes.
            q = dense[0]
            odd = torch.empty(q.numel() + 1)[1:].view(q.shape).copy_(q)
            swapped = q.transpose(1, 2).contiguous().transpose(1, 2)
            for other in odd, swapped:
                self.assertTrue(torch.equal(
                    rule(other, *views[1:], cu_seqlens=offsets), want))
            same = q[:, :1].expand_as(q)
            self.assertTrue(torch.equal(rule(same, *dense[1:]),
                                        rule(same.contiguous(), *dense[1:])))


if __name__ == "__main__":
    unittest.main()
