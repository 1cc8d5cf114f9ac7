"""States in a pool from PyTorch, fla's keywords and JAX."""

import itertools
import pathlib
import re
import unittest
import warnings

import numpy as np
from reference import error
from test_pools import F32, H, K, NO_TORCH, V, by_steps, delta, make_pool, rows, turned

import ejk
import ejk.serving

if not NO_TORCH:
    import torch
try:
    import jax
    import jax.numpy as jnp
    NO_JAX = None
except ImportError as absent:
    NO_JAX = f"JAX is not installed ({absent})"


@unittest.skipIf(NO_TORCH, NO_TORCH)
class Torch(unittest.TestCase):

    def case(self, value_major=True, apart=8, count=3):
        rng = np.random.default_rng(7)
        inputs = [torch.from_numpy(x) for x in rows(rng, count, 1)]
        memory = torch.from_numpy(rng.normal(size=(9, H * K * V + apart)).astype("f4"))
        shape = (9, H, V, K) if value_major else (9, H, K, V)
        pool = torch.as_strided(memory, shape, (H * K * V + apart, K * V, shape[3], 1))
        slots = torch.tensor([4, 0, 7][:count], dtype=torch.int32)
        return inputs, pool, slots

    def expect(self, inputs, before, slots, pool, o):
        for n, slot in enumerate(slots.tolist()):
            expected, states = by_steps([x[n].numpy() for x in inputs],
                                        before[slot].transpose(-1, -2).numpy())
            self.assertLess(error(o[n].numpy(), expected), F32)
            self.assertLess(error(pool[slot].transpose(-1, -2).numpy(), states[-1]), F32)

    def test_in_place(self):
        inputs, pool, slots = self.case()
        before = pool.clone()
        o, same = delta(*inputs, pool=pool, read_slots=slots, write_slots=slots, value_major=True)
        self.assertIs(same, pool)
        self.expect(inputs, before, slots, pool, o)
        self.assertTrue(torch.equal(pool[1:4], before[1:4]))

    def test_a_tangent_is_an_error(self):
        """torch would drop it."""
        inputs, pool, slots = self.case()
        before = pool.clone()
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(inputs[0], torch.ones_like(inputs[0]))
            for write in (slots, None):
                with self.assertRaisesRegex(ejk.EjkError, "forward mode"):
                    delta(dual, *inputs[1:], pool=pool, read_slots=slots, write_slots=write, value_major=True)
        self.assertTrue(torch.equal(pool, before))

    def test_column_of_a_table(self):
        inputs, pool, slots = self.case()
        before = pool.clone()
        table = torch.stack([slots, slots + 1, slots + 1], 1)
        column = table[:, 0]
        o, _ = delta(*inputs, pool=pool, read_slots=column, write_slots=column, value_major=True)
        self.expect(inputs, before, slots, pool, o)

    def test_compiled(self):
        inputs, pool, slots = self.case(apart=0)

        def layer(pool, slots, *inputs):
            o, pool = delta(*inputs, pool=pool, read_slots=slots, write_slots=slots,
                            value_major=True)
            return o * 2.0, pool.sum()
        for backend in ("eager", "aot_eager"):
            with self.subTest(backend=backend):
                torch._dynamo.reset()
                mine, before = pool.clone(), pool.clone()
                run = torch.compile(layer, fullgraph=True, backend=backend)
                o, total = run(mine, slots, *inputs)
                self.expect(inputs, before, slots, mine, o / 2)
                # What is computed after the call sees the new states.
                self.assertLess(abs(total - mine.sum()), 1e-2)

    def test_declared(self):
        inputs, pool, slots = self.case(apart=0)
        from ejk._program import by_key
        program = delta.program(*inputs, pool=pool, read_slots=slots, write_slots=slots,
                                value_major=True)
        self.assertIs(by_key(program.key), program)
        torch.library.opcheck(torch.ops.ejk.call_in_pools.default,
                              (program.key, "0", [*inputs, slots],
                               [torch.empty_like(inputs[0]), pool.clone()]))

    def test_page(self):
        page = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "serving.md").read_text()
        given = {}
        exec(re.search(r"```python\n(.*?)```", page, re.S)[1], given)
        self.assertFalse(given["o"][2].any())
        changed = [i for i, slot in enumerate(given["pool"]) if slot.any()]
        self.assertEqual(changed, [2, 5])

    def test_no_derivative(self):
        inputs, pool, slots = self.case()
        inputs[0].requires_grad_()
        with self.assertRaisesRegex(ejk.EjkError, "no derivative.*no_grad"):
            delta(*inputs, pool=pool, read_slots=slots, write_slots=slots, value_major=True)
        with torch.no_grad():
            delta(*inputs, pool=pool, read_slots=slots, write_slots=slots, value_major=True)
        inputs[0].requires_grad_(False)
        with self.assertRaisesRegex(ejk.EjkError, "no derivative.*no_grad"):
            delta(*inputs, pool=pool.clone().requires_grad_(), read_slots=slots, write_slots=slots, value_major=True)
        with torch.inference_mode():
            delta(*inputs, pool=pool, read_slots=slots, write_slots=slots, value_major=True)

    def test_no_vmap(self):
        rows, slots = torch.zeros(2, 3, 1, 2, 4), torch.arange(3)
        pool = torch.zeros(4, 2, 4, 4)
        with torch.no_grad(), self.assertRaisesRegex(ejk.EjkError, "no batch of vmap.*as more sequences"):
            torch.vmap(lambda q: ejk.ops.linear_attn(q, q, q, pool=pool, read_slots=slots, write_slots=slots)[0])(rows)

    def test_slots_that_lie_apart_in_f64(self):
        # The interpreter takes them side by side, and puts them back where they were.
        inputs, pool, slots = self.case(apart=0)
        inputs = [x.double() for x in inputs]
        dense = pool.double().contiguous()
        memory = torch.full((len(dense), dense[0].numel() + 6), 7.0, dtype=torch.float64)
        apart = memory.as_strided(dense.shape, (memory.stride(0), *dense.stride()[1:]))
        apart.copy_(dense)
        wanted, _ = delta(*inputs, pool=dense, read_slots=slots, write_slots=slots, value_major=True)
        found, _ = delta(*inputs, pool=apart, read_slots=slots, write_slots=slots, value_major=True)
        self.assertTrue(torch.equal(found, wanted))
        self.assertTrue(torch.equal(apart, dense))
        self.assertTrue((memory[:, -6:] == 7.0).all())

    def test_refused(self):
        inputs, pool, slots = self.case()
        with self.assertRaisesRegex(ejk.TensorError, "but 'pool' has slots that are not dense"):
            delta(*inputs, pool=pool.transpose(-1, -2).contiguous().transpose(-1, -2),
                  read_slots=slots, write_slots=slots, value_major=True)

    def test_float64(self):
        inputs, pool, slots = self.case()
        inputs, exact = [x.double() for x in inputs], pool.double()
        before = exact.clone()
        delta(*inputs, pool=exact, read_slots=slots, write_slots=slots, value_major=True)
        _, states = by_steps([x[1].numpy() for x in inputs], before[0].transpose(-1, -2).numpy())
        self.assertLess(error(exact[0].transpose(-1, -2).numpy(), states[-1]), 1e-12)


