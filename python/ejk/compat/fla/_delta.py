"""fla's delta rules: DeltaNet, gated DeltaNet, KDA and RWKV-7."""

from ... import _functions as f
from ..._errors import TensorError
from ..._recurrence import SCALE_REMEDY, Recurrence
from ._common import (activated_beta, check_chunk_size, check_flags, check_gate, check_keywords, check_offsets,
                      check_same_heads, default_scale, key_gate, refuse, Slots, softplus_gate, state_in,
                      state_layout, state_out)


_REMEDIES = {"scale": SCALE_REMEDY, "lower_bound": "clip the gate before the call"}


def _recurrence(function, reverse=False):
    return Recurrence(function, 1, reverse, remedies=_REMEDIES)


def _unit(x):
    """A row divided by its norm, as fla does it, but without a rounding to q's type."""
    return x * f.rsqrt(f.sum(x * x) + 1e-6)


# `v` is first: it has the most heads, and its type is the output's.
@_recurrence
def _delta(S, v, q, k, beta, g, gk, gv, scale, normalise, lower_bound):
    if lower_bound is not None:
        gk = f.clip(gk, lower_bound, 0.0)
    if normalise:
        q, k = _unit(q), _unit(k)
    if g is not None:
        S = S.decay(g)
    if gk is not None:
        S = S.decay(gk)
    if gv is not None:
        S = S.decay(gv, axis="value")
    change = v - S.read(k)
    S = S.add(k, change if beta is None else beta * change)
    return S, S.read(q * scale)


def run(q, k, v, beta, scale, initial_state, output_final_state, cu_seqlens, v_first=False,
        normalise=False, g=None, gk=None, gv=None, lower_bound=None, slots=None):
    """The delta rule with any gates; checks shapes. gk is clipped to [lower_bound, 0] if that is given.
    With `slots`, the initial state is a pool, and where it is changed in place, the final state too."""
    shape, values = q.shape, v.shape
    if shape != k.shape:
        raise TensorError(f"'q' and 'k' must have one shape [B, T, H, K], but have {list(shape)} "
                          f"and {list(k.shape)}")
    if (len(values) != 4 or values[0] != shape[0] or values[1] != shape[1]
            or values[2] % shape[2]):
        raise TensorError("'v' must be [B, T, HV, V] with q's B and T, HV a multiple of its H, but "
                          f"is {list(values)} beside {list(shape)}")
    heads = values[:3]
    for name, x, ranks in (("beta", beta, (3, 4)), ("g", g, (3,)), ("gk", gk, (4,)),
                           ("gv", gv, (4,))):
        if x is None:
            continue
        own = x.shape
        if len(own) not in ranks or own != heads and own[:3] != heads:
            raise TensorError(f"'{name}' must have rank {' or '.join(map(str, ranks))} and v's B, T "
                              f"and HV, {list(heads)}, but is {list(own)}")
    own = (v, q, k, beta, g, gk, gv, default_scale(scale, k), bool(normalise), lower_bound)
    if slots and slots.inplace:
        return _delta(*own, cu_seqlens=cu_seqlens, **slots.keywords(initial_state, v_first))
    if slots:
        initial_state = slots.gather(initial_state)
    o, state = _delta(*own,
                      initial_state=state_in(initial_state, v_first, q), cu_seqlens=cu_seqlens)
    return o, state_out(state, output_final_state, v_first)


def chunk_delta_rule(q, k, v, beta, scale=None, initial_state=None, output_final_state=False,
                     use_qk_l2norm_in_kernel=False, cu_seqlens=None, cu_seqlens_cpu=None, **kwargs):
    """DeltaNet. float32 works here, too."""
    check_keywords("chunk_delta_rule", kwargs, ("chunk_size",))
    check_chunk_size("chunk_delta_rule", kwargs.get("chunk_size"), (16, 32, 64))
    check_offsets(cu_seqlens, cu_seqlens_cpu)
    return run(q, k, v, beta, scale, initial_state, output_final_state, cu_seqlens,
               normalise=use_qk_l2norm_in_kernel)


