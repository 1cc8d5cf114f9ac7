"""Recurrences that have a name. Each takes [B, T, H, C] tensors and returns (o, final_state).

Arguments that all of them take:

- `initial_state`: [N, H, K, V] float32, the state before the first step; zero where it is None.
- `cu_seqlens`: [N+1] int32 or int64. B is 1 and sequence n is rows cu[n] to cu[n+1]−1.
  Rows after the last offset are in no sequence; results are zero there.
- `reverse`: compute each sequence from its last step to its first.
- `save_states`: whether a forward on a GPU keeps states for its derivative, which with False
  computes them again: less memory, more time.

Some take `shared_state`: the query heads that share a key/value head then share its state, too,
which is kept and moved once for them. Gates are the key/value head's, [B, T, Hkv, …], and so are
`initial_state` and `final_state`, [N, Hkv, K, V].

A gate is the logarithm of a decay, at most 0. The state is [N, H, K, V] in float32.

In a region of torch's autocast, q, k and v that differ in type get the region's, and so do other rows that a
state is written or read with (r; x, B and C; i of `hgrn2`; `conv_state`). Gates keep their type.

Those whose signature ends in `**pools` take `pool`, `read_slots`, `write_slots`, `accepted`,
`parents`, `ring`, `first_slot` and `value_major`, as a call of a recurrence does (`ejk.recurrence`), for states that a
server keeps in a pool, and then return (o, pool)."""

import functools
import math
from operator import index  # of a size that torch holds symbolic, the number

from . import _arrays, _functions as f
from ._autocast import autocast as _autocast
from ._blocks import gated_delta_net, kda_block
from ._composed import gated_slot_attention, mlstm
from ._corrected import comba, gated_delta_product, gdn2, oja
from ._errors import TensorError, name_of_call
from ._mamba2_block import mamba2_block
from ._mamba3 import mamba3, mamba3_mimo
from ._named import default_scale as _default_scale, named as _named, number as _number, query as _query
from ._numbers import ChangingNumbers
from ._program import Program, register
from ._recurrence import SCALE_REMEDY
from ._rwkv7_block import rwkv7_block, rwkv7_shift
from ._scan_text import number_text

__all__ = ["recurrent", "gla", "simple_gla", "lightning_attn", "retention", "linear_attn",
           "mamba2_ssd", "rwkv6", "hgrn2", "mlstm", "delta_rule", "gated_delta_rule", "kda",
           "rwkv7", "gated_delta_product", "gdn2", "comba", "oja", "mamba3", "mamba3_mimo",
           "gated_slot_attention", "gated_delta_net", "kda_block", "mamba2_block", "rwkv7_block",
           "rwkv7_shift"]


@functools.lru_cache(maxsize=None)
def _op_program(op, names, types, attributes, reverse, shared):
    """The key of the program of one op of the dialect. `types` are (element type, rank, sizes)."""
    packed = "cu_seqlens" in names

    def tensor(name, dtype, rank, shape):
        sizes = ["?"] * rank
        if name in ("initial_state",):
            sizes[2:] = shape[2:]
        elif rank == 4:
            sizes[3] = shape[3]
        if packed and rank >= 3 and name not in ("initial_state",):
            sizes[0] = "1"
        return f"tensor<{'x'.join([*map(str, sizes), dtype])}>"

    text_types = [tensor(n, *t) for n, t in zip(names, types)]
    q, v = types[names.index("q")], types[names.index("v")]
    o = tensor("o", q[0], 4, v[2])
    flags = "".join(f" {flag}" for flag, given in (("reverse", reverse), ("shared_state", shared))
                    if given)
    ht = f"tensor<?x?x{q[2][3]}x{v[2][3]}xf32>"
    optional = " ".join(f"{n}(%{n} : {t})" for n, t in zip(names[3:], text_types[3:]))
    arguments = ", ".join(f"%{n}: {t}" for n, t in zip(names, text_types))
    listed = ", ".join(f"{n} = {value}" for n, value in attributes)
    name = op.removeprefix("ejk.")
    text = (f"func.func @{name}({arguments}) -> ({o}, {ht}) {{\n"
            f"  %o, %ht = {op}{flags} %q, %k, %v {optional}"
            f" {{{listed}}}\n      : {', '.join(text_types[:3])} -> {o}, {ht}\n"
            f"  return %o, %ht : {o}, {ht}\n}}\n")
    return register(Program(text, name)).key


