"""NumPy's door: arrays in host memory."""

import numpy as np

from ._errors import TensorError
from ._library import Buffer
from ._pools import placed
from ._program import by_key

_DTYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64",
           "int32": "i32", "int64": "i64"}
_OWN = {"f32": np.float32, "f16": np.float16, "f64": np.float64, "i32": np.int32, "i64": np.int64}


def _own_dtype(dtype):
    if dtype == "bf16":
        import ml_dtypes
        return ml_dtypes.bfloat16
    return _OWN[dtype]


_known = {}  # by NumPy's dtype, whose name takes longer to find than the rest of a call


def describe(array):
    dtype = _known.get(array.dtype)
    if not dtype:
        dtype = _DTYPES.get(array.dtype.name)
        if not dtype:
            raise TensorError(f"element type {array.dtype} is none of {', '.join(_DTYPES)}")
        _known[array.dtype] = dtype
    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray) and (
            np.ma.is_masked(array)):
        raise TensorError("a masked array has masked elements; fill them (array.filled(0))")
    return dtype, array.shape


def plain(array):
    """The array as NumPy's own kind, in the machine's byte order, without negative strides; it
    shares memory where it can."""
    describe(array)
    array = np.asarray(array, _native(array.dtype))
    return array.copy() if any(s < 0 for s in array.strides) else array


def _native(dtype):
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def allocate_host(size):
    array = np.empty(size + 256, np.uint8)
    address = -(-array.ctypes.data // 256) * 256
    return Buffer(address, "i32", (size,), array)


def _address(array):
    return array.__array_interface__["data"][0]


def _aligned_empty(shape, dtype, align):
    """An array at an address that `align` divides."""
    array = np.empty(shape, dtype)
    if _address(array) % align == 0:
        return array
    memory = np.empty(array.nbytes + align, np.uint8)
    start = -_address(memory) % align
    return memory[start:start + array.nbytes].view(dtype).reshape(shape)


def _aligned(array, align):
    array = np.asarray(array)
    copy = _aligned_empty(array.shape, _native(array.dtype), align)
    copy[...] = array
    return copy


def _buffer(array, dtype):
    return Buffer(_address(array), dtype, array.shape, array)


def _compact_bytes(array, first):
    """The bytes of what the dimensions from `first` on count; None where these are not compact."""
    compact = array.itemsize
    for size, stride in zip(reversed(array.shape[first:]), reversed(array.strides[first:])):
        if size != 1 and stride != compact:
            return None
        compact *= size
    return compact


def _is_in_place(array, align):
    """Whether an array can be a pool where it lies: its slots are dense, and may be apart."""
    if type(array) is not np.ndarray or not array.dtype.isnative or _address(array) % align:
        return False
    slot = _compact_bytes(array, 1)
    return slot is not None and (
        len(array) <= 1 or array.strides[0] >= slot and array.strides[0] % array.itemsize == 0)


def _pool_buffer(array, tensor, is_written):
    """A pool where it lies; a copy where it is only read and cannot be used there."""
    kind, shape = describe(array)
    if not _is_in_place(array, tensor["align"]):
        if not is_written:
            return _buffer(_aligned(array, tensor["align"]), kind)
        raise TensorError(f"'{tensor['name']}' is written where it lies: it must be a NumPy array of "
                          f"dense slots at an address that {tensor['align']} divides, but has strides of "
                          f"{list(getattr(array, 'strides', ()))} bytes")
    if is_written and not array.flags.writeable:
        raise TensorError(f"'{tensor['name']}' is written where it lies, and is read-only")
    return Buffer(_address(array), kind, shape, array,
                  strides=_strides(array) if len(array) > 1 else None)


def _strides(array):
    return [stride // array.itemsize for stride in array.strides]


def _has_rows(array, align):
    """Whether the rows of an array, which are compact, are equally far apart, so that a kernel takes the
    distance. A row is what the dimensions after the first two count."""
    if array.ndim < 3 or not array.size:
        return False
    row = _compact_bytes(array, 2)
    if row is None:
        return False
    sequences, steps = array.shape[:2]
    stride = array.strides[1] if steps != 1 else array.strides[0] if sequences != 1 else row
    read = array.itemsize * (array.shape[-1] if array.ndim > 3 else 1)
    return (row <= stride < array.itemsize << 31 and stride % min(align, read & -read) == 0
            and (sequences == 1 or array.strides[0] == steps * stride))


def _input_buffer(array, kind, tensor):
    """An array where it lies, or a copy that a kernel can read."""
    align = tensor["align"]
    if type(array) is np.ndarray and array.dtype.isnative and _address(array) % align == 0:
        if array.flags.c_contiguous:
            return _buffer(array, kind)
        if "row_stride" in tensor and _has_rows(array, align):
            return Buffer(_address(array), kind, array.shape, array, strides=_strides(array))
    return _buffer(_aligned(array, align), kind)


def run(entry, arrays, pools=()):
    """The entry's results, as arrays of their own. `pools`, those of its inputs that it writes, stay
    where they are; results in their place are left out."""
    given = placed(entry, arrays, pools) if pools else arrays
    kinds = [describe(a)[0] for a in given]
    written, inputs = set(entry.replaced.values()), []
    for number, (array, kind, tensor) in enumerate(zip(given, kinds, entry.inputs)):
        if "slots" in tensor:
            inputs.append(_pool_buffer(array, tensor, number in written))
            continue
        inputs.append(_input_buffer(array, kind, tensor))
    exact, results, outputs = "f64" in kinds, [], []
    shapes = entry.output_shapes(tuple([a.shape for a in given]))
    for number, (tensor, shape) in enumerate(zip(entry.outputs, shapes)):
        if number in entry.replaced:
            outputs.append(inputs[entry.replaced[number]])
            continue
        dtype = "f64" if exact and not tensor["dtype"].startswith("i") else tensor["dtype"]
        results.append(_aligned_empty(shape, _own_dtype(dtype), tensor["align"]))
        outputs.append(_buffer(results[-1], dtype))
    entry.run(inputs, outputs, allocate=allocate_host)
    return results


def call(key, arrays, save_states=True):
    # There are no derivatives of NumPy arrays to save states for.
    return run(by_key(key).entry(), arrays)


def call_in_pools(key, arrays, pools, writes):
    """The results, and then the pools, which are the same arrays."""
    entry = by_key(key).entry()
    results = run(entry, arrays, pools) if writes else run(entry, [*arrays, *pools])
    return [*results, *pools]


def copy(array):
    """A copy that a call may change."""
    return _aligned(array, 16)


to_numpy = plain

#: What arithmetic of indices takes.
namespace, take_along, concatenate = np, np.take_along_axis, np.concatenate


def zeros_like(array, shape):
    return np.zeros(shape, array.dtype)


#: Of what later calls change.
kept_zeros = zeros_like

