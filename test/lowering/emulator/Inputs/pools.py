"""States in pools, in kernels for a GPU (on the emulator, which EJK_CUDA_DRIVER names) or for a CPU,
against the interpreter.
"""
import argparse
import os
import subprocess
import sys
import tempfile
from typing import NamedTuple

import numpy as np

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.append(os.path.join(HERE, "..", "..", "..", "oracle"))

import tensors  # noqa: E402

N, H, POOL = 6, 2, 40
# Sequences of which some have no slot. A kernel takes an index past the pool's end for none, too; the
# interpreter calls it an error.
ONE = np.array([4, -1, 0, POOL, 6, 2**31 - 1])
# Where sequences end that start elsewhere: in no slot, from zero, without both, and in their own.
OTHER = np.array([9, 7, -3, POOL + 1, 6, 12])


class Case(NamedTuple):
    kind: str       # the pool's type
    integer: str    # the indices'
    K: int
    V: int
    T: int          # rows
    group: int = 1  # query heads of a state
    schedule: str = "step"
    turned: bool = False  # as [V,K]
    apart: bool = False   # an index to read and one to write
    drafts: bool = False  # the state after each row to a slot of its own
    first: int = 0
    second: int = 0       # slots of a pool of another state; its scan has both states


CASES = [Case("f32", "i32", 16, 16, 1), Case("bf16", "i32", 64, 128, 1), Case("f16", "i64", 48, 64, 1),
         Case("bf16", "i64", 60, 20, 5), Case("bf16", "i32", 64, 64, 70, 1, "chunk"),
         Case("bf16", "i32", 64, 128, 1, 4), Case("f32", "i64", 60, 20, 5, 3),
         Case("f32", "i32", 128, 64, 1, 2, "auto"), Case("bf16", "i32", 64, 64, 70, 2, "auto"),
         Case("f32", "i32", 64, 48, 1, turned=True), Case("bf16", "i32", 32, 64, 1, 2, turned=True),
         Case("f16", "i32", 20, 60, 3, turned=True, first=1),
         Case("f32", "i64", 16, 32, 1, apart=True), Case("bf16", "i32", 64, 32, 1, 2, apart=True, turned=True),
         Case("f32", "i32", 64, 64, 70, 1, "chunk", turned=True, apart=True, first=1),
         Case("f32", "i32", 32, 16, 4, drafts=True, first=1),
         Case("bf16", "i32", 64, 64, 3, 2, drafts=True, turned=True),
         Case("f16", "i64", 60, 20, 8, drafts=True, turned=True, first=1),
         # A second pool with fewer slots than the first, and with more.
         Case("f32", "i32", 16, 16, 3, second=6), Case("f32", "i64", 16, 16, 3, second=POOL + 8),
         Case("bf16", "i32", 32, 32, 2, second=6, apart=True), Case("f32", "i32", 64, 64, 70, 1, "chunk", second=6),
         Case("f16", "i32", 20, 60, 3, turned=True, second=POOL + 8, first=1)]


def program(case):
    K, V = case.K, case.V
    q, k, v = (f"tensor<?x?x?x{c}xbf16>" for c in (K, K, V))
    pool = f"tensor<?x?x{'x'.join(map(str, (V, K) if case.turned else (K, V)))}x{case.kind}>"
    index = f"tensor<?x{'?x' * case.drafts}{case.integer}>"
    state, count = f"tensor<?x?x{K}x{V}xf32>", f"tensor<?x{case.integer}>"
    options = f"{'value_major ' * case.turned}{{first_slot = {case.first} : i64}}"
    taken = f"accepted(%accepted : {count}) " * case.drafts
    arguments = [f"%q: {q}", f"%k: {k}", f"%v: {v}", f"%g: tensor<?x?x?x{K}xf32>", f"%pool: {pool}",
                 f"%index: {index}"]
    arguments += [f"%pool2: {pool}"] * bool(case.second)
    arguments += [f"%accepted: {count}"] * case.drafts + [f"%other: {index}"] * case.apart
    end = "%other" if case.apart else "%index"
    smaller = "%pool2" if 0 < case.second < POOL else "%pool"
    # What another state adds to the text: its start, its step, its place among the states, its end.
    vectors = f"vector<{K}x{V}xf32>, vector<{K}xf32>"
    start2, step2, carried2, next2, end2, name2 = (text * bool(case.second) for text in (
        f"\n  %r0 = ejk.read_states %pool2 at %index {options} : {pool}, {index} -> {state}",
        f"\n    %R1 = ejk.outer_add %R, %qw, %vw : {vectors}, vector<{V}xf32>"
        f"\n    %o2 = ejk.read %R1, %kw along key : {vectors}"
        f"\n    %os = arith.addf %ow, %o2 : vector<{V}xf32>",
        f", %R = %r0 : {state}", f", %R1 : vector<{K}x{V}xf32>, vector<{K}x{V}xf32>",
        f"\n  %updated2 = ejk.write_states %rt to %pool2 at {end} {options} : {state}, {pool}, {index}",
        f', {pool} {{ejk.name = "updated2"}}'))
    saved, offsets = ("%ht", "") if not case.drafts else ("%kept", " save_every 1")
    queries = "queries" if case.group > 1 else ""
    body = f"""
    %gw = ejk.decay %S by %gt along key : vector<{K}x{V}xf32>, vector<{K}xf32>
    %kw = arith.extf %kt : vector<{K}xbf16> to vector<{K}xf32>
    %vw = arith.extf %vt : vector<{V}xbf16> to vector<{V}xf32>
    %S1 = ejk.outer_add %gw, %kw, %vw : vector<{K}x{V}xf32>, vector<{K}xf32>, vector<{V}xf32>
    %qw = arith.extf %qt : vector<{K}xbf16> to vector<{K}xf32>
    %ow = ejk.read %S1, %qw along key : vector<{K}x{V}xf32>, vector<{K}xf32>{step2}
    %ot = arith.truncf {"%os" if step2 else "%ow"} : vector<{V}xf32> to vector<{V}xbf16>
    ejk.yield states(%S1{next2 or f" : vector<{K}x{V}xf32>"}) outputs(%ot : vector<{V}xbf16>)"""
    rows = f"%kt = %k : {k}, %vt = %v : {v}, %gt = %g : tensor<?x?x?x{K}xf32>"
    first = f"sequences({rows}) queries(%qt = %q : {q})" if queries else \
        f"sequences(%qt = %q : {q}, {rows})"
    indices = "%index, %other" if case.apart else "%index"
    return f"""
func.func @decode({', '.join(arguments)})
    -> ({v} {{ejk.name = "o"}}, {pool} {{ejk.name = "updated"}}{name2}) {{
  %h0 = ejk.read_states %pool at %index {taken}{options} : {pool}, {index} -> {state}{start2}
  %o, %ht{', %rt' * bool(case.second)}{', %kept' * case.drafts} = ejk.scan{offsets} {first}
      states(%S = %h0 : {state}{carried2}) -> ({v}){f' saves({state})' * case.drafts} {{{body}{
        f' saves(%S1 : vector<{K}x{V}xf32>)' * case.drafts}
  }}
  %shown = ejk.zero_skipped %o of {smaller} at {indices} {{first_slot = {case.first} : i64}}
      : {v}, {pool}, {', '.join([index] * (1 + case.apart))}
  %updated = ejk.write_states {saved} to %pool at {end} {options} : {state}, {pool}, {index}{end2}
  return %shown, %updated{", %updated2" * bool(case.second)} : {v}, {pool}{f", {pool}" * bool(case.second)}
}}
"""


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
    norm = np.linalg.norm(expected)
    return np.linalg.norm(x - expected) / (norm or 1)


