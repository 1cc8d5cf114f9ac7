"""ONNX models compiled by ejk, beside ONNX's own node cases and onnxruntime.

    EJK_TEST_CASES=200 python3 -m unittest test_onnx.Models      # random models
    python3 test_onnx.py --time                                  # times beside onnxruntime
"""

import functools
import io
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import unittest
import warnings
from contextlib import redirect_stderr

import numpy as np

try:
    import ml_dtypes
    import onnx
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

import ejk
import ejk.onnx

RULES = ("linear", "gated", "delta", "gated_delta")
# Results are rounded to the model's type, whose unit is 2^-24, 2^-11 or 2^-8; steps are in float32,
# summed in another order. A 16-bit value that is rounded at several nodes may be off by some units.
LIMITS = {"f32": 1e-5, "f16": 2e-3, "bf16": 1.6e-2}


def kinds():
    return {"f32": (TensorProto.FLOAT, np.float32), "f16": (TensorProto.FLOAT16, np.float16),
            "bf16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16)}


def model_of(nodes, inputs, outputs, initializers=(), domains=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    imports = [helper.make_opsetid("", 27), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=11)


def attention(rng, kind, rule, Hq, Hkv, dk, dv, past, by_channel, beta_of_one, scale=None,
              domain="", extra=()):
    """A model of one node, with [batch, time] left open."""
    elem, dtype = kinds()[kind]
    inputs, names = [], []

    def declare(name, *shape):
        inputs.append(helper.make_tensor_value_info(name, elem, shape))
        names.append(name)
    declare("query", "batch", "time", Hq * dk)
    declare("key", "batch", "time", Hkv * dk)
    declare("value", "batch", "time", Hkv * dv)
    for name, there, shape in (("past_state", past, ("batch", Hkv, dk, dv)),
                               ("decay", "gated" in rule, ("batch", "time", Hkv * dk if by_channel else Hkv)),
                               ("beta", "delta" in rule, ("batch", "time", 1 if beta_of_one else Hkv))):
        if there:
            declare(name, *shape)
        else:
            names.append("")
    while not names[-1]:
        names.pop()
    attributes = dict(q_num_heads=Hq, kv_num_heads=Hkv, update_rule=rule)
    if scale:
        attributes["scale"] = scale
    node = helper.make_node("LinearAttention", names, ["output", "present_state"], domain=domain,
                            **attributes)
    outputs = [helper.make_tensor_value_info("output", elem, ("batch", "time", Hq * dv)),
               helper.make_tensor_value_info("present_state", elem, ("batch", Hkv, dk, dv))]
    return model_of([node, *extra], inputs, outputs, domains=[domain] if domain else [])


def feed(rng, model, B, T):
    """Arrays for a model's inputs; keys have norm 1, decays are logarithms."""
    sizes, arrays = {"batch": B, "time": T}, {}
    weights = {i.name for i in model.graph.initializer}
    own = {elem: dtype for elem, dtype in kinds().values()}
    for i in model.graph.input:
        if i.name in weights:
            continue
        shape = [d.dim_value or sizes[d.dim_param] for d in i.type.tensor_type.shape.dim]
        x = rng.normal(size=shape)
        if i.name == "key":
            x /= 2 * np.sqrt(shape[-1])
        elif i.name == "decay":
            x = -rng.random(shape)
        elif i.name == "beta":
            x = rng.random(shape)
        arrays[i.name] = x.astype(own[i.type.tensor_type.elem_type])
    return arrays


def off(found, wanted):
    a, b = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    assert a.shape == b.shape, (a.shape, b.shape)
    return float(np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-3)) if b.size else 0.0


def tuple_of(results):
    return results if isinstance(results, tuple) else (results,)


@unittest.skipIf(MISSING, MISSING)
class NodeCases(unittest.TestCase):
    """What the ONNX package tests its own operators with: each case as the node, and expanded, as
    the graph that is the node's definition in other nodes."""

    @staticmethod
    @functools.lru_cache(maxsize=None)
    def cases():
        """{name: case}; an expanded one's name ends in _expanded."""
        from onnx.backend.test.case.node import collect_testcases
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            every = {c.name: c for c in collect_testcases(None)}
        return {n: c for n, c in every.items()
                if n.startswith(("test_linear_attention_", "test_causal_conv_with_state_"))}

    def run_cases(self, prefix, expanded):
        count = 0
        for name, case in self.cases().items():
            if not name.startswith(prefix) or name.endswith("_expanded") != expanded:
                continue
            with self.subTest(name):
                function = ejk.onnx.compile(case.model)
                for inputs, outputs in case.data_sets:
                    found = tuple_of(function(*map(np.asarray, inputs)))
                    self.assertEqual(len(found), len(outputs))
                    for a, b in zip(found, outputs):
                        self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype))
                        np.testing.assert_allclose(np.float64(a), np.float64(b), rtol=case.rtol,
                                                   atol=max(case.atol, 1e-6))
                count += 1
        return count

    def test_linear_attention(self):
        self.assertGreaterEqual(self.run_cases("test_linear_attention_", False), 14)

    def test_linear_attention_expanded(self):
        self.assertGreaterEqual(self.run_cases("test_linear_attention_", True), 14)

    def test_causal_convolution(self):
        self.assertGreaterEqual(self.run_cases("test_causal_conv_with_state_", False), 13)

    def test_causal_convolution_expanded(self):
        self.assertGreaterEqual(self.run_cases("test_causal_conv_with_state_", True), 13)

    def test_other_types(self):
        """Cases of float in float16 and bfloat16, as the node and expanded: some, or all."""
        own = [(n, c) for n, c in self.cases().items()
               if not n.endswith("_expanded") and c.data_sets[0][0][0].dtype == np.float32]
        for name, case in own if os.environ.get("EJK_TEST_CASES") else own[3::9]:
            for kind in ("f16", "bf16"):
                elem, dtype = kinds()[kind]
                node, expanded = (in_type(self.cases()[n].model, elem)
                                  for n in (name, name + "_expanded"))
                inputs = [np.asarray(x).astype(dtype) for x in case.data_sets[0][0]]
                wanted = ReferenceEvaluator(node).run(None, dict(zip(
                    [i.name for i in node.graph.input], inputs)))
                for model in (node, expanded):
                    with self.subTest(model.graph.name, kind=kind):
                        found = tuple_of(ejk.onnx.compile(model)(*inputs))
                        for a, b in zip(found, wanted):
                            self.assertEqual((a.shape, a.dtype), (b.shape, dtype))
                            self.assertLessEqual(off(a, b), LIMITS[kind])


