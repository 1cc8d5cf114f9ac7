"""The entries that the compiler makes for a segment: its final state alone, and its transition."""

import functools
import re

from .. import _functions as f
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


# Mamba-2, whose x, B and C are v, k and q here.
@recurrence
def _mamba2_state(S, v, k, dt, A, dt_bias, dt_softplus):
    if dt_bias is not None:
        dt = dt + dt_bias
    if dt_softplus:
        dt = f.softplus(dt)
    return S.decay(A * dt).add(k, dt * v), v


def _decayed(S, g, lower_bound):
    if lower_bound is not None:
        g = f.clip(g, lower_bound, 0.0)
    return S if g is None else S.decay(g)


@recurrence
def _delta_state(S, v, k, beta, g, lower_bound):
    S = _decayed(S, g, lower_bound)
    return S.add(k, beta * (v - S.read(k))), v


# As _delta_state without values: what a segment makes of a state, in the place of its values.
@recurrence
def _delta_transition(S, beta, k, g, lower_bound):
    S = _decayed(S, g, lower_bound)
    return S.add(k, (0.0 - beta) * S.read(k)), beta


@functools.lru_cache(maxsize=None)
def _state_only(text):
    """The function of a recurrence's text that gives the final state and no output."""
    results = re.search(r"-> \((tensor<[^>]*> \{[^}]*\}), (tensor<[^>]*> \{[^}]*\})\) \{", text)
    text = text.replace(results.group(0), f"-> ({results.group(2)}) {{", 1)
    final = re.search(r"return (%[\w.]+), (%[\w.]+) : tensor<[^>]*>, (tensor<[^>]*>)", text)
    return compile(text.replace(final.group(0), f"return {final.group(2)} : {final.group(3)}", 1))


def _final(function, operands, initial_state, cu_seqlens):
    text = function.mlir(*operands, initial_state=initial_state, cu_seqlens=cu_seqlens)
    given = [t for t in (*operands, initial_state, cu_seqlens)
             if t is not None and not isinstance(t, (bool, float))]
    return _state_only(text)(*given)


_FINAL = {"beta": (_delta_state, ("v", "k", "beta", "g")),
          "dt": (_mamba2_state, ("v", "k", "dt", "A", "dt_bias")),
          None: (_gated_state, ("v", "k", "g", "g_gamma", "gk", "gv"))}


def final_state(tensors, constants, initial_state, cu_seqlens):
    """The final state alone, of operands and numbers by the names that the whole function has."""
    function, names = _FINAL[next((n for n in ("beta", "dt") if n in tensors), None)]
    own = [tensors.get(n) for n in names]
    if "dt_softplus" in constants:
        own.append(constants["dt_softplus"])
    if "beta" in tensors:
        own.append(constants.get("lower_bound"))
    return _final(function, own, initial_state, cu_seqlens)


def delta_transition(tensors, constants, identity):
    """The K×K matrix that a segment multiplies a state by; `identity` is [B, H, K, K]."""
    own = [tensors.get(n) for n in ("beta", "k", "g")] + [constants.get("lower_bound")]
    return _final(_delta_transition, own, identity, None)