_numbers = ChangingNumbers()


def _resolve(op, names, types, attributes, reverse, shared):
    for name, value in attributes:
        if name == "softmax_scale":
            _numbers.note(name_of_call() or op.removeprefix("ejk."), "scale", value, types, SCALE_REMEDY)
    return _op_program(op, names, types, attributes, reverse, shared)


# torch.compile calls this when it traces the caller, and takes its result as a constant.
_resolve._dynamo_marked_constant = True


_sites = {}  # what makes torch's eager calls quick, for each op with its attributes and operands


def _call_op(op, attributes, reverse, save_states, shared=False, **tensors):
    given = [(n, t) for n, t in tensors.items() if t is not None or n in ("q", "k", "v")]
    place = (op, attributes, reverse, save_states, shared, *[n for n, _ in given])
    if _arrays.quick is not None:
        results = _arrays.quick(_sites.get(place), tuple([t for _, t in given]), None, None)
        if results is not None:
            return results
    door = _arrays.common_door(given)
    names, arrays = tuple(n for n, _ in given), [t for _, t in given]
    arrays, described = _arrays.read(door, names, arrays)
    _arrays.check_exact(names, described)
    types = []
    for name, (dtype, shape) in zip(names, described):
        rank = {"cu_seqlens": (1,), "g_gamma": (1, 2), "g": (3, 4)}.get(name, (4,))
        if len(shape) not in rank:
            raise TensorError(f"'{name}' must have rank {' or '.join(map(str, rank))}, but has "
                              f"shape {list(shape)}")
        _check_operand(name, dtype, shape, described[0][0])
        if name == "cu_seqlens" and shape[0] == 0:
            raise TensorError("'cu_seqlens' has N+1 offsets, but is empty")
        # Sizes that a program depends on: channels alone.
        fixed = 2 if name == "initial_state" else 3
        kept = (None,) * min(fixed, len(shape)) + tuple(index(n) for n in shape[fixed:])
        types.append(("f32" if dtype == "f64" else dtype, len(shape), kept))
    _check_channels(names, types)
    key = _resolve(op, names, tuple(types), attributes, reverse, shared)
    results = tuple(door.call(key, arrays, save_states))
    if hasattr(door, "remember") and all(a is t for a, (_, t) in zip(arrays, given)):
        door.remember(_sites.setdefault(place, {}), arrays, None, None, key, arrays, results,
                      save_states)
    return results


def _check_channels(names, types):
    """Whether what goes to or comes from a state has as many channels as it; `types` are those of
    `_op_program`."""
    shapes = {name: shape for name, (_, _, shape) in zip(names, types)}
    K, V = shapes["q"][3], shapes["v"][3]
    wanted = {"k": (K,), "g": (K,), "gk": (K,), "gv": (V,), "initial_state": (K, V)}
    for name, shape in shapes.items():
        own = tuple(n for n in shape if n is not None)
        if name in wanted and own not in (wanted[name], ()):
            none = " or no" if name == "g" else ""  # a number a head
            raise TensorError(f"'{name}' must have {' and '.join(map(str, wanted[name]))}{none} channels, where 'q' "
                              f"has {K} and 'v' {V}, but has {' and '.join(map(str, own))}")


def _check_operand(name, dtype, shape, main):
    """Types and channels of one operand; `main` is q's type."""
    allowed = {"cu_seqlens": ("i32", "i64"), "q": ("f32", "f16", "bf16"), "k": (main,),
               "v": (main,),
               "g_gamma": ("f32",), "initial_state": ("f32",)}.get(name, ("f32", main))
    if dtype not in allowed and (dtype != "f64" or name == "cu_seqlens"):
        raise TensorError(f"'{name}' must be {' or '.join(dict.fromkeys(allowed))}"
                          + (", as q is" if name in ("k", "v") else "") + f", but is {dtype}")
    if name in ("q", "k", "v") and not 1 <= shape[3] <= 512:
        raise TensorError(f"'{name}' has {shape[3]} channels; ejk takes 1 to 512")


