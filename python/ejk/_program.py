"""A program: MLIR with one public function, and the packages that are made of it."""

import ctypes
import functools
import json
import os
import re
import sys
import threading
import time

from . import _cache
from ._errors import CompileError, EjkError, RuntimeFailure, TensorError, warn
from ._library import (BYTES, Buffer, Launch, compiler, content_of, library_path, runtime)

_SUFFIXES = ("", "_vjp", "_vjp_vjp")
_INTEGERS = ("i32", "i64")
# Where a CPU has no kernels, a package for this is made for its manifest alone.
_MANIFEST_TARGET = "sm_80"


def _evaluate(expression, symbols):
    """An expression of a manifest; None where it has a symbol without a value."""
    if isinstance(expression, int):
        return expression
    if isinstance(expression, str):
        return symbols.get(expression)
    op, *operands = expression
    values = [_evaluate(operand, symbols) for operand in operands]
    if None in values:
        return None
    a, b = values
    return {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b,
            "floordiv": lambda: a // b, "ceildiv": lambda: -(-a // b), "mod": lambda: a % b,
            "min": lambda: min(a, b), "max": lambda: max(a, b), "=": lambda: a == b,
            "!=": lambda: a != b, "<": lambda: a < b, "<=": lambda: a <= b, ">": lambda: a > b,
            ">=": lambda: a >= b, "and": lambda: bool(a) and bool(b),
            "or": lambda: bool(a) or bool(b)}[op]()


def _spell(shape):
    def one(e):
        return (f"({one(e[1])} {e[0]} {one(e[2])})" if e[0] not in "+*" else
                f"{one(e[1])}{e[0]}{one(e[2])}") if isinstance(e, list) else str(e)
    return "[" + ", ".join(map(one, shape)) + "]"


