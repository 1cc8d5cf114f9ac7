"""The descent of examples/c/train.c with ejk-run, on the interpreter, for its launches:
the same data, parameters and steps. Prints what train.c prints.

    descend.py EJK_RUN MAMBA2.mlir FOLDER
"""
import os
import subprocess
import sys

import numpy as np

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "oracle"))
import tensors  # noqa: E402

B, T, H, K, V, STEPS = 2, 32, 4, 64, 32, 50
RATE = np.float32(16)
EXPECTED = {"A": [-2.0, -1.5, -1.0, -0.5], "bias": [-0.5, 0.0, 0.5, 1.0]}


def numbers():
    """train.c's, from -1 to 1."""
    state = 1
    while True:
        state = (state * 1664525 + 1013904223) % 2 ** 32
        yield (state >> 8) / 8388608.0 - 1.0


def main():
    ejk_run, mlir, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    source = numbers()
    draw = lambda size, *shape: np.array(
        [size * next(source) for _ in range(np.prod(shape))], np.float32).reshape(shape)
    data = {"c": draw(0.125, B, T, H, K), "b": draw(1.0, B, T, H, K), "x": draw(1.0, B, T, H, V),
            "dt": draw(1.0, B, T, H)}

    def launch(arguments, *options):
        given, made = os.path.join(folder, "in.safetensors"), os.path.join(folder, "out.safetensors")
        tensors.write_safetensors(given, {n: ("f32", x) for n, x in {**data, **arguments}.items()})
        subprocess.run([ejk_run, mlir, "--inputs", given, "--outputs", made,
                        "--device=interpreter", *options], check=True, stdout=subprocess.DEVNULL)
        return {name: x for name, (_, x) in tensors.read_safetensors(made).items()}

    target = launch({name: np.float32(x) for name, x in EXPECTED.items()})["o"].astype(np.float64)
    found = {name: np.zeros(H, np.float32) for name in EXPECTED}
    for step in range(STEPS + 1):
        difference = launch(found)["o"] - target
        if step % 10 == 0:
            print(f"step {step:2}: loss {(difference ** 2).mean():.3e}")
        if step < STEPS:
            cotangents = {"do": (2 * difference / difference.size).astype(np.float32),
                          "dht": np.zeros((B, H, K, V), np.float32)}
            gradients = launch({**found, **cotangents}, "--vjp", "--wrt=A,bias")
            found = {name: x - RATE * gradients["d" + name] for name, x in found.items()}
    for name, x in found.items():
        print(f"{name:4} " + " ".join(f"{value:7.4f}" for value in x) + ", to be found: "
              + " ".join(f"{value:4.1f}" for value in EXPECTED[name]))


main()
