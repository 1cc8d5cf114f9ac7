#!/usr/bin/env python3
"""The gated linear recurrence and its gradients, in f64, from the formula.

    D_t = exp(g_t + γ) · exp(gk_t)[:,None] · exp(gv_t)[None,:]
    S_t = D_t ⊙ S_{t-1} + k_t v_tᵀ
    o_t = scale · S_tᵀ q_t

This is what the compiler's numbers are held against, so it shares no code with
it and takes no short cut: one step at a time, vectorised over batch and heads
only. `oracle.py --self-test` checks the forward against the unrolled sum and
every gradient against central differences.

    q [B,T,H,K]   k [B,T,Hkv,K]   v [B,T,Hkv,V]   g [B,T,H] or [B,T,H,K]
    g_gamma [H] or [N,H]   gk [B,T,H,K]   gv [B,T,H,V]   h0 [N,H,K,V]
    cu_seqlens [N+1]   ->   o [B,T,H,V]   ht [N,H,K,V]
"""
import sys

import numpy as np


def lightning_gamma(heads, layer_idx, num_layers):
    """γ_h = -(8/H)(1 - l/L)·h."""
    return -(8.0 / heads) * (1.0 - layer_idx / num_layers) * np.arange(heads)


class Problem:
    """The operands in f64, with heads repeated and gates in one log-decay."""

    def __init__(self, q, k, v, g=None, g_gamma=None, gk=None, gv=None, h0=None,
                 cu_seqlens=None, scale=None, reverse=False):
        wide = lambda x: None if x is None else np.asarray(x, np.float64)
        self.q, self.k, self.v = wide(q), wide(k), wide(v)
        self.g, self.g_gamma, self.gk, self.gv = wide(g), wide(g_gamma), wide(gk), wide(gv)
        self.batch, self.steps, self.heads, self.key = self.q.shape
        self.kv_heads, self.value = self.v.shape[2:]
        self.share = self.heads // self.kv_heads  # query heads per key/value head
        self.scale = self.key ** -0.5 if scale is None else float(scale)
        self.reverse = bool(reverse)
        # Each walk is a group of sequences of one length: (their numbers, their
        # batch entries, their rows in the order of the walk).
        if cu_seqlens is None:
            self.count = self.batch
            walks = [(slice(0, self.batch), slice(0, self.batch), range(self.steps))]
        else:
            cu = [int(c) for c in cu_seqlens]
            self.count = len(cu) - 1
            walks = [(slice(n, n + 1), slice(0, 1), range(cu[n], cu[n + 1]))
                     for n in range(self.count)]
        self.walks = [(ns, bs, list(rows)[::-1] if reverse else list(rows))
                      for ns, bs, rows in walks]
        shape = (self.count, self.heads, self.key, self.value)
        self.h0 = np.zeros(shape) if h0 is None else wide(h0)
        self.state_shape = shape

    def key_at(self, bs, t):
        return np.repeat(self.k[bs, t], self.share, axis=1)

    def value_at(self, bs, t):
        return np.repeat(self.v[bs, t], self.share, axis=1)

    def decay(self, ns, bs, t):
        """D_t of the walk's sequences, [n,H,K,V]."""
        log = np.zeros(self.q[bs, t].shape[:2] + (self.key, self.value))
        if self.g is not None:
            g = self.g[bs, t]
            log = log + (g[..., None, None] if g.ndim == 2 else g[..., None])
        if self.g_gamma is not None:
            gamma = self.g_gamma if self.g_gamma.ndim == 1 else self.g_gamma[ns]
            log = log + gamma[..., None, None]
        if self.gk is not None:
            log = log + self.gk[bs, t][..., None]
        if self.gv is not None:
            log = log + self.gv[bs, t][..., None, :]
        return np.exp(log)


