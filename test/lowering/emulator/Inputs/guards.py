"""guards.py GATES FOLDER: the final state of a recurrence with gates of keys, gk, or values, gv, and its inputs, of 40 rows.

The gates of one head sum up to less than the bound of a chunk's range guard over its first 33 rows, those of the
next to somewhat more, and so on: each is as near to the bound as one row's gate, in some channel.
"""
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.append(os.path.join(HERE, "..", "..", "..", "oracle"))
import tensors  # noqa: E402

gates, folder = sys.argv[1:]
K, V, kind = {"gk": (256, 64, "f32"), "gv": (317, 16, "f16")}[gates]
H, T = 40, 40
q, v, gate = f"tensor<?x?x?x{K}xbf16>", f"tensor<?x?x?x{V}xbf16>", f"tensor<?x?x?x{K if gates == 'gk' else V}x{kind}>"
state = f"tensor<?x?x{K}x{V}xf32>"
with open(os.path.join(folder, "guards.mlir"), "w") as file:
    file.write(f"""func.func @final_state(%q: {q}, %k: {q}, %v: {v}, %{gates}: {gate}) -> {state} {{
  %o, %ht = ejk.recurrent %q, %k, %v {gates}(%{gates} : {gate}) : {q}, {q}, {v} -> {v}, {state}
  return %ht : {state}
}}
""")

rng = np.random.default_rng(2)
rows = {name: rng.standard_normal((1, T, H, channels)) for name, channels in (("q", K), ("k", K), ("v", V))}
rows["k"] /= np.linalg.norm(rows["k"], axis=-1, keepdims=True)
means = np.linspace(1.4, 1.75, H)[None, None, :, None]
channels = K if gates == "gk" else V
drawn = np.minimum(-means * (1 + 0.3 * rng.standard_normal((1, T, H, channels))), -1e-3)
tensors.write_safetensors(os.path.join(folder, "guards.safetensors"), {
    **{name: ("bf16", tensors.round_to(x, "bf16")) for name, x in rows.items()},
    gates: (kind, tensors.round_to(drawn, kind))})
