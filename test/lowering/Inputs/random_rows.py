#!/usr/bin/python3
"""Random functions of rows, on the emulator or a CPU, against the f64 interpreter.

    random_rows.py BIN EMULATOR FOLDER --seed N --cases N [--device cpu]

A function has one to three sequences, some of them shifted, with given rows beyond their ends, packed or
not, in either direction, in half of the cases with rows that lie apart; weights; sums and maxima over
channels; sigmoids and norms; and sums over rows, which gradients of weights are. Rows of every fifth
function are numbers of a head. Exit status 1 where a result is past its tolerance; the function's file is then kept in FOLDER.
"""
import argparse
import os
import random
import subprocess
import sys
from pathlib import Path

CHANNELS = (1, 1, 1, 1, 1, 8, 12, 16, 24, 31, 32, 40, 48, 64, 80, 96, 100, 128, 130, 192, 256, 300, 320, 384, 512)
HEADS, HEADS_OF_NUMBERS = (1, 2, 3), (1, 2, 7, 8, 9, 20)
SHIFTS = (-7, -3, -2, -1, 1, 2, 3, 5)
STEPS = (1, 2, 5, 17, 33, 64, 90, 130, 300)


class Function:
    """The text of a random function, and the sizes that it may be run with."""

    def __init__(self, draw):
        self.draw = draw
        self.channels = draw.choice(CHANNELS)
        self.dtype = draw.choice(("bf16", "f16", "f32"))
        self.packed = draw.random() < .4
        self.vector, self.bits = self.of("f32"), self.of("i1")
        self.arguments, self.before, self.rows, self.parameters, self.lines = [], [], [], [], []
        self.vectors, self.numbers, self.count = [], [], 0
        self.offsets = " cu_seqlens(%cu : tensor<?xi32>)" if self.packed else ""
        self.over_time = "1x?x?" if self.packed else "?x?x?"

    def of(self, element):
        """A row's type."""
        return element if self.channels == 1 else f"vector<{self.channels}x{element}>"

    def tensor(self, prefix, element):
        """A tensor of such rows."""
        return f"tensor<{prefix}x{element}>" if self.channels == 1 else f"tensor<{prefix}x{self.channels}x{element}>"

    def value(self, text, name=None):
        self.count += 1
        name = name or f"%v{self.count}"
        self.lines.append(f"{name} = {text}")
        return name

    def constant(self, number):
        splat = number if self.channels == 1 else f"dense<{number}>"
        return self.value(f"arith.constant {splat} : {self.vector}")

    def row(self, name, tensor, dtype):
        """A row of a sequence, in f32."""
        self.rows.append(f"%{name} = {tensor} : {self.tensor(self.over_time, dtype)}")
        narrow = self.of(dtype)
        self.vectors.append(f"%{name}" if dtype == "f32"
                            else self.value(f"arith.extf %{name} : {narrow} to {self.vector}"))

    def sequence(self, number, dtype):
        type_ = self.tensor(self.over_time, dtype)
        self.arguments.append(f"%x{number}: {type_}")
        self.row(f"row{number}", f"%x{number}", dtype)
        for by in self.draw.sample(SHIFTS, self.draw.choice((0, 0, 1, 3))):
            name = f"{number}_{by}".replace("-", "m")
            given = ""
            if self.draw.random() < .4:
                halo = self.tensor(f"?x{abs(by) + self.draw.randint(0, 2)}x?", dtype)
                self.arguments.append(f"%halo{name}: {halo}")
                given = f" halo(%halo{name} : {halo})"
            self.before.append(f"%shift{name} = ejk.shift %x{number} by {by}{given}{self.offsets} : {type_}")
            self.row(f"shifted{name}", f"%shift{name}", dtype)

    def norm(self, x):
        square = self.value(f"arith.mulf {x}, {x} : {self.vector}")
        total = self.value(f"ejk.sum {square} : {self.vector}")
        one = self.value("arith.constant 1.0 : f32")
        root = self.value(f"math.rsqrt {self.value(f'arith.addf {total}, {one} : f32')} : f32")
        return self.value(f"arith.mulf {self.spread(root)}, {x} : {self.vector}")

    def spread(self, number):
        return self.value(f"vector.broadcast {number} : f32 to {self.vector}")

    def quotient(self, x):
        """x / (1 + e^-|x|), whose divisor's bounds the compiler knows."""
        zero, one = self.constant("0.0"), self.constant("1.0")
        below = self.value(f"arith.cmpf olt, {x}, {zero} : {self.vector}")
        minus = self.value(f"arith.negf {x} : {self.vector}")
        size = self.value(f"arith.select {below}, {x}, {minus} : {self.bits}, {self.vector}")
        power = self.value(f"math.exp {size} : {self.vector}")
        divisor = self.value(f"arith.addf {power}, {one} : {self.vector}")
        return self.value(f"arith.divf {x}, {divisor} : {self.vector}")

    def step(self):
        x, y = self.draw.choice(self.vectors), self.draw.choice(self.vectors)
        kinds = ("addf", "mulf", "subf", "quotient", "tanh", "sum", "max", "spread", "norm")
        kind = self.draw.choice(kinds[:5] if self.channels == 1 else kinds)
        if kind in ("sum", "max"):
            self.numbers.append(self.value(f"ejk.{kind} {x} : {self.vector}"))
        elif kind == "spread":
            if self.numbers:
                small = self.value(f"math.tanh {self.draw.choice(self.numbers)} : f32")
                self.vectors.append(self.value(f"arith.mulf {self.spread(small)}, {x} : {self.vector}"))
        elif kind == "tanh":
            self.vectors.append(self.value(f"math.tanh {x} : {self.vector}"))
        elif kind in ("quotient", "norm"):
            self.vectors.append(getattr(self, kind)(x))
        else:
            self.vectors.append(self.value(f"arith.{kind} {x}, {y} : {self.vector}"))

    def text(self):
        draw = self.draw
        for number in range(draw.randint(1, 3)):
            self.sequence(number, self.dtype if number == 0 else draw.choice(("bf16", "f32", self.dtype)))
        if draw.random() < .4:
            self.arguments.append(f"%z: tensor<{self.over_time}xf32>")
            self.rows.append(f"%number = %z : tensor<{self.over_time}xf32>")
            self.numbers.append("%number")
        if draw.random() < .5:
            type_ = self.tensor("?", "f32")
            self.arguments.append(f"%w: {type_}")
            self.parameters.append(f"%weight = %w : {type_} as {self.vector}")
            self.vectors.append("%weight")
        for _ in range(draw.randint(3, 9)):
            self.step()
        states = []
        if draw.random() < .5:
            added = self.value(f"arith.addf %S, {draw.choice(self.vectors)} : {self.vector}")
            states.append(("%S", self.tensor("?x?", "f32"), added, self.vector))
        if draw.random() < .3 and self.numbers:
            added = self.value(f"arith.addf {draw.choice(self.numbers)}, %N : f32")
            states.append(("%N", "tensor<?x?xf32>", added, "f32"))
        output, narrow = self.vectors[-1], self.of(self.dtype)
        if self.dtype != "f32":
            output = self.value(f"arith.truncf {output} : {self.vector} to {narrow}")
        if self.packed:
            self.arguments.append("%cu: tensor<?xi32>")
        types = [self.tensor(self.over_time, self.dtype), *(s[1] for s in states)]
        names = ["%o", *(f"%sum{i}" for i in range(len(states)))]
        lines = [*self.before, f"{', '.join(names)} = ejk.scan{' reverse' if draw.random() < .3 else ''}{self.offsets}",
                 f"    sequences({', '.join(self.rows)})"]
        if self.parameters:
            lines.append(f"    parameters({', '.join(self.parameters)})")
        carried = ""
        if states:
            lines.append("    states(" + ", ".join(f"{s[0]} = zero : {s[1]}" for s in states) + ")")
            carried = f" states({', '.join(s[2] for s in states)} : {', '.join(s[3] for s in states)})"
        lines += [f"    -> ({types[0]}) {{", *self.lines, f"ejk.yield{carried} outputs({output} : {narrow})", "}",
                  f"return {', '.join(names)} : {', '.join(types)}"]
        body = "\n  ".join(lines)
        return f"func.func @f({', '.join(self.arguments)}) -> ({', '.join(types)}) {{\n  {body}\n}}\n"