def in_type(model, elem):
    """A model of float with inputs and outputs of another type."""
    new = onnx.ModelProto()
    new.CopyFrom(model)
    for value in [*new.graph.input, *new.graph.output]:
        value.type.tensor_type.elem_type = elem
    return new


def expanded(model):
    """The model with its linear attention and convolution as other nodes: their definition."""
    from onnx.backend.test.case.node import function_testcase_helper
    known = onnx.shape_inference.infer_shapes(model).graph
    types = {v.name: v.type for v in (*known.input, *known.output, *known.value_info)}
    for i in known.initializer:
        types[i.name] = helper.make_tensor_type_proto(i.data_type, i.dims)
    new = onnx.ModelProto()
    new.CopyFrom(model)
    del new.graph.node[:]
    for number, node in enumerate(model.graph.node):
        own = [node]
        if node.op_type in ("LinearAttention", "CausalConvWithState"):
            given = [types[n] if n else onnx.TypeProto() for n in node.input]
            ((own, _), *_), _ = function_testcase_helper(node, given, f"n{number}")
        new.graph.node.extend(own)
    return new


def random_model(rng, kind):
    """A convolution, an activation, linear attention and a gate, or a part of these."""
    elem, dtype = kinds()[kind]
    rule = RULES[rng.integers(4)]
    Hkv = int(rng.choice([1, 2]))
    Hq = Hkv * int(rng.choice([1, 1, 3]))
    dk, dv = (int(x) for x in rng.choice([4, 8], 2))
    model = attention(rng, kind, rule, Hq, Hkv, dk, dv, bool(rng.random() < 0.5), bool(rng.random() < 0.5),
                      bool(rng.random() < 0.3), 0.4 if rng.random() < 0.3 else None)
    graph = model.graph
    if rng.random() < 0.6:  # the values come out of a convolution over time
        width, C = int(rng.choice([2, 4])), Hkv * dv
        bias, state = rng.random() < 0.5, rng.random() < 0.5
        weight = (rng.normal(size=(C, 1, width)) / width).astype(dtype)
        graph.initializer.append(onnx.numpy_helper.from_array(weight, "kernel"))
        if bias:
            graph.initializer.append(onnx.numpy_helper.from_array(rng.normal(size=C).astype(dtype), "offset"))
        if state:
            graph.input.append(helper.make_tensor_value_info("conv_state", elem, ("batch", C, width - 1)))
        names = ["rows", "kernel", "offset" if bias else "", "conv_state" if state else ""]
        while not names[-1]:
            names.pop()
        before = [helper.make_node("Transpose", ["value"], ["rows"], perm=[0, 2, 1]),
                  helper.make_node("CausalConvWithState", names, ["mixed", "conv_next"],
                                   activation=str(rng.choice(["none", "silu", "swish"]))),
                  helper.make_node("Transpose", ["mixed"], ["value_mixed"], perm=[0, 2, 1])]
        graph.node[0].input[2] = "value_mixed"
        after = list(graph.node)
        del graph.node[:]
        graph.node.extend([*before, *after])
        graph.output.append(helper.make_tensor_value_info("conv_next", elem, ("batch", C, width - 1)))
    if rng.random() < 0.6:  # an output gate, and a scale of each channel
        graph.input.append(helper.make_tensor_value_info("z", elem, ("batch", "time", Hq * dv)))
        graph.initializer.append(onnx.numpy_helper.from_array(
            rng.normal(size=Hq * dv).astype(dtype), "gain"))
        graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(0.5, dtype), "half"))
        graph.node.extend([helper.make_node(str(rng.choice(["Sigmoid", "Tanh", "Softplus"])), ["z"],
                                            ["gate"]),
                           helper.make_node("Mul", ["output", "gate"], ["gated"]),
                           helper.make_node("Mul", ["gated", "gain"], ["scaled"]),
                           helper.make_node(str(rng.choice(["Add", "Sub", "Max", "Div"])),
                                            ["scaled", "half"], ["final"])])
        graph.output[0].name = "final"
    return model


