"""ejkernel's recurrences for JAX, computed by ejk.

The functions have the signatures, layouts and types of ejkernel's XLA kernels: whatever the inputs'
type, a step computes in float32, and the output and the final state are float32. `block_k`,
`block_v`, `num_warps` and `num_stages` only tune ejkernel's kernels; they are checked, and change
nothing. A gate is the logarithm of a decay."""

import jax.numpy as jnp

from .. import ops
from .._errors import TensorError

__all__ = ["recurrent", "recurrent_gla", "lightning_attn"]


def _check_tuning(**options):
    for name, value in options.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"'{name}' must be a positive integer, but is {value!r}")


def _run(query, key, value, gates, softmax_scale, initial_state, reverse, cu_seqlens, tuning,
         gamma=None, function=ops.recurrent, **options):
    _check_tuning(**tuning)
    flat = query.ndim == 3  # packed sequences without a batch
    if flat:
        if cu_seqlens is None:
            raise TensorError("'query' has rank 3, which is for packed sequences; give "
                              "'cu_seqlens'")
        query, key, value = (x[None] for x in (query, key, value))
        gates = {n: None if x is None else x[None] for n, x in gates.items()}
    if key.shape != query.shape:
        raise TensorError(f"'key' must be as 'query', {list(query.shape)}, but is "
                          f"{list(key.shape)}; "
                          "ejkernel has no grouped queries")
    if value.shape[:3] != query.shape[:3]:
        raise TensorError(f"'value' must have query's batch, steps and heads, "
                          f"{list(query.shape[:3])}"
                          f", but is {list(value.shape)}; ejkernel has no grouped queries")
    for name, gate in gates.items():
        wanted = (*query.shape[:3], (value if name == "gv" else query).shape[3])
        if gate is not None and gate.shape != wanted:
            raise TensorError(f"'{name}' must be {list(wanted)}, but is {list(gate.shape)}")
    wide = {n: None if x is None else x.astype(jnp.float32) for n, x in gates.items()}
    if gamma is not None:
        if gamma.ndim == 2 and gamma.shape[0] == 1:
            gamma = gamma[0]
        wide["g_gamma"] = gamma.astype(jnp.float32)
    # g and gk are both gates of key channels; their logarithms add.
    if "g" in wide:
        g, gk = wide.pop("g"), wide.pop("gk", None)
        wide["gk"] = g if gk is None else gk if g is None else g + gk
    if initial_state is not None:
        initial_state = initial_state.astype(jnp.float32)
    scale = query.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    o, state = function(*(x.astype(jnp.float32) for x in (query, key, value)), **wide, **options,
                        scale=scale, initial_state=initial_state, cu_seqlens=cu_seqlens,
                        reverse=bool(reverse))
    return o[0] if flat else o, state


def recurrent(query, key, value, g=None, g_gamma=None, gk=None, gv=None, softmax_scale=None,
              initial_state=None, reverse=False, cu_seqlens=None, block_k=64, block_v=64,
              num_warps=4, num_stages=1):
    """The gated recurrence with any of its gates. g and gk [B, T, H, K], gv [B, T, H, V], g_gamma
    [H], [1, H] or [N, H]."""
    return _run(query, key, value, dict(g=g, gk=gk, gv=gv), softmax_scale, initial_state, reverse,
                cu_seqlens, dict(block_k=block_k, block_v=block_v, num_warps=num_warps,
                                 num_stages=num_stages), g_gamma)


def recurrent_gla(query, key, value, g=None, g_gamma=None, softmax_scale=None, initial_state=None,
                  reverse=False, cu_seqlens=None, block_k=64, block_v=64, num_warps=4,
                  num_stages=1):
    """`recurrent` without the gates gk and gv."""
    return recurrent(query, key, value, g, g_gamma, None, None, softmax_scale, initial_state,
                     reverse, cu_seqlens, block_k, block_v, num_warps, num_stages)


def lightning_attn(query, key, value, layer_idx, num_layers, softmax_scale=None, initial_state=None,
                   reverse=False, cu_seqlens=None, block_k=64, block_v=64, num_warps=4,
                   num_stages=1):
    """Lightning attention: head h decays by exp(−8/H · (1 − layer_idx/num_layers) · h)."""
    return _run(query, key, value, {}, softmax_scale, initial_state, reverse, cu_seqlens,
                dict(block_k=block_k, block_v=block_v, num_warps=num_warps, num_stages=num_stages),
                function=ops.lightning_attn, layer_idx=layer_idx, num_layers=num_layers)
