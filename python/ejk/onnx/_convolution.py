"""CausalConvWithState, and what it is in other nodes: a depthwise Conv of a Concat."""

from . import _known, _windows
from ._errors import check
from ._nodes import silu
from ._text import Fill, Value

_FORM = ("ejk computes a depthwise Conv of a Concat of the k-1 columns before and the input: what "
         "CausalConvWithState is in other nodes")


class Joined:
    """Columns [B, C, n] before a tensor [B, C, L], joined over time; `ends` are the last n columns,
    which the convolution finds."""

    def __init__(self, before, rows):
        check(isinstance(rows, Value) and len(rows.dims) == 3 and len(before.dims) == 3
              and before.dims[:2] == rows.dims[:2] and isinstance(before.dims[2], int)
              and before.dtype == rows.dtype, _FORM)
        self.before, self.rows, self.dtype, self.ends = before, rows, rows.dtype, None
        self.dims = (*rows.dims[:2], _known.plus(rows.dims[2], before.dims[2]))


def concat(attributes, operands):
    check(len(operands) == 2 and attributes["axis"] in (2, -1), f"of tensors, {_FORM}")
    return Joined(*operands)


def convolution(w, x, weight, bias, attributes):
    """A Conv, where it is causal and depthwise."""
    check(len(x.dims) == 3 and len(weight.dims) == 3, _FORM)
    channels = x.dims[1]
    neutral = {"group": channels, "dilations": [1], "pads": [0, 0], "strides": [1],
               "auto_pad": b"NOTSET", "kernel_shape": list(weight.dims[2:])}
    for name, given in attributes.items():
        check(given == neutral[name], f"attribute '{name}' = {given} is not supported; {_FORM}")
    check(isinstance(x, Joined) and weight.dims[2:] == (x.before.dims[2] + 1,)
          and attributes.get("group", 1) == channels, _FORM)
    before = x.before
    if isinstance(before, Fill):
        before = None if before.number == 0 else w.filled(before)
    result, x.ends = causal_convolution(w, [x.rows, weight, bias, before], {})
    return result


def ending(x, starts, ends, axes, steps):
    """A Slice of joined columns: the last ones, which the next call's input follows."""
    check(starts == (x.rows.dims[2],) and axes in ((2,), (-1,)) and steps in (None, (1,))
          and (ends == x.dims[2:] or isinstance(ends[0], int) and ends[0] >= 2**31 - 1),
          "of joined columns, ejk gives the last k-1: from " + f"{x.rows.dims[2]} to {x.dims[2]}")
    check(x.ends is not None, "it must come after the Conv of these columns")
    return x.ends


def causal_convolution(w, inputs, attributes):
    x, weight, bias, past = (*inputs, *[None] * (4 - len(inputs)))
    neutral = {"ndim": 1, "dilation": 1, "state_channels_last": -1}
    for name, given in attributes.items():
        check(name in ("activation", "state_window") or given == neutral.get(name, 0),
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
    window = _windows.size_of(attributes)
    past = _windows.newest(w, past, window, (B, C, width - 1))

    # Each channel is a head with a number for each step that it remembers, the oldest first. A
    # window's earlier states are of earlier columns.
    earlier = max(window - 1, 0) if width > 1 else 0
    rows = w.opened(w.permuted(x, (0, 2, 1), "f32"))
    taps = [w.opened(w.generic((C,), "f32", [(weight, (0, 1, 2))],
                             lambda v, index, j=j: w.pick(v[0], index(2), j), summed=(1, width)))
            for j in range(width)]
    if bias is not None:
        taps.append(w.opened(w.convert(bias, "f32")))
    states = ["zero : tensor<?x?xf32>"] * earlier
    for j in range(width - 1):
        if past is None:
            states.append("zero : tensor<?x?xf32>")
            continue
        state = w.opened(w.generic((B, C), "f32", [(past, (0, 1, 2))],
                                 lambda v, index, j=j: w.pick(v[0], index(2), j),
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
    for seen, tap in zip((*olds[earlier:earlier + width - 1], row), own):
        term = w.let(f"arith.mulf {seen}, {tap} : f32")
        y = term if y is None else w.let(f"arith.addf {y}, {term} : f32")
    if bias is not None:
        y = w.let(f"arith.addf {y}, {own[-1]} : f32")
    news = (*olds[1:], row)
    w.add(f"ejk.yield states({', '.join(news)} : {', '.join(['f32'] * len(news))}) "
          f"outputs({y} : f32)")
    w.add("}")
    o = w.cast(Value(names[0], "f32", ("?b", "?t", "?c")), (B, L, C))

    def finish(v, _):
        # The convolution is rounded before the activation, as the standard's function does.
        if activation == "none":
            return v[0]
        return silu(w, w.widen(w.narrow(v[0], x.dtype), x.dtype))
    o = w.generic((B, C, L), x.dtype, [(o, (0, 2, 1))], finish)
    if width == 1:  # nothing is remembered
        dims = (*((window,) if window else ()), B, C, 0)
        return o, w.generic(dims, x.dtype, [], lambda *_: w.constant(0.0))
    ends = [w.cast(Value(n, "f32", ("?b", "?c")), (B, C)) for n in names[1:]]
    presents = [w.generic((B, C, width - 1), x.dtype, [(e, (0, 1)) for e in ends[j:j + width - 1]],
                          lambda v, index: w.chosen(v, index(2))) for j in range(earlier + 1)]
    return o, _windows.joined(w, presents, window and _windows.count(w, rows, (B, L))[1])
