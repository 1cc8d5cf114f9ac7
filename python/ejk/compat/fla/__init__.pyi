"""flash-linear-attention's functions, for type checkers."""

from typing import Any, TypeVar

from ... import _Tensor as Tensor
from .._patch import Patch

_T = TypeVar("_T", bound=Tensor)

# The second result is None unless `output_final_state` is set.

def chunk_comba(q: _T, k: Tensor, v: Tensor, p: Tensor, g: Tensor, beta: Tensor | None = None,
                scale: float | None = None, initial_state: Tensor | None = None,
                output_final_state: bool = False, use_qk_l2norm_in_kernel: bool = False,
                cu_seqlens: Tensor | None = None,
                cu_seqlens_cpu: Tensor | None = None) -> tuple[_T, Any]: ...
def chunk_gated_oja_rule(q: _T, k: Tensor, v: Tensor, gv: Tensor, beta: Tensor,
                         scale: float | None = None, initial_state: Tensor | None = None,
                         output_final_state: bool = False, use_q_l2norm: bool = False,
                         use_k_l2norm: bool = False, cu_seqlens: Tensor | None = None,
                         cu_seqlens_cpu: Tensor | None = None, **kwargs: Any) -> tuple[_T, Any]: ...
def chunk_gdn2(q: Tensor, k: Tensor, v: Tensor, g: Tensor, b: Tensor, w: Tensor,
               scale: float | None = None, initial_state: Tensor | None = None,
               output_final_state: bool = False, use_qk_l2norm_in_kernel: bool = False,
               use_gate_in_kernel: bool = False, cu_seqlens: Tensor | None = None,
               cu_seqlens_cpu: Tensor | None = None, safe_gate: bool = False,
               lower_bound: float | None = None, disable_recompute: bool = False,
               return_intermediate_states: bool = False, state_v_first: bool = False,
               cp_context: Any = None, **kwargs: Any) -> tuple[Any, ...]: ...
def fused_recurrent_comba(q: _T, k: Tensor, p: Tensor, v: Tensor, g: Tensor,
                          beta: Tensor | None = None, scale: float | None = None,
                          initial_state: Tensor | None = None, output_final_state: bool = False,
                          use_qk_l2norm_in_kernel: bool = False,
                          cu_seqlens: Tensor | None = None) -> tuple[_T, Any]: ...
def fused_recurrent_gated_oja_rule(q: _T, k: Tensor, v: Tensor, gv: Tensor | None = None,
                                   beta: Tensor | None = None, scale: float | None = None,
                                   initial_state: Tensor | None = None,
                                   output_final_state: bool = False, use_q_l2norm: bool = False,
                                   use_k_l2norm: bool = False, cu_seqlens: Tensor | None = None,
                                   **kwargs: Any) -> tuple[_T, Any]: ...
def fused_recurrent_gdn2(q: _T, k: Tensor, v: Tensor, g: Tensor, b: Tensor, w: Tensor,
                         A_log: Tensor | None = None, dt_bias: Tensor | None = None,
                         scale: float | None = None, initial_state: Tensor | None = None,
                         output_final_state: bool = False, use_qk_l2norm_in_kernel: bool = False,
                         use_gate_in_kernel: bool = False, lower_bound: float | None = None,
                         state_v_first: bool = False, cu_seqlens: Tensor | None = None,
                         **kwargs: Any) -> tuple[_T, Any]: ...
def chunk_delta_rule(q: _T, k: Tensor, v: Tensor, beta: Tensor, scale: float | None = None,
                     initial_state: Tensor | None = None, output_final_state: bool = False,
                     use_qk_l2norm_in_kernel: bool = False, cu_seqlens: Tensor | None = None,
                     cu_seqlens_cpu: Tensor | None = None, **kwargs: Any) -> tuple[_T, Any]: ...
def chunk_gated_delta_rule(q: _T, k: Tensor, v: Tensor, g: Tensor, beta: Tensor,
                           scale: float | None = None, initial_state: Tensor | None = None,
                           output_final_state: bool = False, use_qk_l2norm_in_kernel: bool = False,
                           use_beta_sigmoid_in_kernel: bool = False, allow_neg_eigval: bool = False,
                           state_v_first: bool = False, cu_seqlens: Tensor | None = None,
                           cu_seqlens_cpu: Tensor | None = None,
                           chunk_indices: Tensor | None = None, cp_context: Any = None,
                           **kwargs: Any) -> tuple[_T, Any]: ...
