#!/usr/bin/python3
"""Quotients and logarithms whose operands the compiler knows to lie between bounds, by value.

    bounded_math.py BIN EMULATOR

x / (1 + e) with e = exp(-y) of any y, for a constant x and for any; log1p(exp(-|y|)). Each is compared with the
f64 result of the kernel's own e, in ulp of f32. Exit status 1 where one is past its limit.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np

BIN, EMULATOR = sys.argv[1:3]
T = "tensor<?xf32>"
TEXT = f"""
func.func @f(%x: {T}, %y: {T}) -> ({T}, {T}, {T}, {T}, {T}, {T}) {{
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : {T}
  %empty = tensor.empty(%n) : {T}
  %r:6 = linalg.generic {{indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>, affine_map<(d) -> (d)>,
      affine_map<(d) -> (d)>, affine_map<(d) -> (d)>, affine_map<(d) -> (d)>, affine_map<(d) -> (d)>,
      affine_map<(d) -> (d)>], iterator_types = ["parallel"]}}
      ins(%x, %y : {T}, {T}) outs(%empty, %empty, %empty, %empty, %empty, %empty : {T}, {T}, {T}, {T}, {T}, {T}) {{
  ^bb0(%a: f32, %b: f32, %o0: f32, %o1: f32, %o2: f32, %o3: f32, %o4: f32, %o5: f32):
    %one = arith.constant 1.0 : f32
    %five = arith.constant -5.0 : f32
    %minus = arith.negf %b : f32
    %e = math.exp %minus : f32
    %d = arith.addf %e, %one : f32
    %sigmoid = arith.divf %one, %d : f32
    %bound = arith.divf %five, %d : f32
    %any = arith.divf %a, %d : f32
    %size = math.absf %b : f32
    %below = arith.negf %size : f32
    %small = math.exp %below : f32
    %log = math.log1p %small : f32
    linalg.yield %d, %sigmoid, %bound, %any, %small, %log : f32, f32, f32, f32, f32, f32
  }} -> ({T}, {T}, {T}, {T}, {T}, {T})
  return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5 : {T}, {T}, {T}, {T}, {T}, {T}
}}
"""


def distance(found, exact, least):
    """The largest error in ulp where the exact result is a number of `least` or more; what is not is compared as it is."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        special = ~np.isfinite(exact) | (np.abs(exact) > 3.4e38) | (exact == 0)
        same = (found == rounded) & (np.signbit(found) == np.signbit(rounded)) | np.isnan(found) & np.isnan(rounded)
        if not same[special].all():
            i = np.flatnonzero(special & ~same)[0]
            return f"{found[i]} for {exact[i]}"
        usual = ~special & (np.abs(exact) >= least)
        error = np.abs(found[usual].astype(np.float64) - exact[usual]) / np.spacing(np.abs(rounded[usual]))
        tiny = ~special & ~usual
        far = np.abs(found[tiny].astype(np.float64) - exact[tiny]).max(initial=0)
        return max(error.max(), 0 if far <= 2 * least else float("inf"))


def main():
    rng = np.random.default_rng(3)
    special = np.array([0, -0., 1, -1, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 2.**-126, 3.4e38, -3.4e38], np.float32)
    y = np.concatenate([rng.uniform(-110, 110, 40000), rng.normal(size=40000), rng.uniform(-89, -40, 10000),
                        np.repeat([-np.inf, np.inf, np.nan, 0, -88.7, -88.73, 20], len(special))]).astype(np.float32)
    x = (rng.normal(size=90000) * np.exp2(rng.integers(-60, 60, 90000))).astype(np.float32)
    x = np.concatenate([x, np.tile(special, 7)])
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/x.npy", x), np.save(f"{folder}/y.npy", y)
        with open(f"{folder}/f.mlir", "w") as file:
            file.write(TEXT)
        subprocess.run([f"{BIN}/ejk-run", f"{folder}/f.mlir", f"--inputs=x={folder}/x.npy,y={folder}/y.npy",
                        f"--outputs={folder}/out/", "--device=cuda", "--arch=sm_90"], check=True,
                       env={**os.environ, "EJK_CUDA_DRIVER": EMULATOR}, stdout=subprocess.DEVNULL)
        d, sigmoid, bound, any_, small, log = (np.load(f"{folder}/out/out{i}.npy") for i in range(6))
    wide = d.astype(np.float64)
    with np.errstate(all="ignore"):
        cases = [("1 / (1 + e)", sigmoid, 1 / wide, 2.**-125, .51), ("-5 / (1 + e)", bound, -5 / wide, 2.**-122, .51),
                 ("x / (1 + e)", any_, x.astype(np.float64) / wide, 2.**-100, .51),
                 ("log1p(e)", log, np.log1p(small.astype(np.float64)), 2.**-126, 1.5)]
    failed = 0
    for name, found, exact, least, limit in cases:
        error = distance(found, exact, least)
        good = not isinstance(error, str) and error <= limit
        failed += not good
        print(f"{name}: {error if isinstance(error, str) else format(error, '.3f') + ' ulp'}{'' if good else ' FAIL'}")
    print(f"{len(cases)} formulas, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
