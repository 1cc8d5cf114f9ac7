"""What models of onnxruntime-genai have beside ONNX's own operators: com.microsoft's LinearAttention
with more heads of values, windows of states, and Split."""

import itertools
import unittest

import numpy as np

try:
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator
    MISSING = None
except ImportError as error:
    MISSING = f"onnx is not installed ({error})"
try:
    import onnxruntime
    NO_RUNTIME = None
except ImportError as error:
    NO_RUNTIME = f"onnxruntime is not installed ({error})"

import ejk.onnx
from test_onnx import feed, model_of, off, tuple_of

RULES = ("linear", "gated", "delta", "gated_delta")
LIMIT = 1e-5  # of float32; sums are in another order


def attention(rule, Hq, Hk, Hv, dk=8, dv=4, window=0, past=True, by_channel=False, elem=1):
    """A model of one node of com.microsoft's, with [batch, time] left open."""
    state = (*((window,) if window else ()), "batch", Hv, dk, dv)
    shapes = {"query": ("batch", "time", Hq * dk), "key": ("batch", "time", Hk * dk),
              "value": ("batch", "time", Hv * dv), "past_state": past and state,
              "decay": "gated" in rule and ("batch", "time", Hv * dk if by_channel else Hv),
              "beta": "delta" in rule and ("batch", "time", Hv)}
    names = [n if shape else "" for n, shape in shapes.items()]
    while not names[-1]:
        names.pop()
    node = helper.make_node("LinearAttention", names, ["output", "present_state"],
                            domain="com.microsoft", q_num_heads=Hq, kv_num_heads=Hv,
                            update_rule=rule, state_window=window)
    return model_of([node], [helper.make_tensor_value_info(n, elem, s)
                             for n, s in shapes.items() if s],
                    [helper.make_tensor_value_info("output", elem, ("batch", "time",
                                                                    max(Hq, Hv) * dv)),
                     helper.make_tensor_value_info("present_state", elem, state)],
                    domains=["com.microsoft"])


