"""NumPy's calls in pools on the GPU that EJK_CUDA_DRIVER emulates (test/lowering/emulator), whose memory is
the host's. Each tensor has memory of its own, so that the emulator notices an access outside of it."""

import contextlib
import ctypes
import os
from unittest import mock

import numpy as np

from ejk import _numpy, _pools, _program
from ejk._library import Buffer, runtime

_DEVICE = (2, 0)  # DLPack's kDLCUDA


class Device:
    """`calls` counts calls in pools, all of which the device computes."""

    def __init__(self):
        self._capability = int(os.environ.get("EJK_EMULATOR_CAPABILITY", 90))
        self._placed, self.calls = set(), 0

    def place(self, array):
        """A copy of `array` in memory of the device, which calls take where it lies."""
        copy = self._array(array.shape, array.dtype, [])
        copy[...] = array
        self._placed.add(copy.ctypes.data)
        return copy

    def _allocate(self, size, owned):
        address = ctypes.c_void_p()
        runtime().call("ejk_device_alloc", 0, ctypes.c_size_t(size), ctypes.byref(address))
        owned.append(address)
        return address.value

    def _array(self, shape, dtype, owned):
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        memory = (ctypes.c_uint8 * size).from_address(self._allocate(size, owned))
        return np.frombuffer(memory, np.uint8).view(dtype).reshape(shape)

    def call_in_pools(self, key, arrays, pools, writes):
        """The results, and then the pools."""
        entry = _program.by_key(key).entry(0, (), (*_DEVICE, self._capability))
        given = _pools.placed(entry, arrays, pools) if writes else [*arrays, *pools]
        owned, inputs, outputs, results, copied = [], [], [], [], []
        try:
            for array in given:
                own = array
                if array.ctypes.data not in self._placed:
                    own = self._array(array.shape, array.dtype, owned)
                    own[...] = array
                    copied.append((array, own))
                inputs.append(self._buffer(own))
            shapes = entry.output_shapes(tuple([a.shape for a in given]))
            for number, (tensor, shape) in enumerate(zip(entry.outputs, shapes)):
                if number in entry.replaced:
                    outputs.append(inputs[entry.replaced[number]])
                    continue
                results.append(self._array(shape, _numpy._own_dtype(tensor["dtype"]), owned))
                results[-1].view(np.uint8)[...] = 0xFF  # rows that are not written are no numbers
                outputs.append(self._buffer(results[-1]))
            entry.run(inputs, outputs, allocate=lambda size: Buffer(
                self._allocate(size, owned), "i32", (size,), device=_DEVICE))
            self.calls += 1
            for array, own in copied:
                if any(array is pool for pool in pools):
                    array[...] = own
            return [*[r.copy() for r in results], *pools]
        finally:
            for address in owned:
                runtime().call("ejk_device_free", 0, address)

    @staticmethod
    def _buffer(array):
        kind, shape = _numpy.describe(array)
        dense = array.flags.c_contiguous
        return Buffer(array.ctypes.data, kind, shape, array, device=_DEVICE,
                      strides=None if dense else [s // array.itemsize for s in array.strides])


@contextlib.contextmanager
def emulated():
    """Within it, calls in pools of NumPy's arrays run on the device that is given."""
    if "EJK_CUDA_DRIVER" not in os.environ:
        raise RuntimeError("EJK_CUDA_DRIVER must name libejk-emulated-cuda.so")
    device = Device()
    with mock.patch.object(_numpy, "call_in_pools", device.call_in_pools):
        yield device
