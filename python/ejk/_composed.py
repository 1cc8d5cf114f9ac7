"""Named recurrences with a part outside of the step: of `ejk.ops`, which has what their arguments
share."""

import functools

from . import _functions as fn
from ._named import default_scale, named, query
from ._outside import cast, ones_like, operands, softmax, stop_gradient, times_one, wide
from ._recurrence import recurrence


# The gate is first, so that scores have its type: float32.
@functools.partial(named, queries=((), ("q",)))
def _slot_scores(S, g, q, k, s, scale):
    S = S.decay(g, axis="value").add(k, s)
    return S, S.read(q * scale)


@functools.partial(named, queries=((), ("q",)))
def _slot_values(S, v, q, s, g):
    S = S.decay(g).add(s, v)
    return S, S.read(q)


def gated_slot_attention(q, k, v, s, g, *, scale=None, initial_state=None, cu_seqlens=None,
                         reverse=False, save_states=True):
    """Gated slot attention (arXiv:2409.07146): attention to M slots, which keys and values are written to.

    K = K ⊙ exp(g)[None, :] + k sᵀ;  V = exp(g)[:, None] ⊙ V + s vᵀ;  o = Vᵀ softmax(scale · Kᵀ q)

    q [B, T, H, K]; k [B, T, Hkv, K]; v [B, T, Hkv, V]; s [B, T, Hkv, M], the weights of a write (1 − exp(g)
    in the paper); g [B, T, Hkv, M], the log of the decay. Hkv divides H, and query heads of a group share
    their slots. Scores and softmax are in float32, and weights in v's type. `initial_state` and the final state
    are pairs, [N, Hkv, K, M] and [N, Hkv, M, V]."""
    rows, slots = "[B, T, Hkv, {}]", "[B, T, Hkv, M]"
    q, k, v, s, g = operands(("q", q, "[B, T, H, K]"), ("k", k, rows.format("K")), ("v", v, rows.format("V")),
                             ("s", s, slots), ("g", g, slots))
    scale = default_scale(scale, q)
    shared = query(q.shape[2] != k.shape[2])
    keys, values = initial_state if initial_state is not None else (None, None)
    options = dict(cu_seqlens=cu_seqlens, save_states=save_states)
    scores, keys = _slot_scores(reverse, shared)(wide(g), q, k, s, scale,
                                                 initial_state=keys, **options)
    o, values = _slot_values(reverse, shared)(v, cast(softmax(scores), v.dtype), s, g,
                                              initial_state=values, **options)
    return o, (keys, values)


_OF_KEYS = {"scale": "give scale=1.0 and 'k' times the number"}


@functools.partial(named, states=3, remedies=_OF_KEYS)
def _mlstm(C, n, m, q, k, v, i, f, scale, eps):
    gate = fn.log_sigmoid(f)
    top = _mlstm_top(gate, m, i)
    weight, k = fn.exp(i - top), k * scale
    C = C.decay(gate + m - top).add(k, v * weight)
    n = n * fn.exp(gate + m - top) + k * weight
    return C, n, top, C.read(q) / _mlstm_size(fn.sum(n * q), top, eps)


def _mlstm_top(gate, m, i):
    """The maximum after a step."""
    # Of two gates that are −inf, a difference would be NaN.
    return fn.maximum(fn.maximum(gate + m, i), -1e30)


def _mlstm_size(product, top, eps):
    # Within float32, where the larger operand or the whole output is 0 beyond it.
    size = fn.maximum(abs(product), fn.exp(fn.clip(-top, -87.0, 88.0)))
    return size if eps is None else size + eps


# The same in three recurrences, of which the two with matrices are computed by chunks: the
# normaliser is a matrix of one column. Values are weighted before and the division comes behind, so that the
# memory's derivative needs no sum over all channels of what is read, which the slices of a wide state do not have.

@named
def _mlstm_maximum(m, i, f):
    top = _mlstm_top(fn.log_sigmoid(f), m, i)
    return top, m, top


