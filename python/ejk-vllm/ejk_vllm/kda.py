"""Kimi delta attention under vLLM: prefill, decode, and verification of drafts."""

import torch

from ejk import serving
from ejk._errors import TensorError
from ejk.compat.fla import chunk_kda

from . import find, note_use
from .gdn import pools

_FUNCTIONS = "vllm.models.kimi_k3.nvidia.ops.third_party.kda"


def _delivered(o, out):
    if out is None:
        return o
    out.copy_(o.view(out.shape))
    return out


def packed_decode(mixed_qkv, raw_g, raw_beta, A_log, dt_bias, lower_bound, initial_state,
                  state_indices, scale=None, out=None):
    """One token of each sequence; raw_g [1, N, H, K] and raw_beta [1, N, H]."""
    note_use("kda")
    H, V, K = initial_state.shape[-3:]
    N = mixed_qkv.shape[0]
    q, k, v = mixed_qkv.split([H * K, H * K, H * V], -1)
    o = serving.kimi_delta_attention(
        q.view(N, 1, H, K), k.view(N, 1, H, K), v.view(N, 1, H, V), raw_g.transpose(0, 1),
        raw_beta.transpose(0, 1), A_log, dt_bias, lower_bound=lower_bound, scale=scale,
        **pools(initial_state, state_indices))
    return _delivered(o.transpose(0, 1), out), initial_state


def recurrent(q, k, v, raw_g, raw_beta, A_log, dt_bias, lower_bound, initial_state, cu_seqlens,
              ssm_state_indices, num_accepted_tokens=None, out=None, fuse_gate=None):
    """Packed sequences of one token, or of as many as were drafted and one more. `fuse_gate` says how
    vLLM's kernel computes the gate."""
    note_use("kda")
    o = serving.kimi_delta_attention(
        q, k, v, raw_g, raw_beta, A_log, dt_bias, lower_bound=lower_bound, cu_seqlens=cu_seqlens,
        **pools(initial_state, ssm_state_indices, num_accepted_tokens, cu_seqlens.shape[0] - 1))
    return _delivered(o, out), initial_state


def prefill(q, k, v, raw_g, raw_beta, A_log, g_bias, scale=None, initial_state=None,
            output_final_state=False, lower_bound=None, use_qk_l2norm_in_kernel=False,
            cu_seqlens=None, out=None, **chunks):
    """Packed sequences of any length, whose states are gathered and scattered by vLLM. `chunks` are
    offsets of the chunks of other kernels."""
    note_use("kda")
    unknown = set(chunks) - {"chunk_indices", "chunk_offsets"}
    if unknown:
        raise TensorError(f"ejk's prefill of Kimi delta attention knows no {sorted(unknown)}")
    with torch.no_grad():
        o, state = chunk_kda(
            q, k, v, raw_g, raw_beta, scale=scale, initial_state=initial_state,
            output_final_state=output_final_state, use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel,
            use_gate_in_kernel=True, use_beta_sigmoid_in_kernel=True,
            safe_gate=lower_bound is not None, lower_bound=lower_bound, state_v_first=True,
            cu_seqlens=cu_seqlens, A_log=A_log, dt_bias=g_bias)
    return _delivered(o, out), state


def install(patch):
    common = ["raw_g", "raw_beta", "A_log", "lower_bound", "initial_state"]
    for name, own, parameters in (
            ("fused_recurrent_kda_packed_decode", packed_decode,
             ["mixed_qkv", "dt_bias", "state_indices", "scale", "out"]),
            ("fused_recurrent_kda", recurrent,
             ["q", "k", "v", "dt_bias", "cu_seqlens", "ssm_state_indices", "num_accepted_tokens",
              "out"]),
            ("chunk_kda_with_fused_gate", prefill,
             ["q", "k", "v", "g_bias", "scale", "output_final_state", "use_qk_l2norm_in_kernel",
              "cu_seqlens", "out"])):
        patch.replace("vllm", find(_FUNCTIONS, name, common + parameters), own)
