"""rotary.py EJK_RUN FILE.mlir rotary|xpos OPTION...: runs the function on random inputs and
compares its results with NumPy, where two channels are one complex number."""
import subprocess
import sys
import tempfile

import numpy as np

ejk_run, file, which, *options = sys.argv[1:]
rng = np.random.default_rng(3)


def rotate(x, positions, theta, log_growth):
    """x [T,H,2n] turned by positions·theta and grown by exp(positions·log_growth)."""
    n = x.shape[-1] // 2
    z = x[..., :n] + 1j * x[..., n:]
    exponent = log_growth[:n] + 1j * theta[:n]
    z = z * np.exp(positions[:, None, None] * exponent)
    return np.concatenate([z.real, z.imag], axis=-1)


def attend(q, k, v, theta, log_growth, walk):
    """o and the final Σ k vᵀ of one sequence, [T,H,…]."""
    positions = np.arange(len(q), dtype=np.float64)
    q, k = rotate(q, positions, theta, log_growth), rotate(k, positions, theta, -log_growth)
    state, o = np.zeros((q.shape[1], q.shape[2], v.shape[2])), np.zeros(v.shape)
    for t in walk(range(len(q))):
        state += k[t][:, :, None] * v[t][:, None, :]
        o[t] = np.einsum("hk,hkv->hv", q[t], state)
    return o, state


normal = lambda *shape: rng.standard_normal(shape).astype(np.float32)
twice = lambda x: np.concatenate([x, x]).astype(np.float32)
if which == "rotary":
    cu = np.array([0, 9, 9, 40], np.int32)
    inputs = {"q": normal(1, 40, 4, 12), "k": normal(1, 40, 2, 12), "v": normal(1, 40, 2, 7),
              "theta": twice(10000.0 ** (-np.arange(6) / 6)), "cu_seqlens": cu}
    q, k, v, theta = (inputs[name].astype(np.float64) for name in ("q", "k", "v", "theta"))
    k, v = np.repeat(k, 2, axis=2), np.repeat(v, 2, axis=2)
    parts = [attend(q[0, a:b], k[0, a:b], v[0, a:b], theta, 0 * theta, iter)
             for a, b in zip(cu, cu[1:])]
    expected = {"o": np.concatenate([o for o, _ in parts])[None],
                "ht": np.stack([state for _, state in parts])}
else:
    inputs = {"q": normal(2, 33, 2, 16), "k": normal(2, 33, 2, 16), "v": normal(2, 33, 2, 8),
              "theta": twice(10000.0 ** (-np.arange(8) / 8)), "zeta": twice(-0.02 * np.arange(8))}
    q, k, v, theta, zeta = (inputs[name].astype(np.float64) for name in inputs)
    parts = [attend(q[n], k[n], v[n], theta, zeta, reversed) for n in range(2)]
    expected = {"o": np.stack([o for o, _ in parts]),
                "ht": np.stack([state for _, state in parts]).transpose(0, 1, 3, 2)}

with tempfile.TemporaryDirectory() as folder:
    for name, x in inputs.items():
        np.save(f"{folder}/{name}.npy", x)
    command = [ejk_run, file, "--schedule=step", f"--entry={which}", f"--inputs={folder}", f"--outputs={folder}/out/"]
    subprocess.run(command + options, check=True)
    for name, x in expected.items():
        found = np.load(f"{folder}/out/{name}.npy")
        error = np.linalg.norm(found - x) / np.linalg.norm(x)
        # Sums of some 40 products in f32, and a sine's and cosine's last bits.
        if not error < (2e-7 if "--precision=f64" in options else 2e-6):
            raise SystemExit(f"{which}: {name} is off by {error:.2e}")
