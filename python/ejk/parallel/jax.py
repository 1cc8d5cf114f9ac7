"""Context parallelism in a shard_map: each device of a mesh's axis has as many rows of every
sequence.

The functions are those of `ejk.ops`, with `axis`, the axis's name; call them inside of
`jax.shard_map`, with tensors that are sharded over time along it. `cu_seqlens` and `initial_state`
are the whole's, and the same on all devices. The final state has the sequences that end on a
device, and zeros for others: its `jax.lax.psum` is the whole's."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from .. import ops
from .._errors import TensorError
from .._jax import axes_of, vary
from .._named import number
from . import _entries
from ._segments import bound_by_name

__all__ = ["recurrent", "gla", "simple_gla", "mamba2_ssd", "delta_rule", "gated_delta_rule", "kda"]


class _Cut:
    """Where this device's rows lie: as `_segments.Segment`, for positions that XLA knows when it
    runs."""

    def __init__(self, axis, rows, cu):
        self.count, self.index = jax.lax.axis_size(axis), jax.lax.axis_index(axis)
        self.packed = cu is not None
        numbers = jnp.arange(self.count)
        if not self.packed:
            self.from_left, self.to_right = numbers > 0, numbers < self.count - 1
            self.whole = jnp.ones(self.count, bool)
            self.cu = None
            return
        starts, ends = numbers * rows, (numbers + 1) * rows
        count = cu.shape[0] - 1
        # Rows after the last offset are in no sequence, and nothing comes to them from the left.
        self.first = jnp.minimum(jnp.searchsorted(cu, starts, side="right"), count) - 1
        self.last = jnp.minimum(jnp.searchsorted(cu, ends, side="left"), count) - 1
        self.from_left = (cu[self.first] < starts) & (starts < cu[-1])
        self.to_right = cu[self.last + 1] > ends
        self.whole = self.first == self.last
        start, end = self.index * rows, (self.index + 1) * rows
        self.cu = (jnp.clip(cu, start, end) - start).astype(jnp.int32)
        begin, stop = cu[:-1], cu[1:]
        last = self.index == self.count - 1
        begins = (begin >= start) & ((begin < end) | (last & (begin == end)))
        self.begins = begins[:, None, None, None]
        ends_here = jnp.where(stop > begin, (stop > start) & (stop <= end), begins)
        self.ends = ends_here[:, None, None, None]

    def beginning(self, states):
        """States of the sequences that begin here, zero for others."""
        here = self.begins if self.packed else ~self.from_left[self.index]
        return jnp.where(here, states, 0.0)

    def ending(self, states):
        here = self.ends if self.packed else ~self.to_right[self.index]
        return jnp.where(here, states, 0.0)

    def row(self, states, rows):
        return states[rows[self.index]][None] if self.packed else states

    def put(self, states, rows, carry, flags, add):
        """`states` with what came in for the sequence at a cut, where one goes over it."""
        if not self.packed:
            new = states + carry if add else carry
            return jnp.where(flags[self.index], new, states)
        at = rows[self.index]
        new = states[at] + carry[0] if add else carry[0]
        return states.at[at].set(jnp.where(flags[self.index], new, states[at]))


def _through(passing, state, delta, adjoint):
    if delta:
        return (jnp.swapaxes(passing, -1, -2) if adjoint else passing) @ state
    K = state.shape[-2]
    state = state * passing[..., :K, None]
    return state * passing[..., None, K:] if passing.shape[-1] > K else state


def _carried(cut, axis, state, passing, delta, adjoint):
    """All summaries, folded from the left, or of an adjoint from the right, up to this device."""
    states, passings = jax.lax.all_gather((state, passing), axis)
    onward = cut.whole & (cut.to_right if adjoint else cut.from_left)
    carry = result = jnp.zeros_like(state)
    for s in range(cut.count - 1, -1, -1) if adjoint else range(cut.count):
        result = jnp.where(cut.index == s, carry, result)
        passed = _through(passings[s], carry, delta, adjoint)
        carry = states[s] + jnp.where(onward[s], passed, 0.0)
    return result


def _main(tensors, h0, cu, constants, delta):
    named = dict(tensors, initial_state=h0, cu_seqlens=cu, **dict(constants))
    if "dt" in named:
        x, B, C = (named.pop(n) for n in "vkq")
        return ops.mamba2_ssd(x, B=B, C=C, **named)
    if not delta:
        return ops.recurrent(**named)
    g = named.pop("g", None)
    if g is None:
        return ops.delta_rule(**named)
    return (ops.kda if g.ndim == 4 else ops.gated_delta_rule)(g=g, **named)


def _wide(tensors):
    """The type of states, and of what they are multiplied by."""
    return jnp.float64 if tensors["k"].dtype == jnp.float64 else jnp.float32


def _transition(tensors, constants, delta):
    k, wide = tensors["k"], _wide(tensors)
    H, K = max(tensors["q"].shape[2], tensors["v"].shape[2]), k.shape[3]
    if delta:
        identity = jnp.broadcast_to(jnp.eye(K, dtype=wide), (k.shape[0], H, K, K))
        return _entries.delta_transition(tensors, dict(constants), identity)

    def total(name):
        return tensors[name].astype(wide).sum(1) if name in tensors else 0.0
    keys = jnp.zeros((k.shape[0], H, K), wide) + total("gk")
    if "g" in tensors:
        keys = keys + total("g")[..., None]
    if "dt" in tensors:
        step = tensors["dt"].astype(wide) + tensors.get("dt_bias", 0)
        step = jax.nn.softplus(step) if dict(constants)["dt_softplus"] else step
        keys = keys + (tensors["A"] * step.sum(1))[..., None]
    if "g_gamma" in tensors:
        keys = keys + (tensors["g_gamma"] * k.shape[1])[:, None]
    return jnp.exp(jnp.concatenate([keys, total("gv")], -1) if "gv" in tensors else keys)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _over_time(options, tensors, initial_state, cu):
    return _forward(options, tensors, initial_state, cu)[0]


def _forward(options, tensors, initial_state, cu):
    axis, constants, delta = options
    cut = _Cut(axis, tensors["k"].shape[1], cu)
    begin = cut.beginning(initial_state)
    passing = _transition(tensors, constants, delta)
    final = _entries.final_state(tensors, dict(constants), begin, cut.cu)
    last = cut.last if cut.packed else None
    first = cut.first if cut.packed else None
    carry = _carried(cut, axis, cut.row(final, last), passing, delta, False)
    h0 = cut.put(begin, first, carry, cut.from_left, False)
    o, ht = _main(tensors, h0, cut.cu, constants, delta)
    return (o, cut.ending(ht)), (tensors, h0, passing, cu)


def _backward(options, saved, cotangents):
    axis, constants, delta = options
    tensors, h0, passing, cu = saved
    do, dht = cotangents
    cut = _Cut(axis, tensors["k"].shape[1], cu)
    dht = cut.ending(dht)
    # By the state alone; then by all, with what comes from the right.
    _, by_state = jax.vjp(lambda h: _main(tensors, h, cut.cu, constants, delta), h0)
    adjoint, = by_state((do, dht))
    last = cut.last if cut.packed else None
    first = cut.first if cut.packed else None
    carry = _carried(cut, axis, cut.row(adjoint, first), passing, delta, True)
    dht = cut.put(dht, last, carry, cut.to_right, True)
    _, by_all = jax.vjp(lambda t, h: _main(t, h, cut.cu, constants, delta), tensors, h0)
    gradients, dh0 = by_all((do, dht))
    # Of what all devices share, this is a part; shard_map sums them.
    offsets = None if cu is None else np.zeros(cu.shape, jax.dtypes.float0)
    return gradients, cut.beginning(dh0), offsets


_over_time.defvjp(_forward, _backward)


def _run(axis, tensors, initial_state, cu_seqlens, delta, **constants):
    tensors = {n: t for n, t in tensors.items() if t is not None}
    k, v = tensors["k"], tensors["v"]
    q_heads, k_heads, v_heads = (tensors[n].shape[2] for n in "qkv")
    if delta and (not q_heads == k_heads > 0 or v_heads % k_heads):
        raise TensorError(f"'q' and 'k' must have as many heads, which divide v's {v_heads}, but have "
                          f"{q_heads} and {k_heads}")
    if not delta and "dt" not in tensors and not q_heads == k_heads == v_heads:
        raise TensorError("'q', 'k' and 'v' must have as many heads; repeat them before, but they "
                          f"have {q_heads}, {k_heads}, {v_heads}")
    if cu_seqlens is not None and k.shape[0] != 1:
        raise TensorError(f"packed sequences have a batch of 1, but 'k' has {k.shape[0]}")
    if initial_state is None:
        count = k.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1
        initial_state = jnp.zeros((count, v.shape[2], k.shape[3], v.shape[3]), _wide(tensors))
    # Gradients vary along the axes of all tensors, so the tensors do, too.
    axes = axes_of([*tensors.values(), initial_state]) | {axis}
    tensors, initial_state = jax.tree.map(lambda a: vary(a, axes), (tensors, initial_state))
    return _over_time((axis, tuple(constants.items()), delta), tensors, initial_state, cu_seqlens)


def recurrent(q, k, v, g=None, g_gamma=None, gk=None, gv=None, *, axis, scale=None,
              initial_state=None, cu_seqlens=None):
    """`ejk.ops.recurrent` of this device's rows. k and v have as many heads as q."""
    if g is not None and g.ndim == 4:
        g, gk = None, g if gk is None else g + gk
    if g_gamma is not None and g_gamma.ndim != 1:
        raise TensorError(f"'g_gamma' must be [H], but is {list(g_gamma.shape)}")
    return _run(axis, dict(q=q, k=k, v=v, g=g, g_gamma=g_gamma, gk=gk, gv=gv), initial_state,
                cu_seqlens, False, scale=number("scale", scale))


