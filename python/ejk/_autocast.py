"""torch's autocast, in calls of `ejk.ops`."""

import functools

from . import _arrays

# What states are written and read with, by the names that functions of `ejk.ops` have for it. Gates are not: a
# region's 16 bits would round decays.
_ROWS = ("q", "k", "v", "r", "x", "B", "C", "conv_state")
_OTHERS = {"hgrn2": ("i",)}


def autocast(function):
    """`function`, whose rows get the type of torch's region of autocast where they differ in type."""
    code = function.__code__
    names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
    rows = frozenset(names).intersection((*_ROWS, *_OTHERS.get(function.__name__, ())))

    @functools.wraps(function)
    def call(*arguments, **named):
        if _arrays.in_autocast is not None and _arrays.in_autocast():
            given = {**dict(zip(names, arguments)), **named}
            cast = _arrays.autocast({n: x for n, x in given.items() if n in rows})
            arguments = (*[cast.get(n, x) for n, x in zip(names, arguments)], *arguments[len(names):])
            named = {n: cast.get(n, x) for n, x in named.items()}
        return function(*arguments, **named)
    # Messages and tracebacks have the name of what was called.
    call.__code__ = call.__code__.replace(co_name=function.__name__)
    return call