def forward(q, k, v, **options):
    """(o, ht) in f64; the options are Problem's."""
    p = Problem(q, k, v, **options)
    o = np.zeros((p.batch, p.steps, p.heads, p.value))
    ht = p.h0.copy()
    for ns, bs, rows in p.walks:
        state = p.h0[ns]
        for t in rows:
            state = p.decay(ns, bs, t) * state
            state += p.key_at(bs, t)[..., :, None] * p.value_at(bs, t)[..., None, :]
            o[bs, t] = p.scale * np.einsum("bhkv,bhk->bhv", state, p.q[bs, t])
        ht[ns] = state
    return o, ht


def share_of(q, k):
    """How many query heads share a key/value head."""
    return np.shape(q)[2] // np.shape(k)[2]


def per_query_head(share, options):
    """Gates and h0 of key/value heads, once for each of the query heads that share one."""
    axes = {"g": 2, "gk": 2, "gv": 2, "g_gamma": -1, "h0": 1}
    return {name: np.repeat(x, share, axis=axes[name]) if name in axes and x is not None else x
            for name, x in options.items()}


def forward_shared(q, k, v, **options):
    """`forward` with a state per key/value head: h0 and ht [N,Hkv,K,V], gates of Hkv heads."""
    share = share_of(q, k)
    o, ht = forward(q, k, v, **per_query_head(share, options))
    return o, ht[:, ::share]  # those of a group are equal


def backward_shared(q, k, v, do, dht=None, **options):
    """`backward` with a state per key/value head, whose cotangent one head of the group has."""
    share = share_of(q, k)
    if dht is not None:
        given, dht = dht, np.zeros((dht.shape[0], dht.shape[1] * share, *dht.shape[2:]))
        dht[:, ::share] = given
    grads = backward(q, k, v, do, dht, **per_query_head(share, options))
    for name, axis in (("g", 2), ("gk", 2), ("gv", 2), ("h0", 1), ("g_gamma", -1)):
        if name in grads:
            x = grads[name]
            axis %= x.ndim
            grads[name] = x.reshape(*x.shape[:axis], -1, share, *x.shape[axis + 1:]).sum(axis + 1)
    return grads


def backward(q, k, v, do, dht=None, **options):
    """The gradients, by operand name, of Σ do ⊙ o + Σ dht ⊙ ht. The gates' come
    from M_t = A_t ⊙ D_t ⊙ S_{t-1} itself."""
    p = Problem(q, k, v, **options)
    do = np.asarray(do, np.float64)
    dht = np.zeros(p.state_shape) if dht is None else np.asarray(dht, np.float64)
    grads = {name: np.zeros(x.shape) for name, x in
             [("q", p.q), ("k", p.k), ("v", p.v), ("g", p.g), ("g_gamma", p.g_gamma),
              ("gk", p.gk), ("gv", p.gv)] if x is not None}
    grads["h0"] = np.zeros(p.state_shape)

    def fold(x):  # sums over the query heads that share a key/value head
        return x.reshape(x.shape[0], p.kv_heads, p.share, x.shape[2]).sum(axis=2)

    for ns, bs, rows in p.walks:
        states = [p.h0[ns]]
        for t in rows:
            outer = p.key_at(bs, t)[..., :, None] * p.value_at(bs, t)[..., None, :]
            states.append(p.decay(ns, bs, t) * states[-1] + outer)
        adjoint = dht[ns].copy()
        for i in reversed(range(len(rows))):
            t = rows[i]
            adjoint = adjoint + p.scale * p.q[bs, t][..., :, None] * do[bs, t][..., None, :]
            grads["q"][bs, t] = p.scale * np.einsum("bhkv,bhv->bhk", states[i + 1], do[bs, t])
            grads["k"][bs, t] = fold(np.einsum("bhkv,bhv->bhk", adjoint, p.value_at(bs, t)))
            grads["v"][bs, t] = fold(np.einsum("bhkv,bhk->bhv", adjoint, p.key_at(bs, t)))
            adjoint = adjoint * p.decay(ns, bs, t)
            m = adjoint * states[i]
            if "g" in grads:
                grads["g"][bs, t] = m.sum(axis=(2, 3)) if p.g.ndim == 3 else m.sum(axis=3)
            if "gk" in grads:
                grads["gk"][bs, t] = m.sum(axis=3)
            if "gv" in grads:
                grads["gv"][bs, t] = m.sum(axis=2)
            if "g_gamma" in grads:
                per_head = m.sum(axis=(2, 3))
                if p.g_gamma.ndim == 1:
                    grads["g_gamma"] += per_head.sum(axis=0)
                else:
                    grads["g_gamma"][ns] += per_head
        grads["h0"][ns] = adjoint
    return grads


