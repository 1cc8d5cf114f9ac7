"""write-packed.py OUT [NAME=SHAPE[:TYPE]...] [cu_seqlens=VALUES]: inputs for a packed
recurrence (T=6, H=4, Hkv=2, N=2, K=V=4, f32) in a .safetensors file, with other shapes
or types than they should have. NAME= leaves one out."""
import json
import struct
import sys

tensors = {"q": ([1, 6, 4, 4], "F32"), "k": ([1, 6, 2, 4], "F32"), "v": ([1, 6, 2, 4], "F32"),
           "h0": ([2, 4, 4, 4], "F32"), "cu_seqlens": ([3], "I32")}
offsets = [0, 2, 6]
for change in sys.argv[2:]:
    name, value = change.split("=")
    if name == "cu_seqlens" and value:
        offsets = [int(v) for v in value.split(",")]
        tensors[name] = ([len(offsets)], "I32")
    elif value:
        shape, _, kind = value.partition(":")
        tensors[name] = ([int(d) for d in shape.split("x")], kind or "F32")
    else:
        del tensors[name]
header, data = {}, b""
for name, (shape, kind) in tensors.items():
    count = 1
    for size in shape:
        count *= size
    if name == "cu_seqlens":
        content = struct.pack(f"<{count}i", *offsets)
    else:
        content = bytes(count * {"F32": 4, "F16": 2, "BF16": 2}[kind])
    header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
    data += content
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + data)
