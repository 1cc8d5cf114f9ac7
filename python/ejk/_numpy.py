"""NumPy's door: arrays in host memory."""

import numpy as np

from ._errors import TensorError
from ._library import Buffer
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


def run(entry, arrays):
    """The entry's results, as arrays of their own."""
    kinds = [describe(a)[0] for a in arrays]
    arrays = [a if (type(a) is np.ndarray and a.flags.c_contiguous and a.dtype.isnative
                    and _address(a) % align == 0)
              else _aligned(a, align) for a, align in zip(arrays, entry.alignments)]
    exact = "f64" in kinds
    inputs = [_buffer(a, k) for a, k in zip(arrays, kinds)]
    results = []
    for tensor, shape in zip(entry.outputs, entry.output_shapes(tuple(a.shape for a in arrays))):
        dtype = "f64" if exact and not tensor["dtype"].startswith("i") else tensor["dtype"]
        results.append(_aligned_empty(shape, _own_dtype(dtype), tensor["align"]))
    outputs = [_buffer(r, describe(r)[0]) for r in results]
    entry.run(inputs, outputs, allocate=allocate_host)
    return results


def call(key, arrays, save_states=True):
    # There are no derivatives of NumPy arrays to save states for.
    return run(by_key(key).entry(), arrays)


to_numpy = plain