def check(args, case, random, folder):
    path, given = os.path.join(folder, "decode.mlir"), os.path.join(folder, "in.safetensors")
    with open(path, "w") as file:
        file.write(program(case))
    shape = (case.V, case.K) if case.turned else (case.K, case.V)
    pools = {"pool": POOL, "pool2": case.second}
    pools = {name: tensors.round_to(random.standard_normal((slots, H, *shape)), case.kind)
             for name, slots in pools.items() if slots}

    def rows(heads, channels):
        return random.standard_normal((N, case.T, heads, channels))
    inputs = {"q": ("bf16", rows(H * case.group, case.K)), "k": ("bf16", rows(H, case.K)),
              "v": ("bf16", rows(H, case.V)),
              "g": ("f32", -random.exponential(0.5, (N, case.T, H, case.K))),
              "index": (case.integer, ONE)} | {name: (case.kind, pool) for name, pool in pools.items()}
    if case.apart:
        inputs["other"] = (case.integer, OTHER)
    if case.drafts:
        # Distinct slots, some of none; sequence 1 has none at all.
        table = random.permutation(POOL)[:N * 4].reshape(N, 4)
        table = np.concatenate([table, np.full((N, 4), -1)], 1)[:, :case.T]
        table[1], table[2, 0] = -1, POOL
        accepted = random.integers(1, case.T + 1, N)
        accepted[4] = 1
        inputs["index"], inputs["accepted"] = (case.integer, table), (case.integer, accepted)
    tensors.write_safetensors(given, inputs)
    found = run(args, path, given, folder, args.device, case.schedule)

    def is_slot(index):
        return (index >= case.first) & (index < min(map(len, pools.values())))
    given_index = inputs["other" if case.apart else "index"][1]
    for name in ("index", "other"):
        if name in inputs:
            index = inputs[name][1]
            inputs[name] = (case.integer, np.where(is_slot(index), index, -1))
    tensors.write_safetensors(given, inputs)
    expected = run(args, path, given, folder, "interpreter", "step")
    written = inputs["other" if case.apart else "index"][1].ravel()
    written = np.unique(written[is_slot(written)])
    skipped = ~np.any([is_slot(inputs[n][1].reshape(N, -1)).any(1) for n in ("index", "other")
                       if n in inputs], axis=0)
    o = error(found["o"], expected["o"])
    states, untouched = 0, True
    for name, pool in pools.items():
        updated = name.replace("pool", "updated")
        # A kernel of both states skips an index that only one pool has a slot for, two kernels do not.
        others = np.setdiff1d(np.arange(len(pool)), given_index)
        states = max(states, error(found[updated][written], expected[updated][written]))
        untouched &= np.array_equal(found[updated][others], np.asarray(pool, np.float64)[others])
    cleared = skipped.any() and not found["o"][skipped].any()
    # Roundings of o, and of states, to 16 bits; in chunks of matmuls' operands as well.
    least = 1e-6 if case.kind == "f32" and case.schedule != "chunk" else 5e-3
    good = o < 5e-3 and states < least and untouched and cleared
    print("pass" if good else "FAIL", *case, f"o {o:.1e}", f"states {states:.1e}",
          "others untouched" if untouched else "others TOUCHED", "" if cleared else "rows NOT CLEARED")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ejk-run", required=True)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    random, failed = np.random.default_rng(1), 0
    with tempfile.TemporaryDirectory(prefix="ejk-pools-") as folder:
        for case in CASES:
            failed += not check(args, case, random, folder)
    print(f"{len(CASES)} cases, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
