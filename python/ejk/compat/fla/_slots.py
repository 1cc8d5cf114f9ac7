"""fla's functions with more than one outer product a step: gated slot attention, which is two recurrences,
and the gated delta product, which corrects its state several times."""

import torch

from ... import ops
from ..._corrected import product_of_rows
from ..._errors import TensorError
from ._common import (check_chunk_size, check_keywords, check_offsets, default_scale, refuse,
                      state_in, state_out, wide)
from ._mixing import fused_additive_gate


def _grouped(x, groups, dim=2):
    return x if groups == 1 or x is None else x.repeat_interleave(groups, dim)


def _gsa(function, q, k, v, s, g, scale, initial_state, output_final_state, cu_seqlens,
         reverse=False):
    if g is None:
        refuse(function + " without 'g'", reverse=reverse)
        s, g, _ = fused_additive_gate(s, cu_seqlens=cu_seqlens, output_dtype=k.dtype,
                                      gate_dtype=torch.float32)
    if q.shape[2] % k.shape[2]:
        raise TensorError(f"'k' has {k.shape[2]} heads, which must divide the {q.shape[2]} of 'q'")
    groups = q.shape[2] // k.shape[2]
    # In float32, as fla's scores and weights are: a softmax of rounded scores is far off.
    kind, q = q.dtype, wide(q)
    k, v, s, g = (_grouped(wide(x), groups) for x in (k, v, s, g))
    keys, values = initial_state if initial_state is not None else (None, None)
    keys, values = (state_in(_grouped(x, groups, 1), like=q) for x in (keys, values))
    options = dict(cu_seqlens=cu_seqlens, reverse=bool(reverse))
    slots, keys = ops.recurrent(q, k, s, gv=g, scale=default_scale(scale, k), initial_state=keys,
                                **options)
    o, values = ops.recurrent(slots.softmax(-1), s, v, gk=g, scale=1.0, initial_state=values,
                              **options)
    return o.to(kind), tuple(state_out(x[:, ::groups], output_final_state) for x in (keys, values))


def chunk_gsa(q, k, v, s, g=None, scale=None, initial_state=None, output_final_state=False,
              checkpoint_level=2, cu_seqlens=None, cu_seqlens_cpu=None, **kwargs):
    """Gated slot attention: keys and values are written to M slots, s [B, T, H, M], with a gate
    g [B, T, H, M] for each. States are a pair, [N, H, K, M] and [N, H, M, V].
    `checkpoint_level` only tells fla what to save; it changes no result."""
    check_keywords("chunk_gsa", kwargs, ("chunk_size",))
    check_chunk_size("chunk_gsa", kwargs.get("chunk_size"))
    if checkpoint_level not in (0, 1, 2):
        raise ValueError(f"chunk_gsa: 'checkpoint_level' must be 0, 1 or 2, but is "
                         f"{checkpoint_level}")
    check_offsets(cu_seqlens, cu_seqlens_cpu)
    return _gsa("chunk_gsa", q, k, v, s, g, scale, initial_state, output_final_state, cu_seqlens)


def fused_recurrent_gsa(q, k, v, s, g=None, scale=None, initial_state=None,
                        output_final_state=False, reverse=False, cu_seqlens=None):
    """`chunk_gsa`, in either direction."""
    return _gsa("fused_recurrent_gsa", q, k, v, s, g, scale, initial_state, output_final_state,
                cu_seqlens, reverse)


def chunk_gated_delta_product(q, k, v, g, beta, num_householder, scale=None, initial_state=None,
                              output_final_state=False, use_qk_l2norm_in_kernel=False,
                              cu_seqlens=None, cu_seqlens_cpu=None, cp_context=None):
    """`num_householder` delta rules for each step of q [B, T, H, K] and of the gate g [B, T, H]:
    k and v are [B, T·num_householder, H, ...]. float32 works here, too."""
    refuse("chunk_gated_delta_product", cp_context=cp_context)
    check_offsets(cu_seqlens, cu_seqlens_cpu)
    B, T, H, K = q.shape
    count = int(num_householder)
    if count < 1 or k.shape != (B, T * count, H, K):
        raise TensorError(f"'k' must be {[B, T * count, H, K]}, but is {list(k.shape)}")
    HV = v.shape[2] if v.dim() == 4 else 0
    if not HV or v.shape[:2] != k.shape[:2] or HV % H:
        raise TensorError(f"'v' must be [B, T·num_householder, HV, V] as 'k' is, {list(k.shape)}, with HV a "
                          f"multiple of its H, but is {list(v.shape)}")
    for name, x, shape in (("beta", beta, (B, T * count, HV)), ("g", g, (B, T, HV))):
        if x is not None and x.shape != shape and not (name == "beta" and x.shape == v.shape):
            raise TensorError(f"'{name}' must be {list(shape)}, but is {list(x.shape)}")
    o, state = product_of_rows(q, k, v, beta, g, count, scale, bool(use_qk_l2norm_in_kernel), False,
                               initial_state=state_in(initial_state, like=q), cu_seqlens=cu_seqlens)
    return o, state_out(state, output_final_state)
