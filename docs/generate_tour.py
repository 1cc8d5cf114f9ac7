#!/usr/bin/python3
"""Writes docs/from-scan-to-ptx.md by compiling one example to each level.

    docs/generate_tour.py BIN            writes it; BIN holds ejk-compile
    docs/generate_tour.py BIN --check    says whether it is what it would write

Long levels are shown in part: around the lines that matter, with the number of lines left out.
"""
import difflib
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent / "from-scan-to-ptx.md"
PICTURE = PAGE.parent / "plots" / "schedule.svg"
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
<!-- Written by docs/generate_tour.py, which ran every command here; edit that. -->
# From a scan to PTX

For someone who knows GPUs and has not read ejk's sources. The page follows one recurrence, with a gate per head, from the
user's op to the instructions of a Hopper GPU (`sm_90a`): tensor cores through `wgmma`, copies through TMA, a ring of
stages in shared memory. After that it follows the recurrence's derivative to the one kernel that computes all gradients.
`docs/generate_tour.py` writes the page by running its commands, and a test compares. [passes.md](passes.md) describes each
pass, [glossary.md](glossary.md) the words, [derivation.md](derivation.md) the mathematics of the derivative.

```mlir
{example}```

Each command reads this file. `FAST` stands for `--schedule=chunk --arch=sm_90a`.
"""
FAST = ["--schedule=chunk", "--arch=sm_90a"]

# Title, text, arguments of ejk-compile, what is shown, and its language. What is shown is a list of
# (pattern, lines before, lines after): the first line that matches, with its neighbours. A pattern
# in the place of the lines after shows all up to the first line that matches it. None shows the
# matmuls and stores of the program that takes saved states.
STAGES = [
    ("The scan", """\
`ejk-specialize` writes the recurrence as the one canonical loop. The op's region is one step: decay the state, add the
outer product of k and v, read the state with q. Gates that are absent are gone, and the default scale, 64^-½, has become a
multiplication. Everything above this line of the compiler, the derivative included, rewrites such steps.""",
     ["--emit=scan"], [(r"ejk\.scan", 0, r"ejk\.yield")], "mlir"),
    ("The block program", """\
`ejk-chunk` derives what one thread block does for one sequence and head, 64 steps at a time. A step's number becomes a
vector of 64 elements, and a step's vector becomes a 64×64 tile. With G the running sum of the gates in a chunk, q, k and v its rows, and S
the state before it, the four matmuls are those of the chunkwise form:

| matmul | formula |
|---|---|
| first `tile.dot` | q S, then times e^G row by row: what the earlier chunks contribute |
| second | P = q kᵀ, then times e^(G_i − G_j) where j ≤ i and 0 elsewhere: the causal mask puts −∞ into the exponent |
| third | P v, accumulated onto the first |
| fourth | kᵀ (v ∘ e^(G_C − G_j)), accumulated onto e^(G_C) S: the state after the chunk |

Rounding is explicit: an `arith.truncf` stands where a matmul takes 16-bit operands, and everything else is f32. Gates are bounded
below by −104, since e^−104 is less than f32's smallest number. Exponents are taken to base 2, as the hardware does, so the default scale
is −3 in an exponent.""",
     ["--emit=tile", *FAST], [(r"tile\.program", 0, r"tile\.end")], "mlir"),
    ("The plan: layouts", """\
The next passes decide which threads hold which elements, what lies in shared memory, and when each copy and matmul is issued. The
result is still IR that the interpreter runs. `ejk-plan-memory` then gives tiles in shared memory their places and inserts barriers, fences
and waits, and `ejk-check-races` proves that none is missing.

`ejk-assign-tile-layouts` gives every tile a layout over the block's four warps, which are one warpgroup. The rows that TMA loads
lie in shared memory in 128-byte-swizzled tiles (`swizzled`), which `wgmma` reads directly. Accumulators are `fragments` in
registers. The pass tries both orientations of each matrix and takes the cheapest assignment: here the state is kept transposed
(`transposed_fragments`). A vector over the steps has one element a lane. Each change of layout is a `tile.convert`, so that its cost is visible: here the state is rounded
and stored to shared memory, where the first matmul reads it as its B operand.""",
     ["--emit=plan", *FAST], [(r"tile\.take held", 0, 9)], "mlir"),
    ("The plan: stages", """\
