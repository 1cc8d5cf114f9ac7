"""The compiler and the runtime, through ctypes. Both are opened when they are first used."""

import ctypes
import functools
import hashlib
import itertools
import math
import os
import pathlib
import re
import struct
import threading
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p

from ._errors import CompileError, Diagnostic, EjkError, RuntimeFailure, TensorError

_DTYPES = {"f32": (2, 32), "f16": (2, 16), "bf16": (4, 16), "f64": (2, 64), "i32": (0, 32),
           "i64": (0, 64)}
_DTYPE_NAMES = {code: name for name, code in _DTYPES.items()}


def dtype_code(name):
    """DLPack's code and bits of an element type."""
    return _DTYPES[name]


def dtype_name(code, bits):
    return _DTYPE_NAMES[code, bits]


BYTES = {name: bits // 8 for name, (_, bits) in _DTYPES.items()}


def library_path(name):
    """Where a shared library of ejk's lies: $EJK_LIBRARY_DIR, the package, or a clone's build."""
    here = pathlib.Path(__file__).resolve().parent
    folders = [here / "lib", here.parent.parent / "build" / "lib"]
    if os.environ.get("EJK_LIBRARY_DIR"):
        folders.insert(0, pathlib.Path(os.environ["EJK_LIBRARY_DIR"]))
    for folder in folders:
        if (folder / name).exists():
            return str(folder / name)
    raise EjkError(f"{name} is in none of: " + ", ".join(map(str, folders))
                   + "; install the ejk wheel, or build the project and set EJK_LIBRARY_DIR")


def open_library(name):
    """A shared library of ejk's. Where one is found but does not load, the error names it, what the
    loader says, and the remedy."""
    path = library_path(name)
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise EjkError(
            f"{name} does not load: {error}. It was taken from {path}; expected one whose own "
            f"libraries are found, in the versions that it was built with: `ldd -r {path}` lists "
            "what is missing. Install the ejk wheel, or build the project on this machine; set "
            "EJK_LIBRARY_DIR where another folder's is meant") from error


def content_of(path):
    """A hash of a library's content: the ID that its linker gave it, else one of all its bytes."""
    with open(path, "rb") as file:
        head = file.read(64)
        if head[:6] == b"\x7fELF\x02\x01":  # of 64 bits, little-endian
            start, = struct.unpack_from("<Q", head, 32)
            size, count = struct.unpack_from("<HH", head, 54)
            file.seek(start)
            headers = file.read(size * count)
            for at in range(0, len(headers) - 55, size or 56):
                kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", headers, at)
                if kind == 4:  # notes
                    file.seek(offset)
                    found = re.search(rb"\x04\0\0\0(.)\0\0\0\x03\0\0\0GNU\0", file.read(length), re.S)
                    if found:
                        file.seek(offset + found.end())
                        return file.read(found[1][0]).hex()
        file.seek(0)
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


class DLTensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32),
                ("ndim", c_int32), ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("byte_offset", c_uint64)]


class _Diagnostic(ctypes.Structure):
    pass


_Diagnostic._fields_ = [("severity", c_int32), ("line", c_int32), ("column", c_int32),
                        ("reserved", c_int32), ("file", c_char_p), ("text", c_char_p),
                        ("notes", POINTER(_Diagnostic)), ("num_notes", c_size_t)]


class _HostTensor(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16),
                ("rank", c_int32), ("shape", POINTER(c_int64)), ("data", c_void_p)]


class _Result(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("status", c_int32), ("data", c_void_p),
                ("size", c_size_t), ("tensors", POINTER(_HostTensor)), ("num_tensors", c_size_t),
                ("diagnostics", POINTER(_Diagnostic)), ("num_diagnostics", c_size_t)]


class _Source(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("data", c_char_p), ("size", c_size_t),
                ("name", c_char_p)]


