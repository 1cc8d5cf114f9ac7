"""ONNX models of older opsets, constants in the body of a Scan, and files that hold no model."""

import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from test_onnx import MISSING

if not MISSING:
    import onnx
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator

import ejk
import ejk.onnx


def declared(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def ints(name, *numbers):
    return helper.make_tensor(name, TensorProto.INT64, [len(numbers)], numbers)


def model_of(opset, nodes, inputs, outputs, initializers=()):
    """A model of `opset`; inputs and outputs are {name: shape}."""
    graph = helper.make_graph(nodes, "g", [declared(n, s) for n, s in inputs.items()],
                              [declared(n, s) for n, s in outputs.items()], list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


class Compared(unittest.TestCase):
    def compare(self, model, *arrays):
        """A model's results beside those of ONNX's reference, of arithmetic that has no rounding here."""
        found = ejk.onnx.compile(model)(*arrays)
        found = found if isinstance(found, tuple) else (found,)
        wanted = ReferenceEvaluator(model).run(None, {i.name: a for i, a in zip(model.graph.input, arrays)})
        self.assertEqual(len(found), len(wanted))
        for a, b in zip(found, wanted):
            self.assertEqual(a.shape, b.shape)
            np.testing.assert_array_equal(a, b)

    def refused(self, model, *parts):
        with self.assertRaises(ejk.onnx.OnnxError) as caught:
            ejk.onnx.compile(model)
        for part in parts:
            self.assertIn(part, str(caught.exception))


X = np.arange(1, 25, dtype=np.float32).reshape(1, 4, 1, 6)


@unittest.skipIf(MISSING, MISSING)
class AttributesOfOlderOpsets(Compared):
    def of_node(self, opset, op, results=1, **attributes):
        names = [f"y{i}" for i in range(results)]
        return model_of(opset, [helper.make_node(op, ["x"], names, **attributes),
                                *(helper.make_node("Neg", [n], [n + "z"]) for n in names)],
                        {"x": X.shape}, {n + "z": None for n in names})

    def test_axes_of_squeeze_and_unsqueeze(self):
        for opset in (1, 8, 11, 12):
            for axes in ([0], [2], [0, 2]):
                with self.subTest(opset=opset, axes=axes):
                    self.compare(self.of_node(opset, "Squeeze", axes=axes), X)
                    self.compare(self.of_node(opset, "Unsqueeze", axes=axes), X)
        self.compare(self.of_node(11, "Squeeze", axes=[-2]), X)
        self.compare(self.of_node(11, "Squeeze"), X)

    def test_axes_around_a_reshape_of_sizes(self):
        """Sizes that are known at a call only go through Unsqueeze and Squeeze, too."""
        nodes = [helper.make_node("Shape", ["x"], ["sizes"]),
                 helper.make_node("Gather", ["sizes", "zero"], ["first"], axis=0),
                 helper.make_node("Squeeze", ["first"], ["number"], axes=[0]),
                 helper.make_node("Unsqueeze", ["number"], ["batch"], axes=[0]),
                 helper.make_node("Concat", ["batch", "rest"], ["wanted"], axis=0),
                 helper.make_node("Reshape", ["x", "wanted"], ["y"])]
        self.compare(model_of(11, nodes, {"x": ("n", 4, 6)}, {"y": ("n", 24)}, [ints("zero", 0), ints("rest", 24)]),
                     X.reshape(1, 4, 6))

    def test_constants(self):
        """Attributes of nodes of constants, of which some have several results."""
        for opset, op, attributes in ((11, "ReduceSum", {"axes": [1]}), (11, "Squeeze", {"axes": [0]}),
                                      (11, "Unsqueeze", {"axes": [0]}), (6, "Clip", {"min": 3.0, "max": 7.0}),
                                      (9, "Slice", {"starts": [1], "ends": [3], "axes": [1]}),
                                      (10, "Pad", {"pads": [0, 1, 0, 0, 0, 0, 0, 2], "value": 2.0}),
                                      (11, "Split", {"axis": 1, "split": [1, 3]}), (9, "TopK", {"k": 2, "axis": 3}),
                                      (13, "Softmax", {"axis": 1})):
            results = 2 if op == "Split" else 1
            names = [f"c{i}" for i in range(results)]
            own = names + ["indices"] * (op == "TopK")
            constant = onnx.numpy_helper.from_array(X, "constant")
            nodes = [helper.make_node(op, ["constant"], own, **attributes),
                     *(helper.make_node("Mul", ["x", n], ["y" + n]) for n in names)]
            with self.subTest(op):
                self.compare(model_of(opset, nodes, {"x": (1,)}, {"y" + n: None for n in names}, [constant]),
                             np.ones(1, np.float32))

    def test_other_forms(self):
        self.compare(self.of_node(11, "Split", 2, axis=3, split=[2, 4]), X)
        self.compare(self.of_node(2, "Split", 2, axis=1), X)
        two = model_of(3, [helper.make_node("Concat", ["constant", "constant"], ["c"]),
                           helper.make_node("Mul", ["x", "c"], ["y"])], {"x": (1, 4, 1, 6)}, {"y": (1, 8, 1, 6)},
                       [onnx.numpy_helper.from_array(X[:, :1], "constant")])
        self.refused(two, "node 0, Concat", "opset 3")

    def test_what_is_refused_names_the_op_and_the_opset(self):
        self.refused(self.of_node(13, "Squeeze", axes=[0]), "Squeeze", "'axes' is an input", "opset 13")
        self.refused(self.of_node(13, "Unsqueeze"), "Unsqueeze", "its axes or sizes", "opset 13")
        self.refused(self.of_node(11, "Unsqueeze"), "Unsqueeze", "its axes or sizes", "opset 11")
        self.refused(self.of_node(4, "Reshape"), "Reshape", "its axes or sizes", "opset 4")
        constant = onnx.numpy_helper.from_array(X, "constant")
        self.refused(model_of(11, [helper.make_node("Softmax", ["constant"], ["c"], axis=1),
                                   helper.make_node("Mul", ["x", "c"], ["y"])], {"x": (1,)}, {"y": None}, [constant]),
                     "Softmax of opset 11")
        self.refused(model_of(6, [helper.make_node("Add", ["x", "w"], ["y"], broadcast=1, axis=1)],
                              {"x": (1, 4, 1, 6), "w": (4,)}, {"y": None}), "Add of opset 6", "'axis'")
        self.refused(model_of(4, [helper.make_node("Reshape", ["x"], ["y"], shape=[5, 5])], {"x": X.shape},
                              {"y": None}), "node 0, Reshape", "[5, 5]")
        self.compare(model_of(4, [helper.make_node("Neg", ["x"], ["n"]), helper.make_node("Neg", ["n"], ["y"])],
                              {"x": X.shape}, {"y": None}), X)

    def test_shape_of_reshape(self):
        model = model_of(4, [helper.make_node("Reshape", ["x"], ["y"], shape=[4, -1])], {"x": X.shape}, {"y": (4, 6)})
        np.testing.assert_array_equal(ejk.onnx.compile(model)(X), X.reshape(4, 6))


@unittest.skipIf(MISSING, MISSING)
class Scans(Compared):
    def model(self, opset=21, initializers=(), nodes=(), name="y"):
        """A cumulative sum of rows times 0.5 in a Scan, whose body has `initializers` and `nodes` before its own."""
        step = helper.make_graph([*nodes, helper.make_node("Mul", ["x", "half"], ["y"]),
                                  helper.make_node("Add", ["S", name], ["S1"]),
                                  helper.make_node("Identity", ["S1"], ["o"])], "step",
                                 [declared("S", (1, 1, 2)), declared("x", (1, 1, 2))],
                                 [declared("S1", (1, 1, 2)), declared("o", (1, 1, 2))], list(initializers))
        return model_of(opset, [helper.make_node("Scan", ["S0", "X"], ["S", "O"], body=step, num_scan_inputs=1)],
                        {"S0": (1, 1, 2), "X": (3, 1, 1, 2)}, {"S": (1, 1, 2), "O": (3, 1, 1, 2)})

    ARRAYS = np.full((1, 1, 2), 0.25, np.float32), np.arange(6, dtype=np.float32).reshape(3, 1, 1, 2)

    def test_initializers_of_the_body(self):
        half = helper.make_tensor("half", TensorProto.FLOAT, [1], [0.5])
        self.compare(self.model(initializers=[half]), *self.ARRAYS)
        # The body's name is another one than that around it.
        model = self.model(initializers=[half])
        model.graph.initializer.append(helper.make_tensor("half", TensorProto.FLOAT, [1], [8.0]))
        found = ejk.onnx.compile(model)(*self.ARRAYS)
        for a, b in zip(found, ejk.onnx.compile(self.model(initializers=[half]))(*self.ARRAYS)):
            np.testing.assert_array_equal(a, b)

    def test_a_sparse_initializer(self):
        model = self.model()
        body = model.graph.node[0].attribute[0].g if model.graph.node[0].attribute[0].name == "body" else (
            model.graph.node[0].attribute[1].g)
        body.sparse_initializer.append(helper.make_sparse_tensor(
            helper.make_tensor("half", TensorProto.FLOAT, [1], [0.5]), ints("", 0), [1]))
        for a, b in zip(ejk.onnx.compile(model)(*self.ARRAYS), ejk.onnx.compile(self.model(initializers=[
                helper.make_tensor("half", TensorProto.FLOAT, [1], [0.5])]))(*self.ARRAYS)):
            np.testing.assert_array_equal(a, b)

    def test_attributes_of_the_bodys_nodes(self):
        """Axes of a constant, and of a row, in a body of opset 11."""
        given = helper.make_tensor("given", TensorProto.FLOAT, [1, 1], [0.5])
        nodes = [helper.make_node("Squeeze", ["given"], ["half"], axes=[0]),
                 helper.make_node("Unsqueeze", ["y"], ["wide"], axes=[3]),
                 helper.make_node("Squeeze", ["wide"], ["narrow"], axes=[3])]
        model = self.model(11, [given], nodes[:1], "narrow")
        for attribute in model.graph.node[0].attribute:
            if attribute.name == "body":
                own = list(attribute.g.node)
                del attribute.g.node[:]
                attribute.g.node.extend([*own[:2], *nodes[1:], *own[2:]])
        self.compare(model, *self.ARRAYS)

    def test_the_scan_of_opset_8(self):
        half = helper.make_tensor("half", TensorProto.FLOAT, [1], [0.5])
        self.refused(self.model(8, [half]), "Scan of opset 8")


@unittest.skipIf(MISSING, MISSING)
class DamagedFiles(unittest.TestCase):
    def test_an_error_in_one_line_names_the_file(self):
        half = helper.make_tensor("w", TensorProto.FLOAT, [6], np.ones(6, np.float32).tobytes(), raw=True)
        model = model_of(21, [helper.make_node("Add", ["x", "w"], ["y"])], {"x": (6,)}, {"y": (6,)}, [half])
        whole = model.SerializeToString()
        model.graph.initializer[0].raw_data = b"123"
        apart = model_of(21, list(model.graph.node), {"x": (6,)}, {"y": (6,)}, [half])
        own = apart.graph.initializer[0]
        own.ClearField("raw_data")
        own.data_location = TensorProto.EXTERNAL
        own.external_data.add(key="location", value="gone.bin")
        files = {"text.onnx": b"no model", "empty.onnx": b"", "cut.onnx": whole[:-20], "bad.json": b"{",
                 "bad.textproto": b"x {", "weights.onnx": model.SerializeToString(),
                 "apart.onnx": apart.SerializeToString(),
                 "no-output.onnx": model_of(21, [], {}, {}).SerializeToString()}
        with tempfile.TemporaryDirectory() as folder:
            for name, data in files.items():
                path = os.path.join(folder, name)
                with open(path, "wb") as file:
                    file.write(data)
                with self.subTest(name):
                    with self.assertRaises(ejk.onnx.OnnxError):
                        ejk.onnx.compile(path)
                    if name in ("text.onnx", "weights.onnx"):
                        run = subprocess.run([sys.executable, "-m", "ejk.onnx", path, "--mlir"],
                                             capture_output=True, text=True)
                        self.assertEqual(run.returncode, 1)
                        self.assertRegex(run.stderr, rf"\A{path}: error: [^\n]*\n\Z")
        with self.assertRaisesRegex(ejk.onnx.OnnxError, "no ONNX model can be read from"):
            ejk.onnx.compile(b"no model")


if __name__ == "__main__":
    unittest.main()
