"""ejkernel's recurrences, for type checkers."""

from typing import TypeVar

from .. import _Tensor as Tensor

_T = TypeVar("_T", bound=Tensor)

def recurrent(query: _T, key: Tensor, value: Tensor, g: Tensor | None = None,
              g_gamma: Tensor | None = None, gk: Tensor | None = None, gv: Tensor | None = None,
              softmax_scale: float | None = None, initial_state: Tensor | None = None,
              reverse: bool = False, cu_seqlens: Tensor | None = None, block_k: int = 64,
              block_v: int = 64, num_warps: int = 4, num_stages: int = 1) -> tuple[_T, _T]: ...
def recurrent_gla(query: _T, key: Tensor, value: Tensor, g: Tensor | None = None,
                  g_gamma: Tensor | None = None, softmax_scale: float | None = None,
                  initial_state: Tensor | None = None, reverse: bool = False,
                  cu_seqlens: Tensor | None = None, block_k: int = 64, block_v: int = 64,
                  num_warps: int = 4, num_stages: int = 1) -> tuple[_T, _T]: ...
def lightning_attn(query: _T, key: Tensor, value: Tensor, layer_idx: int, num_layers: int,
                   softmax_scale: float | None = None, initial_state: Tensor | None = None,
                   reverse: bool = False, cu_seqlens: Tensor | None = None, block_k: int = 64,
                   block_v: int = 64, num_warps: int = 4, num_stages: int = 1) -> tuple[_T, _T]: ...
