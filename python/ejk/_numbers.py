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
    """The names that a step reads from the functions around it and from its module.

    Where one has another value before a call, the step is traced anew: another number, None, a string, or another
    object. A change within a list, an array or an object, in another module, or in a function that the step calls, is
    not looked at. This package's own steps read names that do not change."""

    def __init__(self, function):
        function = getattr(function, "__func__", function)
        self._module, self._names, self._cells = function.__globals__, (), {}
        if str(self._module.get("__name__")).split(".")[0] != "ejk":
            self._cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
            self._names = _names_of(function.__code__) | self._cells.keys()
        self._known = {}

    def look(self):
        """Notes the values as they are. Returns whether there are any."""
        found = ((name, self._value(name)) for name in self._names)
        # Nearly every step reads ejk, a module, and a name of Python's own is in no module.
        self._known = {name: value for name, value in found
                       if value is not _UNSET and not isinstance(value, type(sys))}
        return bool(self._known)

    def changed(self):
        """(name, value) of each that is not as it was noted."""
        found = []
        for name, known in self._known.items():
            value = self._value(name)
            if value is not known and not _same(value, known):
                found.append((name, value))
        return found

    def _value(self, name):
        cell = self._cells.get(name)
        if cell is None:
            return self._module.get(name, _UNSET)
        try:
            return cell.cell_contents
        except ValueError:  # not set yet
            return _UNSET


_UNSET = object()
_LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")


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
