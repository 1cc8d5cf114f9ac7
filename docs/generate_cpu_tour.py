#!/usr/bin/python3
"""Writes docs/from-scan-to-cpu.md by compiling one example to each level.

    docs/generate_cpu_tour.py BIN            writes it; BIN holds ejk-compile
    docs/generate_cpu_tour.py BIN --check    says whether it is what it would write
"""
import sys
from pathlib import Path

import generate_tour as tour

PAGE = Path(__file__).resolve().parent / "from-scan-to-cpu.md"
INTRODUCTION = """\
<!-- Written by docs/generate_cpu_tour.py, which ran every command here; edit that. -->
# From a scan to a CPU's instructions

For someone who knows CPUs and has not read ejk's sources. The page follows one recurrence, with a gate per head, to the instructions of
`x86-64-v4`, and to a chunk's matmuls on `x86-64-v4-bf16`. `docs/generate_cpu_tour.py` writes the page by running its commands, and a test compares.
[cpu.md](cpu.md) says how kernels are planned and how fast they are.

```mlir
{example}```

Each command reads this file. `CPU` stands for `--target=cpu --cpu-arch=x86-64-v4`, `BF16` for
`--target=cpu --cpu-arch=x86-64-v4-bf16 --schedule=chunk`.
"""
CPU = ["--target=cpu", "--cpu-arch=x86-64-v4"]
BF16 = ["--target=cpu", "--cpu-arch=x86-64-v4-bf16", "--schedule=chunk"]
STAGES = [
    ("The scan", """\
`ejk-specialize` writes the recurrence as the canonical loop, as for a GPU: decay the state, add the outer product of k and v, read it with q.""",
     "", ["--emit=scan"], [(r"ejk\.scan", 0, r"ejk\.yield")], "mlir"),
    ("Four steps in one pass", """\
`ejk-lower-to-cpu` makes the scan a kernel in `vector`, `scf`, `math` and `llvm`. A row of the state, of 32 columns, is loaded once for four steps. Each step
reads it by a multiply-add with a number of q, and adds its outer product by another; sums and outer products stay in registers. Every 8 rows it
asks for cache lines of the next chunk. The loop over the rows:""",
     "CPU", ["--emit=gpu", *CPU], [(r"vector<32xf32>, vector<32xf32>, vector<32xf32>, vector<32xf32>\)", 0, r"scf\.yield %\w+, %\w+, %\w+, %\w+ :")], "mlir"),
    ("Instructions", """\
`ejk-cpu-to-llvm` and LLVM leave the loop as it was written: a vector of 32 columns is two registers, and a number of q or k is
broadcast and multiplies both. The four sums, the four columns' sides of the outer products and the decay stay in registers.""",
     "CPU", ["--emit=asm", *CPU], [(r"vbroadcastss\s+-768\(", 3, r"^\s+j")], "asm"),
    ("A chunk's matmul", """\
With AVX512-BF16 a chunk of 32 steps is a block program, the one that GPUs have. Its first matmul is q kᵀ under the causal mask, in blocks of 16 rows and
a register of columns: 16 registers of sums. Each `vdpbf16ps` multiplies 16 pairs of k's numbers by one pair of q's, and adds both products.""",
     "BF16", ["--emit=asm", *BF16], [(r"vdpbf16ps", 3, 20)], "asm"),
]


def page(folder):
    parts = [INTRODUCTION.format(example=tour.EXAMPLE)]
    for title, about, short, arguments, wanted, language in STAGES:
        text = tour.excerpt(tour.short(tour.run(folder, arguments)).expandtabs(2), wanted)
        spelled = " ".join([arguments[0], short]).strip()
        parts.append(f"## {title}\n\n{about}\n\n`ejk-compile {spelled}`\n\n```{language}\n{text}```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(tour.write_or_compare(sys.argv[1:], __doc__, PAGE, page))