`ejk-select-stages` and `ejk-multistage-loads` turn loads into asynchronous copies through a ring of three stages. While the
tensor cores work on one chunk, the rows of the next two arrive. `tile.acquire` waits until a stage is free, `tile.fill` issues
the copies, `tile.take` waits until they have landed, and `tile.release` hands the stage back (CUTLASS's pipelines call these
producer_acquire, producer_commit, consumer_wait and consumer_release). Two chunks are requested before the loop:""",
     ["--emit=plan", *FAST], [(r"tile\.make_ring", 0, 3), (r"%c1_6 = ", 0, 5)], "mlir"),
    ("The plan: order", """\
`ejk-schedule-matmuls` and `ejk-pipeline-matmuls` order a chunk's work so that tensor cores, the exponential unit and memory are
busy at once. P = q kᵀ of the next chunk is issued at the end of this one, so that it runs while the block's threads round and
store o; the loop carries it. The store of o is deferred by one chunk (`ejk-defer-stores`), so that no thread waits for it.
`ejk-compile FAST --draw-schedule=FILE.svg` draws two chunks, by the estimates that order the ops:

![The schedule of two chunks](plots/schedule.svg)

The end of the loop:""",
     ["--emit=plan", *FAST], [(r"%42 = tile\.dot", 0, r"^      tile\.store")], "mlir"),
    ("Threads", """\
`ejk-lower-to-gpu` emits the planned program as a kernel of upstream `gpu`, `scf`, `arith` and `nvvm` ops. A `tile.fill`
becomes one elected lane's TMA loads, counted in bytes by an mbarrier:""",
     ["--emit=gpu", *FAST], [(r"nvvm\.mbarrier\.arrive\.expect_tx", 2, 14)], "mlir"),
    ("Instructions", """\
`ejk-to-nvvm`, upstream's translation to LLVM IR, and LLVM's NVPTX back end give the text that the package holds. A 64×64×64
`tile.dot` is four `wgmma.mma_async` of depth 16. One block of inline assembly holds the four and the fence before them, and ties
their accumulators to the same registers, so that LLVM puts no move between them. The wait that follows leaves one group of matmuls in flight:""",
     ["--emit=ptx", *FAST], [(r"cp\.async\.bulk\.tensor.*global\.tile", 0, 2), (r"wgmma\.fence", 1, 1),
                             (r"wgmma\.wait_group\.sync\.aligned\s+1", 1, 0)], "ptx"),
    ("The derivative: two scans", """\
`ejk-derive-backward` maps the scan to two scans, one forward in time and one in reverse. The first recomputes the state S and reads it
with do, which gives dq. The second carries the adjoint state A, which grows by q doᵀ and decays by the same gate; reads of it give dk and dv.
The gate's gradient is a suffix sum of q ⊙ dq − k ⊙ dk, restarted at each chunk's end from Σ A ⊙ S (`ejk.checkpoint`), where S was saved. The
second scan:""",
     ["--emit=scan", "--vjp"], [(r"ejk\.scan reverse", 0, r"ejk\.yield")], "mlir"),
    ("The derivative: one fused kernel", """\
With `--save-states` the forward, `f_fwd`, also stores the state after each chunk, in bf16. Both scans of the derivative then become block programs
that start from these states, and `ejk-fuse-programs` merges them into one: q, k, v and do are read once. A chunk has nine
matmuls, of which P = q kᵀ and do vᵀ serve several results. These are the matmuls and stores of a chunk:

| | |
|---|---|
| do Sᵀ, do vᵀ, q kᵀ | shared by dq, dk, dv and the gate's gradient |
| (do vᵀ ∘ mask) k onto do Sᵀ | dq |
| v Aᵀ, (do vᵀ ∘ mask)ᵀ q onto it | dk |
| k A, (q kᵀ ∘ mask)ᵀ do onto it | dv |
| (q e^G)ᵀ do onto e^(G_C) A | the adjoint state before the chunk |""",
     ["--emit=tile", "--vjp", "--save-states", *FAST],
     None, "mlir"),
]


