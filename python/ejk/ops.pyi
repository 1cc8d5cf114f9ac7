"""Recurrences that have a name, for type checkers."""

from collections.abc import Sequence
from typing import Any, TypeVar

from . import _Tensor as Tensor

_T = TypeVar("_T", bound=Tensor)

def recurrent(q: _T, k: Tensor, v: Tensor, g: Tensor | None = None, g_gamma: Tensor | None = None,
              gk: Tensor | None = None, gv: Tensor | None = None, *, scale: float | None = None,
              initial_state: Tensor | None = None, cu_seqlens: Tensor | None = None,
              reverse: bool = False, save_states: bool = True,
              shared_state: bool = False, **pools: Any) -> tuple[_T, _T]: ...
def gla(q: _T, k: Tensor, v: Tensor, g: Tensor, *, scale: float | None = None,
        initial_state: Tensor | None = None, cu_seqlens: Tensor | None = None,
        reverse: bool = False, save_states: bool = True,
        shared_state: bool = False, **pools: Any) -> tuple[_T, _T]: ...
def simple_gla(q: _T, k: Tensor, v: Tensor, g: Tensor | None = None, g_gamma: Tensor | None = None,
               *, scale: float | None = None, initial_state: Tensor | None = None,
               cu_seqlens: Tensor | None = None, reverse: bool = False, save_states: bool = True,
               shared_state: bool = False, **pools: Any) -> tuple[_T, _T]: ...
def lightning_attn(q: _T, k: Tensor, v: Tensor, layer_idx: int, num_layers: int, *,
                   scale: float | None = None, initial_state: Tensor | None = None,
                   cu_seqlens: Tensor | None = None, reverse: bool = False,
                   save_states: bool = True, **pools: Any) -> tuple[_T, _T]: ...
def retention(q: _T, k: Tensor, v: Tensor, *, scale: float | None = None,
              initial_state: Tensor | None = None, cu_seqlens: Tensor | None = None,
              reverse: bool = False, save_states: bool = True, **pools: Any) -> tuple[_T, _T]: ...
def linear_attn(q: _T, k: Tensor, v: Tensor, *, scale: float | None = None,
                initial_state: Tensor | None = None, cu_seqlens: Tensor | None = None,
                reverse: bool = False, save_states: bool = True,
                shared_state: bool = False, **pools: Any) -> tuple[_T, _T]: ...
def mamba2_ssd(x: _T, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None = None,
               dt_bias: Tensor | None = None, *, dt_softplus: bool = False,
               initial_state: Tensor | None = None, cu_seqlens: Tensor | None = None,
               reverse: bool = False, save_states: bool = True, **pools: Any) -> tuple[_T, _T]: ...
def rwkv6(r: _T, k: Tensor, v: Tensor, w: Tensor, u: Tensor, *, scale: float | None = 1.0,
          initial_state: Tensor | None = None, cu_seqlens: Tensor | None = None,
          reverse: bool = False, save_states: bool = True, **pools: Any) -> tuple[_T, _T]: ...
def hgrn2(q: _T, g: Tensor, i: Tensor, *, initial_state: Tensor | None = None,
          cu_seqlens: Tensor | None = None, reverse: bool = False,
          save_states: bool = True, **pools: Any) -> tuple[_T, _T]: ...
def mlstm(q: _T, k: Tensor, v: Tensor, i: Tensor, f: Tensor, *, scale: float | None = None, eps: float = 0.0,
          initial_state: tuple[Tensor | None, ...] | None = None, cu_seqlens: Tensor | None = None,
          reverse: bool = False, save_states: bool = True, **pools: Any) -> tuple[_T, tuple[_T, _T, _T]]: ...
def delta_rule(q: _T, k: Tensor, v: Tensor, beta: Tensor, *, scale: float | None = None,
               initial_state: Tensor | None = None, cu_seqlens: Tensor | None = None,
               reverse: bool = False, save_states: bool = True,
               shared_state: bool = False, **pools: Any) -> tuple[_T, _T]: ...
def gated_delta_rule(q: _T, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, *,
                     scale: float | None = None, initial_state: Tensor | None = None,
                     cu_seqlens: Tensor | None = None, reverse: bool = False,
                     save_states: bool = True, shared_state: bool = False, **pools: Any) -> tuple[_T, _T]: ...
def gated_delta_net(q: Tensor, k: Tensor, v: Tensor, z: Tensor, a: Tensor, b: Tensor,
                    conv_weight: Tensor, A_log: Tensor, dt_bias: Tensor, norm_weight: Tensor, *,
                    allow_neg_eigval: bool = False, conv_bias: Tensor | None = None, eps: float = 1e-6, scale: float | None = None,
                    conv_state: Sequence[Tensor] | None = None, output_conv_state: bool = False,
                    initial_state: Tensor | None = None, cu_seqlens: Tensor | None = None,
                    save_states: bool = True) -> tuple[Any, ...]: ...
