"""Recurrences split over time on the emulator.

    split.py cases     recurrences and derivatives, against the f64 interpreter
    split.py batches   each sequence's bits, in a batch or packed with others, and alone

EJK_CUDA_DRIVER names the emulator.
"""
import argparse
import concurrent.futures
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

# Gates, type, variant, head sizes, rows, whether it is the derivative, architecture. A batch's 300
# rows are segments of 128, 128 and 44; packed sequences' are segments of 2048.
CASES = [
    ("gk", "bf16", "h0", (64, 64), 300, False, "sm_90a"),
    ("gk", "bf16", "plain", (64, 64), 300, True, "sm_90a"),
    ("g", "bf16", "gqa", (64, 64), 300, True, "sm_90a"),
    ("g", "f16", "reverse", (64, 128), 300, False, "sm_90a"),
    ("none", "bf16", "plain", (32, 16), 300, True, "sm_80"),
    ("gamma", "bf16", "reverse", (60, 60), 300, True, "sm_80"),
    ("gv", "bf16", "h0", (48, 64), 300, False, "sm_80"),
    ("all", "f16", "gqa", (32, 32), 300, True, "sm_80"),
    ("gk+gv", "f32", "h0", (16, 16), 300, True, "sm_80"),
    ("gk", "bf16", "packed", (64, 64), 4500, False, "sm_90a"),
    ("g", "bf16", "packed", (64, 64), 4500, True, "sm_90a"),
    ("all", "bf16", "packed", (16, 16), 4500, True, "sm_80"),
    ("gk", "bf16", "plain", (64, 64), 1, False, "sm_80"),
    ("gk", "bf16", "packed", (64, 64), 0, False, "sm_80"),
]

# Of so many rows, a launch takes a split by itself: of few heads, one of short segments, and halves where a device
# takes those of all heads at once, but no more.
AUTOMATIC_ROWS = 2100
AUTOMATIC_HEADS = {"fine-split": 2, "split": 10, "halves": 4}
CASES += [("g", "bf16", "gqa", (16, 16), AUTOMATIC_ROWS, True, "sm_90a", name)
          for name in AUTOMATIC_HEADS]
CASES += [("gk", "bf16", "plain", (16, 16), AUTOMATIC_ROWS, False, "sm_80", "fine-split"),
          ("gk", "bf16", "packed", (16, 16), AUTOMATIC_ROWS, True, "sm_80", "fine-split")]
CASES += [("gk+gv", "bf16", "h0", (16, 16), AUTOMATIC_ROWS, True, "sm_80", "halves"),
          ("gamma", "bf16", "reverse", (16, 16), 2 * AUTOMATIC_ROWS, False, "sm_90a", "halves"),
          ("all", "f16", "h0", (16, 16), 2 * AUTOMATIC_ROWS, False, "sm_80", "halves")]
# Their forwards save states for the derivative.
SAVING = ("g", "gk")


def write_function(folder, gates, kind, variant, K, V):
    path = os.path.join(folder, f"{gates}-{kind}-{variant}-{K}x{V}.mlir")
    with open(path, "w") as file:
        file.write(text.function(gates, kind, variant, K, V))
    return path


def run_case(args, folder, case):
    gates, kind, variant, (K, V), T, derivative, arch, *automatic = case
    path = write_function(folder, gates, kind, variant, K, V)
    heads = AUTOMATIC_HEADS[automatic[0]] if automatic else 2
    sizes = f"B=1,T={T},H={heads},Hkv={heads // 2 if variant == 'gqa' else heads}"
    schedule = "auto" if automatic else "split"
    command = [args.ejk_run, path, f"--schedule={schedule}", "--device=cuda", "--check",
               "--explain", f"--arch={arch}",
               "--random", sizes + (",N=2" if variant == "packed" else "")]
    processors = {"EJK_EMULATOR_MULTIPROCESSORS": str(2 * heads)} if automatic == ["halves"] else {}
    return subprocess.run(command + ["--vjp"] * derivative, text=True, capture_output=True,
                          check=False, env=dict(os.environ, **processors))


def run_cases(args, folder):
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        results = list(pool.map(lambda case: run_case(args, folder, case), CASES))
    failed = 0
    for case, result in zip(CASES, results):
        errors = re.findall(r"check (\w+): \w+, relative L2 error (\S+),", result.stdout)
        bad = result.returncode != 0 or "not split" in result.stderr
        gates, _, _, _, _, derivative, _, *automatic = case
        bad |= derivative and gates in SAVING and "gives saved0" not in result.stdout
        bad |= any(f"schedule {'split' if name == 'halves' else name} " not in result.stdout for name in automatic)
        bad |= automatic == ["halves"] and not re.search(r"schedule split for .*\(B \* 2\) \* H", result.stdout)
        failed += bad
        print("FAIL" if bad else "pass", *case, *(f"{n} {e}" for n, e in errors), flush=True)
        if bad:
            print(result.stdout, result.stderr)
    print(f"{len(CASES)} cases, {failed} failed")
    return failed


def outputs(args, folder, path, inputs):
    given, made = (os.path.join(folder, name) for name in ("in.safetensors", "out.safetensors"))
    tensors.write_safetensors(given, inputs)
    subprocess.run([args.ejk_run, path, "--schedule=split", "--device=cuda", "--arch=sm_90a",
                    "--inputs", given, "--outputs", made], check=True, capture_output=True)
    return {name: array for name, (_, array) in tensors.read_safetensors(made).items()}


def same_bits(name, a, b):
    same = a.tobytes() == b.tobytes()
    print(f"{name}: {'the same bits' if same else 'OTHER BITS'}", flush=True)
    return 0 if same else 1


def run_batches(args, folder):
    random = np.random.default_rng(1)

    def draw(rows):
        draws = {name: ("bf16", random.standard_normal((1, rows, 2, 16))) for name in "qkv"}
        draws["gk"] = ("f32", -random.exponential(0.1, (1, rows, 2, 16)))
        return draws

    def join(parts, axis):
        return {name: (parts[0][name][0], np.concatenate([p[name][1] for p in parts], axis))
                for name in parts[0]}

    failed = 0
    path = write_function(folder, "gk", "bf16", "plain", 16, 16)
    entries = [draw(300) for _ in range(3)]
    together = outputs(args, folder, path, join(entries, 0))
    for n, entry in enumerate(entries):
        alone = outputs(args, folder, path, entry)
        for name in ("o", "ht"):
            failed += same_bits(f"entry {n}, {name}", together[name][n:n + 1], alone[name])

    path = write_function(folder, "gk", "bf16", "packed", 16, 16)
    lengths = [2300, 0, 70, 4200]
    offsets = np.cumsum([0] + lengths)
    sequences = [draw(rows) for rows in lengths]
    packed = join(sequences, 1)
    packed["cu_seqlens"] = ("i32", offsets)
    together = outputs(args, folder, path, packed)
    for n, sequence in enumerate(sequences):
        alone = outputs(args, folder, path, {**sequence, "cu_seqlens": ("i32", np.array([0, lengths[n]]))})
        rows = together["o"][:, offsets[n]:offsets[n + 1]]
        failed += same_bits(f"sequence {n}, o", rows, alone["o"])
        failed += same_bits(f"sequence {n}, ht", together["ht"][n:n + 1], alone["ht"])
    print(f"{failed} differ")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["cases", "batches"])
    parser.add_argument("--ejk-run", required=True)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ejk-split-") as folder:
        return 1 if {"cases": run_cases, "batches": run_batches}[args.what](args, folder) else 0


if __name__ == "__main__":
    sys.exit(main())