@functools.partial(named, remedies=_OF_KEYS)
def _mlstm_normaliser(n, i, f, before, top, q, k, one, scale):
    n = n.decay(fn.log_sigmoid(f) + before - top).add(k * scale, one * fn.exp(i - top))
    return n, fn.sum(n.read(q))


@functools.partial(named, remedies=_OF_KEYS)
def _mlstm_memory(C, q, k, v, f, before, top, scale):
    C = C.decay(fn.log_sigmoid(f) + before - top).add(k * scale, v)
    return C, C.read(q)


@functools.partial(recurrence, states=0)
def _mlstm_weighted(v, i, top):
    return v * fn.exp(i - top)


@functools.partial(recurrence, states=0)
def _mlstm_divided(r, product, top):
    return r / _mlstm_size(product, top, None)


# With an epsilon. `moving` is `top`, and has its gradient: without the stabiliser, the epsilon grows by exp(top).
@functools.partial(recurrence, states=0)
def _mlstm_divided_by_more(r, product, top, moving, eps):
    return r / (_mlstm_size(product, top, None) + eps * fn.exp(moving - top))


# Rows from which a sequence of 16-bit rows is computed in three recurrences. With fewer, three launches take
# longer than the steps of one.
_MLSTM_ROWS = 64


def mlstm(q, k, v, i, f, *, scale=None, eps=0.0, initial_state=None, cu_seqlens=None, reverse=False,
          save_states=True, **pools):
    """xLSTM's matrix memory, with its stabiliser m. Returns (o, (C, n, m)).

    C = σ(f)·C + exp(i)·k vᵀ;  n = σ(f)·n + exp(i)·k;  o = Cᵀ q / max(|n·q|, 1), k times `scale`

    q and k [B, T, H, K]; v [B, T, H, V]; i and f [B, T, H], the gates before their functions. C and
    n are kept divided by exp(m), so that exp(i) does not overflow. States are C [N, H, K, V], the
    normaliser n [N, H, K] and the maximum m [N, H]; `initial_state` is a tuple of the three, of which
    each may be None for zero. `eps` is added to what o is divided by, which is a maximum divided by
    exp(m) there, as xLSTM-7B's layers do. From 64 steps on, 16-bit rows without a pool are computed in three
    recurrences: the maximum step by step, normaliser and memory by chunks."""
    scale, eps = default_scale(scale, q), float(eps) or None
    options = dict(cu_seqlens=cu_seqlens, save_states=save_states)
    if pools or str(q.dtype).endswith(("float32", "float64")) or q.shape[1] < _MLSTM_ROWS:
        return _mlstm(reverse)(q, k, v, i, f, scale, eps, initial_state=initial_state, **options, **pools)
    C, n, m = (None, None, None) if initial_state is None else initial_state
    if m is not None:
        C, n = (None if x is None else times_one(x, m) for x in (C, n))
    i, f = wide(i), wide(f)
    before, top, m = _mlstm_maximum(reverse)(i, f, initial_state=m, **options)
    # Without `eps` no output depends on how far the maximum has taken C and n down, so derivatives need not go back
    # through it: what they would add up there is 0, and the rounding of matmuls. With it the division has the gradient.
    moving, before, top = top, stop_gradient(before), stop_gradient(top)
    product, n = _mlstm_normaliser(reverse)(
        i, f, before, top, q, k, ones_like(q, (q.shape[2], 1)), scale,
        initial_state=None if n is None else n[..., None], **options)
    r, C = _mlstm_memory(reverse)(q, k, _mlstm_weighted(v, i, top), f, before, top, scale,
                                  initial_state=C, **options)
    o = _mlstm_divided(r, product, top) if eps is None else _mlstm_divided_by_more(r, product, top, moving, eps)
    return o, (times_one(C, -m), times_one(n[..., 0], -m), m)


__all__ = ["gated_slot_attention", "mlstm"]
