"""Gated DeltaNet under vLLM: prefill, decode, and verification of drafts."""

import torch

from ejk import serving
from ejk._errors import TensorError
from ejk.compat.fla import chunk_gated_delta_rule

from . import find, note_use

_LAYER = "vllm.model_executor.layers.mamba.gdn.qwen_gdn_linear_attn"
_NULL_BLOCK = 0  # the slot that stands for none


def pools(pool, indices, accepted=None, sequences=None):
    """The keywords of a call that starts from and ends in the slots `indices`, [N] or [N, D]. Indices
    behind those of the `sequences` of a call are of another one in the same batch."""
    if sequences is not None:
        indices = indices[:sequences]
        accepted = None if accepted is None else accepted[:sequences]
    if indices.ndim == 2 and accepted is None:
        indices = indices[:, 0]
    return dict(pool=pool, read_slots=indices, write_slots=indices, accepted=accepted,
                first_slot=_NULL_BLOCK + 1)


def _begin(normalises):
    note_use("gdn")
    if not normalises:
        raise TensorError("ejk's gated delta rule normalises queries and keys inside, and "
                          "use_qk_l2norm_in_kernel is False")


def packed_decode(mixed_qkv, a, b, A_log, dt_bias, scale, initial_state, out, ssm_state_indices,
                  use_qk_l2norm_in_kernel=False):
    """One token of each sequence, q, k and v side by side in a row of `mixed_qkv`."""
    _begin(use_qk_l2norm_in_kernel)
    HV, V, K = initial_state.shape[-3:]
    N, channels = mixed_qkv.shape
    H = (channels - HV * V) // (2 * K)
    q, k, v = mixed_qkv.split([H * K, H * K, HV * V], -1)
    o = serving.gated_delta_rule(q.view(N, 1, H, K), k.view(N, 1, H, K), v.view(N, 1, HV, V),
                                 a[:, None], b[:, None], A_log, dt_bias, scale=scale,
                                 **pools(initial_state, ssm_state_indices))
    out.copy_(o)
    return out, initial_state


def fused_update(A_log, a, b, dt_bias, q, k, v, beta=1.0, threshold=20.0, scale=None,
                 initial_state=None, inplace_final_state=True, cu_seqlens=None,
                 ssm_state_indices=None, num_accepted_tokens=None, use_qk_l2norm_in_kernel=False,
                 is_kda=False):
    """Packed sequences of one token, or of as many as were drafted and one more."""
    _begin(use_qk_l2norm_in_kernel)
    if is_kda or not inplace_final_state or beta != 1.0:
        raise TensorError("ejk's gated delta rule takes is_kda=False, inplace_final_state=True and "
                          "beta=1")
    o = serving.gated_delta_rule(
        q, k, v, a[None], b[None], A_log, dt_bias, scale=scale, cu_seqlens=cu_seqlens,
        **pools(initial_state, ssm_state_indices, num_accepted_tokens, cu_seqlens.shape[0] - 1))
    return o, initial_state


def prefill(q, k, v, g, beta, initial_state, output_final_state, cu_seqlens=None,
            chunk_indices=None, chunk_offsets=None, use_qk_l2norm_in_kernel=True,
            core_attn_out=None, aiter_prefill_metadata=None):
    """Packed sequences of any length, whose states are gathered and scattered by vLLM. What it says
    of chunks belongs to other kernels."""
    note_use("gdn")
    with torch.no_grad():
        o, state = chunk_gated_delta_rule(
            q, k, v, g, beta, initial_state=initial_state, output_final_state=output_final_state,
            use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel, state_v_first=True,
            cu_seqlens=cu_seqlens)
    if core_attn_out is not None:
        core_attn_out.view(-1)[:o.numel()].copy_(o.reshape(-1))
    return o, state


def install(patch):
    decode = find(_LAYER, "fused_recurrent_gated_delta_rule_packed_decode",
                  ["mixed_qkv", "a", "b", "A_log", "dt_bias", "scale", "initial_state", "out",
                   "ssm_state_indices", "use_qk_l2norm_in_kernel"])
    update = find(_LAYER, "fused_sigmoid_gating_delta_rule_update",
                  ["A_log", "a", "b", "dt_bias", "q", "k", "v", "initial_state", "cu_seqlens",
                   "inplace_final_state", "ssm_state_indices", "num_accepted_tokens",
                   "use_qk_l2norm_in_kernel"])
    chunk = find(_LAYER, "ChunkGatedDeltaRule", [])
    layer = find(_LAYER, "QwenGatedDeltaNetAttention", [])
    patch.replace("vllm", decode, packed_decode)
    patch.replace("vllm", update, fused_update)
    of_vllm = chunk.__init__

    def made(self, *arguments, **named):
        of_vllm(self, *arguments, **named)
        # What prepares gates and metadata for other kernels asks for this name.
        self.gdn_prefill_backend = "triton"
        self._forward_method = prefill
    patch.set(chunk, "__init__", made)
    # A fused decode of drafts has the norm in it, too, and would go around ejk.
    of_layer = layer.__init__

    def made_layer(self, *arguments, **named):
        of_layer(self, *arguments, **named)
        self.enable_fused_gdn_spec_decode = False
    patch.set(layer, "__init__", made_layer)
