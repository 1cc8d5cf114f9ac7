"""What each node of an ONNX model becomes."""

from ._text import Fill, Value

RULES = ("linear", "gated", "delta", "gated_delta")


class NodeError(Exception):
    """What is wrong with a node; the caller knows which one it is."""


def check(condition, message):
    if not condition:
        raise NodeError(message)


#===------------------------------------------------------------------------===#
# Linear attention
#===------------------------------------------------------------------------===#


def linear_attention(w, inputs, attributes):
    query, key, value, past, decay, beta = (*inputs, *[None] * (6 - len(inputs)))
    known = {"q_num_heads", "kv_num_heads", "scale", "update_rule", "chunk_size"}
    for name, given in attributes.items():
        check(name in known or given in (0, None), f"attribute '{name}' is not supported")
    rule = attributes.get("update_rule", b"gated_delta")
    rule = rule.decode() if isinstance(rule, bytes) else rule
    check(rule in RULES, f"update_rule must be one of {', '.join(RULES)}, but is '{rule}'")
    Hq, Hkv = attributes.get("q_num_heads", 0), attributes.get("kv_num_heads", 0)
    check(Hq > 0 and Hkv > 0 and Hq % Hkv == 0,
          f"q_num_heads must be a multiple of kv_num_heads, but they are {Hq} and {Hkv}")
    for name, wanted, x in (("decay", "gated" in rule, decay), ("beta", "delta" in rule, beta)):
        check((x is not None) == wanted, f"update_rule '{rule}' "
              + (f"needs the input '{name}'" if wanted else f"takes no input '{name}'"))
    for name, x, heads in (("query", query, Hq), ("key", key, Hkv), ("value", value, Hkv)):
        check(x is not None and len(x.dims) == 3 and isinstance(x.dims[2], int)
              and x.dims[2] % heads == 0 and x.dims[2], f"'{name}' must be [B, T, {heads} heads × "
              f"channels] with a size that the model states, but is "
              f"{None if x is None else list(x.dims)}")
        check(x.dims[:2] == query.dims[:2] and x.dtype == query.dtype,
              f"'{name}' must have query's batch, steps and type, {list(query.dims[:2])} and "
              f"{query.dtype}, but has {list(x.dims[:2])} and {x.dtype}")
    B, T = query.dims[:2]
    dk, dv, group = query.dims[2] // Hq, value.dims[2] // Hkv, Hq // Hkv
    check(key.dims[2] == Hkv * dk, f"'key' must have {Hkv} heads of query's {dk} channels, "
          f"{Hkv * dk} in all, but has {key.dims[2]}")
    check(dk <= 512 and dv <= 512, f"heads have {dk} and {dv} channels; ejk takes 1 to 512")
    if past is not None:
        check(tuple(past.dims) == (B, Hkv, dk, dv),
              f"'past_state' must be {[B, Hkv, dk, dv]}, but is {list(past.dims)}")
    state_type = past.dtype if past is not None else query.dtype

    delta = "delta" in rule
    q = w.opened(w.split(query, 2, (Hq, dk)), 1)
    k, v = w.opened(w.split(key, 2, (Hkv, dk)), 1), w.opened(w.split(value, 2, (Hkv, dv)), 1)
    options = []
    if delta:
        check(len(beta.dims) == 3 and beta.dims[:2] == (B, T) and beta.dims[2] in (1, Hkv),
              f"'beta' must be {[B, T, Hkv]} or {[B, T, 1]}, but is {list(beta.dims)}")
        if beta.dims[2] == 1 and Hkv > 1:
            beta = w.generic((B, T, Hkv), beta.dtype, [(w.without(beta, [2]), (0, 1))],
                             lambda x, _: x[0])
        beta = w.opened(w.convert(beta, "f32"))
        options.append(f"beta({beta.name} : {beta.type})")
    if decay is not None:
        check(len(decay.dims) == 3 and decay.dims[:2] == (B, T)
              and decay.dims[2] in (Hkv, Hkv * dk),
              f"'decay' must be {[B, T, Hkv]} or {[B, T, Hkv * dk]}, but is {list(decay.dims)}")
        gate = w.convert(decay, "f32")
        # With one channel the two forms are one.
        by_channel = decay.dims[2] != Hkv
        gate = w.split(gate, 2, (Hkv, dk)) if by_channel else gate
        gate = w.opened(gate, int(by_channel))
        options.append(f"{'gk' if delta and by_channel else 'g'}({gate.name} : {gate.type})")
    if past is not None:
        state = w.opened(w.convert(past, "f32"), 2)
        options.append(f"initial_state({state.name} : {state.type})")
    scale = attributes.get("scale", 0.0) or dk ** -0.5
    o = Value(w.fresh(), query.dtype, ("?b", "?t", "?h", dv))
    ht = Value(w.fresh(), "f32", ("?b", "?g", dk, dv))
    # The query heads of a group have one state.
    shared = "shared_state " if group > 1 else ""
    op = "ejk.delta_rule" if delta else "ejk.gla" if decay is not None else "ejk.recurrent"
    w.add(f"{o.name}, {ht.name} = {op} {shared}{q.name}, {k.name}, {v.name} {' '.join(options)} "
          f"{{softmax_scale = {scale:.17e} : f64}} : {q.type}, {k.type}, {v.type} -> {o.type}, "
          f"{ht.type}")
    o = w.cast(o, (B, T, Hq, dv))
    o = w.merge(o, [[0], [1], [2, 3]], (B, T, Hq * dv))
    ht = w.cast(ht, (B, Hkv, dk, dv))
    return o, w.convert(ht, state_type)


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


def broadcast(w, x, sizes):
    """A tensor expanded to sizes that it broadcasts to."""
    check(sizes is not None, "it must have a shape")
    dims = joined([x.dims, sizes])
    return x if dims == x.dims else elementwise(w, UNARY["Identity"], [x], x.dtype, dims)
