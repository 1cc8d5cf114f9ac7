"""Recurrences on NumPy arrays: the tracer, the named functions, programs."""

import functools
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock

import numpy as np
import reference
from reference import error

import ejk
from ejk import _program

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
TOLERANCE = 1e-5  # of f32


@ejk.recurrence
def gated_delta(S, q, k, v, g, beta):
    S = S.decay(g)
    S = S.add(k, beta * (v - S.read(k)))
    return S, S.read(q)


@ejk.recurrence(states=2)
def normalised(S, z, q, k, v):
    S = S.decay(-0.1).add(k, v)
    z = z * np.exp(-0.1) + k
    return S, z, S.read(q) / np.maximum(abs((z * q).sum()), 1.0), ejk.sum(z)


@ejk.recurrence(reverse=True)
def walked_back(S, q, k, v, a):
    S = S.decay(-np.exp(a)).add(k, v)
    return S, S.read(q)


def arrays(B=2, T=6, H=2, K=4, V=3, seed=0):
    rng = np.random.default_rng(seed)
    q, k = rng.normal(size=(2, B, T, H, K)).astype(np.float32)
    v = rng.normal(size=(B, T, H, V)).astype(np.float32)
    g = -rng.random((B, T, H)).astype(np.float32)
    beta = rng.random((B, T, H)).astype(np.float32)
    gk = -rng.random((B, T, H, K)).astype(np.float32)
    return dict(q=q, k=k, v=v, g=g, beta=beta, gk=gk)


@ejk.recurrence(queries="q")
def shared_delta(S, q, k, v, g, beta):
    S = S.decay(g)
    S = S.add(k, beta * (v - S.read(k)))
    return S, S.read(q)


class SharedStates(unittest.TestCase):
    """A state for three query heads, against one for each."""

    def setUp(self):
        self.a = arrays()
        rng = np.random.default_rng(1)
        self.q = rng.normal(size=(2, 6, 6, 4)).astype(np.float32)
        self.h0 = rng.normal(size=(2, 2, 4, 3)).astype(np.float32)

    def compare(self, shared, each, *names):
        given = [self.a[n] for n in names]
        o, state = shared(self.q, *given, initial_state=self.h0)
        every = [np.repeat(x, 3, axis=2) for x in given]
        expected = each(self.q, *every, initial_state=np.repeat(self.h0, 3, axis=1))
        self.assertEqual((o.shape, state.shape), ((2, 6, 6, 3), (2, 2, 4, 3)))
        self.assertLess(error(o, expected[0]), TOLERANCE)
        self.assertLess(error(state, expected[1][:, ::3]), TOLERANCE)

    def test_named_functions(self):
        for function, names in ((ejk.ops.gla, "k v gk"), (ejk.ops.simple_gla, "k v g"),
                                (ejk.ops.linear_attn, "k v"), (ejk.ops.recurrent, "k v g"),
                                (ejk.ops.delta_rule, "k v beta"), (ejk.ops.kda, "k v gk beta"),
                                (ejk.ops.gated_delta_rule, "k v g beta")):
            with self.subTest(function.__name__):
                self.compare(lambda *x, **o: function(*x, shared_state=True, **o), function,
                             *names.split())

    def test_a_step_of_ones_own(self):
        self.compare(shared_delta, gated_delta, "k", "v", "g", "beta")

    def test_what_depends_on_a_query_is_no_state(self):
        @ejk.recurrence(queries=("q",))
        def wrong(S, q, k, v):
            return S.add(q, v), S.read(k)
        with self.assertRaisesRegex(Exception, "depends on a query"):
            wrong(self.q, self.a["k"], self.a["v"])

    def test_a_gate_of_each_query_head(self):
        with self.assertRaisesRegex(ejk.TensorError, "Hkv"):
            ejk.ops.simple_gla(self.q, self.a["k"], self.a["v"], np.repeat(self.a["g"], 3, axis=2),
                               shared_state=True)

    def test_queries_are_arguments(self):
        with self.assertRaisesRegex(ejk.TraceError, "'queries' names 'r'"):
            ejk.recurrence(queries=("r",))(lambda S, q: (S, S.read(q)))


