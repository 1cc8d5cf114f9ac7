"""fla's functions whose state decays by gates: GLA, simple GLA, lightning, retention, linear
attention, HGRN-2 and RWKV-6."""

import torch

from ... import ops
from ..._recurrence import Recurrence
from ._common import (check_chunk_size, check_keywords, check_offsets, check_same_heads,
                      default_scale, refuse, state_in, state_layout, state_out)


def _recurrent(q, k, v, scale, initial_state, output_final_state, cu_seqlens, v_first=False,
               reverse=False, **gates):
    o, state = ops.recurrent(q, k, v, **gates, scale=scale,
                             initial_state=state_in(initial_state, v_first, q),
                             cu_seqlens=cu_seqlens, reverse=bool(reverse))
    return o, state_out(state, output_final_state, v_first)


def chunk_gla(q, k, v, g, scale=None, initial_state=None, output_final_state=False,
              state_v_first=False, cu_seqlens=None, cu_seqlens_cpu=None):
    """Gated linear attention: a gate g [B, T, H, K] for each key channel."""
    check_offsets(cu_seqlens, cu_seqlens_cpu)
    check_same_heads(q, k, v, g)
    return _recurrent(q, k, v, scale, initial_state, output_final_state, cu_seqlens,
                      state_v_first, gk=g)


def fused_chunk_gla(q, k, v, g, scale=None, initial_state=None, output_final_state=False,
                    state_v_first=False, cu_seqlens=None, cu_seqlens_cpu=None):
    """`chunk_gla`, under the name that fla has retired."""
    return chunk_gla(q, k, v, g, scale, initial_state, output_final_state, state_v_first,
                     cu_seqlens, cu_seqlens_cpu)


def fused_recurrent_gla(q, k, v, gk=None, gv=None, scale=None, initial_state=None,
                        output_final_state=False, reverse=False, state_v_first=False,
                        cu_seqlens=None, **kwargs):
    """Gated linear attention with gates for key channels, value channels, both or neither."""
    v_first = state_layout(kwargs, state_v_first, "fused_recurrent_gla")
    return _recurrent(q, k, v, scale, initial_state, output_final_state, cu_seqlens, v_first,
                      reverse, gk=gk, gv=gv)


def _simple_gla(function, q, k, v, g, g_gamma, *arguments, **named):
    if g is not None and g_gamma is not None:
        raise ValueError(f"{function}: give one of 'g' and 'g_gamma'")
    if g is not None and g.dim() != 3:
        raise ValueError(f"{function}: 'g' must be [B, T, H], but is {list(g.shape)}")
    if g_gamma is not None:
        g_gamma = g_gamma.float() if g_gamma.dtype != torch.float64 else g_gamma
    return _recurrent(q, k, v, *arguments, g=g, g_gamma=g_gamma, **named)


def chunk_simple_gla(q, k, v, g=None, g_gamma=None, scale=None, initial_state=None,
                     output_final_state=False, state_v_first=False, cu_seqlens=None,
                     cu_seqlens_cpu=None, **kwargs):
    """A gate for each head: g [B, T, H], or g_gamma [H], constant in time."""
    check_keywords("chunk_simple_gla", kwargs, ("chunk_size",))
    check_chunk_size("chunk_simple_gla", kwargs.get("chunk_size"))
    check_offsets(cu_seqlens, cu_seqlens_cpu)
    return _simple_gla("chunk_simple_gla", q, k, v, g, g_gamma, scale, initial_state,
                       output_final_state, cu_seqlens, state_v_first)


def fused_chunk_simple_gla(q, k, v, g=None, g_gamma=None, scale=None, initial_state=None,
                           output_final_state=False, cu_seqlens=None):
    """`chunk_simple_gla` with fewer arguments."""
    return _simple_gla("fused_chunk_simple_gla", q, k, v, g, g_gamma, scale, initial_state,
                       output_final_state, cu_seqlens)


