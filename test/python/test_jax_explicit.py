"""Arrays whose types say how they are sharded: what jax.make_mesh gives by default."""

import contextlib
import os
import unittest

os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "")
                           + " --xla_force_host_platform_device_count=4")
import jax  # noqa: E402
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

import ejk

SPECS = {"batch": [P("data")] * 4 + [P()], "heads": [P(None, None, "model")] * 4 + [P("model")],
         "both": [P("data", None, "model")] * 4 + [P("model")],
         "one": [P(), P(), P("data"), P(), P()], "time": [P(None, "data")] * 4 + [P()],
         "channels": [P(None, None, None, "model")] * 3 + [P(), P()],
         "one axis for both": [P("data"), P(None, None, "data"), P(), P(), P()],
         "none": [P()] * 5}
# (o, state)
RESULTS = {"batch": (P("data", None, None, None),) * 2, "one": (P("data", None, None, None),) * 2,
           "heads": (P(None, None, "model", None), P(None, "model", None, None)),
           "both": (P("data", None, "model", None), P("data", "model", None, None)),
           "one axis for both": (P("data", None, None, None),) * 2}
WHOLE = (P(None, None, None, None),) * 2


@ejk.recurrence
def gated(S, q, k, v, g, A):
    S = S.decay(g * A).add(k, v)
    return S, S.read(q)


def named(q, k, v, g, A):
    return ejk.ops.gated_delta_rule(q, k / 8, v, g * jnp.exp(A), jax.nn.sigmoid(g))


def gradients(function, arguments=(0, 1, 2, 3, 4)):
    def loss(*a):
        o, state = function(*a)
        return jnp.square(o).sum() + state.sum()
    return jax.grad(loss, argnums=arguments)


@unittest.skipUnless(hasattr(jax.sharding, "auto_axes"), "this JAX has no explicit sharding")
class Explicit(unittest.TestCase):
    def setUp(self):
        if len(jax.devices()) < 4:
            self.skipTest("needs four devices")
        explicit = (jax.sharding.AxisType.Explicit,) * 2
        self.mesh = jax.make_mesh((2, 2), ("data", "model"), explicit)
        rng = np.random.default_rng(0)
        q, k, v = rng.normal(size=(3, 4, 6, 4, 8)).astype("f4")
        self.plain = [jnp.asarray(x) for x in (q, k, v, -rng.random((4, 6, 4)).astype("f4"),
                                               rng.random(4).astype("f4"))]

    def sharded(self, name):
        return [jax.device_put(x, NamedSharding(self.mesh, s))
                for x, s in zip(self.plain, SPECS[name])]

    def close(self, found, wanted):
        for a, b in zip(found, wanted):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)

    def test_results_and_gradients_have_the_types_of_jnps(self):
        def check(name, function, context):
            own = self.sharded(name)
            with self.subTest(name, function=function), context:
                found = jax.jit(function)(*own)
                self.assertEqual(tuple(jax.typeof(x).sharding.spec for x in found),
                                 RESULTS.get(name, WHOLE))
                self.close(found, function(*self.plain))
                found = jax.jit(gradients(function))(*own)
                self.assertEqual([jax.typeof(x) for x in found], [jax.typeof(x) for x in own])
                self.close(found, jax.jit(gradients(function))(*self.plain))
        for name in SPECS:
            check(name, gated, jax.set_mesh(self.mesh))
        check("both", gated, contextlib.nullcontext())
        check("both", named, jax.set_mesh(self.mesh))

    def test_without_jit(self):
        own = self.sharded("both")
        with jax.set_mesh(self.mesh):
            self.close(gated(*own), gated(*self.plain))
            self.close(gradients(gated)(*own), gradients(gated)(*self.plain))

    def test_vmap_and_second_derivatives(self):
        own = self.sharded("both")

        def twice(*a):
            first = gradients(lambda *b: ejk.ops.simple_gla(*b, a[3]), (0, 1, 2))
            return jax.grad(lambda *b: sum(jnp.square(x).sum() for x in first(*b)),
                            argnums=(0, 1, 2))(*a[:3])
        each = jax.vmap(gated, in_axes=(0, None, None, None, None))
        stack = jax.jit(lambda q: jnp.stack([q, 2 * q, -q]))
        with jax.set_mesh(self.mesh):
            found = jax.jit(each)(stack(own[0]), *own[1:])
            second = jax.jit(twice)(*own)
        self.assertEqual(jax.typeof(found[0]).sharding.spec, P(None, "data", None, "model", None))
        self.close(found, each(stack(self.plain[0]), *self.plain[1:]))
        self.close(second, twice(*self.plain))

    def test_inside_of_a_shard_map(self):
        own, q = self.sharded("both"), P("data", None, "model")
        with jax.set_mesh(self.mesh):
            for axes in ({"data", "model"}, {"data"}):
                specs = [P(*(a if a in axes else None for a in s)) for s in [q] * 4 + [P("model")]]
                f = jax.jit(jax.shard_map(lambda *a: gated(*a)[0], in_specs=tuple(specs),
                                          out_specs=specs[0], axis_names=axes))
                self.close([f(*own)], gated(*self.plain)[:1])


class Forward(unittest.TestCase):
    def test_a_derivative_in_forward_mode_is_an_error(self):
        rng = np.random.default_rng(0)
        q, k, v = jnp.asarray(rng.normal(size=(3, 1, 4, 2, 4)), jnp.float32)

        def function(q):
            return ejk.ops.linear_attn(q, k, v)[0].sum()
        for f in (function, jax.grad(function)):
            with self.assertRaisesRegex(TypeError, "forward-mode|jvp"):
                jax.jvp(f, (q,), (q,))


if __name__ == "__main__":
    unittest.main()