@unittest.skipIf(MISSING or NO_RUNTIME, MISSING or NO_RUNTIME)
class Models(unittest.TestCase):
    def test_random_models(self):
        rng = np.random.default_rng(int(os.environ.get("EJK_TEST_SEED", 0)))
        worst = {}
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        for number in range(int(os.environ.get("EJK_TEST_CASES", 6))):
            kind = ("f32", "f32", "f16", "bf16")[number % 4]
            model = random_model(rng, kind)
            onnx.checker.check_model(model)
            arrays = feed(rng, model, int(rng.integers(1, 4)), int(rng.integers(1, 30)))
            given = expanded(model) if number % 3 == 2 else model
            found = tuple_of(ejk.onnx.compile(given)(**arrays))
            if kind == "bf16":  # NumPy arrays of bfloat16 are not for onnxruntime
                wanted = ReferenceEvaluator(model).run(None, arrays)
            else:
                wanted = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                                      providers=["CPUExecutionProvider"]
                                                      ).run(None, arrays)
            for output, a, b in zip(model.graph.output, found, wanted):
                self.assertEqual(a.dtype, kinds()[kind][1])
                error = off(a, b)
                worst[kind] = max(worst.get(kind, 0.0), error)
                self.assertLessEqual(error, LIMITS[kind],
                                     f"model {number}, {output.name}, {kind}:\n"
                                     + onnx.printer.to_text(model))
        if os.environ.get("EJK_TEST_CASES"):
            print({k: f"{v:.1e}" for k, v in worst.items()}, flush=True)

    def test_the_contributed_operator(self):
        rng = np.random.default_rng(1)
        model = attention(rng, "f32", "gated_delta", 4, 2, 8, 4, True, True, False,
                          domain="com.microsoft")
        arrays = feed(rng, model, 2, 9)
        wanted = onnxruntime.InferenceSession(model.SerializeToString(),
                                              providers=["CPUExecutionProvider"]).run(None, arrays)
        for a, b in zip(ejk.onnx.compile(model)(**arrays), wanted):
            self.assertLessEqual(off(a, b), LIMITS["f32"])