def stepwise(x, Hq, Hk, Hv, dk=8, dv=4):
    """(output, the states after each step), in float64."""
    B, T = x["query"].shape[:2]
    q, k, v = (x[n].astype(float).reshape(B, T, H, d)
               for n, H, d in (("query", Hq, dk), ("key", Hk, dk), ("value", Hv, dv)))
    H = max(Hq, Hv)
    S = x["past_state"].astype(float) if "past_state" in x else np.zeros((B, Hv, dk, dv))
    S, states, outputs = (S[-1] if S.ndim == 5 else S).copy(), [], []
    for t in range(T):
        if "decay" in x:
            S = S * np.exp(x["decay"][:, t].astype(float).reshape(B, Hv, -1, 1))
        key, u = np.repeat(k[:, t], Hv // Hk, 1), v[:, t]
        if "beta" in x:
            u = x["beta"][:, t, :, None] * (u - np.einsum("bhkv,bhk->bhv", S, key))
        S = S + np.einsum("bhk,bhv->bhkv", key, u)
        outputs.append(np.einsum("bhkv,bhk->bhv", np.repeat(S, H // Hv, 1),
                                 np.repeat(q[:, t], H // Hq, 1)) * dk ** -0.5)
        states.append(S)
    return np.stack(outputs, 1).reshape(B, T, -1), states


@unittest.skipIf(MISSING, MISSING)
class LinearAttention(unittest.TestCase):
    @unittest.skipIf(NO_RUNTIME, NO_RUNTIME)
    def test_more_value_heads_than_query_or_key_heads(self):
        rng = np.random.default_rng(0)
        heads = ((2, 2, 4), (2, 4, 4), (2, 1, 4), (4, 2, 4), (1, 2, 4))
        for (Hq, Hk, Hv), rule in zip(heads * 2, itertools.cycle(RULES[::-1])):
            for by_channel in (False, True)[:1 + ("gated" in rule)]:
                model = attention(rule, Hq, Hk, Hv, by_channel=by_channel)
                arrays = feed(rng, model, 2, 5)
                session = onnxruntime.InferenceSession(model.SerializeToString())
                found = ejk.onnx.compile(model)(*arrays.values())
                with self.subTest(rule, heads=(Hq, Hk, Hv)):
                    for a, b in zip(found, session.run(None, arrays)):
                        self.assertLessEqual(off(a, b), LIMIT)

    def test_heads_that_do_not_divide(self):
        for Hq, Hk, Hv, what in ((2, 2, 3, "multiple of kv_num_heads or divide it"),
                                 (2, 3, 4, "'key' must have 4 heads")):
            with self.assertRaisesRegex(ejk.onnx.OnnxError, what):
                ejk.onnx.compile(attention("linear", Hq, Hk, Hv))
        model = attention("linear", 2, 2, 4)
        model.graph.node[0].domain = ""  # ONNX's own operator has no such form
        with self.assertRaisesRegex(ejk.onnx.OnnxError, "must be a multiple of kv_num_heads, but"):
            ejk.onnx.compile(model)

    def test_windows_of_states(self):
        """onnxruntime computes these on a GPU alone."""
        rng = np.random.default_rng(0)
        for rule, (Hq, Hk, Hv), window in (("gated_delta", (2, 2, 4), 3), ("gated", (4, 2, 2), 4),
                                           ("linear", (2, 2, 2), 2), ("delta", (2, 2, 2), 1)):
            for past in (True, False):
                model = attention(rule, Hq, Hk, Hv, window=window, past=past)
                function = ejk.onnx.compile(model)
                for T in (1, 2, 7):
                    arrays = feed(rng, model, 2, T)
                    output, states = function(*arrays.values())
                    wanted, after = stepwise(arrays, Hq, Hk, Hv)
                    after = [*[0 * after[0]] * window, *after][-window:]
                    with self.subTest(rule, T=T, past=past):
                        self.assertLessEqual(off(output, wanted), LIMIT)
                        self.assertLessEqual(off(states, np.stack(after)), LIMIT)

    def test_a_later_step_is_not_in_an_earlier_state(self):
        model = attention("gated_delta", 2, 2, 2, window=2)
        arrays = feed(np.random.default_rng(0), model, 1, 3)
        for name in ("key", "value", "decay", "beta"):
            arrays[name][:, 2] = np.nan
        _, states = ejk.onnx.compile(model)(*arrays.values())
        self.assertTrue(np.isfinite(states[0]).all() and np.isnan(states[1]).any())

    def test_a_window_of_another_size(self):
        for window, what in ((9, "state_window must be 0 to 8"), (-1, "state_window must be"),
                             (2, r"'past_state' must be \[2, 'batch', 2, 8, 4\]")):
            model = attention("linear", 2, 2, 2)
            own = next(a for a in model.graph.node[0].attribute if a.name == "state_window")
            own.i = window
            with self.assertRaisesRegex(ejk.onnx.OnnxError, what):
                ejk.onnx.compile(model)


@unittest.skipIf(MISSING, MISSING)
class Convolution(unittest.TestCase):
    def test_windows_of_states(self):
        rng = np.random.default_rng(0)
        for window, width, past in ((3, 4, True), (2, 2, True), (4, 3, False), (1, 4, True)):
            C = 5
            state = (window, "batch", C, width - 1)
            inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (
                ("input", ("batch", C, "time")), ("weight", (C, 1, width)), ("bias", (C,)),
                *([("past_state", state)] * past))]
            node = helper.make_node("CausalConvWithState", [i.name for i in inputs],
                                    ["output", "present_state"], domain="com.microsoft",
                                    activation="silu", state_window=window)
            model = model_of([node], inputs, [
                helper.make_tensor_value_info("output", TensorProto.FLOAT, ("batch", C, "time")),
                helper.make_tensor_value_info("present_state", TensorProto.FLOAT, state)],
                domains=["com.microsoft"])
            function = ejk.onnx.compile(model)
            for T in (1, 2, 7):
                arrays = feed(rng, model, 2, T)
                x = arrays["input"].astype(float)
                before = arrays["past_state"][-1] if past else np.zeros((2, C, width - 1))
                rows = np.concatenate([before, x], 2)
                y = sum(rows[:, :, j:j + T] * arrays["weight"][:, 0, j, None]
                        for j in range(width)) + arrays["bias"][:, None]
                after = [rows[:, :, t:t + width - 1] for t in range(1, T + 1)]
                after = [*[0 * after[0]] * window, *after][-window:]
                found = function(*arrays.values())
                with self.subTest(window=window, width=width, T=T):
                    self.assertLessEqual(off(found[0], y / (1 + np.exp(-y))), LIMIT)
                    self.assertLessEqual(off(found[1], np.stack(after)), LIMIT)


    def test_sixteen_bits_before_the_activation(self):
        # As the operator's definition in other nodes: the convolution has its type, and then the activation.
        C, width, T = 6, 4, 40
        inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT16, s) for n, s in (
            ("input", ("batch", C, "time")), ("weight", (C, 1, width)))]
        node = helper.make_node("CausalConvWithState", ["input", "weight"], ["output", "present_state"],
                                domain="com.microsoft", activation="silu")
        model = model_of([node], inputs, [
            helper.make_tensor_value_info("output", TensorProto.FLOAT16, ("batch", C, "time")),
            helper.make_tensor_value_info("present_state", TensorProto.FLOAT16, ("batch", C, width - 1))],
            domains=["com.microsoft"])
        rng = np.random.default_rng(0)
        x, weight = (rng.normal(size=s).astype(np.float16) for s in ((2, C, T), (C, 1, width)))
        rows = np.concatenate([np.zeros((2, C, width - 1)), x], 2)  # f64: products of f16 are exact
        y = sum(rows[:, :, j:j + T] * weight[:, 0, j, None].astype(float) for j in range(width))
        silu = [(v / (1 + np.exp(-v))).astype(np.float16) for v in (y.astype(np.float16).astype(float), y)]
        found = ejk.onnx.compile(model)(x, weight)[0]
        as_defined, rounded_once = ((found != v).mean() for v in silu)
        self.assertLess(as_defined, 0.02)  # where float32's sum rounds to the other neighbour
        self.assertGreater(rounded_once, 0.1)


@unittest.skipIf(MISSING, MISSING)
class Split(unittest.TestCase):
    def model(self, size, axis, sizes, elem=1, **attributes):
        dims = ["batch", "time", 3, size]
        dims[axis], dims[-1] = dims[-1], dims[axis]
        names = [f"part{i}" for i in range(len(sizes))]
        given = [helper.make_tensor("sizes", TensorProto.INT64, [len(sizes)], sizes)]
        node = helper.make_node("Split", ["x"] if attributes else ["x", "sizes"], names, axis=axis,
                                **attributes)
        shapes = [[n if i == axis % 4 else d for i, d in enumerate(dims)] for n in sizes]
        return model_of([node], [helper.make_tensor_value_info("x", elem, dims)],
                        [helper.make_tensor_value_info(n, elem, s) for n, s in zip(names, shapes)],
                        [] if attributes else given)

    def test_parts_are_as_onnxs_reference(self):
        rng = np.random.default_rng(0)
        for model in (self.model(32, -1, [8, 8, 16]), self.model(12, 3, [2, 10]),
                      self.model(6, 2, [3, 3], num_outputs=2), self.model(7, -1, [3, 3, 1],
                                                                          num_outputs=3),
                      self.model(5, -1, [5]), self.model(8, -1, [2, 6], TensorProto.FLOAT16)):
            arrays = feed(rng, model, 2, 3)
            found = tuple_of(ejk.onnx.compile(model)(*arrays.values()))
            wanted = ReferenceEvaluator(model).run(None, arrays)
            self.assertEqual(len(found), len(wanted))
            for a, b in zip(found, wanted):
                np.testing.assert_array_equal(a, b)

    def test_into_a_recurrence(self):
        """The mixed rows of a layer's convolution are divided into queries, keys and values."""
        model = attention("gated_delta", 2, 2, 4)
        arrays = feed(np.random.default_rng(0), model, 2, 5)
        wanted = ejk.onnx.compile(model)(*arrays.values())
        mixed = np.concatenate([arrays.pop(n) for n in ("query", "key", "value")], -1)
        split = helper.make_node("Split", ["mixed", "sizes"], ["query", "key", "value"], axis=-1)
        whole = model_of(
            [split, *model.graph.node],
            [helper.make_tensor_value_info("mixed", 1, ["batch", "time", mixed.shape[2]]),
             *list(model.graph.input)[3:]], model.graph.output,
            [helper.make_tensor("sizes", TensorProto.INT64, [3], [16, 16, 16])], ["com.microsoft"])
        for a, b in zip(ejk.onnx.compile(whole)(mixed, *arrays.values()), wanted):
            np.testing.assert_array_equal(a, b)

    def test_errors(self):
        for model, what in ((self.model(32, -1, [8, 8, 15]), "do not make an axis of 32"),
                            (self.model(64, -1, [63, 1]), "common divisor 1"),
                            (self.model(4, 1, [2, 2]), "must be|do not make|known at a call")):
            if model.graph.input[0].type.tensor_type.shape.dim[1].dim_value:
                model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "time"
            with self.assertRaisesRegex(ejk.onnx.OnnxError, what):
                ejk.onnx.compile(model)


if __name__ == "__main__":
    unittest.main()
