"""Runs kernels on the emulator and compares with the f64 interpreter.

    emulate.py cases     a few recurrences and derivatives, chunk by chunk
    emulate.py races     the same kernels with what orders their threads left out: each
                         barrier and each wait for copies; every loss must be found

EJK_CUDA_DRIVER names the emulator.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.append(os.path.join(HERE, "..", "..", "..", "..", "tools", "ejk-matrix"))

import recurrence_text as text  # noqa: E402

# Gates, type, type of gates, variant, head sizes, rows, whether it is the derivative. Every
# class of gates, type, variant and layout of states occurs; 133 rows are two chunks and a rest.
CASES = [
    ("none", "bf16", "f32", "h0", (128, 128), 133, False),
    ("none", "f16", "f32", "packed", (32, 16), 150, True),
    ("gamma", "bf16", "f32", "reverse", (60, 60), 133, False),
    ("g", "bf16", "f32", "gqa", (128, 64), 133, False),
    ("g", "bf16", "f32", "gqa", (64, 64), 133, True),
    ("g", "bf16", "f32", "plain", (256, 256), 70, False),
    ("gk", "bf16", "f32", "h0", (64, 128), 133, False),
    ("gk", "bf16", "bf16", "h0", (128, 128), 133, False),
    ("gk", "bf16", "bf16", "packed", (64, 128), 0, False),
    ("gk", "bf16", "f32", "packed", (64, 64), 133, True),
    ("gk", "f16", "f32", "reverse", (100, 72), 133, False),
    ("gv", "bf16", "bf16", "plain", (48, 64), 133, True),
    ("gk+gv", "bf16", "f32", "h0", (64, 64), 133, False),
    ("all", "f16", "f16", "gqa", (32, 32), 133, True),
    ("all", "bf16", "f32", "plain", (64, 64), 1, False),
]
# The same of f32 rows, whose matmuls take bf16 terms. The last is of a thousand rows.
F32_CASES = [
    ("none", "f32", "f32", "h0", (64, 64), 70, False),
    ("gamma", "f32", "f32", "reverse", (60, 60), 133, False),
    ("gamma", "f32", "f32", "h0", (32, 48), 133, True),
    ("g", "f32", "f32", "gqa", (128, 64), 70, False),
    ("g", "f32", "f32", "gqa", (32, 32), 133, True),
    ("g", "f32", "f32", "plain", (128, 128), 40, True),
    ("gk", "f32", "f32", "h0", (128, 128), 40, False),
    ("gk", "f32", "f32", "packed", (64, 64), 133, True),
    ("gk", "f32", "bf16", "reverse", (100, 72), 70, False),
    ("gv", "f32", "f32", "plain", (48, 64), 70, True),
    ("gk+gv", "f32", "f32", "h0", (64, 64), 70, False),
    ("all", "f32", "f32", "gqa", (32, 32), 70, True),
    ("g", "f32", "f32", "plain", (16, 16), 1100, True),
    ("gk", "f32", "f32", "packed", (16, 16), 1100, True),
]
RACES = [
    ("none", "bf16", "f32", "plain", (64, 64), 133, False),
    ("g", "bf16", "f32", "plain", (64, 64), 133, False),
]


# What orders threads, where all do the same and where warps are specialized.
ORDER = ("bar.sync", "cp.async.wait_group")
PARTITION_ORDER = ("bar.sync", "mbarrier.arrive.shared.b64",
              "cp.async.mbarrier.arrive.noinc.shared.b64")


def run(args, folder, case, schedule="chunk", **environment):
    gates, kind, gate_kind, variant, (K, V), T, derivative = case
    path = os.path.join(folder, f"{gates}-{kind}-{gate_kind}-{variant}-{K}x{V}.mlir")
    with open(path, "w") as file:
        file.write(text.function(gates, kind, variant, K, V, gate_kind=gate_kind))
    if args.warp_specialize and T:
        T += 200  # chunks enough for each stage to be filled twice
    sizes = f"B=1,T={T},H=2,Hkv={1 if variant == 'gqa' else 2}"
    command = [args.ejk_run, path, "--schedule", schedule, "--device", "cuda", "--check",
               "--random", sizes + (",N=3" if variant == "packed" else "")]
    command += ["--vjp"] * derivative + ["--warp-specialize"] * args.warp_specialize
    command += [f"--arch={args.arch}"]
    if args.f32_matmuls:
        command.append(f"--f32-matmuls={args.f32_matmuls}")
    elif derivative:
        command.append("--save-states=false")
    return subprocess.run(command, text=True, capture_output=True,
                          env={**os.environ, **environment}, check=False)


def run_cases(args, folder):
    cases = F32_CASES if args.f32_matmuls else CASES
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        results = pool.map(lambda case: run(args, folder, case), cases)
        failed = 0
        for case, result in zip(cases, results):
            errors = re.findall(r"check (\w+): \w+, relative L2 error (\S+),", result.stdout)
            # Some derivatives of f32 rows take two programs, and then no saved states.
            unwanted = "not chunked" if args.f32_matmuls else "remark"
            bad = result.returncode != 0 or unwanted in result.stderr
            failed += bad
            print("FAIL" if bad else "pass", *case, *(f"{n} {e}" for n, e in errors), flush=True)
            if bad:
                print(result.stdout, result.stderr)
    print(f"{len(cases)} cases, {failed} failed")
    return failed


def run_races(args, folder):
    """Leaves out each barrier and wait of each kernel, until there is none more."""
    missed = found = 0
    for case in RACES:
        for schedule in ("chunk",) if args.warp_specialize else ("chunk", "step"):
            for opcode in PARTITION_ORDER if args.warp_specialize else ORDER:
                number = 1
                while True:
                    result = run(args, folder, case, schedule, EJK_EMULATOR_SEED=str(number),
                                 EJK_EMULATOR_WITHOUT=f"{opcode}:{number}")
                    if "emulator: left out" not in result.stderr:
                        break
                    fault = re.search(r"LAUNCH_FAILED \((.*?); warp", result.stderr)
                    ends = "ends while its copies" in result.stderr
                    found, missed = found + bool(fault or ends), missed + (not (fault or ends))
                    print(*case[:5], schedule, opcode, number, fault[1] if fault else ends,
                          flush=True)
                    number += 1
    print(f"{found} losses found, {missed} missed")
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["cases", "races"])
    parser.add_argument("--ejk-run", required=True)
    parser.add_argument("--warp-specialize", action="store_true")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--f32-matmuls", metavar="ALGORITHM", help="cases of f32 rows")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ejk-emulated-") as folder:
        return 1 if {"cases": run_cases, "races": run_races}[args.what](args, folder) else 0


if __name__ == "__main__":
    sys.exit(main())