def gate_terms(q, k, v, do, dht=None, **options):
    """The sizes of the terms that a gate's gradient is the sum of, by operand name: with every
    q ⊙ dq and k ⊙ dk of the steps from its own to the walk's last, and ht ⊙ dht, in absolute
    value. A gate of value channels has do ⊙ o and v ⊙ dv in their place, and so has a head's gate
    beside gates of value channels alone. k and v have a head for each query head."""
    p = Problem(q, k, v, **options)
    do = np.asarray(do, np.float64)
    dht = np.zeros(p.state_shape) if dht is None else np.asarray(dht, np.float64)
    o, ht = forward(q, k, v, **options)
    grads = backward(q, k, v, do, dht, **options)
    by_key = np.abs(p.q * grads["q"]) + np.abs(p.k * grads["k"])
    by_value = np.abs(do * o) + np.abs(p.v * grads["v"])
    end = np.abs(ht * dht)
    by_channel = {"gk": (by_key, end.sum(axis=3)), "gv": (by_value, end.sum(axis=2))}
    for name, (x, last) in by_channel.items():
        sums = np.zeros(x.shape)
        for ns, bs, rows in p.walks:
            total = last[ns].copy()
            for t in reversed(rows):
                total += x[bs, t]
                sums[bs, t] = total
        by_channel[name] = sums
    has_key = p.gk is not None or (p.g is not None and p.g.ndim == 4)
    along_value = p.gv is not None and not has_key
    by_head = by_channel["gv" if along_value else "gk"].sum(axis=3)
    terms = {}
    if p.g is not None:
        terms["g"] = by_head if p.g.ndim == 3 else by_channel["gk"]
    if p.g_gamma is not None:
        terms["g_gamma"] = np.zeros(p.state_shape[:2])
        for ns, bs, rows in p.walks:
            for t in rows:
                terms["g_gamma"][ns] += by_head[bs, t]
        if p.g_gamma.ndim == 1:
            terms["g_gamma"] = terms["g_gamma"].sum(axis=0)
    for name in ("gk", "gv"):
        if getattr(p, name) is not None:
            terms[name] = by_channel[name]
    return terms


def unrolled(q, k, v, **options):
    """o and ht as sums over pairs of steps, for the self-test."""
    p = Problem(q, k, v, **options)
    o = np.zeros((p.batch, p.steps, p.heads, p.value))
    ht = p.h0.copy()
    for ns, bs, rows in p.walks:
        for i in range(-1, len(rows)):  # -1: the state after no step
            state = p.h0[ns].copy()
            for s in rows[:i + 1]:
                state *= p.decay(ns, bs, s)
            for j in range(i + 1):
                outer = np.einsum("bhk,bhv->bhkv", p.key_at(bs, rows[j]), p.value_at(bs, rows[j]))
                for s in rows[j + 1:i + 1]:
                    outer = outer * p.decay(ns, bs, s)
                state = state + outer
            if i >= 0:
                o[bs, rows[i]] = p.scale * np.einsum("bhkv,bhk->bhv", state, p.q[bs, rows[i]])
        ht[ns] = state
    return o, ht


GATE_CLASSES = [(), ("g",), ("g4",), ("gamma",), ("gamma_n",), ("gk",), ("gv",), ("gk", "gv"),
                ("g", "gamma", "gk", "gv")]


