"""Layers around a recurrence, between their projections: a model's block as one program, or as three."""

from . import _functions as f
from ._errors import TensorError
from ._outside import cast, on_cpu, stop_gradient, wide
from ._recurrence import Recurrence

_TAPS = 4  # of a convolution, at most
_LARGEST = 3.4e38  # of f32, about

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
    cq = _normalised(_convolved(q, (wq0, wq1, wq2, wq3), bias_q, q_rows))
    ck = _normalised(_convolved(k, (wk0, wk1, wk2, wk3), bias_k, k_rows))
    cv = _convolved(v, (wv0, wv1, wv2, wv3), bias_v, v_rows)
    S, o = _gated_delta(S, cv, cq, ck, a, b, A_log, dt_bias, scale, most)
    o = _gated_norm_silu(o, z, norm_weight, channels, eps)
    if not rows:
        return S, o
    return (S, o, q.last_rows(rows, q_rows), k.last_rows(rows, k_rows), v.last_rows(rows, v_rows))


def _kimi_block(S, v, q, k, z, g, b, A_log, dt_bias, norm_weight, scale, bound, most, eps, channels, rows,
                wq0, wq1, wq2, wq3, wk0, wk1, wk2, wk3, wv0, wv1, wv2, wv3,
                bias_q, bias_k, bias_v, q_rows, k_rows, v_rows):
    cq = _normalised(_convolved(q, (wq0, wq1, wq2, wq3), bias_q, q_rows))
    ck = _normalised(_convolved(k, (wk0, wk1, wk2, wk3), bias_k, k_rows))
    cv = _convolved(v, (wv0, wv1, wv2, wv3), bias_v, v_rows)
    S, o = _kimi(S, cv, cq, ck, g, b, A_log, dt_bias, scale, bound, most)
    o = _gated_norm_sigmoid(o, z, norm_weight, channels, eps)
    if not rows:
        return S, o
    return (S, o, q.last_rows(rows, q_rows), k.last_rows(rows, k_rows), v.last_rows(rows, v_rows))


# Mamba-2. Its gated norm goes over the heads of a group, so it is a function of rows of its own.

def _mamba2(S, dt, x, B, C, A_log, D, dt_bias, limits):
    dt = f.softplus(dt if dt_bias is None else dt + dt_bias)
    if limits is not None:
        dt = f.clip(dt, *limits)
    S = S.decay(-f.exp(A_log) * dt).add(B, dt * x)
    y = S.read(C)
    return S, y if D is None else y + D * x


def _mamba2_convolved(S, dt, x, B, C, mask, A_log, D, dt_bias, low, high, rows,
                      wx0, wx1, wx2, wx3, wB0, wB1, wB2, wB3, wC0, wC1, wC2, wC3,
                      bias_x, bias_B, bias_C, x_rows, B_rows, C_rows):
    # dt is first: outputs have its type, f32.
    cx = _convolved(x, (wx0, wx1, wx2, wx3), bias_x, x_rows)
    cB = _convolved(B, (wB0, wB1, wB2, wB3), bias_B, B_rows)
    cC = _convolved(C, (wC0, wC1, wC2, wC3), bias_C, C_rows)
    cx = cx if mask is None else cx * mask
    S, y = _mamba2(S, dt, cx, cB, cC, A_log, D, dt_bias, None if low is None else (low, high))
    if not rows:
        return S, y
    return (S, y, x.last_rows(rows, x_rows), B.last_rows(rows, B_rows), C.last_rows(rows, C_rows))


def _mamba2_recurrence(S, x, dt, B, C, A_log, D, dt_bias, low, high):
    # x is first: chunks take cotangents of 16 bits alone.
    return _mamba2(S, dt, x, B, C, A_log, D, dt_bias, None if low is None else (low, high))


def _gate_before(y, z, before):
    return y if before else y * f.silu(z)


def _group_norm_gated(z, y, weight, channels, eps, before):
    o = _gate_before(y, z, before)
    if weight is not None:
        o = _rms_norm(o, channels, eps, weight)
    return o * f.silu(z) if before else o


