"""torch.onnx.export of calls, whose nodes onnxruntime runs and ejk.onnx reads."""

import importlib.util
import logging
import unittest
import unittest.mock

import numpy as np
import onnx
import onnxruntime
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import ejk
import ejk.onnx
from ejk import _torch, _torch_onnx

ops = ejk.ops


class Model(torch.nn.Module):
    """Calls on two heads of keys and values, and on four query heads or two."""

    def forward(self, q, q2, k, v, g, gk, beta, state):
        return [*ops.linear_attn(q, k, v), *ops.simple_gla(q2, k, v, g, scale=0.3),
                *ops.gla(q, k, v, gk, initial_state=state, shared_state=True),
                *ops.recurrent(q2, k, v, gk=gk), *ops.delta_rule(q2, k, v, beta),
                *ops.gated_delta_rule(q, k, v, g, beta, scale=0.5, initial_state=state,
                                      shared_state=True), *ops.kda(q2, k, v, gk, beta)]


class Sixteen(torch.nn.Module):
    """Rows of 16 bits beside float32's gates, and alone."""

    def forward(self, q, k, v, g):
        return [*ops.simple_gla(q, k, v, g, shared_state=True), *ops.linear_attn(q, k, v)]


class Shared(torch.nn.Module):
    """Six query heads share three heads of keys and values in pairs; gates have as many heads as there are states."""

    def forward(self, q, k, v, g, gk, beta, g3, gk3, beta3):
        return [*ops.linear_attn(q, k, v), *ops.linear_attn(q, k, v, shared_state=True), *ops.simple_gla(q, k, v, g),
                *ops.simple_gla(q, k, v, g3, shared_state=True), *ops.gla(q, k, v, gk),
                *ops.gla(q, k, v, gk3, shared_state=True), *ops.delta_rule(q, k, v, beta),
                *ops.gated_delta_rule(q, k, v, g, beta), *ops.kda(q, k, v, gk, beta),
                *ops.gated_delta_rule(q, k, v, g3, beta3, shared_state=True)]


def operands(T=6, B=2, K=8, V=16):
    torch.manual_seed(T)
    k = torch.nn.functional.normalize(torch.randn(B, T, 2, K), dim=-1)
    return (torch.randn(B, T, 4, K), torch.randn(B, T, 2, K), k, torch.randn(B, T, 2, V), -torch.rand(B, T, 2),
            -torch.rand(B, T, 2, K), torch.rand(B, T, 2), torch.randn(B, 2, K, V))