class Tracing(unittest.TestCase):
    def test_delta_rule(self):
        a = arrays()
        h0 = np.random.default_rng(1).normal(size=(2, 2, 4, 3)).astype(np.float32)
        o, state = gated_delta(a["q"], a["k"], a["v"], a["g"], a["beta"], initial_state=h0)
        expected = reference.recurrent(a["q"], a["k"], a["v"], a["g"], beta=a["beta"], scale=1,
                                       initial_state=h0)
        self.assertLess(error(o, expected[0]), TOLERANCE)
        self.assertLess(error(state, expected[1]), TOLERANCE)
        self.assertEqual(o.dtype, np.float32)

    def test_several_states_and_outputs(self):
        a = arrays()
        o, sums, (S, z) = normalised(a["q"], a["k"], a["v"])
        decays = np.exp(-0.1 * np.arange(5, -1, -1))
        keys = (decays[:, None] * a["k"][0, :, 0]).sum(0)
        self.assertLess(error(z[0, 0], keys), TOLERANCE)
        self.assertLess(error(sums[0, -1, 0], keys.sum()), TOLERANCE)
        self.assertLess(error(S[0, 0], (decays[:, None] * a["k"][0, :, 0]).T @ a["v"][0, :, 0]),
                        TOLERANCE)
        last = S[0, 0].T @ a["q"][0, -1, 0] / max(abs(z[0, 0] @ a["q"][0, -1, 0]), 1)
        self.assertLess(error(o[0, -1, 0], last), TOLERANCE)

    def test_states_go_on(self):
        a = arrays()
        whole = normalised(a["q"], a["k"], a["v"])
        state = None
        for t in range(6):
            o, _, state = normalised(*(a[n][:, t:t + 1] for n in "qkv"), initial_state=state)
            self.assertLess(error(o, whole[0][:, t:t + 1]), TOLERANCE)
        self.assertLess(error(state[1], whole[2][1]), TOLERANCE)

    def test_reverse_and_parameters(self):
        a = arrays()
        for parameter in (np.array([0.1, -1], np.float32), np.float32(0.3) * np.ones(()), 0.3):
            if not isinstance(parameter, float):
                parameter = parameter.astype(np.float32)
            o, _ = walked_back(a["q"], a["k"], a["v"], parameter)
            gamma = -np.exp(np.broadcast_to(np.float64(parameter), (2,)))
            expected, _ = reference.recurrent(a["q"], a["k"], a["v"], g_gamma=gamma, scale=1,
                                              reverse=True)
            self.assertLess(error(o, expected), TOLERANCE)

    def test_functions_have_numpys_values(self):
        x = np.linspace(0.1, 0.9, 8, dtype=np.float32).reshape(1, 1, 1, 8)
        for name in ["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "sin",
                     "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh",
                     "arctanh", "abs", "floor", "ceil", "trunc", "rint", "square", "reciprocal"]:
            function = getattr(np, name)

            def step(S, x):
                return S.add(x, x), function(x)
            step.__name__ = name
            o, _ = ejk.recurrence(step)(x)
            self.assertLess(error(o, function(x.astype(np.float64))), 1e-6, name)

    def test_where_and_comparisons(self):
        @ejk.recurrence
        def clipped(S, q, k, v):
            S = S.add(k, v)
            o = S.read(q)
            return S, np.where(o > 0.5, o, 0.0) + np.clip(o, -1, 1)
        a = arrays()
        o, _ = clipped(a["q"], a["k"], a["v"])
        plain, _ = reference.recurrent(a["q"], a["k"], a["v"], scale=1)
        self.assertLess(error(o, np.where(plain > 0.5, plain, 0) + np.clip(plain, -1, 1)),
                        TOLERANCE)

    def test_sixteen_bits(self):
        a = {n: x.astype(np.float16) for n, x in arrays().items()}
        o, state = gated_delta(a["q"], a["k"], a["v"], a["g"], a["beta"])
        expected, _ = reference.recurrent(a["q"], a["k"], a["v"], a["g"], beta=a["beta"], scale=1)
        self.assertEqual((o.dtype, state.dtype), (np.float16, np.float32))
        self.assertLess(error(o, expected), 3e-3)

    def test_f64_is_exact(self):
        a = {n: x.astype(np.float64) for n, x in arrays().items()}
        o, state = gated_delta(a["q"], a["k"], a["v"], a["g"], a["beta"])
        expected, _ = reference.recurrent(a["q"], a["k"], a["v"], a["g"], beta=a["beta"], scale=1)
        self.assertEqual((o.dtype, state.dtype), (np.float64, np.float64))
        self.assertLess(error(o, expected), 1e-14)

    def test_strided_inputs(self):
        a = arrays()
        turned = np.ascontiguousarray(a["q"].transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)
        self.assertFalse(turned.flags.c_contiguous)
        same = gated_delta(*(a[n] for n in ("q", "k", "v", "g", "beta")))
        memory = np.empty(a["k"].size + 1, np.float32)
        off = memory[1:].reshape(a["k"].shape)  # contiguous, and aligned to 4 bytes at most
        off[...] = a["k"]
        a["k"] = off
        other = gated_delta(turned, *(a[n] for n in ("k", "v", "g", "beta")))
        np.testing.assert_array_equal(same[0], other[0])


