"""by_gates.py EJK-RUN FILE SIZES GATES FLAGS...: of how many sequences and heads the kernels for strong gates compute the
outputs, on the emulator: those whose bits are others than where each head is computed by the kernels for weak gates."""
import json
import subprocess
import sys
import tempfile

import numpy


def outputs(path):
    data = open(path, "rb").read()
    size = int.from_bytes(data[:8], "little")
    found = json.loads(data[8:8 + size])
    entry = found.get("o") or found["out0"]
    begin, end = entry["data_offsets"]
    words = numpy.frombuffer(data[8 + size + begin:8 + size + end], numpy.uint16)
    return words.reshape(entry["shape"])


def main():
    ejk_run, source, sizes, gates, *flags = sys.argv[1:]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for by_gates in ("never", "always"):
            path = f"{folder}/{by_gates}.safetensors"
            subprocess.run([ejk_run, source, f"--random={sizes}", f"--gates={gates}", "--device=cuda", "--arch=sm_90a",
                            "--schedule=chunk", f"--by-gates={by_gates}", *flags, "--outputs", path], check=True,
                           stdout=subprocess.DEVNULL)
            found.append(outputs(path))
    weak, chosen = found
    differ = (weak != chosen).any(axis=(1, 3))
    print(f"{gates}: {differ.sum()} of {differ.size} heads by programs for strong gates")


main()
