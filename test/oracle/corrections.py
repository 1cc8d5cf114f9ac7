#!/usr/bin/env python3
"""Recurrences that correct their state, and their gradients, in f64, from the formula.

    S'_t = D_t ⊙ S_{t−1}                       D_t = exp(g_t) · exp(gk_t)[:,None] · exp(gv_t)[None,:]
    for each part:  u = w + c · Sᵀ a           a read of what stands before it, or of S_{t−1}
                    u = tanh(u) if it bends
                    S = S + b uᵀ
    o_t  = scale · S_tᵀ q_t

A part without c and a is an outer product that no read feeds. This is what the compiler's numbers are held against, so it shares
no code with it, and computes one step at a time. `corrections.py --self-test` checks every gradient against central differences.

`rounded` rounds what a matmul would take: states and adjoint states that are read, u and its cotangent. With it the same pass is a
model of the error of a kernel that keeps states in f32.

    q, a, b [B,T,H,K]   w [B,T,H,V]   c [B,T,H]   g [B,T,H]   gk [B,T,H,K]   gv [B,T,H,V]   h0 [N,H,K,V]
"""
import sys

import numpy as np


class Part:
    """The names of what it adds along (b), adds (w), multiplies its read with (c), and reads with (a)."""

    def __init__(self, b, w, c=None, a=None, before=False, bends=False):
        self.b, self.w, self.c, self.a, self.before, self.bends = b, w, c, a, before, bends


def scans_of(batch, steps, cu=None, reverse=False):
    """(sequences, batch entries, rows in order) of sequences of one length each."""
    if cu is None:
        scans = [(slice(0, batch), slice(0, batch), range(steps))]
    else:
        scans = [(slice(n, n + 1), slice(0, 1), range(int(a), int(b)))
                 for n, (a, b) in enumerate(zip(cu, cu[1:]))]
    return [(ns, bs, list(rows)[::-1] if reverse else list(rows)) for ns, bs, rows in scans]


def along_key(state, key):
    return np.einsum("bhkv,bhk->bhv", state, key)


def along_value(state, value):
    return np.einsum("bhkv,bhv->bhk", state, value)


def outer(key, value):
    return key[..., :, None] * value[..., None, :]


def decay(x, bs, t):
    log = np.zeros((1, 1, 1, 1))
    for name, axes in (("g", (Ellipsis, None, None)), ("gk", (Ellipsis, None)),
                       ("gv", (Ellipsis, None, slice(None)))):
        if name in x:
            log = log + x[name][bs, t][axes]
    return np.exp(log)


def step(x, parts, state, bs, t, scale, rounded):
    """(the new state, o, [(state that is read, r, u)] of the parts)."""
    before, made = state, []
    state = decay(x, bs, t) * state
    for part in parts:
        seen, r, u = before if part.before else state, None, x[part.w][bs, t]
        if part.c:
            r = along_key(rounded(seen), x[part.a][bs, t])
            u = u + x[part.c][bs, t][..., None] * r
        if part.bends:
            u = np.tanh(u)
        made.append((seen, r, u))
        state = state + outer(x[part.b][bs, t], rounded(u))
    return state, scale * along_key(rounded(state), x["q"][bs, t]), made


def same(x):
    return x


def forward(x, parts, scans, h0, scale=1.0, rounded=same):
    """(o, ht)."""
    o, ht = np.zeros(x[parts[0].w].shape), h0.copy()
    for ns, bs, rows in scans:
        state = h0[ns]
        for t in rows:
            state, o[bs, t], _ = step(x, parts, state, bs, t, scale, rounded)
        ht[ns] = state
    return o, ht