def draw(rng, gates, packed, share, forget, batch=2, steps=5, kv_heads=2, key=3, value=2):
    """Operands of a small problem, for the self-test."""
    cu = None
    if packed:  # an empty sequence, one of a single step
        batch, cu = 1, np.array([0, 3, 3, 4, steps])
    heads, count = kv_heads * share, batch if cu is None else len(cu) - 1
    rows = (batch, steps, heads)

    def gate(*shape):
        x = -rng.exponential(0.5, shape)
        if forget:
            x[rng.random(shape) < 0.2] = -np.inf
        return x
    makers = {"g": ("g", rows), "g4": ("g", rows + (key,)), "gamma": ("g_gamma", (heads,)),
              "gamma_n": ("g_gamma", (count, heads)), "gk": ("gk", rows + (key,)),
              "gv": ("gv", rows + (value,))}
    options = {makers[c][0]: gate(*makers[c][1]) for c in gates}
    options["h0"] = rng.standard_normal((count, heads, key, value))
    options["cu_seqlens"] = cu
    q = rng.standard_normal(rows + (key,))
    k = rng.standard_normal((batch, steps, kv_heads, key))
    v = rng.standard_normal((batch, steps, kv_heads, value))
    return q, k, v, options


def check_gradients(rng, q, k, v, options, forward=forward, backward=backward):
    """The worst error of a gradient against central differences, in its own scale."""
    o, ht = forward(q, k, v, **options)
    do, dht = rng.standard_normal(o.shape), rng.standard_normal(ht.shape)
    grads = backward(q, k, v, do, dht, **options)
    operands = {"q": q, "k": k, "v": v, **options}
    step, worst = 1e-5, 0.0
    for name, grad in grads.items():
        numeric, x = np.zeros(grad.shape), operands[name]
        for index in np.ndindex(*x.shape):
            kept, sides = x[index], []
            for sign in (1, -1):
                x[index] = kept + sign * step
                o, ht = forward(**operands)
                sides.append((do * o).sum() + (dht * ht).sum())
            x[index] = kept
            numeric[index] = (sides[0] - sides[1]) / (2 * step)
        error = np.abs(grad - numeric).max() / max(1.0, np.abs(numeric).max())
        if not error < 1e-8:  # the step's square, plus rounding over the step: about 1e-10
            raise SystemExit(f"d{name} is wrong by {error:.2e}")
        worst = max(worst, error)
    return worst


def self_test():
    rng = np.random.default_rng(0)
    cases = worst_sum = worst_gradient = 0
    for gates in GATE_CLASSES:
        for packed, reverse, share, forget in [(0, 0, 1, 0), (0, 1, 2, 0), (1, 0, 1, 1),
                                               (1, 1, 2, 0)]:
            q, k, v, options = draw(rng, gates, packed, share, forget)
            options.update(reverse=bool(reverse), scale=None if share == 1 else 0.7)
            for x, ref in zip(forward(q, k, v, **options), unrolled(q, k, v, **options)):
                error = np.abs(x - ref).max() / np.abs(ref).max()
                if not error < 1e-14:
                    raise SystemExit(f"the forward differs from the sum by {error:.2e}")
                worst_sum = max(worst_sum, error)
            worst_gradient = max(worst_gradient, check_gradients(rng, q, k, v, options))
            if share > 1:
                of_kv_heads = {name: options[name] for name in ("cu_seqlens", "reverse", "scale")}
                drawn = draw(rng, gates, packed, 1, forget)[3]
                worst_gradient = max(worst_gradient, check_gradients(
                    rng, q, k, v, drawn | of_kv_heads, forward_shared, backward_shared))
            cases += 1
    print(f"{cases} cases: forward against the unrolled sum {worst_sum:.1e}, "
          f"gradients against central differences {worst_gradient:.1e}")


if __name__ == "__main__":
    if sys.argv[1:] != ["--self-test"]:
        raise SystemExit("usage: oracle.py --self-test")
    self_test()
