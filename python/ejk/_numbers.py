"""Python numbers of a step: each value is a program of its own."""

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


class AroundNumbers:
    """The numbers that a step reads from the functions around it and from its module.

    Where one has changed before a call, the step is traced anew. What lies in a list, in an object or in another
    module, and what functions read that the step calls, is not looked at."""

    def __init__(self, function):
        function = getattr(function, "__func__", function)
        self._cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        self._module, self._names = function.__globals__, _names_of(function.__code__)
        self._known = {}

    def look(self):
        """Notes the numbers as they are. Returns whether there are any."""
        found = {name: self._value(name) for name in (*self._names, *self._cells)}
        self._known = {name: value for name, value in found.items() if type(value) in (bool, int, float)}
        return bool(self._known)

    def changed(self):
        """(name, value) of each that is not as it was noted."""
        now = ((name, self._value(name), known) for name, known in self._known.items())
        return [(name, value) for name, value, known in now if not _same(value, known)]

    def _value(self, name):
        cell = self._cells.get(name)
        if cell is None:
            return self._module.get(name)
        try:
            return cell.cell_contents
        except ValueError:  # not set yet
            return None


def _names_of(code):
    """The names that a function and those in it read from their module, and perhaps others."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, type(code)):
            names |= _names_of(constant)
    return names


def _same(a, b):
    # 1, 1.0 and True are equal, and a step may tell them apart; NaN is not equal to itself.
    return a is b or (type(a) is type(b) and repr(a) == repr(b))
