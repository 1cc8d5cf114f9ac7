"""Layers around a delta rule, between their projections: a model's block as one program, or in parts."""

from . import _functions as f
from ._errors import TensorError
from ._named import checked_bound, default_scale, rate_of
from ._outside import of_shape, operands, wide
from ._recurrence import Recurrence
from ._short_convolution import (MOST_CHANNELS, ROWS_OF_PARTS, convolved, convolved_apart, in_16_bits, normalised,
                                 operands_before, rms_norm, rows_after, rows_before, taps_of)


# What comes after a recurrence.

def _gated_norm_silu(x, z, weight, channels, eps):
    return rms_norm(x, channels, eps, weight) * f.silu(z)


def _gated_norm_sigmoid(x, z, weight, channels, eps):
    return rms_norm(x, channels, eps, weight) * f.sigmoid(z)


# The gates and the rate, which multiplies what is added.

def _rate(b, most):
    rate = f.sigmoid(b)
    return rate if most == 1 else most * rate


def _gate_of_head(a, b, A_log, dt_bias, most):
    return -rate_of(A_log) * f.softplus(a + dt_bias), _rate(b, most)


def _gates_of_channels(b, g, A_log, dt_bias, bound, most):
    raw, rate = g if dt_bias is None else g + dt_bias, rate_of(A_log)
    return -rate * f.softplus(raw) if bound is None else bound * f.sigmoid(rate * raw), _rate(b, most)


# The recurrence. A bound of its gates that it is told keeps them on the matmuls.

def _delta(S, v, q, k, g, rate, scale, bound=None):
    S = S.decay(g if bound is None else f.clip(g, bound, 0.0))
    S = S.add(k, rate * (v - S.read(k)))
    return S, S.read(q * scale)


# All in one.

def _gated_delta_net(S, v, q, k, z, a, b, A_log, dt_bias, norm_weight, scale, most, eps, channels, rows,
                     wq0, wq1, wq2, wq3, wk0, wk1, wk2, wk3, wv0, wv1, wv2, wv3,
                     bias_q, bias_k, bias_v, q_rows, k_rows, v_rows):
    cq = normalised(convolved(q, (wq0, wq1, wq2, wq3), bias_q, q_rows))
    ck = normalised(convolved(k, (wk0, wk1, wk2, wk3), bias_k, k_rows))
    cv = convolved(v, (wv0, wv1, wv2, wv3), bias_v, v_rows)
    S, o = _delta(S, cv, cq, ck, *_gate_of_head(a, b, A_log, dt_bias, most), scale)
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
    S, o = _delta(S, cv, cq, ck, *_gates_of_channels(b, g, A_log, dt_bias, bound, most), scale)
    o = _gated_norm_sigmoid(o, z, norm_weight, channels, eps)
    if not rows:
        return S, o
    return (S, o, q.last_rows(rows, q_rows), k.last_rows(rows, k_rows), v.last_rows(rows, v_rows))


# Made here: torch.compile does not follow that in a call.
_GATED_NORM_SILU = Recurrence(_gated_norm_silu, 0, False)
_GATED_NORM_SIGMOID = Recurrence(_gated_norm_sigmoid, 0, False)
_GATE_OF_HEAD = Recurrence(_gate_of_head, 0, False)
_GATES_OF_CHANNELS = Recurrence(_gates_of_channels, 0, False)
_DELTA = Recurrence(_delta, 1, False)
_GATED_DELTA_NET = Recurrence(_gated_delta_net, 1, False)
_KIMI_BLOCK = Recurrence(_kimi_block, 1, False)


def _gates_of_gdn(a, b, A_log, dt_bias, most, cu_seqlens):
    """The gate and rate of each head, in float32: the heads are the channels of rows of one head."""
    heads = a.shape[2]
    a, b = wide(a), wide(b)
    if heads > MOST_CHANNELS:
        return _GATE_OF_HEAD(a, b, A_log, dt_bias, most, cu_seqlens=cu_seqlens)
    rows = [x.reshape(*x.shape[:2], 1, heads) for x in (a, b)]
    rates = [of_shape(n, x, (1, heads)) for n, x in (("A_log", A_log), ("dt_bias", dt_bias))]
    found = _GATE_OF_HEAD(*rows, *rates, most, cu_seqlens=cu_seqlens)
    return [x.reshape(*x.shape[:2], heads) for x in found]


def _gates_of_kda(g, b, A_log, dt_bias, bound, most, cu_seqlens):
    """The gate of each channel and the rate of each head, in float32, as the first argument is."""
    return _GATES_OF_CHANNELS(wide(b), g, A_log, dt_bias, bound, most, cu_seqlens=cu_seqlens)