def kda_block(q: Tensor, k: Tensor, v: Tensor, g: Tensor, b: Tensor, z: Tensor, conv_weight: Tensor,
              A_log: Tensor, dt_bias: Tensor | None, norm_weight: Tensor, *,
              lower_bound: float | None = None, allow_neg_eigval: bool = False,
              conv_bias: Tensor | None = None, eps: float = 1e-5, scale: float | None = None, conv_state: Sequence[Tensor] | None = None,
              output_conv_state: bool = False, initial_state: Tensor | None = None,
              cu_seqlens: Tensor | None = None, save_states: bool = True) -> tuple[Any, ...]: ...
def mamba2_block(x: Tensor, B: Tensor, C: Tensor, z: Tensor, dt: Tensor, conv_weight: Tensor, A_log: Tensor,
                 dt_bias: Tensor | None, D: Tensor | None, norm_weight: Tensor | None, *,
                 conv_bias: Tensor | None = None, eps: float = 1e-5, norm_before_gate: bool = False,
                 norm_groups: int | None = None, dt_limit: tuple[float, float] = ...,
                 mask: Tensor | None = None, conv_state: Sequence[Tensor] | None = None,
                 output_conv_state: bool = False, initial_state: Tensor | None = None,
                 cu_seqlens: Tensor | None = None, save_states: bool = True) -> tuple[Any, ...]: ...
def rwkv7_shift(x: _T, x_r: Tensor, x_w: Tensor, x_k: Tensor, x_v: Tensor, x_a: Tensor,
                x_g: Tensor | None = None, *, row: Tensor | None = None, output_row: bool = False,
                cu_seqlens: Tensor | None = None) -> tuple[_T, ...]: ...
def rwkv7_block(r: _T, w: Tensor, k: Tensor, v: Tensor, a: Tensor, g: Tensor, k_k: Tensor, k_a: Tensor,
                r_k: Tensor, norm_weight: Tensor | None, norm_bias: Tensor | None, *,
                v_first: Tensor | None = None, v_share: Tensor | None = None,
                eps: float | None = None, initial_state: Tensor | None = None,
                cu_seqlens: Tensor | None = None, save_states: bool = True) -> tuple[_T, _T]: ...
def kda(q: _T, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, *, scale: float | None = None,
        initial_state: Tensor | None = None, cu_seqlens: Tensor | None = None,
        reverse: bool = False, save_states: bool = True,
        shared_state: bool = False, lower_bound: float | None = None, **pools: Any) -> tuple[_T, _T]: ...
def rwkv7(r: _T, w: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, *,
          scale: float | None = 1.0, initial_state: Tensor | None = None,
          cu_seqlens: Tensor | None = None, reverse: bool = False,
          save_states: bool = True, **pools: Any) -> tuple[_T, _T]: ...
def gated_delta_product(q: Tensor, k: _T | Sequence[_T], v: _T | Sequence[_T],
                        beta: Tensor | Sequence[Tensor], g: Tensor | None = None, *,
                        scale: float | None = None, initial_state: Tensor | None = None,
                        cu_seqlens: Tensor | None = None, reverse: bool = False,
                        save_states: bool = True) -> tuple[_T, _T]: ...
def gdn2(q: _T, k: Tensor, v: Tensor, g: Tensor, b: Tensor, w: Tensor, *,
         scale: float | None = None, initial_state: Tensor | None = None,
         cu_seqlens: Tensor | None = None, reverse: bool = False,
         save_states: bool = True) -> tuple[_T, _T]: ...
def comba(q: _T, k: Tensor, v: Tensor, p: Tensor, g: Tensor | None, beta: Tensor, *,
          scale: float | None = None, initial_state: Tensor | None = None,
          cu_seqlens: Tensor | None = None, reverse: bool = False,
          save_states: bool = True) -> tuple[_T, _T]: ...
def oja(q: _T, k: Tensor, v: Tensor, beta: Tensor, g: Tensor | None = None, *,
        scale: float | None = None, initial_state: Tensor | None = None,
        cu_seqlens: Tensor | None = None, reverse: bool = False,
        save_states: bool = True) -> tuple[_T, _T]: ...
def mamba3(x: _T, dt: Tensor, A: Tensor, trap: Tensor, B: Tensor, C: Tensor,
           D: Tensor | None = None, *, previous: tuple[Tensor, Tensor] | None = None,
           initial_state: Tensor | None = None, cu_seqlens: Tensor | None = None,
           reverse: bool = False, save_states: bool = True) -> tuple[_T, _T]: ...
def mamba3_mimo(x: _T, dt: Tensor, A: Tensor, trap: Tensor, B: Tensor, C: Tensor, mimo_x: Tensor,
                D: Tensor | None = None, *, mimo_o: Tensor | None = None, z: Tensor | None = None,
                mimo_z: Tensor | None = None, previous: tuple[Tensor, Tensor] | None = None,
                initial_state: Tensor | None = None, cu_seqlens: Tensor | None = None,
                reverse: bool = False, save_states: bool = True) -> tuple[_T, _T]: ...
def gated_slot_attention(q: _T, k: Tensor, v: Tensor, s: Tensor, g: Tensor, *,
                         scale: float | None = None,
                         initial_state: tuple[Tensor | None, Tensor | None] | None = None,
                         cu_seqlens: Tensor | None = None, reverse: bool = False,
                         save_states: bool = True) -> tuple[_T, tuple[_T, _T]]: ...
