"""Compares derivatives of elementwise ops, and their derivatives, with differences in f64.

    elementwise-derivatives.py BIN      BIN holds ejk-opt and ejk-run
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

BIN = sys.argv[1]
COUNT = 64
REAL, POSITIVE, UNIT, ABOVE_ONE = (-2.5, 2.5), (.2, 3), (-.85, .85), (1.05, 4)
# Op, the intervals of its operands, and what it says between and after them.
OPS = {
    "arith.addf": [REAL, REAL], "arith.subf": [REAL, REAL], "arith.mulf": [REAL, REAL],
    "arith.divf": [REAL, POSITIVE], "arith.negf": [REAL], "arith.maximumf": [REAL, REAL],
    "arith.minimumf": [REAL, REAL], "arith.maxnumf": [REAL, REAL], "arith.minnumf": [REAL, REAL],
    "math.fma": [REAL, REAL, REAL], "math.exp": [REAL], "math.exp2": [REAL],
    "math.expm1": [REAL], "math.log": [POSITIVE], "math.log2": [POSITIVE],
    "math.log10": [POSITIVE], "math.log1p": [(-.9, 3)], "math.sqrt": [POSITIVE],
    "math.rsqrt": [POSITIVE], "math.cbrt": [POSITIVE], "math.sin": [REAL], "math.cos": [REAL],
    "math.tan": [(-1.3, 1.3)], "math.asin": [UNIT], "math.acos": [UNIT], "math.atan": [REAL],
    "math.atan2": [REAL, (-3, -.2)], "math.sinh": [REAL], "math.cosh": [REAL],
    "math.tanh": [REAL], "math.asinh": [REAL], "math.acosh": [ABOVE_ONE], "math.atanh": [UNIT],
    "math.erf": [REAL], "math.erfc": [REAL], "math.absf": [REAL], "math.copysign": [REAL, REAL],
    "math.powf": [POSITIVE, REAL], "math.fpowi": [POSITIVE, "integers"],
    "math.clampf": [REAL, (-1.5, -.5), (.5, 1.5)],
    "math.floor": [REAL], "math.roundeven": [REAL], "math.trunc": [REAL],
}
NAN, INF = float("nan"), float("inf")
# Op, operands, and the gradient of each: points where a rule says what no difference can.
CONVENTIONS = [
    ("math.powf", (0, 2), (0, 0)), ("math.powf", (0, 1), (1, 0)), ("math.powf", (0, 0), (0, 0)),
    ("math.powf", (0, .5), (INF, 0)), ("math.powf", (2, 0), (0, np.log(2))),
    ("math.powf", (-2, 3), (12, NAN)), ("math.powf", (-2, 0), (0, NAN)),
    ("math.fpowi", (0, 0), (0,)), ("math.fpowi", (0, 1), (1,)), ("math.fpowi", (0, 2), (0,)),
    ("math.fpowi", (-2, 3), (12,)), ("math.fpowi", (2, -1), (-.25,)),
    # At a bound x counts as taken; of bounds the wrong way around the upper one is.
    ("math.clampf", (-1, -1, 1), (1, 0, 0)), ("math.clampf", (1, -1, 1), (1, 0, 0)),
    ("math.clampf", (-2, -1, 1), (0, 1, 0)), ("math.clampf", (2, -1, 1), (0, 0, 1)),
    ("math.clampf", (0, 1, -1), (0, 0, 1)), ("math.clampf", (-2, 1, -1), (0, 0, 1)),
    ("math.cbrt", (0,), (INF,)), ("math.sqrt", (0,), (INF,)), ("math.asin", (1,), (INF,)),
    ("math.acosh", (1,), (INF,)), ("math.atanh", (1,), (INF,)),
    ("math.absf", (0,), (0,)), ("math.copysign", (0, -1), (0, 0)),
    ("math.copysign", (-2, 3), (-1, 0)),
    ("math.atan2", (0, -1), (-1, 0)), ("math.atan2", (1e-200, 1e-200), (5e199, -5e199)),
    ("math.atan2", (0, 0), (NAN, NAN)),
    ("arith.maximumf", (1, 1), (.5, .5)), ("arith.minimumf", (1, 1), (.5, .5)),
    ("arith.maxnumf", (1, 1), (1, 0)), ("arith.minnumf", (1, 1), (1, 0)),
    ("arith.maxnumf", (NAN, 1), (0, 1)), ("arith.maxnumf", (1, NAN), (1, 0)),
    ("arith.minnumf", (NAN, 1), (0, 1)), ("arith.minnumf", (1, NAN), (1, 0)),
    # Where 1 - tanh² and expm1 + 1 cancel, and where squares overflow.
    ("math.tanh", (40,), (4 * np.exp(-80),)), ("math.expm1", (-60,), (np.exp(-60),)),
    ("math.asinh", (1e200,), (1e-200,)), ("math.acosh", (1e200,), (1e-200,)),
]
STEP = 1e-3
WEIGHTS = {-2: 1 / 12, -1: -8 / 12, 1: 8 / 12, 2: -1 / 12}
# The differences' own error is STEP⁴ times fifth derivatives, and 1e-13 of rounding.
TOLERANCE = 1e-7


def short(op):
    return op.replace(".", "_")


def function():
    t = "tensor<?xf64>"
    arguments, lines, results = [], [], []
    for op, domains in OPS.items():
        names = [f"%{short(op)}_{i}" for i in range(len(domains))]
        types = ["tensor<?xi32>" if d == "integers" else t for d in domains]
        arguments += [f'{n}: {type_} {{ejk.name = "{n[1:]}"}}' for n, type_ in zip(names, types)]
        operands = ", ".join(names)
        if op == "math.clampf":
            operands = f"{names[0]} to [{names[1]}, {names[2]}]"
        signature = ", ".join(types) if "integers" in domains else t
        lines.append(f"  %r_{short(op)} = {op} {operands} : {signature}")
        results.append(f"%r_{short(op)}")
    types = ", ".join([t] * len(results))
    return (f"func.func @f({', '.join(arguments)}) -> ({types}) {{\n" + "\n".join(lines)
            + f"\n  return {', '.join(results)} : {types}\n}}\n")


class Runner:
    def __init__(self, folder):
        self.folder, self.path = folder, os.path.join(folder, "f.mlir")
        done = subprocess.run(
            [f"{BIN}/ejk-opt", "-", "--ejk-derive-backward=function=f",
             "--ejk-derive-backward=function=f_vjp", "-o", self.path],
            input=function(), text=True, capture_output=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)

    def run(self, entry, inputs):
        names = []
        for name, array in inputs.items():
            np.save(f"{self.folder}/{name}.npy", array)
            names.append(f"{name}={self.folder}/{name}.npy")
        done = subprocess.run(
            [f"{BIN}/ejk-run", self.path, f"--entry={entry}", "--device=interpreter",
             "--precision=f64", "--inputs=" + ",".join(names),
             f"--outputs={self.folder}/{entry}/"], text=True, capture_output=True, check=False)
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        return {f.stem: np.load(f) for f in Path(self.folder, entry).iterdir()}

    def differences(self, entry, inputs, operand):
        """The slope of each result by operand number `operand` of all ops."""
        total = {}
        for steps, weight in WEIGHTS.items():
            moved = {n: a + steps * STEP if n.endswith(f"_{operand}") and a.dtype == np.float64
                     else a for n, a in inputs.items()}
            for name, value in self.run(entry, moved).items():
                total[name] = total.get(name, 0) + value * (weight / STEP)
        return total


def operands():
    random = np.random.default_rng(1)
    values = {}
    for op, domains in OPS.items():
        for i, domain in enumerate(domains):
            values[f"{short(op)}_{i}"] = (
                random.integers(-4, 5, COUNT).astype(np.int32) if domain == "integers"
                else random.uniform(*domain, COUNT))
    # No kink is nearer than the differences reach.
    for name in list(values):
        op = name.rsplit("_", 1)[0]
        first, second = values.get(f"{op}_0"), values.get(f"{op}_1")
        if op.split("_")[1] in ("maximumf", "minimumf", "maxnumf", "minnumf"):
            values[f"{op}_1"] = np.where(np.abs(first - second) < .01, first + .1, second)
        if op.split("_")[1] in ("absf", "copysign", "floor", "trunc", "roundeven"):
            values[name] = np.floor(values[name]) + .25 + .2 * (values[name] % 1)
        if op == "math_clampf":
            for bound in (values[f"{op}_1"], values[f"{op}_2"]):
                values[f"{op}_0"] = np.where(np.abs(first - bound) < .01, bound + .1, first)
                first = values[f"{op}_0"]
    return values


def close(actual, expected):
    scale = np.maximum(1, np.abs(expected))
    return np.abs(actual - expected) / scale < TOLERANCE


def main():
    failures = []
    with tempfile.TemporaryDirectory(prefix="ejk-derivatives-") as folder:
        runner = Runner(folder)
        values = operands()
        index = {op: i for i, op in enumerate(OPS)}
        cotangents = {f"dout{i}": np.full(COUNT, 1.5) for i in range(len(OPS))}
        gradients = runner.run("f_vjp", {**values, **cotangents})
        random = np.random.default_rng(2)
        seconds = {f"d{name}": random.uniform(.5, 1.5, COUNT) for name in gradients}
        second = runner.run("f_vjp_vjp", {**values, **cotangents,
                                          **{f"d{n}": seconds[f"d{n}"] for n in gradients}})
        for operand in range(3):
            slopes = runner.differences("f", values, operand)
            bends = runner.differences("f_vjp", {**values, **cotangents}, operand)
            for op, domains in OPS.items():
                name = f"d{short(op)}_{operand}"
                if operand >= len(domains) or name not in gradients:
                    continue
                expected = 1.5 * slopes[f"out{index[op]}"]
                if not close(gradients[name], expected).all():
                    worst = np.argmin(close(gradients[name], expected))
                    failures.append(f"{op}: operand {operand}: {gradients[name][worst]!r}, "
                                    f"differences say {expected[worst]!r}")
                expected = sum(seconds[f"d{n}"] * bends[n] for n in gradients
                               if n.startswith(f"d{short(op)}_"))
                if not close(second[name], expected).all():
                    worst = np.argmin(close(second[name], expected))
                    failures.append(f"{op}: second derivative by operand {operand}: "
                                    f"{second[name][worst]!r}, differences say "
                                    f"{expected[worst]!r}")
        failures += check_conventions(runner, values)
    for failure in failures:
        print(failure)
    print(f"{len(OPS)} ops, {len(failures)} failures")
    return 1 if failures else 0


def check_conventions(runner, values):
    failures = []
    for op, points, expected in CONVENTIONS:
        inputs = {name: value[:1] for name, value in values.items()}
        for i, x in enumerate(points):
            inputs[f"{short(op)}_{i}"] = np.array([x]).astype(values[f"{short(op)}_{i}"].dtype)
        inputs.update({f"dout{i}": np.ones(1) for i in range(len(OPS))})
        gradients = runner.run("f_vjp", inputs)
        for i, value in enumerate(expected):
            actual = gradients[f"d{short(op)}_{i}"][0]
            if not np.isclose(actual, value, rtol=1e-12, atol=0, equal_nan=True):
                failures.append(f"{op} at {points}: operand {i} has {actual}, expected {value}")
    return failures


if __name__ == "__main__":
    sys.exit(main())
