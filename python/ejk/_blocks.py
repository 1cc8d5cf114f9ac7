"""Layers around a recurrence, between their projections: a model's block as one program, or as three."""

from . import _functions as f
from ._errors import TensorError
from ._recurrence import Recurrence

_TAPS = 4  # of a convolution, at most

# Rows from which a block of 16-bit rows is a program for what comes before its recurrence, one for that,
# and one for what comes behind. These are computed for all rows at once, and leave a chunk's thread
# block the matmuls; docs/experiments.md has the times. With fewer rows, one program has
# one launch.
_ROWS_OF_PARTS = 64


# What comes before and behind: functions of rows.

def _convolved(x, weights, bias, rows):
    """A causal convolution over the steps, whose last weight is of the step's own row, and SiLU."""
    weights = [w for w in weights if w is not None]
    total = weights[-1] * x
    for steps, w in enumerate(reversed(weights[:-1]), 1):
        total = total + w * x.shifted(steps, rows)
    return f.silu(total if bias is None else total + bias)


def _normalised(x):
    return x * f.rsqrt(f.sum(x * x) + 1e-6)


def _short_convolution(x, w0, w1, w2, w3, bias, rows, count, normalise):
    y = _convolved(x, (w0, w1, w2, w3), bias, rows)
    y = _normalised(y) if normalise else y
    return (y, x.last_rows(count, rows)) if count else y


def _rms_norm(o, channels, eps, weight):
    return weight * (o * f.rsqrt(f.sum(o * o) / channels + eps))


def _gated_norm_silu(x, z, weight, channels, eps):
    return _rms_norm(x, channels, eps, weight) * f.silu(z)


def _gated_norm_sigmoid(x, z, weight, channels, eps):
    return _rms_norm(x, channels, eps, weight) * f.sigmoid(z)


# The recurrences, with the functions of their gates.

def _gated_delta(S, v, q, k, a, b, A_log, dt_bias, scale):
    S = S.decay(-f.exp(A_log) * f.softplus(a + dt_bias))
    S = S.add(k, f.sigmoid(b) * (v - S.read(k)))
    return S, S.read(q * scale)


def _kimi(S, v, q, k, g, b, A_log, dt_bias, scale, bound):
    raw, rate = g if dt_bias is None else g + dt_bias, f.exp(A_log)
    S = S.decay(-rate * f.softplus(raw) if bound is None else bound * f.sigmoid(rate * raw))
    S = S.add(k, f.sigmoid(b) * (v - S.read(k)))
    return S, S.read(q * scale)


# All in one.

def _gated_delta_net(S, v, q, k, z, a, b, A_log, dt_bias, norm_weight, scale, eps, channels, rows,
                     wq0, wq1, wq2, wq3, wk0, wk1, wk2, wk3, wv0, wv1, wv2, wv3,
                     bias_q, bias_k, bias_v, q_rows, k_rows, v_rows):
    cq = _normalised(_convolved(q, (wq0, wq1, wq2, wq3), bias_q, q_rows))
    ck = _normalised(_convolved(k, (wk0, wk1, wk2, wk3), bias_k, k_rows))
    cv = _convolved(v, (wv0, wv1, wv2, wv3), bias_v, v_rows)
    S, o = _gated_delta(S, cv, cq, ck, a, b, A_log, dt_bias, scale)
    o = _gated_norm_silu(o, z, norm_weight, channels, eps)
    if not rows:
        return S, o
    return (S, o, q.last_rows(rows, q_rows), k.last_rows(rows, k_rows), v.last_rows(rows, v_rows))


def _kimi_block(S, v, q, k, z, g, b, A_log, dt_bias, norm_weight, scale, bound, eps, channels, rows,
                wq0, wq1, wq2, wq3, wk0, wk1, wk2, wk3, wv0, wv1, wv2, wv3,
                bias_q, bias_k, bias_v, q_rows, k_rows, v_rows):
    cq = _normalised(_convolved(q, (wq0, wq1, wq2, wq3), bias_q, q_rows))
    ck = _normalised(_convolved(k, (wk0, wk1, wk2, wk3), bias_k, k_rows))
    cv = _convolved(v, (wv0, wv1, wv2, wv3), bias_v, v_rows)
    S, o = _kimi(S, cv, cq, ck, g, b, A_log, dt_bias, scale, bound)
    o = _gated_norm_sigmoid(o, z, norm_weight, channels, eps)
    if not rows:
        return S, o
    return (S, o, q.last_rows(rows, q_rows), k.last_rows(rows, k_rows), v.last_rows(rows, v_rows))


# Made here: torch.compile does not follow that in a call.
_SHORT_CONVOLUTION = Recurrence(_short_convolution, 0, False)
_GATED_NORM_SILU = Recurrence(_gated_norm_silu, 0, False)
_GATED_NORM_SIGMOID = Recurrence(_gated_norm_sigmoid, 0, False)
_GATED_DELTA = Recurrence(_gated_delta, 1, False)
_KIMI = Recurrence(_kimi, 1, False)
_GATED_DELTA_NET = Recurrence(_gated_delta_net, 1, False)
_KIMI_BLOCK = Recurrence(_kimi_block, 1, False)


