"""The CUDA driver that EJK_CUDA_DRIVER names, as far as tests of kernels need it."""
import ctypes
import os
import sys

import numpy as np


class DriverError(Exception):
    pass


class Driver:
    def __init__(self):
        self.cuda = ctypes.CDLL(os.environ["EJK_CUDA_DRIVER"])
        self.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxPushCurrent_v2", context)

    def call(self, name, *args):
        result = getattr(self.cuda, name)(*args)
        if result:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorString(result, ctypes.byref(text))
            raise DriverError(text.value.decode())

    def upload(self, array):
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(array.nbytes))
        self.call("cuMemcpyHtoD_v2", pointer, array.ctypes.data_as(ctypes.c_void_p),
                  ctypes.c_size_t(array.nbytes))
        return pointer

    def download(self, pointer, like):
        result = np.empty_like(like)
        self.call("cuMemcpyDtoH_v2", result.ctypes.data_as(ctypes.c_void_p), pointer,
                  ctypes.c_size_t(result.nbytes))
        self.call("cuMemFree_v2", pointer)
        return result

    def launch(self, ptx, name, threads, parameters, blocks=1, shared_bytes=0):
        """`parameters` are ctypes values."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadDataEx", ctypes.byref(module), ptx.encode(), 0, None, None)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        pointers = (ctypes.c_void_p * len(parameters))(
            *(ctypes.addressof(p) for p in parameters))
        self.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, shared_bytes, None,
                  pointers, None)
        self.call("cuModuleUnload", module)


def run(driver, ptx, name, threads, inputs, output, **options):
    """Launches a kernel whose parameters are `inputs`, arrays or ctypes values, and an
    array like `output`, and returns that."""
    arrays = [driver.upload(i) if isinstance(i, np.ndarray) else i for i in inputs]
    result = driver.upload(output)
    driver.launch(ptx, name, threads, [*arrays, result], **options)
    return driver.download(result, output)


class TensorMap(ctypes.Structure):
    """128 opaque bytes, which lie at a multiple of 64."""
    _fields_ = [("bytes", ctypes.c_uint8 * 128)]


def tensor_map(driver, pointer, sizes, strides, box, swizzle=3, kind=9, fill=0):
    """Of 16-bit floating-point numbers, with a swizzle of 128 bytes; the first dimension is
    contiguous, and `strides` are of the others."""
    room = ctypes.create_string_buffer(192)
    result = TensorMap.from_buffer(room, -ctypes.addressof(room) % 64)
    rank = len(sizes)
    driver.call("cuTensorMapEncodeTiled", ctypes.byref(result), kind, rank, pointer,
                (ctypes.c_uint64 * rank)(*sizes), (ctypes.c_uint64 * rank)(*strides),
                (ctypes.c_uint32 * rank)(*box), (ctypes.c_uint32 * rank)(*[1] * rank), 0, swizzle,
                0, fill)
    return result


def count_mistakes(cases):
    """Runs kernels with a mistake each, (what, function): how many the driver took."""
    missed = 0
    for mistake, attempt in cases:
        try:
            attempt()
            missed += 1
            print(f"{mistake}: MISSED")
        except DriverError as error:
            print(f"{mistake}: {error}")
    print(f"{len(cases) - missed} mistakes found, {missed} missed")
    return missed


def main(kernels, checks):
    """`ptx FOLDER` writes each of `kernels`, (name, text); else one of `checks`, by name."""
    if sys.argv[1] != "ptx":
        sys.exit(1 if checks[sys.argv[1]](Driver()) else 0)
    os.makedirs(sys.argv[2], exist_ok=True)
    for name, text in kernels:
        with open(os.path.join(sys.argv[2], name + ".ptx"), "w") as file:
            file.write(text)
