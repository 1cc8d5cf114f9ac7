"""What each node of an ONNX model becomes."""

from ._text import Value

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

    def repeated(x, axis):
        """A tensor with heads at `axis`, once for each query head of a group."""
        if group == 1:
            return x
        dims = (*x.dims[:axis + 1], group, *x.dims[axis + 1:])
        axes = [i + (i > axis) for i in range(len(x.dims))]
        x = w.generic(dims, x.dtype, [(x, axes)], lambda v, _: v[0])
        groups = ([[i] for i in range(axis)] + [[axis, axis + 1]]
                  + [[i] for i in range(axis + 2, len(dims))])
        return w.merge(x, groups, (*dims[:axis], Hq, *dims[axis + 2:]))

    def open_(x, *known):
        return w.cast(x, [f"{x.name}.{i}" for i in range(len(x.dims) - len(known))] + list(known))

    delta = "delta" in rule
    q = open_(w.split(query, 2, (Hq, dk)), dk)
    k, v = w.split(key, 2, (Hkv, dk)), w.split(value, 2, (Hkv, dv))
    if delta:  # a delta rule's query and key heads are as many
        k, v = repeated(k, 2), repeated(v, 2)
    k, v = open_(k, dk), open_(v, dv)
    options = []
    if delta:
        check(len(beta.dims) == 3 and beta.dims[:2] == (B, T) and beta.dims[2] in (1, Hkv),
              f"'beta' must be {[B, T, Hkv]} or {[B, T, 1]}, but is {list(beta.dims)}")
        if beta.dims[2] == 1 and Hkv > 1:
            beta = w.generic((B, T, Hkv), beta.dtype, [(w.without(beta, [2]), (0, 1))],
                             lambda x, _: x[0])
        beta = open_(repeated(w.convert(beta, "f32"), 2))
        options.append(f"beta({beta.name} : {beta.type})")
    if decay is not None:
        check(len(decay.dims) == 3 and decay.dims[:2] == (B, T)
              and decay.dims[2] in (Hkv, Hkv * dk),
              f"'decay' must be {[B, T, Hkv]} or {[B, T, Hkv * dk]}, but is {list(decay.dims)}")
        gate = w.convert(decay, "f32")
        # With one channel the two forms are one.
        by_channel = decay.dims[2] != Hkv
        gate = w.split(gate, 2, (Hkv, dk)) if by_channel else gate
        gate = open_(repeated(gate, 2), *([dk] if by_channel else []))
        options.append(f"{'gk' if delta and by_channel else 'g'}({gate.name} : {gate.type})")
    if past is not None:
        state = open_(repeated(w.convert(past, "f32"), 1), dk, dv)
        options.append(f"initial_state({state.name} : {state.type})")
    scale = attributes.get("scale", 0.0) or dk ** -0.5
    o = Value(w.fresh(), query.dtype, ("?b", "?t", "?h", dv))
    ht = Value(w.fresh(), "f32", ("?b", "?h", dk, dv))
    op = "ejk.delta_rule" if delta else "ejk.gla" if decay is not None else "ejk.recurrent"
    w.add(f"{o.name}, {ht.name} = {op} {q.name}, {k.name}, {v.name} {' '.join(options)} "
          f"{{softmax_scale = {scale:.17e} : f64}} : {q.type}, {k.type}, {v.type} -> {o.type}, "
          f"{ht.type}")
    o = w.cast(o, (B, T, Hq, dv))
    o = w.merge(o, [[0], [1], [2, 3]], (B, T, Hq * dv))
    ht = w.cast(ht, (B, Hq, dk, dv))
    if group > 1:  # the query heads of a group have one state, group times; take the first
        ht = w.split(ht, 1, (Hkv, group))
        ht = w.generic((B, Hkv, dk, dv), "f32", [(ht, (0, 1, 4, 2, 3))],
                       lambda x, index: _pick(w, x[0], index(4), 0), summed=(group,))
    return o, w.convert(ht, state_type)


def _pick(w, number, index, wanted):
    """The number where the index is `wanted`, else 0."""
    at = w.let(f"arith.constant {wanted} : index")
    here = w.let(f"arith.cmpi eq, {index}, {at} : index")
    return w.let(f"arith.select {here}, {number}, {w.constant(0.0)} : f32")


#===------------------------------------------------------------------------===#
# Causal convolution
#===------------------------------------------------------------------------===#