def fused_recurrent_simple_gla(q, k, v, g=None, g_gamma=None, scale=None, initial_state=None,
                               output_final_state=False, reverse=False, state_v_first=False,
                               cu_seqlens=None, **kwargs):
    """`chunk_simple_gla`, in either direction."""
    v_first = state_layout(kwargs, state_v_first, "fused_recurrent_simple_gla")
    return _simple_gla("fused_recurrent_simple_gla", q, k, v, g, g_gamma, scale, initial_state,
                       output_final_state, cu_seqlens, v_first, reverse=reverse)


def parallel_simple_gla(q, k, v, g=None, scale=None, output_attentions=False, cu_seqlens=None,
                        cu_seqlens_cpu=None):
    """`chunk_simple_gla` without states. It has no attention scores to give."""
    refuse("parallel_simple_gla", output_attentions=output_attentions)
    check_offsets(cu_seqlens, cu_seqlens_cpu)
    return _simple_gla("parallel_simple_gla", q, k, v, g, None, scale, None, False, cu_seqlens)


def chunk_lightning_attn(q, k, v, layer_idx, num_layers, scale=None, initial_state=None,
                         output_final_state=False, cu_seqlens=None, **kwargs):
    """Lightning attention: head h decays by exp(−8/H · (1 − layer_idx/num_layers) · h)."""
    check_keywords("chunk_lightning_attn", kwargs, ("chunk_size",))
    check_chunk_size("chunk_lightning_attn", kwargs.get("chunk_size"))
    return fused_recurrent_lightning_attn(q, k, v, layer_idx, num_layers, scale, initial_state,
                                          output_final_state, False, cu_seqlens)


def fused_recurrent_lightning_attn(q, k, v, layer_idx, num_layers, scale=None, initial_state=None,
                                   output_final_state=False, reverse=False, cu_seqlens=None):
    """`chunk_lightning_attn`, in either direction."""
    o, state = ops.lightning_attn(q, k, v, layer_idx, num_layers, scale=default_scale(scale, k),
                                  initial_state=state_in(initial_state, like=q),
                                  cu_seqlens=cu_seqlens, reverse=bool(reverse))
    return o, state_out(state, output_final_state)


def chunk_retention(q, k, v, scale=None, initial_state=None, output_final_state=False,
                    cu_seqlens=None, **kwargs):
    """RetNet's retention: head h decays by 1 − 2^(−5−h)."""
    check_keywords("chunk_retention", kwargs, ("chunk_size",))
    check_chunk_size("chunk_retention", kwargs.get("chunk_size"))
    return fused_recurrent_retention(q, k, v, scale, initial_state, output_final_state,
                                     cu_seqlens=cu_seqlens)


def fused_chunk_retention(q, k, v, scale=None, initial_state=None, output_final_state=False,
                          cu_seqlens=None):
    """`chunk_retention` with fewer arguments."""
    return fused_recurrent_retention(q, k, v, scale, initial_state, output_final_state,
                                     cu_seqlens=cu_seqlens)


def fused_recurrent_retention(q, k, v, scale=None, initial_state=None, output_final_state=False,
                              reverse=False, state_v_first=False, cu_seqlens=None, **kwargs):
    """`chunk_retention`, in either direction."""
    v_first = state_layout(kwargs, state_v_first, "fused_recurrent_retention")
    o, state = ops.retention(q, k, v, scale=default_scale(scale, k),
                             initial_state=state_in(initial_state, v_first, q),
                             cu_seqlens=cu_seqlens, reverse=bool(reverse))
    return o, state_out(state, output_final_state, v_first)


def parallel_retention(q, k, v, scale=None, output_attentions=False, cu_seqlens=None):
    """`chunk_retention` without states. It has no attention scores to give."""
    refuse("parallel_retention", output_attentions=output_attentions)
    return fused_recurrent_retention(q, k, v, scale, cu_seqlens=cu_seqlens)


def _normalised(S, z, q, k, v, scale):
    from ... import _functions as f
    S, z, q = S.add(k, v), z + k, q * scale
    return S, z, S.read(q) / (f.sum(q * z) + 1e-10)


