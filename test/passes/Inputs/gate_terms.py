#!/usr/bin/env python3
"""Holds the sizes of gates' terms that ejk-derive-backward makes against the NumPy oracle's.

usage: gate_terms.py EJK-OPT EJK-RUN FOLDER, with oracle.py and tensors.py on PYTHONPATH
"""
import os
import subprocess
import sys

import numpy as np
import oracle
import tensors

B, T, H, KV_HEADS, K, V = 2, 9, 4, 2, 3, 5
SHAPES = {"q": (B, T, H, K), "k": (B, T, KV_HEADS, K), "v": (B, T, KV_HEADS, V), "g": (B, T, H),
          "g_gamma": (H,), "gk": (B, T, H, K), "gv": (B, T, H, V), "h0": (B, H, K, V)}


def mlir_type(shape):
    return f"tensor<{'x'.join(map(str, shape))}xf32>"


def compare(ejk_opt, ejk_run, folder, gates, packed, reverse):
    rng = np.random.default_rng(len(gates) + 10 * packed)
    shapes = dict(SHAPES)
    cu = np.array([0, 4, 4, 5, B * T], np.int32) if packed else None
    if packed:
        shapes = {n: (1, B * T, *s[2:]) if n != "h0" and len(s) > 1 else s
                  for n, s in shapes.items()}
        shapes["h0"] = (len(cu) - 1, *shapes["h0"][1:])
    names = ["q", "k", "v", *gates, "h0"]
    arrays = {n: rng.standard_normal(shapes[n]).astype(np.float32) for n in names}
    for gate in gates:
        arrays[gate] = -np.abs(arrays[gate])
    state = mlir_type(shapes["h0"])
    out = shapes["q"][:3] + (V,)
    arguments = [f"%{n}: {mlir_type(shapes[n])}" for n in names]
    clauses = [f"{'initial_state' if n == 'h0' else n}(%{n} : {mlir_type(shapes[n])})"
               for n in names[3:]]
    if packed:
        arguments.append(f"%cu_seqlens: tensor<{len(cu)}xi32>")
        clauses.append(f"cu_seqlens(%cu_seqlens : tensor<{len(cu)}xi32>)")
    text = f"""func.func @f({', '.join(arguments)})
    -> ({mlir_type(out)} {{ejk.name = "o"}}, {state} {{ejk.name = "ht"}}) {{
  %o, %ht = ejk.recurrent {'reverse' if reverse else ''} %q, %k, %v {' '.join(clauses)}
      : {', '.join(mlir_type(shapes[n]) for n in 'qkv')} -> {mlir_type(out)}, {state}
  return %o, %ht : {mlir_type(out)}, {state}
}}
"""
    path = lambda name: os.path.join(folder, name)
    with open(path("f.mlir"), "w") as file:
        file.write(text)
    arrays["do"] = rng.standard_normal(out).astype(np.float32)
    arrays["dht"] = rng.standard_normal(shapes["h0"]).astype(np.float32)
    inputs = {n: ("f32", x) for n, x in arrays.items()}
    if packed:
        inputs["cu_seqlens"] = ("i32", cu)
    tensors.write_safetensors(path("in.safetensors"), inputs)
    subprocess.run([ejk_opt, path("f.mlir"), "--ejk-backward=gate-gradients=terms", "-o",
                    path("terms.mlir")], check=True)
    subprocess.run([ejk_run, path("terms.mlir"), "--entry=f_terms", "--device=interpreter",
                    "--precision=f64", "--inputs", path("in.safetensors"), "--outputs",
                    path("out.safetensors")], check=True, stdout=subprocess.DEVNULL)
    found = tensors.read_safetensors(path("out.safetensors"))
    wide = {n: x.astype(np.float64) for n, x in arrays.items()}
    for name in "kv":
        wide[name] = np.repeat(wide[name], H // KV_HEADS, axis=2)
    expected = oracle.gate_terms(wide["q"], wide["k"], wide["v"], wide["do"], wide["dht"],
                                 h0=wide["h0"], cu_seqlens=cu, reverse=reverse,
                                 **{gate: wide[gate] for gate in gates})
    for name in names:
        x = found["d" + name][1].astype(np.float64)
        reference = expected.get(name, np.zeros(x.shape))
        error = np.abs(x - reference).max() / max(1.0, np.abs(reference).max())
        if not error < 1e-6:  # what is written is f32
            raise SystemExit(f"{gates}, packed {packed}, reverse {reverse}: the terms of d{name} "
                             f"are off by {error:.2e}")


def main():
    ejk_opt, ejk_run, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    cases = 0
    for gates in (["g"], ["g_gamma"], ["gk"], ["gv"], ["gk", "gv"], ["g", "gv"],
                  ["g", "g_gamma", "gk", "gv"]):
        for packed, reverse in ((0, 0), (1, 1)):
            compare(ejk_opt, ejk_run, folder, gates, packed, reverse)
            cases += 1
    print(f"{cases} cases agree")


if __name__ == "__main__":
    main()
