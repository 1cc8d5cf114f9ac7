#!/usr/bin/python3
"""Compares every elementwise op that a kernel takes with the f64 interpreter, by value.

    elementwise.py BIN EMULATOR            writes docs/elementwise.md
    elementwise.py BIN EMULATOR --check    says whether the page holds what it measures

BIN holds ejk-run, EMULATOR is the CUDA driver that runs the kernels. Exit status 1 where an
error is past its limit, or the page differs.
"""
import difflib
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import elementwise_domains as domains  # noqa: E402

import numpy as np  # noqa: E402

PAGE = Path(__file__).resolve().parents[3] / "docs" / "elementwise.md"
BIN, EMULATOR = sys.argv[1:3]

# The largest error in ulp of f32 that each op of `math` may have; 0.5 is a correctly
# rounded result. No limit may be more than 0.1 above what is measured.
UNARY = {
    "absf": 0, "ceil": 0, "floor": 0, "round": 0, "roundeven": 0, "trunc": 0,
    "sqrt": .5, "rsqrt": .5, "cbrt": .6,
    "exp": 1.15, "exp2": .8, "expm1": 1.4, "log": .8, "log2": 1.6, "log10": 1.6, "log1p": 1.4,
    "sin": 1.5, "cos": 1.5, "tan": 2.8, "asin": 1.3, "acos": 1.0, "atan": 1.2,
    "sinh": 1.5, "cosh": 1.3, "tanh": 3.9, "asinh": 1.6, "acosh": 1.4, "atanh": 1.9,
    "erf": 3.3, "erfc": 2.3,
}
TESTS = ("isnan", "isinf", "isfinite", "isnormal")
BINARY = {"math.atan2": 1.4, "math.copysign": 0, "math.powf": 1.3, "arith.addf": .5,
          "arith.subf": .5, "arith.mulf": .5, "arith.divf": .5, "arith.maximumf": 0,
          "arith.minimumf": 0, "arith.maxnumf": 0, "arith.minnumf": 0}
POWERS = (-2, -1, -.5, 0, .5, 1, 2, 3, 4, 1 / 3)
CMPF = ("false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true").split()
CMPI = "eq ne slt sle sgt sge ult ule ugt uge".split()
# Results below 2^-126 are zero.
FLUSHED = ("math.erfc",)

INTEGERS = {
    "all": "addi subi muli maxsi minsi maxui minui andi ori xori".split(),
    "quotients": "divsi remsi floordivsi ceildivsi divui remui ceildivui".split(),
    "shifts": "shli shrsi shrui".split(),
}


class Module:
    """A function whose results are elementwise expressions of its arguments."""

    def __init__(self, arguments):
        self.arguments = arguments  # (name, element type)
        self.lines, self.results, self.count = [], [], 0

    def add(self, op, types, result=None):
        """`op` with {T} for the type; `types` are its operands' and its result's."""
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"{name} = {op} : {types}")
        if result:
            self.results.append((name, result))
        return name

    def linalg(self):
        t = "tensor<?x{}>".format
        arguments = ", ".join(f'%{n}: {t(e)} {{ejk.name = "{n}"}}' for n, e in self.arguments)
        types = ", ".join(t(e) for _, e in self.results)
        lines = "\n".join(self.lines).replace("<T<", "tensor<?x").replace(">T>", ">")
        return (f"func.func @f({arguments}) -> ({types}) {{\n{lines}\n"
                f"return {', '.join(n for n, _ in self.results)} : {types}\n}}\n")

    def scan(self):
        t = "tensor<?x?x?x8x{}>".format
        arguments = ", ".join(f'%s{n}: {t(e)} {{ejk.name = "{n}"}}' for n, e in self.arguments)
        types = ", ".join(t(e) for _, e in self.results)
        sequences = ", ".join(f"%{n} = %s{n} : {t(e)}" for n, e in self.arguments)
        lines = "\n".join(self.lines).replace("<T<", "vector<8x").replace(">T>", ">")
        outputs = ", ".join(f"%o#{i}" for i in range(len(self.results)))
        yielded = ", ".join(n for n, _ in self.results)
        vectors = ", ".join(f"vector<8x{e}>" for _, e in self.results)
        return (f"func.func @f({arguments}) -> ({types}) {{\n"
                f"%o:{len(self.results)} = ejk.scan sequences({sequences}) -> ({types}) {{\n"
                f"{lines}\n"
                f"ejk.yield outputs({yielded} : {vectors})\n}}\n"
                f"return {outputs} : {types}\n}}\n")


