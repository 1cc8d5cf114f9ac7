"""Arrays that are not plain, in calls from JAX."""

import unittest

import jax
import jax.numpy as jnp
from jax.experimental import sparse

import ejk
import ejk.compat.ejkernel
import test_numpy_arrays
from test_numpy_arrays import ARRAYS, gated

try:
    import torch
except ImportError:
    torch = None


class Kinds(test_numpy_arrays.Kinds):
    own = staticmethod(jnp.asarray)

    def test_kinds_of_jax_that_are_refused(self):
        for kind, make in {"BCOO": sparse.BCOO.fromdense,
                           "ShapeDtypeStruct": lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype),
                           "key<": lambda a: jax.random.key(0),
                           "float8_e4m3fn": lambda a: jnp.asarray(a).astype(jnp.float8_e4m3fn),
                           "complex64": lambda a: a.astype("c8")}.items():
            for place in range(4):
                for own in (jnp.asarray, lambda a: a):
                    with self.subTest(kind, place=place), \
                            self.assertRaisesRegex(ejk.TensorError, kind):
                        gated(*(make(a) if i == place else own(a) for i, a in enumerate(ARRAYS)))

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_tensors_of_two_libraries(self):
        q, k, v, g = ARRAYS
        for first, second in ((jnp.asarray, torch.from_numpy), (torch.from_numpy, jnp.asarray)):
            for call in (gated, lambda *x: ejk.ops.simple_gla(*x)):
                # NumPy's arrays go with either.
                with self.assertRaisesRegex(ejk.TensorError, "'v' and 'k' are tensors of two libraries; convert one"):
                    call(q, first(k), second(v), g)

    def test_donated_buffers(self):
        """XLA may write results where the inputs were."""
        def loss(q, k, v, g):
            return gated(q, k, v, g)[0].sum()
        step = jax.jit(lambda *a: (gated(*a), jax.grad(loss, argnums=(0, 1, 2, 3))(*a)),
                       donate_argnums=(0, 1, 2, 3))
        wanted = gated(*map(jnp.asarray, ARRAYS)), jax.grad(loss, argnums=(0, 1, 2, 3))(
            *map(jnp.asarray, ARRAYS))
        for _ in range(2):
            own = [jnp.array(a) for a in ARRAYS]
            found = step(*own)
            for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted)):
                self.assertLess(float(abs(a - b).max()), 1e-6)
            self.assertTrue(any(a.is_deleted() for a in own))

    def test_a_traced_array_in_the_place_of_a_constant(self):
        q, k, v, _ = map(jnp.asarray, ARRAYS)
        for call in (lambda n: ejk.ops.linear_attn(q, k, v, scale=n)[0].sum(),
                     lambda n: ejk.ops.retention(q, k, v, scale=n)[0].sum(),
                     lambda n: ejk.compat.ejkernel.recurrent(q, k, v, softmax_scale=n)[0].sum()):
            self.assertLess(abs(call(jnp.float32(0.5)) - call(0.5)), 1e-6)
            for transform in (jax.grad, jax.jit):
                with self.assertRaisesRegex(ejk.TensorError, "'scale' is a number of the program.*give scale=1.0"):
                    transform(call)(0.5)


if __name__ == "__main__":
    unittest.main()
