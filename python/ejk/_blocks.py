"""Layers around a delta rule, between their projections: a model's block as one program, or as three."""

from . import _functions as f
from ._recurrence import Recurrence
from ._short_convolution import (ROWS_OF_PARTS, convolved, convolved_apart, in_16_bits, normalised, rms_norm,
                                 rows_before, taps_of)


# What comes after a recurrence.

def _gated_norm_silu(x, z, weight, channels, eps):
    return rms_norm(x, channels, eps, weight) * f.silu(z)


def _gated_norm_sigmoid(x, z, weight, channels, eps):
    return rms_norm(x, channels, eps, weight) * f.sigmoid(z)


# The recurrences, with the functions of their gates.

def _rate(b, most):
    rate = f.sigmoid(b)
    return rate if most == 1 else most * rate


def _gated_delta(S, v, q, k, a, b, A_log, dt_bias, scale, most):
    S = S.decay(-f.exp(A_log) * f.softplus(a + dt_bias))
    S = S.add(k, _rate(b, most) * (v - S.read(k)))
    return S, S.read(q * scale)


def _kimi(S, v, q, k, g, b, A_log, dt_bias, scale, bound, most):
    raw, rate = g if dt_bias is None else g + dt_bias, f.exp(A_log)
    S = S.decay(-rate * f.softplus(raw) if bound is None else bound * f.sigmoid(rate * raw))
    S = S.add(k, _rate(b, most) * (v - S.read(k)))
    return S, S.read(q * scale)


# All in one.

def _gated_delta_net(S, v, q, k, z, a, b, A_log, dt_bias, norm_weight, scale, most, eps, channels, rows,
                     wq0, wq1, wq2, wq3, wk0, wk1, wk2, wk3, wv0, wv1, wv2, wv3,
                     bias_q, bias_k, bias_v, q_rows, k_rows, v_rows):
    cq = normalised(convolved(q, (wq0, wq1, wq2, wq3), bias_q, q_rows))
    ck = normalised(convolved(k, (wk0, wk1, wk2, wk3), bias_k, k_rows))
    cv = convolved(v, (wv0, wv1, wv2, wv3), bias_v, v_rows)
    S, o = _gated_delta(S, cv, cq, ck, a, b, A_log, dt_bias, scale, most)
    o = _gated_norm_silu(o, z, norm_weight, channels, eps)
    if not rows:
        return S, o
    return (S, o, q.last_rows(rows, q_rows), k.last_rows(rows, k_rows), v.last_rows(rows, v_rows))


def _kimi_block(S, v, q, k, z, g, b, A_log, dt_bias, norm_weight, scale, bound, most, eps, channels, rows,
                wq0, wq1, wq2, wq3, wk0, wk1, wk2, wk3, wv0, wv1, wv2, wv3,
                bias_q, bias_k, bias_v, q_rows, k_rows, v_rows):
    cq = normalised(convolved(q, (wq0, wq1, wq2, wq3), bias_q, q_rows))
    ck = normalised(convolved(k, (wk0, wk1, wk2, wk3), bias_k, k_rows))
    cv = convolved(v, (wv0, wv1, wv2, wv3), bias_v, v_rows)
    S, o = _kimi(S, cv, cq, ck, g, b, A_log, dt_bias, scale, bound, most)
    o = _gated_norm_sigmoid(o, z, norm_weight, channels, eps)
    if not rows:
        return S, o
    return (S, o, q.last_rows(rows, q_rows), k.last_rows(rows, k_rows), v.last_rows(rows, v_rows))


# Made here: torch.compile does not follow that in a call.
_GATED_NORM_SILU = Recurrence(_gated_norm_silu, 0, False)
_GATED_NORM_SIGMOID = Recurrence(_gated_norm_sigmoid, 0, False)
_GATED_DELTA = Recurrence(_gated_delta, 1, False)
_KIMI = Recurrence(_kimi, 1, False)
_GATED_DELTA_NET = Recurrence(_gated_delta_net, 1, False)
_KIMI_BLOCK = Recurrence(_kimi_block, 1, False)