def backward(x, parts, scans, h0, do, dht, scale=1.0, rounded=same, terms=None):
    """The gradients of Σ do ⊙ o + Σ dht ⊙ ht by the names of x, and of h0. `terms` gets the sizes of the terms that a gate's
    gradient is the sum of: every q ⊙ dq, a ⊙ da and b ⊙ db of its own and all later steps, and ht ⊙ dht."""
    grads = {name: np.zeros(array.shape) for name, array in x.items()}
    grads["h0"] = np.zeros(h0.shape)
    if terms is not None:
        terms.update({name: np.zeros(x[name].shape) for name in ("g", "gk", "gv") if name in x})
    for ns, bs, rows in scans:
        states = [h0[ns]]
        for t in rows:
            states.append(step(x, parts, states[-1], bs, t, scale, rounded)[0])
        adjoint = dht[ns].copy()
        by_key = np.abs(adjoint * states[-1]).sum(axis=3)
        by_value = np.abs(adjoint * states[-1]).sum(axis=2)
        for i in reversed(range(len(rows))):
            t = rows[i]
            at = lambda name: x[name][bs, t]
            after, o, made = step(x, parts, states[i], bs, t, scale, rounded)
            dq = scale * along_value(rounded(after), do[bs, t])
            grads["q"][bs, t] += dq
            by_key = by_key + np.abs(at("q") * dq)
            by_value = by_value + np.abs(o * do[bs, t])
            adjoint = adjoint + scale * outer(at("q"), do[bs, t])
            first = np.zeros(adjoint.shape)
            for part, (seen, r, u) in reversed(list(zip(parts, made))):
                du = along_key(rounded(adjoint), at(part.b))
                db = along_value(rounded(adjoint), u)
                grads[part.b][bs, t] += db
                by_key = by_key + np.abs(at(part.b) * db)
                by_value = by_value + np.abs(u * du)
                if part.bends:
                    du = du * (1 - u * u)
                grads[part.w][bs, t] += du
                if part.c:
                    grads[part.c][bs, t] += (r * du).sum(axis=-1)
                    dr = at(part.c)[..., None] * du
                    da = along_value(rounded(seen), dr)
                    grads[part.a][bs, t] += da
                    by_key = by_key + np.abs(at(part.a) * da)
                    by_value = by_value + np.abs(r * dr)
                    if part.before:
                        first = first + outer(at(part.a), rounded(dr))
                    else:
                        adjoint = adjoint + outer(at(part.a), rounded(dr))
            adjoint = decay(x, bs, t) * adjoint
            m = adjoint * states[i]
            for name, axes, sizes in (("g", (2, 3), by_key.sum(axis=2)), ("gk", 3, by_key), ("gv", 2, by_value)):
                if name in x:
                    grads[name][bs, t] = m.sum(axis=axes)
                    if terms is not None:
                        terms[name][bs, t] = sizes
            adjoint = adjoint + first
        grads["h0"][ns] = adjoint
    return grads


def self_test():
    rng = np.random.default_rng(5)
    B, T, H, K, V, worst = 1, 5, 2, 3, 2, 0.0
    shapes = {"q": (K,), "a": (K,), "b": (K,), "a2": (K,), "b2": (K,), "w": (V,), "w2": (V,), "w3": (V,), "c": (), "c2": (),
              "g": (), "gk": (K,), "gv": (V,)}
    x = {name: rng.standard_normal((B, T, H) + shape) for name, shape in shapes.items()}
    parts = [Part("b", "w", "c", "a", before=True), Part("b2", "w2", "c2", "a2", bends=True), Part("a", "w3")]
    for cu, reverse in ((None, False), ([0, 2, 2, 5], True)):
        scans = scans_of(B, T, cu, reverse)
        count = B if cu is None else len(cu) - 1
        h0, dht = (rng.standard_normal((count, H, K, V)) for _ in range(2))
        do = rng.standard_normal((B, T, H, V))
        grads = backward(x, parts, scans, h0, do, dht, 0.7)

        def loss(x, h0):
            o, ht = forward(x, parts, scans, h0, 0.7)
            return (do * o).sum() + (dht * ht).sum()
        for name, grad in grads.items():
            for place in np.ndindex(grad.shape):
                def moved(by):
                    array = (h0 if name == "h0" else x[name]).copy()
                    array[place] += by
                    return loss(x, array) if name == "h0" else loss({**x, name: array}, h0)
                found = (moved(1e-6) - moved(-1e-6)) / 2e-6
                worst = max(worst, abs(found - grad[place]) / (1 + abs(found)))
    print(f"gradients are off by {worst:.1e} at most")
    return worst < 1e-7


if __name__ == "__main__":
    sys.exit(0 if sys.argv[1:] == ["--self-test"] and self_test() else 1)
