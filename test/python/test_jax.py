"""Recurrences on JAX's arrays: values, gradients, and JAX's transformations."""

import os
import re
import threading
import unittest
import unittest.mock

# Several devices, for shard_map.
os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "")
                           + " --xla_force_host_platform_device_count=4")
import jax  # noqa: E402
import jax.export
import jax.numpy as jnp
import numpy as np
import reference

import ejk
from ejk import _doors, _jax
from reference import error


@ejk.recurrence
def gated(S, q, k, v, g):
    S = S.decay(g).add(k, v)
    return S, S.read(q)


def arrays(B=2, T=5, H=2, K=4, V=3, seed=0):
    rng = np.random.default_rng(seed)
    q, k = rng.normal(size=(2, B, T, H, K))
    v, g, gk = rng.normal(size=(B, T, H, V)), -rng.random((B, T, H)), -rng.random((B, T, H, K))
    return {n: jnp.asarray(x, jnp.float32) for n, x in dict(q=q, k=k, v=v, g=g, gk=gk).items()}


def scanned(q, k, v, g):
    """`gated` in jnp."""
    def step(S, row):
        q, k, v, g = row
        S = jnp.exp(g)[..., None, None] * S + k[..., :, None] * v[..., None, :]
        return S, jnp.einsum("bhkv,bhk->bhv", S, q)
    rows = [jnp.moveaxis(x, 1, 0) for x in (q, k, v, g)]
    S, o = jax.lax.scan(step, jnp.zeros((*q.shape[:1], *q.shape[2:], v.shape[-1])), rows)
    return jnp.moveaxis(o, 0, 1), S


def recurrent(q, k, v, g=None, g_gamma=None, gk=None, gv=None, scale=None, initial_state=None,
              cu_seqlens=None, reverse=False):
    """The reference in jnp, step by step, so that JAX differentiates it."""
    B, T, H, K = q.shape
    group = H // k.shape[2]
    k, v = (jnp.repeat(x, group, 2) for x in (k, v))
    outputs, states = [[None] * T for _ in range(B)], []
    for n, (b, first, end) in enumerate(reference.sequences(T, cu_seqlens, B)):
        S = jnp.zeros((H, K, v.shape[3])) if initial_state is None else initial_state[n]
        for t in reversed(range(first, end)) if reverse else range(first, end):
            decay = jnp.zeros((H, 1, 1))
            for gate, axes in ((g, (1, 2)), (gk, (2,)), (gv, (1,))):
                if gate is not None:
                    decay = decay + jnp.expand_dims(gate[b, t], axes)
            if g_gamma is not None:
                decay = decay + g_gamma[:, None, None]
            S = jnp.exp(decay) * S + k[b, t, :, :, None] * v[b, t, :, None, :]
            outputs[b][t] = jnp.einsum("hkv,hk->hv", S, q[b, t])
        states.append(S)
    o = jnp.stack([jnp.stack(rows) for rows in outputs])
    return (K ** -0.5 if scale is None else scale) * o, jnp.stack(states)


class Values(unittest.TestCase):
    def test_gradients_of_random_cases(self):
        rng = np.random.default_rng(int(os.environ.get("EJK_TEST_SEED", 0)) + 1000)
        for number in range(int(os.environ.get("EJK_TEST_CASES", 4))):
            case = reference.random_case(rng)
            floats = {n: jnp.asarray(x) for n, x in case.items()
                      if isinstance(x, np.ndarray) and x.dtype == np.float32}
            other = {n: x for n, x in case.items() if n not in floats}
            weights = [rng.normal(size=x.shape) for x in reference.recurrent(**case)]

            def loss(function):
                def of(floats):
                    results = function(**floats, **other)
                    return sum(jnp.sum(r * w) for r, w in zip(results, weights)), results
                return jax.grad(of, has_aux=True)
            found, results = loss(ejk.ops.recurrent)(floats)
            wanted, expected = loss(recurrent)(floats)
            for name, a, b in [*zip(("o", "state"), results, expected),
                               *((n, found[n], wanted[n]) for n in floats)]:
                self.assertLess(error(a, b), 5e-5, f"case {number}, {name} of {list(case)}")