@unittest.skipUnless(importlib.util.find_spec("onnxscript"), "torch exports by onnxscript")
class Export(unittest.TestCase):
    def setUp(self):
        logging.disable(logging.WARNING)
        self.addCleanup(logging.disable, logging.NOTSET)

    def export(self, model, arguments):
        batch, time = torch.export.Dim("batch", max=64), torch.export.Dim("time", max=4096)
        sizes = tuple({0: batch, 1: time} if x.shape[1] == 6 else {0: batch} for x in arguments)
        return torch.onnx.export(model.eval(), arguments, dynamo=True, verbose=False,
                                 dynamic_shapes=sizes).model_proto

    def close(self, found, wanted):
        for a, b in zip(found, wanted, strict=True):
            torch.testing.assert_close(torch.as_tensor(a), b, rtol=1e-4, atol=1e-5)

    def test_values(self):
        model = self.export(Model(), operands())
        nodes = [n for n in model.graph.node if n.op_type == "LinearAttention"]
        self.assertEqual([{a.name: a.s for a in n.attribute}["update_rule"].decode()
                          for n in nodes], ["linear", "gated", "gated", "gated", "delta",
                                            "gated_delta", "gated_delta"])
        session = onnxruntime.InferenceSession(model.SerializeToString())
        for T in (6, 9):
            arguments = operands(T)
            wanted = Model()(*arguments)
            names = [i.name for i in model.graph.input]
            self.close(session.run(None, dict(zip(names, (x.numpy() for x in arguments)))), wanted)
            self.close(ejk.onnx.compile(model)(*arguments), wanted)

    def test_sixteen_bits(self):
        q, _, k, v, g, *_ = operands()
        arguments = (q.bfloat16(), k.bfloat16(), v.bfloat16(), g)
        model = self.export(Sixteen(), arguments)
        for a, b in zip(ejk.onnx.compile(model)(*arguments), Sixteen()(*arguments), strict=True):
            self.assertEqual(a.dtype, b.dtype)
            self.assertLess(float((a - b).float().norm() / b.float().norm()), 4e-3)

    def test_heads_that_are_shared(self):
        """Neighbours share a head: query heads 0 and 1 the first one. Each node beside the function's own result."""
        torch.manual_seed(0)
        B, T, K, V = 2, 6, 8, 4
        k = torch.nn.functional.normalize(torch.randn(B, T, 3, K), dim=-1)
        gates = [x for H in (6, 3) for x in (-torch.rand(B, T, H), -torch.rand(B, T, H, K), torch.rand(B, T, H))]
        arguments = (torch.randn(B, T, 6, K), k, torch.randn(B, T, 3, V), *gates)
        for dtype, limit in ((torch.float32, 1e-5), (torch.float16, 2e-3), (torch.bfloat16, 1.6e-2)):
            own = [x.to(dtype) for x in arguments]
            model = self.export(Shared(), tuple(own))
            wanted, runs = Shared()(*own), {"ejk": lambda: ejk.onnx.compile(model)(*own)}
            if dtype != torch.bfloat16:  # NumPy has none
                session = onnxruntime.InferenceSession(model.SerializeToString())
                named = {i.name: x.numpy() for i, x in zip(model.graph.input, own)}
                runs["onnxruntime"] = lambda: session.run(None, named)
            for by, run in runs.items():
                with self.subTest(by, dtype=dtype):
                    for number, (a, b) in enumerate(zip(map(torch.as_tensor, run()), wanted, strict=True)):
                        self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape))
                        self.assertLess(float((a - b).double().norm() / b.double().norm()), limit, f"result {number}")

    def test_what_does_not_fit(self):
        q, q2, k, v, g, gk, beta, _ = operands()
        with unittest.mock.patch.object(_torch_onnx, "is_exporting", return_value=True), \
                FakeTensorMode() as mode:
            def fake(*tensors):
                return map(mode.from_tensor, tensors)
            for name, call in (
                    ("recurrent", lambda: ops.linear_attn(*fake(q, k, v), reverse=True)),
                    ("hgrn2", lambda: ops.hgrn2(*fake(q2, gk, v))),
                    ("gla", lambda: ops.simple_gla(*(x.double() for x in fake(q, k, v, g)), shared_state=True)),
                    ("delta_rule", lambda: ops.delta_rule(*fake(q2, k, v, g), reverse=True)),
                    ("delta_rule", lambda: ops.kda(*fake(q2, k, v, gk, beta), lower_bound=-5.0))):
                with self.assertRaisesRegex(ejk.EjkError, f"does not compute '{name}'"):
                    call()


class Weights(unittest.TestCase):
    """Those of a model, which are NumPy arrays, on the device of the tensors that it is called with."""

    def test_results(self):
        model = ejk.onnx.compile(onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
            g (float[N,3] x) => (float[N,3] y) <float[3] w = {0.5, 1, 2}> { y = Mul (x, w) }"""))
        x = torch.ones(2, 3)
        self.assertEqual(model(x).tolist(), [[0.5, 1, 2]] * 2)
        found = model(x.to("meta"))
        self.assertEqual((found.device.type, found.shape), ("meta", (2, 3)))

    def test_copies_stay(self):
        arrays, x, kept = [np.ones(3, "f4"), np.zeros(3, "f4")], torch.empty(1), {}
        self.assertIs(_torch.beside(arrays, x, kept), arrays)
        with unittest.mock.patch.object(_torch, "_is_traced", lambda tensors: False), torch.inference_mode():
            first, second = (_torch.beside(arrays, x.to("meta"), kept) for _ in range(2))
        self.assertEqual([t.device.type for t in first], ["meta"] * 2)
        self.assertFalse(any(t.is_inference() for t in first))
        self.assertTrue(all(a is b for a, b in zip(first, second)) and first[0] is not first[1])


if __name__ == "__main__":
    unittest.main()
