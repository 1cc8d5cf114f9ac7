#!/usr/bin/env python3
"""Gates' gradients of chosen cases, in the emulator, against the NumPy oracle: within a tolerance
of their own norm or 1e-5 of their terms', and exactly zero where a gate has no effect.

usage: gate_accuracy.py EJK-RUN FOLDER step|chunk, with oracle.py and tensors.py on PYTHONPATH
"""
import os
import subprocess
import sys

import numpy as np
import oracle
import tensors

INF = np.inf
# Name, K, V, T, heads, gates and their sizes, and the rest of the options.
CASES = [
    ("all gates -inf", 64, 64, 70, 2, {"gk": INF}, {}),
    ("all gates -inf", 64, 64, 70, 2, {"gk": INF, "gv": INF}, {"h0": True}),
    ("all gates -inf", 32, 48, 40, 1, {"g": INF, "g_gamma": INF, "gk": INF, "gv": INF}, {}),
    ("all gates -inf", 64, 64, 70, 2, {"g": INF}, {"h0": True}),
    ("all gates -inf", 64, 64, 70, 2, {"g_gamma": INF}, {"h0": True, "reverse": True}),
    ("some gates -inf", 64, 64, 70, 2, {"g": "some"}, {"h0": True}),
    ("some gates -inf", 64, 64, 70, 2, {"gk": "some"}, {"reverse": True}),
    ("some gates -inf", 48, 32, 70, 2, {"gv": "some", "g": 0.1}, {}),
    ("one step", 64, 64, 1, 2, {"g": 0.1}, {}),
    ("one step", 64, 64, 1, 2, {"g_gamma": 0.1}, {}),
    ("one step", 64, 64, 1, 2, {"gk": 0.1}, {"kind": "f16"}),
    ("one step", 24, 40, 1, 1, {"g": 1, "g_gamma": 1, "gk": 1, "gv": 1}, {"reverse": True}),
    ("sequences of one step", 64, 64, 9, 2, {"g": 1, "g_gamma": 1}, {"cu": [0, 1, 1, 2, 9]}),
    ("first steps", 64, 64, 100, 2, {"g": 1e-3}, {}),
    ("first steps", 64, 64, 100, 2, {"gk": 0.1}, {"reverse": True}),
    ("first steps", 64, 64, 90, 2, {"gk": 1, "gv": 1}, {"cu": [0, 20, 84, 90]}),
    ("three gates of -14", 64, 64, 20, 2, {"g": "14", "g_gamma": "14", "gk": "14"}, {}),
    ("three gates of -14", 64, 64, 100, 2, {"g_gamma": "14", "gk": "14", "gv": "14"}, {}),
    ("strong g and gk", 100, 32, 5, 2, {"g": 8, "gk": 8}, {}),
    ("strong g and gk", 100, 32, 5, 2, {"g": 16, "gk": 16}, {"h0": True}),
    ("γ over packed sequences", 64, 64, 60, 2, {"g_gamma": 1}, {"cu": [0, 20, 41, 60]}),
    ("few channels along one axis", 15, 92, 20, 3, {"g_gamma": 0.1},
     {"h0": True, "reverse": True, "kind": "f16"}),
    ("few channels along one axis", 24, 40, 60, 2, {"g_gamma": 0.1}, {"cu": [0, 17, 51, 60]}),
    ("few channels along one axis", 24, 48, 30, 1, {"g_gamma": 0.1, "gk": 0.1}, {}),
    ("few heads", 128, 128, 30, 1, {"g_gamma": 1e-3}, {"h0": True, "seed": 28}),
    ("few heads", 64, 128, 65, 2, {"g_gamma": 1e-3}, {"h0": True, "reverse": True, "seed": 24}),
    ("few heads", 64, 64, 5, 1, {"g_gamma": 0.1}, {"h0": True, "kind": "f16", "seed": 26}),
    ("few heads", 128, 64, 100, 1, {"g": 1e-3}, {"seed": 33}),
    ("few heads", 5, 198, 4, 1, {"g": 0.1}, {"h0": True, "kind": "f16", "seed": 38}),
    ("few heads", 512, 16, 19, 2, {"g": 0.1, "g_gamma": 0.1}, {"kind": "f16", "seed": 41}),
    ("few heads", 64, 64, 40, 1, {"g_gamma": 1e-2, "gk": 1e-2}, {"h0": True, "seed": 25}),
    ("few channels of few heads", 1, 33, 6, 1, {"gk": 1e-2}, {"kind": "f16", "seed": 40}),
    ("few channels of few heads", 48, 2, 6, 1, {"gv": 1e-2}, {"h0": True, "seed": 50}),
    ("few channels of few heads", 64, 5, 20, 1, {"gv": 1e-2}, {"seed": 48}),
]


