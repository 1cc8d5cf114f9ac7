"""ONNX models with linear attention, compiled by ejk.

`compile(model)` makes a function and packages of a model that holds LinearAttention,
CausalConvWithState, and elementwise nodes around them."""

from ._model import OnnxError, OnnxFunction, compile

__all__ = ["compile", "OnnxError", "OnnxFunction"]
