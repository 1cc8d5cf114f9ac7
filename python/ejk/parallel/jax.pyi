"""Functions of ejk.ops over the devices of an axis, for type checkers."""

from collections.abc import Hashable
from typing import TypeVar

from .. import _Tensor as Tensor

_T = TypeVar("_T", bound=Tensor)

def recurrent(q: _T, k: Tensor, v: Tensor, g: Tensor | None = None, g_gamma: Tensor | None = None,
              gk: Tensor | None = None, gv: Tensor | None = None, *, axis: Hashable,
              scale: float | None = None, initial_state: Tensor | None = None,
              cu_seqlens: Tensor | None = None) -> tuple[_T, _T]: ...
def gla(q: _T, k: Tensor, v: Tensor, g: Tensor, *, axis: Hashable, scale: float | None = None,
        initial_state: Tensor | None = None, cu_seqlens: Tensor | None = None) -> tuple[_T, _T]: ...
def simple_gla(q: _T, k: Tensor, v: Tensor, g: Tensor | None = None, g_gamma: Tensor | None = None,
               *, axis: Hashable, scale: float | None = None,
               initial_state: Tensor | None = None, cu_seqlens: Tensor | None = None) -> tuple[_T, _T]: ...
def mamba2_ssd(x: _T, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None = None,
               dt_bias: Tensor | None = None, *, axis: Hashable, dt_softplus: bool = False,
               initial_state: Tensor | None = None,
               cu_seqlens: Tensor | None = None) -> tuple[_T, _T]: ...
def delta_rule(q: _T, k: Tensor, v: Tensor, beta: Tensor, *, axis: Hashable,
               scale: float | None = None, initial_state: Tensor | None = None,
               cu_seqlens: Tensor | None = None) -> tuple[_T, _T]: ...
def gated_delta_rule(q: _T, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, *, axis: Hashable,
                     scale: float | None = None, initial_state: Tensor | None = None,
                     cu_seqlens: Tensor | None = None) -> tuple[_T, _T]: ...
def kda(q: _T, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, *, axis: Hashable,
        scale: float | None = None, initial_state: Tensor | None = None,
        cu_seqlens: Tensor | None = None, lower_bound: float | None = None) -> tuple[_T, _T]: ...
