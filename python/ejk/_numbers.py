"""Python numbers of a step, and other constants: each value is a program of its own."""

import sys

from ._errors import warn

# So many values of one Python number are compiled before a warning.
_FEW_VALUES = 4


class ChangingNumbers:
    """Warns, once for an argument, where a Python number that changes compiles a program each time."""

    def __init__(self):
        self._values, self._warned = {}, set()

    def note(self, function, name, value, rest, remedy):
        """`rest` says for what tensors: the same tensors with another number are another program.
        `remedy` says what to give instead, with {} for the number."""
        if (function, name) in self._warned:
            return
        values = self._values.setdefault((function, name, rest), set())
        values.add(value)
        if len(values) > _FEW_VALUES:
            self._warned.add((function, name))
            warn(f"'{function}' is compiled for each value of '{name}', a Python number, and has met "
                 f"{len(values)}. Where it changes from call to call, {remedy.format(value)}")


class NamesAround:
    """The names that a step reads from the functions around it and from its module, and those that its decorators
    read.

    Where one has another value before a call, the step is traced anew: another number, None, a string, or another
    object. A change within a list, an array or an object, in another module, or in a function that the step calls, is
    not looked at. This package's own steps read names that do not change."""

    def __init__(self, function):
        self._names, self._known = [], []  # a name, with the module and the cells of the function that reads it
        for own in _with_wrapped(function):
            module = own.__globals__
            if str(module.get("__name__")).split(".")[0] != "ejk":
                cells = dict(zip(own.__code__.co_freevars, own.__closure__ or ()))
                self._names += [(name, module, cells) for name in _names_of(own.__code__) | cells.keys()]

    def look(self):
        """Notes the values as they are. Returns whether there are any."""
        found = ((place, self._value(*place)) for place in self._names)
        # Nearly every step reads ejk, a module, and a name of Python's own is in no module.
        self._known = [(place, value) for place, value in found
                       if value is not _UNSET and not isinstance(value, type(sys))]
        return bool(self._known)

    def changed(self):
        """(name, value) of each that is not as it was noted."""
        found = []
        for place, known in self._known:
            value = self._value(*place)
            if value is not known and not _same(value, known):
                found.append((place[0], value))
        return found

    def _value(self, name, module, cells):
        cell = cells.get(name)
        if cell is None:
            return module.get(name, _UNSET)
        try:
            return cell.cell_contents
        except ValueError:  # not set yet
            return _UNSET


_UNSET = object()
_LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")


def _with_wrapped(function):
    """A function, and those that functools.wraps says it wraps."""
    while function is not None:
        function = getattr(function, "__func__", function)
        if hasattr(function, "__code__"):
            yield function
        function = getattr(function, "__wrapped__", None)


def _names_of(code):
    """The names that a function and those in it read from their module."""
    import dis  # here, because ejk is to be imported fast
    names = {i.argval for i in dis.get_instructions(code) if i.opname in _LOADS}
    for constant in code.co_consts:
        if isinstance(constant, type(code)):
            names |= _names_of(constant)
    return names


def _same(a, b):
    """Whether a step finds the same in two objects. 1, 1.0 and True are equal, as 0.0 and -0.0 are, and a step may tell
    them apart; NaN is not equal to itself. No object that may change in its place is the same as another."""
    kind = type(a)
    if kind is not type(b):
        return False
    if kind in (bool, int, float, complex, str, bytes):
        return repr(a) == repr(b)
    if kind is tuple:
        return len(a) == len(b) and all(x is y or _same(x, y) for x, y in zip(a, b))
    numpy = sys.modules.get("numpy")  # it is there where a number is NumPy's
    return bool(numpy) and isinstance(a, (numpy.number, numpy.bool_)) and a.tobytes() == b.tobytes()
