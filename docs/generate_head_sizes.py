#!/usr/bin/python3
"""Writes docs/head-sizes.md: what the compiler makes of each head size, without a GPU.

    docs/generate_head_sizes.py BIN PTXAS            writes it; BIN holds ejk-compile and ejk-launch
    docs/generate_head_sizes.py BIN PTXAS --check    says whether it is what it would write
    --only REGEX                                     with --check: of the rows, "sm_80 gk 96x96" and so on

Compiles a package for each size, two at a time; the whole table takes some minutes. Fails where bytes rise by more
than JUMP between neighbouring sizes and no decision of the compiler explains it.
"""
import argparse
import concurrent.futures
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

PAGE = Path(__file__).resolve().parent / "head-sizes.md"
sys.path.append(str(PAGE.parent.parent / "tools" / "ejk-fuzz"))
import ptxas_figures
SQUARE = [16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256, 320, 384, 512]
OBLONG = [(64, 128), (128, 64), (96, 128), (128, 256)]
GATES = {"sm_80": ["g", "gk"], "sm_90a": ["g", "gk"]}
WORKERS = 2
B, T, H = 4, 4096, 16
JUMP = 1.5

INTRODUCTION = f"""\
<!-- Written by docs/generate_head_sizes.py, which compiled every row; edit that. -->
# Head sizes

What a head of K key and V value channels costs, for someone who chooses a size before a GPU has run it. Each row is one recurrence in bf16
with dynamic sizes, compiled with `--schedule=chunk --vjp --two-terms=few-channels`:
without the derivative's variant for few heads ([accuracy.md](accuracy.md)). `g` is a gate per head in f32, `gk` one per key channel in bf16.
[performance.md](performance.md) has measured times; nothing in this page was measured on a GPU.

- **schedule**: `chunk` where tensor cores compute all of it, else `steps`.
- **rows**: those of a chunk. **slices**: the thread blocks that share a head. Each has a part of its state.
- **stages**: the chunks that shared memory holds, and what is computed or stored an iteration early or late: `m` matmuls, `b` the operands
  of the next chunk's branch, `s` deferred stores. **loads**: TMA or threads (`cp.async`). Where kernels differ, all their values are given.
- **shared**, **registers**, **spills**: bytes a block, registers a thread, and the bytes that `ptxas` stores and loads to spill registers, of
  the worst kernel. A derivative has kernels for query heads in groups and for a forward that saves states; they count.
- **bytes**: those that all kernels load and store, over the bytes of inputs and outputs, at B={B}, T={T}, H=Hkv={H}. The rows that every
  slice loads again are counted each time, though L2 serves part of them. In a derivative, the saved states are counted written and read;
  its floor has no saved states.
- **why**: what makes the row differ from a size that fits one thread block, from the decisions that `--print-cost-model` prints.
  Bytes are bold where they are more than {JUMP} × those of the next smaller square size.

`docs/generate_head_sizes.py BIN PTXAS` writes the page. It fails where bytes rise by more than {JUMP} × and no decision explains it.
"""
HEADER = ("| gate | K×V | schedule | rows | slices | stages | loads | shared | registers | spills | bytes | why |\n"
          "|---|---|---|---|---|---|---|---|---|---|---|---|\n")


def source(gate, K, V):
    row = lambda n: f"tensor<?x?x?x{n}xbf16>"
    kind = "tensor<?x?x?xf32>" if gate == "g" else row(K)
    return (f"func.func @f(%q: {row(K)}, %k: {row(K)}, %v: {row(V)}, %{gate}: {kind}) -> {row(V)} {{\n"
            f"  %o, %ht = ejk.recurrent %q, %k, %v {gate}(%{gate} : {kind}) : {row(K)}, {row(K)}, {row(V)}\n"
            f"      -> {row(V)}, tensor<?x?x{K}x{V}xf32>\n  return %o : {row(V)}\n}}\n")


@dataclass
class Row:
    """A row of the table: one entry of one package."""
    gate: str
    K: int
    V: int
    schedule: str
    ratio: float
    programs: list = field(default_factory=list)  # decisions of each block program
    shared: int = 0
    registers: int = 0
    spills: int = 0
    causes: list = field(default_factory=list)  # why it moves more bytes
    notes: list = field(default_factory=list)
    jumps: bool = False

    def size(self):
        return f"{self.K}×{self.V}"

    def text(self):
        several = lambda key: " / ".join(dict.fromkeys(str(program[key]) for program in self.programs)) or "–"
        ratio = f"**{self.ratio:.2f}**" if self.jumps else f"{self.ratio:.2f}"
        return (f"| {self.gate} | {self.size()} | {self.schedule} | {several('rows')} | {several('slices')} | "
                f"{several('stages')} | {several('loads')} | {self.shared:,} | {self.registers} | {self.spills} | "
                f"{ratio} | {'; '.join(self.causes + self.notes)} |")


