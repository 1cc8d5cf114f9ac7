"""ptxas's figures for a matrix of specialisations: none may spill or use local memory.

Takes the smallest set of cases, greedily, in which every pair of choices (gates,
type, variant, head size, architecture) meets; --full takes all. Prints a table of
registers and shared memory, of the kernel for any T, of the one for T = 1, and of the one with large tiles.
"""
import argparse
import concurrent.futures
import itertools
import os
import sys
import tempfile

sys.dont_write_bytecode = True
TOOLS = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "..", "tools")
sys.path += [os.path.join(TOOLS, "ejk-matrix"), os.path.join(TOOLS, "ejk-fuzz")]

import ptxas_figures  # noqa: E402
import recurrence_text as text  # noqa: E402

SIZES = [(1, 1), (3, 5), (60, 60), (64, 64), (100, 72), (128, 128), (256, 256), (512, 512),
         (512, 16)]
SIZES_OF_LARGE_TILES = [(128, 128), (256, 256)]
ARCHS = ["sm_80", "sm_90"]
# Twelve warps of a multiprocessor, which hide a load's latency, have so many each. Eight have large tiles.
MOST_REGISTERS_AT_128 = 168
MOST_OF_LARGE_TILES = 255
KINDS = ("any T", "T = 1", "large tiles")


def pairs(case):
    return set(itertools.combinations(enumerate(case), 2))


def covering(cases):
    """A few of `cases` in which each pair of choices of any case occurs."""
    left, chosen = set().union(*map(pairs, cases)), []
    while left:
        chosen.append(max(cases, key=lambda case: len(pairs(case) & left)))
        left -= pairs(chosen[-1])
    return chosen


def figures(args, folder, case):
    gates, kind, variant, (K, V), arch = case
    path = os.path.join(folder, f"{gates}-{kind}-{variant}-{K}x{V}-{arch}.mlir")
    with open(path, "w") as file:
        file.write(text.function(gates, kind, variant, K, V))
    try:
        return ptxas_figures.of_file(path, args.ejk_compile, args.ptxas, arch, ["--schedule=step"])
    except RuntimeError as problem:
        return str(problem)


def kind_of(kernel):
    return "T = 1" if kernel.endswith("_one") else "large tiles" if "_large_tiles_" in kernel else "any T"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ejk-compile", required=True)
    parser.add_argument("--ptxas", required=True)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--full", action="store_true")
    args = parser.parse_args()
    cases = list(itertools.product(text.GATES, text.TYPES, text.VARIANTS, SIZES, ARCHS))
    # The sizes whose speed is measured, whatever the cover leaves out.
    measured = [(gates, "bf16", "h0", (128, 128), "sm_90") for gates in text.GATES]
    if not args.full:
        cases = sorted(set(covering(cases) + measured), key=cases.index)
    failed = []
    print(f"{'':34}" + "".join(f"{kind:>18}" for kind in KINDS) + f"\n{'':34}" +
          len(KINDS) * f"{'registers':>10}{'shared':>8}")
    with tempfile.TemporaryDirectory(prefix="ejk-ptxas-") as folder, \
            concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for case, found in zip(cases, pool.map(lambda case: figures(args, folder, case), cases)):
            words = "{:6}{:5}{:8}{:9}{:6}".format(*case[:3], "×".join(map(str, case[3])), case[4])
            if isinstance(found, str):
                failed.append(f"{words}: {found}")
                continue
            kernels = {kind_of(f.kernel): f for f in found}
            cell = lambda f: f"{f.registers:10}{f.shared:8}" if f else f"{'-':>10}{'-':>8}"
            print(f"{words}{''.join(cell(kernels.get(kind)) for kind in KINDS)}", flush=True)
            for f in found:
                if f.stack or f.spilled:
                    failed.append(f"{words}: {f.kernel} has {f.stack} bytes of local memory and "
                                  f"spills {f.spilled}")
                most = MOST_OF_LARGE_TILES if kind_of(f.kernel) == "large tiles" else MOST_REGISTERS_AT_128
                if case[3] == (128, 128) and f.registers > most:
                    failed.append(f"{words}: {f.kernel} has {f.registers} registers")
            wanted = (1 if case[2] == "packed" else 2) + (case[3] in SIZES_OF_LARGE_TILES)
            if len(found) != wanted:
                failed.append(f"{words}: {len(found)} kernels")
    print("\n".join(failed))
    print(f"{len(cases)} specialisations, {len(failed)} with trouble")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
