#!/usr/bin/env python3
"""Which bf16 terms of a solve's operands matter, and what tf32 does: a NumPy model of delta rules by chunks.

    solve_terms.py

Prints the error of o and of the cotangents r, in thousandths of the norm, for eight sets of keys, with all terms of the matmuls in
ejk-expand-solves and without some, and with one matmul in tf32 for three (ejk-multiply-in-tf32), that of u with the products of
queries and keys too. A matmul x y has the terms x1 y1, "left" x2 y1 and "right" x1 y2. Fails if a solve with all
terms adds more than a tenth to the error that a chunk has without them (bf16 states, and vectors in its other matmuls; two terms in
matmuls that sum over u), or if an error of o in tf32 is over 2.5e-3.
"""
import os
import sys

import numpy as np

sys.path.append(os.path.dirname(os.path.realpath(__file__)))
from delta_model import distance, rounded  # noqa: E402

CHUNK, BLOCK = 64, 32
BOTH, LEFT, RIGHT, ONE, EXACT, TF32 = ("left", "right"), ("left",), ("right",), (), None, "tf32"
# Of what solved blocks give to later ones, and of a block's own inverse.
CHOICES = {"no rounding in the solve": (EXACT, EXACT), "all three terms": (BOTH, BOTH),
           "L x without L's second": (RIGHT, BOTH), "L x without x's second": (LEFT, BOTH),
           "D x without D's second": (BOTH, RIGHT), "D x without x's second": (BOTH, LEFT),
           "one term everywhere": (ONE, ONE), "tf32": (TF32, TF32)}
# Seed, steps, K, V, how parallel keys are, the largest beta, the gates' size.
CASES = [(11, 150, 64, 64, 0, 1, .1), (11, 150, 64, 64, 4, 2, .1), (12, 103, 64, 128, 4, 2, .1), (14, 200, 64, 64, 4, 2, .001),
         (15, 150, 128, 128, 4, 2, .1), (16, 150, 64, 64, 8, 1, .1), (17, 150, 32, 64, 4, 2, .02), (13, 150, 64, 64, 20, 2, .02)]


def in_tf32(x):
    """To the nearest number of 11 bits, of two the even one."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0xfff + (bits >> 13 & 1)) & ~np.uint32(0x1fff)).view(np.float32).astype(float)


def matmul(x, y, terms):
    if terms is EXACT:
        return x @ y
    if terms is TF32:
        return in_tf32(x) @ in_tf32(y)
    total = rounded(x) @ rounded(y)
    if "left" in terms:
        total = total + rounded(x - rounded(x)) @ rounded(y)
    return total + rounded(x) @ rounded(y - rounded(y)) if "right" in terms else total


def solve(lower, rhs, terms, transposed):
    matrix, solved = lower.T if transposed else lower, rhs.copy()
    for first in sorted(range(0, CHUNK, BLOCK), reverse=transposed):
        rows, done = slice(first, first + BLOCK), slice(first + BLOCK, CHUNK) if transposed else slice(0, first)
        solved[rows] += matmul(matrix[rows, done], solved[done], terms[0])
        inverse = np.linalg.inv(np.eye(BLOCK) - matrix[rows, rows]) - np.eye(BLOCK)
        solved[rows] += matmul(inverse, solved[rows], terms[1])
    return solved


class Chunks:
    """One head's q, k, v, do, dht, beta and g. `narrow` rounds what matmuls beside the solve take."""

    def __init__(self, seed, steps, channels, values, parallel, most, gates):
        rng = np.random.default_rng(seed)
        keys = rng.standard_normal((steps, channels)) + parallel
        keys *= 0.97 / np.linalg.norm(keys, axis=-1, keepdims=True)
        draw = lambda columns: rounded(rng.standard_normal((steps, columns)))
        self.q, self.k, self.v, self.do = draw(channels), rounded(keys), draw(values), draw(values)
        self.dht = rng.standard_normal((channels, values))
        self.beta, self.g = most * rng.random(steps), -gates * rng.exponential(1.0, steps)
        self.q *= channels ** -0.5

    def chunks(self):
        for first in range(0, len(self.q), CHUNK):
            rows = slice(first, first + CHUNK)
            pad = lambda x: np.concatenate([x[rows], np.zeros((CHUNK - len(x[rows]),) + x.shape[1:])])
            total = np.cumsum(pad(self.g))
            decays = np.tril(np.exp(np.minimum(total[:, None] - total, 0)))
            yield rows, total[:, None], decays, pad

    def forward(self, terms, narrow):
        state, o = np.zeros_like(self.dht), np.zeros_like(self.v)
        for rows, total, decays, pad in self.chunks():
            q, k, c, seen = pad(self.q), pad(self.k), -pad(self.beta)[:, None], narrow(state)
            rhs = c * (np.exp(total) * (k @ seen) - pad(self.v))
            u = solve(c * np.tril((k @ k.T) * decays, -1), rhs, terms, False)
            two = lambda x: narrow(x) + narrow(x - narrow(x))
            wide = in_tf32 if terms[0] is TF32 else two
            o[rows] = (np.exp(total) * (q @ seen) + wide((q @ k.T) * decays) @ wide(u))[:len(o[rows])]
            state = np.exp(total[-1]) * state + k.T @ two(u * np.exp(total[-1] - total))
        return o

    def backward(self, terms, narrow):
        adjoint, cotangents = self.dht, np.zeros_like(self.v)
        for rows, total, decays, pad in reversed(list(self.chunks())):
            q, k, do, c = narrow(pad(self.q)), pad(self.k), pad(self.do), -pad(self.beta)[:, None]
            seen = np.exp(total[-1] - total) * (k @ narrow(adjoint)) + narrow((q @ k.T) * decays).T @ do
            found = solve(np.tril((k @ k.T) * decays, -1) * c.T, c * seen, terms, True)
            cotangents[rows] = found[:len(cotangents[rows])]
            adjoint = np.exp(total[-1]) * adjoint + q.T @ narrow(do * np.exp(total)) + k.T @ narrow(found * np.exp(total))
        return cotangents


def main():
    cases = [Chunks(*case) for case in CASES]
    exact = [(case.forward(CHOICES["no rounding in the solve"], np.asarray),
              case.backward(CHOICES["no rounding in the solve"], np.asarray)) for case in cases]
    errors = {}
    for name, terms in CHOICES.items():
        errors[name] = [(distance(case.forward(terms, rounded), o), distance(case.backward(terms, rounded), r))
                        for case, (o, r) in zip(cases, exact)]
        print(f"{name:27}" + "  ".join(f"{1e3 * o:5.2f} {1e3 * r:5.2f}" for o, r in errors[name]))
    pairs = zip(np.ravel(errors["all three terms"]), np.ravel(errors["no rounding in the solve"]))
    failed = sum(error > 1.1 * least for error, least in pairs) + sum(o > 2.5e-3 for o, _ in errors["tf32"])
    print(f"{failed} failed")
    return int(failed != 0)


if __name__ == "__main__":
    sys.exit(main())
