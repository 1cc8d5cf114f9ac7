"""Errors of recurrences on NumPy arrays: at the user's line, or of the tensor that is wrong."""

import pathlib
import pickle
import tempfile
import unittest

import numpy as np
from test_numpy import arrays, gated_delta

import ejk


class Errors(unittest.TestCase):
    def line_of(self, text):
        lines = pathlib.Path(__file__).read_text().splitlines()
        return 1 + next(i for i, line in enumerate(lines) if text in line)

    def test_a_wrong_size_names_the_users_line(self):
        @ejk.recurrence
        def wrong(S, q, k, v):
            S = S.add(k, v)
            return S, S.read(q) + q  # the wrong sum
        a = arrays()
        with self.assertRaises(ejk.TraceError) as caught:
            wrong(a["q"], a["k"], a["v"])
        self.assertIn(f"test_numpy_errors.py:{self.line_of('# the wrong ' + 'sum')}",
                      str(caught.exception))
        self.assertIn("3 and 4 channels", str(caught.exception))

    def test_a_refusal_of_the_compiler_names_the_users_line(self):
        @ejk.recurrence
        def odd(S, q, k, v):
            S = S.decay(ejk.log(ejk.max(S.read(k)))).add(k, v)
            x = S.read(v, axis="value")
            return S, S.read(x)  # the second axis
        a = arrays()
        try:
            odd(a["q"], a["k"], a["v"])
        except ejk.CompileError as refused:
            self.assertTrue(refused.diagnostics)
            self.assertTrue(all(d.file.endswith("test_numpy_errors.py") for d in refused.diagnostics))
            self.assertIn("test_numpy_errors.py", str(refused))

    def test_a_refusal_for_a_cpu_and_a_gpu_has_both_reasons(self):
        from unittest import mock

        from ejk._errors import Diagnostic
        from ejk._program import Program

        def package(self, order, wrt, target, save_states=False):
            kind = "GPU" if target.startswith("sm_") else "CPU"
            raise ejk.CompileError([Diagnostic("error", "step.py", 1, 1, f"a {kind} has no kernel", ())])
        with mock.patch.object(Program, "_package", package), \
                self.assertRaisesRegex(ejk.CompileError, "a CPU has no kernel\n.*a GPU has no kernel"):
            Program("", "refused").entry()

    def test_arithmetic_that_a_step_has_not_says_what_to_write(self):
        def times(S, q, k, v):
            S = S * np.exp(q.sum())
            return S, S.read(q)

        def outer(S, q, k, v):
            return S + np.outer(k, v), S.read(q)

        def dot(S, q, k, v):
            return S.add(k, v), np.dot(q, k) * v

        def sum_of_states(S, R, q, k, v):
            R = R.add(k, v)
            return S - q.sum() * R, R, R.read(q)
        a = arrays()
        for step, message in ((times, r"S.decay\(g\) is exp\(g\) · S"),
                              (outer, r"np.outer .*: S.add\(k, v\) adds the outer"),
                              (dot, r"np.dot .*: use ejk.sum\(a \* b\)"),
                              (sum_of_states, r"a matrix of state, which changes by S.decay\(gate\) and S.add")):
            with self.subTest(step.__name__), self.assertRaisesRegex(ejk.TraceError, message):
                ejk.recurrence(step, states=1 + (step is sum_of_states))(a["q"], a["k"], a["v"])

    def test_branches_are_refused(self):
        @ejk.recurrence
        def branching(S, q, k):
            if k.sum() > 0:
                S = S.add(k, k)
            return S, S.read(q)
        a = arrays()
        with self.assertRaisesRegex(ejk.TraceError, "ejk.where"):
            branching(a["q"], a["k"])

    def test_arithmetic_on_a_matrix_is_refused(self):
        @ejk.recurrence
        def scaled(S, q, k):
            S = S.add(k, k)
            return S * 2.0, S.read(q)
        a = arrays()
        with self.assertRaisesRegex(ejk.TraceError, "S.decay"):
            scaled(a["q"], a["k"])

    def test_names_what_was_called(self):
        x, gate = np.zeros((1, 3, 2, 8), "f4"), np.zeros((1, 3, 2), "f4")
        with self.assertRaisesRegex(TypeError, r"^gated_delta_rule\(\) has no argument 'output_final_state'$"):
            ejk.ops.gated_delta_rule(x, x, x, gate, gate, output_final_state=True)

    def test_shapes_and_types(self):
        a = arrays()
        with self.assertRaisesRegex(ejk.TensorError, "'k'.*T = 6"):
            ejk.ops.gla(a["q"], a["k"][:, :5], a["v"], a["gk"])
        with self.assertRaisesRegex(ejk.TensorError, "'q' must be float32"):
            gated_delta(a["q"].astype(np.int32), a["k"], a["v"], a["g"], a["beta"])
        with self.assertRaisesRegex(ejk.TensorError, "'g' must be a tensor"):
            gated_delta(a["q"], a["k"], a["v"], [1.0], a["beta"])
        with self.assertRaisesRegex(TypeError, "misses the argument .beta."):
            gated_delta(a["q"], a["k"], a["v"], a["g"])
        with self.assertRaisesRegex(TypeError, "two values for 'g'"):
            gated_delta(a["q"], a["k"], a["v"], a["g"], a["beta"], g=a["g"])
        with self.assertRaisesRegex(ejk.TensorError, "initial_state"):
            gated_delta(a["q"], a["k"], a["v"], a["g"], a["beta"],
                        initial_state=np.zeros((2, 2, 4, 3)))

    def test_states_that_are_no_tuple_of_as_many(self):
        a = arrays()
        states = ejk.ops.mlstm(*(a[n] for n in ("q", "k", "v")), a["g"], a["g"])[1]
        for wrong in (states[0], states[:2], (*states, states[2])):
            with self.assertRaisesRegex(ejk.TensorError, "'initial_state' must be a tuple of 3 states"):
                ejk.ops.mlstm(*(a[n] for n in ("q", "k", "v")), a["g"], a["g"], initial_state=wrong)

    def test_two_tensors_that_do_not_fit(self):
        a, state = arrays(), np.zeros((1, 2, 4, 3), "f4")
        for call in (ejk.ops.gla, ejk.recurrence(lambda S, q, k, v, g: ((S := S.decay(g).add(k, v)), S.read(q)))):
            rows = [a[n][:1] for n in ("q", "k", "v", "gk")]
            with self.assertRaisesRegex(ejk.TensorError, r"'cu_seqlens' must be \[N\+1\] with N = 1, but has shape "
                                                         r"\[4\]; 'initial_state' has N = 1$"):
                call(*rows, initial_state=state, cu_seqlens=np.array([0, 2, 2, 6]))
            with self.assertRaisesRegex(ejk.TensorError, r"'k' must .* has shape \[1, 5, 2, 4\]; 'q' has T = 6$"):
                call(rows[0], rows[1][:, :5], *rows[2:])

    def test_heads_that_divide_others(self):
        def of(heads, *channels):
            return np.ones((1, 3, heads, *channels), "f4")

        @ejk.recurrence(queries=("q",))
        def step(S, q, k, v):
            return (S := S.add(k, v)), S.read(q)

        @ejk.recurrence(queries=("q",))
        def of_keys(S, k, q, v):
            return (S := S.add(k, v)), S.read(q)
        rows = q, k, v = of(8, 4), of(2, 4), of(4, 4)
        for function, tensors in ((step, rows), (of_keys, (k, q, v))):
            with self.assertRaisesRegex(ejk.TensorError, "'v' has 4 heads, which must divide the 2 of 'k'.*"
                                                         r"'k' has \[1, 3, 2, 4\]"):
                function(*tensors)
        with self.assertRaisesRegex(ejk.TensorError, "'k' has 3 heads, which must divide the 8 of 'q'"):
            of_keys(of(3, 4), q, of(3, 4))

    def test_every_argument_of_named_functions(self):
        """A list, an array of another rank and one of integers are refused by their names."""
        B, T, H, K = 2, 6, 2, 4
        rows, numbers, heads, all_channels = (np.zeros(s, "f4") for s in ((B, T, H, K), (B, T, H), (H,), (H * K,)))
        q = dict(q=rows, k=rows, v=rows)
        block = dict(**q, z=rows, b=numbers, conv_weight=np.zeros((3 * H * K, 4), "f4"), A_log=heads,
                     norm_weight=np.zeros(K, "f4"))
        shares = {n: np.zeros(8, "f4") for n in ("x_r", "x_w", "x_k", "x_v", "x_a", "x_g")}
        calls = {
            "gla": dict(**q, g=rows), "retention": q, "delta_rule": dict(**q, beta=numbers),
            "mlstm": dict(**q, i=numbers, f=numbers),
            "gated_delta_product": dict(q=rows, k=rows[:, :, None], v=rows[:, :, None],
                                        beta=numbers[:, :, None], g=numbers),
            "mamba3": dict(x=rows, dt=numbers, A=heads, trap=numbers, B=rows, C=rows, D=heads),
            "mamba3_mimo": dict(x=rows, dt=numbers, A=heads, trap=numbers, B=rows[:, :, None], C=rows[:, :, None],
                                D=heads, z=rows, **{n: rows[0, 0][:, None] for n in ("mimo_x", "mimo_o", "mimo_z")}),
            "gated_slot_attention": dict(**q, s=rows, g=rows),
            "gated_delta_net": dict(**block, a=numbers, dt_bias=heads),
            "kda_block": dict(**block, g=rows, dt_bias=all_channels),
            "mamba2_block": dict(x=rows, B=rows, C=rows, z=rows, dt=numbers, conv_weight=block["conv_weight"],
                                 A_log=heads, dt_bias=heads, D=heads, norm_weight=all_channels),
            "rwkv7_block": dict(**{n: rows for n in "rwkvag"}, k_k=all_channels, k_a=all_channels, r_k=rows[0, 0],
                                norm_weight=all_channels, norm_bias=all_channels),
            "rwkv7_shift": dict(x=rows.reshape(B, T, 8), **shares)}
        # What is taken by its number of elements alone, or over time as well.
        any_rank = {"conv_weight", "norm_weight", "norm_bias", "k_k", "k_a", "r_k", *shares}
        wrong = {"a list": lambda x: x.tolist(), "integers": lambda x: x.astype(np.int32),
                 "booleans": lambda x: x > 0, "more axes": lambda x: np.stack([x] * 3)}
        for function, arguments in calls.items():
            for name, x in arguments.items():
                for kind, make in wrong.items():
                    if kind == "more axes" and (name in any_rank or x.ndim < 3):
                        continue
                    with self.subTest(function, name=name, kind=kind), \
                            self.assertRaisesRegex(ejk.TensorError, f"'{name}'"):
                        getattr(ejk.ops, function)(**{**arguments, name: make(x)})
            for name in any_rank.intersection(arguments):
                with self.subTest(function, name=name, kind="fewer elements"), \
                        self.assertRaisesRegex(ejk.TensorError, f"'{name}'"):
                    getattr(ejk.ops, function)(**{**arguments, name: arguments[name][:1]})

    def test_gates_are_named_as_they_are_given(self):
        a = arrays()
        q, k, v, g, _, gk = a.values()
        with self.assertRaisesRegex(ejk.TensorError, "'f' must be float32"):
            ejk.ops.mlstm(q, k, v, g, g.astype(np.int32))
        with self.assertRaisesRegex(ejk.TensorError, "^mlstm: .*'f' has 4 channels"):
            ejk.ops.mlstm(q, k, v, g, gk)

    def test_a_last_dimension_of_one(self):
        q, number = np.zeros((1, 4, 2, 8), "f4"), np.zeros((1, 4, 2), "f4")
        one = number[..., None]
        for name, wrong, arguments in (
                ("gated_delta_rule", "g", (q, q, q, one, number)), ("kda", "g", (q, q, q, one, number)),
                ("delta_rule", "beta", (q, q, q, one)), ("comba", "g", (q, q, q, q, one, number)),
                ("mlstm", "i", (q, q, q, one, number)), ("mamba2_ssd", "dt", (q, one, number[0, 0], q, q))):
            with self.subTest(name), self.assertRaisesRegex(
                    ejk.TensorError, f"^{name}: .*; '{wrong}' has 1 channel, where it needs none or as many"):
                getattr(ejk.ops, name)(*arguments)
        with self.assertRaisesRegex(ejk.TensorError, "'g' must have 8 or no channels, .* but has 1"):
            ejk.ops.simple_gla(q, q, q, one)

    def test_channels_of_named_functions(self):
        a = arrays()
        q, k, v, g, beta, gk = a.values()
        o = ejk.ops
        for call, name in ((lambda: o.gla(q, k[..., :3], v, gk), "'k' must have 4 .*but has 3"),
                           (lambda: o.gla(q, k, v, gk[..., :3]), "'g' must have 4 .*but has 3"),
                           (lambda: o.recurrent(q, k, v, gv=gk), "'gv' must have 3 .*but has 4"),
                           (lambda: o.gla(q, k, v, gk, initial_state=np.zeros((2, 2, 3, 4), "f4")),
                            "'initial_state' must have 4 and 3 .*but has 3 and 4"),
                           (lambda: o.gla(q, k, None, gk), "'v' must be a tensor"),
                           (lambda: o.delta_rule(q, k[..., :3], v, beta), "^delta_rule: .*'q' has 4 .*'k' has 3"),
                           (lambda: o.rwkv6(q, k, v, gk, np.zeros((2, 5), "f4")), "^rwkv6: .*'u' has 5"),
                           (lambda: o.delta_rule(q, k, v, beta, initial_state=np.zeros((2, 2, 3, 4), "f4")),
                            r"^delta_rule: .*'initial_state' is \[3, 4\] a head")):
            with self.subTest(name), self.assertRaisesRegex(ejk.TensorError, name):
                call()

    def test_offsets_that_are_none(self):
        a = {n: x[:1] for n, x in arrays().items()}
        for offsets in (np.zeros(0, np.int32), np.array(6), np.array([[0, 6]]), np.array([0.0, 6.0]),
                        np.array([0, 6], np.float32)):
            with self.subTest(offsets), self.assertRaisesRegex(ejk.TensorError, "'cu_seqlens' (must|has)"):
                gated_delta(a["q"], a["k"], a["v"], a["g"], a["beta"], cu_seqlens=offsets)
            with self.subTest(offsets), self.assertRaisesRegex(ejk.TensorError, "'cu_seqlens' (must|has)"):
                ejk.ops.gla(a["q"], a["k"], a["v"], a["gk"], cu_seqlens=offsets)

    def test_types_of_named_functions(self):
        a = arrays()
        q, k, v, gk = (a[n] for n in ("q", "k", "v", "gk"))
        for wrong, words in [((q.astype("f2"), k, v, gk), "'k' must be f16, as q is, but is f32"),
                             ((q.astype("i4"), k, v, gk), "'q' must be f32 or f16 or bf16"),
                             ((q, k, v, gk.astype("f2")), "'g' must be f32, but is f16"),
                             ((q, k, v, gk[0, 0]), "'g' must have rank 3 or 4")]:
            with self.assertRaisesRegex(ejk.TensorError, words):
                ejk.ops.gla(*wrong)
        with self.assertRaisesRegex(ejk.TensorError, "600 channels"):
            ejk.ops.linear_attn(*np.zeros((3, 1, 2, 1, 600), np.float32))

    def test_a_scale_that_is_not_finite(self):
        q, k, v, gk = (arrays()[n] for n in ("q", "k", "v", "gk"))
        for scale in (np.inf, -np.inf, np.nan):
            for name, gate in (("gla", [gk]), ("simple_gla", []), ("linear_attn", [])):
                with self.subTest(name, scale=scale), \
                        self.assertRaisesRegex(ValueError, rf"^{name}: 'scale' must be finite, but is {scale}$"):
                    getattr(ejk.ops, name)(q, k, v, *gate, scale=scale)

    def test_mlir_errors(self):
        with self.assertRaises(ejk.CompileError) as caught:
            ejk.compile("func.func @f(%q: tensor<?x?x?x4xf32>) -> f32 {\n  oops\n}")
        self.assertEqual(caught.exception.diagnostics[0].line, 2)
        self.assertEqual(pickle.loads(pickle.dumps(caught.exception)).diagnostics,
                         caught.exception.diagnostics)
        for wrong in (None, b"func.func @f()", np.zeros(3)):
            with self.assertRaisesRegex(TypeError, "takes the text of MLIR, a str, but got "):
                ejk.compile(wrong)

    def test_a_function_without_arguments(self):
        function = ejk.compile("""func.func @f() -> tensor<2xf32> {
          %x = arith.constant 1.5 : f32
          %y = tensor.splat %x : tensor<2xf32>
          return %y : tensor<2xf32>
        }""")
        for call in (function, function.explain, function.check):
            with self.assertRaisesRegex(ejk.TensorError, "'f' takes no tensors, and a call computes on their device"):
                call()
        with tempfile.NamedTemporaryFile(suffix=".ejk") as file:
            function.package(file.name)
            self.assertTrue(pathlib.Path(file.name).read_bytes())


if __name__ == "__main__":
    unittest.main()
