"""Windows of states: com.microsoft's operators give, beside the state after the last step, those
after the steps before it, so that a decoder can go back to one (`state_window`).

A window is [W, ...state], the last step's state last. Of an earlier call, that one alone is read.
States before a call's first step are zero."""

from ._errors import check
from ._text import At, Value

_MOST = 8  # of the operators


def size_of(attributes):
    """The attribute `state_window`; 0 where there is no window."""
    window = attributes.get("state_window", 0)
    check(0 <= window <= _MOST, f"state_window must be 0 to {_MOST}, but is {window}")
    return window


def newest(w, past, window, dims):
    """The state that a call starts from, of `dims`; None where none is given."""
    if past is None:
        return None
    wanted = (window, *dims) if window else dims
    check(tuple(past.dims) == wanted,
          f"'past_state' must be {list(wanted)}, but is {list(past.dims)}")
    if not window:
        return past
    return w.generic(dims, past.dtype, [(past, (At(window - 1), *range(len(dims))))],
                     lambda x, _: x[0])


def count(w, rows, sizes):
    """For each step [B, T, 1] how many steps are left, itself too, and the number of steps [B, 1],
    as floats; `rows` is a tensor over time, of which nothing is read."""
    B, T = sizes
    # With a head of its own, since a scan has as many heads as its first tensor.
    first = w.generic((B, T, 1), "f32", [(rows, (0, 1, *[At(0)] * (len(rows.dims) - 2)))],
                      lambda x, _: x[0])
    first = w.opened(first)
    left, steps = (Value(w.fresh(), "f32", d) for d in (("?b", "?t", "?h"), ("?b", "?h")))
    row, old = w.fresh(), w.fresh()
    w.add(f"{left.name}, {steps.name} = ejk.scan reverse sequences({row} = {first.name} : "
          f"{first.type}) states({old} = zero : tensor<?x?xf32>) -> (tensor<?x?x?xf32>) {{")
    more = w.let(f"arith.addf {old}, {w.constant(1.0)} : f32")
    w.add(f"ejk.yield states({more} : f32) outputs({more} : f32)")
    w.add("}")
    return w.cast(left, (B, T, 1)), w.cast(steps, (B, 1))


def without_last(w, x, left, number):
    """A tensor over time, zero in the last `number` steps."""
    return w.generic(x.dims, x.dtype, [(x, range(len(x.dims))), (left, (0, 1, At(0)))],
                     lambda v, _: w.where(v[1], number + 1.0, v[0]))


def joined(w, states, steps):
    """The window of these states, or the one that there is without a window. `steps` is what
    `count` gives."""
    if not steps:
        return states[0]
    W = len(states)

    def body(v, index):
        own = [w.where(v[-1], float(W - j), x) for j, x in enumerate(v[:-1])]
        return w.chosen(own, index(0))
    dims = states[0].dims
    at = range(1, len(dims) + 1)
    return w.generic((W, *dims), states[0].dtype, [*((s, at) for s in states), (steps, (1, At(0)))],
                     body)