class NamedFunctions(unittest.TestCase):
    def test_random_cases(self):
        rng = np.random.default_rng(int(os.environ.get("EJK_TEST_SEED", 0)))
        for number in range(int(os.environ.get("EJK_TEST_CASES", 20))):
            case = reference.random_case(rng)
            o, state = ejk.ops.recurrent(**case)
            expected = reference.recurrent(**case)
            what = f"case {number}: " + ", ".join(f"{n} {np.shape(x)}" for n, x in case.items())
            self.assertLess(error(o, expected[0]), TOLERANCE, what)
            self.assertLess(error(state, expected[1]), TOLERANCE, what)

    def test_each(self):
        a = arrays()
        q, k, v, g, gk, beta = (a[n] for n in ("q", "k", "v", "g", "gk", "beta"))
        heads = np.arange(2)
        u = np.random.default_rng(3).normal(size=(2, 4)).astype(np.float32)
        A, D = np.array([-1, -0.5], np.float32), np.array([0.5, 2], np.float32)
        ref = reference.recurrent
        plain, _ = ref(q, k, v, gk=gk, scale=1)
        before = np.einsum("bthk,bthk,bthv->bthv", q, np.exp(gk) * 0 + k, v)
        mamba, _ = ref(q, k, beta[..., None] * v, A * beta, scale=1)
        cases = {
            "gla": ((q, k, v, gk), ref(q, k, v, gk=gk)[0]),
            "simple_gla": ((q, k, v, g), ref(q, k, v, g)[0]),
            "linear_attn": ((q, k, v), ref(q, k, v)[0]),
            "lightning_attn": ((q, k, v, 1, 4), ref(q, k, v, g_gamma=-4 * 0.75 * heads)[0]),
            "retention": ((q, k, v), ref(q, k, v, g_gamma=np.log1p(-2.0 ** (-5 - heads)))[0]),
            "hgrn2": ((q, gk, v), ref(q, 1 - np.exp(gk), v, gk=gk, scale=1)[0]),
            "delta_rule": ((q, k, v, beta), ref(q, k, v, beta=beta)[0]),
            "gated_delta_rule": ((q, k, v, g, beta), ref(q, k, v, g, beta=beta)[0]),
            "kda": ((q, k, v, gk, beta), ref(q, k, v, gk=gk, beta=beta)[0]),
            "mamba2_ssd": ((v, beta, A, k, q, D), mamba + D[:, None] * v)}
        for name, (arguments, expected) in cases.items():
            o, state = getattr(ejk.ops, name)(*arguments)
            self.assertLess(error(o, expected), TOLERANCE, name)
            self.assertEqual(state.shape, (2, 2, 4, 3), name)
        clipped, _ = ejk.ops.kda(q, k, v, 9 * gk, beta, lower_bound=-5.0)
        self.assertTrue((9 * gk < -5).any())
        self.assertLess(error(clipped, ref(q, k, v, gk=np.maximum(9 * gk, -5), beta=beta)[0]), TOLERANCE)
        with self.assertRaisesRegex(ValueError, "'lower_bound' must be below 0, but is 0.0"):
            ejk.ops.kda(q, k, v, gk, beta, lower_bound=0.0)
        gamma = np.array([-0.2, -0.7], np.float32)
        o, _ = ejk.ops.simple_gla(q, k, v, g, gamma)
        self.assertLess(error(o, ref(q, k, v, g, g_gamma=gamma)[0]), TOLERANCE, "both gates")
        # RWKV-6 reads the state before its step: what gk had decayed, one step later.
        o, _ = ejk.ops.rwkv6(q, k, v, gk, u)
        expected = np.zeros_like(plain)
        for b in range(2):
            for h in range(2):
                S = np.zeros((4, 3))
                for t in range(6):
                    kv = np.outer(k[b, t, h], v[b, t, h])
                    expected[b, t, h] = (S + u[h][:, None] * kv).T @ q[b, t, h]
                    S = np.exp(gk[b, t, h])[:, None] * S + kv
        self.assertLess(error(o, expected), TOLERANCE, "rwkv6")
        o, _ = ejk.ops.mlstm(q, k, v, 3 * g, 2 * beta, scale=0.5)
        for b in range(2):
            for h in range(2):
                S, n = np.zeros((4, 3)), np.zeros(4)
                for t in range(6):
                    forget = 1 / (1 + np.exp(-2 * np.float64(beta[b, t, h])))
                    key = 0.5 * np.exp(3 * np.float64(g[b, t, h])) * k[b, t, h]
                    S, n = forget * S + np.outer(key, v[b, t, h]), forget * n + key
                    expected[b, t, h] = S.T @ q[b, t, h] / max(abs(n @ q[b, t, h]), 1)
        self.assertLess(error(o, expected), TOLERANCE, "mlstm")
        self.assertEqual(before.shape, plain.shape)


