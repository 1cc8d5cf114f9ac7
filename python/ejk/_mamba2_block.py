"""The block of a Mamba-2 layer between its projections. Its gated norm goes over the heads of a group, so it is
a function of rows of its own."""

from . import _functions as f
from ._errors import TensorError
from ._named import rate_of
from ._outside import cast, of_shape, on_cpu, operands, stop_gradient, wide
from ._recurrence import Recurrence
from ._short_convolution import (MOST_CHANNELS, ROWS_OF_PARTS, convolved, convolved_apart, in_16_bits, operands_before,
                                 rms_norm, rows_after, rows_before, taps_of)

_LARGEST = 3.4e38  # of f32, about


def _mamba2(S, dt, x, B, C, A_log, D, dt_bias, limits):
    dt = f.softplus(dt if dt_bias is None else dt + dt_bias)
    if limits is not None:
        dt = f.clip(dt, *limits)
    S = S.decay(-rate_of(A_log) * dt).add(B, dt * x)
    y = S.read(C)
    return S, y if D is None else y + D * x


def _mamba2_convolved(S, dt, x, B, C, mask, A_log, D, dt_bias, low, high, rows,
                      wx0, wx1, wx2, wx3, wB0, wB1, wB2, wB3, wC0, wC1, wC2, wC3,
                      bias_x, bias_B, bias_C, x_rows, B_rows, C_rows):
    # dt is first: outputs have its type, f32.
    cx = convolved(x, (wx0, wx1, wx2, wx3), bias_x, x_rows)
    cB = convolved(B, (wB0, wB1, wB2, wB3), bias_B, B_rows)
    cC = convolved(C, (wC0, wC1, wC2, wC3), bias_C, C_rows)
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
        o = rms_norm(o, channels, eps, weight)
    return o * f.silu(z) if before else o


def _gated_squares(dt, y, z, before):
    # dt is first: the sums have its type, f32.
    o = _gate_before(y, z, before)
    return f.sum(o * o)


def _gated_scaled(z, y, weight, inverse, before):
    o = _gate_before(y, z, before) * inverse * weight
    return o * f.silu(z) if before else o


# Made here: torch.compile does not follow that in a call.
_MAMBA2 = Recurrence(_mamba2_recurrence, 1, False)
_MAMBA2_CONVOLVED = Recurrence(_mamba2_convolved, 1, False)
_GROUP_NORM_GATED = Recurrence(_group_norm_gated, 0, False)
_GATED_SQUARES = Recurrence(_gated_squares, 0, False)
_GATED_SCALED = Recurrence(_gated_scaled, 0, False)


def _gated_norm(y, z, dt, weight, groups, eps, before, cu_seqlens):
    """A gated RMS norm of the heads of each group, in z's type."""
    B, T, H, P = y.shape
    size = H * P // groups
    if weight is None:
        return _GROUP_NORM_GATED(z, y, None, 0.0, 0.0, before, cu_seqlens=cu_seqlens)
    if size <= MOST_CHANNELS:
        rows = [x.reshape(B, T, groups, size) for x in (z, y)]
        o = _GROUP_NORM_GATED(*rows, of_shape("norm_weight", weight, (groups, size)), float(size), eps, before,
                              cu_seqlens=cu_seqlens)
        return o.reshape(B, T, H, P)
    squares = _GATED_SQUARES(stop_gradient(dt), y, z, before, cu_seqlens=cu_seqlens)
    inverse = (squares.reshape(B, T, groups, H // groups).sum(-1) / size + eps) ** -0.5
    return _GATED_SCALED(z, y, of_shape("norm_weight", weight, (H, P)), inverse, before, cu_seqlens=cu_seqlens)


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
    x, B, C, z, dt, conv_weight, A_log, dt_bias, D, norm_weight, conv_bias, *rows = operands(
        ("x", x, "[B, T, H, P]"), ("B", B, "[B, T, G, N]"), ("C", C, "[B, T, G, N]"), ("z", z, "[B, T, H, P]"),
        ("dt", dt, "[B, T, H]"), ("conv_weight", conv_weight, "[...]"), ("A_log", A_log, "[H]"),
        ("dt_bias", dt_bias, "[H]?"), ("D", D, "[H]?"), ("norm_weight", norm_weight, "[...]?"),
        ("conv_bias", conv_bias, "[...]?"), *operands_before(conv_state, "x, B and C", conv_weight))
    if tuple(z.shape) != tuple(x.shape):
        raise TensorError(f"'z' must have the shape of 'x', {list(x.shape)}, but has {list(z.shape)}")
    (H, P), (G, N) = x.shape[2:], B.shape[2:]
    width, taps, biases = taps_of(conv_weight, conv_bias, [(H, P), (G, N), (G, N)], "x, B and C")
    rows = rows_before(rows, width, {"x": x, "B": B, "C": C}, cu_seqlens)
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
    if x.shape[1] < ROWS_OF_PARTS or not in_16_bits(x) or on_cpu(x):
        y, *last, state = _MAMBA2_CONVOLVED(dt, x, B, C, mask, A_log, D, dt_bias, *limits, wanted, *taps, *biases,
                                            *rows, **options)
    else:
        (x, B, C), last = convolved_apart((x, B, C), taps, biases, rows, wanted, 0, cu_seqlens)
        if mask is not None:
            x = x * cast(mask[..., None], x.dtype)
        y, state = _MAMBA2(x, dt, B, C, A_log, D, dt_bias, *limits, **options)
    o = _gated_norm(y, z, dt, norm_weight, groups, float(eps), bool(norm_before_gate), cu_seqlens)
    return (o, state, rows_after(last, (x, B, C), cu_seqlens)) if output_conv_state else (o, state)
