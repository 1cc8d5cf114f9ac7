"""Which sequences a segment begins, ends, and shares with its neighbours."""

import functools
import inspect

from .. import _arrays
from .._errors import TensorError
from .._named import checked_bound


class Segment:
    """Rows `start` to `end` of T rows, the `index`-th of `count` segments. `offsets` are the
    whole's cu_seqlens as a list, None for a batch of sequences that all have T rows."""

    def __init__(self, index, count, start, end, total, offsets):
        self.index, self.count, self.offsets = index, count, offsets
        if offsets is None:
            self.from_left, self.to_right, self.whole = index > 0, index < count - 1, True
            return
        if end <= start:
            raise TensorError(f"segment {index} has no rows; of packed sequences each must have one "
                              "at least")
        if (offsets[0] != 0 or offsets[-1] != total
                or any(b < a for a, b in zip(offsets, offsets[1:]))):
            raise TensorError(f"'cu_seqlens' must rise from 0 to the {total} rows of all segments, "
                              f"but is {offsets}")
        spans = list(zip(offsets, offsets[1:]))
        self.first = next(n for n, (a, b) in enumerate(spans) if a <= start < b)
        self.last = next(n for n, (a, b) in enumerate(spans) if a < end <= b)
        self.from_left = offsets[self.first] < start
        self.to_right = offsets[self.last + 1] > end
        # The segment lies in one sequence, so a state passes through it.
        self.whole = self.first == self.last
        final = end == total
        self.begins = [start <= a < end or final and a == total for a, _ in spans]
        self.ends = [start < b <= end if b > a else begins
                     for (a, b), begins in zip(spans, self.begins)]
        # Other segments' sequences are empty here.
        self.local = [min(max(n, start), end) - start for n in offsets]


def boundaries(lengths):
    """(first row, end) of each segment."""
    found, at = [], 0
    for length in lengths:
        found.append((at, at + length))
        at += length
    return found


def exchanged_bytes(heads, key_channels, value_channels, batch=1, delta=False, gv=False):
    """The bytes that each segment sends in a forward pass, and as many in a backward pass. `batch`
    is 1 for packed sequences. They do not depend on the length."""
    transition = key_channels * key_channels if delta else key_channels + gv * value_channels
    return 4 * batch * heads * (key_channels * value_channels + transition)


def split(function, *tensors, parts, **named):
    """`function` of `ejk.ops` on torch tensors, in `parts` segments on one device.

    The states between segments are found first, then each segment's rows. The result and its
    gradients are those of `function`. Segments may be given by their lengths: parts=[100, 28]. The
    lengths add up to the rows; one of 0 is no segment. `function` may be a functools.partial. There is no
    second derivative, and no transformation of torch.func, such as grad and vmap."""
    from .. import ops
    from . import torch
    if isinstance(function, functools.partial):
        tensors, named = (*function.args, *tensors), {**function.keywords, **named}
        function = function.func
    name = getattr(function, "__name__", None)
    if name not in torch.FUNCTIONS or function is not getattr(ops, name):
        raise TensorError("ejk.split takes a function of ejk.ops among " + ", ".join(torch.FUNCTIONS))
    for tensor in (*tensors, *named.values()):
        door = _arrays.door_of(tensor)
        if door and door.__name__ != "ejk._torch" and tensor is not named.get("cu_seqlens"):
            raise TensorError(f"ejk.split takes tensors of torch, but got a {type(tensor).__module__}."
                              f"{type(tensor).__qualname__}; ejk.parallel.jax divides JAX's arrays in a shard_map")
    segmented = getattr(torch, name)
    return segmented(*tensors, **_own(function, segmented, named), group=torch.Local(parts))


def _own(function, segmented, named):
    """The keywords of a call of `function` that the same over segments takes. Others are left out where they ask for
    nothing."""
    whole, own = (inspect.signature(f).parameters for f in (function, segmented))
    takes = [n for n in own if n != "group"]
    for name, value in named.items():
        if name in takes:
            continue
        if name not in whole or value is not whole[name].default:
            raise TensorError(f"ejk.split takes no '{name}' with '{function.__name__}'; it takes {', '.join(takes)} "
                              "and parts")
    return {n: x for n, x in named.items() if n in takes}


def bound_by_name(lower_bound):
    """The constant of a KDA whose gates are clipped to [lower_bound, 0], by its name; none without."""
    bound = checked_bound(lower_bound)
    return {} if bound is None else {"lower_bound": bound}