def chunk_kda(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, scale: float | None = None,
              initial_state: Tensor | None = None, output_final_state: bool = False,
              use_qk_l2norm_in_kernel: bool = False, use_gate_in_kernel: bool = False,
              use_beta_sigmoid_in_kernel: bool = False, allow_neg_eigval: bool = False,
              safe_gate: bool = False, lower_bound: float | None = None,
              disable_recompute: bool = False, return_intermediate_states: bool = False,
              state_v_first: bool = False, cu_seqlens: Tensor | None = None,
              cu_seqlens_cpu: Tensor | None = None, cp_context: Any = None, use_graph: bool = False,
              max_num_seqs: int | None = None, **kwargs: Any) -> tuple[Any, ...]: ...
def chunk_rwkv7(r: _T, w: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor,
                scale: float | None = 1.0, initial_state: Tensor | None = None,
                output_final_state: bool = False, cu_seqlens: Tensor | None = None,
                cu_seqlens_cpu: Tensor | None = None, safe_gate: bool = False,
                chunk_size: int | None = None, disable_recompute: bool = False,
                cp_context: Any = None, lower_bound: float | None = None) -> tuple[_T, Any]: ...
def fused_chunk_delta_rule(q: _T, k: Tensor, v: Tensor, beta: Tensor, scale: float | None = None,
                           initial_state: Tensor | None = None, output_final_state: bool = False,
                           use_qk_l2norm_in_kernel: bool = False,
                           cu_seqlens: Tensor | None = None) -> tuple[_T, Any]: ...
def fused_mul_recurrent_rwkv7(r: _T, w: Tensor, k: Tensor, v: Tensor, kk: Tensor, a: Tensor,
                              scale: float | None = 1.0, initial_state: Tensor | None = None,
                              output_final_state: bool = False, reverse: bool = False,
                              cu_seqlens: Tensor | None = None) -> tuple[_T, Any]: ...
def fused_recurrent_delta_rule(q: _T, k: Tensor, v: Tensor, beta: Tensor | None = None,
                               scale: float | None = None, initial_state: Tensor | None = None,
                               output_final_state: bool = False,
                               use_qk_l2norm_in_kernel: bool = False,
                               cu_seqlens: Tensor | None = None) -> tuple[_T, Any]: ...
def fused_recurrent_gated_delta_rule(q: _T, k: Tensor, v: Tensor, g: Tensor | None = None,
                                     gk: Tensor | None = None, gv: Tensor | None = None,
                                     beta: Tensor | None = None, scale: float | None = None,
                                     initial_state: Tensor | None = None,
                                     output_final_state: bool = False,
                                     use_qk_l2norm_in_kernel: bool = False,
                                     use_gate_in_kernel: bool = False, A_log: Tensor | None = None,
                                     dt_bias: Tensor | None = None,
                                     use_beta_sigmoid_in_kernel: bool = False,
                                     allow_neg_eigval: bool = False, state_v_first: bool = False,
                                     cu_seqlens: Tensor | None = None,
                                     **kwargs: Any) -> tuple[_T, Any]: ...
def fused_recurrent_kda(q: _T, k: Tensor, v: Tensor, g: Tensor, beta: Tensor,
                        A_log: Tensor | None = None, dt_bias: Tensor | None = None,
                        scale: float | None = None, initial_state: Tensor | None = None,
                        output_final_state: bool = False, use_qk_l2norm_in_kernel: bool = False,
                        use_gate_in_kernel: bool = False, use_beta_sigmoid_in_kernel: bool = False,
                        allow_neg_eigval: bool = False, lower_bound: float | None = None,
                        state_v_first: bool = False, cu_seqlens: Tensor | None = None,
                        **kwargs: Any) -> tuple[_T, Any]: ...
def fused_recurrent_rwkv7(r: _T, w: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor,
                          scale: float | None = None, initial_state: Tensor | None = None,
                          output_final_state: bool = True,
                          cu_seqlens: Tensor | None = None) -> tuple[_T, Any]: ...
def chunk_gla(q: _T, k: Tensor, v: Tensor, g: Tensor, scale: float | None = None,
              initial_state: Tensor | None = None, output_final_state: bool = False,
              state_v_first: bool = False, cu_seqlens: Tensor | None = None,
              cu_seqlens_cpu: Tensor | None = None) -> tuple[_T, Any]: ...
