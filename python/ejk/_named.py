"""What the named recurrences share: one recurrence for each direction, and defaults."""

from . import _arrays
from . import _functions as f
from ._errors import TensorError, name_of_call
from ._recurrence import SCALE_REMEDY, Recurrence

_REMEDIES = {"scale": SCALE_REMEDY, "lower_bound": "clip the gate before the call"}


def named(function, states=1, queries=((),), remedies=_REMEDIES):
    """A recurrence for each direction and set of queries. All are made here: torch.compile does not
    follow that in a call."""
    made = {(reverse, names): Recurrence(function, states, reverse, names, remedies)
            for reverse in (False, True) for names in queries}

    def get(reverse, queries=()):
        return made[bool(reverse), queries]
    return get


def query(shared_state):
    return ("q",) if shared_state else ()


#: A_log beyond it is taken for it: a gate with such a rate is 0 or closed. Its gradients multiply exp(A_log) by
#: sums and then by a slope of 0, so that float32 has to hold more than exp(A_log).
LARGEST_LOG = 60.0


def rate_of(A_log):
    """exp(A_log) in a step, and finite: beside a gate that is saturated, ∞·0 would be NaN."""
    return f.exp(f.minimum(A_log, LARGEST_LOG))


def number(name, value):
    """The constant of a program that an argument says, as a float; None where it is None."""
    if value is None or type(value) in (int, float):
        return value if value is None else float(value)
    door = _arrays.door_of(value)
    if hasattr(door, "has_gradient") and door.has_gradient(value):
        raise TensorError(f"'{name}' is a number of the program, and a tensor that needs a gradient would get none; "
                          + _REMEDIES[name])
    return float(value)


def default_scale(scale, q):
    if not _arrays.is_known(type(q)):
        _arrays.common_door([("q", q)])  # before its shape is read
    return float(q.shape[-1]) ** -0.5 if scale is None else number("scale", scale)


def checked_bound(lower_bound):
    """The least gate, below 0, as a float; None where there is none."""
    bound = number("lower_bound", lower_bound)
    if bound is not None and not bound < 0:
        raise ValueError(f"{name_of_call()}: 'lower_bound' must be below 0, but is {lower_bound!r}")
    return bound
