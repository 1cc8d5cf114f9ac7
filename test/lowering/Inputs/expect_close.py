"""Fails unless the tensors of two .safetensors files are within a relative L2 error.

    expect_close.py ACTUAL EXPECTED TOLERANCE"""
import json
import struct
import sys

import numpy


def tensors(path):
    data = open(path, "rb").read()
    (size,) = struct.unpack("<Q", data[:8])
    found = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        if entry["dtype"] == "BF16":
            words = numpy.frombuffer(data[begin:end], numpy.uint16).astype(numpy.uint32) << 16
            found[name] = words.view(numpy.float32)
        else:
            found[name] = numpy.frombuffer(data[begin:end], numpy.float32)
    return found


actual, expected = tensors(sys.argv[1]), tensors(sys.argv[2])
assert expected and actual.keys() == expected.keys(), (actual.keys(), expected.keys())
for name, values in expected.items():
    error = numpy.linalg.norm(actual[name] - values) / numpy.linalg.norm(values)
    print(f"{name}: {error:.2e}")
    assert error <= float(sys.argv[3]), name
