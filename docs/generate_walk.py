#!/usr/bin/python3
"""Writes docs/from-scan-to-ptx.md by running each pass on one example.

    docs/generate_walk.py BIN            writes it; BIN holds ejk-opt and ejk-compile
    docs/generate_walk.py BIN --check    says whether it is what it would write

Long stages are shown in part: around the lines that matter, with what was left out.
"""
import difflib
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent / "from-scan-to-ptx.md"
EXAMPLE = """\
func.func @f(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
             %g: tensor<?x?x?xf32>) -> tensor<?x?x?x64xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x?xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o : tensor<?x?x?x64xbf16>
}
"""
INTRODUCTION = """\
<!-- Written by docs/generate_walk.py, which ran every command here; edit that. -->
# From a scan to PTX

One recurrence with a gate per head, taken by chunks: the IR after each pass, down to the instruction that multiplies
tiles. `docs/generate_walk.py` writes this page by running the commands on it, and a test compares.

```mlir
{example}```
"""

# Title, what it is about, arguments, and the patterns whose surroundings are shown
# (None: everything).
STAGES = [
    ("The scan", """\
`--ejk-specialize` names and describes the arguments, drops what gates are not there, and writes the recurrence as the
one canonical loop: a region that is one step. The default scale has become a multiplication.""",
     ["ejk-opt", "--ejk-specialize"], None, "mlir"),
    ("The block program", """\
`--ejk-to-tile` (that is `--ejk-chunk` and a clean-up) derives what one thread block does for one sequence and head, 64
steps at a time. A step's scalar is now a vector of 64, its vectors are 64×64 tiles. With G the running sum of the gates,
q, k and v the chunk's rows and S the state, the products are those of the chunkwise form:

| op | formula |
|---|---|
| first `tile.dot` | q S, then times e^G by rows: what the steps before the chunk give |
| second | P = q kᵀ, then times e^(G_i − G_j) where j ≤ i, and 0 elsewhere (`tile.keep` puts −∞ into the exponent) |
| third | P v, added to the first |
| fourth | kᵀ (v ∘ e^(G_C − G_j)), added to e^(G_C) S: the state after the chunk |

Rounding is in sight: `arith.truncf` where a product takes 16 bits, everything else f32. Gates are split into multiples
of 1/128, whose sums are exact, and remainders, so that G_i − G_j keeps its digits next to gates of any size.""",
     ["ejk-opt", "--ejk-specialize", "--ejk-to-tile"], None, "mlir"),
    ("Layouts", """\
`--ejk-assign-tile-layouts` says how each tile lies over the block's threads and makes every change of layout a
`tile.convert`, so that what it costs can be seen and counted. Rows that only products take are loaded straight to shared
memory; results of products lie in `mma.sync`'s accumulator fragments, spread over the warps; a vector over the steps has
an element per lane.""",
     ["ejk-opt", "--ejk-specialize", "--ejk-to-tile", "--ejk-assign-tile-layouts"], None, "mlir"),
    ("Copies ahead", """\
`--ejk-select-stages` lets the loads become copies through a ring of stages: while one chunk is worked on, the rows of the
next ones arrive. The lowering does no more than it says. Around what an iteration takes, and what it releases:""",
     ["ejk-opt", "--ejk-specialize", "--ejk-to-tile", "--ejk-assign-tile-layouts", "--ejk-select-stages"],
     [r"scf\.for", r"tile\.release"], "mlir"),
    ("Roles", """\
`--ejk-specialize-warps`, which `--roles` asks for, gives the copies to warps of their own. The producer's part:""",
     ["ejk-opt", "--ejk-specialize", "--ejk-to-tile", "--ejk-assign-tile-layouts", "--ejk-select-stages",
      "--ejk-specialize-warps", "--cse"],
     [r'tile\.role "producer"', r"scf\.for %\w+ = %c0 to %0 step %c1 \{"], "mlir"),
    ("Threads", """\
`--ejk-to-gpu` turns the program into a kernel of upstream `gpu`, `scf`, `arith`, `llvm` and `nvvm` ops and the function
into a launch. Each tile is now what one thread has of it; a `tile.dot` is a loop nest of loads of operand fragments and
`mma.sync`. Around the first one:""",
     ["ejk-opt", "--ejk-specialize", "--ejk-to-tile", "--ejk-to-gpu"],
     [r"nvvm\.mma\.sync", r"gpu\.launch_func"], "mlir"),
    ("PTX", """\
`--ejk-to-nvvm`, upstream's translation to LLVM IR and its NVPTX back end give the text that the package holds. The same
place:""",
     ["ejk-compile", "--emit=ptx"], [r"mma\.sync", r"cp\.async"], "ptx"),
]
AROUND = 4


def run(folder, command, text):
    done = subprocess.run([str(folder / command[0]), *command[1:]], input=text, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def excerpt(text, patterns):
    """The lines around the first match of each pattern."""
    lines = text.splitlines()
    shown = set()
    for pattern in patterns:
        at = next((i for i, line in enumerate(lines) if re.search(pattern, line)), None)
        if at is None:
            raise SystemExit(f"nothing matches {pattern}")
        shown.update(range(max(0, at - AROUND), min(len(lines), at + AROUND + 1)))
    result, last = [], -1
    for i in sorted(shown) + [len(lines)]:
        if i > last + 1:
            result.append(f"… {i - last - 1} lines")
        if i < len(lines):
            result.append(lines[i].strip())
        last = i
    return "\n".join(result) + "\n"


def short(text):
    """Without attributes that say the same on every line of a signature."""
    return re.sub(r" \{(?:ejk\.log_decay, )?ejk\.name = [^}]*\}", "", text)


def page(folder):
    parts = [INTRODUCTION.format(example=EXAMPLE)]
    tiles = run(folder, ["ejk-opt", "--ejk-specialize", "--ejk-to-tile"], EXAMPLE)
    for title, about, command, patterns, language in STAGES:
        text = run(folder, command, tiles if command[0] == "ejk-compile" else EXAMPLE)
        text = excerpt(text, patterns) if patterns else short(text)
        spelled = " ".join(command)
        parts.append(f"## {title}\n\n{about}\n\n`{spelled}`\n\n```{language}\n{text}```\n")
    return "\n".join(parts)


def main(arguments):
    if len(arguments) not in (1, 2) or arguments[1:] not in ([], ["--check"]):
        raise SystemExit(__doc__)
    wanted = page(Path(arguments[0]))
    if len(arguments) == 1:
        PAGE.write_text(wanted, encoding="utf-8")
        return 0
    found = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    differences = list(difflib.unified_diff(found.splitlines(True), wanted.splitlines(True),
                                            "docs/from-scan-to-ptx.md", "what the passes give"))
    sys.stdout.writelines(differences)
    if differences:
        print("The page is behind the passes: run docs/generate_walk.py")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