def _scale(scale):
    if scale is None:
        return ()
    scale = _arrays.constant(_number("scale", scale))
    if not math.isfinite(scale):
        raise ValueError(f"{name_of_call()}: 'scale' must be finite, but is {scale!r}")
    return (("softmax_scale", f"{number_text(scale)} : f64"),)


def recurrent(q, k, v, g=None, g_gamma=None, gk=None, gv=None, *, scale=None, initial_state=None,
              cu_seqlens=None, reverse=False, save_states=True, shared_state=False, **pools):
    """The gated linear recurrence with any of its gates, which multiply.

    S = exp(g + γ) · exp(gk)[:, None] · exp(gv)[None, :] ⊙ S + k vᵀ;  o = scale · Sᵀ q

    q [B, T, H, K], k [B, T, Hkv, K], v [B, T, Hkv, V] (Hkv divides H); g [B, T, H], or [B, T, H, K]
    and then the same as gk; g_gamma [H] or [N, H]; gk [B, T, H, K]; gv [B, T, H, V], with
    `shared_state` Hkv for H in these. `scale` is K^-½ where it is None."""
    if pools:
        return _in_pools(q, k, v, g, g_gamma, gk, gv, None, scale, initial_state, cu_seqlens, reverse,
                         shared_state, pools)
    return _call_op("ejk.recurrent", _scale(scale), reverse, save_states, shared_state, q=q, k=k,
                    v=v, g=g, g_gamma=g_gamma, gk=gk, gv=gv, initial_state=initial_state,
                    cu_seqlens=cu_seqlens)


def gla(q, k, v, g, *, scale=None, initial_state=None, cu_seqlens=None, reverse=False,
        save_states=True, shared_state=False, **pools):
    """Gated linear attention: `recurrent` with a gate for each key channel, g [B, T, H, K]."""
    if pools:
        return _in_pools(q, k, v, g, None, None, None, None, scale, initial_state, cu_seqlens, reverse,
                         shared_state, pools)
    return _call_op("ejk.gla", _scale(scale), reverse, save_states, shared_state, q=q, k=k, v=v,
                    g=g, initial_state=initial_state, cu_seqlens=cu_seqlens)


def simple_gla(q, k, v, g=None, g_gamma=None, *, scale=None, initial_state=None, cu_seqlens=None,
               reverse=False, save_states=True, shared_state=False, **pools):
    """`recurrent` with a gate for each head: g [B, T, H], or g_gamma [H], constant in time."""
    if pools:
        return _in_pools(q, k, v, g, g_gamma, None, None, None, scale, initial_state, cu_seqlens,
                         reverse, shared_state, pools)
    return _call_op("ejk.gla", _scale(scale), reverse, save_states, shared_state, q=q, k=k, v=v,
                    g=g, g_gamma=g_gamma, initial_state=initial_state, cu_seqlens=cu_seqlens)


def lightning_attn(q, k, v, layer_idx, num_layers, *, scale=None, initial_state=None,
                   cu_seqlens=None, reverse=False, save_states=True, **pools):
    """Lightning attention: γ_h = −(8/H)·(1 − layer_idx/num_layers)·h."""
    attributes = (("layer_idx", f"{int(layer_idx)} : i64"),
                  ("num_layers", f"{int(num_layers)} : i64"))
    if pools:
        share = 1 - int(layer_idx) / int(num_layers)
        return _in_pools(q, k, v, None, None, None, None, share, scale, initial_state, cu_seqlens,
                         reverse, False, pools)
    return _call_op("ejk.lightning_attn", attributes + _scale(scale), reverse, save_states, q=q,
                    k=k, v=v, initial_state=initial_state, cu_seqlens=cu_seqlens)


def linear_attn(q, k, v, *, scale=None, initial_state=None, cu_seqlens=None, reverse=False,
                save_states=True, shared_state=False, **pools):
    """Linear attention: `recurrent` without a gate."""
    return recurrent(q, k, v, scale=scale, initial_state=initial_state, cu_seqlens=cu_seqlens,
                     reverse=reverse, save_states=save_states, shared_state=shared_state,
                     **pools)