def chunk_hgrn2(q: _T, g: Tensor, i: Tensor, scale: float | None = None,
                initial_state: Tensor | None = None, output_final_state: bool = False,
                cu_seqlens: Tensor | None = None) -> tuple[_T, Any]: ...
def chunk_lightning_attn(q: _T, k: Tensor, v: Tensor, layer_idx: int, num_layers: int,
                         scale: float | None = None, initial_state: Tensor | None = None,
                         output_final_state: bool = False, cu_seqlens: Tensor | None = None,
                         **kwargs: Any) -> tuple[_T, Any]: ...
def chunk_linear_attn(q: _T, k: Tensor, v: Tensor, scale: float | None = None,
                      initial_state: Tensor | None = None, output_final_state: bool = False,
                      normalize: bool = True,
                      cu_seqlens: Tensor | None = None) -> tuple[_T, Any]: ...
def chunk_retention(q: _T, k: Tensor, v: Tensor, scale: float | None = None,
                    initial_state: Tensor | None = None, output_final_state: bool = False,
                    cu_seqlens: Tensor | None = None, **kwargs: Any) -> tuple[_T, Any]: ...
def chunk_rwkv6(r: _T, k: Tensor, v: Tensor, w: Tensor, u: Tensor, scale: float | None = None,
                initial_state: Tensor | None = None, output_final_state: bool = False,
                cu_seqlens: Tensor | None = None, cu_seqlens_cpu: Tensor | None = None,
                **kwargs: Any) -> tuple[_T, Any]: ...
def chunk_simple_gla(q: _T, k: Tensor, v: Tensor, g: Tensor | None = None,
                     g_gamma: Tensor | None = None, scale: float | None = None,
                     initial_state: Tensor | None = None, output_final_state: bool = False,
                     state_v_first: bool = False, cu_seqlens: Tensor | None = None,
                     cu_seqlens_cpu: Tensor | None = None, **kwargs: Any) -> tuple[_T, Any]: ...
def fused_chunk_gla(q: _T, k: Tensor, v: Tensor, g: Tensor, scale: float | None = None,
                    initial_state: Tensor | None = None, output_final_state: bool = False,
                    state_v_first: bool = False, cu_seqlens: Tensor | None = None,
                    cu_seqlens_cpu: Tensor | None = None) -> tuple[_T, Any]: ...
def fused_chunk_linear_attn(q: _T, k: Tensor, v: Tensor, scale: float | None = None,
                            initial_state: Tensor | None = None, output_final_state: bool = False,
                            normalize: bool = True,
                            cu_seqlens: Tensor | None = None) -> tuple[_T, Any]: ...
def fused_chunk_retention(q: _T, k: Tensor, v: Tensor, scale: float | None = None,
                          initial_state: Tensor | None = None, output_final_state: bool = False,
                          cu_seqlens: Tensor | None = None) -> tuple[_T, Any]: ...
def fused_chunk_simple_gla(q: _T, k: Tensor, v: Tensor, g: Tensor | None = None,
                           g_gamma: Tensor | None = None, scale: float | None = None,
                           initial_state: Tensor | None = None, output_final_state: bool = False,
                           cu_seqlens: Tensor | None = None) -> tuple[_T, Any]: ...
def fused_recurrent_gla(q: _T, k: Tensor, v: Tensor, gk: Tensor | None = None,
                        gv: Tensor | None = None, scale: float | None = None,
                        initial_state: Tensor | None = None, output_final_state: bool = False,
                        reverse: bool = False, state_v_first: bool = False,
                        cu_seqlens: Tensor | None = None, **kwargs: Any) -> tuple[_T, Any]: ...
def fused_recurrent_hgrn2(q: _T, g: Tensor, i: Tensor, scale: float | None = None,
                          initial_state: Tensor | None = None, output_final_state: bool = False,
                          reverse: bool = False,
                          cu_seqlens: Tensor | None = None) -> tuple[_T, Any]: ...
def fused_recurrent_lightning_attn(q: _T, k: Tensor, v: Tensor, layer_idx: int, num_layers: int,
                                   scale: float | None = None, initial_state: Tensor | None = None,
                                   output_final_state: bool = False, reverse: bool = False,
                                   cu_seqlens: Tensor | None = None) -> tuple[_T, Any]: ...
