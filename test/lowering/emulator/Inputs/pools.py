"""Decoding with states in a pool, on the emulator, against the interpreter.

EJK_CUDA_DRIVER names the emulator.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.append(os.path.join(HERE, "..", "..", "..", "oracle"))

import tensors  # noqa: E402

PROGRAM = """
func.func @decode(%q: tensor<?x?x?x{K}xbf16>, %k: tensor<?x?x?x{K}xbf16>, %v: tensor<?x?x?x{V}xbf16>,
                  %g: tensor<?x?x?x{K}xf32>, %pool: tensor<?x?x{K}x{V}x{kind}>, %index: tensor<?x{int}>)
    -> (tensor<?x?x?x{V}xbf16> {{ejk.name = "o"}}, tensor<?x?x{K}x{V}x{kind}> {{ejk.name = "updated"}}) {{
  %h0 = ejk.read_states %pool at %index
      : tensor<?x?x{K}x{V}x{kind}>, tensor<?x{int}> -> tensor<?x?x{K}x{V}xf32>
  %o, %ht = ejk.recurrent {shared}%q, %k, %v gk(%g : tensor<?x?x?x{K}xf32>)
      initial_state(%h0 : tensor<?x?x{K}x{V}xf32>)
      : tensor<?x?x?x{K}xbf16>, tensor<?x?x?x{K}xbf16>, tensor<?x?x?x{V}xbf16>
      -> tensor<?x?x?x{V}xbf16>, tensor<?x?x{K}x{V}xf32>
  %updated = ejk.write_states %ht to %pool at %index
      : tensor<?x?x{K}x{V}xf32>, tensor<?x?x{K}x{V}x{kind}>, tensor<?x{int}>
  return %o, %updated : tensor<?x?x?x{V}xbf16>, tensor<?x?x{K}x{V}x{kind}>
}}
"""

# The pool's type, the index's, K and V, rows, query heads of a state, schedule: one row in the kernel
# for one, several in that for many, and by chunks with copies of the states.
CASES = [("f32", "i32", 16, 16, 1, 1, "step"), ("bf16", "i32", 64, 128, 1, 1, "step"),
         ("f16", "i64", 48, 64, 1, 1, "step"), ("bf16", "i64", 60, 20, 5, 1, "step"),
         ("bf16", "i32", 64, 64, 70, 1, "chunk"), ("bf16", "i32", 64, 128, 1, 4, "step"),
         ("f32", "i64", 60, 20, 5, 3, "step"), ("f32", "i32", 128, 64, 1, 2, "auto"),
         ("bf16", "i32", 64, 64, 70, 2, "auto")]
POOL = 8
# Sequences of which some have no state. A kernel takes an index past the pool's end for none, too; the
# interpreter calls it an error.
INDEX = np.array([4, -1, 0, POOL, 6, 2**31 - 1])


def run(args, path, inputs, folder, device, schedule):
    made = os.path.join(folder, "out.safetensors")
    done = subprocess.run([args.ejk_run, path, f"--device={device}", f"--schedule={schedule}",
                           "--inputs", inputs, "--outputs", made], text=True, capture_output=True,
                          check=False)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return {name: np.asarray(array, np.float64)
            for name, (_, array) in tensors.read_safetensors(made).items()}


def error(x, expected):
    return np.linalg.norm(x - expected) / np.linalg.norm(expected)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ejk-run", required=True)
    args = parser.parse_args()
    random, failed = np.random.default_rng(1), 0
    with tempfile.TemporaryDirectory(prefix="ejk-pools-") as folder:
        for kind, integer, K, V, T, group, schedule in CASES:
            path = os.path.join(folder, "decode.mlir")
            with open(path, "w") as file:
                file.write(PROGRAM.format(kind=kind, int=integer, K=K, V=V,
                                          shared="shared_state " if group > 1 else ""))
            N, H = len(INDEX), 2
            pool = tensors.round_to(random.standard_normal((POOL, H, K, V)), kind)
            given = os.path.join(folder, "in.safetensors")
            inputs = {
                "q": ("bf16", random.standard_normal((N, T, H * group, K))),
                "k": ("bf16", random.standard_normal((N, T, H, K))),
                "v": ("bf16", random.standard_normal((N, T, H, V))),
                "g": ("f32", -random.exponential(0.5, (N, T, H, K))),
                "pool": (kind, pool), "index": (integer, INDEX)}
            tensors.write_safetensors(given, inputs)
            found = run(args, path, given, folder, "cuda", schedule)
            there = (INDEX >= 0) & (INDEX < POOL)
            inputs["index"] = (integer, np.where(there, INDEX, -1))
            tensors.write_safetensors(given, inputs)
            expected = run(args, path, given, folder, "interpreter", "step")
            others = np.setdiff1d(np.arange(POOL), INDEX[there])
            o = error(found["o"][there], expected["o"][there])
            states = error(found["updated"][INDEX[there]], expected["updated"][INDEX[there]])
            untouched = np.array_equal(found["updated"][others], np.asarray(pool, np.float64)[others])
            # Roundings of o, and of states, to 16 bits; in chunks of matmuls' operands as well.
            bad = o > 5e-3 or states > (5e-3 if kind != "f32" else 1e-6) or not untouched
            failed += bad
            print("FAIL" if bad else "pass", kind, integer, K, V, T, group, schedule, f"o {o:.1e}",
                  f"states {states:.1e}", "others untouched" if untouched else "others TOUCHED")
    print(f"{len(CASES)} cases, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
