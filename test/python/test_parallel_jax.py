"""Recurrences over the devices of a mesh's axis, four of a CPU's."""

import os
import unittest

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS",
                                         "") + " --xla_force_host_platform_device_count=4"
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, PartitionSpec as P  # noqa: E402

import ejk  # noqa: E402
import ejk.parallel.jax as parallel  # noqa: E402

LIMIT = 1e-6  # of the norm, in float32; sums over time are in another order
PACKED = [0, 5, 5, 21, 40]  # the third sequence goes on over a cut, the second is empty
SHARED = ("initial_state", "g_gamma", "A", "D")


def case(name, packed, T=40, H=2, K=8, V=4):
    rng = np.random.default_rng(3)
    B = 1 if packed else 2

    def normal(*shape):
        return jnp.asarray(rng.normal(size=(B, T, *shape)), jnp.float32)

    def gate(*shape):
        return jnp.asarray(-0.3 * rng.random((B, T, *shape)), jnp.float32)
    q, k, v = normal(H, K), normal(H, K), normal(H, V)
    k = k / jnp.linalg.norm(k, axis=-1, keepdims=True)
    beta = jnp.asarray(rng.random((B, T, H)), jnp.float32)
    tensors = {"gla": lambda: dict(q=q, k=k, v=v, g=gate(H, K)),
               "simple_gla": lambda: dict(q=q, k=k, v=v, g=gate(H)),
               "recurrent": lambda: dict(q=q, k=k, v=v, g=gate(H), gk=gate(H, K), gv=gate(H, V),
                                         g_gamma=jnp.asarray([-0.1, -0.3])),
               "delta_rule": lambda: dict(q=q, k=k, v=v, beta=beta),
               "gated_delta_rule": lambda: dict(q=q, k=k, v=v, g=gate(H), beta=beta),
               "kda": lambda: dict(q=q, k=k, v=v, g=gate(H, K), beta=beta),
               "mamba2_ssd": lambda: dict(x=v, dt=beta, A=-jnp.asarray(rng.random(H), jnp.float32),
                                          B=k[:, :, :1], C=q[:, :, :1],
                                          D=jnp.asarray(rng.random(H), jnp.float32))}[name]()
    N = len(PACKED) - 1 if packed else B
    tensors["initial_state"] = jnp.asarray(rng.normal(size=(N, H, K, V)), jnp.float32)
    return tensors, ({"cu_seqlens": jnp.asarray(PACKED, jnp.int32)} if packed else {})


def error(a, b):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-3)