@unittest.skipIf(MISSING, MISSING)
class Interface(unittest.TestCase):
    def test_a_package_has_the_models_names(self):
        rng = np.random.default_rng(0)
        model = attention(rng, "f32", "gated", 2, 2, 4, 8, True, False, False)
        function = ejk.onnx.compile(model)
        with tempfile.NamedTemporaryFile(suffix=".ejk") as file:
            function.package(file.name)
            with open(file.name, "rb") as written:
                data = written.read()
        for name in ("query", "key", "value", "past_state", "decay", "output", "present_state"):
            self.assertIn(b'"' + name.encode() + b'"', data)
        self.assertEqual(function.outputs, ["output", "present_state"])

    def refused(self, model, *words):
        with self.assertRaises(ejk.onnx.OnnxError) as caught:
            ejk.onnx.compile(model)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_what_is_not_understood_is_named_with_its_node(self):
        rng = np.random.default_rng(0)

        def make(rule="gated", **options):
            given = dict(Hq=2, Hkv=2, dk=4, dv=4, past=False, by_channel=False, beta_of_one=False)
            return attention(rng, "f32", rule, **{**given, **options})
        extra = helper.make_node("MatMul", ["output", "output"], ["y"], name="the_product")
        self.refused(make(extra=[extra]), "node 1, MatMul 'the_product'", "does not compile MatMul")
        extra = [helper.make_node("Slice", ["output", "one", "one"], ["y"], name="a_part")]
        sliced = make(extra=extra)
        sliced.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1]), "one"))
        self.refused(sliced, "node 1, Slice 'a_part'", "of tensors, ejk slices the Concat before a Conv alone")
        model = make()
        model.graph.node[0].attribute.append(helper.make_attribute("state_window", 3))
        self.refused(model, "node 0", "'state_window'")
        model = make()
        del model.graph.node[0].input[4:]
        self.refused(model, "needs the input 'decay'")
        model = make("linear")
        model.graph.node[0].input.extend(["", "query"])
        self.refused(model, "takes no input 'decay'")
        model = make()
        model.graph.input[4 - 1].type.tensor_type.shape.dim[2].dim_value = 3
        self.refused(model, "'decay' must be", "3")
        self.refused(make(Hq=2, Hkv=2, dk=513), "513 and 4 channels")
        model = make()
        model.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
        self.refused(model, "'query'", "INT64")
        self.refused(model_of([helper.make_node("Conv", ["x", "w"], ["y"])],
                              [helper.make_tensor_value_info(n, 1, s) for n, s in (("x", (1, 4, 9)), ("w", (4, 4, 3)))],
                              [helper.make_tensor_value_info("y", 1, (1, 4, 7))]),
                     "node 0, Conv", "CausalConvWithState")

    def test_a_constant_of_one_element_keeps_its_rank(self):
        for shape, rank in (((), 3), ((1,), 3), ((1, 1, 1, 1), 4), ((1, 1, 1, 1, 1), 5)):
            node = [helper.make_node("Add", ["x", "c"], ["y"]),
                    helper.make_node("Mul", ["c", "y"], ["z"])]
            constant = onnx.numpy_helper.from_array(np.full(shape, 0.5, np.float32), "c")
            sizes = ("batch", "time", 3)
            model = model_of(node, [helper.make_tensor_value_info("x", 1, sizes)],
                             [helper.make_tensor_value_info("z", 1, (1,) * (rank - 3) + sizes)],
                             [constant])
            x = np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32)
            found = ejk.onnx.compile(model)(x)
            wanted, = ReferenceEvaluator(model).run(None, {"x": x})
            self.assertEqual(found.shape, wanted.shape)
            self.assertEqual(found.ndim, rank)
            np.testing.assert_allclose(found, wanted, rtol=1e-6)

    def test_sizes_and_constants_are_computed_when_a_model_is_read(self):
        """Shape, Concat, Div and Reshape of sizes that are known at a call only."""
        def constant(name, *numbers):
            return onnx.numpy_helper.from_array(np.array(numbers, np.int64), name)
        node = [helper.make_node("Shape", ["x"], ["first"], start=0, end=2),
                helper.make_node("Shape", ["x"], ["width"], start=2),
                helper.make_node("Div", ["width", "four"], ["part"]),
                helper.make_node("Concat", ["first", "four", "part"], ["sizes"], axis=0),
                helper.make_node("Reshape", ["x", "sizes"], ["split"]),
                helper.make_node("Transpose", ["split"], ["turned"], perm=[0, 2, 1, 3]),
                helper.make_node("Unsqueeze", ["turned", "one"], ["open"]),
                helper.make_node("Expand", ["open", "twice"], ["y"]),
                helper.make_node("ConstantOfShape", ["sizes"], ["zero"])]
        model = model_of(node, [helper.make_tensor_value_info("x", 1, ("batch", "time", 12))],
                         [helper.make_tensor_value_info("y", 1, ("batch", 2, 4, "time", 3)),
                          helper.make_tensor_value_info("zero", 1, ("batch", "time", 4, 3))],
                         [constant("four", 4), constant("one", 1), constant("twice", 2, 1, 1, 1)])
        x = np.random.default_rng(0).normal(size=(2, 5, 12)).astype(np.float32)
        for a, b in zip(ejk.onnx.compile(model)(x), ReferenceEvaluator(model).run(None, {"x": x})):
            np.testing.assert_array_equal(a, b)

    def test_the_command(self):
        rng = np.random.default_rng(0)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.onnx")
            onnx.save(attention(rng, "f32", "linear", 2, 1, 4, 4, False, False, False), path)
            run = subprocess.run([sys.executable, "-m", "ejk.onnx", path, "-o", path + ".ejk"],
                                 capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn("(query, key, value) -> (output, present_state)", run.stdout)
            self.assertTrue(os.path.getsize(path + ".ejk"))
            run = subprocess.run([sys.executable, "-m", "ejk.onnx", path + "x", "-o",
                                  path + ".ejk"],
                                 capture_output=True, text=True)
            self.assertEqual(run.returncode, 1)


HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


@unittest.skipIf(MISSING, MISSING)
@unittest.skipUnless(shutil.which("cc") and os.path.exists("/usr/include/dlpack/dlpack.h"),
                     "there is no C compiler, or no dlpack.h")
@unittest.skipUnless(os.environ.get("EJK_LIBRARY_DIR"), "EJK_LIBRARY_DIR does not say where "
                     "libejk_runtime.so is")
class ServedFromC(unittest.TestCase):
    def test_the_loop_of_the_page(self):
        """The C of docs/onnx.md, as it stands there, gives tokens one by one what the model gives
        for the sequence."""
        with open(os.path.join(ROOT, "docs", "onnx.md"), encoding="utf-8") as page:
            loop = re.search(r"^```c\n(.*?)^```$", page.read(), re.M | re.S).group(1)
        loop = re.sub(r"^(\s*)(ejk_\w+\(.*\));", r"\1check(\2);", loop, flags=re.M)
        rng = np.random.default_rng(4)
        model = attention(rng, "f32", "gated_delta", 4, 2, 8, 4, True, True, False)
        tokens = 11
        arrays = feed(rng, model, 1, tokens)
        arrays["past_state"] = np.zeros_like(arrays["past_state"])
        wanted = ReferenceEvaluator(model).run(None, arrays)
        with tempfile.TemporaryDirectory() as folder:
            ejk.onnx.compile(model).package(os.path.join(folder, "model.ejk"))
            with open(os.path.join(folder, "loop.inc"), "w", encoding="utf-8") as file:
                file.write(loop)
            library = os.environ["EJK_LIBRARY_DIR"]
            subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", "-I", folder,
                            "-I", os.path.join(ROOT, "runtime", "include"), "-o", "loop",
                            os.path.join(HERE, "Inputs", "onnx_loop.c"), "-L", library,
                            "-lejk_runtime", "-Wl,-rpath," + library], cwd=folder, check=True)
            rows = b"".join(arrays[n][0, t].tobytes() for t in range(tokens)
                            for n in ("query", "key", "value", "decay", "beta"))
            run = subprocess.run(["./loop", str(tokens)], cwd=folder, input=rows, check=True,
                                 stdout=subprocess.PIPE)
        found = np.frombuffer(run.stdout, np.float32)
        split = wanted[0].size
        self.assertEqual(found.size, split + wanted[1].size)
        self.assertLessEqual(off(found[:split].reshape(wanted[0].shape), wanted[0]), LIMITS["f32"])
        self.assertLessEqual(off(found[split:].reshape(wanted[1].shape), wanted[1]), LIMITS["f32"])


