"""The entries that the compiler makes for a segment: its final state alone, and its transition."""

import functools
import re

from .._inspect import compile
from .._recurrence import recurrence


@recurrence
def _gated_state(S, v, k, g, g_gamma, gk, gv):
    if g is not None:
        S = S.decay(g)
    if g_gamma is not None:
        S = S.decay(g_gamma)
    if gk is not None:
        S = S.decay(gk)
    if gv is not None:
        S = S.decay(gv, axis="value")
    return S.add(k, v), v


@recurrence
def _delta_state(S, v, k, beta, g):
    if g is not None:
        S = S.decay(g)
    return S.add(k, beta * (v - S.read(k))), v


# As _delta_state without values: what a segment makes of a state, in the place of its values.
@recurrence
def _delta_transition(S, beta, k, g):
    if g is not None:
        S = S.decay(g)
    return S.add(k, (0.0 - beta) * S.read(k)), beta


@functools.lru_cache(maxsize=None)
def _state_only(text):
    """The function of a recurrence's text that gives the final state and no output."""
    results = re.search(r"-> \((tensor<[^>]*> \{[^}]*\}), (tensor<[^>]*> \{[^}]*\})\) \{", text)
    text = text.replace(results.group(0), f"-> ({results.group(2)}) {{", 1)
    final = re.search(r"return (%[\w.]+), (%[\w.]+) : tensor<[^>]*>, (tensor<[^>]*>)", text)
    return compile(text.replace(final.group(0), f"return {final.group(2)} : {final.group(3)}", 1))


def _final(function, tensors, initial_state, cu_seqlens):
    text = function.mlir(*tensors, initial_state=initial_state, cu_seqlens=cu_seqlens)
    given = [t for t in (*tensors, initial_state, cu_seqlens) if t is not None]
    return _state_only(text)(*given)


def gated_state(tensors, initial_state, cu_seqlens):
    """The final state alone, of `ejk.ops.recurrent`'s operands by name."""
    own = [tensors.get(n) for n in ("v", "k", "g", "g_gamma", "gk", "gv")]
    return _final(_gated_state, own, initial_state, cu_seqlens)


def delta_state(tensors, initial_state, cu_seqlens):
    own = [tensors.get(n) for n in ("v", "k", "beta", "g")]
    return _final(_delta_state, own, initial_state, cu_seqlens)


def delta_transition(tensors, identity):
    """The K×K matrix that a segment multiplies a state by; `identity` is [B, H, K, K]."""
    own = [tensors.get(n) for n in ("beta", "k", "g")]
    return _final(_delta_transition, own, identity, None)