_NORMALISED = {reverse: Recurrence(_normalised, 2, reverse, remedies={
    "scale": "give scale=1.0 and 'q' times the number"}) for reverse in (False, True)}


def chunk_linear_attn(q, k, v, scale=None, initial_state=None, output_final_state=False,
                      normalize=True, cu_seqlens=None):
    """Linear attention. With `normalize`, outputs are divided by q · Σ k, and a state is a pair:
    [N, H, K, V], and the sum of keys [N, 1, H, K] in k's type. As in fla, that sum is given even
    where the final state is not asked for."""
    return fused_recurrent_linear_attn(q, k, v, scale, initial_state, output_final_state, False,
                                       normalize, cu_seqlens)


def fused_chunk_linear_attn(q, k, v, scale=None, initial_state=None, output_final_state=False,
                            normalize=True, cu_seqlens=None):
    """`chunk_linear_attn`."""
    return fused_recurrent_linear_attn(q, k, v, scale, initial_state, output_final_state, False,
                                       normalize, cu_seqlens)


def fused_recurrent_linear_attn(q, k, v, scale=None, initial_state=None, output_final_state=False,
                                reverse=False, normalize=False, cu_seqlens=None):
    """`chunk_linear_attn`, in either direction, by default without `normalize`."""
    if not normalize:
        return _recurrent(q, k, v, scale, initial_state, output_final_state, cu_seqlens,
                          reverse=reverse)
    matrix, keys = initial_state if isinstance(initial_state, tuple) else (initial_state, None)
    if keys is not None:
        keys = (keys if q.dtype == torch.float64 else keys.float()).squeeze(1)
    o, (matrix, keys) = _NORMALISED[bool(reverse)](
        q, k, v, default_scale(scale, k), initial_state=(state_in(matrix, like=q), keys),
        cu_seqlens=cu_seqlens)
    return o, (state_out(matrix, output_final_state), keys.unsqueeze(1).to(k.dtype))


def chunk_hgrn2(q, g, i, scale=None, initial_state=None, output_final_state=False,
                cu_seqlens=None):
    """HGRN-2: `chunk_gla` whose keys are 1 − exp(g). fla has no function of this name; its HGRN2
    layer computes the keys and calls `chunk_gla`."""
    return fused_recurrent_hgrn2(q, g, i, scale, initial_state, output_final_state, False,
                                 cu_seqlens)


def fused_recurrent_hgrn2(q, g, i, scale=None, initial_state=None, output_final_state=False,
                          reverse=False, cu_seqlens=None):
    """`chunk_hgrn2`, in either direction."""
    check_same_heads(q, g, i)
    o, state = ops.hgrn2(q * default_scale(scale, q), g, i,
                         initial_state=state_in(initial_state, like=q), cu_seqlens=cu_seqlens,
                         reverse=bool(reverse))
    return o, state_out(state, output_final_state)


def chunk_rwkv6(r, k, v, w, u, scale=None, initial_state=None, output_final_state=False,
                cu_seqlens=None, cu_seqlens_cpu=None, **kwargs):
    """RWKV-6: w [B, T, H, K] are log decays, u [H, K] is the current step's bonus."""
    check_keywords("chunk_rwkv6", kwargs, ("chunk_size",))
    check_chunk_size("chunk_rwkv6", kwargs.get("chunk_size"))
    check_offsets(cu_seqlens, cu_seqlens_cpu)
    return fused_recurrent_rwkv6(r, k, v, w, u, scale, initial_state, output_final_state, False,
                                 cu_seqlens)


def fused_recurrent_rwkv6(r, k, v, w, u, scale=None, initial_state=None, output_final_state=False,
                          reverse=False, cu_seqlens=None):
    """`chunk_rwkv6`, in either direction."""
    check_same_heads(r, k, v, w)
    o, state = ops.rwkv6(r, k, v, w, u, scale=default_scale(scale, r),
                         initial_state=state_in(initial_state, like=r), cu_seqlens=cu_seqlens,
                         reverse=bool(reverse))
    return o, state_out(state, output_final_state)
