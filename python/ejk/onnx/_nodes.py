"""What each node of an ONNX model becomes."""

import math

from . import _windows
from ._errors import check
from ._text import At, Fill, Value

RULES = ("linear", "gated", "delta", "gated_delta")


#===------------------------------------------------------------------------===#
# Linear attention
#===------------------------------------------------------------------------===#


def linear_attention(w, inputs, attributes, contributed=False):
    """`contributed`: the operator of com.microsoft, which takes more heads of values than of
    queries and keys, and a window of states."""
    query, key, value, past, decay, beta = (*inputs, *[None] * (6 - len(inputs)))
    known = {"q_num_heads", "kv_num_heads", "scale", "update_rule", "chunk_size"}
    known |= {"state_window"} if contributed else set()
    for name, given in attributes.items():
        check(name in known or given in (0, None), f"attribute '{name}' is not supported")
    rule = attributes.get("update_rule", b"gated_delta")
    rule = rule.decode() if isinstance(rule, bytes) else rule
    check(rule in RULES, f"update_rule must be one of {', '.join(RULES)}, but is '{rule}'")
    Hq, Hkv = attributes.get("q_num_heads", 0), attributes.get("kv_num_heads", 0)
    check(Hq > 0 and Hkv > 0 and (Hq % Hkv == 0 or contributed and Hkv % Hq == 0),
          f"q_num_heads must be a multiple of kv_num_heads{' or divide it' if contributed else ''}, "
          f"but they are {Hq} and {Hkv}")
    for name, wanted, x in (("decay", "gated" in rule, decay), ("beta", "delta" in rule, beta)):
        check((x is not None) == wanted, f"update_rule '{rule}' "
              + (f"needs the input '{name}'" if wanted else f"takes no input '{name}'"))
    for name, x, heads in (("query", query, Hq), ("key", key, 1), ("value", value, Hkv)):
        check(x is not None and len(x.dims) == 3 and isinstance(x.dims[2], int)
              and x.dims[2] % heads == 0 and x.dims[2], f"'{name}' must be [B, T, {heads} heads × "
              f"channels] with a size that the model states, but is "
              f"{None if x is None else list(x.dims)}")
        check(x.dims[:2] == query.dims[:2] and x.dtype == query.dtype,
              f"'{name}' must have query's batch, steps and type, {list(query.dims[:2])} and "
              f"{query.dtype}, but has {list(x.dims[:2])} and {x.dtype}")
    B, T = query.dims[:2]
    dk, dv, group = query.dims[2] // Hq, value.dims[2] // Hkv, max(Hq // Hkv, 1)
    Hk = key.dims[2] // dk
    check(key.dims[2] == Hk * dk and (Hk == Hkv or contributed and Hkv % max(Hk, 1) == 0),
          f"'key' must have {Hkv} heads of query's {dk} channels, {Hkv * dk} in all"
          + (", or a part of them" if contributed else "") + f", but has {key.dims[2]}")
    check(dk <= 512 and dv <= 512, f"heads have {dk} and {dv} channels; ejk takes 1 to 512")
    window = _windows.size_of(attributes)
    past = _windows.newest(w, past, window, (B, Hkv, dk, dv))
    state_type = past.dtype if past is not None else query.dtype

    delta = "delta" in rule
    q, k = w.split(query, 2, (Hq, dk)), w.split(key, 2, (Hk, dk))
    if not (delta and Hk == Hq < Hkv):  # a delta rule's values may have more heads; else repeat
        q, k = w.repeated(q, 2, max(Hkv // Hq, 1)), w.repeated(k, 2, Hkv // Hk)
    v = w.split(value, 2, (Hkv, dv))
    options = []
    if delta:
        check(len(beta.dims) == 3 and beta.dims[:2] == (B, T) and beta.dims[2] in (1, Hkv),
              f"'beta' must be {[B, T, Hkv]} or {[B, T, 1]}, but is {list(beta.dims)}")
        if beta.dims[2] == 1 and Hkv > 1:
            beta = w.generic((B, T, Hkv), beta.dtype, [(w.without(beta, [2]), (0, 1))],
                             lambda x, _: x[0])
        beta = w.convert(beta, "f32")
    gate, gate_name = None, "g"
    if decay is not None:
        check(len(decay.dims) == 3 and decay.dims[:2] == (B, T)
              and decay.dims[2] in (Hkv, Hkv * dk),
              f"'decay' must be {[B, T, Hkv]} or {[B, T, Hkv * dk]}, but is {list(decay.dims)}")
        gate = w.convert(decay, "f32")
        # With one channel the two forms are one.
        by_channel = decay.dims[2] != Hkv
        gate = w.split(gate, 2, (Hkv, dk)) if by_channel else gate
        gate_name = "gk" if delta and by_channel else "g"
    if past is not None:
        state = w.opened(w.convert(past, "f32"), 2)
        options.append(f"initial_state({state.name} : {state.type})")
    scale = attributes.get("scale", 0.0) or dk ** -0.5
    # The query heads of a group have one state.
    shared = "shared_state " if group > 1 else ""
    op = "ejk.delta_rule" if delta else "ejk.gla" if decay is not None else "ejk.recurrent"
    heads = max(Hq, Hkv)

    def run(k, v, beta, gate):
        o = Value(w.fresh(), query.dtype, ("?b", "?t", "?h", dv))
        ht = Value(w.fresh(), "f32", ("?b", "?g", dk, dv))
        main = [w.opened(x, 1) for x in (q, k, v)]
        given = []
        for name, x in (("beta", beta), (gate_name, gate)):
            if x is not None:
                x = w.opened(x, len(x.dims) - 3)
                given.append(f"{name}({x.name} : {x.type})")
        w.add(f"{o.name}, {ht.name} = {op} {shared}{', '.join(x.name for x in main)} "
              f"{' '.join([*given, *options])} {{softmax_scale = {scale:.17e} : f64}} : "
              f"{', '.join(x.type for x in main)} -> {o.type}, {ht.type}")
        return w.cast(o, (B, T, heads, dv)), w.convert(w.cast(ht, (B, Hkv, dk, dv)), state_type)
    rows = k, v, beta, gate
    o, ht = run(*rows)
    o = w.merge(o, [[0], [1], [2, 3]], (B, T, heads * dv))
    if not window:
        return o, ht
    left, steps = _windows.count(w, q, (B, T))
    # A state before the last steps is that of a call in which they are zero and do nothing.
    states = [run(*(None if x is None else _windows.without_last(w, x, left, window - 1 - j)
                    for x in rows))[1] for j in range(window - 1)]
    return o, _windows.joined(w, [*states, ht], steps)


#===------------------------------------------------------------------------===#
# Elementwise nodes
#===------------------------------------------------------------------------===#


def _plain(op):
    return lambda w, *x: w.let(f"{op} {', '.join(x)} : f32")


def _sigmoid(w, x):
    e = w.let(f"math.exp {w.let(f'arith.negf {x} : f32')} : f32")
    one = w.constant(1.0)
    return w.let(f"arith.divf {one}, {w.let(f'arith.addf {e}, {one} : f32')} : f32")


def silu(w, x):
    return w.let(f"arith.mulf {x}, {_sigmoid(w, x)} : f32")


def _softplus(w, x):
    small = w.let(f"arith.negf {w.let(f'math.absf {x} : f32')} : f32")
    small = w.let(f"math.log1p {w.let(f'math.exp {small} : f32')} : f32")
    return w.let(f"arith.addf {w.let(f'arith.maximumf {x}, {w.constant(0.0)} : f32')}, {small} : "
                 f"f32")


def _reciprocal(w, x):
    return w.let(f"arith.divf {w.constant(1.0)}, {x} : f32")


def _relu(w, x):
    return w.let(f"arith.maximumf {x}, {w.constant(0.0)} : f32")


UNARY = {"Neg": _plain("arith.negf"), "Abs": _plain("math.absf"), "Exp": _plain("math.exp"),
         "Log": _plain("math.log"), "Sqrt": _plain("math.sqrt"), "Tanh": _plain("math.tanh"),
         "Erf": _plain("math.erf"), "Floor": _plain("math.floor"), "Ceil": _plain("math.ceil"),
         "Sin": _plain("math.sin"), "Cos": _plain("math.cos"), "Sigmoid": _sigmoid,
         "Softplus": _softplus, "Relu": _relu, "Reciprocal": _reciprocal,
         "Identity": lambda w, x: x}
BINARY = {"Add": _plain("arith.addf"), "Sub": _plain("arith.subf"), "Mul": _plain("arith.mulf"),
          "Div": _plain("arith.divf"), "Pow": _plain("math.powf"),
          "Max": _plain("arith.maximumf"), "Min": _plain("arith.minimumf")}


def joined(shapes):
    """The sizes that tensors of these sizes are broadcast to."""
    rank = max(map(len, shapes))
    dims = [1] * rank
    for shape in shapes:
        for at, size in enumerate(shape, rank - len(shape)):
            if dims[at] == 1:
                dims[at] = size
            check(size in (1, dims[at]), f"sizes {dims[at]} and {size} are not known to be equal; "
                  "give them one name in the model")
    return tuple(dims)


def elementwise(w, function, inputs, dtype, dims=None):
    """`inputs` are tensors, and numbers of the model (`Fill`); one at least is a tensor."""
    dims = dims or joined([x.dims for x in inputs])
    rank = len(dims)
    operands = []
    for x in inputs:
        if isinstance(x, Fill):
            continue
        kept = [i for i, size in enumerate(x.dims)
                if not (size == 1 and dims[rank - len(x.dims) + i] != 1)]
        axes = [rank - len(x.dims) + i for i in kept]
        if len(kept) < len(x.dims):
            x = w.without(x, [i for i in range(len(x.dims)) if i not in kept])
        operands.append((x, axes))

    def body(numbers, _):
        given = iter(numbers)
        return function(w, *[w.constant(x.number) if isinstance(x, Fill) else next(given)
                             for x in inputs])
    return w.generic(dims, dtype, operands, body)


# How many blocks of channels a part of a Split may have. Each element looks at all of a part's.
_MOST_BLOCKS = 16


def split(w, x, attributes, sizes, count):
    """Parts of a tensor along its last axis, or along another one whose size the model states."""
    rank = len(x.dims)
    axis = attributes.get("axis", 0) % rank
    size = x.dims[axis]
    check(isinstance(size, int), f"it splits an axis of size '{size}', which is known at a call only")
    if sizes is None:
        count = attributes.get("num_outputs", count)
        each = -(-size // count)
        sizes = [each] * (count - 1) + [size - each * (count - 1)]
    check(len(sizes) == count and sum(sizes) == size and min(sizes) > 0,
          f"parts of sizes {list(sizes)} do not make an axis of {size} for {count} outputs")
    block = math.gcd(*sizes)
    check(max(sizes) // block <= _MOST_BLOCKS,
          f"sizes {list(sizes)} have the common divisor {block}; ejk takes parts of at most "
          f"{_MOST_BLOCKS} times that")
    blocks = w.split(x, axis, (size // block, block))
    parts, first = [], 0
    for own in sizes:
        number = own // block
        dims = (*x.dims[:axis], number, block, *x.dims[axis + 1:])
        loops = list(range(rank + 1))
        part = w.generic(dims, x.dtype,
                         [(blocks, [*loops[:axis], At(first + i), *loops[axis + 1:]])
                          for i in range(number)],
                         lambda v, index: w.chosen(v, index(axis)) if len(v) > 1 else v[0])
        parts.append(w.reshaped(part, (*x.dims[:axis], own, *x.dims[axis + 1:])))
        first += number
    return tuple(parts)


def broadcast(w, x, sizes):
    """A tensor expanded to sizes that it broadcasts to."""
    check(sizes is not None, "it must have a shape")
    dims = joined([x.dims, sizes])
    return x if dims == x.dims else elementwise(w, UNARY["Identity"], [x], x.dtype, dims)