@functools.partial(_named, queries=((), ("q",)))
def _recurrent(S, q, k, v, g, g_gamma, gk, gv, share, scale):
    if share is not None:
        g_gamma = f.head_index(k) * (-8.0 * share) / f.num_heads(k)
    for gate in (g, g_gamma, gk):
        if gate is not None:
            S = S.decay(gate)
    if gv is not None:
        S = S.decay(gv, axis="value")
    S = S.add(k, v)
    return S, S.read(q * scale)


def _in_pools(q, k, v, g, g_gamma, gk, gv, share, scale, initial_state, cu_seqlens, reverse,
              shared_state, pools):
    """`recurrent`, or with `share` lightning attention, with states in a pool."""
    if g_gamma is not None and len(g_gamma.shape) != 1:
        raise TensorError("'g_gamma' must be [H] where states lie in a pool, but has shape "
                          f"{list(g_gamma.shape)}")
    return _recurrent(reverse, _query(shared_state))(
        q, k, v, g, g_gamma, gk, gv, share, _default_scale(scale, q), initial_state=initial_state,
        cu_seqlens=cu_seqlens, **pools)


@_named
def _retention(S, q, k, v, scale):
    head = f.head_index(q)
    S = S.decay(f.log1p(-f.exp2(-5.0 - head))).add(k, v)
    return S, S.read(q * scale)


def retention(q, k, v, *, scale=None, initial_state=None, cu_seqlens=None, reverse=False,
              save_states=True, **pools):
    """RetNet's retention: head h decays by 1 − 2^(−5−h)."""
    return _retention(reverse)(q, k, v, _default_scale(scale, q), initial_state=initial_state,
                               cu_seqlens=cu_seqlens, save_states=save_states, **pools)


@_named
def _mamba2(S, x, dt, A, B, C, D, dt_bias, dt_softplus):
    if dt_bias is not None:
        dt = dt + dt_bias
    if dt_softplus:
        dt = f.softplus(dt)
    S = S.decay(A * dt).add(B, dt * x)
    y = S.read(C)
    return S, y if D is None else y + D * x


def mamba2_ssd(x, dt, A, B, C, D=None, dt_bias=None, *, dt_softplus=False, initial_state=None,
               cu_seqlens=None, reverse=False, save_states=True, **pools):
    """Mamba-2's state-space model. S = exp(A·dt)·S + B (dt·x)ᵀ;  y = Sᵀ C + D·x

    x [B, T, H, P]; dt [B, T, H]; A [H], negative; B and C [B, T, G, N] with G dividing H; D and
    dt_bias [H]. The state is [B, H, N, P]."""
    return _mamba2(reverse)(x, dt, A, B, C, D, dt_bias, bool(dt_softplus),
                            initial_state=initial_state, cu_seqlens=cu_seqlens,
                            save_states=save_states, **pools)


@_named
def _rwkv6(S, r, k, v, w, u, scale):
    r = r * scale
    o = S.read(r) + f.sum(r * u * k) * v
    return S.decay(w).add(k, v), o


def rwkv6(r, k, v, w, u, *, scale=1.0, initial_state=None, cu_seqlens=None, reverse=False,
          save_states=True, **pools):
    """RWKV-6. o = Sᵀ r + (Σ r⊙u⊙k)·v, then S = exp(w)[:, None] ⊙ S + k vᵀ

    r, k, w [B, T, H, K]; w is the log of the decay; v [B, T, H, V]; u [H, K], the bonus."""
    return _rwkv6(reverse)(r, k, v, w, u, _number("scale", scale), initial_state=initial_state,
                           cu_seqlens=cu_seqlens, save_states=save_states, **pools)


@_named
def _rwkv7(S, r, w, k, v, a, b, scale):
    held = S.read(a)
    S = S.decay(w).add(b, held).add(k, v)
    return S, S.read(r * scale)


def rwkv7(r, w, k, v, a, b, *, scale=1.0, initial_state=None, cu_seqlens=None, reverse=False,
          save_states=True, **pools):
    """RWKV-7. S = exp(w)[:, None] ⊙ S + b (Sᵀ a)ᵀ + k vᵀ;  o = scale · Sᵀ r

    r, w, k, a, b [B, T, H, K]; w is the log of the decay; v [B, T, H, V]. With κ of length 1 and a
    rate between 0 and 1 for each channel, a is −κ and b is κ·rate."""
    return _rwkv7(reverse)(r, w, k, v, a, b, _number("scale", scale), initial_state=initial_state,
                           cu_seqlens=cu_seqlens, save_states=save_states, **pools)