def run(folder, arguments):
    done = subprocess.run([str(folder / "ejk-compile"), "-", *arguments], input=EXAMPLE, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        raise SystemExit(f"ejk-compile {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def excerpt(text, wanted):
    """The lines that `wanted` names, with the number of those left out between them."""
    lines = text.splitlines()
    shown = set()
    for pattern, before, after in wanted:
        at = next((i for i, line in enumerate(lines) if re.search(pattern, line)), None)
        if at is None:
            raise SystemExit(f"nothing matches {pattern}")
        last = at + after if isinstance(after, int) else next(
            (i for i in range(at + 1, len(lines)) if re.search(after, lines[i])), None)
        if last is None:
            raise SystemExit(f"nothing after {pattern} matches {after}")
        shown.update(range(max(0, at - before), min(len(lines), last + 1)))
    indent = min(len(lines[i]) - len(lines[i].lstrip()) for i in shown if lines[i].strip())
    result, last = [], min(shown) - 1
    for i in sorted(shown):
        if i > last + 1:
            result.append(f"… {i - last - 1} lines")
        result.append(lines[i][indent:])
        last = i
    return "\n".join(result) + "\n"


def matmuls(text):
    """The matmuls and stores of the program that takes saved states."""
    of_many_heads = text[re.search(r"func\.func @\w+_vjp_direct\(", text).start():]
    lines = of_many_heads[re.search(r"tile\.program .* saved\(", of_many_heads).start():].splitlines()
    end = next(i for i, line in enumerate(lines) if "tile.end" in line)
    return "\n".join(line.strip() for line in lines[:end]
                     if re.search(r"tile\.(dot|store)|scf\.yield", line)) + "\n"


def short(text):
    """Without attributes and types that are the same on every line."""
    text = re.sub(r" \{(?:ejk\.\w+(?: = [^,}]*)?, )*ejk\.name = [^}]*\}", "", text)
    text = re.sub(r"\{tile\.layouts = \[#tile\.layout<([^>]*)>\]\} ", r"<\1> ", text)
    text = re.sub(r"\{tile\.layouts = \[([^]]*)\]\} ", lambda m: "<" + ", ".join(
        re.findall(r"#tile\.layout<([^>]*)>", m[1])) + "> ", text)
    text = re.sub(r" : (?:<3 of [^>]*)?(?:vector<[0-9x]*b?f\d+>(?:, )?)+>(?:, !tile\.rows<(?:vector<[0-9x]*b?f\d+>|f32)>)*", "", text)
    return text


def page(folder):
    parts = [INTRODUCTION.format(example=EXAMPLE)]
    for title, about, arguments, wanted, language in STAGES:
        text = short(run(folder, arguments))
        spelled = " ".join(a for a in arguments if a not in FAST) + (" FAST" if FAST[0] in arguments else "")
        text = excerpt(text, wanted) if wanted else matmuls(text)
        parts.append(f"## {title}\n\n{about}\n\n`ejk-compile {spelled}`\n\n```{language}\n{text}```\n")
    return "\n".join(parts)


def write_or_compare(arguments, usage, path, page):
    """Writes page(FOLDER) to `path`; with --check, prints how the two differ and gives 1 if they do."""
    if len(arguments) not in (1, 2) or arguments[1:] not in ([], ["--check"]):
        raise SystemExit(usage)
    wanted = page(Path(arguments[0]))
    if len(arguments) == 1:
        path.write_text(wanted, encoding="utf-8")
        return 0
    found = path.read_text(encoding="utf-8") if path.exists() else ""
    differences = list(difflib.unified_diff(found.splitlines(True), wanted.splitlines(True),
                                            f"docs/{path.name}", "what the passes give"))
    sys.stdout.writelines(differences)
    if differences:
        print(f"The page is behind the passes: run docs/{Path(sys.argv[0]).name}")
    return 1 if differences else 0


def picture(folder):
    """The drawing of the example's schedule."""
    return run(folder, [*FAST, "--draw-schedule=-"])


if __name__ == "__main__":
    wrong = [write_or_compare(sys.argv[1:], __doc__, path, make) for path, make in ((PAGE, page), (PICTURE, picture))]
    sys.exit(max(wrong))