def _gated_squares(dt, y, z, before):
    # dt is first: the sums have its type, f32.
    o = _gate_before(y, z, before)
    return f.sum(o * o)


def _gated_scaled(z, y, weight, inverse, before):
    o = _gate_before(y, z, before) * inverse * weight
    return o * f.silu(z) if before else o


# RWKV-7. Rows that both parts need are computed in both: two sums a row.

_SLOWEST = -0.6065306597126334  # −exp(−½), the log of the strongest decay


def _shifted_tokens(x, x_r, x_w, x_k, x_v, x_a, x_g, row, wanted):
    change = x.shifted(1, row) - x
    mixed = tuple(x + change * share for share in (x_r, x_w, x_k, x_v, x_a, x_g) if share is not None)
    return (*mixed, x.last_rows(1, row)) if wanted else mixed


def _rwkv7_key(k, a, k_a):
    return k + k * (f.sigmoid(a) - 1.0) * k_a


def _rwkv7_value(v, first, share):
    return v if first is None else v + (first - v) * f.sigmoid(share)


def _rwkv7_recurrence(S, r, w, k, v, a, k_k, k_a, first, share):
    removed = k * k_k
    # As torch's normalize: divided by the norm, or by 1e-12 where that is larger.
    removed = removed * f.rsqrt(f.maximum(f.sum(removed * removed), 1e-24))
    held = S.read(removed)
    S = S.decay(_SLOWEST * f.sigmoid(w)).add(-f.sigmoid(a) * removed, held)
    S = S.add(_rwkv7_key(k, a, k_a), _rwkv7_value(v, first, share))
    return S, S.read(r)


def _rwkv7_output(o, r, k, v, a, g, k_a, r_k, weight, bias, first, share, channels, eps):
    o = o - f.sum(o) / channels
    o = o * f.rsqrt(f.sum(o * o) / channels + eps)
    if weight is not None:
        o = o * weight + bias
    o = o + f.sum(r * _rwkv7_key(k, a, k_a) * r_k) * _rwkv7_value(v, first, share)
    return o * g


def _rwkv7_block(S, r, w, k, v, a, g, k_k, k_a, r_k, weight, bias, first, share, channels, eps):
    S, o = _rwkv7_recurrence(S, r, w, k, v, a, k_k, k_a, first, share)
    return S, _rwkv7_output(o, r, k, v, a, g, k_a, r_k, weight, bias, first, share, channels, eps)


# Made here: torch.compile does not follow that in a call.
_SHORT_CONVOLUTION = Recurrence(_short_convolution, 0, False)
_GATED_NORM_SILU = Recurrence(_gated_norm_silu, 0, False)
_GATED_NORM_SIGMOID = Recurrence(_gated_norm_sigmoid, 0, False)
_GATED_DELTA = Recurrence(_gated_delta, 1, False)
_KIMI = Recurrence(_kimi, 1, False)
_GATED_DELTA_NET = Recurrence(_gated_delta_net, 1, False)
_KIMI_BLOCK = Recurrence(_kimi_block, 1, False)
_MAMBA2 = Recurrence(_mamba2_recurrence, 1, False)
_MAMBA2_CONVOLVED = Recurrence(_mamba2_convolved, 1, False)
_GROUP_NORM_GATED = Recurrence(_group_norm_gated, 0, False)
_GATED_SQUARES = Recurrence(_gated_squares, 0, False)
_GATED_SCALED = Recurrence(_gated_scaled, 0, False)
_SHIFTED_TOKENS = Recurrence(_shifted_tokens, 0, False)
_RWKV7 = Recurrence(_rwkv7_recurrence, 1, False)
_RWKV7_OUTPUT = Recurrence(_rwkv7_output, 0, False)
_RWKV7_BLOCK = Recurrence(_rwkv7_block, 1, False)


