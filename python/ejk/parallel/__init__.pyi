"""Recurrences over segments of a sequence, for type checkers."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from .. import _Tensor as Tensor

_T = TypeVar("_T", bound=Tensor)

def exchanged_bytes(heads: int, key_channels: int, value_channels: int, batch: int = 1,
                    delta: bool = False, gv: bool = False) -> int: ...
def split(function: Callable[..., Any], q: _T, /, *tensors: Tensor, parts: int | Sequence[int],
          **named: Any) -> tuple[_T, _T]: ...
