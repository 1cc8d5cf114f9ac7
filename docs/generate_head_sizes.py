#!/usr/bin/python3
"""Writes docs/head-sizes.json, what the compiler makes of each head size, and from that docs/head-sizes.md. Needs no GPU.

    docs/generate_head_sizes.py BIN PTXAS            compiles each size and writes both; BIN holds ejk-compile and ejk-launch
    docs/generate_head_sizes.py BIN PTXAS --check    says whether the compiler still makes what head-sizes.json says
    docs/generate_head_sizes.py                      writes the page from head-sizes.json
    docs/generate_head_sizes.py --check              says whether the page is that of head-sizes.json
    --only REGEX                                     of the sizes to compile for --check: "sm_80 gk 96x96" and so on

Compiles a package for each size, two at a time; all of them take some minutes. Fails where bytes rise by more
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
ROWS = PAGE.with_suffix(".json")
sys.path.append(str(PAGE.parent.parent / "tools" / "ejk-fuzz"))
import ptxas_figures
SQUARE = [16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256, 320, 384, 512]
OBLONG = [(64, 128), (128, 64), (96, 128), (128, 256)]
GATES = {"sm_80": ["g", "gk"], "sm_90a": ["g", "gk"]}
DIRECTIONS = ["forward", "derivative"]
KEY = ["arch", "direction", "gate", "K", "V"]
WORKERS = 2
B, T, H = 4, 4096, 16
JUMP = 1.5

INTRODUCTION = """\
<!-- Written by docs/generate_head_sizes.py from docs/head-sizes.json; edit that script. -->
# Head sizes

What a head of K key and V value channels costs, for someone who chooses a size before a GPU has run it. Choose 64 or 128 channels where you can:

- A state of more than 128×128 elements does not fit one thread block. It is cut into slices, and each slice loads rows that other
  slices load, too: on sm_90a with a gate per head, a forward of 256×256 moves {wide:.2f} × the least bytes, and one of 512×512 {widest:.2f} ×.
- One kernel computes all gradients of a state that is not cut. A state in slices takes three kernels, and each loads the rows: from 128×128 to
  160×160, a derivative's bytes rise from {whole_back:.2f} to {sliced_back:.2f} × the least, a forward's from {whole:.2f} to {sliced:.2f} ×.
- Tiles of matmuls are padded: with `wgmma`, 80, 96 and 112 channels take the matmuls and the shared memory of 128, though not its bytes.

Each entry has the **bytes** over the least, then **slices × rows**, then **spilled** bytes where there are any.

- **Bytes**: those that all kernels load and store, over those of inputs and outputs, at B={B}, T={T} and {H} heads. Rows that
  slices load again count each time, though L2 serves part of them. A derivative counts the saved states, written and read; its least
  has none. Bold: more than {JUMP} × those of the next smaller square size.