class Programs(unittest.TestCase):
    def test_mlir_of_an_example(self):
        text = (EXAMPLES / "mamba2.mlir").read_text()
        fn = ejk.compile(text)
        self.assertEqual(fn.names, ("c", "b", "x", "dt", "A", "bias"))
        rng = np.random.default_rng(0)
        c, b = rng.normal(size=(2, 1, 5, 2, 64)).astype(np.float32)
        x, dt = rng.normal(size=(1, 5, 2, 32)).astype("f4"), rng.normal(size=(1, 5, 2)).astype("f4")
        A, bias = np.zeros(2, np.float32), np.zeros(2, np.float32)
        o, state = fn(c, b, x, dt, A=A, bias=bias)
        again, _ = ejk.ops.mamba2_ssd(x, dt, -np.exp(A), b, c, dt_bias=bias, dt_softplus=True)
        self.assertLess(error(o, again), TOLERANCE)
        with self.assertRaisesRegex(ejk.TensorError, "needs 'bias'"):
            fn(c, b, x, dt, A)

    def test_check_explain_package(self):
        a = arrays()
        call = [a[n] for n in ("q", "k", "v", "g", "beta")]
        self.assertTrue(all(e < TOLERANCE for e in gated_delta.check(*call).values()))
        explained = gated_delta.explain(*call)
        self.assertTrue(explained.kernels)
        # q, k, v, g, beta once in, o and the state once out.
        floats = 2 * 96 + 72 + 2 * 24 + 72 + 48
        self.assertEqual(explained.bytes, 4 * floats)
        # Packed: three offsets more, and as many states as sequences.
        packed = gated_delta.explain(*(x[:1] for x in call), cu_seqlens=np.array([0, 2, 6], np.int32))
        self.assertEqual(packed.sizes["N"], 2)
        self.assertEqual(packed.bytes, 4 * (floats - 48) // 2 + 4 * 48 + 4 * 3)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "delta.ejk"
            gated_delta.package(path, *call, target="sm_90")
            self.assertEqual(path.read_bytes()[:8], b"EJKPKG\r\n")

    def test_a_package_has_the_derivatives_that_are_asked_for(self):
        a = arrays()
        call = [a[n] for n in ("q", "k", "v", "g", "beta")]
        text = ejk.compile(gated_delta.mlir(*call))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "delta.ejk"
            for write in (functools.partial(gated_delta.package, path, *call), functools.partial(text.package, path)):
                for derivatives in range(2):
                    write(derivatives=derivatives)
                    names = [e["name"] for e in _program._manifest(path.read_bytes())["entries"]]
                    self.assertEqual(names, ["gated_delta" + "_vjp" * n for n in range(derivatives + 1)])

    def test_the_target_of_a_gpu(self):
        targets = ("sm_80", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_120")
        with unittest.mock.patch.object(_program.compiler(), "targets", targets):
            for capability, target in ((80, "sm_80"), (89, "sm_80"), (90, "sm_90a"), (100, "sm_100a"),
                                       (103, "sm_100"), (121, "sm_120")):
                self.assertEqual(_program.target_for((2, 0, capability)), target)
            with self.assertRaisesRegex(ejk.EjkError, "the device is of sm_75; kernels need sm_80 or newer"):
                _program.target_for((2, 0, 75))

    def test_nothing_is_compiled_for_another_length(self):
        programs = {gated_delta.program(*(a[n] for n in ("q", "k", "v", "g", "beta"))).key
                    for a in (arrays(), arrays(B=1, T=9, H=3))}
        self.assertEqual(len(programs), 1)

    def test_pickling(self):
        self.assertIs(pickle.loads(pickle.dumps(gated_delta)), gated_delta)
        gone = pickle.dumps(gated_delta).replace(b"gated_delta", b"gated_gamma")
        with self.assertRaisesRegex(AttributeError, "no recurrence 'gated_gamma'"):
            pickle.loads(gone)

    def test_threads(self):
        a = arrays(seed=5)
        call = [a[n] for n in ("q", "k", "v", "g", "beta")]
        expected, results = gated_delta(*call)[0], []
        threads = [threading.Thread(target=lambda: results.append(gated_delta(*call)[0]))
                   for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(results), 4)
        for result in results:
            np.testing.assert_array_equal(result, expected)

    def test_each_thread_has_launches_of_its_own(self):
        # One holds the addresses of a call until the call has ended.
        q, k, v, g = (arrays(seed=3)[n] for n in ("q", "k", "v", "g"))
        step = ejk.recurrence(lambda S, q, k, v, g: (S.decay(g).add(k, v), 3.0 * S.read(q)))
        with unittest.mock.patch.object(_program, "Launch", wraps=_program.Launch) as made:
            def twice():
                for _ in range(2):
                    step(q, k, v, g)
            twice()
            for _ in range(2):
                other = threading.Thread(target=twice)
                other.start()
                other.join()
        self.assertEqual(made.call_count, 3)

    def test_fork(self):
        a = arrays(seed=6)
        call = [a[n] for n in ("q", "k", "v", "g", "beta")]
        expected = gated_delta(*call)[0]
        child = os.fork()
        if child == 0:
            os._exit(0 if np.array_equal(gated_delta(*call)[0], expected) else 1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)


CALL = """
import sys, numpy as np, ejk
x = np.ones((1, 2, 1, 4), np.float32)
print(ejk.ops.linear_attn(x, x, x, scale=1.0)[0][0, :, 0, 0])
"""


class Import(unittest.TestCase):
    def test_it_needs_no_array_library(self):
        code = ("import sys, ejk; "
                "print([m for m in ('torch', 'jax', 'numpy') if m in sys.modules])")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual(done.stdout.strip(), "[]", done.stderr)


class Libraries(unittest.TestCase):
    def test_one_that_does_not_load_is_named_with_the_remedy(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "libejk-compiler.so")
            path.write_text("no library")
            done = subprocess.run([sys.executable, "-c", CALL], capture_output=True, text=True,
                                  env={**os.environ, "EJK_LIBRARY_DIR": folder})
        said = done.stderr.splitlines()[-1]
        self.assertRegex(said, "EjkError: libejk-compiler.so does not load: .*"
                               f"It was taken from {path};.*ldd -r {path}.*Install the ejk wheel")


class Explanations(unittest.TestCase):
    def test_sizes_time_and_advice(self):
        @ejk.recurrence
        def shared(S, q, k, v, p):
            S = S.add(k * p, v)
            return S, S.read(q)
        q, k, v = (arrays()[n][:1] for n in "qkv")
        p = np.ones((1, 4), np.float32)
        own = shared.explain(q, k[:, :, :1], v, p)
        self.assertEqual(own.sizes, {"B": 1, "T": 6, "H": 2, "heads of k": 1, "heads of v": 2,
                                     "heads of p": 1})
        self.assertGreater(own.seconds, 0)
        self.assertRegex(str(own), r"H = 2, heads of k = 1, heads of p = 1\n")
        self.assertRegex(str(own), "takes .* ms")
        other = shared.explain(q, k, v, p, target="sm_90a")
        self.assertIsNone(other.seconds)
        # Advice names nothing that a call has not.
        self.assertIn("not chunked", str(other))
        self.assertNotIn("f32-matmuls", str(other))

    def test_f32_rows_by_chunks(self):
        def linear(S, q, k, v):
            S = S.add(k, v)
            return S, S.read(q)
        rows = [np.ones((1, 256, 2, 32), np.float32)] * 3
        by_steps = ejk.recurrence(linear).explain(*rows, target="sm_90a")
        self.assertEqual(by_steps.schedule, "step")
        self.assertIn("or make the recurrence with f32_matmuls='bf16x6'", str(by_steps))
        for matmuls in "bf16x3", "bf16x6":
            for derivatives in 0, 1:
                made = ejk.recurrence(f32_matmuls=matmuls)(linear)
                self.assertEqual(made.explain(*rows, target="sm_90a", derivatives=derivatives).schedule, "chunk")
        with self.assertRaisesRegex(ValueError, "'f32_matmuls' must be None, 'bf16x3' or 'bf16x6', but is 'tf32'"):
            ejk.recurrence(linear, f32_matmuls="tf32")


class SavedStates(unittest.TestCase):
    def test_a_gpus_derivative_takes_what_the_forward_saves(self):
        rows = np.zeros((1, 64, 2, 64), "f2")
        program = ejk.recurrence(_decayed).program(rows, rows, rows, np.zeros((1, 64, 2), "f4"))
        forward, backward = program.saving(("q", "g"), (2, 0, 90))
        own = len(program.entry().outputs)
        saved = forward.outputs[own:]
        self.assertTrue(saved)
        self.assertEqual([t["name"] for t in backward.inputs[len(forward.inputs) + own:]],
                         [t["name"] for t in saved])
        self.assertEqual([t["name"] for t in backward.outputs], ["dq", "dg"])
        self.assertIsNone(program.saving(("q", "g"), (1, 0)))


def _decayed(S, q, k, v, g):
    S = S.decay(g).add(k, v)
    return S, S.read(q)


if __name__ == "__main__":
    unittest.main()
