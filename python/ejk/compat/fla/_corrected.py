"""fla's delta rules with gates or keys of their own for what they erase: GDN-2, Comba, gated Oja."""

from ..._corrected import unit
from ..._errors import TensorError
from ._delta import _recurrence as recurrence
from ._common import (check_chunk_size, check_flags, check_keywords, check_offsets, default_scale, key_gate, refuse,
                      state_in, state_layout, state_out)


def _check(q, k, v, **others):
    """`others` is {name: (tensor or None, its channels or None)}; all have v's heads."""
    shape, values = q.shape, v.shape
    if shape != k.shape or len(shape) != 4:
        raise TensorError(f"'q' and 'k' must have one shape [B, T, H, K], but have {list(shape)} and "
                          f"{list(k.shape)}")
    if len(values) != 4 or values[:2] != shape[:2] or values[2] % shape[2]:
        raise TensorError("'v' must be [B, T, HV, V] with q's B and T, HV a multiple of its H, but is "
                          f"{list(values)} beside {list(shape)}")
    for name, (x, channels) in others.items():
        wanted = values[:3] if channels is None else (*values[:3], channels)
        if x is not None and tuple(x.shape) != tuple(wanted):
            raise TensorError(f"'{name}' must be {list(wanted)}, but is {list(x.shape)}")


# `v` is first: it has the most heads, and its type is the output's.
@recurrence
def _gdn2(S, v, q, k, g, b, w, scale, normalise):
    if normalise:
        q, k = unit(q), unit(k)
    S = S.decay(g)
    S = S.add(k, w * v - S.read(b * k))
    return S, S.read(q * scale)


def _run_gdn2(function, q, k, v, g, b, w, A_log, dt_bias, scale, initial_state, output_final_state,
              normalise, use_gate, lower_bound, v_first, cu_seqlens):
    K, V = q.shape[-1], v.shape[-1]
    _check(q, k, v, g=(g, K), b=(b, K), w=(w, V))
    g = key_gate(function, use_gate, g, A_log, dt_bias, lower_bound)
    o, state = _gdn2(v, q, k, g, b, w, default_scale(scale, k), bool(normalise),
                     initial_state=state_in(initial_state, v_first, q), cu_seqlens=cu_seqlens)
    return o, state_out(state, output_final_state, v_first)


def chunk_gdn2(q, k, v, g, b, w, scale=None, initial_state=None, output_final_state=False,
               use_qk_l2norm_in_kernel=False, use_gate_in_kernel=False, cu_seqlens=None,
               cu_seqlens_cpu=None, safe_gate=False, lower_bound=None, disable_recompute=False,
               return_intermediate_states=False, state_v_first=False, cp_context=None, **kwargs):
    """Gated DeltaNet-2: gates of every channel erase, b [B, T, HV, K], and write, w [B, T, HV, V]; g
    [B, T, HV, K] decays. `safe_gate` and `disable_recompute` only tell fla's kernels how to compute."""
    function = "chunk_gdn2"
    own = ("chunk_size", "A_log", "dt_bias")
    v_first = state_layout({n: x for n, x in kwargs.items() if n not in own}, state_v_first, function)
    refuse(function, return_intermediate_states=return_intermediate_states, cp_context=cp_context)
    check_flags(function, safe_gate=safe_gate, disable_recompute=disable_recompute)
    check_chunk_size(function, kwargs.get("chunk_size"), (32, 64))
    check_offsets(cu_seqlens, cu_seqlens_cpu)
    return _run_gdn2(function, q, k, v, g, b, w, kwargs.get("A_log"), kwargs.get("dt_bias"), scale,
                     initial_state, output_final_state, use_qk_l2norm_in_kernel, use_gate_in_kernel,
                     lower_bound, v_first, cu_seqlens)


def fused_recurrent_gdn2(q, k, v, g, b, w, A_log=None, dt_bias=None, scale=None, initial_state=None,
                         output_final_state=False, use_qk_l2norm_in_kernel=False,
                         use_gate_in_kernel=False, lower_bound=None, state_v_first=False, cu_seqlens=None,
                         **kwargs):
    """`chunk_gdn2`."""
    v_first = state_layout(kwargs, state_v_first, "fused_recurrent_gdn2")
    return _run_gdn2("fused_recurrent_gdn2", q, k, v, g, b, w, A_log, dt_bias, scale, initial_state,
                     output_final_state, use_qk_l2norm_in_kernel, use_gate_in_kernel, lower_bound, v_first,
                     cu_seqlens)


