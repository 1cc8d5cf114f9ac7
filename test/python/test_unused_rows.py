"""Rows after the last offset of a packed batch: in no sequence, read by nobody, zero in results."""

import unittest

import numpy as np

try:
    import torch
    NO_TORCH = None
except ImportError as error:
    NO_TORCH = f"torch is not installed ({error})"
try:
    import jax
    import jax.numpy as jnp
    NO_JAX = None
except ImportError as error:
    NO_JAX = f"JAX is not installed ({error})"

import ejk

ROWS, USED, OFFSETS = 45, 33, [0, 10, 10, 33]


def cases():
    """{name: operands} of functions of ejk.ops, NumPy's, in float32."""
    rng = np.random.default_rng(0)

    def rows(*shape):
        return rng.normal(size=(1, ROWS, *shape)).astype(np.float32) / 4
    q, k, v, g, gk = rows(2, 8), rows(2, 8), rows(2, 6), -abs(rows(2)), -abs(rows(2, 8))
    heads = -abs(rng.normal(size=2)).astype(np.float32)
    return {"gla": dict(q=q, k=k[:, :, :1], v=v[:, :, :1], g=gk),
            "simple_gla": dict(q=q, k=k, v=v, g_gamma=heads),
            "gated_delta_rule": dict(q=q, k=k, v=v, g=g, beta=-g),
            "mamba2_ssd": dict(x=v, dt=-g, A=heads, B=k[:, :, :1], C=q[:, :, :1], D=heads),
            "gated_delta_product": dict(q=q, k=np.stack([k, k], 2), v=np.stack([v, v], 2), beta=np.stack([-g, -g], 2),
                                        g=g),
            "mlstm": dict(q=q, k=k, v=v, i=g, f=g)}


def unused(x, value):
    """A tensor over time with `value` in the rows after the last offset."""
    x = x.copy()
    if x.ndim >= 3:
        x[:, USED:] = value
    return x


def short(x):
    return x[:, :USED] if x.ndim >= 3 else x


class NumPy(unittest.TestCase):
    def check(self, dtype):
        cu = np.array(OFFSETS)
        for name, operands in cases().items():
            operands = {n: x.astype(dtype) for n, x in operands.items()}
            for reverse in (False, True):
                found = getattr(ejk.ops, name)(**{n: unused(x, np.nan) for n, x in operands.items()},
                                               cu_seqlens=cu, reverse=reverse)
                wanted = getattr(ejk.ops, name)(**{n: short(x) for n, x in operands.items()},
                                                cu_seqlens=cu, reverse=reverse)
                with self.subTest(name, reverse=reverse):
                    np.testing.assert_array_equal(found[0][:, :USED], wanted[0])
                    np.testing.assert_array_equal(found[0][:, USED:], 0)
                    for a, b in zip(*(r[1] if isinstance(r[1], tuple) else r[1:]
                                      for r in (found, wanted))):
                        np.testing.assert_array_equal(a, b)

    def test_kernels(self):
        self.check(np.float32)

    def test_the_interpreter(self):
        self.check(np.float64)

    def test_offsets_past_the_end_are_an_error(self):
        for dtype in (np.float32, np.float64):
            operands = {n: x.astype(dtype) for n, x in cases()["gated_delta_rule"].items()}
            with self.assertRaisesRegex(ejk.EjkError, "46"):
                ejk.ops.gated_delta_rule(**operands, cu_seqlens=np.array([0, 46]))


@unittest.skipIf(NO_TORCH, NO_TORCH)
class Torch(unittest.TestCase):
    def gradients(self, name, operands, **options):
        own = {n: torch.tensor(x, requires_grad=True) for n, x in operands.items()}
        o, state = getattr(ejk.ops, name)(**own, cu_seqlens=torch.tensor(OFFSETS), **options)
        state = state[0] if isinstance(state, tuple) else state
        weights = torch.arange(float(o.shape[-1]))  # of what comes back, NaN where nobody reads it
        do = torch.cat([(0 * o + weights)[:, :USED], 0 * o[:, USED:] + torch.nan], 1)
        torch.autograd.backward([o, state], [do, torch.ones_like(state)])
        return o.detach(), state.detach(), {n: x.grad for n, x in own.items()}

    def test_results_and_gradients(self):
        for name, operands in cases().items():
            for reverse in (False, True):
                found = self.gradients(name, {n: unused(x, np.nan) for n, x in operands.items()},
                                       reverse=reverse)
                wanted = self.gradients(name, {n: short(x) for n, x in operands.items()},
                                        reverse=reverse)
                with self.subTest(name, reverse=reverse):
                    self.assertTrue(torch.equal(found[0][:, :USED], wanted[0]))
                    self.assertTrue(torch.equal(found[1], wanted[1]))
                    self.assertFalse(found[0][:, USED:].any())
                    for n, gradient in wanted[2].items():
                        own = found[2][n]
                        if own.dim() >= 3:
                            self.assertFalse(own[:, USED:].any(), n)
                            own = own[:, :USED]
                        self.assertTrue(torch.equal(own, gradient), n)


@unittest.skipIf(NO_JAX, NO_JAX)
class Jax(unittest.TestCase):
    def test_results_and_gradients(self):
        cu = jnp.asarray(OFFSETS, jnp.int32)
        for name in ("gla", "gated_delta_rule"):
            operands = cases()[name]

            def loss(own):
                o, state = getattr(ejk.ops, name)(**own, cu_seqlens=cu)
                return (o[:, :USED] ** 2).sum() + state.sum(), o
            (_, o), found = jax.jit(jax.value_and_grad(loss, has_aux=True))(
                {n: jnp.asarray(unused(x, np.nan)) for n, x in operands.items()})
            (_, wanted_o), wanted = jax.value_and_grad(loss, has_aux=True)(
                {n: jnp.asarray(short(x)) for n, x in operands.items()})
            with self.subTest(name):
                np.testing.assert_array_equal(o[:, :USED], wanted_o)
                np.testing.assert_array_equal(o[:, USED:], 0)
                for n, gradient in wanted.items():
                    np.testing.assert_array_equal(found[n][:, :USED], gradient)
                    np.testing.assert_array_equal(found[n][:, USED:], 0)


if __name__ == "__main__":
    unittest.main()
