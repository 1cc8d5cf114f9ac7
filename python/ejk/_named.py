"""What the named recurrences share: one recurrence for each direction, and defaults."""

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


def default_scale(scale, q):
    return float(q.shape[-1]) ** -0.5 if scale is None else float(scale)