class Entry:
    """A function of a package: what it takes and gives, and how it is run."""

    def __init__(self, program, order, wrt, description, package, target):
        self.program, self.order, self.wrt, self.target = program, order, wrt, target
        self.name = description["name"]
        self.description = description
        self.inputs = description["inputs"]
        self.outputs = description["outputs"]
        self.alignments = [t["align"] for t in self.inputs]  # of the inputs' addresses, in bytes
        # The input whose memory an output is written to, by the output's number.
        self.replaced = {o: t["may_alias"] for o, t in enumerate(self.outputs) if t.get("in_place")}
        # Inputs that an output may take the place of: the initial states, each of a final state.
        self.initial_states = {self.inputs[t["may_alias"]]["name"] for t in self.outputs if "may_alias" in t}
        self.package = package  # the bytes
        self.interpreted = False  # whether there is no kernel for a CPU
        self._lock = threading.Lock()
        self._loaded = {}
        self._shapes = {}
        self._launches = threading.local()

    def symbols(self, shapes):
        """The sizes that the inputs' shapes decide. Raises where shapes do not fit."""
        found, source = {}, {}  # each symbol's size, and the tensor that has it
        for tensor, shape in zip(self.inputs, shapes):
            expected = tensor["shape"]
            if len(expected) != len(shape):
                raise TensorError(f"'{tensor['name']}' must be {_spell(expected)}, "
                                  f"but has shape {list(shape)}")
            for e, size in zip(expected, shape):
                more = 0
                if isinstance(e, list) and e[0] == "+" and isinstance(e[1], str) and isinstance(e[2], int):
                    _, e, more = e
                if isinstance(e, str) and e not in found:
                    found[e], source[e] = size - more, tensor["name"]
        for tensor, shape in zip(self.inputs, shapes):
            for e, size in zip(tensor["shape"], shape):
                wanted = _evaluate(e, found)
                if wanted is not None and wanted != size:
                    spelt = re.findall(r"\w+", _spell(tensor["shape"]))
                    sizes = ", ".join(f"{k} = {v}" for k, v in found.items() if k in spelt)
                    raise TensorError(f"'{tensor['name']}' must be {_spell(tensor['shape'])}"
                                      + (f" with {sizes}" if sizes else "")
                                      + f", but has shape {list(shape)}" + "".join(
                                          f"; '{source[k]}' has {k} = {found[k]}"
                                          for k in re.findall(r"[A-Za-z]\w*", _spell([e])) if k in source))
        for rule in self.description.get("constraints", ()):
            value = _evaluate(rule["expr"], found)
            if value is not None and value != rule["equals"]:
                self._refuse_heads(rule["message"], shapes)
                raise TensorError(rule["message"] + ", with "
                                  + ", ".join(f"{k} = {v}" for k, v in found.items()))
        return found

    def _refuse_heads(self, message, shapes):
        """Says which tensor has a number of heads that does not divide another one's."""
        found = re.search(r", (H\w*), must divide the query heads, (H\w*)$", message)

        def first(symbol):
            """The first tensor that has so many heads: its name, this number and its shape."""
            return next((tensor["name"], shape[tensor["shape"].index(symbol)], list(shape))
                        for tensor, shape in zip(self.inputs, shapes) if symbol in tensor["shape"])
        if found:
            (name, heads, shape), (other, limit, of_other) = map(first, found.groups())
            raise TensorError(f"'{name}' has {heads} heads, which must divide the {limit} of '{other}': it has shape "
                              f"{shape}, and '{other}' has {of_other}; a tensor over time is [B, T, heads, channels], "
                              "or [B, T, heads] where a step sees a number")

    def output_shapes(self, shapes):
        """The results' shapes for inputs of these shapes, a tuple. Sizes may be symbolic ones of
        torch's, which cannot be looked up."""
        try:
            known = self._shapes.get(shapes)
        except TypeError:
            return self._output_shapes(shapes)
        if known is None:
            known = self._output_shapes(shapes)
            if len(self._shapes) < 1024:
                self._shapes[shapes] = known
        return known

    def _output_shapes(self, shapes):
        found = self.symbols(shapes)
        return [[_evaluate(e, found) for e in tensor["shape"]] for tensor in self.outputs]

    def run(self, inputs, outputs, stream=None, allocate=None):
        """Runs on buffers that fit. `allocate(bytes)` gives workspace on their device."""
        device = inputs[0].device
        if any(b.dtype == "f64" for b in inputs):
            return self._interpret(inputs, outputs, exact=True)
        if device[0] == 1 and (self.interpreted or not compiler().native):
            return self._interpret(inputs, outputs, exact=False)
        return self._launch(inputs, outputs, device, stream, allocate)

    def _interpret(self, inputs, outputs, exact):
        inputs = [b if b.strides is None else _compact(b) for b in inputs]
        results = compiler().interpret(self.program.text, self.name, inputs, exact,
                                       derivatives=self.order, wrt=self.wrt)
        for buffer, (name, dtype, shape, data) in zip(outputs, results):
            if buffer.dtype != dtype or len(data) != buffer.bytes():
                raise EjkError(f"result '{name}' is {dtype} {list(shape)}, which was not expected")
            at = 0
            for address, size in buffer.parts():
                ctypes.memmove(address, data[at:at + size], size)
                at += size

    def _load(self, device):
        """(package, entry, executable) on a device, kept for the life of the process."""
        with self._lock:
            if device not in self._loaded:
                package = runtime().load(self.package)
                self._loaded[device] = (package, runtime().find_entry(package, self.name),
                                        runtime().create_executable(package, device))
            return self._loaded[device]

    def _launch(self, inputs, outputs, device, stream, allocate):
        # Each thread has launches of its own, since one holds the addresses of a call.
        launches = self._launches.__dict__
        key = (device, tuple([b.shape if b.strides is None else (b.shape, b.strides)
                              for b in inputs]))
        launch = launches.get(key)
        if not launch:
            package, entry, executable = self._load(device)
            launch = Launch(package, entry, executable, inputs, outputs)
            if len(launches) < 256:
                launches[key] = launch
        workspace = allocate(launch.workspace_bytes) if launch.workspace_bytes else None
        launch((*inputs, *outputs), workspace, stream)


def _compact(buffer):
    """A copy of a buffer without gaps."""
    data = b"".join(ctypes.string_at(address, size) for address, size in buffer.parts())
    memory = ctypes.create_string_buffer(data, max(len(data), 1))
    return Buffer(ctypes.addressof(memory), buffer.dtype, buffer.shape, memory, buffer.device)


def target_for(device):
    """The name of what a package is compiled for. `device` is as in DLPack, with a CUDA device's
    capability behind it: (2, 0, 90)."""
    if device[0] == 1:
        return compiler().native or _MANIFEST_TARGET
    capability = device[2]

    def number(name):
        return int("".join(c for c in name if c.isdigit()))
    names = [n for n in compiler().targets if n.startswith("sm_")]
    own = [n for n in names if number(n) == capability]
    if own:
        return max(own, key=len)  # sm_90a before sm_90
    older = [n for n in names if number(n) <= capability and not n[-1].isalpha()]
    if not older:
        raise RuntimeFailure(f"the device is of sm_{capability}; kernels need {names[0]} or newer")
    return max(older, key=number)