def gla(q, k, v, g, *, axis, scale=None, initial_state=None, cu_seqlens=None):
    """`recurrent` with a gate for each key channel, g [B, T, H, K]."""
    return recurrent(q, k, v, g, axis=axis, scale=scale, initial_state=initial_state, cu_seqlens=cu_seqlens)


def simple_gla(q, k, v, g=None, g_gamma=None, *, axis, scale=None, initial_state=None, cu_seqlens=None):
    """`recurrent` with a gate for each head: g [B, T, H], or g_gamma [H]."""
    return recurrent(q, k, v, g, g_gamma, axis=axis, scale=scale, initial_state=initial_state, cu_seqlens=cu_seqlens)


def mamba2_ssd(x, dt, A, B, C, D=None, dt_bias=None, *, axis, dt_softplus=False, initial_state=None,
               cu_seqlens=None):
    """`ejk.ops.mamba2_ssd` of this device's rows."""
    return _run(axis, dict(q=C, k=B, v=x, dt=dt, A=A, dt_bias=dt_bias, D=D), initial_state,
                cu_seqlens, False, dt_softplus=bool(dt_softplus))


def delta_rule(q, k, v, beta, *, axis, scale=None, initial_state=None, cu_seqlens=None):
    """`ejk.ops.delta_rule` of this device's rows."""
    return _run(axis, dict(q=q, k=k, v=v, beta=beta), initial_state, cu_seqlens, True,
                scale=number("scale", scale))


def gated_delta_rule(q, k, v, g, beta, *, axis, scale=None, initial_state=None, cu_seqlens=None):
    """`ejk.ops.gated_delta_rule` of this device's rows."""
    return _run(axis, dict(q=q, k=k, v=v, g=g, beta=beta), initial_state, cu_seqlens, True,
                scale=number("scale", scale))


def kda(q, k, v, g, beta, *, axis, scale=None, initial_state=None, cu_seqlens=None, lower_bound=None):
    """`ejk.ops.kda` of this device's rows."""
    return _run(axis, dict(q=q, k=k, v=v, g=g, beta=beta), initial_state, cu_seqlens, True,
                scale=number("scale", scale), **bound_by_name(lower_bound))
