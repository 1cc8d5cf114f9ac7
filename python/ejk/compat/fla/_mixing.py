"""What RWKV and LightNet compute around a recurrence, in torch's own operations, as `_modules`
does for what all models share. A function of several operations computes in float32 and rounds
its result once, as fla's kernels do."""

import torch

from ._common import wide, with_unused


def _over_sequences(function, x, cu_seqlens, initial):
    """`function(rows, state)` of each sequence, and the states behind them."""
    if cu_seqlens is None:
        return function(x, initial)
    parts, states = [], []
    offsets = cu_seqlens.tolist()
    for n, (first, end) in enumerate(zip(offsets, offsets[1:])):
        part, state = function(x[:, first:end], None if initial is None else initial[n:n + 1])
        parts.append(part)
        states.append(state)
    return parts, torch.cat(states)


def token_shift(x, cu_seqlens=None, cache=None, output_cache=False, chunk_indices=None):
    """The row before minus the row. `chunk_indices` order fla's work and change no result."""
    del chunk_indices

    def shifted(rows, before):
        if rows.shape[1] == 0:
            return rows, rows.new_zeros(rows.shape[0], rows.shape[2]) if before is None else before
        first = torch.zeros_like(rows[:, 0]) if before is None else before.to(rows.dtype)
        return (torch.cat([first[:, None], rows[:, :-1]], 1) - rows), rows[:, -1]
    if cache is not None:
        cache = cache.reshape(-1, x.shape[2])
    y, last = _over_sequences(shifted, x, cu_seqlens, cache)
    y = with_unused(torch.cat(y, 1), x.shape[1]) if isinstance(y, list) else y
    return (y, last) if output_cache else y


def fused_addcmul_rwkv7(hidden_states, delta, xr, xw, xk, xv, xa, xg=None):
    kind = hidden_states.dtype
    hidden_states, delta = wide(hidden_states), wide(delta)  # once: so are their gradients' sums
    return tuple([None if x is None else torch.addcmul(hidden_states, delta, wide(x)).to(kind)
                  for x in (xr, xw, xk, xv, xa, xg)])


def fused_k_rwkv7(k, a, ka, cu_seqlens=None, cu_seqlens_cpu=None):
    """k·(1 + (a − 1)·ka), row by row whatever the sequences are."""
    del cu_seqlens, cu_seqlens_cpu
    own = wide(k)
    return own.addcmul(own * (wide(a) - 1), wide(ka)).to(k.dtype)


def gate_output_correction(o, r, k, r_k, v, g):
    weights = (r.float() * k.float() * r_k.float()).sum(-1, keepdim=True)
    return ((o.float() + (weights * v.float()).reshape(o.shape)) * g.float()).to(o.dtype)


def fused_additive_gate(x, initial_state=None, cu_seqlens=None, output_dtype=None,
                        gate_dtype=None):
    """Scores divided by the sum of those so far, and the log of what that leaves of earlier ones;
    the sums' logarithms [N, 1, H, K]."""
    def gates(rows, before):
        rows = rows.float()
        first = rows.new_full(rows[:, :1].shape[:1] + (1,) + rows.shape[2:], -torch.inf)
        first = first if before is None else before.float()
        if rows.shape[1] == 0:
            return (rows, rows), first
        sums = torch.cat([first, rows], 1).logcumsumexp(1)
        earlier, own = sums[:, :-1], sums[:, 1:]
        # Before any score nothing is left, and nothing was there: the gate is 1.
        gate = torch.where(earlier.isinf(), torch.zeros_like(own), earlier - own)
        return ((rows - own).exp(), gate), own[:, -1:]
    pairs, last = _over_sequences(gates, x, cu_seqlens, initial_state)
    if isinstance(pairs, list):
        pairs = (with_unused(torch.cat(p, 1), x.shape[1]) for p in zip(*pairs))
    keys, gate = pairs
    return keys.to(output_dtype or x.dtype), gate.to(gate_dtype or x.dtype), last


# fla's functions by module.
HOMES = {"fla.modules.token_shift": (token_shift,),
         "fla.ops.rwkv7.fused_addcmul": (fused_addcmul_rwkv7,),
         "fla.ops.rwkv7.fused_k_update": (fused_k_rwkv7,),
         "fla.ops.rwkv7.gate_output_correction": (gate_output_correction,),
         "fla.ops.gsa.gate": (fused_additive_gate,)}
