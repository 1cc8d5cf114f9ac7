"""The tables of compiled entries in libejk_torch and libejk_jax.

Their kernels look an entry up by the hash of its program and by what is wanted of it, as `find`
says. What they do not find, they ask of Python, once."""

import ctypes
import re
import threading
from ctypes import (CFUNCTYPE, POINTER, c_char_p, c_int32, c_int64, c_size_t, c_uint8, c_uint16,
                    c_void_p)

from . import _program
from ._errors import EjkError, TensorError
from ._library import (DLTensor, Buffer, compiler, dtype_code, dtype_name, open_library, runtime)

_RANK = 8  # EJK_MAX_RANK of the runtime


class _Device(ctypes.Structure):
    _fields_ = [("type", c_int32), ("index", c_int32)]


class _Form(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("rank", c_int32),
                ("sizes", c_int64 * _RANK), ("alignment", c_int64), ("slots", c_int32), ("rows", c_int32),
                ("replaces", c_int32)]


_Resolve = CFUNCTYPE(c_int32, c_char_p, c_char_p, c_int32, c_int32)
_Tensors = POINTER(POINTER(DLTensor))
_Interpret = CFUNCTYPE(c_int32, c_int64, _Tensors, c_size_t, _Tensors, c_size_t)


def _form(tensor):
    shape = tensor["shape"]
    sizes = [size if isinstance(size, int) else -1 for size in shape]
    code, bits = dtype_code(tensor["dtype"])
    return _Form(code, bits, 1, len(shape), (c_int64 * _RANK)(*sizes), tensor["align"],
                 bool(tensor.get("slots")), bool(tensor.get("row_stride")),
                 tensor["may_alias"] if tensor.get("in_place") else -1)


def find(program, entry, device):
    """The Entry that a name means on a device: (1, 0), or (2, number, capability). "0" is the
    function, "1:q,k" its derivative by q and k, "2:q,k" that one's; "forward:q,k" also gives states
    that "backward:q,k" takes after its cotangents, where the program saves any."""
    kind, _, wrt = entry.partition(":")
    wrt, program = tuple(wrt.split(",")) if wrt else (), _program.by_key(program)
    if kind in ("forward", "backward"):
        saving = program.saving(wrt, device)
        if not saving:
            raise EjkError(f"'{program.name}' saves no states on device {device}, where a graph "
                           "that was "
                           "traced on another device has it save some; trace it on this device")
        return saving[kind == "backward"]
    return program.entry(int(kind), wrt, device)


class Table:
    """One library's table. `complete` adds a CUDA device's capability to (2, number)."""

    def __init__(self, name, complete):
        runtime()  # so that the library finds it in the process
        self.library = open_library(name)
        self.library.ejk_door_add.argtypes = [c_char_p, c_char_p, _Device, c_void_p, c_void_p,
                                              c_size_t, c_int64, POINTER(_Form), c_size_t, c_size_t]
        self.library.ejk_door_add.restype = None
        self.library.ejk_door_add_to_site.argtypes = [c_int64, c_char_p, c_char_p, _Device]
        self.library.ejk_door_add_to_site.restype = None
        self.library.ejk_door_set_error.argtypes = [c_char_p]
        self._complete = complete
        self._entries, self._known = [], {}
        self._lock = threading.Lock()
        self._failure = threading.local()
        self._callbacks = _Resolve(self._resolve), _Interpret(self._interpret)
        self.library.ejk_door_set_python(*self._callbacks)

    def add(self, program, entry, device):
        """Puts an entry into the table, compiled where it is new; the Entry."""
        found = find(program, entry, self._complete(device))
        with self._lock:
            if (program, entry, device) not in self._known:
                self._put(program, entry, device, found)
                self._known[program, entry, device] = found
        return found

    def known(self, program, entry, device):
        """The Entry, where it is in the table; else None."""
        return self._known.get((program, entry, device))

    def _put(self, program, entry, device, found):
        if device[0] == 1 and (found.interpreted or not compiler().native):
            package, executable = runtime().load(found.package), None
            index = runtime().find_entry(package, found.name)
        else:
            package, index, executable = found._load(device)
        tensors = [*found.inputs, *found.outputs]
        self._entries.append(found)
        self.library.ejk_door_add(program.encode(), entry.encode(), _Device(*device), package,
                                  executable, index, len(self._entries) - 1,
                                  (_Form * len(tensors))(*map(_form, tensors)), len(found.inputs),
                                  len(found.outputs))

    def add_to_site(self, site, program, entry, device):
        self.add(program, entry, device)
        self.library.ejk_door_add_to_site(site, program.encode(), entry.encode(), _Device(*device))

    def take_failure(self):
        """The error that a function below met on this thread since the last call; or None."""
        error = getattr(self._failure, "error", None)
        self._failure.error = None
        return error

    def raise_interrupt(self):
        """Raises what ended a call on this thread where that is no error of ejk's, such as Ctrl-C: the same call may
        not be tried in another way."""
        error = self.take_failure()
        if error is not None and not isinstance(error, EjkError):
            raise error from None

    def _fail(self, error):
        self._failure.error = error
        self.library.ejk_door_set_error((str(error) or type(error).__name__).encode())
        return 1

    def _resolve(self, program, entry, device_type, index):
        try:
            self.add(program.decode(), entry.decode(), (device_type, index))
            return 0
        except BaseException as error:  # nothing may pass through C
            return self._fail(error)

    def _interpret(self, number, inputs, num_inputs, outputs, num_outputs):
        try:
            buffers = [[_buffer(tensors[i].contents) for i in range(count)]
                       for tensors, count in ((inputs, num_inputs), (outputs, num_outputs))]
            self._entries[number].run(*buffers)
            return 0
        except BaseException as error:
            return self._fail(error)


def _buffer(tensor):
    return Buffer(tensor.data, dtype_name(tensor.code, tensor.bits),
                  [tensor.shape[d] for d in range(tensor.ndim)],
                  device=(tensor.device_type, tensor.device_id),
                  strides=tensor.strides[:tensor.ndim] if tensor.strides else None)


def explain_failure(table, error, entry, shapes):
    """The error to raise where a kernel refused a call: Python's own, or what is wrong with the
    shapes, which this side says with the tensors' names."""
    found = table.take_failure()
    if found is not None:
        return found
    if entry is not None:
        try:
            entry.output_shapes(tuple(map(tuple, shapes)))
        except TensorError as wrong:
            return wrong
    text = str(error).removeprefix("ejk: ")
    if entry is not None:  # a kernel knows a tensor by its number
        text = re.sub(r"\btensor ([0-9]+)\b", lambda m: f"'{entry.inputs[int(m[1])]['name']}'", text)
    wrong = "tensor" in str(error) or text.startswith(("input ", "output "))
    return TensorError(text) if wrong else EjkError(text)