def _block(gates_of, whole, norm, q, k, v, z, gates, constants, norm_weight, conv_weight, conv_bias, eps,
           scale, rows, output_conv_state, initial_state, cu_seqlens, save_states, bound=None):
    """A block of a delta rule that q, k and v come to through a convolution: `gates_of` gives its gates, at
    least `bound`, and rates, of `gates` and `constants`, `norm` is what comes behind, and `whole` all in one."""
    (Hk, K), (Hv, V) = q.shape[2:], v.shape[2:]
    width, taps, biases = taps_of(conv_weight, conv_bias, [(Hk, K), (Hk, K), (Hv, V)])
    rows = rows_before(rows, width, {"q": q, "k": k, "v": v}, cu_seqlens)
    wanted = width - 1 if output_conv_state else 0
    scale = default_scale(scale, k)
    weight, channels = of_shape("norm_weight", norm_weight, (1, V)), float(V)
    options = dict(cu_seqlens=cu_seqlens, save_states=save_states)
    if q.shape[1] < ROWS_OF_PARTS or not in_16_bits(q):
        o, *last, state = whole(v, q, k, z, *gates, weight, scale, *constants, float(eps), channels,
                                wanted, *taps, *biases, *rows, initial_state=initial_state, **options)
    else:
        (q, k, v), last = convolved_apart((q, k, v), taps, biases, rows, wanted, 2, cu_seqlens)
        o, state = _DELTA(v, q, k, *gates_of(*gates, *constants, cu_seqlens), scale, bound,
                          initial_state=initial_state, **options)
        o = norm(o, z, weight, channels, float(eps), cu_seqlens=cu_seqlens)
    return (o, state, rows_after(last, (q, k, v), cu_seqlens)) if output_conv_state else (o, state)


def _rows(q, k, v, z):
    return [("q", q, "[B, T, Hk, K]"), ("k", k, "[B, T, Hk, K]"), ("v", v, "[B, T, Hv, V]"),
            ("z", z, "[B, T, Hv, V]")]


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
    dt_bias [Hv]; norm_weight [V]. With `allow_neg_eigval` β is 2·σ(b). `conv_weight`
    [2·Hk·K + Hv·V, 1, W] and `conv_bias` are a Conv1d's of the channels of q, k and v, with W from 1 to 4. `conv_state` has the W − 1 rows before the first of q,
    k and v, [N, W−1, Hk, K] and [N, W−1, Hv, V]; with `output_conv_state`, the last W − 1 rows are a third
    result, a tuple of the same shapes. From 64 steps on, 16-bit rows are computed in parts: convolutions,
    gates, recurrence and norm. Gates are float32 between them; the convolved rows and the recurrence's
    output are rounded to their type."""
    q, k, v, z, a, b, conv_weight, A_log, dt_bias, norm_weight, conv_bias, *rows = operands(
        *_rows(q, k, v, z), ("a", a, "[B, T, Hv]"), ("b", b, "[B, T, Hv]"),
        ("conv_weight", conv_weight, "[...]"), ("A_log", A_log, "[Hv]"), ("dt_bias", dt_bias, "[Hv]"),
        ("norm_weight", norm_weight, "[...]"), ("conv_bias", conv_bias, "[...]?"),
        *operands_before(conv_state, "q, k and v", conv_weight))
    return _block(_gates_of_gdn, _GATED_DELTA_NET, _GATED_NORM_SILU, q, k, v, z, (a, b, A_log, dt_bias),
                  (_most(allow_neg_eigval),), norm_weight, conv_weight, conv_bias, eps, scale, rows,
                  output_conv_state, initial_state, cu_seqlens, save_states)


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
    bound = checked_bound(lower_bound)
    q, k, v, z, g, b, conv_weight, A_log, dt_bias, norm_weight, conv_bias, *rows = operands(
        *_rows(q, k, v, z), ("g", g, "[B, T, Hv, K]"), ("b", b, "[B, T, Hv]"),
        ("conv_weight", conv_weight, "[...]"), ("A_log", A_log, "[...]"), ("dt_bias", dt_bias, "[...]?"),
        ("norm_weight", norm_weight, "[...]"), ("conv_bias", conv_bias, "[...]?"),
        *operands_before(conv_state, "q, k and v", conv_weight))
    if g.shape[3] != k.shape[3]:
        raise TensorError(f"'g' must be [B, T, Hv, K] with K = {k.shape[3]}, but has shape {list(g.shape)}")
    heads, channels = g.shape[2:]
    gates = (g, b, of_shape("A_log", A_log, (heads,)), of_shape("dt_bias", dt_bias, (heads, channels)))
    return _block(_gates_of_kda, _KIMI_BLOCK, _GATED_NORM_SIGMOID, q, k, v, z, gates,
                  (bound, _most(allow_neg_eigval)), norm_weight, conv_weight, conv_bias, eps, scale, rows,
                  output_conv_state, initial_state, cu_seqlens, save_states, bound)