@unittest.skipIf(NO_TORCH, NO_TORCH)
class Fla(unittest.TestCase):
    """The keywords of fla's kernels and of servers' copies of them."""

    def setUp(self):
        from ejk.compat import fla
        rng = np.random.default_rng(2)

        def normal(*shape):
            return torch.from_numpy(rng.normal(size=shape).astype("f4"))
        self.fla, self.normal = fla, normal
        self.q, self.k = normal(2, 4, 2, K), normal(2, 4, 2, K)
        self.v, self.g, self.beta = normal(2, 4, H, V), -abs(normal(2, 4, H)), normal(2, 4, H).sigmoid()
        self.pool = normal(9, H, V, K)

    def call(self, function, rows=slice(None), **options):
        own = [x[:, rows] for x in (self.q, self.k, self.v, self.g)]
        gate = dict(g=own.pop())
        if "kda" in function:
            gate = dict(g=gate["g"][..., None].expand(-1, -1, -1, K))
        return getattr(self.fla, function)(*own, beta=self.beta[:, rows], **gate, state_v_first=True,
                                           use_qk_l2norm_in_kernel=True, **options)

    def test_in_place(self):
        slots = torch.tensor([5, 2])
        for name, function in itertools.product(
                ("ssm_state_indices", "initial_state_indices"),
                ("fused_recurrent_gated_delta_rule", "chunk_gated_delta_rule", "fused_recurrent_kda",
                 "chunk_kda")):
            with self.subTest(function=function, name=name):
                pool = self.pool.clone()
                expected, ht = self.call(function, initial_state=pool[slots],
                                         output_final_state=True)
                o, same = self.call(function, initial_state=pool, **{name: slots})
                self.assertIs(same, pool)
                self.assertLess(error(o.numpy(), expected.numpy()), F32)
                self.assertLess(error(pool[slots].numpy(), ht.numpy()), F32)
                self.assertTrue(torch.equal(pool[[0, 1, 3]], self.pool[[0, 1, 3]]))

    def test_not_in_place(self):
        # The first slot and the last one have states as others do; an index below 0 stands for none.
        last = len(self.pool) - 1
        functions = ("chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule", "chunk_kda", "fused_recurrent_kda")
        for function, slots, dtype in itertools.product(
                functions, ((5, -1), (0, last), (last, 0), (-1, 0), (0, 0), (-1, -9)), (torch.int32, torch.int64)):
            name = "initial_state_indices" if function.startswith("chunk") else "ssm_state_indices"
            with self.subTest(function, slots=slots, dtype=dtype):
                pool = self.pool.clone()
                o, ht = self.call(function, initial_state=pool, inplace_final_state=False, output_final_state=True,
                                  **{name: torch.tensor(slots, dtype=dtype)})
                self.assertTrue(torch.equal(pool, self.pool))
                start = torch.stack([pool[i] if i >= 0 else torch.zeros_like(pool[0]) for i in slots])
                expected, state = self.call(function, initial_state=start, output_final_state=True)
                self.assertTrue(torch.equal(o, expected) and torch.equal(ht, state))

    def test_accepted(self):
        table = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]], dtype=torch.int32)
        accepted = torch.tensor([3, 1], dtype=torch.int32)
        pool = self.pool.clone()
        o, _ = self.call("fused_recurrent_gated_delta_rule", initial_state=pool,
                         ssm_state_indices=table, num_accepted_tokens=accepted)
        start = self.pool[[3, 5]]
        for t in range(1, 5):
            expected, ht = self.call("fused_recurrent_gated_delta_rule", slice(0, t),
                                     initial_state=start, output_final_state=True)
            self.assertLess(error(pool[table[:, t - 1].long()].numpy(), ht.numpy()), F32)
        self.assertLess(error(o.numpy(), expected.numpy()), F32)

    def test_refused(self):
        with self.assertRaisesRegex(NotImplementedError, "num_accepted_tokens"):
            self.call("fused_recurrent_kda", num_accepted_tokens=torch.ones(2, dtype=torch.int32))
        with self.assertRaisesRegex(ValueError, "the pool"):
            self.call("fused_recurrent_kda", ssm_state_indices=torch.tensor([1, 2]))