def fused_chunk_delta_rule(q, k, v, beta, scale=None, initial_state=None, output_final_state=False,
                           use_qk_l2norm_in_kernel=False, cu_seqlens=None):
    """`chunk_delta_rule`, under the name that fla has retired."""
    return chunk_delta_rule(q, k, v, beta, scale, initial_state, output_final_state,
                            use_qk_l2norm_in_kernel, cu_seqlens)


def fused_recurrent_delta_rule(q, k, v, beta=None, scale=None, initial_state=None,
                               output_final_state=False, use_qk_l2norm_in_kernel=False,
                               cu_seqlens=None):
    """`chunk_delta_rule`; beta [B, T, H], [B, T, H, V] or None for 1."""
    if scale is not None and scale <= 0:
        raise ValueError("fused_recurrent_delta_rule: 'scale' must be positive")
    return run(q, k, v, beta, scale, initial_state, output_final_state, cu_seqlens,
               normalise=use_qk_l2norm_in_kernel)


def chunk_gated_delta_rule(q, k, v, g, beta, scale=None, initial_state=None,
                           output_final_state=False, use_qk_l2norm_in_kernel=False,
                           use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False,
                           state_v_first=False, cu_seqlens=None, cu_seqlens_cpu=None,
                           chunk_indices=None, cp_context=None, **kwargs):
    """Gated DeltaNet: g, beta [B, T, HV], and v's heads may be a multiple of q's. `chunk_indices`
    are refused: they belong to fla's chunks.

    With `ssm_state_indices` or `initial_state_indices`, [N] or [N, D], `initial_state` is a pool of
    states, which is changed in its place and returned: fla's fused kernel and servers' copies of it
    have these, `inplace_final_state` and `num_accepted_tokens`. An index below 0 stands for no state."""
    function = "chunk_gated_delta_rule"
    kwargs, slots = Slots.take(function, kwargs, initial_state)
    own = ("chunk_size", "use_gate_in_kernel", "A_log", "dt_bias")
    v_first = state_layout({n: x for n, x in kwargs.items() if n not in own}, state_v_first,
                           function)
    refuse(function, cp_context=cp_context, chunk_indices=chunk_indices)
    check_chunk_size(function, kwargs.get("chunk_size"), (16, 32, 64))
    check_offsets(cu_seqlens, cu_seqlens_cpu)
    return _gated(function, q, k, v, g, None, None, beta, scale, initial_state, output_final_state,
                  use_qk_l2norm_in_kernel, kwargs.get("use_gate_in_kernel", False),
                  kwargs.get("A_log"), kwargs.get("dt_bias"), use_beta_sigmoid_in_kernel,
                  allow_neg_eigval, v_first, cu_seqlens, slots)


def fused_recurrent_gated_delta_rule(q, k, v, g=None, gk=None, gv=None, beta=None, scale=None,
                                     initial_state=None, output_final_state=False,
                                     use_qk_l2norm_in_kernel=False, use_gate_in_kernel=False,
                                     A_log=None, dt_bias=None, use_beta_sigmoid_in_kernel=False,
                                     allow_neg_eigval=False, state_v_first=False, cu_seqlens=None,
                                     **kwargs):
    """`chunk_gated_delta_rule` with gates for key channels and value channels, too."""
    function = "fused_recurrent_gated_delta_rule"
    kwargs, slots = Slots.take(function, kwargs, initial_state)
    v_first = state_layout(kwargs, state_v_first, function)
    return _gated(function, q, k, v, g, gk, gv, beta, scale, initial_state, output_final_state,
                  use_qk_l2norm_in_kernel, use_gate_in_kernel, A_log, dt_bias,
                  use_beta_sigmoid_in_kernel, allow_neg_eigval, v_first, cu_seqlens, slots)


