"""The named recurrences in NumPy, one step after the other, in f64: what ejk is held to."""

import numpy as np


def sequences(T, cu, B):
    """(batch entry, first row, end) of each sequence."""
    if cu is None:
        return [(b, 0, T) for b in range(B)]
    return [(0, int(cu[n]), int(cu[n + 1])) for n in range(len(cu) - 1)]


def recurrent(q, k, v, g=None, g_gamma=None, gk=None, gv=None, scale=None, initial_state=None,
              cu_seqlens=None, reverse=False, beta=None):
    """`beta` makes it the delta rule. Gives (o, final_state)."""
    q, k, v, g, g_gamma, gk, gv, h0, beta = (
        None if x is None else np.asarray(x, np.float64)
        for x in (q, k, v, g, g_gamma, gk, gv, initial_state, beta))
    if g is not None and g.ndim == 4:
        gk, g = g if gk is None else g + gk, None
    B, T, H, K = q.shape
    group, V = H // k.shape[2], v.shape[3]
    spans = sequences(T, cu_seqlens, B)
    scale = K ** -0.5 if scale is None else scale
    o, states = np.zeros((B, T, H, V)), np.zeros((len(spans), H, K, V))
    if h0 is not None:
        states[:] = h0
    for n, (b, first, end) in enumerate(spans):
        for h in range(H):
            S = states[n, h].copy()
            rows = range(first, end)
            for t in reversed(rows) if reverse else rows:
                if g is not None:
                    S *= np.exp(g[b, t, h])
                if g_gamma is not None:
                    S *= np.exp(g_gamma[h] if g_gamma.ndim == 1 else g_gamma[n, h])
                if gk is not None:
                    S *= np.exp(gk[b, t, h])[:, None]
                if gv is not None:
                    S *= np.exp(gv[b, t, h])[None, :]
                key, value = k[b, t, h // group], v[b, t, h // group]
                if beta is not None:
                    value = beta[b, t, h] * (value - S.T @ key)
                S += np.outer(key, value)
                o[b, t, h] = scale * S.T @ q[b, t, h]
            states[n, h] = S
    return o, states


def error(found, expected):
    """‖found − expected‖ / ‖expected‖."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert found.shape == expected.shape, (found.shape, expected.shape)
    norm = np.linalg.norm(expected)
    return np.linalg.norm(found - expected) / (norm if norm else 1)


def random_case(rng, small=True):
    """Keyword arguments of `recurrent` with a random choice of gates, sizes and options, in f32."""
    packed = rng.random() < 0.3
    B = 1 if packed else int(rng.integers(1, 3))
    T, H = int(rng.integers(1, 12)), int(rng.choice([1, 2, 4]))
    Hkv = int(rng.choice([h for h in (1, 2, 4) if H % h == 0]))
    K, V = (int(n) for n in rng.choice([1, 3, 4, 8], 2))

    def normal(*shape):
        return rng.normal(size=shape).astype(np.float32)

    def gate(*shape):
        return -rng.random(shape).astype(np.float32)
    case = dict(q=normal(B, T, H, K), k=normal(B, T, Hkv, K), v=normal(B, T, Hkv, V))
    if rng.random() < 0.5:
        case["g"] = gate(B, T, H)
    if rng.random() < 0.3:
        case["g_gamma"] = gate(H)
    if rng.random() < 0.4:
        case["gk"] = gate(B, T, H, K)
    if rng.random() < 0.3:
        case["gv"] = gate(B, T, H, V)
    N = B
    if packed:
        cuts = np.sort(rng.integers(0, T + 1, int(rng.integers(0, 3))))
        case["cu_seqlens"] = np.array([0, *cuts, T], rng.choice([np.int32, np.int64]))
        N = len(case["cu_seqlens"]) - 1
    if rng.random() < 0.5:
        case["initial_state"] = normal(N, H, K, V)
    if rng.random() < 0.3:
        case["reverse"] = True
    if rng.random() < 0.3:
        case["scale"] = float(rng.random() + 0.5)
    return case
