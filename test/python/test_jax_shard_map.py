"""Recurrences inside of a shard_map, some of whose inputs are the same on several devices."""

import os
import unittest

os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "")
                           + " --xla_force_host_platform_device_count=4")
import jax  # noqa: E402
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

import ejk

ENTRIES, HEADS, WHOLE = P("batch"), P("batch", None, "heads"), P()


@ejk.recurrence
def learned(S, q, k, v, w):
    S = S.decay(-ejk.softplus(w)).add(k, v)
    return S, S.read(q)


def packed(q, k, v, g, cu):
    return ejk.ops.simple_gla(q, k, v, g_gamma=g, cu_seqlens=cu)


def gradients(function, count):
    return jax.grad(lambda *a: jnp.sum(jnp.square(function(*a)[0])), argnums=tuple(range(count)))


class ShardMap(unittest.TestCase):
    def setUp(self):
        if len(jax.devices()) < 4:
            self.skipTest("needs four devices")
        self.mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("batch", "heads"))
        q, k, v = np.random.default_rng(0).normal(size=(3, 4, 6, 2, 3)).astype("f4")
        self.rows, self.w = [jnp.asarray(x) for x in (q, k, v)], jnp.ones(2)

    def each(self, function, specs, out, checked=True):
        kwargs = {} if checked else {"check_vma": False}
        return jax.shard_map(function, mesh=self.mesh, in_specs=specs, out_specs=out, **kwargs)

    def close(self, found, wanted):
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)

    def test_gradients_of_what_devices_share(self):
        q, k, v = self.rows
        both, heads = P("batch", "heads"), P("heads")
        for k, out, specs in ((k, (ENTRIES, ENTRIES), (ENTRIES, ENTRIES, ENTRIES, WHOLE)),
                              (k, (HEADS, both), (HEADS, HEADS, HEADS, heads)),
                              (k[:, :, :1], (HEADS, both), (HEADS, ENTRIES, HEADS, heads))):
            arguments = q, k, v, self.w
            for checked in (True, False):
                split = self.each(learned, specs, out, checked)
                with self.subTest(specs=specs, checked=checked):
                    self.close(split(*arguments), learned(*arguments))
                    self.close(gradients(split, 4)(*arguments), gradients(learned, 4)(*arguments))

    def test_integers_that_devices_share(self):
        rows, cu = P(None, None, "heads"), jnp.asarray([0, 2, 6], jnp.int32)
        arguments = [*(x[:1] for x in self.rows), -self.w / 4, cu]
        split = self.each(packed, (rows, rows, rows, P("heads"), WHOLE), (rows, P(None, "heads")))
        self.close(split(*arguments), packed(*arguments))
        self.close(gradients(split, 4)(*arguments), gradients(packed, 4)(*arguments))

    def test_pools_vary_as_the_inputs_do(self):
        rows, heads = P(None, None, "heads"), P(None, "heads")

        def twice(q, k, v, w, pool, slots):
            def step(_, pool):
                return learned(q, k, v, w, pool=pool, read_slots=slots, write_slots=slots)[1]
            return jax.lax.fori_loop(0, 2, step, pool)
        arguments = [*self.rows, self.w, jnp.ones((5, 2, 3, 3)), jnp.asarray([3, 0, 1, 4])]
        split = self.each(twice, (rows, rows, rows, P("heads"), heads, WHOLE), heads)
        self.close([split(*arguments)], [twice(*arguments)])


if __name__ == "__main__":
    unittest.main()
