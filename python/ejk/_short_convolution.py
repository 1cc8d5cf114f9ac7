"""The short convolution before a recurrence, and how a block's rows are computed in parts."""

from . import _functions as f
from ._errors import TensorError
from ._outside import of_shape, ones_like, transposed
from ._recurrence import Recurrence

TAPS = 4  # of a convolution, at most
MOST_CHANNELS = 512  # of a head

# Rows from which a block of 16-bit rows is a program for what comes before its recurrence, one for that,
# and one for what comes behind. These are computed for all rows at once, and leave a chunk's thread
# block the matmuls; docs/experiments.md has the times. With fewer rows, one program has
# one launch.
ROWS_OF_PARTS = 64


def convolved(x, weights, bias, rows):
    """A causal convolution over the steps, whose last weight is of the step's own row, and SiLU."""
    weights = [w for w in weights if w is not None]
    total = weights[-1] * x
    for steps, w in enumerate(reversed(weights[:-1]), 1):
        total = total + w * x.shifted(steps, rows)
    return f.silu(total if bias is None else total + bias)


def normalised(x):
    return x * f.rsqrt(f.sum(x * x) + 1e-6)


def rms_norm(o, channels, eps, weight):
    return weight * (o * f.rsqrt(f.sum(o * o) / channels + eps))


def _short_convolution(x, w0, w1, w2, w3, bias, rows, count, normalise):
    y = convolved(x, (w0, w1, w2, w3), bias, rows)
    y = normalised(y) if normalise else y
    return (y, x.last_rows(count, rows)) if count else y


# Made here: torch.compile does not follow that in a call.
_SHORT_CONVOLUTION = Recurrence(_short_convolution, 0, False)


def in_16_bits(x):
    return str(x.dtype).endswith("float16")


def taps_of(weight, bias, sizes, names="q, k and v"):
    """For each part of a convolution's channels, of [heads, channels] each: its taps, the newest
    row's last, and its bias."""
    width = weight.shape[-1] if len(weight.shape) else 0
    total = sum(heads * channels for heads, channels in sizes)
    if not 1 <= width <= TAPS:
        raise TensorError(f"'conv_weight' has a width of {width}; ejk takes 1 to {TAPS}")
    if weight.shape[0] != total or len(weight.shape) not in (2, 3):
        raise TensorError(f"'conv_weight' must be [{total}, 1, W] or [{total}, W], as {names} have "
                          f"{total} channels, but is {list(weight.shape)}")
    # One copy, of which each tap is a dense part.
    weight, bias = transposed(weight.reshape(total, width)), of_shape("conv_bias", bias, (total,))
    taps, biases, first = [], [], 0
    for heads, channels in sizes:
        end = first + heads * channels
        taps += [None] * (TAPS - width)
        taps += [weight[i, first:end].reshape(heads, channels) for i in range(width)]
        biases.append(None if bias is None else bias[first:end].reshape(heads, channels))
        first = end
    return width, taps, biases


def operands_before(conv_state, names, weight):
    """The rows before the first of three tensors, each None where nothing is given, as `operands` takes them.
    Before a convolution of one row, no tensors are as good as three of 0 rows."""
    one_row = tuple(getattr(weight, "shape", ()))[-1:] == (1,)
    rows = (None,) * 3 if conv_state is None or one_row and len(conv_state) == 0 else conv_state
    if len(rows) != 3:
        raise TensorError(f"'conv_state' must be a tuple of the rows of {names}, but has {len(rows)} entries")
    return [("conv_state", row, "[N, W-1, heads, channels]?") for row in rows]


def rows_before(rows, width, tensors, cu_seqlens):
    """The rows before the first of `tensors`, three by name, as a convolution takes them."""
    for (name, x), row in zip(tensors.items(), rows):
        wanted = _shape_before(x, width - 1, cu_seqlens)
        if row is not None and (row.dtype != x.dtype or list(row.shape) != wanted):
            raise TensorError(f"'conv_state' must have the rows of '{name}' as {x.dtype} {wanted}, but has {row.dtype} "
                              f"{list(row.shape)}")
    return tuple(rows) if width > 1 else (None,) * 3


def rows_after(last, tensors, cu_seqlens):
    """The last rows of three tensors, a tuple: `last`, which is empty where a convolution reads no earlier rows."""
    return tuple(last) or tuple(ones_like(x, _shape_before(x, 0, cu_seqlens)) for x in tensors)


def _shape_before(x, count, cu_seqlens):
    return [x.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1, count, *x.shape[2:]]


def convolved_apart(tensors, taps, biases, rows, wanted, normalised, cu_seqlens):
    """Each tensor's convolution as a program, the first `normalised` with a norm; and their last rows."""
    found = [_SHORT_CONVOLUTION(x, *taps[TAPS * i:TAPS * (i + 1)], biases[i], rows[i], wanted,
                                i < normalised, cu_seqlens=cu_seqlens) for i, x in enumerate(tensors)]
    if not wanted:
        return found, []
    return [y for y, _ in found], [row for _, row in found]