def causal_convolution(w, inputs, attributes):
    x, weight, bias, past = (*inputs, *[None] * (4 - len(inputs)))
    neutral = {"ndim": 1, "dilation": 1}
    for name, given in attributes.items():
        check(name == "activation" or given == neutral.get(name, 0),
              f"attribute '{name}' = {given} is not supported")
    activation = attributes.get("activation", b"none")
    activation = activation.decode() if isinstance(activation, bytes) else activation
    check(activation in ("none", "silu", "swish"),
          f"activation must be none, silu or swish, but is '{activation}'")
    check(len(x.dims) == 3 and isinstance(x.dims[1], int),
          "'input' must be [batch, channels, length] "
          f"with channels that the model states, but is {list(x.dims)}")
    B, C, L = x.dims
    check(len(weight.dims) == 3 and weight.dims[:2] == (C, 1) and isinstance(weight.dims[2], int),
          f"'weight' must be [{C}, 1, k], but is {list(weight.dims)}")
    width = weight.dims[2]
    check(bias is None or tuple(bias.dims) == (C,), f"'bias' must be [{C}]")
    check(past is None or tuple(past.dims) == (B, C, width - 1),
          f"'past_state' must be {[B, C, width - 1]}"
          + (f", but is {list(past.dims)}" if past else ""))

    def opened(value):
        return w.cast(value, [f"{value.name}.{i}" for i in range(len(value.dims))])

    # Each channel is a head with a number for each step that it remembers, the oldest first.
    rows = opened(w.permuted(x, (0, 2, 1), "f32"))
    taps = [opened(w.generic((C,), "f32", [(weight, (0, 1, 2))],
                             lambda v, index, j=j: _pick(w, v[0], index(2), j), summed=(1, width)))
            for j in range(width)]
    if bias is not None:
        taps.append(opened(w.convert(bias, "f32")))
    states = []
    for j in range(width - 1):
        if past is None:
            states.append("zero : tensor<?x?xf32>")
            continue
        state = opened(w.generic((B, C), "f32", [(past, (0, 1, 2))],
                                 lambda v, index, j=j: _pick(w, v[0], index(2), j),
                                 summed=(width - 1,)))
        states.append(f"{state.name} : {state.type}")
    if width == 1:  # a scan has a state, which nothing reads here
        states.append("zero : tensor<?x?xf32>")
    names = [w.fresh() for _ in range(1 + len(states))]
    row, olds = w.fresh(), [w.fresh() for _ in states]
    own = [w.fresh() for _ in taps]
    w.add(f"{', '.join(names)} = ejk.scan sequences({row} = {rows.name} : {rows.type}) parameters("
          + ", ".join(f"{a} = {t.name} : {t.type} as f32" for a, t in zip(own, taps)) + ") states("
          + ", ".join(f"{s} = {given}" for s, given in zip(olds, states))
          + ") -> (tensor<?x?x?xf32>) {")
    y = None
    for seen, tap in zip((*olds[:width - 1], row), own):
        term = w.let(f"arith.mulf {seen}, {tap} : f32")
        y = term if y is None else w.let(f"arith.addf {y}, {term} : f32")
    if bias is not None:
        y = w.let(f"arith.addf {y}, {own[-1]} : f32")
    news = (*olds[1:], row)
    w.add(f"ejk.yield states({', '.join(news)} : {', '.join(['f32'] * len(news))}) outputs({y} : "
          f"f32)")
    w.add("}")
    o = w.cast(Value(names[0], "f32", ("?b", "?t", "?c")), (B, L, C))

    def finish(v, _):
        # The convolution is rounded before the activation, as the standard's function does.
        if activation == "none":
            return v[0]
        return _silu(w, w.widen(w.narrow(v[0], x.dtype), x.dtype))
    o = w.generic((B, C, L), x.dtype, [(o, (0, 2, 1))], finish)
    if width == 1:  # nothing is remembered
        return o, w.generic((B, C, 0), x.dtype, [], lambda *_: w.constant(0.0))
    ends = [w.cast(Value(n, "f32", ("?b", "?c")), (B, C)) for n in names[1:]]

    def join(v, index):
        result, position = v[0], index(2)
        for j in range(1, width - 1):
            at = w.let(f"arith.constant {j} : index")
            here = w.let(f"arith.cmpi eq, {position}, {at} : index")
            result = w.let(f"arith.select {here}, {v[j]}, {result} : f32")
        return result
    present = w.generic((B, C, width - 1), x.dtype, [(e, (0, 1)) for e in ends], join)
    return o, present


#===------------------------------------------------------------------------===#
# Elementwise nodes
#===------------------------------------------------------------------------===#


def _plain(op):
    return lambda w, *x: w.let(f"{op} {', '.join(x)} : f32")


def _sigmoid(w, x):
    e = w.let(f"math.exp {w.let(f'arith.negf {x} : f32')} : f32")
    one = w.constant(1.0)
    return w.let(f"arith.divf {one}, {w.let(f'arith.addf {e}, {one} : f32')} : f32")


def _silu(w, x):
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
         "Identity": lambda w, x: x, "Cast": lambda w, x: x}
BINARY = {"Add": _plain("arith.addf"), "Sub": _plain("arith.subf"), "Mul": _plain("arith.mulf"),
          "Div": _plain("arith.divf"), "Pow": _plain("math.powf"),
          "Max": _plain("arith.maximumf"), "Min": _plain("arith.minimumf")}


def elementwise(w, function, inputs, dtype):
    """`inputs` are values, and numbers of the model."""
    tensors = [x for x in inputs if isinstance(x, Value)]
    check(tensors, "no input is known at a call only; fold the constant")
    rank = max(len(x.dims) for x in tensors)
    dims = [1] * rank
    for x in tensors:
        for i, size in enumerate(x.dims):
            at = rank - len(x.dims) + i
            if dims[at] == 1:
                dims[at] = size
            check(size in (1, dims[at]), f"sizes {dims[at]} and {size} are not known to be equal; "
                  "give them one name in the model")
    operands = []
    for x in tensors:
        kept = [i for i, size in enumerate(x.dims)
                if not (size == 1 and dims[rank - len(x.dims) + i] != 1)]
        axes = [rank - len(x.dims) + i for i in kept]
        if len(kept) < len(x.dims):
            x = w.without(x, [i for i in range(len(x.dims)) if i not in kept])
        operands.append((x, axes))

    def body(numbers, _):
        given = iter(numbers)
        return function(w, *[next(given) if isinstance(x, Value) else w.constant(x)
                             for x in inputs])
    return w.generic(dims, dtype, operands, body)