def _block(parts, whole, norm, q, k, v, z, gates, constants, norm_weight, conv_weight, conv_bias, eps,
           scale, conv_state, output_conv_state, initial_state, cu_seqlens, save_states):
    """A block of a recurrence that q, k and v come to through a convolution: `parts` is the recurrence,
    of `gates` and `constants`, `norm` what comes behind, and `whole` all in one."""
    (Hk, K), (Hv, V) = q.shape[2:], v.shape[2:]
    width, taps, biases = taps_of(conv_weight, conv_bias, [(Hk, K), (Hk, K), (Hv, V)])
    rows = rows_before(conv_state, width, "q, k and v")
    wanted = width - 1 if output_conv_state else 0
    scale = float(K) ** -0.5 if scale is None else float(scale)
    weight, channels = norm_weight.reshape(1, V), float(V)
    options = dict(cu_seqlens=cu_seqlens, save_states=save_states)
    if q.shape[1] < ROWS_OF_PARTS or not in_16_bits(q):
        o, *last, state = whole(v, q, k, z, *gates, weight, scale, *constants, float(eps), channels,
                                wanted, *taps, *biases, *rows, initial_state=initial_state, **options)
    else:
        (q, k, v), last = convolved_apart((q, k, v), taps, biases, rows, wanted, 2, cu_seqlens)
        o, state = parts(v, q, k, *gates, scale, *constants, initial_state=initial_state, **options)
        o = norm(o, z, weight, channels, float(eps), cu_seqlens=cu_seqlens)
    return (o, state, tuple(last)) if output_conv_state else (o, state)


def _most(allow_neg_eigval):
    return 2.0 if allow_neg_eigval else 1.0


def gated_delta_net(q, k, v, z, a, b, conv_weight, A_log, dt_bias, norm_weight, *, allow_neg_eigval=False,
                    conv_bias=None, eps=1e-6, scale=None, conv_state=None, output_conv_state=False,
                    initial_state=None, cu_seqlens=None, save_states=True):
    """The block of a gated DeltaNet layer between its projections, as Qwen3-Next has it: a causal
    convolution and SiLU of q, k and v, l2 norms of q and k, gates, the delta rule and a gated RMS norm.

    q, k = norm(silu(conv(q))), norm(silu(conv(k)));  v = silu(conv(v));  β = σ(b)
    S = exp(−exp(A_log)·softplus(a + dt_bias)) · S;  S = S + k (β·(v − Sᵀ k))ᵀ
    o = norm_weight · rms_norm(scale · Sᵀ q) · silu(z)

    q and k [B, T, Hk, K]; v and z [B, T, Hv, V], where Hk divides Hv; a and b [B, T, Hv]; A_log and
    dt_bias [Hv]; norm_weight [V]. With `allow_neg_eigval` β is 2·σ(b). `conv_weight` [2·Hk·K + Hv·V, 1, W] and `conv_bias` are a Conv1d's of
    the channels of q, k and v, with W from 1 to 4. `conv_state` has the W − 1 rows before the first of q,
    k and v, [N, W−1, Hk, K] and [N, W−1, Hv, V]; with `output_conv_state`, the last W − 1 rows are a third
    result, a tuple of the same shapes. From 64 steps on, 16-bit rows are computed in three parts, of
    which the convolved rows and the recurrence's output are rounded to their type."""
    return _block(_GATED_DELTA, _GATED_DELTA_NET, _GATED_NORM_SILU, q, k, v, z, (a, b, A_log, dt_bias),
                  (_most(allow_neg_eigval),), norm_weight, conv_weight, conv_bias, eps, scale, conv_state, output_conv_state,
                  initial_state, cu_seqlens, save_states)


def kda_block(q, k, v, g, b, z, conv_weight, A_log, dt_bias, norm_weight, *, lower_bound=None,
              allow_neg_eigval=False, conv_bias=None, eps=1e-5, scale=None, conv_state=None, output_conv_state=False,
              initial_state=None, cu_seqlens=None, save_states=True):
    """The block of a Kimi delta attention layer between its projections: as `gated_delta_net`, with a gate
    for each key channel and a norm that a sigmoid gates.

    gate = −exp(A_log)·softplus(g + dt_bias), or with `lower_bound` ℓ = ℓ·σ(exp(A_log)·(g + dt_bias))
    S = exp(gate)[:, None] ⊙ S;  S = S + k (σ(b)·(v − Sᵀ k))ᵀ;  o = norm_weight · rms_norm(scale · Sᵀ q) · σ(z)

    g [B, T, Hv, K] as its projection leaves it; A_log [Hv]; dt_bias [Hv, K], or of as many elements, or
    None; `lower_bound` below 0, −5 in Kimi K3. The rest is as in `gated_delta_net`. A model with a Conv1d for each of
    q, k and v gives their weights one after the other."""
    if lower_bound is not None and not lower_bound < 0:
        raise ValueError(f"kda_block: 'lower_bound' must be below 0, but is {lower_bound!r}")
    heads, channels = g.shape[2:]
    gates = (g, b, A_log.reshape(heads), None if dt_bias is None else dt_bias.reshape(heads, channels))
    bound = None if lower_bound is None else float(lower_bound)
    return _block(_KIMI, _KIMI_BLOCK, _GATED_NORM_SIGMOID, q, k, v, z, gates,
                  (bound, _most(allow_neg_eigval)), norm_weight, conv_weight, conv_bias, eps, scale, conv_state, output_conv_state, initial_state,
                  cu_seqlens, save_states)
