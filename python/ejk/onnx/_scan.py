"""ONNX's Scan as an `ejk.scan`, where its step is a gated linear recurrence.

LinearAttention's own function body, expanded, is such a Scan; `_step.py` reads its step."""

from .. import _trace, _values
from .._scan_text import body_of, type_of
from . import _known
from ._errors import check
from ._step import BATCH, CHANNEL, HEAD, KEY, VALUE, Step, Term, axes_of
from ._text import Fill, Value


def scan(onnx, w, attributes, inputs, outer, opset):
    """The Scan's results: final states, and its outputs over time. `outer` is what has a name
    around it, `opset` the model's."""
    body = attributes["body"]
    count = attributes["num_scan_inputs"]
    states, rows = inputs[:len(inputs) - count], inputs[len(inputs) - count:]
    outputs = len(body.output) - len(states)
    in_axes = attributes.get("scan_input_axes") or [0] * count
    out_axes = attributes.get("scan_output_axes") or [0] * outputs
    directions = {*(attributes.get("scan_input_directions") or [0] * count),
                  *(attributes.get("scan_output_directions") or [0] * outputs)}
    check(len(directions) <= 1, "its inputs and outputs must go in one direction")
    check(states and rows, "it must have a state and an input over time")
    B = states[0].dims[0]
    heads, sequences, given = 1, [], []
    for i, (x, own) in enumerate(zip(rows, body.input[len(states):])):
        rank = len(x.dims)
        axis = in_axes[i] % rank
        dims = [d for a, d in enumerate(x.dims) if a != axis]
        check(len(dims) >= 2 and dims[0] == B and isinstance(dims[1], int),
              f"a step of input '{own.name}' must be [{B}, heads, …], but is {dims}")
        channels = [d for d in dims[2:] if d != 1]
        check(len(channels) <= 1 and all(isinstance(d, int) and d <= 512 for d in channels),
              f"a step of input '{own.name}' must be a number or a vector a head, with at most 512 "
              f"channels that the model states, but is {dims[2:]}")
        heads = max(heads, dims[1])
        order = [a for a in range(rank) if a != axis]
        x = w.permuted(x, [order[0], axis, *order[1:]])
        sequences.append(w.reshaped(x, (*x.dims[:3], *channels)))
        given.append((own.name, dims, channels))
    T = sequences[0].dims[1]
    check(all(x.dims[1] == T for x in sequences), "its inputs must have as many steps")
    for x in sequences:
        check(heads % x.dims[2] == 0, f"its inputs have {heads} and {x.dims[2]} heads")
    shapes = []
    for x in states:
        check(2 <= len(x.dims) <= 4 and x.dims[0] == B and isinstance(x.dims[1], int)
              and heads % x.dims[1] == 0 and all(isinstance(d, int) and 1 <= d <= 512
                                                 for d in x.dims[2:]),
              f"a state must be [{B}, heads, keys, values], [{B}, heads, channels] or [{B}, "
              f"heads], but is {list(x.dims)}")
        check(x.dtype == "f32",
              f"a state must be of float, but is {x.dtype}: give the Scan a Cast of it")
        shapes.append(tuple(x.dims[2:]))
    trace = _trace.Trace([("number", "vector", "matrix")[len(s)] for s in shapes], shapes)
    for traced in trace.states:
        traced.name = w.fresh()
    step = Step(onnx, trace, outer, opset)
    step.terms.update((n, _known.stored(array)) for n, array in _known.initializers(onnx, body).items())
    for own, x, traced in zip(body.input, states, trace.states):
        roles = {2: (), 3: (CHANNEL,), 4: (KEY, VALUE)}[len(x.dims)]
        step.terms[own.name] = Term(traced, axes_of(x.dims, (BATCH, HEAD, *roles)), "f32")
    wide = []
    for x, (name, dims, channels) in zip(sequences, given):
        size = _values.Size(channels[0]) if channels else None
        row = _values.Value(trace, size, name=w.fresh())
        wide.append(row)
        roles = [BATCH, HEAD, *(CHANNEL if d != 1 else None for d in dims[2:])]
        step.terms[name] = Term(row, axes_of(dims, roles), x.dtype)
    for node in body.node:
        step.node(node)
    ends = [step.end(o.name, x) for o, x in zip(body.output, states)]
    results = [step.output(o.name, B, heads) for o in body.output[len(states):]]
    finals, outs = _write(w, trace, list(zip(sequences, wide)), states, ends, results, heads,
                          1 in directions)
    outs = [_placed(w, o, r, B, T, a) for o, r, a in zip(outs, results, out_axes)]
    return (*finals, *outs)


