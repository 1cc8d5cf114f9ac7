#!/usr/bin/env python3
"""What a delta rule costs beside the same recurrence without its correction: 128×128, bf16, a gate per head, sm_90a.

    delta_figures.py EJK_COMPILE EJK_LAUNCH [PTXAS]

Prints, for forward and derivative with saved states, the bytes that kernels move over those of their inputs and outputs, the
multiplications that their tensor core instructions stand for, as a ratio to the recurrence's, and with ptxas spills. The
multiplications are counted in the code of the kernels, whose loops have one chunk of 64 steps each. Fails beyond LIMITS.
"""
import os
import re
import subprocess
import sys
import tempfile

LIMITS = {"forward bytes": 1.05, "derivative bytes": 1.6}
SIZES = {"gated": "B=4,T=4096,H=64,Hkv=64", "delta": "B=4,T=4096,Hk=64,Hv=64"}
ROWS, HEADS, STATE = "tensor<?x?x?x128xbf16>", "tensor<?x?x?xf32>", "tensor<?x?x128x128xf32>"


def function(name, op, beta):
    given = f", %beta: {HEADS}" if beta else ""
    operand = f"beta(%beta : {HEADS}) " if beta else ""
    return f"""func.func @{name}(%q: {ROWS}, %k: {ROWS}, %v: {ROWS}{given}, %g: {HEADS}) -> ({ROWS}, {STATE}) {{
  %o, %ht = {op} %q, %k, %v {operand}g(%g : {HEADS}) : {ROWS}, {ROWS}, {ROWS} -> {ROWS}, {STATE}
  return %o, %ht : {ROWS}, {STATE}
}}
"""


def said(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True).stdout


def multiplications(ptx):
    """{kernel: of its code}: a warp's of mma.sync, a warpgroup's quarter of wgmma."""
    counts, kernel = {}, None
    for line in ptx.splitlines():
        if entry := re.search(r"\.entry (\w+)", line):
            kernel = entry.group(1)
            counts[kernel] = 0
        # Tensor cores take as long for 8 numbers of tf32 as for 16 of 16 bits.
        if wide := re.search(r"wgmma\.mma_async\S*\.m64n(\d+)k(?:16|8)\b", line):
            counts[kernel] += 16 * int(wide.group(1)) * 16
        elif "mma.sync" in line and "m16n8k16" in line:
            counts[kernel] += 16 * 8 * 16
    return counts


def spills(ptxas, path):
    found, kernel = {}, None
    for line in said(ptxas, "-v", "-arch=sm_90a", path, "-o", os.devnull).splitlines():
        if entry := re.search(r"Compiling entry function '(\w+)'", line):
            kernel = entry.group(1)
        if bytes_of := re.search(r"(\d+) bytes spill stores", line):
            found[kernel] = int(bytes_of.group(1))
    return found


def main(compiler, launcher, ptxas=None):
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        work = {}
        for name, op, beta in (("gated", "ejk.recurrent", False), ("delta", "ejk.delta_rule", True)):
            with open(path("f.mlir"), "w") as file:
                file.write(function(name, op, beta))
            options = [path("f.mlir"), "--vjp", "--arch=sm_90a"]
            said(compiler, *options, "--cubin=never", "-o", path("f.ejk"))
            said(compiler, *options, "--emit=ptx", "-o", path("f.ptx"))
            with open(path("f.ptx")) as file:
                counts = multiplications(file.read())
            spilled = spills(ptxas, path("f.ptx")) if ptxas else {}
            for part, entry in (("forward", name), ("derivative", name + "_vjp")):
                text = said(launcher, path("f.ejk"), "--entry=" + entry, "--info", "--explain",
                            "--random", SIZES[name])
                ratio = float(re.search(r"in all, (\S+) x the floor", text).group(1))
                kernels = re.findall(r"moves .* MB in (\w+)\n", text)
                work[name, part] = sum(counts[kernel] for kernel in kernels)
                line = f"{name} {part}: {ratio:.2f} x the floor's bytes"
                if name == "delta":
                    line += f", {work[name, part] / work['gated', part]:.2f} x the multiplications of gated"
                    failed |= ratio > LIMITS[part + " bytes"]
                if spilled:
                    line += f", spills {sum(spilled[kernel] for kernel in kernels)} bytes"
                print(line + f" ({len(kernels)} kernels)")
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