def times(rounds=11):
    """Processor time of each call, the median of rounds in which all take turns."""
    rng = np.random.default_rng(0)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3

    def session(model):
        return onnxruntime.InferenceSession(model.SerializeToString(), options,
                                            providers=["CPUExecutionProvider"])
    names = ("ejk", "ejk, expanded", "onnxruntime", "onnxruntime, expanded", "com.microsoft")
    print("ms of processor time, f32, [1, 512, 4 × 64]; load",
          *(f"{x:.1f}" for x in os.getloadavg()))
    print("update rule", *names, sep=" | ")
    for rule in RULES:
        model, contributed = (attention(rng, "f32", rule, 4, 4, 64, 64, True, False, False,
                                        domain=d) for d in ("", "com.microsoft"))
        arrays = feed(rng, model, 1, 512)
        own, other = ejk.onnx.compile(model), ejk.onnx.compile(expanded(model))
        sessions = [session(m) for m in (model, expanded(model), contributed)]
        runs = [lambda: own(**arrays), lambda: other(**arrays),
                *(lambda s=s: s.run(None, arrays) for s in sessions)]
        took = [[] for _ in runs]
        for _ in range(rounds + 1):
            for run, seen in rng.permutation(np.array(list(zip(runs, took)), object)):
                start = time.process_time()
                run()
                seen.append(time.process_time() - start)
        print(rule, *(f"{statistics.median(t[1:]) * 1e3:.2f}" for t in took), sep=" | ", flush=True)
    print("load", *(f"{x:.1f}" for x in os.getloadavg()))


if __name__ == "__main__":
    if "--time" in sys.argv:
        times()
    else:
        unittest.main()