class ShardMap(unittest.TestCase):
    def check(self, name, packed, cu=None, limit=LIMIT, kind=jnp.float32, key_heads=None, **constants):
        tensors, options = case(name, packed)
        options |= constants
        tensors |= {n: tensors[n][:, :, :key_heads] for n in "qk" if n in tensors}
        if cu is not None:
            options = {"cu_seqlens": jnp.asarray(cu, jnp.int32)}
            tensors = {n: t if n in SHARED else t.at[:, cu[-1]:].set(jnp.nan)
                       for n, t in tensors.items()}
        tensors = {n: t.astype(kind) if n in ("q", "k", "v", "x", "B", "C") else t
                   for n, t in tensors.items()}
        mesh = Mesh(np.array(jax.devices()[:4]), ("time",))
        specs = {n: P() if n in SHARED else P(None, "time") for n in tensors}

        def whole(tensors):
            return getattr(ejk.ops, name)(**tensors, **options)

        def local(tensors):
            o, state = getattr(parallel, name)(**tensors, **options, axis="time")
            return o, jax.lax.psum(state, "time")
        cut = jax.shard_map(local, mesh=mesh, in_specs=(specs,), out_specs=(P(None, "time"), P()))
        found, pull = jax.vjp(jax.jit(cut), tensors)
        wanted, pull_wanted = jax.vjp(whole, tensors)
        rng = np.random.default_rng(5)
        cotangents = tuple(jnp.asarray(rng.normal(size=x.shape), x.dtype) for x in wanted)
        (gradients,), (expected,) = pull(cotangents), pull_wanted(cotangents)
        for what, a, b in [("o", found[0], wanted[0]), ("state", found[1], wanted[1]),
                           *((n, gradients[n], expected[n]) for n in tensors)]:
            self.assertEqual(a.dtype, b.dtype, (name, packed, what))
            self.assertLessEqual(error(a, b), limit, (name, packed, what))

    def test_batches(self):
        for name in ("gla", "simple_gla", "mamba2_ssd", "delta_rule", "gated_delta_rule", "recurrent", "kda"):
            with self.subTest(name):
                self.check(name, False)

    def test_fewer_query_and_key_heads(self):
        for name, packed in (("gated_delta_rule", False), ("kda", True)):
            self.check(name, packed, key_heads=1)

    def test_a_bound_of_gates(self):
        for packed in (False, True):
            self.check("kda", packed, lower_bound=-0.2)

    def test_packed_sequences_across_cuts(self):
        for name in ("gla", "simple_gla", "mamba2_ssd", "gated_delta_rule", "recurrent", "kda"):
            with self.subTest(name):
                self.check(name, True)

    def test_empty_sequences_at_cuts(self):
        """Devices have 10 rows each. A sequence without rows keeps its initial state, wherever it lies."""
        for cu in ([0, 10, 10, 21, 40], [0, 0, 20, 20, 40], [0, 10, 21, 40, 40], [0, 30, 30, 30, 30],
                   [0, 0, 0, 0, 40], [0, 40, 40, 40, 40], [0, 0, 20, 40, 40], [0, 0, 0, 33, 33]):
            for name in ("simple_gla", "gated_delta_rule"):
                with self.subTest(name, cu=cu):
                    self.check(name, True, cu)

    def test_types_of_a_model(self):
        """Activations in bfloat16, gates in float32: as the uncut call, up to a rounding."""
        for name in ("gla", "mamba2_ssd", "gated_delta_rule"):
            with self.subTest(name):
                self.check(name, False, limit=2 ** -8, kind=jnp.bfloat16)

    def test_rows_after_the_last_offset(self):
        for name in ("gla", "mamba2_ssd", "gated_delta_rule"):
            for cu in ([0, 5, 5, 21, 33], [0, 5, 5, 11, 17]):  # the last devices have none
                with self.subTest(name, cu=cu):
                    self.check(name, True, cu)

    def forward(self, name, tensors, **options):
        mesh = Mesh(np.array(jax.devices()[:4]), ("time",))
        specs = {n: P() if n in (*SHARED, "dt_bias") else P(None, "time") for n in tensors}

        def local(tensors):
            o, state = getattr(parallel, name)(**tensors, **options, axis="time")
            return o, jax.lax.psum(state, "time")
        cut = jax.shard_map(local, mesh=mesh, in_specs=(specs,), out_specs=(P(None, "time"), P()))
        for a, b in zip(jax.jit(cut)(tensors), getattr(ejk.ops, name)(**tensors, **options)):
            self.assertLessEqual(error(a, b), LIMIT, name)

    def test_an_axis_that_entries_are_divided_by(self):
        tensors, _ = case("simple_gla", False)
        del tensors["initial_state"], tensors["g"]
        tensors["g_gamma"] = jnp.asarray([-0.1, -0.3])
        specs = {n: P() if n in SHARED else P("batch", "time") for n in tensors}
        cut = jax.shard_map(lambda tensors: parallel.simple_gla(**tensors, axis="time")[0], in_specs=(specs,),
                            mesh=Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("batch", "time")),
                            out_specs=P("batch", "time"))

        def gradients(function):
            return jax.grad(lambda tensors: jnp.square(function(tensors)).sum())(tensors)
        found, wanted = gradients(cut), gradients(lambda tensors: ejk.ops.simple_gla(**tensors)[0])
        for n in tensors:
            self.assertLessEqual(error(found[n], wanted[n]), LIMIT, n)

    def test_two_gates_of_key_channels(self):
        for packed in (False, True):
            tensors, options = case("recurrent", packed)
            tensors["g"] = tensors["gk"] / 2
            self.forward("recurrent", tensors, **options)

    def test_a_bias_of_dt(self):
        for packed in (False, True):
            for softplus in (False, True):
                tensors, options = case("mamba2_ssd", packed)
                tensors["dt_bias"] = jnp.asarray([0.3, 0.6])
                self.forward("mamba2_ssd", tensors, dt_softplus=softplus, **options)

    def test_float64(self):
        with jax.enable_x64(True):
            for name in ("gla", "recurrent", "mamba2_ssd", "gated_delta_rule"):
                for packed in (False, True):
                    tensors, options = case(name, packed)
                    for dtype in (jnp.float32, jnp.float64):  # rows in float32 where others may be in float64
                        given = {n: t.astype(dtype) for n, t in tensors.items()}
                        self.forward(name, given, **options)
                        del given["initial_state"]
                        self.forward(name, given, **options)

    def test_no_initial_state_and_a_scale(self):
        for name in ("recurrent", "gla", "simple_gla", "delta_rule", "gated_delta_rule", "kda"):
            for packed in (False, True):
                tensors, options = case(name, packed)
                del tensors["initial_state"]
                self.forward(name, tensors, scale=0.7, **options)

    def test_what_is_refused(self):
        x, number = jnp.ones((2, 8, 4, 4)), jnp.ones((2, 8, 4))
        cu = jnp.asarray([0, 8])
        for message, call in (
                ("packed sequences have a batch of 1, but 'k' has 2",
                 lambda: parallel.recurrent(x, x, x, cu_seqlens=cu, axis="time")),
                ("'q', 'k' and 'v' must have as many heads; repeat them before, but they have 4, 2, 4",
                 lambda: parallel.recurrent(x, x[:, :, :2], x, axis="time")),
                (r"'g_gamma' must be \[H\], but is \[2, 4\]",  # heads as channels would be of the right shape
                 lambda: parallel.recurrent(x, x, x, g_gamma=number[:, 0], axis="time")),
                ("'q' and 'k' must have as many heads, which divide v's 4, but have 3 and 3",
                 lambda: parallel.delta_rule(x[:, :, :3], x[:, :, :3], x, number, axis="time"))):
            with self.assertRaisesRegex(ejk.TensorError, message):
                call()


if __name__ == "__main__":
    unittest.main()
