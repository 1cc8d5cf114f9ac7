"""Number formats and files for the oracle and its users, in plain NumPy.

NumPy has no bf16. Here a bf16 array is an f32 array whose values are bf16
numbers, and its type travels beside it as a name: 'f64', 'f32', 'f16', 'bf16',
'i32' or 'i64'.
"""
import json
import struct

import numpy as np

# safetensors' names for the types above, and NumPy's for what a file holds.
FORMATS = {
    "f64": ("F64", np.dtype("<f8")),
    "f32": ("F32", np.dtype("<f4")),
    "f16": ("F16", np.dtype("<f2")),
    "bf16": ("BF16", np.dtype("<u2")),
    "i32": ("I32", np.dtype("<i4")),
    "i64": ("I64", np.dtype("<i8")),
}


def bf16_bits(x):
    """The bits of x rounded to bf16, to nearest even. NaN stays a NaN."""
    x = np.asarray(x, np.float32)
    bits = np.ascontiguousarray(x).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(x), 0x7FC0, rounded).astype(np.uint16)


def bf16_values(bits):
    """The f32 numbers that bf16 bits stand for."""
    return (np.asarray(bits).astype(np.uint32) << 16).view(np.float32)


def round_to(x, kind):
    """x rounded to the numbers of `kind`; bf16 comes back as f32."""
    if kind == "bf16":
        return bf16_values(bf16_bits(x))
    with np.errstate(over="ignore"):
        return np.asarray(x).astype(FORMATS[kind][1])


def write_safetensors(path, tensors):
    """Writes {name: (kind, array)}."""
    header, blobs, offset = {}, [], 0
    for name, (kind, array) in tensors.items():
        tag, dtype = FORMATS[kind]
        array = np.asarray(array)
        stored = bf16_bits(array) if kind == "bf16" else array.astype(dtype)
        blob = np.ascontiguousarray(stored).tobytes()
        header[name] = {"dtype": tag, "shape": list(array.shape),
                        "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the format asks that the data be 8-byte aligned
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for blob in blobs:
            file.write(blob)


def read_safetensors(path):
    """Reads {name: (kind, array)}; bf16 comes back as f32."""
    kinds = {tag: kind for kind, (tag, _) in FORMATS.items()}
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    header, base, tensors = json.loads(data[8:8 + length]), 8 + length, {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        kind = kinds[entry["dtype"]]
        begin, end = entry["data_offsets"]
        array = np.frombuffer(data[base + begin:base + end], FORMATS[kind][1])
        array = array.reshape(entry["shape"])
        tensors[name] = (kind, bf16_values(array) if kind == "bf16" else array)
    return tensors
