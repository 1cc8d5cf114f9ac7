#!/usr/bin/env python3
"""Runs an entry of a package on an emulated CPU, and compares its outputs.

run-image.py draw PACKAGE ENTRY B=1,T=37,... IN.safetensors
run-image.py run PACKAGE CODE ARCH ENTRY IN.safetensors EXPECTED.safetensors RUNNER...

The first draws inputs. CODE is the folder of ejk-launch's --code, and RUNNER is the command of run-image.c's program:
qemu-aarch64-static, and what was built of it. This reads the manifest, finds the sizes' values from the inputs'
shapes, and lays out image, arguments and tensors as the runtime would.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np

sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../../oracle"))
import tensors  # noqa: E402

MEMORY = 0x200000000


def size_of(kind):
    return tensors.FORMATS[kind][1].itemsize


def to_bytes(kind, array):
    stored = tensors.bf16_bits(array) if kind == "bf16" else np.asarray(array)
    return np.ascontiguousarray(stored.astype(tensors.FORMATS[kind][1])).tobytes()


def from_bytes(kind, shape, data):
    array = np.frombuffer(data, tensors.FORMATS[kind][1]).reshape(shape)
    return kind, tensors.bf16_values(array) if kind == "bf16" else array


def read_package(path):
    data = open(path, "rb").read()
    manifest_size, = struct.unpack_from("<Q", data, 16)
    return json.loads(data[64:64 + manifest_size])


def evaluate(expr, symbols):
    if isinstance(expr, int):
        return expr
    if isinstance(expr, str):
        return symbols[expr]
    op, a, b = expr[0], evaluate(expr[1], symbols), evaluate(expr[2], symbols)
    return {"+": a + b, "-": a - b, "*": a * b, "max": max(a, b), "min": min(a, b),
            "floordiv": b and a // b, "ceildiv": b and -(-a // b), "mod": b and a % b}[op]


def bind(entry, inputs):
    symbols = {}
    for spec in entry["inputs"]:
        for size, expr in zip(inputs[spec["name"]][1].shape, spec["shape"]):
            if isinstance(expr, str):
                symbols.setdefault(expr, size)
            elif isinstance(expr, list) and isinstance(expr[1], str) and expr[0] == "+":
                symbols.setdefault(expr[1], size - expr[2])
        if "row_stride" in spec:  # rows here follow one another
            symbols[spec["row_stride"]] = int(np.prod(inputs[spec["name"]][1].shape[2:]))
    return symbols


def draw(package, entry_name, sizes, target):
    entry = next(e for e in read_package(package)["entries"] if e["name"] == entry_name)
    symbols = {name: int(size) for name, size in (part.split("=") for part in sizes.split(","))}
    random = np.random.default_rng(1)
    inputs = {}
    for spec in entry["inputs"]:
        array = random.standard_normal([evaluate(size, symbols) for size in spec["shape"]])
        if spec.get("role") == "log_decay":
            array = -0.3 * np.abs(array)
        inputs[spec["name"]] = (spec["dtype"], array.astype(np.float32))
    tensors.write_safetensors(target, inputs)


def compare(outputs, expected):
    """Whether all outputs are as near as a kernel's have to be; prints how near."""
    passed = True
    for name, (kind, array) in outputs.items():
        reference = np.asarray(expected[name][1], np.float64)
        error = np.linalg.norm(array - reference) / np.linalg.norm(reference)
        limit = 2e-5 if kind == "f32" else 5e-3
        print(f"{name}: {'pass' if error <= limit else 'FAIL'}, {error:.1e} (limit {limit:.0e})")
        passed &= bool(error <= limit)
    return passed


def run(package, code, arch, entry_name, source, expected, *runner):
    manifest = read_package(package)
    image = next(i for i in manifest["images"] if i["kind"] == "cpu" and i["arch"] == arch)
    entry = next(e for e in manifest["entries"] if e["name"] == entry_name)
    variants = [v for v in entry.get("variants", [entry]) if v.get("arch", arch) == arch]
    variant = variants[-1]
    inputs = tensors.read_safetensors(source)
    symbols = bind(entry, inputs)

    memory = bytearray(16 + 64 * 24)

    def place(data):
        memory.extend(bytes(-len(memory) % 4096))
        address = MEMORY + len(memory)
        memory.extend(data)
        return address

    with open(os.path.join(code, f"{arch}.bin"), "rb") as file:
        code = place(file.read())
    places = {"input": [], "output": [], "workspace": []}
    for spec in entry["inputs"]:
        places["input"].append(place(to_bytes(*inputs[spec["name"]])))
    shapes = []
    for spec in entry["outputs"]:
        shapes.append([evaluate(size, symbols) for size in spec["shape"]])
        count = int(np.prod(shapes[-1], dtype=np.int64))
        places["output"].append(place(b"\xff" * (count * size_of(spec["dtype"]))))
    for buffer in variant.get("workspace", []):
        places["workspace"].append(place(b"\xff" * evaluate(buffer["bytes"], symbols)))
    launches = []
    for launch in variant["launches"]:
        words = []
        for argument in launch["args"]:
            (kind, value), = argument.items()
            words.append(evaluate(value, symbols) if kind == "i64" else places[kind][value])
        launches.append((code + image["kernels"][launch["kernel"]],
                         place(struct.pack(f"<{len(words)}q", *words)),
                         evaluate(launch["grid"], symbols)))
    memory.extend(bytes(-len(memory) % 4096))
    struct.pack_into("<QQ", memory, 0, len(memory), len(launches))
    for i, launch in enumerate(launches):
        struct.pack_into("<QQQ", memory, 16 + 24 * i, *launch)
    with tempfile.TemporaryDirectory() as folder:
        before, after = (os.path.join(folder, name) for name in ("before", "after"))
        with open(before, "wb") as file:
            file.write(memory)
        subprocess.run([*runner, before, after], check=True)
        memory = open(after, "rb").read()
    outputs = {}
    for spec, shape, address in zip(entry["outputs"], shapes, places["output"]):
        count = int(np.prod(shape, dtype=np.int64)) * size_of(spec["dtype"])
        start = address - MEMORY
        outputs[spec["name"]] = from_bytes(spec["dtype"], shape, memory[start:start + count])
    return compare(outputs, tensors.read_safetensors(expected))


def main():
    if sys.argv[1] == "draw":
        return draw(*sys.argv[2:])
    return 0 if run(*sys.argv[2:]) else 1


if __name__ == "__main__":
    sys.exit(main())