class Program:
    """`text` has one public function, `name`. `locate` gives the text with the user's lines. `f32_matmuls`
    says how f32 rows go chunk by chunk on a GPU, which they do not without it."""

    def __init__(self, text, name, locate=None, f32_matmuls=None):
        self.text, self.name, self._locate, self.f32_matmuls = text, name, locate, f32_matmuls
        # The first line of what the cache keeps.
        self._head = f"{name} {f32_matmuls}" if f32_matmuls else name
        self.key = _cache.key_of("program", self._head, text)
        self._entries = {}
        self._lock = threading.Lock()

    def entry(self, order=0, wrt=(), device=(1, 0)):
        """The function (0), its derivative (1) or that one's (2), for a device."""
        known = self._entries.get((order, wrt, device))
        if known:
            return known
        if order > 2:
            raise EjkError(f"'{self.name}' is differentiated three times; ejk has first and second "
                           "derivatives")
        target = target_for(device)
        with self._lock:
            known = self._entries.get((order, wrt, target))
            if not known:
                known = self._make(order, wrt, target)
                self._entries[(order, wrt, target)] = known
            self._entries[(order, wrt, device)] = known
        return known

    def saving(self, wrt, device):
        """(F_fwd, F_vjp) for a device, where F_fwd gives states that F_vjp takes after its
        cotangents, so that it need not compute them; None where nothing is saved."""
        if device[0] == 1:
            return None  # kernels for CPUs save nothing
        key = ("saving", wrt, target_for(device))
        with self._lock:
            if key not in self._entries:
                data, manifest = self._package(1, wrt, key[2], save_states=True)
                entries = {e["name"]: e for e in manifest["entries"]}
                forward, backward = (entries.get(self.name + s) for s in ("_fwd", "_vjp"))
                if forward:
                    self._entries[key] = (Entry(self, 0, wrt, forward, data, key[2]),
                                          Entry(self, 1, wrt, backward, data, key[2]))
                else:
                    self._entries[key] = None
                    self._entries.setdefault((1, wrt, key[2]),
                                             Entry(self, 1, wrt, backward, data, key[2]))
            return self._entries[key]

    def _package(self, order, wrt, target, save_states=False):
        """The bytes of a package, from the cache where it has them, and its manifest."""
        key = _cache.key_of("package", self.key, str(order), ",".join(wrt), target,
                            _maker(target), *["saving"] * save_states)
        data = _cache.read(key, ".ejk")
        manifest = data and _manifest(data)
        if not manifest:
            with _Progress(f"compiling {self.name}{_SUFFIXES[order]} for {target}") as progress:
                data, _ = self.compile(target=target, derivatives=order, wrt=wrt,
                                       save_states=save_states)
                progress.not_kept = _cache.write(key, ".ejk", data)
            manifest = _manifest(data)
        # Another process that meets the program's key, in a graph of torch's, finds it here. It is kept as long
        # as packages of it are used.
        _cache.keep(self.key, ".mlir", (self._head + "\n" + self.text).encode())
        return data, manifest

    def _make(self, order, wrt, target):
        try:
            data, manifest = self._package(order, wrt, target)
        except CompileError as refusal:
            if target != compiler().native:
                raise
            return self._make_interpreted(order, wrt, refusal)
        entry_name = self.name + _SUFFIXES[order]
        description = next(e for e in manifest["entries"] if e["name"] == entry_name)
        return Entry(self, order, wrt, description, data, target)

    def _make_interpreted(self, order, wrt, refusal):
        """An entry for what has no kernel on a CPU, but has one on a GPU, and so a manifest."""
        try:
            entry = self._make(order, wrt, _MANIFEST_TARGET)
        except CompileError as other:
            # What a CPU lacks says that a GPU's kernel has it, so that what that lacks is said, too.
            own = {d.text for d in refusal.diagnostics}
            raise CompileError([*refusal.diagnostics, *(d for d in other.diagnostics if d.text not in own)]) from None
        reason = next((d.text for d in refusal.diagnostics if d.severity == "error"), "")
        warn(f"ejk has no CPU kernel for '{entry.name}' and runs it in the interpreter, which is "
             f"slow: {reason}")
        entry.interpreted = True
        return entry

    def compile(self, **options):
        """Bytes and diagnostics, which name the user's own lines."""
        options["f32_matmuls"] = self.f32_matmuls
        try:
            return compiler().compile(self.text, name=self.name + ".mlir", **options)
        except CompileError:
            if not self._locate:
                raise
            return compiler().compile(self._locate(), name=self.name + ".mlir", **options)

    def diagnose(self, **options):
        """What the compiler says of the program, with the user's lines."""
        return self.compile_located(**options)[1]

    def compile_located(self, **options):
        text = self._locate() if self._locate else self.text
        return compiler().compile(text, name=self.name + ".mlir", f32_matmuls=self.f32_matmuls, **options)