@recurrence
def _comba(S, v, q, k, p, g, beta, scale, normalise):
    if normalise:
        q, k, p = unit(q), unit(k), unit(p)
    S = S.decay(g)
    wrong = v - S.read(p)
    S = S.add(k, wrong if beta is None else beta * wrong)
    return S, S.read(q * scale)


def chunk_comba(q, k, v, p, g, beta=None, scale=None, initial_state=None, output_final_state=False,
                use_qk_l2norm_in_kernel=False, cu_seqlens=None, cu_seqlens_cpu=None):
    """Comba: the state is corrected by what it holds for p [B, T, H, K], which is k where it is None. g and
    beta [B, T, HV]; beta is 1 where it is None. With `use_qk_l2norm_in_kernel` p is normalised, too."""
    check_offsets(cu_seqlens, cu_seqlens_cpu)
    p = k if p is None else p
    _check(q, k, v, g=(g, None), beta=(beta, None))
    if p.shape != q.shape:
        raise TensorError(f"'p' must have q's shape, {list(q.shape)}, but has {list(p.shape)}")
    o, state = _comba(v, q, k, p, g, beta, default_scale(scale, k), bool(use_qk_l2norm_in_kernel),
                      initial_state=state_in(initial_state, like=q), cu_seqlens=cu_seqlens)
    return o, state_out(state, output_final_state)


def fused_recurrent_comba(q, k, p, v, g, beta=None, scale=None, initial_state=None,
                          output_final_state=False, use_qk_l2norm_in_kernel=False, cu_seqlens=None):
    """`chunk_comba`. fla has p before v here."""
    return chunk_comba(q, k, v, p, g, beta, scale, initial_state, output_final_state,
                       use_qk_l2norm_in_kernel, cu_seqlens)


@recurrence
def _oja(S, v, q, k, gv, beta, scale, of_q, of_k):
    q, k = unit(q) if of_q else q, unit(k) if of_k else k
    if gv is not None:
        S = S.decay(gv, axis="value")
    wrong = k - S.read(v, axis="value")
    S = S.add(wrong if beta is None else beta * wrong, v)
    return S, S.read(q * scale)


def chunk_gated_oja_rule(q, k, v, gv, beta, scale=None, initial_state=None, output_final_state=False,
                         use_q_l2norm=False, use_k_l2norm=False, cu_seqlens=None, cu_seqlens_cpu=None,
                         **kwargs):
    """The gated Oja rule: S is corrected along its values, with a gate gv [B, T, HV, V] for each value
    channel; beta [B, T, HV]."""
    function = "chunk_gated_oja_rule"
    check_keywords(function, kwargs, ("chunk_size", "use_qk_l2norm_in_kernel"))
    check_chunk_size(function, kwargs.get("chunk_size"), (16, 32, 64))
    check_offsets(cu_seqlens, cu_seqlens_cpu)
    # fla asks whether that argument is there, not what it is, and only without the other two.
    if "use_qk_l2norm_in_kernel" in kwargs and not use_q_l2norm and not use_k_l2norm:
        use_q_l2norm = use_k_l2norm = True
    _check(q, k, v, gv=(gv, v.shape[-1]), beta=(beta, None))
    o, state = _oja(v, q, k, gv, beta, default_scale(scale, k), bool(use_q_l2norm), bool(use_k_l2norm),
                    initial_state=state_in(initial_state, like=q), cu_seqlens=cu_seqlens)
    return o, state_out(state, output_final_state)


def fused_recurrent_gated_oja_rule(q, k, v, gv=None, beta=None, scale=None, initial_state=None,
                                   output_final_state=False, use_q_l2norm=False, use_k_l2norm=False,
                                   cu_seqlens=None, **kwargs):
    """`chunk_gated_oja_rule`, where gv and beta may be None, for no decay and 1."""
    check_keywords("fused_recurrent_gated_oja_rule", kwargs, ("use_qk_l2norm_in_kernel",))
    return chunk_gated_oja_rule(q, k, v, gv, beta, scale, initial_state, output_final_state, use_q_l2norm,
                                use_k_l2norm, cu_seqlens, **kwargs)