def run(options, file, sizes, how):
    """Runs the function; sizes that it names itself are numbers of heads, sequences or batches."""
    environment = dict(os.environ, EJK_CUDA_DRIVER=options.emulator)
    while True:
        text = ",".join(f"{name}={size}" for name, size in sizes.items())
        done = subprocess.run([options.bin + "/ejk-run", str(file), "--random", text, f"--device={options.device}",
                               "--check", *how], capture_output=True, text=True, env=environment)
        said = done.stdout + done.stderr
        if "also needs sizes for: " not in said:
            return done.returncode, text, said
        for name in said.split("also needs sizes for: ")[1].splitlines()[0].split(", "):
            sizes[name] = sizes["H"] if name.startswith("H") else sizes.get("N", sizes.get("B"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("emulator")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=10)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for case in range(options.cases):
        draw = random.Random(options.seed * 100003 + case)
        function = Function(draw)
        file = options.folder / f"rows-{options.seed}-{case}.mlir"
        file.write_text(function.text())
        sizes = {"T": draw.choice(STEPS), "H": draw.choice(HEADS_OF_NUMBERS if function.channels == 1 else HEADS)}
        sizes["N" if function.packed else "B"] = draw.choice((1, 2))
        how = [*(["--vjp"] if draw.random() < .4 else []), *(["--row-gap=40"] if draw.random() < .5 else [])]
        status, text, said = run(options, file, sizes, how)
        if status:
            failed += 1
            print(f"{file}, {text} {' '.join(how)}:",
                  *[line for line in said.splitlines() if "FAIL" in line or "rror" in line][:3])
        else:
            file.unlink()
    print(f"{options.cases} cases, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
