"""Each elementwise node of an ONNX model beside ONNX's own evaluator, and the types and numbers of its constants."""

import unittest

import numpy as np

from test_onnx import MISSING
from test_onnx_opsets import Compared, model_of

if not MISSING:
    import onnx
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator

import ejk
import ejk.onnx
from ejk.onnx import _nodes

# Halves, which Floor, Ceil and Relu tell apart, numbers of both signs, infinities and NaN.
NUMBERS = np.array([-3.5, -1.25, -0.5, 0.0, 0.5, 1.0, 2.75, 30.0, np.inf, -np.inf, np.nan], np.float32)
# Of what these take alone: Log of a number below 0 is NaN in both, but the evaluator warns.
POSITIVE = ("Log", "Sqrt")


@unittest.skipIf(MISSING, MISSING)
class Elementwise(unittest.TestCase):
    def compare(self, op, *arrays):
        names = ["x", "y"][:len(arrays)]
        model = model_of(21, [helper.make_node(op, names, ["z"])],
                         {n: a.shape for n, a in zip(names, arrays)}, {"z": None})
        with np.errstate(all="ignore"):
            wanted, = ReferenceEvaluator(model).run(None, dict(zip(names, arrays)))
        # Functions of float32 differ by some of its last places.
        np.testing.assert_allclose(ejk.onnx.compile(model)(*arrays), wanted, rtol=2e-6, atol=1e-7, err_msg=op)

    def test_one_operand(self):
        for op in _nodes.UNARY:
            with self.subTest(op):
                x = abs(NUMBERS) if op in POSITIVE else NUMBERS
                self.compare(op, x[np.isfinite(x)] if op in ("Sin", "Cos") else x)

    def test_two_operands(self):
        x, y = (np.ascontiguousarray(a) for a in np.broadcast_arrays(NUMBERS[:8, None], NUMBERS[None, :8]))
        for op in _nodes.BINARY:
            with self.subTest(op):
                self.compare(op, abs(x) if op == "Pow" else x, y)
                self.compare(op, abs(x) if op == "Pow" else x, y[0])


@unittest.skipIf(MISSING, MISSING)
class Constants(Compared):
    X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)

    def test_a_number_that_is_cast(self):
        """It is rounded where it is cast, to float16 here, in which 1e5 is infinite."""
        half = onnx.numpy_helper.from_array(np.ones(2, np.float16), "half")
        sizes = onnx.numpy_helper.from_array(np.array([1], np.int64), "sizes")
        for number in (1 / 3, 1e5):
            value = helper.make_tensor("value", TensorProto.FLOAT, [1], [number])
            for cast in (helper.make_node("CastLike", ["wide", "half"], ["own"]),
                         helper.make_node("CastLike", ["wide", "narrow"], ["own"]),
                         helper.make_node("Cast", ["wide"], ["own"], to=TensorProto.FLOAT16)):
                nodes = [helper.make_node("ConstantOfShape", ["sizes"], ["wide"], value=value),
                         helper.make_node("Cast", ["x"], ["narrow"], to=TensorProto.FLOAT16), cast,
                         helper.make_node("Mul", ["narrow", "own"], ["product"]),
                         helper.make_node("Cast", ["product"], ["y"], to=TensorProto.FLOAT)]
                self.compare(model_of(21, nodes, {"x": (2, 3)}, {"y": (2, 3)}, [half, sizes]), self.X)

    def test_columns_before_a_convolution(self):
        """They are one number everywhere, in a Concat before the Conv."""
        sizes = onnx.numpy_helper.from_array(np.array([2, 3, 2], np.int64), "sizes")
        nodes = [helper.make_node("Concat", ["before", "x"], ["joined"], axis=2),
                 helper.make_node("Conv", ["joined", "w"], ["y"], group=3)]
        x, w = np.arange(30, dtype=np.float32).reshape(2, 3, 5), np.ones((3, 1, 3), np.float32)
        for number in (0.0, 0.5):
            value = helper.make_tensor("value", TensorProto.FLOAT, [1], [number])
            before = helper.make_node("ConstantOfShape", ["sizes"], ["before"], value=value)
            model = model_of(21, [before, *nodes], {"x": (2, 3, 5), "w": (3, 1, 3)}, {"y": (2, 3, 5)}, [sizes])
            self.compare(model, x, w)

    def test_last_columns_before_their_convolution(self):
        numbers = {"start": 5, "end": 7, "axis": 2}
        constants = [onnx.numpy_helper.from_array(np.array([n], np.int64), name) for name, n in numbers.items()]
        nodes = [helper.make_node("Concat", ["before", "x"], ["joined"], axis=2),
                 helper.make_node("Conv", ["joined", "w"], ["y"], group=3),
                 helper.make_node("Slice", ["joined", "start", "end", "axis"], ["last"])]
        sizes = {"before": (2, 3, 2), "x": (2, 3, 5), "w": (3, 1, 3)}, {"y": (2, 3, 5), "last": (2, 3, 2)}
        given = [np.arange(np.prod(s), dtype=np.float32).reshape(s) for s in sizes[0].values()]
        self.compare(model_of(21, nodes, *sizes, constants), *given)
        with self.assertRaisesRegex(ejk.onnx.OnnxError, "node 1, Slice: it must come after the Conv of these columns"):
            ejk.onnx.compile(model_of(21, [nodes[0], nodes[2], nodes[1]], *sizes, constants))

    def test_sparse_initializers(self):
        """Their indices are places of the elements in their order, or one for each axis."""
        values = helper.make_tensor("w", TensorProto.FLOAT, [3], [0.5, 2.0, 4.0])
        for at in ([0, 2, 4], [[0, 0], [0, 2], [1, 1]]):
            at = onnx.numpy_helper.from_array(np.array(at, np.int64))
            model = model_of(21, [helper.make_node("Mul", ["x", "w"], ["y"])], {"x": (2, 3)}, {"y": (2, 3)})
            model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, at, [2, 3]))
            np.testing.assert_array_equal(ejk.onnx.compile(model)(self.X), [[0.5, 0, 6], [0, 20, 0]])


if __name__ == "__main__":
    unittest.main()