@_named
def _hgrn2(S, q, g, i):
    S = S.decay(g).add(-f.expm1(g), i)  # 1 − exp(g) would cancel
    return S, S.read(q)


def hgrn2(q, g, i, *, initial_state=None, cu_seqlens=None, reverse=False, save_states=True, **pools):
    """HGRN-2: keys are what the gate forgets. S = exp(g)[:, None] ⊙ S + (1 − exp(g)) iᵀ;  o = Sᵀ q

    q [B, T, H, K]; g [B, T, H, K], the log of the forget gate; i [B, T, H, V]."""
    return _hgrn2(reverse)(q, g, i, initial_state=initial_state, cu_seqlens=cu_seqlens,
                           save_states=save_states, **pools)


def _delta_step(S, q, k, v, beta, g, scale, lower_bound):
    if lower_bound is not None:
        g = f.clip(g, lower_bound, 0.0)
    if g is not None:
        S = S.decay(g)
    S = S.add(k, beta * (v - S.read(k)))
    return S, S.read(q * scale)


@functools.partial(_named, queries=((), ("q",)))
def _delta_rule(S, q, k, v, beta, g, scale, lower_bound=None):
    return _delta_step(S, q, k, v, beta, g, scale, lower_bound)


# A recurrence has the heads of its first operand.
@_named
def _delta_rule_of_values(S, v, q, k, beta, g, scale, lower_bound=None):
    return _delta_step(S, q, k, v, beta, g, scale, lower_bound)


def _delta(q, k, v, beta, g, scale, lower_bound, reverse, shared_state, **named):
    scale = _default_scale(scale, q)
    q_heads, v_heads = (x.shape[2] if len(getattr(x, "shape", ())) > 2 else 0 for x in (q, v))
    if not shared_state and v_heads > q_heads:
        return _delta_rule_of_values(reverse)(v, q, k, beta, g, scale, lower_bound, **named)
    return _delta_rule(reverse, _query(shared_state))(q, k, v, beta, g, scale, lower_bound, **named)


def delta_rule(q, k, v, beta, *, scale=None, initial_state=None, cu_seqlens=None, reverse=False,
               save_states=True, shared_state=False, **pools):
    """DeltaNet. u = β·(v − Sᵀ k);  S = S + k uᵀ;  o = scale · Sᵀ q

    q and k [B, T, Hk, K], taken as given (normalise them before); v [B, T, H, V]; beta [B, T, H]. Hk divides H:
    value head h has the query and key of head h / (H/Hk), as in Qwen3-Next.
    With `shared_state`, q and o may have more heads, which share those of the others."""
    return _delta(q, k, v, beta, None, scale, None, reverse, shared_state, initial_state=initial_state,
                  cu_seqlens=cu_seqlens, save_states=save_states, **pools)


def gated_delta_rule(q, k, v, g, beta, *, scale=None, initial_state=None, cu_seqlens=None,
                     reverse=False, save_states=True, shared_state=False, **pools):
    """Gated DeltaNet: `delta_rule` after a decay by exp(g), g [B, T, H]."""
    return _delta(q, k, v, beta, g, scale, None, reverse, shared_state, initial_state=initial_state,
                  cu_seqlens=cu_seqlens, save_states=save_states, **pools)


def kda(q, k, v, g, beta, *, scale=None, initial_state=None, cu_seqlens=None, reverse=False,
        save_states=True, shared_state=False, lower_bound=None, **pools):
    """Kimi delta attention: `delta_rule` after a decay of each key channel, g [B, T, H, K].

    With `lower_bound`, a Python number below 0, g is clipped to [lower_bound, 0] in the step. Give the
    bound that the gate's function has: from -7.75 on, chunks of any such gates stay on tensor cores."""
    if lower_bound is not None and not lower_bound < 0:
        raise ValueError(f"kda: 'lower_bound' must be below 0, but is {lower_bound!r}")
    return _delta(q, k, v, beta, g, scale, lower_bound, reverse, shared_state, initial_state=initial_state,
                  cu_seqlens=cu_seqlens, save_states=save_states, **pools)


for _name in __all__:
    globals()[_name] = _autocast(globals()[_name])
_arrays.load_doors()