class _Options(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("target", c_char_p), ("emit", c_int32),
                ("no_binary", c_int32), ("derivatives", c_int32), ("cancel", POINTER(c_int32)),
                ("wrt", POINTER(c_char_p)), ("num_wrt", c_size_t), ("save_states", c_int32),
                ("f32_matmuls", c_int32)]


class _Table(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("version", c_int32), ("release", c_char_p),
        ("targets", c_char_p), ("native", c_char_p),
        ("compile", ctypes.CFUNCTYPE(POINTER(_Result), POINTER(_Source), POINTER(_Options))),
        ("interpret", ctypes.CFUNCTYPE(POINTER(_Result), POINTER(_Source), POINTER(_Options),
                                       c_char_p, POINTER(POINTER(DLTensor)), c_size_t, c_int32)),
        ("destroy", ctypes.CFUNCTYPE(None, POINTER(_Result)))]


class Buffer:
    """Memory that a call reads or writes: an address, an element type and a shape. It is compact where it
    has no `strides`, which are in elements; the slots of a pool may be further apart, and so may rows."""

    __slots__ = ("address", "dtype", "shape", "owner", "device", "strides")

    def __init__(self, address, dtype, shape, owner=None, device=(1, 0), strides=None):
        self.address, self.dtype, self.shape = address, dtype, tuple(shape)
        self.owner = owner  # keeps the memory alive
        self.device = device  # as in DLPack: (1, 0) is the host, (2, i) a CUDA device
        self.strides = strides and tuple(strides)

    def bytes(self):
        size = BYTES[self.dtype]
        for length in self.shape:
            size *= length
        return size

    def parts(self):
        """(address, bytes) of each part that is compact, in their order."""
        size, dense = BYTES[self.dtype], len(self.shape)
        if self.strides is None or not self.bytes():
            return [(self.address, self.bytes())]
        while dense and self.strides[dense - 1] == math.prod(self.shape[dense:]):
            dense -= 1
        each = size * math.prod(self.shape[dense:])
        return [(self.address + size * sum(i * stride for i, stride in zip(index, self.strides)), each)
                for index in itertools.product(*map(range, self.shape[:dense]))]


def dl_tensors(buffers):
    """An array of pointers to DLTensors of `buffers`, and what keeps them alive."""
    tensors = (DLTensor * max(len(buffers), 1))()
    pointers = (POINTER(DLTensor) * max(len(buffers), 1))()
    shapes = []
    for i, buffer in enumerate(buffers):
        rank = len(buffer.shape)
        shapes.append((c_int64 * max(rank, 1))(*buffer.shape))
        code, bits = _DTYPES[buffer.dtype]
        strides = None
        if buffer.strides is not None:
            shapes.append((c_int64 * rank)(*buffer.strides))
            strides = ctypes.cast(shapes[-1], POINTER(c_int64))
        tensors[i] = DLTensor(buffer.address, *buffer.device, rank, code, bits, 1,
                              ctypes.cast(shapes[-2 if strides else -1], POINTER(c_int64)), strides, 0)
        pointers[i] = ctypes.pointer(tensors[i])
    return pointers, (tensors, shapes)


_SEVERITIES = ("note", "remark", "warning", "error")


def _diagnostics(array, count):
    return tuple(
        Diagnostic(_SEVERITIES[d.severity], d.file.decode(errors="replace"), d.line, d.column,
                   d.text.decode(errors="replace"), _diagnostics(d.notes, d.num_notes))
        for d in (array[i] for i in range(count)))


# How recurrences of f32 rows are computed on GPUs, as ejk_f32_matmuls numbers it.
F32_MATMULS = (None, "bf16x3", "bf16x6")


class _CompileOptions:
    """An ejk_compile_options with the memory that it points to."""

    def __init__(self, cancel, target=None, emit=0, derivatives=0, wrt=(), binary=True,
                 save_states=False, f32_matmuls=None):
        names = [name.encode() for name in wrt]
        self.names = (c_char_p * max(len(names), 1))(*names)
        self.view = _Options(ctypes.sizeof(_Options), target.encode() if target else None, emit,
                             0 if binary else 1, derivatives, ctypes.pointer(cancel), self.names,
                             len(names), 1 if save_states else 0, F32_MATMULS.index(f32_matmuls))