@functools.lru_cache(maxsize=None)
def _maker(target):
    """What of this machine the bytes of a package depend on, beside the program: the compiler, and
    for a GPU the ptxas that it would call."""
    ptxas = ""
    if target.startswith("sm_"):
        import shutil  # here, because ejk is to be imported fast
        homes = [os.environ[n] + "/bin" for n in ("CUDA_HOME", "CUDA_PATH") if n in os.environ]
        path = os.pathsep.join([*homes, os.environ.get("PATH", ""), "/usr/local/cuda/bin"])
        found = shutil.which(os.environ.get("EJK_PTXAS") or "ptxas", path=path)
        ptxas = f"{os.path.realpath(found)} {os.stat(found).st_size}" if found else ""
    return f"{compiler().release} {content_of(library_path('libejk-compiler.so'))} {ptxas}"


def _manifest(data):
    """The manifest of a package, or None where the bytes are none."""
    try:
        runtime().load(data)
        size = int.from_bytes(data[16:24], "little")
        return json.loads(data[64:64 + size])
    except (RuntimeFailure, ValueError):
        return None


_programs = {}


def register(program):
    """The program of this content that is known first; later ones are the same."""
    return _programs.setdefault(program.key, program)


def by_key(key):
    """The program with this content hash, from this process or from the cache."""
    found = _programs.get(key)
    if found:
        return found
    data = _cache.read(key, ".mlir")
    if data:
        head, _, text = data.decode(errors="replace").partition("\n")
        name, _, f32_matmuls = head.partition(" ")
        program = Program(text, name, f32_matmuls=f32_matmuls or None)
        if program.key == key:
            return register(program)
    raise EjkError(f"the program {key} is neither known to this process nor in the cache; call the "
                   "recurrence once in this process, or share EJK_CACHE_DIR with the one that did")


class _Progress:
    """Says what takes longer than a moment: on a terminal or with EJK_PROGRESS=1 a line on standard
    error after 0.3 s, elsewhere one in the log "ejk" after 2 s, and with EJK_PROGRESS=0 none."""

    def __init__(self, what):
        setting = os.environ.get("EJK_PROGRESS", "")
        self._what, self._shown = what, False
        self._on_terminal = setting not in ("", "0") or (not setting and sys.stderr is not None
                                                         and sys.stderr.isatty())
        self._timer = None
        self.not_kept = None  # why the cache does not have the result
        if setting != "0":
            self._timer = threading.Timer(0.3 if self._on_terminal else 2, self._show)
            self._timer.daemon = True

    def _show(self):
        self._shown = True
        self._say(f"ejk: {self._what}, once")

    def _say(self, line):
        if self._on_terminal:
            print(line, file=sys.stderr, flush=True)
        else:
            import logging  # here, because ejk is to be imported fast
            logging.getLogger("ejk").warning("%s", line)

    def __enter__(self):
        self._start = time.perf_counter()
        if self._timer:
            self._timer.start()
        return self

    def __exit__(self, kind, *_):
        if self._timer:
            self._timer.cancel()
        if self._shown and kind is None:
            kept = (f"not kept: {self.not_kept}" if self.not_kept else
                    f"kept in {_cache.folder()}")
            self._say(f"ejk: done in {time.perf_counter() - self._start:.1f} s; {kept}")


def is_float(tensor):
    return tensor["dtype"] not in _INTEGERS


def element_bytes(dtype):
    return BYTES[dtype]


__all__ = ["Buffer", "Entry", "Program", "by_key", "element_bytes", "is_float", "register"]