def _gated(function, q, k, v, g, gk, gv, beta, scale, initial_state, output_final_state, normalise,
           use_gate, A_log, dt_bias, sigmoid, negative, v_first, cu_seqlens, slots=None):
    check_gate(function, use_gate, A_log=A_log, dt_bias=dt_bias)
    if use_gate:
        if A_log is None or g is None:
            raise ValueError(f"{function}: use_gate_in_kernel=True needs 'g' and 'A_log'")
        g = softplus_gate(g, A_log, dt_bias)
    if beta is None and (sigmoid or negative):
        raise ValueError(f"{function}: use_beta_sigmoid_in_kernel=True needs 'beta'")
    return run(q, k, v, activated_beta(beta, sigmoid, negative), scale, initial_state,
               output_final_state, cu_seqlens, v_first, normalise, g=g, gk=gk, gv=gv, slots=slots)


def chunk_kda(q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False,
              use_qk_l2norm_in_kernel=False, use_gate_in_kernel=False,
              use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False, safe_gate=False,
              lower_bound=None, disable_recompute=False, return_intermediate_states=False,
              state_v_first=False, cu_seqlens=None, cu_seqlens_cpu=None, cp_context=None,
              use_graph=False, max_num_seqs=None, **kwargs):
    """Kimi delta attention: a gate g [B, T, HV, K] for each key channel. `safe_gate` and
    `disable_recompute` only tell fla's kernels how to compute; they change no result."""
    function = "chunk_kda"
    kwargs, slots = Slots.take(function, kwargs, initial_state)
    own = ("chunk_size", "A_log", "dt_bias")
    v_first = state_layout({n: x for n, x in kwargs.items() if n not in own}, state_v_first,
                           function)
    refuse(function, return_intermediate_states=return_intermediate_states, cp_context=cp_context,
           use_graph=use_graph, max_num_seqs=max_num_seqs)
    check_chunk_size(function, kwargs.get("chunk_size"), (32, 64))
    check_offsets(cu_seqlens, cu_seqlens_cpu)
    check_flags(function, safe_gate=safe_gate, disable_recompute=disable_recompute)
    if safe_gate and use_gate_in_kernel and not (lower_bound is not None and -5 <= lower_bound < 0):
        raise ValueError("chunk_kda: safe_gate=True with use_gate_in_kernel=True needs a "
                         f"'lower_bound' in [-5, 0), but it is {lower_bound}")
    return _kda(function, q, k, v, g, beta, kwargs.get("A_log"), kwargs.get("dt_bias"), scale,
                initial_state, output_final_state, use_qk_l2norm_in_kernel, use_gate_in_kernel,
                use_beta_sigmoid_in_kernel, allow_neg_eigval, lower_bound, v_first, cu_seqlens, slots)


def fused_recurrent_kda(q, k, v, g, beta, A_log=None, dt_bias=None, scale=None, initial_state=None,
                        output_final_state=False, use_qk_l2norm_in_kernel=False,
                        use_gate_in_kernel=False, use_beta_sigmoid_in_kernel=False,
                        allow_neg_eigval=False, lower_bound=None, state_v_first=False,
                        cu_seqlens=None, **kwargs):
    """`chunk_kda`."""
    kwargs, slots = Slots.take("fused_recurrent_kda", kwargs, initial_state)
    v_first = state_layout(kwargs, state_v_first, "fused_recurrent_kda")
    return _kda("fused_recurrent_kda", q, k, v, g, beta, A_log, dt_bias, scale, initial_state,
                output_final_state, use_qk_l2norm_in_kernel, use_gate_in_kernel,
                use_beta_sigmoid_in_kernel, allow_neg_eigval, lower_bound, v_first, cu_seqlens, slots)