def _taps(weight, bias, sizes):
    """For each part of a convolution's channels, of [heads, channels] each: its taps, the newest
    row's last, and its bias."""
    width = weight.shape[-1]
    total = sum(heads * channels for heads, channels in sizes)
    if not 1 <= width <= _TAPS:
        raise TensorError(f"'conv_weight' has a width of {width}; ejk takes 1 to {_TAPS}")
    if weight.shape[0] != total or len(weight.shape) not in (2, 3):
        raise TensorError(f"'conv_weight' must be [{total}, 1, W] or [{total}, W], as q, k and v have "
                          f"{total} channels, but is {list(weight.shape)}")
    weight = weight.reshape(total, width)
    taps, biases, first = [], [], 0
    for heads, channels in sizes:
        end = first + heads * channels
        taps += [None] * (_TAPS - width)
        taps += [weight[first:end, i].reshape(heads, channels) for i in range(width)]
        biases.append(None if bias is None else bias[first:end].reshape(heads, channels))
        first = end
    return width, taps, biases


def _block(parts, whole, norm, q, k, v, z, gates, constants, norm_weight, conv_weight, conv_bias, eps,
           scale, conv_state, output_conv_state, initial_state, cu_seqlens, save_states):
    """A block of a recurrence that q, k and v come to through a convolution: `parts` is the recurrence,
    of `gates` and `constants`, `norm` what comes behind, and `whole` all in one."""
    (Hk, K), (Hv, V) = q.shape[2:], v.shape[2:]
    width, taps, biases = _taps(conv_weight, conv_bias, [(Hk, K), (Hk, K), (Hv, V)])
    rows = conv_state if conv_state is not None else (None,) * 3
    if len(rows) != 3:
        raise TensorError("'conv_state' must be a tuple of the rows of q, k and v, but has "
                          f"{len(rows)} entries")
    if width == 1:
        rows = (None,) * 3
    wanted = width - 1 if output_conv_state else 0
    scale = float(K) ** -0.5 if scale is None else float(scale)
    weight, channels = norm_weight.reshape(1, V), float(V)
    options = dict(cu_seqlens=cu_seqlens, save_states=save_states)
    if q.shape[1] < _ROWS_OF_PARTS or not str(q.dtype).endswith("float16"):
        o, *last, state = whole(v, q, k, z, *gates, weight, scale, *constants, float(eps), channels,
                                wanted, *taps, *biases, *rows, initial_state=initial_state, **options)
    else:
        found = [_SHORT_CONVOLUTION(x, *taps[_TAPS * i:_TAPS * (i + 1)], biases[i], rows[i], wanted,
                                    i < 2, cu_seqlens=cu_seqlens) for i, x in enumerate((q, k, v))]
        last = [row for _, row in found] if wanted else []
        q, k, v = (y for y, _ in found) if wanted else found
        o, state = parts(v, q, k, *gates, scale, *constants, initial_state=initial_state, **options)
        o = norm(o, z, weight, channels, float(eps))
    return (o, state, tuple(last)) if output_conv_state else (o, state)


def gated_delta_net(q, k, v, z, a, b, conv_weight, A_log, dt_bias, norm_weight, *, conv_bias=None,
                    eps=1e-6, scale=None, conv_state=None, output_conv_state=False,
                    initial_state=None, cu_seqlens=None, save_states=True):
    """The block of a gated DeltaNet layer between its projections, as Qwen3-Next has it: a causal
    convolution and SiLU of q, k and v, l2 norms of q and k, gates, the delta rule and a gated RMS norm.

    q, k = norm(silu(conv(q))), norm(silu(conv(k)));  v = silu(conv(v));  β = σ(b)
    S = exp(−exp(A_log)·softplus(a + dt_bias)) · S;  S = S + k (β·(v − Sᵀ k))ᵀ
    o = norm_weight · rms_norm(scale · Sᵀ q) · silu(z)

    q and k [B, T, Hk, K]; v and z [B, T, Hv, V], where Hk divides Hv; a and b [B, T, Hv]; A_log and
    dt_bias [Hv]; norm_weight [V]. `conv_weight` [2·Hk·K + Hv·V, 1, W] and `conv_bias` are a Conv1d's of
    the channels of q, k and v, with W from 1 to 4. `conv_state` has the W − 1 rows before the first of q,
    k and v, [N, W−1, Hk, K] and [N, W−1, Hv, V]; with `output_conv_state`, the last W − 1 rows are a third
    result, a tuple of the same shapes. From 64 steps on, 16-bit rows are computed in three parts, of
    which the convolved rows and the recurrence's output are rounded to their type."""
    return _block(_GATED_DELTA, _GATED_DELTA_NET, _GATED_NORM_SILU, q, k, v, z, (a, b, A_log, dt_bias), (),
                  norm_weight, conv_weight, conv_bias, eps, scale, conv_state, output_conv_state,
                  initial_state, cu_seqlens, save_states)


def kda_block(q, k, v, g, b, z, conv_weight, A_log, dt_bias, norm_weight, *, lower_bound=None,
              conv_bias=None, eps=1e-5, scale=None, conv_state=None, output_conv_state=False,
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
    return _block(_KIMI, _KIMI_BLOCK, _GATED_NORM_SIGMOID, q, k, v, z, gates, (bound,), norm_weight,
                  conv_weight, conv_bias, eps, scale, conv_state, output_conv_state, initial_state,
                  cu_seqlens, save_states)
