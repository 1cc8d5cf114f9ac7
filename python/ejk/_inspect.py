"""What else a program is good for: MLIR in, packages out, explanations, checks."""

import math
import re
import time
from dataclasses import dataclass

from . import _arrays, _pools
from ._errors import CompileError, EjkError, TensorError
from ._files import write_whole
from ._library import BYTES, Buffer, compiler
from ._program import Program, _evaluate, _manifest, register, target_for


def targets():
    """The names of what packages can be compiled for: `sm_80`, …"""
    return compiler().targets


def compile(text, entry=None):
    """A function of MLIR text, to be called on tensors.

    `entry` is its name, which may be left out where the text has one public function. Call it with
    tensors in the order of the function's arguments, or by their names. It returns the function's
    results, a tuple if there are several."""
    if not isinstance(text, str):
        raise TypeError(f"ejk.compile takes the text of MLIR, a str, but got {type(text).__name__}")
    names = re.findall(r"func\.func\s+(?:public\s+)?@(\w+)", text)
    if entry is None:
        if len(names) != 1:
            raise EjkError("the text has several functions; choose with entry=: " + ", ".join(names)
                           if names else "the text has no public function (func.func @name)")
        entry = names[0]
    elif entry not in names:
        raise EjkError(f"the text has no public function '{entry}', but " + ", ".join(names))
    return CompiledFunction(register(Program(text, entry)))


class CompiledFunction:
    """What `ejk.compile` gives."""

    def __init__(self, program):
        self._program = program
        self.names = tuple(t["name"] for t in program.entry().inputs)

    def __reduce__(self):
        return compile, (self._program.text, self._program.name)

    def __repr__(self):
        return f"<ejk function {self._program.name}({', '.join(self.names)})>"

    def __call__(self, /, *tensors, **named):
        tensors, door = self._read(tensors, named)
        results = _pools.call(door, self._program, tensors)
        return results[0] if len(results) == 1 else tuple(results)

    def _read(self, tensors, named):
        """A call's tensors in the program's order, as its door takes them, and the door."""
        tensors = self._order(tensors, named)
        if not tensors:
            raise TensorError(f"'{self._program.name}' takes no tensors, and a call computes on their device, with "
                              "their library; package() writes it for the C API, which can call it")
        door = _arrays.common_door(zip(self.names, tensors))
        tensors, described = _arrays.read(door, self.names, tensors)
        for tensor, (dtype, shape) in zip(self._program.entry().inputs, described):
            if dtype != tensor["dtype"] and not (dtype == "f64" and tensor["dtype"][0] != "i"):
                raise TensorError(f"'{tensor['name']}' must be {tensor['dtype']}, but is {dtype} "
                                  f"{list(shape)}")
        return tensors, door

    def _order(self, tensors, named):
        tensors = list(tensors)
        for name in self.names[len(tensors):]:
            if name not in named:
                raise TensorError(f"'{self._program.name}' needs '{name}'; it takes "
                                  + ", ".join(self.names))
            tensors.append(named.pop(name))
        if named or len(tensors) > len(self.names):
            raise TensorError(f"'{self._program.name}' takes {', '.join(self.names)}"
                              + (f", but got {', '.join(named)}" if named else
                                 f", but got {len(tensors)} tensors"))
        return tensors

    def mlir(self):
        """The text."""
        return self._program.text

    def package(self, path, target=None, derivatives=0):
        """Writes a kernel package, for the C API."""
        write_package(self._program, path, target, derivatives)

    def explain(self, /, *tensors, target=None, derivatives=0, **named):
        """How tensors like these are computed."""
        return explain(self._program, *self._read(tensors, named), target, derivatives)

    def check(self, /, *tensors, **named):
        """Compares a call with the f64 interpreter: the relative error of each result."""
        return check(self._program, *self._read(tensors, named))


def write_package(program, path, target, derivatives):
    data, _ = program.compile(target=target or target_for((1, 0)), derivatives=derivatives)
    write_whole(path, data)


@dataclass(frozen=True)
class Explanation:
    """How a program is computed for some shapes.

    `schedule` is the one that these sizes take, and `kernels` are launched in this order. `remarks`
    is what the compiler chose and why, with lines of the user's file. `bytes` is the least that can
    be moved: every input is read once and every result is written once. `sizes` has B, T, H and the
    heads of tensors that have a number of their own. `seconds` is the best of some calls, where the
    program is for the CPU that the tensors are on, else None."""

    entry: str
    target: str
    schedule: str
    kernels: tuple
    remarks: tuple
    bytes: int
    sizes: dict
    seconds: float | None = None

    def floor(self, bandwidth):
        """The seconds that moving the bytes alone takes, at `bandwidth` bytes a second."""
        return self.bytes / bandwidth

    def __str__(self):
        lines = [f"{self.entry} for {self.target}, " + ", ".join(
            f"{name} = {size}" for name, size in self.sizes.items()
            if not name.startswith("heads of ") or size != self.sizes.get("H"))]
        lines += [f"  schedule: {self.schedule}"] if self.schedule else []
        lines += [f"  kernel {name}" for name in self.kernels]
        lines.append(f"  moves at least {self.bytes:,} bytes")
        if self.seconds is not None:
            lines.append(f"  takes {1000 * self.seconds:.3g} ms, the best of some calls")
        lines += ["  " + line for remark in self.remarks for line in str(remark).split("\n")]
        return "\n".join(lines)