def fused_recurrent_linear_attn(q: _T, k: Tensor, v: Tensor, scale: float | None = None,
                                initial_state: Tensor | None = None,
                                output_final_state: bool = False, reverse: bool = False,
                                normalize: bool = False,
                                cu_seqlens: Tensor | None = None) -> tuple[_T, Any]: ...
def fused_recurrent_retention(q: _T, k: Tensor, v: Tensor, scale: float | None = None,
                              initial_state: Tensor | None = None, output_final_state: bool = False,
                              reverse: bool = False, state_v_first: bool = False,
                              cu_seqlens: Tensor | None = None,
                              **kwargs: Any) -> tuple[_T, Any]: ...
def fused_recurrent_rwkv6(r: _T, k: Tensor, v: Tensor, w: Tensor, u: Tensor,
                          scale: float | None = None, initial_state: Tensor | None = None,
                          output_final_state: bool = False, reverse: bool = False,
                          cu_seqlens: Tensor | None = None) -> tuple[_T, Any]: ...
def fused_recurrent_simple_gla(q: _T, k: Tensor, v: Tensor, g: Tensor | None = None,
                               g_gamma: Tensor | None = None, scale: float | None = None,
                               initial_state: Tensor | None = None,
                               output_final_state: bool = False, reverse: bool = False,
                               state_v_first: bool = False, cu_seqlens: Tensor | None = None,
                               **kwargs: Any) -> tuple[_T, Any]: ...
def parallel_retention(q: _T, k: Tensor, v: Tensor, scale: float | None = None,
                       output_attentions: bool = False,
                       cu_seqlens: Tensor | None = None) -> tuple[_T, Any]: ...
def parallel_simple_gla(q: _T, k: Tensor, v: Tensor, g: Tensor | None = None,
                        scale: float | None = None, output_attentions: bool = False,
                        cu_seqlens: Tensor | None = None,
                        cu_seqlens_cpu: Tensor | None = None) -> tuple[_T, Any]: ...
def chunk_gated_delta_product(q: _T, k: Tensor, v: Tensor, g: Tensor, beta: Tensor,
                              num_householder: int, scale: float | None = None,
                              initial_state: Tensor | None = None, output_final_state: bool = False,
                              use_qk_l2norm_in_kernel: bool = False,
                              cu_seqlens: Tensor | None = None,
                              cu_seqlens_cpu: Tensor | None = None,
                              cp_context: Any = None) -> tuple[_T, Any]: ...
def chunk_gsa(q: _T, k: Tensor, v: Tensor, s: Tensor, g: Tensor | None = None,
              scale: float | None = None, initial_state: Tensor | None = None,
              output_final_state: bool = False, checkpoint_level: int = 2,
              cu_seqlens: Tensor | None = None, cu_seqlens_cpu: Tensor | None = None,
              **kwargs: Any) -> tuple[_T, Any]: ...
def fused_recurrent_gsa(q: _T, k: Tensor, v: Tensor, s: Tensor, g: Tensor | None = None,
                        scale: float | None = None, initial_state: Tensor | None = None,
                        output_final_state: bool = False, reverse: bool = False,
                        cu_seqlens: Tensor | None = None) -> tuple[_T, Any]: ...
def chunk_gdn(q: _T, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, scale: float | None = None,
              initial_state: Tensor | None = None, output_final_state: bool = False,
              use_qk_l2norm_in_kernel: bool = False, use_beta_sigmoid_in_kernel: bool = False,
              allow_neg_eigval: bool = False, state_v_first: bool = False,
              cu_seqlens: Tensor | None = None, cu_seqlens_cpu: Tensor | None = None,
              chunk_indices: Tensor | None = None, cp_context: Any = None,
              **kwargs: Any) -> tuple[_T, Any]: ...
def fused_recurrent_gdn(q: _T, k: Tensor, v: Tensor, g: Tensor | None = None,
                        gk: Tensor | None = None, gv: Tensor | None = None,
                        beta: Tensor | None = None, scale: float | None = None,
                        initial_state: Tensor | None = None, output_final_state: bool = False,
                        use_qk_l2norm_in_kernel: bool = False, use_gate_in_kernel: bool = False,
                        A_log: Tensor | None = None, dt_bias: Tensor | None = None,
                        use_beta_sigmoid_in_kernel: bool = False, allow_neg_eigval: bool = False,
                        state_v_first: bool = False, cu_seqlens: Tensor | None = None,
                        **kwargs: Any) -> tuple[_T, Any]: ...

def install(modules: bool = True) -> Patch: ...
