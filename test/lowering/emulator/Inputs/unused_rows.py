"""Packed sequences that end before the last row, on a GPU or a CPU: kernels against the f64 interpreter.

    unused_rows.py --ejk-run PATH --device cuda

Rows after the last offset hold NaN, which would show in any result that depends on them. The
interpreter has zeros there in results, and so has what `ejk-run` compares with it.
EJK_CUDA_DRIVER names the emulator.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..", "..")
sys.path += [os.path.join(ROOT, "tools", "ejk-matrix"), os.path.join(ROOT, "test", "oracle")]

import recurrence_text as text  # noqa: E402
import tensors  # noqa: E402

ROWS, OFFSETS = 171, [0, 3, 3, 70, 150]
# Gates, type, head sizes, schedule, whether it is the derivative, architecture of a GPU.
CASES = [("gk", "bf16", (64, 64), "chunk", False, "sm_90a"),
         ("g", "bf16", (64, 64), "chunk", True, "sm_90a"),
         ("gk", "bf16", (16, 16), "chunk", True, "sm_80"),
         ("all", "f32", (12, 20), "step", True, "sm_80"),
         ("gamma", "f32", (16, 16), "step", False, "sm_80"),
         ("g", "bf16", (16, 16), "split", True, "sm_80")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ejk-run", required=True)
    parser.add_argument("--device", required=True)
    args = parser.parse_args()
    failed = cases = 0
    with tempfile.TemporaryDirectory() as folder:
        for gates, kind, (K, V), schedule, derivative, arch in CASES:
            if args.device == "cpu" and schedule == "split":
                continue
            cases += 1
            path, given = os.path.join(folder, "f.mlir"), os.path.join(folder, "in.safetensors")
            with open(path, "w") as file:
                file.write(text.function(gates, kind, "packed", K, V))
            tensors.write_safetensors(given, inputs(kind, K, V))
            command = [args.ejk_run, path, "--inputs", given, f"--schedule={schedule}", "--check",
                       f"--device={args.device}", *(["--vjp"] if derivative else []),
                       *([f"--arch={arch}"] if args.device == "cuda" else [])]
            result = subprocess.run(command, text=True, capture_output=True, check=False)
            errors = re.findall(r"check (\w+): \w+, relative L2 error (\S+),", result.stdout)
            bad = result.returncode != 0 or not errors
            failed += bad
            print("FAIL" if bad else "pass", gates, kind, schedule, derivative, *(
                f"{n} {e}" for n, e in errors), flush=True)
            if bad:
                print(result.stdout, result.stderr)
    print(f"{cases} cases, {failed} failed")
    return failed


def inputs(kind, K, V):
    """Of two heads; tensors over time with NaN after the last offset."""
    random = np.random.default_rng(0)

    def rows(*shape):
        x = random.normal(size=(1, ROWS, 2, *shape)) / 2
        x[:, OFFSETS[-1]:] = np.nan
        return x
    N = len(OFFSETS) - 1
    return {"q": (kind, rows(K)), "k": (kind, rows(K)), "v": (kind, rows(V)),
            "g": ("f32", -abs(rows())), "gk": ("f32", -abs(rows(K))), "gv": ("f32", -abs(rows(V))),
            "g_gamma": ("f32", -random.random(2)), "cu_seqlens": ("i32", np.array(OFFSETS)),
            "do": (kind, rows(V)), "dht": ("f32", random.normal(size=(N, 2, K, V)))}


if __name__ == "__main__":
    sys.exit(main())