def of(element):
    return f"<T<{element}>T>"


def widened(array):
    # NaN is no reason for a warning.
    with np.errstate(invalid="ignore"):
        return array.astype(np.float64)


def run(text, inputs, *options):
    """The results of the module's function."""
    with tempfile.TemporaryDirectory(prefix="ejk-elementwise-") as folder:
        path = os.path.join(folder, "f.mlir")
        with open(path, "w") as file:
            file.write(text)
        names = []
        for name, array in inputs.items():
            names.append(f"{name}={folder}/{name}.npy")
            np.save(f"{folder}/{name}.npy", array)
        done = subprocess.run(
            [f"{BIN}/ejk-run", path, "--inputs=" + ",".join(names), f"--outputs={folder}/out/",
             *options], text=True, capture_output=True, check=False,
            env={**os.environ, "EJK_CUDA_DRIVER": EMULATOR})
        if done.returncode:
            sys.exit(f"{text}\n{done.stdout}{done.stderr}")
        files = sorted(Path(folder, "out").iterdir(), key=lambda f: int(f.stem[3:]))
        return [np.load(f) for f in files]


def on_kernel(text, inputs):
    return run(text, inputs, "--device=cuda", "--arch=sm_90")


def on_interpreter(text, inputs):
    return run(text, inputs, "--device=interpreter", "--precision=f64")


def ulps(result, reference, kind, flushed=False):
    """The error in units of the last place of the exact result; infinite where one is NaN
    and the other is not, or where a zero has the wrong sign."""
    digits, smallest, largest = domains.FORMATS[kind]
    result = widened(result)
    bound = 2.0 ** (largest + 1)
    size = np.minimum(np.abs(reference), np.nextafter(bound, 0))
    _, exponent = np.frexp(np.where(np.isnan(size), 1, size))
    unit = np.ldexp(1.0, np.maximum(exponent - digits, smallest - digits + 1))
    with np.errstate(invalid="ignore"):
        error = np.abs(np.clip(result, -bound, bound) - np.clip(reference, -bound, bound)) / unit
    nan, expected = np.isnan(result), np.isnan(reference)
    error = np.where(nan & expected, 0, np.where(nan | expected, np.inf, error))
    if flushed:
        error = np.where((np.abs(reference) < 2.0 ** -126) & (result == 0), 0, error)
    signs = np.signbit(result) != np.signbit(reference)
    zeros = (result == 0) | (reference == 0)
    return np.where(signs & zeros & ~nan, np.inf, error)


class Table:
    """Errors by op and type, and whether all are within their limits."""

    def __init__(self):
        self.rows, self.failures = {}, []

    def measure(self, op, kind, limit, error, operands):
        worst = int(np.argmax(error)) if len(error) else 0
        value = float(error[worst]) if len(error) else 0
        row = self.rows.setdefault(op, {})
        row[kind] = max(row.get(kind, 0), value)
        if not value <= limit + 1e-6:
            self.failures.append(f"{op} {kind}: {value:.3g} ulp, past {limit}, of "
                                 + ", ".join(repr(o[worst]) for o in operands))
        return value


def float_module(kind, arguments, expressions, reference):
    """Results of `expressions` (text, result kind) on operands rounded to `kind`."""
    outer = "f64" if reference else "f32"
    module = Module([(name, outer) for name in arguments])
    element = "f64" if reference else kind
    narrow = {}
    for name in arguments:
        narrow[name] = f"%{name}"
        if element not in ("f32", "f64"):
            narrow[name] = module.add(f"arith.truncf %{name}", f"{of('f32')} to {of(element)}")
    for text, is_test in expressions:
        op = text.format(**narrow)
        if is_test:
            bit = module.add(op, of(element))
            module.add(f"arith.uitofp {bit}", f"{of('i1')} to {of(outer)}", outer)
        elif element in ("f32", "f64"):
            module.add(op, of(element), outer)
        else:
            module.add(f"arith.extf {module.add(op, of(element))}",
                       f"{of(element)} to {of('f32')}", "f32")
    return module


