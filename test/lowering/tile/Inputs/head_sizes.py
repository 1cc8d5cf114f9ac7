"""The chunk schedule over head sizes: which chunks it takes, and whether kernels of small shapes compute what the interpreter does.

    head_sizes.py EJK_COMPILE EJK_RUN ARCH [--run]

Prints a line for each size K x V, forward with gates per head and per key channel. With --run, runs small shapes, too; the device is what
EJK_CUDA_DRIVER names.
"""
import re
import subprocess
import sys

SIZES = [(16, 16), (24, 40), (32, 32), (48, 48), (64, 64), (64, 128), (80, 80), (96, 96), (128, 64), (128, 128),
         (128, 256), (192, 192), (256, 128), (256, 256)]
# Rows that do not fill a chunk; one size of each number of slices and of padded channels.
RUN = {(16, 16), (24, 40), (64, 128), (96, 96), (256, 128)}
GATES = {"g": "tensor<?x?x?xf32>", "gk": "tensor<?x?x?x{K}xbf16>"}

SOURCE = """func.func @f(%q: tensor<?x?x?x{K}xbf16>, %k: tensor<?x?x?x{K}xbf16>, %v: tensor<?x?x?x{V}xbf16>, %g: {type})
    -> tensor<?x?x?x{V}xbf16> {{
  %o, %ht = ejk.recurrent %q, %k, %v {gate}(%g : {type})
      : tensor<?x?x?x{K}xbf16>, tensor<?x?x?x{K}xbf16>, tensor<?x?x?x{V}xbf16> -> tensor<?x?x?x{V}xbf16>, tensor<?x?x{K}x{V}xf32>
  return %o : tensor<?x?x?x{V}xbf16>
}}
"""


def describe(compiler, source, arch):
    """The chunks and slices of the program that has the state, or why there is none."""
    done = subprocess.run([compiler, "-", "--schedule=chunk", "--by-gates=never", f"--arch={arch}", "--emit=plan"], input=source,
                          capture_output=True, text=True)
    if done.returncode:
        return "error: " + done.stderr.strip().splitlines()[0]
    found = re.findall(r"tile\.program chunk (\d+)[^(]* slices (\d+)", done.stdout)
    if found:
        rows, slices = found[-1]
        return f"chunks of {rows} rows, {slices} slice{'s' * (slices != '1')}"
    why = re.search(r"not chunked: ([^\n]*)", done.stderr)
    return "step by step: " + (why[1] if why else "no remark says why")


def run(runner, source, arch):
    done = subprocess.run([runner, "-", "--schedule=chunk", f"--arch={arch}", "--device=cuda", "--check",
                           "--random", "B=1,T=70,H=1,Hkv=1"], input=source, capture_output=True, text=True)
    return "pass" if done.returncode == 0 and "check o: pass" in done.stdout else done.stdout + done.stderr


def main():
    compiler, runner, arch = sys.argv[1:4]
    for K, V in SIZES:
        for gate, type in GATES.items():
            source = SOURCE.format(K=K, V=V, gate=gate, type=type.format(K=K))
            line = f"{gate} {K}x{V}: {describe(compiler, source, arch)}"
            if "--run" in sys.argv and (K, V) in RUN:
                line += ", runs: " + run(runner, source, arch)
            print(line, flush=True)


main()