def draw(rng, shape, size):
    if size == "14":
        return np.full(shape, -14.0)
    if size == "some":
        return np.where(rng.random(shape) < 0.1, -INF, -rng.exponential(0.1, shape))
    return np.full(shape, -INF) if size == INF else -rng.exponential(size, shape)


def text(shapes, kinds, reverse):
    types = {n: f"tensor<{'x'.join(map(str, s))}x{kinds[n]}>" for n, s in shapes.items()}
    names = [n for n in shapes if n not in ("o", "ht")]
    clauses = [f"{'initial_state' if n == 'h0' else n}(%{n} : {types[n]})" for n in names[3:]]
    arguments = ", ".join(f'%{n}: {types[n]} {{ejk.name = "{n}"}}' for n in names)
    return f"""func.func @f({arguments})
    -> ({types['o']} {{ejk.name = "o"}}, {types['ht']} {{ejk.name = "ht"}}) {{
  %o, %ht = ejk.recurrent {'reverse ' if reverse else ''}%q, %k, %v {' '.join(clauses)}
      : {types['q']}, {types['k']}, {types['v']} -> {types['o']}, {types['ht']}
  return %o, %ht : {types['o']}, {types['ht']}
}}
"""


def run(ejk_run, folder, schedule, number, case):
    name, K, V, T, H, gates, options = case
    rng = np.random.default_rng(options.get("seed", number))
    cu, reverse = options.get("cu"), options.get("reverse", False)
    N = len(cu) - 1 if cu else 1
    kind = options.get("kind", "bf16")
    shapes = {"q": (1, T, H, K), "k": (1, T, H, K), "v": (1, T, H, V)}
    shapes |= {n: {"g": (1, T, H), "g_gamma": (H,), "gk": (1, T, H, K), "gv": (1, T, H, V)}[n]
               for n in gates}
    if options.get("h0"):
        shapes["h0"] = (N, H, K, V)
    inputs = {n: rng.standard_normal(s) for n, s in shapes.items()}
    inputs |= {n: draw(rng, shapes[n], size) for n, size in gates.items()}
    shapes |= {"o": (1, T, H, V), "ht": (N, H, K, V)}
    inputs |= {"do": rng.standard_normal(shapes["o"]), "dht": rng.standard_normal(shapes["ht"])}
    kinds = {n: "f32" if n in ("g_gamma", "h0", "ht", "dht") else kind for n in (*inputs, "o", "ht")}
    inputs = {n: tensors.round_to(x, kinds[n]) for n, x in inputs.items()}
    wide = {n: x.astype(np.float64) for n, x in inputs.items()}
    given = {n: (kinds[n], x) for n, x in inputs.items()}
    if cu:
        shapes["cu_seqlens"], kinds["cu_seqlens"] = (N + 1,), "i32"
        shapes["o"], shapes["ht"] = shapes.pop("o"), shapes.pop("ht")
        given["cu_seqlens"] = ("i32", np.array(cu, np.int32))
    path = lambda file: os.path.join(folder, file)
    with open(path("f.mlir"), "w") as file:
        file.write(text(shapes, kinds, reverse))
    tensors.write_safetensors(path("in.safetensors"), given)
    command = [ejk_run, path("f.mlir"), "--inputs", path("in.safetensors"), "--outputs",
               path("out.safetensors"), "--device=cuda", f"--schedule={schedule}", "--vjp", "--save-states=false"]
    done = subprocess.run(command + ["--check"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stdout.decode(errors='replace')}")
    found = tensors.read_safetensors(path("out.safetensors"))
    rest = {n: wide[n] for n in (*gates, "h0") if n in wide}
    arguments = [wide[n] for n in ("q", "k", "v", "do", "dht")]
    expected = oracle.backward(*arguments, cu_seqlens=cu, reverse=reverse, **rest)
    terms = oracle.gate_terms(*arguments, cu_seqlens=cu, reverse=reverse, **rest)
    for gate in gates:
        x, reference = found["d" + gate][1].astype(np.float64), expected[gate]
        error, size = np.linalg.norm(x - reference), np.linalg.norm(reference)
        part = error / np.linalg.norm(terms[gate])
        if x[reference == 0].any() or not (error <= 5e-3 * size or part <= 1e-5):
            raise SystemExit(f"{name}, d{gate} of {K}x{V}, {T} steps: off by {error:.1e} of "
                             f"{size:.1e}, {part:.1e} of its terms; "
                             f"{np.abs(x[reference == 0]).max(initial=0):.1e} for zero")


def main():
    ejk_run, folder, schedule = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    for number, case in enumerate(CASES):
        run(ejk_run, folder, schedule, number, case)
    print(f"{len(CASES)} cases pass")


if __name__ == "__main__":
    main()