def as_sequence(array):
    """B sequences of 16 steps and one head, 8 elements each."""
    return array[:len(array) // 128 * 128].reshape(-1, 16, 1, 8)


def compare_floats(table, kind, operands, cases, steps=False):
    """`cases` are (row, expression, is_test, limit); `operands` arrays of f32 by name."""
    expressions = [(text, is_test) for _, text, is_test, _ in cases]
    results = on_kernel(float_module(kind, operands, expressions, False).linalg(), operands)
    wide = {name: widened(array) for name, array in operands.items()}
    references = on_interpreter(float_module(kind, operands, expressions, True).linalg(), wide)
    for (row, _, is_test, limit), result, reference in zip(cases, results, references):
        error = ulps(result, reference, "f32" if is_test else kind, row in FLUSHED)
        if row == "math.copysign":  # NaN has no sign
            error = np.where(np.isnan(operands["y"]), 0, error)
        table.measure(row, kind, limit, error, list(operands.values()))
    if not steps:
        return
    # The same of some in a step's vectors: the same bits.
    some = slice(0, None, 8)
    shaped = {name: as_sequence(array[some]) for name, array in operands.items()}
    stepped = on_kernel(float_module(kind, operands, expressions, False).scan(), shaped)
    for (row, *_), result, other in zip(cases, results, stepped):
        flat = other.ravel()
        if not np.array_equal(result[some][:len(flat)], flat, equal_nan=True):
            table.failures.append(f"{row} {kind}: a step's vectors give other numbers")


def narrow_limit(limit, kind):
    """What f32 computes to `limit` ulp, rounded to `kind`."""
    lost = 24 - domains.FORMATS[kind][0]
    return limit if kind == "f32" or limit <= .5 else .5 + (limit + .5) * 2.0 ** -lost


def measure_tests(table, kind):
    """What is normal depends on the type, so the interpreter has the same types."""
    x = domains.numbers(kind)
    tests = [(f"math.{op} {{x}}", True) for op in TESTS]
    text = float_module(kind, ["x"], tests, False).linalg()
    for op, result, reference in zip(TESTS, on_kernel(text, {"x": x}),
                                     on_interpreter(text, {"x": x})):
        table.measure(f"math.{op}", kind, 0, np.where(result == reference, 0, np.inf), [x])


def measure_floats(table):
    for kind in domains.FORMATS:
        unary = [(f"math.{op}", f"math.{op} {{x}}", False, narrow_limit(limit, kind))
                 for op, limit in UNARY.items()]
        unary += [("arith.negf", "arith.negf {x}", False, 0)]
        measure_tests(table, kind)
        compare_floats(table, kind, {"x": domains.numbers(kind)}, unary, steps=kind == "f32")
        pairs = domains.pairs(kind)
        binary = [(op, f"{op} {{x}}, {{y}}", False, narrow_limit(limit, kind))
                  for op, limit in BINARY.items()]
        binary += [("arith.cmpf", f"arith.cmpf {p}, {{x}}, {{y}}", True, 0) for p in CMPF]
        compare_floats(table, kind, dict(zip("xy", pairs)), binary, steps=kind == "f32")
        for op, domain in (("math.powf", domains.powers), ("math.atan2", domains.angles)):
            compare_floats(table, kind, dict(zip("xy", domain(kind))),
                           [(op, f"{op} {{x}}, {{y}}", False, narrow_limit(BINARY[op], kind))])
        ternary = [("math.fma", "math.fma {x}, {y}, {z}", False, .5),
                   ("math.clampf", "math.clampf {x} to [{y}, {z}]", False, 0)]
        compare_floats(table, kind, dict(zip("xyz", domains.triples(kind))), ternary,
                       steps=kind == "f32")


def measure_constant_powers(table):
    """Some constant powers are a few multiplications, or a root."""
    x = as_sequence(domains.numbers("f32")[::8]).ravel()
    module = Module([("x", "f32")])
    for power in POWERS:
        constant = module.add(f"arith.constant dense<{float(np.float32(power))!r}>", of("f32"))
        module.add(f"math.powf %x, {constant}", of("f32"), "f32")
    results = on_kernel(module.scan(), {"x": as_sequence(x)})
    module = float_module("f32", ("x", "y"), [("math.powf {x}, {y}", False)], True)
    for power, result in zip(POWERS, results):
        wide = widened(x)
        reference, = on_interpreter(module.linalg(), {
            "x": wide, "y": np.full_like(wide, np.float64(np.float32(power)))})
        table.measure("math.powf", "f32", BINARY["math.powf"],
                      ulps(result.ravel(), reference, "f32"), [x, np.full_like(x, power)])


def measure_conversions(table):
    x = domains.numbers("f32")
    for kind in ("bf16", "f16"):
        module = Module([("x", "f32")])
        narrow = module.add("arith.truncf %x", f"{of('f32')} to {of(kind)}")
        module.add(f"arith.extf {narrow}", f"{of(kind)} to {of('f32')}", "f32")
        result, = on_kernel(module.linalg(), {"x": x})
        table.measure("arith.truncf", kind, .5, ulps(result, widened(x), kind), [x])
    for width in (32, 64):
        integer = f"i{width}"
        n = domains.integers(width)
        for op in ("sitofp", "uitofp"):
            exact = n.view(f"u{width // 8}") if op == "uitofp" else n
            for kind in domains.FORMATS:
                module = IntegerModule(width, "x")
                value = module.add(f"arith.{op} %x", f"{of(integer)} to {of(kind)}")
                if kind != "f32":
                    value = module.add(f"arith.extf {value}", f"{of(kind)} to {of('f32')}")
                module.results.append((value, "f32"))
                result, = on_kernel(module.linalg(), module.inputs(x=n))
                table.measure(f"arith.{op}", kind, narrow_limit(.50001, kind),
                              ulps(result, exact.astype(np.float64), kind), [n])
        for op, low, high in (("fptosi", -2.0 ** (width - 1), 2.0 ** (width - 1)),
                              ("fptoui", 0, 2.0 ** width)):
            inside = x[(x > low - 1) & (x < high)]
            inside = inside[np.trunc(inside) >= low]
            module = Module([("x", "f32")])
            module.add(f"arith.{op} %x", f"{of('f32')} to {of(integer)}", integer)
            result, = on_kernel(module.linalg(), {"x": inside})
            kind = f"u{width // 8}" if op == "fptoui" else f"i{width // 8}"
            same = result.view(kind) == np.trunc(inside).astype(np.float64).astype(kind)
            table.measure(f"arith.{op}", "integers", 0, np.where(same, 0.0, np.inf), [inside])


class IntegerModule(Module):
    """Operands and results of 64 bits are given as halves: the interpreter's inputs pass
    through f64, which has no such integers. `c` is 32."""

    def __init__(self, width, names):
        self.element, self.rows = f"i{width}", []
        super().__init__([(n, "i32") for n in names] if width == 32 else
                         [(n + half, "i32") for n in names for half in "hl"] + [("c", "i64")])
        for n in names if width == 64 else ():
            high = self.add(f"arith.extsi %{n}h", f"{of('i32')} to {of('i64')}")
            low = self.add(f"arith.extui %{n}l", f"{of('i32')} to {of('i64')}")
            high = self.add(f"arith.shli {high}, %c", of("i64"))
            self.lines.append(f"%{n} = arith.ori {high}, {low} : {of('i64')}")

    def give(self, row, value, element):
        self.rows.append(row)
        if element != "i64":
            self.results.append((value, element))
            return
        self.rows.append(row)
        high = self.add(f"arith.shrui {value}, %c", of("i64"))
        self.add(f"arith.trunci {high}", f"{of('i64')} to {of('i32')}", "i32")
        self.add(f"arith.trunci {value}", f"{of('i64')} to {of('i32')}", "i32")

    def inputs(self, **operands):
        if self.element == "i32":
            return operands
        result = {"c": np.full(len(next(iter(operands.values()))), 32, np.int64)}
        for name, x in operands.items():
            result[name + "h"] = (x >> 32).astype(np.int32)
            result[name + "l"] = x.astype(np.int32)
        return result

    def compare(self, table, **operands):
        """Each result must be the interpreter's."""
        inputs = self.inputs(**operands)
        results, references = (f(self.linalg(), inputs) for f in (on_kernel, on_interpreter))
        for row, result, reference in zip(self.rows, results, references):
            table.measure(row, "integers", 0, np.where(result == reference, 0.0, np.inf),
                          list(operands.values()))


def measure_integers(table):
    for width in (32, 64):
        element = f"i{width}"
        for group, ops in INTEGERS.items():
            module = IntegerModule(width, "xy")
            for op in ops:
                module.give(f"arith.{op}", module.add(f"arith.{op} %x, %y", of(element)), element)
            if group == "all":
                for predicate in CMPI:
                    bit = module.add(f"arith.cmpi {predicate}, %x, %y", of(element))
                    module.give("arith.cmpi", module.add(
                        f"arith.extui {bit}", f"{of('i1')} to {of('i32')}"), "i32")
                for op in ("absi", "ctlz", "cttz", "ctpop"):
                    module.give(f"math.{op}", module.add(f"math.{op} %x", of(element)), element)
            x, y = domains.integer_pairs(width, group)
            module.compare(table, x=x, y=y)
        module = IntegerModule(width, "xy")
        bit = module.add("arith.cmpi slt, %x, %y", of(element))
        module.give("arith.select", module.add(
            f"arith.select {bit}, %x, %y", f"{of('i1')}, {of(element)}"), element)
        module.compare(table, x=x, y=y)
    for op in ("extsi", "extui"):
        module = IntegerModule(32, "x")
        for width in (8, 16):
            short = module.add("arith.trunci %x", f"{of('i32')} to {of(f'i{width}')}")
            module.give(f"arith.{op}", module.add(
                f"arith.{op} {short}", f"{of(f'i{width}')} to {of('i32')}"), "i32")
        # 32 bits fit f64.
        module.results.append((module.add(f"arith.{op} %x", f"{of('i32')} to {of('i64')}"), "i64"))
        module.rows.append(f"arith.{op}")
        module.compare(table, x=domains.integers(32))
    for op in ("index_cast", "index_castui"):
        module = IntegerModule(32, "x")
        index = module.add(f"arith.{op} %x", f"{of('i32')} to {of('index')}")
        module.results.append((module.add(
            f"arith.{op} {index}", f"{of('index')} to {of('i64')}"), "i64"))
        module.rows.append(f"arith.{op}")
        module.compare(table, x=domains.integers(32))
    module = IntegerModule(64, "x")
    module.give("arith.trunci", module.add(
        "arith.trunci %x", f"{of('i64')} to {of('i32')}"), "i32")
    module.compare(table, x=domains.integers(64))
    x = domains.numbers("f32")
    x = x[~np.isnan(x)]
    module = Module([("x", "f32")])
    module.add("arith.bitcast %x", f"{of('f32')} to {of('i32')}", "i32")
    result, = on_kernel(module.linalg(), {"x": x})
    table.measure("arith.bitcast", "integers", 0,
                  np.where(result == x.view(np.int32), 0.0, np.inf), [x])


def measure_integer_powers(table):
    for kind in domains.FORMATS:
        x, n = domains.integer_powers(kind)
        modules = []
        for element in (kind, "f64"):
            outer = "f64" if element == "f64" else "f32"
            module = Module([("x", outer), ("n", "i32")])
            base = "%x"
            if element in ("bf16", "f16"):
                base = module.add("arith.truncf %x", f"{of('f32')} to {of(element)}")
            power = module.add(f"math.fpowi {base}, %n", f"{of(element)}, {of('i32')}",
                               outer if element in ("f32", "f64") else None)
            if element in ("bf16", "f16"):
                module.add(f"arith.extf {power}", f"{of(element)} to {of('f32')}", "f32")
            modules.append(module.linalg())
        result, = on_kernel(modules[0], {"x": x, "n": n})
        reference, = on_interpreter(modules[1], {"x": x.astype(np.float64), "n": n})
        table.measure("math.fpowi", kind, narrow_limit(.9, kind), ulps(result, reference, kind),
                      [x, n])


INTRODUCTION = """\
<!-- Written by test/lowering/Inputs/elementwise.py, which measured it; edit that. -->
# Elementwise ops in kernels

For someone who writes elementwise ops in a step or a function and asks how exact they are: what a kernel computes for each op
of `arith` and `math`, and how far that is from the exact result. A kernel needs no device library: `--ejk-legalize-kernel-math` makes each op instructions.

A number is the largest error in ulp, the distance between the two floating-point numbers around the exact result: 0.50 is
a correctly rounded result, 0 an exact one. It was measured on the emulator against the f64 interpreter, over the whole
domain of the op: each binade of both signs, both zeros, denormals, infinities, NaN, and the neighbourhoods of points where
a formula changes or a result overflows. Ops of bf16 and f16 are computed in f32 and rounded; of those with one operand
all 65,536 numbers were tried. Vectors in a step and elements of a tensor give the same bits.

- `math.erfc` gives zero where the result is below 2^-126. All other ops give denormal results, and all ops
  take denormal operands as they are.
- `math.exp`, `math.rsqrt` and quotients by what lies between bounds (as 1 + e^-x of a sigmoid does) are computed with
  `ex2.approx`, `rsqrt.approx` and `rcp.approx`. The emulator rounds these correctly. A GPU's are off by up to 2^-22.5, 2^-22.9
  and 2^-23 of the result (the PTX manual): of two million numbers `math.exp` was off by 1.9 ulp at most on an H200, and
  `math.rsqrt` by 1.5. Quotients are made exact by their residual, so that hardly one in a million is the second nearest number;
  below 2^-100 they may be zero instead. `math.log1p` of what lies between 0 and 1 is off by 1.4 ulp at most.
- NaN and infinities are those of IEEE 754 (and of C's `pow` and `atan2`). `maximumf` and `minimumf` are NaN where one
  operand is, `maxnumf` and `minnumf` are the other operand; -0 is less than +0 for all four.
- `math.clampf` is the minimum of the upper bound and the maximum of the lower bound and x: where the bounds are the wrong
  way around, it is the upper one.
- Integer division by zero, its overflow, a shift by the width or more, and a conversion of what an integer type does not
  hold are undefined.
- f64 has `addf`, `subf`, `mulf`, `divf`, `negf`, comparisons, conversions and the ops of `math` that are exact.
  `arith.remf`, `math.ipowi` and `math.sincos` have no form in a kernel: a diagnostic says so.

| op | f32 | bf16 | f16 |
|---|---|---|---|
"""


def page(table):
    def cell(row, kind):
        if "integers" in row:
            return "0" if kind == "f32" else ""
        if kind not in row:
            return ""
        value = row[kind]
        return "0" if value == 0 else f"{math.ceil(value * 100 - 1e-3) / 100:.2f}"
    lines = [f"| `{op}` | " + " | ".join(cell(row, kind) for kind in domains.FORMATS) + " |"
             for op, row in sorted(table.rows.items())]
    return INTRODUCTION + "\n".join(lines) + "\n"


def main():
    table = Table()
    measure_floats(table)
    measure_constant_powers(table)
    measure_integer_powers(table)
    measure_conversions(table)
    measure_integers(table)
    for op, limit in [(f"math.{op}", limit) for op, limit in UNARY.items()] + list(BINARY.items()):
        value = table.rows[op]["f32"]
        if limit > value + .1:
            table.failures.append(f"{op}: {value:.3g} ulp, so the limit of {limit} is loose")
    for failure in table.failures:
        print(failure)
    text = page(table)
    if "--check" not in sys.argv:
        PAGE.write_text(text)
    elif PAGE.read_text() != text:
        sys.stdout.writelines(difflib.unified_diff(
            PAGE.read_text().splitlines(True), text.splitlines(True), str(PAGE), "measured"))
        table.failures.append("the page is not what was measured")
    print(f"{len(table.rows)} ops, {len(table.failures)} failures")
    return 1 if table.failures else 0


if __name__ == "__main__":
    sys.exit(main())
