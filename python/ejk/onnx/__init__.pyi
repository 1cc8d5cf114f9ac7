"""Packages of ONNX models, for type checkers."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from .. import EjkError, _Tensor as Tensor

class OnnxError(EjkError): ...

class OnnxFunction:
    inputs: Sequence[str]
    outputs: Sequence[str]
    weights: Mapping[str, Any]
    def __call__(self, *tensors: Tensor, **named: Tensor) -> Any: ...
    def mlir(self) -> str: ...
    def package(self, path: str | os.PathLike[str], target: str | None = None) -> None: ...

def compile(model: Any, name: str = "model") -> OnnxFunction: ...