def _interruptible(work):
    """What `work(cancel)` returns. Python runs the handler of a signal, such as Ctrl-C's, between
    steps of the main thread alone, so the main thread lets another one work. Where the handler
    raises, that is raised here at once; the work ends soon after, since `cancel` is set then."""
    cancel = c_int32(0)
    if threading.current_thread() is not threading.main_thread():
        return work(cancel)
    outcome, done = [], threading.Event()

    def run():
        try:
            outcome.append((work(cancel), None))
        except BaseException as error:
            outcome.append((None, error))
        done.set()

    try:
        threading.Thread(target=run, name="ejk compiler", daemon=True).start()
    except RuntimeError:  # the process ends, and starts no thread
        return work(cancel)
    try:
        done.wait()
    except BaseException:
        cancel.value = 1
        raise
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


class Compiler:
    """libejk-compiler. Every method may be called by several threads at once."""

    def __init__(self):
        library = open_library("libejk-compiler.so")
        library.ejk_get_compiler.restype = POINTER(_Table)
        library.ejk_get_compiler.argtypes = [c_int32]
        table = library.ejk_get_compiler(1)
        if not table:
            raise EjkError("libejk-compiler.so is of another version than this package")
        self._table = table.contents
        self.release = self._table.release.decode()
        self.targets = tuple(self._table.targets.decode().split())
        self.native = self._table.native.decode()  # this machine's CPU, "" where it has no kernels

    def _source(self, text, name):
        data = text.encode() if isinstance(text, str) else bytes(text)
        return _Source(ctypes.sizeof(_Source), data, len(data), name.encode())

    def _finish(self, result, take):
        if not result:
            raise MemoryError("the compiler ran out of memory")
        try:
            content = result.contents
            diagnostics = _diagnostics(content.diagnostics, content.num_diagnostics)
            if content.status != 0:
                raise CompileError(diagnostics)
            return take(content), diagnostics
        finally:
            self._table.destroy(result)

    def compile(self, text, name="source", **options):
        """A package's bytes, or with `emit` text as bytes; and the diagnostics."""
        def work(cancel):
            given = _CompileOptions(cancel, **options)
            result = self._table.compile(ctypes.byref(self._source(text, name)),
                                         ctypes.byref(given.view))
            return self._finish(result, lambda c: ctypes.string_at(c.data, c.size))

        return _interruptible(work)

    def interpret(self, text, entry, inputs, exact, derivatives=0, wrt=(), name="source"):
        """[(name, dtype, shape, bytes)] of the results; with `exact`, floats are f64."""
        def work(cancel):
            given = _CompileOptions(cancel, derivatives=derivatives, wrt=wrt)
            pointers, keep = dl_tensors(inputs)
            result = self._table.interpret(
                ctypes.byref(self._source(text, name)), ctypes.byref(given.view), entry.encode(),
                pointers, len(inputs), 0 if exact else 1)
            del keep
            return self._finish(result, take)[0]

        def take(content):
            found = []
            for t in (content.tensors[i] for i in range(content.num_tensors)):
                dtype = _DTYPE_NAMES[(t.code, t.bits)]
                buffer = Buffer(t.data, dtype, [t.shape[d] for d in range(t.rank)])
                found.append((t.name.decode(), dtype, buffer.shape,
                              ctypes.string_at(t.data, buffer.bytes()) if buffer.bytes() else b""))
            return found

        return _interruptible(work)


@functools.lru_cache(maxsize=None)
def compiler():
    return Compiler()


class _LaunchParams(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("inputs", c_void_p), ("num_inputs", c_size_t),
                ("outputs", c_void_p), ("num_outputs", c_size_t), ("workspace", c_void_p),
                ("workspace_bytes", c_size_t), ("stream", c_void_p), ("schedule", c_char_p),
                ("parallel_for", c_void_p), ("parallel_context", c_void_p),
                ("max_threads", c_uint32), ("zero_unused_rows", c_int32)]


