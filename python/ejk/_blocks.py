"""Layers around a recurrence, between their projections: a model's block as one program."""

from . import _functions as f
from ._errors import TensorError
from ._recurrence import Recurrence

_TAPS = 4  # of a convolution, at most


def _convolved(x, weights, bias, rows):
    """A causal convolution over the steps, whose last weight is of the step's own row, and SiLU."""
    weights = [w for w in weights if w is not None]
    total = weights[-1] * x
    for steps, w in enumerate(reversed(weights[:-1]), 1):
        total = total + w * x.shifted(steps, rows)
    return f.silu(total if bias is None else total + bias)


def _normalised(x):
    return x * f.rsqrt(f.sum(x * x) + 1e-6)


def _gated_delta_net(S, v, q, k, z, a, b, A_log, dt_bias, norm_weight, scale, eps, channels, rows,
                     wq0, wq1, wq2, wq3, wk0, wk1, wk2, wk3, wv0, wv1, wv2, wv3,
                     bias_q, bias_k, bias_v, q_rows, k_rows, v_rows):
    cq = _normalised(_convolved(q, (wq0, wq1, wq2, wq3), bias_q, q_rows))
    ck = _normalised(_convolved(k, (wk0, wk1, wk2, wk3), bias_k, k_rows))
    cv = _convolved(v, (wv0, wv1, wv2, wv3), bias_v, v_rows)
    S = S.decay(-f.exp(A_log) * f.softplus(a + dt_bias))
    S = S.add(ck, f.sigmoid(b) * (cv - S.read(ck)))
    o = S.read(cq * scale)
    o = norm_weight * (o * f.rsqrt(f.sum(o * o) / channels + eps)) * f.silu(z)
    if not rows:
        return S, o
    return (S, o, q.last_rows(rows, q_rows), k.last_rows(rows, k_rows), v.last_rows(rows, v_rows))


# Made here: torch.compile does not follow that in a call.
_GATED_DELTA_NET = Recurrence(_gated_delta_net, 1, False)


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
    result, a tuple of the same shapes."""
    (Hk, K), (Hv, V) = q.shape[2:], v.shape[2:]
    width, taps, biases = _taps(conv_weight, conv_bias, [(Hk, K), (Hk, K), (Hv, V)])
    rows = conv_state if conv_state is not None else (None,) * 3
    if len(rows) != 3:
        raise TensorError("'conv_state' must be a tuple of the rows of q, k and v, but has "
                          f"{len(rows)} entries")
    if width == 1:
        rows = (None,) * 3
    wanted = width - 1 if output_conv_state else 0
    o, *last, state = _GATED_DELTA_NET(
        v, q, k, z, a, b, A_log, dt_bias, norm_weight.reshape(1, V),
        float(K) ** -0.5 if scale is None else float(scale), float(eps), float(V), wanted, *taps, *biases,
        *rows, initial_state=initial_state, cu_seqlens=cu_seqlens, save_states=save_states)
    return (o, state, tuple(last)) if output_conv_state else (o, state)