def _taps(weight, bias, sizes, names="q, k and v"):
    """For each part of a convolution's channels, of [heads, channels] each: its taps, the newest
    row's last, and its bias."""
    width = weight.shape[-1]
    total = sum(heads * channels for heads, channels in sizes)
    if not 1 <= width <= _TAPS:
        raise TensorError(f"'conv_weight' has a width of {width}; ejk takes 1 to {_TAPS}")
    if weight.shape[0] != total or len(weight.shape) not in (2, 3):
        raise TensorError(f"'conv_weight' must be [{total}, 1, W] or [{total}, W], as {names} have "
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


def _rows_before(conv_state, width, names):
    rows = conv_state if conv_state is not None else (None,) * 3
    if len(rows) != 3:
        raise TensorError(f"'conv_state' must be a tuple of the rows of {names}, but has {len(rows)} entries")
    return (None,) * 3 if width == 1 else rows


def _convolved_apart(tensors, taps, biases, rows, wanted, normalised, cu_seqlens):
    """Each tensor's convolution as a program, the first `normalised` with a norm; and their last rows."""
    found = [_SHORT_CONVOLUTION(x, *taps[_TAPS * i:_TAPS * (i + 1)], biases[i], rows[i], wanted,
                                i < normalised, cu_seqlens=cu_seqlens) for i, x in enumerate(tensors)]
    if not wanted:
        return found, []
    return [y for y, _ in found], [row for _, row in found]


def _block(parts, whole, norm, q, k, v, z, gates, constants, norm_weight, conv_weight, conv_bias, eps,
           scale, conv_state, output_conv_state, initial_state, cu_seqlens, save_states):
    """A block of a recurrence that q, k and v come to through a convolution: `parts` is the recurrence,
    of `gates` and `constants`, `norm` what comes behind, and `whole` all in one."""
    (Hk, K), (Hv, V) = q.shape[2:], v.shape[2:]
    width, taps, biases = _taps(conv_weight, conv_bias, [(Hk, K), (Hk, K), (Hv, V)])
    rows = _rows_before(conv_state, width, "q, k and v")
    wanted = width - 1 if output_conv_state else 0
    scale = float(K) ** -0.5 if scale is None else float(scale)
    weight, channels = norm_weight.reshape(1, V), float(V)
    options = dict(cu_seqlens=cu_seqlens, save_states=save_states)
    if q.shape[1] < _ROWS_OF_PARTS or not str(q.dtype).endswith("float16"):
        o, *last, state = whole(v, q, k, z, *gates, weight, scale, *constants, float(eps), channels,
                                wanted, *taps, *biases, *rows, initial_state=initial_state, **options)
    else:
        (q, k, v), last = _convolved_apart((q, k, v), taps, biases, rows, wanted, 2, cu_seqlens)
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


_MOST_CHANNELS = 512  # of a head


def _gated_norm(y, z, dt, weight, groups, eps, before, cu_seqlens):
    """A gated RMS norm of the heads of each group, in z's type."""
    B, T, H, P = y.shape
    size = H * P // groups
    if weight is None:
        return _GROUP_NORM_GATED(z, y, None, 0.0, 0.0, before, cu_seqlens=cu_seqlens)
    if size <= _MOST_CHANNELS:
        rows = [x.reshape(B, T, groups, size) for x in (z, y)]
        o = _GROUP_NORM_GATED(*rows, weight.reshape(groups, size), float(size), eps, before,
                              cu_seqlens=cu_seqlens)
        return o.reshape(B, T, H, P)
    squares = _GATED_SQUARES(stop_gradient(dt), y, z, before, cu_seqlens=cu_seqlens)
    inverse = (squares.reshape(B, T, groups, H // groups).sum(-1) / size + eps) ** -0.5
    return _GATED_SCALED(z, y, weight.reshape(H, P), inverse, before, cu_seqlens=cu_seqlens)


def mamba2_block(x, B, C, z, dt, conv_weight, A_log, dt_bias, D, norm_weight, *, conv_bias=None, eps=1e-5,
                 norm_before_gate=False, norm_groups=None, dt_limit=(0.0, float("inf")), mask=None,
                 conv_state=None, output_conv_state=False, initial_state=None, cu_seqlens=None, save_states=True):
    """The block of a Mamba-2 layer between its projections: a causal convolution and SiLU of x, B and C, the
    state-space model and a gated RMS norm.

    x, B, C = silu(conv(x)), silu(conv(B)), silu(conv(C));  dt = clip(softplus(dt + dt_bias), *dt_limit)
    S = exp(−exp(A_log)·dt)·S + B (dt·x)ᵀ;  y = Sᵀ C + D·x
    o = norm_weight · rms_norm(y · silu(z)), or with `norm_before_gate` norm_weight · rms_norm(y) · silu(z)

    x and z [B, T, H, P]; B and C [B, T, G, N] with G dividing H; dt [B, T, H]; A_log, dt_bias and D [H];
    norm_weight [H·P]. The last two may be None: no skip, no norm. A norm goes over the channels of H / `norm_groups` heads,
    where `norm_groups` is G if it is None. `conv_weight` [H·P + 2·G·N, 1, W] and `conv_bias` are a Conv1d's
    of the channels of x, B and C, with W from 1 to 4. `conv_state` has the W − 1 rows before the first of
    x, B and C, [N, W−1, H, P] and [N, W−1, G, N]; with `output_conv_state`, the last W − 1 rows are a
    third result, a tuple of the same shapes. The state is [N, H, N, P] in float32. `mask`
    [B, T] is 0 for rows of padding: x of these is 0 behind the convolution, and nothing is added to the state.

    The norm is a program of its own, or two and a sum between where it goes over more than 512 channels. From 64
    steps on, 16-bit rows on a GPU are convolved by programs of their own, too, and these and the state-space
    model's output are rounded to their type. In all else y is float32 until the norm."""
    (H, P), (G, N) = x.shape[2:], B.shape[2:]
    width, taps, biases = _taps(conv_weight, conv_bias, [(H, P), (G, N), (G, N)], "x, B and C")
    rows = _rows_before(conv_state, width, "x, B and C")
    wanted = width - 1 if output_conv_state else 0
    groups = G if norm_groups is None else norm_groups
    if norm_weight is not None and (groups < 1 or H % groups):
        raise TensorError(f"'norm_groups' must divide the {H} heads of 'x', but is {groups}")
    low, high = (float(limit) for limit in dt_limit)
    if not low <= high:
        raise ValueError(f"mamba2_block: 'dt_limit' must be (least, most), but is {dt_limit!r}")
    # softplus is never below 0, and a program has no infinite constant.
    limits = (None, None) if low <= 0 and high == float("inf") else (low, min(high, _LARGEST))
    options = dict(initial_state=initial_state, cu_seqlens=cu_seqlens, save_states=save_states)
    dt, mask = wide(dt), None if mask is None else cast(mask, dt.dtype)[:, :, None]
    if x.shape[1] < _ROWS_OF_PARTS or not str(x.dtype).endswith("float16") or on_cpu(x):
        y, *last, state = _MAMBA2_CONVOLVED(dt, x, B, C, mask, A_log, D, dt_bias, *limits, wanted, *taps, *biases,
                                            *rows, **options)
    else:
        (x, B, C), last = _convolved_apart((x, B, C), taps, biases, rows, wanted, 0, cu_seqlens)
        if mask is not None:
            x = x * cast(mask[..., None], x.dtype)
        y, state = _MAMBA2(x, dt, B, C, A_log, D, dt_bias, *limits, **options)
    o = _gated_norm(y, z, dt, norm_weight, groups, float(eps), bool(norm_before_gate), cu_seqlens)
    return (o, state, tuple(last)) if output_conv_state else (o, state)


def rwkv7_shift(x, x_r, x_w, x_k, x_v, x_a, x_g=None, *, row=None, output_row=False, cu_seqlens=None):
    """The shifted tokens of an RWKV-7 layer, before its projections: for each of r, w, k, v, a and g a mix of a
    row with the row before it.

    xᵢ = x + xᵢ_share · (x₋₁ − x)

    x [B, T, D]; each of the shares x_r to x_g [D], or of as many elements. Without `x_g` there is no sixth.
    `row` [N, D] is the row before the first of each sequence, zero without it; with `output_row`, the last row
    of each is one more result, [N, D]."""
    B, T, D = x.shape
    channels = _of_a_head(D)
    heads = D // channels
    shares = [None if share is None else share.reshape(heads, channels) for share in (x_r, x_w, x_k, x_v, x_a, x_g)]
    row = None if row is None else row.reshape(row.shape[0], 1, heads, channels)
    found = _SHIFTED_TOKENS(x.reshape(B, T, heads, channels), *shares, row, bool(output_row), cu_seqlens=cu_seqlens)
    mixed = tuple(y.reshape(B, T, D) for y in (found[:-1] if output_row else found))
    return (*mixed, found[-1].reshape(-1, D)) if output_row else mixed


def _of_a_head(channels):
    """The most channels of equal heads that a program takes."""
    return next(size for size in range(min(channels, _MOST_CHANNELS), 0, -1) if channels % size == 0)


def rwkv7_block(r, w, k, v, a, g, k_k, k_a, r_k, norm_weight, norm_bias, *, v_first=None, v_share=None, eps=None,
                initial_state=None, cu_seqlens=None, save_states=True):
    """The block of an RWKV-7 layer between its projections, as fla's layer has it: gates, the recurrence, a
    group norm, the bonus of a step's own value, and the output's gate.

    κ = normalize(k ⊙ k_k);  a = σ(a);  k = k ⊙ (1 + (a − 1) ⊙ k_a);  v = v + (v_first − v) ⊙ σ(v_share)
    S = exp(−exp(−½)·σ(w))[:, None] ⊙ S − (κ ⊙ a) (Sᵀ κ)ᵀ + k vᵀ
    o = (norm(Sᵀ r) ⊙ norm_weight + norm_bias + (Σ r ⊙ k ⊙ r_k)·v) ⊙ g

    r, w, k and a [B, T, H, K], and v and g [B, T, H, V], as their projections leave them. w, a and g have
    those of low rank. k_k and k_a [H·K]; r_k [H, K]; norm_weight and norm_bias [H·V], or both None. `v_first`
    is the first layer's v, and `v_share` the projection that mixes it in, both [B, T, H, V]; without them v is
    taken as given. The norm is of each head, with `eps` 1e-5·K where it is None. `rwkv7_shift` has the shifted
    tokens before the projections. The state is [N, H, K, V] in float32.

    One step is one program. More steps are two: the recurrence, whose output is rounded to its rows' type, and
    what comes after it."""
    (H, K), V = r.shape[2:], v.shape[3]
    if (v_first is None) != (v_share is None):
        raise TensorError("'v_first' and 'v_share' are given together or not at all")
    if (norm_weight is None) != (norm_bias is None):
        raise TensorError("'norm_weight' and 'norm_bias' are given together or not at all")
    k_k, k_a, r_k = (x.reshape(H, K) for x in (k_k, k_a, r_k))
    weight, bias = (None if x is None else x.reshape(H, V) for x in (norm_weight, norm_bias))
    eps = 1e-5 * K if eps is None else float(eps)
    options = dict(initial_state=initial_state, cu_seqlens=cu_seqlens, save_states=save_states)
    if r.shape[1] == 1:
        return _RWKV7_BLOCK(r, w, k, v, a, g, k_k, k_a, r_k, weight, bias, v_first, v_share, float(V), eps, **options)
    o, state = _RWKV7(r, w, k, v, a, k_k, k_a, v_first, v_share, **options)
    return _RWKV7_OUTPUT(o, r, k, v, a, g, k_a, r_k, weight, bias, v_first, v_share, float(V), eps,
                         cu_seqlens=cu_seqlens), state