def _placed(w, o, term, B, T, axis):
    """An output [B, T, H, …] as the Scan gives it, with time at `axis`."""
    dims = (B, T, *term.dims[1:])
    o = w.reshaped(w.cast(o, (B, T, term.dims[1], *o.dims[3:])), dims)
    order = [a for a in range(len(dims)) if a != 1]
    axis %= len(dims)
    return w.permuted(o, [*order[:axis], 1, *order[axis:]])


def _write(w, trace, sequences, states, ends, results, heads, reverse):
    """The `ejk.scan`; gives the final states and the outputs."""
    rows, widened = [], []
    for x, wide in sorted(sequences, key=lambda s: -s[0].dims[2]):  # the first has the scan's heads
        x = w.opened(x, len(x.dims) - 3)
        row = wide.name
        if x.dtype != "f32":
            row, type_ = w.fresh(), type_of(wide)
            widened.append(f"{wide.name} = arith.extf {row} : {type_.replace('f32', x.dtype)} to "
                           f"{type_}")
        rows.append(f"{row} = {x.name} : {x.type}")
    starts, finals = [], []
    for traced, x in zip(trace.states, states):
        type_ = "tensor<?x?x" + "".join(f"{d}x" for d in x.dims[2:]) + "f32>"
        if isinstance(x, Fill) and x.number == 0:
            starts.append(f"{traced.name} = zero : {type_}")
        else:
            x = w.filled(x) if isinstance(x, Fill) else x
            x = w.opened(w.repeated(x, 1, heads // x.dims[1]), len(x.dims) - 2)
            starts.append(f"{traced.name} = {x.name} : {type_}")
        finals.append(Value(w.fresh(), "f32", ("?b", "?h", *x.dims[2:])))
    outs = []
    for term in results:
        channels = [term.value.size.value] if term.value.size else []
        outs.append(Value(w.fresh(), term.dtype, ("?b", "?t", "?h", *channels)))
    for op in trace.ops:
        op.result.name = w.fresh()
    w.add(", ".join(v.name for v in (*outs, *finals)) + " = ejk.scan" + " reverse" * reverse
          + f" sequences({', '.join(rows)}) states({', '.join(starts)}) -> ("
          + ", ".join(o.type for o in outs) + ") {")
    w.lines += widened
    yielded = []
    for op in trace.ops:
        w.add(body_of(op, False))
    for term in results:
        wide, name = type_of(term.value), term.value.name
        narrow = wide.replace("f32", term.dtype)
        if narrow != wide:
            name = w.let(f"arith.truncf {name} : {wide} to {narrow}")
        yielded.append((name, narrow))
    w.add(f"ejk.yield states({', '.join(t.value.name for t in ends)} : "
          f"{', '.join(type_of(t.value) for t in ends)}) outputs("
          + ", ".join(n for n, _ in yielded) + " : " + ", ".join(t for _, t in yielded) + ")")
    w.add("}")
    finals = [w.first_of_groups(w.cast(f, (x.dims[0], heads, *x.dims[2:])), 1, heads // x.dims[1])
              for f, x in zip(finals, states)]
    return finals, outs