@unittest.skipIf(NO_JAX, NO_JAX)
class Jax(unittest.TestCase):

    def test_functional_and_donated(self):
        rng = np.random.default_rng(7)
        inputs, pool = [jnp.asarray(x) for x in rows(rng, 2, 1)], make_pool(rng, 6, True)[1]
        slots = jnp.array([4, 1], jnp.int32)

        def layer(pool, slots, *inputs):
            return delta(*inputs, pool=pool, read_slots=slots, write_slots=slots, value_major=True)
        for run in (layer, jax.jit(layer), jax.jit(layer, donate_argnums=0)):
            given = jnp.asarray(pool.copy())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                o, new = run(given, slots, *inputs)
            for n, slot in enumerate((4, 1)):
                expected, states = by_steps([np.asarray(x)[n] for x in inputs],
                                            turned(pool[slot], True))
                self.assertLess(error(np.asarray(o)[n], expected), F32)
                self.assertLess(error(turned(np.asarray(new)[slot], True), states[-1]), F32)
            others = [0, 2, 3, 5]
            np.testing.assert_array_equal(np.asarray(new)[others], pool[others])
            if run is layer:
                np.testing.assert_array_equal(np.asarray(given), pool)

    def test_transformations_are_refused(self):
        rng = np.random.default_rng(7)
        inputs, pool = [jnp.asarray(x) for x in rows(rng, 2, 1)], jnp.asarray(make_pool(rng, 6, True)[1])
        slots = jnp.array([4, 1], jnp.int32)
        for written in ({}, {"write_slots": slots}):
            def loss(q, pool, written=written):
                return jnp.sum(delta(q, *inputs[1:], pool=pool, read_slots=slots, value_major=True, **written)[0])
            for number in (0, 1):
                for wrap in (lambda f: f, jax.jit):
                    with self.assertRaisesRegex(ejk.EjkError, "with a pool has no derivative, and an array needs one"):
                        wrap(jax.grad(loss, argnums=number))(inputs[0], pool)
            with self.assertRaisesRegex(ejk.EjkError, "no batch of vmap.*as more sequences"):
                jax.vmap(loss, (0, None))(jnp.stack([inputs[0]] * 2), pool)
            # Of what is no array of the call.
            found = jax.grad(lambda x: x * loss(jax.lax.stop_gradient(x * inputs[0]), pool))(1.0)
            self.assertAlmostEqual(float(found), float(loss(inputs[0], pool)), 5)

    def test_donated_pools_have_no_copy(self):
        rng = np.random.default_rng(7)
        inputs, pool = [jnp.asarray(x) for x in rows(rng, 2, 1)], jnp.asarray(make_pool(rng, 6, True)[1])
        slots = jnp.array([4, 1], jnp.int32)
        text = jax.jit(lambda pool: delta(*inputs, pool=pool, read_slots=slots, write_slots=slots, value_major=True),
                       donate_argnums=0).lower(pool).compile().as_text()
        self.assertIn("output_to_operand_aliasing", text)
        self.assertNotRegex(text, r"\bcopy\(")

    def test_serving(self):
        # The arrays do not change, so the new pool is a result; NumPy's changes in its place.
        rng = np.random.default_rng(7)
        q, k, v = rng.normal(size=(3, 2, 1, H, K)).astype("f4")
        g, beta, rate = (x.astype("f4") for x in (rng.normal(size=(2, 1, H, K)), rng.random((2, 1, H)),
                                                  rng.random(H)))
        slots = np.array([4, 1], np.int32)
        calls = {"gated_delta_rule": (q, k, v, g[..., 0], beta, rate, rate), "mamba2": (q, beta, -rate, k, v),
                 "kimi_delta_attention": (q, k, v, g, beta, rate), "lightning": (q, k, v, rate)}
        for name, arguments in calls.items():
            function, pool = getattr(ejk.serving, name), rng.normal(size=(6, H, K, K)).astype("f4")

            def call(pool, convert=lambda x: x):
                return function(*map(convert, arguments), pool=pool, read_slots=convert(slots),
                                write_slots=convert(slots))
            expected = pool.copy()
            o = call(expected)
            for given in (jnp.asarray(pool), pool.copy()):
                with self.subTest(name, pool=type(given)):
                    found, new = call(given, jnp.asarray)
                    np.testing.assert_allclose(found, o, rtol=1e-5, atol=1e-6)
                    np.testing.assert_allclose(new, expected, rtol=1e-5, atol=1e-6)
                    np.testing.assert_array_equal(np.asarray(given), pool)


if __name__ == "__main__":
    unittest.main()
