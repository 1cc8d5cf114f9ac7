#!/usr/bin/env python3
"""A delta rule by chunks in a kernel, against a NumPy model of the chunkwise form's error.

    delta_model.py EJK_RUN

The model computes chunks of 64 steps in f64 and rounds to bf16 what a matmul takes: the state, u, the rows of the inverse and of
the triangles. Its gradients' errors are those of the stepwise backward pass with the same roundings (corrections.py). A kernel may be 1.5
times as far from the exact result: ordinary keys, and keys that point nearly one way with β up to 2. Outputs may be off by 5e-3 at
most and gradients by 8e-3, too.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np

FOLDER = os.path.dirname(os.path.realpath(__file__))
sys.path.append(os.path.join(FOLDER, "..", "..", "..", "oracle"))
import corrections  # noqa: E402
import tensors  # noqa: E402

B, T, H, K, V, CHUNK, MOST = 1, 150, 2, 64, 64, 64, 1.5
SCALE = K ** -0.5
ROWS, STATE = f"tensor<?x?x?x{K}xbf16>", f"tensor<?x?x{K}x{V}xf32>"
PROGRAM = f"""func.func @delta(%q: {ROWS}, %k: {ROWS}, %v: {ROWS}, %beta: tensor<?x?x?xf32>, %g: tensor<?x?x?xf32>)
    -> ({ROWS} {{ejk.name = "o"}}, {STATE} {{ejk.name = "ht"}}) {{
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<?x?x?xf32>) g(%g : tensor<?x?x?xf32>) : {ROWS}, {ROWS}, {ROWS} -> {ROWS}, {STATE}
  return %o, %ht : {ROWS}, {STATE}
}}
"""


def rounded(x):
    return tensors.round_to(x, "bf16").astype(np.float64)


def chunked(q, k, v, beta, g):
    """(o, ht) of one head by chunks."""
    state, o = np.zeros((K, V)), np.zeros((T, V))
    for first in range(0, T, CHUNK):
        rows = slice(first, min(first + CHUNK, T))
        qc, kc, total = q[rows], k[rows], np.cumsum(g[rows])
        decays = np.exp(np.minimum(total[:, None] - total[None, :], 0.0))
        seen, c = rounded(state), -beta[rows][:, None]
        right = beta[rows][:, None] * v[rows] + c * np.exp(total)[:, None] * (kc @ seen)
        inverse = np.linalg.inv(np.eye(len(kc)) - c * np.tril((kc @ kc.T) * decays, -1))
        u = right + rounded(inverse - np.eye(len(kc))) @ rounded(right)
        o[rows] = SCALE * (np.exp(total)[:, None] * (qc @ seen)
                           + rounded(np.tril((qc @ kc.T) * decays)) @ rounded(u))
        left = rounded(kc * np.exp(total[-1] - total)[:, None])
        state = np.exp(total[-1]) * state + left.T @ rounded(u)
    return o, state


def distance(x, exact):
    return np.linalg.norm(x - exact) / np.linalg.norm(exact)


def draw(parallel):
    rng = np.random.default_rng(11)
    normal = rng.standard_normal
    keys = normal((B, T, H, K)) + (4.0 if parallel else 0.0)
    keys *= 0.97 / np.linalg.norm(keys, axis=-1, keepdims=True)
    narrow = {"q": normal((B, T, H, K)), "k": keys, "v": normal((B, T, H, V)), "do": normal((B, T, H, V))}
    wide = {"beta": (2.0 if parallel else 1.0) * rng.random((B, T, H)), "g": -0.1 * rng.exponential(1.0, (B, T, H)),
            "dht": normal((B, H, K, V))}
    return {**{name: ("bf16", tensors.round_to(x, "bf16")) for name, x in narrow.items()},
            **{name: ("f32", x.astype(np.float32)) for name, x in wide.items()}}


def gradients(x, do, dht, rounding):
    grads = corrections.backward(
        {"q": x["q"], "k": x["k"], "w": x["beta"][..., None] * x["v"], "c": -x["beta"], "g": x["g"]},
        [corrections.Part("k", "w", "c", "k")], corrections.walks_of(B, T), np.zeros((B, H, K, V)), do, dht, SCALE, rounding)
    return {"dq": grads["q"], "dk": grads["k"], "dv": x["beta"][..., None] * grads["w"],
            "dbeta": (grads["w"] * x["v"]).sum(axis=-1) - grads["c"], "dg": grads["g"]}


def run(ejk_run, inputs, *options):
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        with open(path("f.mlir"), "w") as file:
            file.write(PROGRAM)
        tensors.write_safetensors(path("in.safetensors"), inputs)
        subprocess.run([ejk_run, path("f.mlir"), "--device=cuda", "--schedule=chunk", "--arch=sm_90a", "--inputs",
                        path("in.safetensors"), "--outputs", path("out.safetensors"), *options], check=True, stdout=subprocess.DEVNULL)
        return {name: np.asarray(x, np.float64) for name, (_, x) in tensors.read_safetensors(path("out.safetensors")).items()}


def main(ejk_run):
    failed = 0
    for name, parallel in (("ordinary keys", False), ("nearly parallel keys", True)):
        inputs = draw(parallel)
        x = {key: np.asarray(array, np.float64) for key, (_, array) in inputs.items()}
        exact, model = {}, {}
        parts = [corrections.Part("k", "w", "c", "k")]
        operands = {**x, "w": x["beta"][..., None] * x["v"], "c": -x["beta"]}
        exact["o"], exact["ht"] = corrections.forward(operands, parts, corrections.walks_of(B, T), np.zeros((B, H, K, V)), SCALE)
        heads = [chunked(x["q"][0, :, h], x["k"][0, :, h], x["v"][0, :, h], x["beta"][0, :, h], x["g"][0, :, h]) for h in range(H)]
        model["o"] = rounded(np.stack([o for o, _ in heads], axis=1)[None])
        model["ht"] = np.stack([state for _, state in heads])[None]
        exact.update(gradients(x, x["do"], x["dht"], corrections.same))
        model.update(gradients(x, x["do"], x["dht"], rounded))
        for key in ("dq", "dk", "dv"):
            model[key] = rounded(model[key])
        primal = {key: inputs[key] for key in ("q", "k", "v", "beta", "g")}
        found = {**run(ejk_run, primal), **run(ejk_run, inputs, "--vjp")}
        for key, value in exact.items():
            limit = 5e-3 if key in ("o", "ht") else 8e-3
            error, allowed = distance(found[key], value), min(limit, MOST * distance(model[key], value))
            failed += error > allowed
            print(f"{name}: {key} is off by {error:.1e}, {'within' if error <= allowed else 'more than'} {allowed:.1e}")
    print(f"{failed} failed")
    return int(failed != 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
