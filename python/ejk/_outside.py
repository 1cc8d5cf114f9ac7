"""What a named recurrence computes outside of its step, on the arrays of any library."""

import math
import sys

from . import _arrays
from ._errors import TensorError


def operands(*given):
    """The tensors of (name, tensor, shape as a page spells it), as arrays of one library; what is wrong
    with one is an error with its name. A shape that ends in "?" is of one that may be None, and
    "[...]" is any."""
    there = [x is not None or not spelt.endswith("?") for _, x, spelt in given]
    names, tensors = ([part[i] for part, here in zip(given, there) if here] for i in (0, 1))
    arrays, described = _arrays.read(_arrays.common_door(zip(names, tensors)), names, tensors)
    arrays, described, found = iter(arrays), iter(described), []
    for (name, _, spelt), here in zip(given, there):
        found.append(next(arrays) if here else None)
        if here:
            (dtype, shape), spelt = next(described), spelt.rstrip("?")
            if spelt != "[...]" and len(shape) != spelt.count(",") + 1:
                raise TensorError(f"'{name}' must be {spelt}, but has shape {list(shape)}")
            if dtype[0] == "i":
                raise TensorError(f"'{name}' must be float32, float16 or bfloat16, but is {dtype}")
    return found


def of_shape(name, x, shape):
    """x with another shape of as many elements; None stays None."""
    if x is None:
        return None
    if math.prod(x.shape) != math.prod(shape):
        raise TensorError(f"'{name}' must be {list(shape)}, or of as many elements, but has shape {list(x.shape)}")
    return x.reshape(shape)


def _library(x):
    """The library that `x` is of, by NumPy's names where libraries agree on them."""
    name = _arrays.door_of(x).__name__
    if name == "ejk._torch":
        return sys.modules["torch"]
    if name == "ejk._jax":
        return sys.modules["jax"].numpy
    return sys.modules["numpy"]


def _is_torch(x):
    return _arrays.door_of(x).__name__ == "ejk._torch"


def on_cpu(x):
    """Whether a CPU computes what is called with `x`, as far as is known where a function is traced."""
    if _is_torch(x):
        return x.device.type == "cpu"
    if _arrays.door_of(x).__name__ == "ejk._jax":
        return sys.modules["jax"].default_backend() == "cpu"
    return True


def cast(x, dtype):
    return x.to(dtype) if _is_torch(x) else x.astype(dtype)


def wide(x):
    """`x` in float32, or in float64 where it is."""
    if str(x.dtype).endswith("float64"):
        return x
    return x.float() if _is_torch(x) else x.astype("float32")


def transposed(x):
    """`x` with its axes in the other order, in memory too."""
    if _is_torch(x):
        return x.mT.contiguous()
    return x.T if _arrays.door_of(x).__name__ == "ejk._jax" else _library(x).ascontiguousarray(x.T)


def ones_like(x, shape):
    """Ones of `x`'s type, on its device."""
    on = {"device": x.device} if _is_torch(x) else {}
    return _library(x).ones(shape, dtype=x.dtype, **on)


def zeros_like(x):
    return _library(x).zeros_like(x)


def stack(arrays, axis):
    """Arrays of one shape along a new axis."""
    return _library(arrays[0]).stack(list(arrays), axis)


def unstack(x, axis):
    """The arrays along an axis, which is dropped."""
    if _is_torch(x):
        return x.unbind(axis)
    before = (slice(None),) * axis
    return tuple(x[(*before, i)] for i in range(x.shape[axis]))


def may_be_differentiated(*arrays):
    """Whether a derivative by one of the arrays may be asked for, as far as is known. Some may be None."""
    arrays = [x for x in arrays if x is not None]
    if _is_torch(arrays[0]):
        return sys.modules["torch"].is_grad_enabled() and any(x.requires_grad for x in arrays)
    return _arrays.door_of(arrays[0]).__name__ == "ejk._jax"


def stop_gradient(x):
    """`x` as a constant to derivatives."""
    if _is_torch(x):
        return x.detach()
    if _arrays.door_of(x).__name__ == "ejk._jax":
        return sys.modules["jax"].lax.stop_gradient(x)
    return x


def times_one(x, exponent):
    """`x`, whose derivative by `exponent` is `x`: x · exp(exponent), where exponent is worth 0. x has more
    dimensions, behind those of `exponent`."""
    takes_gradients = exponent.requires_grad if _is_torch(exponent) else (
        _arrays.door_of(exponent).__name__ == "ejk._jax")
    if not takes_gradients:
        return x
    one = _library(exponent).exp(exponent - stop_gradient(exponent))
    return x * one.reshape(*one.shape, *[1] * (len(x.shape) - len(one.shape)))


def softmax(x):
    """Over the last axis."""
    if _is_torch(x):
        return x.softmax(-1)
    if _arrays.door_of(x).__name__ == "ejk._jax":
        return sys.modules["jax"].nn.softmax(x, -1)
    weights = _library(x).exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def next_row(x, cu_seqlens=None, reverse=False):
    """x [B, T, H] of the row that comes next in each sequence, 0 where none does. With `reverse`, rows
    come from the last to the first."""
    library, by = _library(x), 1 if reverse else -1
    on = {"device": x.device} if _is_torch(x) else {}
    rows = library.arange(x.shape[1], **on)
    has_next = rows != (0 if reverse else x.shape[1] - 1)
    if cu_seqlens is not None:
        owner = library.searchsorted(cu_seqlens, cast(rows, cu_seqlens.dtype), side="right")
        has_next = has_next & (owner == library.roll(owner, by, 0))
    return library.where(has_next[None, :, None], library.roll(x, by, 1), 0.0)


def first_row(x, cu_seqlens=None, reverse=False):
    """x [B, T, H] at the first row of each sequence, [N, H]: in the order of steps, and 0 for an empty
    sequence, as all are where T is 0."""
    count = x.shape[1]
    if not count:
        sequences = x.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1
        return zeros_like(ones_like(x, (sequences, x.shape[2])))
    if cu_seqlens is None:
        return x[:, -1 if reverse else 0]
    starts, ends = cu_seqlens[:-1], cu_seqlens[1:]
    rows = ends - 1 if reverse else starts
    return _library(x).where((starts < ends)[:, None], x[0][rows % count], 0.0)