- **Slices × rows**: the thread blocks that share a head, and the rows of a chunk. Fewer rows make more chunks, which follow one another. Where kernels differ, those of each in
  their order, and among them those of kernels that compute for all slices what these have in common ([passes.md](passes.md#--ejk-cut-fronts)). On
  sm_80 a gate per channel leaves too little shared memory for 64 rows in one kernel for all gradients from 112×112 on, so two kernels load the rows.
- **Spilled**: what `ptxas` stores and loads to spill registers, in the worst kernel.

`g` is a gate per head in f32, `gk` one per key channel in bf16; rows are bf16. Nothing here was measured on a GPU:
[performance.md](performance.md#other-head-sizes) has times. [head-sizes.json](head-sizes.json) has each kernel's stages, shared memory and
registers, and the compiler's reasons (`ejk-compile --print-cost-model`). The rows are those of `--schedule=chunk --vjp --two-terms=few-channels --by-gates=never`,
without the derivative's variant for few heads ([accuracy.md](accuracy.md)).
"""


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
    jumps: bool = False  # whether bytes rise by more than JUMP

    def size(self):
        return f"{self.K}×{self.V}"

    def record(self, arch, direction):
        """The row as head-sizes.json has it."""
        several = lambda key: list(dict.fromkeys(program[key] for program in self.programs))
        return {"arch": arch, "direction": direction, "gate": self.gate, "K": self.K, "V": self.V, "schedule": self.schedule,
                "rows": several("rows"), "slices": several("slices"), "stages": several("stages"), "loads": several("loads"),
                "shared": self.shared, "registers": self.registers, "spills": self.spills, "bytes": round(self.ratio, 2),
                "rises": self.jumps, "why": self.causes + self.notes}


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
                      "--by-gates=never", f"--arch={arch}", "--cubin=never",
                      "--print-cost-model", "-o", package, given=source(gate, K, V))
    said(tools.bin / "ejk-launch", package, f"--code={folder}")
    text = said(tools.ptxas, "-v", f"-arch={arch}", folder / f"{arch}.ptx", "-o", folder / "f.cubin")[1]
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


def compiled_rows(tools):
    """head-sizes.json's rows as the compiler makes them, and rises of bytes without a reason."""
    wanted = [(arch, gate, K, V) for arch, gates in GATES.items() for gate in gates
              for K, V in [(n, n) for n in SQUARE] + OBLONG
              if not tools.only or re.search(tools.only, f"{arch} {gate} {K}x{V}")]
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as workers:
        made = dict(zip(wanted, workers.map(lambda size: rows(tools, *size), wanted)))
    records, jumps = [], []
    for arch in GATES:
        for i, direction in enumerate(DIRECTIONS):
            for (of, gate, K, V), both in made.items():
                if of != arch:
                    continue
                row = both[i]
                smaller = [n for n in SQUARE if n < K]
                before = made.get((arch, gate, smaller[-1], smaller[-1])) if smaller and K == V else None
                if before and row.ratio > JUMP * before[i].ratio:
                    row.jumps = True
                    if not row.causes:
                        jumps.append(f"{arch} {direction} {gate} {row.size()}: {row.ratio:.2f} after {before[i].ratio:.2f}")
                record = row.record(arch, direction)
                if smaller and K == V and not before:
                    del record["rises"]  # the size before it was not compiled
                records.append(record)
    return records, jumps


def entry(row):
    """Bytes, slices × rows, spilled bytes."""
    if row["schedule"] != "chunk":
        return "step by step"
    joined = lambda key: " / ".join(map(str, row[key]))
    text = f"{row['bytes']:.2f}"
    return ((f"**{text}**" if row["rises"] else text) + f", {joined('slices')} × {joined('rows')}"
            + (f", {row['spills']:,} spilled" if row["spills"] else ""))


def page(records):
    of = {tuple(row[key] for key in KEY): row for row in records}
    moved = lambda direction, n: of["sm_90a", direction, "g", n, n]["bytes"]
    text = INTRODUCTION.format(
        B=B, T=T, H=H, JUMP=JUMP, wide=moved("forward", 256), widest=moved("forward", 512),
        whole=moved("forward", 128), sliced=moved("forward", 160),
        whole_back=moved("derivative", 128), sliced_back=moved("derivative", 160))
    for arch, gates in GATES.items():
        columns = [(gate, direction) for gate in gates for direction in DIRECTIONS]
        text += (f"\n## {arch}\n\n| K×V | {' | '.join(f'{gate}, {direction}' for gate, direction in columns)} |\n"
                 + "|---" * (len(columns) + 1) + "|\n")
        for K, V in [(n, n) for n in SQUARE] + OBLONG:
            entries = [entry(of[arch, direction, gate, K, V]) for gate, direction in columns]
            text += f"| {K}×{V} | {' | '.join(entries)} |\n"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=Path, nargs="?")
    parser.add_argument("ptxas", nargs="?")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", metavar="REGEX")
    tools = parser.parse_args()
    if tools.bin and not tools.ptxas:
        parser.error("BIN needs PTXAS beside it")
    if tools.only and not (tools.check and tools.bin):
        parser.error("--only writes no whole page: give it with BIN, PTXAS and --check")
    jumps = []
    if tools.bin:
        made, jumps = compiled_rows(tools)
        for jump in jumps:
            print(f"a rise without a reason: {jump}")
    if tools.bin and tools.check:
        standing = {tuple(row[key] for key in KEY): row for row in json.loads(ROWS.read_text(encoding="utf-8"))}
        stale = 0
        for row in made:
            found = standing.get(tuple(row[key] for key in KEY), {})
            differs = [key for key in row if row[key] != found.get(key)]
            stale += bool(differs)
            for key in differs:
                print(f"{row['arch']} {row['direction']} {row['gate']} {row['K']}×{row['V']}, {key}: "
                      f"{found.get(key)}, but the compiler makes {row[key]}")
        print(f"{ROWS.name} is behind the compiler in {stale} rows: run docs/generate_head_sizes.py" if stale else
              f"{len(made)} rows are as {ROWS.name} has them")
        return bool(stale or jumps)
    if tools.bin:
        lines = ",\n".join(" " + json.dumps(row, ensure_ascii=False) for row in made)
        ROWS.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    wanted = page(json.loads(ROWS.read_text(encoding="utf-8")))
    if not tools.check:
        PAGE.write_text(wanted, encoding="utf-8")
        return bool(jumps)
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != wanted:
        print(f"{PAGE.name} is behind {ROWS.name}: run docs/generate_head_sizes.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
