"""Functions of ejk.ops over segments of processes, for type checkers."""

from collections.abc import Sequence
from typing import Any, TypeVar

from .. import _Tensor as Tensor

_T = TypeVar("_T", bound=Tensor)

class Local:
    parts: int | Sequence[int]
    def __init__(self, parts: int | Sequence[int]) -> None: ...
    def lengths(self, rows: int) -> list[int]: ...

# `group` is a ProcessGroup of torch.distributed, a Local, or None for the default group.

def recurrent(q: _T, k: Tensor, v: Tensor, g: Tensor | None = None, g_gamma: Tensor | None = None,
              gk: Tensor | None = None, gv: Tensor | None = None, *, scale: float | None = None,
              initial_state: Tensor | None = None, cu_seqlens: Tensor | None = None,
              group: Any = None) -> tuple[_T, _T]: ...
def gla(q: _T, k: Tensor, v: Tensor, g: Tensor, *, scale: float | None = None,
        initial_state: Tensor | None = None, cu_seqlens: Tensor | None = None,
        group: Any = None) -> tuple[_T, _T]: ...
def simple_gla(q: _T, k: Tensor, v: Tensor, g: Tensor | None = None, g_gamma: Tensor | None = None,
               *, scale: float | None = None, initial_state: Tensor | None = None,
               cu_seqlens: Tensor | None = None, group: Any = None) -> tuple[_T, _T]: ...
def lightning_attn(q: _T, k: Tensor, v: Tensor, layer_idx: int, num_layers: int,
                   *, scale: float | None = None, initial_state: Tensor | None = None,
                   cu_seqlens: Tensor | None = None, group: Any = None) -> tuple[_T, _T]: ...
def retention(q: _T, k: Tensor, v: Tensor, *, scale: float | None = None,
              initial_state: Tensor | None = None, cu_seqlens: Tensor | None = None,
              group: Any = None) -> tuple[_T, _T]: ...
def linear_attn(q: _T, k: Tensor, v: Tensor, *, scale: float | None = None,
                initial_state: Tensor | None = None, cu_seqlens: Tensor | None = None,
                group: Any = None) -> tuple[_T, _T]: ...
def mamba2_ssd(x: _T, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None = None,
               dt_bias: Tensor | None = None, *, dt_softplus: bool = False,
               initial_state: Tensor | None = None, cu_seqlens: Tensor | None = None,
               group: Any = None) -> tuple[_T, _T]: ...
def delta_rule(q: _T, k: Tensor, v: Tensor, beta: Tensor, *, scale: float | None = None,
               initial_state: Tensor | None = None, cu_seqlens: Tensor | None = None,
               group: Any = None) -> tuple[_T, _T]: ...
def gated_delta_rule(q: _T, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, *,
                     scale: float | None = None, initial_state: Tensor | None = None,
                     cu_seqlens: Tensor | None = None, group: Any = None) -> tuple[_T, _T]: ...
def kda(q: _T, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, *, scale: float | None = None,
        initial_state: Tensor | None = None, cu_seqlens: Tensor | None = None,
        group: Any = None, lower_bound: float | None = None) -> tuple[_T, _T]: ...