class Jax(unittest.TestCase):
    def setUp(self):
        a = arrays()
        self.arguments = [a[n] for n in ("q", "k", "v", "g")]
        self.gk = a["gk"]

    def test_values_and_jit(self):
        expected = scanned(*self.arguments)
        for function in (gated, jax.jit(gated)):
            o, state = function(*self.arguments)
            self.assertLess(error(o, expected[0]), 1e-5)
            self.assertLess(error(state, expected[1]), 1e-5)
        q, k, v, _ = self.arguments
        o, _ = jax.jit(lambda *a: ejk.ops.gla(*a))(q, k, v, self.gk)
        self.assertLess(error(o, reference.recurrent(q, k, v, gk=self.gk)[0]), 1e-5)

    def test_gradients(self):
        def loss(function):
            def of(*arguments):
                o, state = function(*arguments)
                return jnp.sum(o ** 2) + jnp.sum(jnp.sin(state))
            return of
        expected = jax.grad(loss(scanned), argnums=(0, 1, 2, 3))(*self.arguments)
        found = jax.jit(jax.grad(loss(gated), argnums=(0, 1, 2, 3)))(*self.arguments)
        for a, b in zip(found, expected):
            self.assertLess(error(a, b), 2e-5)

    def test_second_derivative(self):
        q, k, v, _ = self.arguments

        def of(function):
            return jax.grad(lambda q: jnp.sum(jax.grad(
                lambda q: jnp.sum(function(q) ** 2))(q) ** 3))(q)
        g = self.gk
        found = of(lambda q: ejk.ops.gla(q, k, v, g)[0])

        def plain(q):
            def step(S, row):
                q, k, v, g = row
                S = jnp.exp(g)[..., None] * S + k[..., :, None] * v[..., None, :]
                return S, jnp.einsum("bhkv,bhk->bhv", S, q) / 2
            rows = [jnp.moveaxis(x, 1, 0) for x in (q, k, v, g)]
            return jnp.moveaxis(jax.lax.scan(step, jnp.zeros((2, 2, 4, 3)), rows)[1], 0, 1)
        self.assertLess(error(found, of(plain)), 1e-4)

    def test_second_derivative_of_a_step_with_a_parameter(self):
        @ejk.recurrence
        def learned(S, q, k, v, w):
            S = S.decay(-w).add(k, v)
            return S, S.read(q)

        def plain(q, k, v, w):
            return scanned(q, k, v, jnp.broadcast_to(-w, q.shape[:3]))
        q, k, v, _ = self.arguments
        arguments = q, k, v, jnp.asarray([0.5, 0.2])

        def second(function, first, argnums=(0, 1, 2, 3)):
            """Of the first derivative by `first`, of which that by the parameter is not used."""
            def of(*a):
                found = jax.grad(lambda *a: sum(jnp.sum(x ** 2) for x in function(*a)), argnums=first)(*a)
                return sum(jnp.sum(x ** 2) for x, n in zip(found, first) if n != 3)
            return jax.grad(of, argnums=argnums)
        for first in ((0,), (1, 2), (0, 1, 3)):
            with self.subTest(first=first):
                found = jax.jit(second(learned, first))(*arguments)
                for a, b in zip(found, second(plain, first)(*arguments)):
                    self.assertLess(error(a, b), 1e-4)
        with self.assertRaisesRegex(ejk.CompileError, "leave the parameter out"):
            jax.grad(lambda q: jnp.sum(jax.grad(lambda w: jnp.sum(learned(q, k, v, w)[0]))(arguments[3])))(q)

    def test_vmap(self):
        q, k, v, g = self.arguments
        qs = jnp.stack([q, 2 * q, q - 1])
        found = jax.vmap(lambda q: gated(q, k, v, g)[0])(qs)
        for a, b in zip(found, qs):
            self.assertLess(error(a, scanned(b, k, v, g)[0]), 1e-5)
        gammas = jnp.asarray([[-1.0, -2], [-0.5, 0]], jnp.float32)
        found = jax.vmap(lambda g: ejk.ops.simple_gla(q, k, v, g_gamma=g)[0])(gammas)
        for a, b in zip(found, gammas):
            self.assertLess(error(a, reference.recurrent(q, k, v, g_gamma=b)[0]), 1e-5)

    def test_vmap_of_none(self):
        q, k, v, g = self.arguments
        rows = jnp.zeros((0, *q.shape))
        gradient = jax.grad(lambda q: gated(q, k, v, g)[0].sum())
        for each in (jax.vmap(gradient), jax.jit(jax.vmap(gradient))):
            self.assertEqual(each(rows).shape, rows.shape)
        self.assertEqual(jax.vmap(lambda q: gated(q, k, v, g)[0])(rows).shape, (0, *v.shape))
        # Of a parameter, which has no entries of the batch.
        found = jax.vmap(lambda g: ejk.ops.simple_gla(q, k, v, g_gamma=g)[0])(jnp.zeros((0, 2)))
        self.assertEqual(found.shape, (0, *v.shape))

    def test_packed(self):
        a = arrays(B=1)
        cu = jnp.asarray([0, 2, 2, 5], jnp.int32)
        o, state = jax.jit(lambda cu: ejk.ops.simple_gla(a["q"], a["k"], a["v"], a["g"],
                                                         cu_seqlens=cu))(cu)
        expected = reference.recurrent(a["q"], a["k"], a["v"], a["g"], cu_seqlens=np.asarray(cu))
        self.assertLess(error(o, expected[0]), 1e-5)
        self.assertLess(error(state, expected[1]), 1e-5)
        gradient = jax.grad(lambda v: jnp.sum(ejk.ops.simple_gla(
            a["q"], a["k"], v, a["g"], cu_seqlens=cu)[0]))(a["v"])
        self.assertEqual(gradient.shape, a["v"].shape)

    def test_shard_map(self):
        mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("heads",))
        P = jax.sharding.PartitionSpec
        rows, state = P(None, None, "heads"), P(None, "heads")
        split = jax.jit(jax.shard_map(gated, mesh=mesh, in_specs=(rows,) * 4,
                                      out_specs=(rows, state)))
        for a, b in zip(split(*self.arguments), gated(*self.arguments)):
            self.assertLess(error(a, b), 1e-6)
        found = jax.grad(lambda q: jnp.sum(split(q, *self.arguments[1:])[0] ** 2))(
            self.arguments[0])
        wanted = jax.grad(lambda q: jnp.sum(gated(q, *self.arguments[1:])[0] ** 2))(
            self.arguments[0])
        self.assertLess(error(found, wanted), 1e-6)

    def sharded(self, function, arrays, specs, mesh):
        """The jitted function's results on sharded arrays, and the program that XLA makes of it."""
        arrays = [jax.device_put(a, jax.NamedSharding(mesh, s)) for a, s in zip(arrays, specs)]
        compiled = jax.jit(function).lower(*arrays).compile()
        return compiled(*arrays), compiled.as_text()

    def test_sharded_arrays_stay_where_they_are(self):
        mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 2), ("batch", "heads"))
        P = jax.sharding.PartitionSpec
        rows = P("batch", None, "heads")

        def loss(*a):
            o, state = gated(*a)
            return jnp.sum(o ** 2) + jnp.sum(state)
        arguments = [arrays(B=4, H=4)[n] for n in ("q", "k", "v", "g")]
        (o, state), text = self.sharded(gated, arguments, (rows,) * 4, mesh)
        self.assertEqual(o.sharding.spec, rows)
        self.assertEqual(state.sharding.spec, P("batch", "heads"))
        self.assertNotIn("all-gather", text)
        for a, b in zip((o, state), gated(*arguments)):
            self.assertLess(error(a, b), 1e-6)
        gradient = jax.grad(loss, argnums=(0, 1, 2, 3))
        found, text = self.sharded(gradient, arguments, (rows,) * 4, mesh)
        self.assertNotIn("all-gather", text)
        for a, b in zip(found, gradient(*arguments)):
            self.assertLess(error(a, b), 1e-6)

    def test_sharded_gradients_of_what_devices_share(self):
        mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 2), ("batch", "heads"))
        P = jax.sharding.PartitionSpec
        a = arrays(B=4, H=4)
        # Four query heads share two keys, one gate and one number; two heads' rates are shared,
        # too.
        arguments = [a["q"], a["k"][:, :, :2], a["v"][:, :, :2], a["g"][:, :, :1],
                     jnp.asarray([0.5, 0.25]), jnp.asarray(0.7)]
        specs = [P("batch", None, "heads")] * 3 + [P("batch"), P("heads"), P()]

        @ejk.recurrence
        def shared(S, q, k, v, g, rate, scale):
            S = S.decay(g * rate).add(k, v)
            return S, scale * S.read(q)
        gradient = jax.grad(lambda *a: jnp.sum(shared(*a)[0] ** 2), argnums=tuple(range(6)))
        found, text = self.sharded(gradient, arguments, specs, mesh)
        self.assertNotIn("all-gather", text)
        self.assertIn("all-reduce", text)
        for a, b in zip(found, gradient(*arguments)):
            self.assertLess(error(a, b), 1e-5)

    def test_one_axis_of_the_mesh_divides_entries_here_and_heads_there(self):
        mesh = jax.sharding.Mesh(np.array(jax.devices()), ("all",))
        P = jax.sharding.PartitionSpec
        arguments = [arrays(B=4, H=4)[n] for n in ("q", "k", "v", "g")]
        for specs in ((P("all"), P(None, None, "all"), P("all"), P()), (P(None, None, "all"), P("all"), P(), P("all"))):
            results, _ = self.sharded(gated, arguments, specs, mesh)
            for a, b in zip(results, gated(*arguments)):
                self.assertLess(error(a, b), 1e-6)

    def test_more_devices_than_heads_that_are_shared(self):
        a, P = arrays(B=4, H=4), jax.sharding.PartitionSpec
        arguments = [a["q"], a["k"][:, :, :2], a["v"][:, :, :2]]

        def loss(*a):
            o, state = ejk.ops.linear_attn(*a)
            return jnp.sum(o ** 2) + jnp.sum(state)
        for shape, names, axes in ((4, ("heads",), "heads"), ((2, 2), ("a", "b"), ("b", "a"))):
            mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(shape), names)
            for function in (ejk.ops.linear_attn, jax.grad(loss, argnums=(0, 1, 2))):
                found, _ = self.sharded(function, arguments, (P(None, None, axes), P(), P()), mesh)
                for a, b in zip(found, function(*arguments)):
                    self.assertLess(error(a, b), 1e-6)

    def test_heads_with_numbers_are_not_divided(self):
        mesh = jax.sharding.Mesh(np.array(jax.devices()), ("heads",))
        a = arrays(H=4)
        arguments = [a[n] for n in ("q", "k", "v")]
        (o, _), _ = self.sharded(lambda *a: ejk.ops.lightning_attn(*a, 1, 4), arguments,
                                 (jax.sharding.PartitionSpec(None, None, "heads"),) * 3, mesh)
        self.assertLess(error(o, ejk.ops.lightning_attn(*arguments, 1, 4)[0]), 1e-6)

    def test_export(self):
        name = "ejk_call"
        T, = jax.export.symbolic_shape("T")
        def shape(x):
            return jax.ShapeDtypeStruct((x.shape[0], T, *x.shape[2:]), x.dtype)
        exported = jax.export.export(
            jax.jit(gated), disabled_checks=[jax.export.DisabledSafetyCheck.custom_call(name)])(
                *map(shape, self.arguments))
        try:
            again = jax.export.deserialize(exported.serialize())
        except ImportError:  # without flatbuffers JAX has no file format for exports
            again = exported
        for n in (5, 3):
            short = [a[:, :n] for a in self.arguments]
            for a, b in zip(again.call(*short), gated(*short)):
                self.assertLess(error(a, b), 1e-6)

    def test_f64_in_the_interpreter(self):
        wide = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
        with wide(True):
            arguments = [jnp.asarray(np.asarray(a), jnp.float64) for a in self.arguments]
            o, _ = jax.jit(gated)(*arguments)
            self.assertEqual(o.dtype, jnp.float64)
            self.assertLess(error(o, reference.recurrent(*arguments[:3], g=arguments[3],
                                                         scale=1)[0]), 1e-13)

    def test_threads(self):
        expected, results = gated(*self.arguments)[0], []
        call = jax.jit(gated)

        def work():
            for _ in range(20):
                results.append(call(*self.arguments)[0])
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(results), 80)
        self.assertTrue(all(bool((r == expected).all()) for r in results))

    def test_errors(self):
        q, k, v, g = self.arguments
        with self.assertRaisesRegex(ejk.TensorError, "'k'.*T = 5"):
            jax.jit(gated)(q, k[:, :2], v, g)

    def test_vmap_of_a_parameters_gradient(self):
        a = arrays()
        q, k, v, w = (a[n] for n in ("q", "k", "v", "gk"))
        u, qs = jnp.ones((2, 4)), jnp.stack([q, 2 * q])
        gradient = jax.grad(lambda u, q: jnp.sum(ejk.ops.rwkv6(q, k, v, w, u)[0] ** 2))
        found = jax.vmap(gradient, (None, 0))(u, qs)
        wanted = jnp.stack([gradient(u, q) for q in qs])
        self.assertEqual(found.shape, wanted.shape)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)

    def test_the_number_of_heads_is_the_wholes(self):
        mesh = jax.sharding.Mesh(np.array(jax.devices()), ("heads",))

        @ejk.recurrence
        def shared(S, q, k, v):
            S = S.add(k, v)
            return S, S.read(q) / ejk.num_heads(q)
        a = arrays(H=4)
        arguments = [a[n] for n in ("q", "k", "v")]
        (o, _), _ = self.sharded(shared, arguments, (jax.sharding.PartitionSpec(None, None, "heads"),) * 3, mesh)
        self.assertLess(error(o, shared(*arguments)[0]), 1e-6)