def _named_sizes(inputs, symbols):
    """The sizes that a call has, with heads named after their tensors."""
    sizes = {n: size for n, size in symbols.items() if not re.fullmatch(r"H(kv|p)\d*", n)}
    for tensor in inputs:
        for symbol in tensor["shape"]:
            if isinstance(symbol, str) and symbol not in sizes and symbol in symbols:
                sizes[f"heads of {tensor['name']}"] = symbols[symbol]
    return sizes


# A remark names the compiler's options. One is the recurrence's own, and one no call has.
_MATMULS = re.compile(r"allow f32 matmuls \('f32-matmuls=(\w+)'\)")
_ADVICE = re.compile(r"; with --gate-gradients=.*")


def _advised(remark):
    return _ADVICE.sub("", _MATMULS.sub(r"make the recurrence with f32_matmuls='\1'", remark))


def _time(call, tensors):
    """The least seconds of some calls; None where the tensors are not in a CPU's memory."""
    try:
        if any(t.__dlpack_device__()[0] != 1 for t in tensors):
            return None
    except (AttributeError, BufferError, RuntimeError, ValueError):
        return None
    best, end = None, 0.0
    for _ in range(20):
        start = time.perf_counter()
        for result in call():
            getattr(result, "block_until_ready", bool)()
        took = time.perf_counter() - start
        if best is None:
            end = start + took + 0.2  # the first one may compile
        best = min(best or took, took)
        if time.perf_counter() > end:
            break
    return best


def explain(program, tensors, door, target, derivatives):
    shapes = [door.describe(t)[1] for t in tensors]
    is_own = target in (None, compiler().native) and not derivatives
    target = target or target_for((1, 0))
    data, diagnostics = program.compile_located(target=target, derivatives=derivatives)
    name = program.name + "_vjp" * derivatives
    entry = next(e for e in _manifest(data)["entries"] if e["name"] == name)
    symbols = {}
    for tensor, shape in zip(entry["inputs"], shapes):
        for e, size in zip(tensor["shape"], shape):
            if isinstance(e, str):
                symbols.setdefault(e, size)
            elif isinstance(e, list) and e[0] == "+" and isinstance(e[1], str):
                symbols.setdefault(e[1], size - e[2])
    total = 0
    for tensor in entry["inputs"] + entry["outputs"]:
        total += BYTES[tensor["dtype"]] * math.prod(_evaluate(e, symbols) for e in tensor["shape"])
    # What a device decides, the number of multiprocessors, is not known here.
    facts = {**symbols, "device.arch": int("0" + "".join(filter(str.isdigit, target)))}
    variant = next((v for v in entry.get("variants", [entry]) if all(
        _evaluate(v[key], facts) for key in ("needs", "when") if key in v)), entry)
    kernels = tuple(launch["kernel"] for launch in variant.get("launches", ())
                    if _evaluate(launch.get("when", 1), facts) is not False
                    and _evaluate(launch.get("grid", 1), facts) != 0)
    remarks = tuple(d._replace(text=_advised(d.text)) for d in diagnostics
                    if d.severity in ("remark", "warning"))
    seconds = None
    if is_own:
        seconds = _time(lambda: _pools.call(door, program, tensors, in_place=False), tensors)
    return Explanation(name, target, variant.get("schedule", ""), kernels, remarks, total,
                       _named_sizes(entry["inputs"], symbols), seconds)


def check(program, tensors, door):
    """{result: relative error} of a call against the f64 interpreter."""
    import numpy as np
    results = _pools.call(door, program, tensors, in_place=False)
    inputs = [np.ascontiguousarray(door.to_numpy(t)) for t in tensors]
    inputs = [a.astype(np.float64) if a.dtype.kind not in "iu" else a for a in inputs]
    buffers = [Buffer(a.ctypes.data, {"f": "f64"}.get(a.dtype.kind, f"i{8 * a.itemsize}"), a.shape,
                      a) for a in inputs]
    expected = compiler().interpret(program.text, program.name, buffers, exact=True)
    errors = {}
    for (name, _, shape, data), result in zip(expected, results):
        reference = np.frombuffer(data, np.float64).reshape(shape)
        found = np.asarray(door.to_numpy(result), np.float64)
        norm = np.linalg.norm(reference)
        errors[name] = float(np.linalg.norm(found - reference) / norm if norm else
                             np.linalg.norm(found))
    return errors


__all__ = ["compile", "CompileError", "Explanation", "targets"]