def said(*command, given=None):
    done = subprocess.run([str(part) for part in command], input=given, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout, done.stderr


def decisions(remarks):
    """{kernel or function: what was decided of it}."""
    found = {}
    for name, kernel, rest in re.findall(r"\[Analysis\] (\S+) \| \S+ \| Function=(\w+) \| (.*)", remarks):
        figures = dict(re.findall(r"([\w' ]+)=(\"[^\"]*\"|[^,]+)(?:, |$)", rest))
        chosen = figures["chosen"].strip('"')
        program = found.setdefault(kernel, {})
        if name == "stages":
            marks = {"matmuls": "m", "branch": "b", "deferred": "s"}
            ahead = "".join(mark for word, mark in marks.items() if word in chosen)
            program["stages"] = f"{chosen.split()[0].replace('no', '0')} {ahead}".strip()
        elif name == "loads":
            program["loads"] = chosen
        elif name == "slices":
            once, all = int(figures["bytes of a row"]), int(figures["bytes of it that slices load"])
            program |= {"slices": int(chosen), "rows": int(figures["rows of a chunk"]), "once": once, "again": all - once}
        elif name == "chunk-length" and chosen == "64 rows do not fit":
            program["needs"] = int(figures["bytes needed"]), int(figures["bytes of a block"])
        elif name == "state-slices" and chosen.endswith("rows"):
            program["wider"] = chosen, int(figures["bytes moved for a row"]), int(figures["bytes of more slices"])
    return found


def compiled(tools, arch, gate, K, V, folder):
    """The package, its figures of ptxas by kernel, and what the compiler said of it."""
    package = folder / "f.ejk"
    _, remarks = said(tools.bin / "ejk-compile", "-", "--schedule=chunk", "--vjp", "--two-terms=few-channels",
                      f"--arch={arch}", "--cubin=never",
                      "--print-cost-model", "-o", package, given=source(gate, K, V))
    data = package.read_bytes()
    size = int.from_bytes(data[16:24], "little")
    image = json.loads(data[64:64 + size])["images"][0]
    (folder / "f.ptx").write_bytes(data[64 + size:][image["offset"]:image["offset"] + image["size"]].rstrip(b"\0"))
    text = said(tools.ptxas, "-v", f"-arch={arch}", folder / "f.ptx", "-o", folder / "f.cubin")[1]
    return package, {figure.kernel: figure for figure in ptxas_figures.parse(text)}, remarks


def explain(row, remarks, needs, wider, arch):
    """Says why `row` moves more bytes than one program in one block would, and what else differs."""
    if row.schedule != "chunk":
        refusals = re.findall(r"not chunked: ([^\n]*)", remarks)
        row.causes += [why for why in refusals if "shares saved states" not in why][:1]
        return
    sliced = [program for program in row.programs if program["slices"] > 1]
    if sliced:
        worst = max(sliced, key=lambda program: program["again"] / program["once"])
        row.causes.append(f"{worst['slices']} blocks for a state of {row.K * row.V:,} elements load "
                          f"{worst['once'] + worst['again']:,} bytes a row, of {worst['once']:,}")
    if len(row.programs) > 1:
        saving = re.search(r"a forward that saves them does not fit: it needs (\d+) bytes of shared memory, of (\d+)", remarks)
        why = ("one for all gradients has no slices" if sliced else
               "one for all gradients has chunks of 64 rows" if any(program["rows"] < 64 for program in row.programs) else
               "a forward that saves states needs {:,} bytes of shared memory, of {:,}".format(*map(int, saving.groups()))
               if saving else "no remark says why")
        row.causes.append(f"{len(row.programs)} kernels: {why}")
    if wider:
        row.notes.append("{}: {:,} bytes a row, more slices {:,}".format(*wider))
    elif needs and any(program["rows"] < 64 for program in row.programs):
        row.notes.append(f"64 rows need {needs[0]:,} bytes of shared memory, of {needs[1]:,}")
    if arch == "sm_90a" and any(program["loads"] != "TMA" for program in row.programs):
        slices = max(program["slices"] for program in row.programs)
        columns = min(row.K, row.V) // slices
        row.notes.append(f"{columns} columns are no whole TMA tile, which has 64" if columns <= 32 else
                         "a kernel's loads are not all of TMA tiles")


def rows(tools, arch, gate, K, V):
    """The rows of the forward and of the derivative."""
    with tempfile.TemporaryDirectory(prefix="ejk-head-sizes-") as folder:
        package, figures, remarks = compiled(tools, arch, gate, K, V, Path(folder))
        decided, result, moved, floors = decisions(remarks), [], {}, {}
        saves = any(kernel.startswith("f_fwd_") for kernel in figures)
        for entry in ("f", "f_fwd", "f_vjp"):
            if entry == "f_fwd" and not saves:
                moved[entry], floors[entry] = moved["f"], floors["f"]
                continue
            info, _ = said(tools.bin / "ejk-launch", package, f"--entry={entry}", "--info",
                           f"--random=B={B},T={T},H={H},Hkv={H}")
            kernels = list(dict.fromkeys(re.findall(r"moves +[\d.]+ MB in (\w+)\n", info)))
            total, floor = (float(re.search(pattern, info)[1]) * 1e6 for pattern in
                            (r"moves +([\d.]+) MB in all", r"floor of ([\d.]+) MB"))
            programs = [decided[kernel] for kernel in kernels if "_blocks" in kernel]
            moved[entry] = total + sum(program["again"] for program in programs) * B * T * H
            floors[entry] = floor
            if entry == "f_fwd":
                continue
            # What is saved moves twice, and is no input or output of the function that was differentiated.
            of_saving = {key: by["f_fwd"] - by["f"] if entry == "f_vjp" else 0
                         for key, by in (("moved", moved), ("floor", floors))}
            ratio = (moved[entry] + of_saving["moved"]) / (floor - of_saving["floor"])
            belongs = lambda kernel: kernel.startswith(("f_fwd_", "f_vjp_")) == (entry == "f_vjp")
            shared = [int(size) for kernel, size in re.findall(r"kernel (\w+): .*? shared (\d+) bytes", info) if belongs(kernel)]
            own = [figure for kernel, figure in figures.items() if belongs(kernel)]
            row = Row(gate, K, V, "steps" if any(re.search(r"_scan\d+$", kernel) for kernel in kernels) else "chunk", ratio,
                      programs, max(shared), max(figure.registers for figure in own), max(figure.spilled for figure in own))
            functions = ("f_vjp_direct", "f_vjp") if entry == "f_vjp" else ("f",)
            said_of = lambda key: next((decided[name][key] for name in functions if key in decided.get(name, {})), None)
            explain(row, remarks, said_of("needs"), said_of("wider"), arch)
            result.append(row)
        return result


def page(tools):
    sections, jumps = [INTRODUCTION], []
    wanted = [(arch, gate, K, V) for arch, gates in GATES.items() for gate in gates
              for K, V in [(n, n) for n in SQUARE] + OBLONG
              if not tools.only or re.search(tools.only, f"{arch} {gate} {K}x{V}")]
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as workers:
        made = dict(zip(wanted, workers.map(lambda size: rows(tools, *size), wanted)))
    for arch in dict.fromkeys(arch for arch, *_ in wanted):
        for direction, title in enumerate(("forward", "derivative")):
            sections.append(f"\n## {arch}, {title}\n\n{HEADER}")
            for (of, gate, K, V), both in made.items():
                if of != arch:
                    continue
                row = both[direction]
                smaller = [n for n in SQUARE if n < K]
                before = made.get((arch, gate, smaller[-1], smaller[-1])) if smaller and K == V else None
                if before and row.ratio > JUMP * before[direction].ratio:
                    row.jumps = True
                    if not row.causes:
                        jumps.append(f"{arch} {title} {gate} {row.size()}: {row.ratio:.2f} after {before[direction].ratio:.2f}")
                sections.append(row.text() + "\n")
    return "".join(sections), jumps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=Path)
    parser.add_argument("ptxas")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", metavar="REGEX")
    tools = parser.parse_args()
    if tools.only and not tools.check:
        parser.error("--only writes no whole page: give it with --check")
    wanted, jumps = page(tools)
    for jump in jumps:
        print(f"a jump without a reason: {jump}")
    if not tools.check:
        PAGE.write_text(wanted, encoding="utf-8")
        return bool(jumps)
    found = section = None
    stale = 0
    standing = PAGE.read_text(encoding="utf-8").splitlines() if PAGE.exists() else []
    for line in wanted.splitlines():
        if line.startswith("## "):
            section = line
            start = standing.index(line) if line in standing else len(standing)
            ends = [i for i in range(start + 1, len(standing)) if standing[i].startswith("## ")]
            found = standing[start:ends[0] if ends else len(standing)]
        if line not in (standing if section is None else found):
            stale += 1
            print(f"{section or 'introduction'}: the page lacks\n{line}")
    if stale:
        print(f"{PAGE.name} is behind the compiler in {stale} lines: run docs/generate_head_sizes.py")
    else:
        rows_found = re.findall(r"^\| gk? \|", wanted, re.MULTILINE)
        print(f"{len(rows_found)} rows are as the page has them")
    return bool(stale or jumps)


if __name__ == "__main__":
    sys.exit(main())