class _ExecutableOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("device_ordinal", c_int32), ("prefer_ptx", c_int32),
                ("device_type", c_int32)]


_TENSOR_ERROR = 2


class Runtime:
    """libejk_runtime: loads packages and launches their entries."""

    def __init__(self):
        library = open_library("libejk_runtime.so")
        library.ejk_error_message.restype = c_char_p
        library.ejk_error_message.argtypes = [c_void_p]
        library.ejk_error_destroy.argtypes = [c_void_p]
        library.ejk_error_get_code.argtypes = [c_void_p]
        for name, arguments in {
                "ejk_package_load_memory": [c_char_p, c_size_t, c_void_p],
                "ejk_package_find_entry": [c_void_p, c_char_p, c_void_p],
                "ejk_entry_check": [c_void_p, c_size_t, c_void_p, c_size_t, c_void_p, c_size_t],
                "ejk_entry_workspace_bytes": [c_void_p, c_size_t, c_void_p, c_size_t, c_void_p],
                "ejk_executable_create": [c_void_p, c_void_p, c_void_p],
                "ejk_launch": [c_void_p, c_size_t, c_void_p]}.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, c_void_p
        self._library = library

    def call(self, name, *arguments):
        """Calls a function that gives an ejk_error*, and raises that."""
        error = getattr(self._library, name)(*arguments)
        if error:
            message = self._library.ejk_error_message(error).decode(errors="replace")
            code = self._library.ejk_error_get_code(error)
            self._library.ejk_error_destroy(error)
            raise (TensorError if code == _TENSOR_ERROR else RuntimeFailure)(message)

    def load(self, data):
        package = c_void_p()
        self.call("ejk_package_load_memory", data, len(data), ctypes.byref(package))
        return package

    def find_entry(self, package, name):
        index = c_size_t()
        self.call("ejk_package_find_entry", package, name.encode(), ctypes.byref(index))
        return index.value

    def create_executable(self, package, device):
        """`device` is as in DLPack: a type and a number."""
        options = _ExecutableOptions(ctypes.sizeof(_ExecutableOptions), device[1], 0, device[0])
        executable = c_void_p()
        self.call("ejk_executable_create", package, ctypes.byref(options), ctypes.byref(executable))
        return executable

    def workspace_bytes(self, package, entry, pointers, count):
        size = c_size_t()
        self.call("ejk_entry_workspace_bytes", package, entry, pointers, count, ctypes.byref(size))
        return size.value


class Launch:
    """A launch of an entry on tensors of certain shapes, of which only the addresses change. One
    thread has it at a time."""

    def __init__(self, package, entry, executable, inputs, outputs):
        self._inputs, keep = dl_tensors(inputs)
        self._outputs, keep_too = dl_tensors(outputs)
        self._tensors = [*keep[0]][:len(inputs)] + [*keep_too[0]][:len(outputs)]
        self._keep = keep, keep_too
        self._entry, self._executable = entry, executable
        self.workspace_bytes = runtime().workspace_bytes(package, entry, self._inputs, len(inputs))
        self._params = _LaunchParams(
            ctypes.sizeof(_LaunchParams), ctypes.cast(self._inputs, c_void_p), len(inputs),
            ctypes.cast(self._outputs, c_void_p), len(outputs), None, self.workspace_bytes, None,
            None, None, None, 0, 1)
        self._reference = ctypes.byref(self._params)

    def __call__(self, buffers, workspace, stream):
        """`buffers` are the inputs and then the outputs."""
        for tensor, buffer in zip(self._tensors, buffers):
            tensor.data = buffer.address
        self._params.workspace = workspace.address if workspace else None
        self._params.stream = stream
        runtime().call("ejk_launch", self._executable, self._entry, self._reference)


@functools.lru_cache(maxsize=None)
def runtime():
    return Runtime()