class Steps(unittest.TestCase):
    def test_jaxs_functions_in_a_step_are_refused_at_its_line(self):
        q = jnp.ones((1, 2, 1, 4))
        for operation in (jnp.exp, lambda x: jnp.ones(4) * x, lambda x: x == jnp.ones(4)):
            @ejk.recurrence
            def step(S, q):
                operation(q)
                return S.add(q, q), q
            with self.assertRaisesRegex(ejk.TraceError, "test_jax.py:"):
                step(q)


class SavedStates(unittest.TestCase):
    """Functions that are traced for a GPU of sm_90a, and run on this CPU, where a derivative that
    reads saved states computes them: what passes from one to the other is seen, and all
    gradients."""

    def setUp(self):
        def entry(program, name):
            return _doors.find(program, name, (2, 0, 90))
        for name, value in (("_device", lambda: (2, 0)), ("_complete", lambda d: (*d, 90)),
                            ("_entry", entry)):
            patch = unittest.mock.patch.object(_jax, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        # Functions are made again, so that none of other tests is met, nor left for them.
        _jax._function.cache_clear()
        self.addCleanup(_jax._function.cache_clear)

    def arguments(self, B=2, T=128, H=2):
        a = arrays(B=B, T=T, H=H, K=16, V=16)
        return [a[n].astype(jnp.bfloat16) for n in ("q", "k", "v")] + [a["gk"]]

    def loss(self, save_states=True, **options):
        def of(*a):
            o, state = ejk.ops.gla(*a, save_states=save_states, **options)
            return jnp.sum(o.astype(jnp.float32) ** 2) + jnp.sum(jnp.sin(state))
        return of

    def gradient(self, save_states=True, **options):
        return jax.grad(self.loss(save_states, **options), argnums=(0, 1, 2, 3))

    def entries(self, function, *arguments):
        """The entries that a function calls."""
        text = jax.jit(function).lower(*arguments).compile().as_text()
        return sorted(set(re.findall(r'entry = "([^"]*)"', text)))

    def assert_same(self, found, wanted, limit=0):
        for a, b in zip(found, wanted):
            self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype))
            self.assertLessEqual(error(a.astype(jnp.float32), b.astype(jnp.float32)), limit)

    def test_a_derivative_reads_what_the_forward_saved(self):
        a = self.arguments()
        self.assertEqual(self.entries(self.gradient(), *a), ["backward:", "forward:"])
        self.assertEqual(self.entries(self.gradient(False), *a), ["0", "1:"])
        self.assertEqual(self.entries(self.loss(), *a), ["0"])
        self.assert_same(jax.jit(self.gradient())(*a), self.gradient(False)(*a))

    def test_what_is_kept(self):
        # The state before each 64 steps and the last one, beside the inputs and results.
        q, k, v, g = self.arguments()
        program = ejk.ops._resolve("ejk.gla", ("q", "k", "v", "g"), tuple(
            [("bf16", 4, (None, None, None, 16))] * 3 + [("f32", 4, (None, None, None, 16))]), (),
            False, False)
        saving = _jax._function(program, "0", True)
        kept = jax.eval_shape(lambda *a: jax.vjp(saving, *a)[1], q, k, v, g)
        extra = [x for x in jax.tree.leaves(kept) if x.shape not in (q.shape, (2, 2, 16, 16))]
        self.assertEqual([(x.shape, x.dtype) for x in extra], [((6, 2, 16, 16), jnp.float32)])

    def test_batches_whose_entries_have_steps_left_over(self):
        a = self.arguments(T=100)
        self.assertEqual(self.entries(self.gradient(), *a), ["0", "1:"])
        self.assert_same(self.gradient()(*a), self.gradient(False)(*a))

    def test_packed(self):
        a = self.arguments(B=1, T=100)
        cu = jnp.asarray([0, 30, 30, 100], jnp.int32)
        self.assertEqual(self.entries(self.gradient(cu_seqlens=cu), *a), ["backward:", "forward:"])
        self.assert_same(self.gradient(cu_seqlens=cu)(*a), self.gradient(False, cu_seqlens=cu)(*a))

    def test_second_derivative(self):
        a = self.arguments(B=1)

        def second(save_states):
            def of(*a):
                return sum(jnp.sum(x.astype(jnp.float32) ** 2)
                           for x in self.gradient(save_states)(*a))
            return jax.grad(of, argnums=(0, 1, 2, 3))
        self.assert_same(jax.jit(second(True))(*a), jax.jit(second(False))(*a), 1e-2)

    def test_vmap(self):
        q, k, v, g = self.arguments(B=1)
        qs = jnp.stack([q, 2 * q, q - 1])

        def each(save_states):
            return jax.vmap(lambda q: self.gradient(save_states)(q, k, v, g))
        text = jax.jit(each(True)).lower(qs).compile().as_text()
        self.assertEqual(text.count('custom_call_target="ejk_call"'), 2)  # of one longer batch
        self.assertIn("backward:", text)
        self.assert_same(each(True)(qs), each(False)(qs))
        # Of the derivative alone: its batch shares the states.
        o, pull = jax.vjp(lambda *a: ejk.ops.gla(*a)[0], q, k, v, g)
        _, plain = jax.vjp(lambda *a: ejk.ops.gla(*a, save_states=False)[0], q, k, v, g)
        do = jnp.stack([o, 2 * o])
        self.assert_same(jax.vmap(pull)(do), jax.vmap(plain)(do))

    @unittest.skipUnless(hasattr(jax.sharding, "auto_axes"), "this JAX has no explicit sharding")
    def test_explicit_sharding(self):
        mesh = jax.make_mesh((2, 2), ("batch", "heads"), (jax.sharding.AxisType.Explicit,) * 2)
        a = self.arguments()
        rows = jax.NamedSharding(mesh, jax.sharding.PartitionSpec("batch", None, "heads"))
        own = [jax.device_put(x, rows) for x in a]
        with jax.set_mesh(mesh):
            found = jax.jit(self.gradient())(*own)
            self.assertEqual(self.entries(self.gradient(), *own), ["backward:", "forward:"])
        self.assertEqual([jax.typeof(x) for x in found], [jax.typeof(x) for x in own])
        self.assert_same(map(np.asarray, found), map(np.asarray, self.gradient(False)(*a)))

    def test_sharded_arrays(self):
        mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 2), ("batch", "heads"))
        sharding = jax.NamedSharding(mesh, jax.sharding.PartitionSpec("batch", None, "heads"))
        a = self.arguments(B=4, H=4)
        apart = [jax.device_put(x, sharding) for x in a]
        compiled = jax.jit(self.gradient()).lower(*apart).compile()
        self.assertNotIn("all-gather", compiled.as_text())
        self.assertIn("backward:", compiled.as_text())
        self.assert_same(compiled(*apart), self.gradient(False)(*a), 1e-6)


if __name__ == "__main__":
    unittest.main()