def _kda(function, q, k, v, g, beta, A_log, dt_bias, scale, initial_state, output_final_state,
         normalise, use_gate, sigmoid, negative, lower_bound, v_first, cu_seqlens, slots=None):
    g = key_gate(function, use_gate, g, A_log, dt_bias, lower_bound)
    # Without use_gate_in_kernel, 'lower_bound' is the caller's promise about g. Where the gate is
    # within it, clipping changes nothing, and chunks need no range guard.
    return run(q, k, v, activated_beta(beta, sigmoid, negative), scale, initial_state,
               output_final_state, cu_seqlens, v_first, normalise, gk=g, lower_bound=lower_bound,
               slots=slots)


@_recurrence
def _rwkv7(S, v, r, w, k, a, b, scale):
    removed = S.read(a)
    S = S.decay(w).add(b, removed).add(k, v)
    return S, S.read(r * scale)


# Products of rows are a step's, not torch's, which would round them to their type.
def _mul_rwkv7(S, v, r, w, k, kk, a, scale):
    removed = S.read(-kk)
    S = S.decay(w).add(kk * a, removed).add(k, v)
    return S, S.read(r * scale)


_MUL_RWKV7 = {reverse: _recurrence(_mul_rwkv7, reverse) for reverse in (False, True)}


def _run_rwkv7(recurrence, r, w, k, v, scale, initial_state, output_final_state, cu_seqlens,
               **others):
    shape = r.shape
    for name, x in {"w": w, **others}.items():
        if x.shape != shape:
            raise TensorError(f"'{name}' must be [B, T, H, K] as r is, {list(shape)}, but is "
                              f"{list(x.shape)}")
    check_same_heads(r, k, v)
    o, state = recurrence(v, r, w, k, *others.values(), default_scale(scale, r),
                          initial_state=state_in(initial_state, like=r), cu_seqlens=cu_seqlens)
    return o, state_out(state, output_final_state)


def chunk_rwkv7(r, w, k, v, a, b, scale=1.0, initial_state=None, output_final_state=False,
                cu_seqlens=None, cu_seqlens_cpu=None, safe_gate=False, chunk_size=None,
                disable_recompute=False, cp_context=None, lower_bound=None):
    """RWKV-7: S = exp(w) ⊙ S + b (Sᵀ a)ᵀ + k vᵀ. `safe_gate`, `lower_bound`, `chunk_size` and
    `disable_recompute` only tell fla's kernels how to compute; they change no result."""
    refuse("chunk_rwkv7", cp_context=cp_context)
    check_chunk_size("chunk_rwkv7", chunk_size)
    check_flags("chunk_rwkv7", safe_gate=safe_gate, disable_recompute=disable_recompute)
    if lower_bound is not None and not lower_bound < 0:
        raise ValueError(f"chunk_rwkv7: 'lower_bound' must be below 0, but is {lower_bound}")
    check_offsets(cu_seqlens, cu_seqlens_cpu)
    return _run_rwkv7(_rwkv7, r, w, k, v, scale, initial_state, output_final_state, cu_seqlens, a=a,
                      b=b)


def fused_recurrent_rwkv7(r, w, k, v, a, b, scale=None, initial_state=None,
                          output_final_state=True, cu_seqlens=None):
    """`chunk_rwkv7` with fla's other defaults: scale K^-½, and the final state is given."""
    return _run_rwkv7(_rwkv7, r, w, k, v, scale, initial_state, output_final_state, cu_seqlens, a=a,
                      b=b)


def fused_mul_recurrent_rwkv7(r, w, k, v, kk, a, scale=1.0, initial_state=None,
                              output_final_state=False, reverse=False, cu_seqlens=None):
    """`chunk_rwkv7` of −kk and kk ⊙ a, in either direction."""
    return _run_rwkv7(_MUL_RWKV7[bool(reverse)], r, w, k, v, scale, initial_state,
                      output_final_state, cu_seqlens, kk=kk, a=a)
