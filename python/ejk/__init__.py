"""ejk: gated linear recurrences, compiled from a formula.

`recurrence` makes one of a Python function, `ops` has those with a name, and `compile` takes MLIR.
Tensors are torch's, JAX's or NumPy's."""

import importlib

from . import _arrays, _functions
from ._errors import (CompileError, Diagnostic, EjkError, RuntimeFailure, TensorError, TraceError)
from ._recurrence import Recurrence, recurrence
from ._values import State, Value

globals().update({name: getattr(_functions, name) for name in _functions.NAMES})

__version__ = "0.2.0"
__all__ = ["recurrence", "Recurrence", "State", "Value", "compile", "ops", "split", "cache", "cache_info",
           "clear_cache", "targets", "Explanation", "EjkError", "CompileError", "TraceError",
           "TensorError", "RuntimeFailure", "Diagnostic", *_functions.NAMES]

_LAZY = {"compile": "_inspect", "Explanation": "_inspect", "targets": "_inspect"}


def __getattr__(name):
    if name in _LAZY:
        return getattr(importlib.import_module("._inspect", __name__), name)
    if name == "split":
        return importlib.import_module(".parallel", __name__).split
    if name == "ops":
        return importlib.import_module(".ops", __name__)
    if name in ("cache", "cache_info", "clear_cache"):
        cache = importlib.import_module("._cache", __name__)
        return {"cache": cache, "cache_info": cache.info, "clear_cache": cache.clear}[name]
    raise AttributeError(f"module 'ejk' has no attribute '{name}'")


def __dir__():
    return sorted(__all__)


_arrays.load_doors()
