"""Trains a small language model on examples/data/passage.txt, character by character.

    train_text.py [--steps 150] [--eager] [--csv FILE]

Two layers of gated linear attention, written as a recurrence of ejk's. With --eager the same layer
is a loop over time in PyTorch, for comparison: the losses are the same, the time is not.
"""

import argparse
import pathlib
import time

import torch
from torch import nn
from torch.nn import functional as F

import ejk

PASSAGE = pathlib.Path(__file__).resolve().parents[1] / "data" / "passage.txt"


@ejk.recurrence
def gated_attention(S, q, k, v, g):
    S = S.decay(g).add(k, v)  # g: the log of a decay for each key channel
    return S, S.read(q)


def eager_attention(q, k, v, g):
    S, outputs = 0, []
    for t in range(q.shape[1]):
        S = torch.exp(g[:, t, :, :, None]) * S + k[:, t, :, :, None] * v[:, t, :, None, :]
        outputs.append(torch.einsum("bhkv,bhk->bhv", S, q[:, t]))
    return torch.stack(outputs, 1), S


class Layer(nn.Module):
    def __init__(self, width, heads, attention):
        super().__init__()
        self.heads, self.attention = heads, attention
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkvg, self.out = nn.Linear(width, 4 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                 nn.Linear(4 * width, width))

    def forward(self, x):
        parts = self.qkvg(self.norm(x)).chunk(4, -1)
        q, k, v, g = (p.unflatten(-1, (self.heads, -1)) for p in parts)
        k = F.normalize(k, dim=-1)
        g = F.logsigmoid(g + 3) / 4  # decays near 1 at the start
        o, _ = self.attention(q, k, v, g)
        x = x + self.out(o.flatten(2))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self, symbols, width=64, heads=4, layers=2, attention=gated_attention):
        super().__init__()
        self.embed = nn.Embedding(symbols, width)
        self.layers = nn.Sequential(*[Layer(width, heads, attention) for _ in range(layers)])
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, symbols))

    def forward(self, x):
        return self.head(self.layers(self.embed(x)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--eager", action="store_true", help="a loop in PyTorch in ejk's place")
    parser.add_argument("--csv", help="write step,loss lines to this file")
    arguments = parser.parse_args()
    text = PASSAGE.read_text()
    symbols = sorted(set(text))
    data = torch.tensor([symbols.index(c) for c in text])
    torch.manual_seed(0)
    model = Model(len(symbols),
                  attention=eager_attention if arguments.eager else gated_attention)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    batch, length, losses = 8, 64, []
    draw = torch.Generator().manual_seed(1)
    start = time.perf_counter()
    for step in range(arguments.steps):
        if step == 1:
            first, start = time.perf_counter() - start, time.perf_counter()
            busy = time.process_time()
        at = torch.randint(len(data) - length - 1, (batch,), generator=draw)
        rows = torch.stack([data[i:i + length + 1] for i in at])
        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 25 == 0 or step == arguments.steps - 1:
            print(f"step {step:4d}  loss {losses[-1]:.3f}", flush=True)
    if arguments.steps > 1:
        each, busy = ((end - begin) / (arguments.steps - 1) * 1e3 for end, begin in
                      ((time.perf_counter(), start), (time.process_time(), busy)))
        print(f"first step {first:.2f} s, then {each:.1f} ms a step, {busy:.1f} ms of them on a "
              "processor")
    if arguments.csv:
        with open(arguments.csv, "w") as file:
            file.writelines(f"{step},{loss:.6f}\n" for step, loss in enumerate(losses))


if __name__ == "__main__":
    main()
