"""From a recurrence's function to the ops that it stands for."""

from collections import namedtuple
from operator import index

from . import _values
from ._rows import Rows
from ._values import LastRows, Size, State, Undecided, Value, fail, user_place


class Argument(namedtuple("Argument", "name kind dtype rank channels heads", defaults=("",))):
    """A tensor of a call, as far as a program depends on it.

    `kind` is "sequence" or "query" ([B, T, H'] or [B, T, H', C]), or "parameter" ([], [H'] or
    [H', C]); `channels` is C, or 0 where a step sees a number. Arguments with the same `heads` have
    equally many, which need not be so where it is empty."""

    __slots__ = ()

    def type(self):
        return _tensor(["?"] * (self.rank - bool(self.channels))
                       + ([self.channels] if self.channels else []), self.dtype)


class Specialisation(namedtuple("Specialisation",
                               "arguments initial state_shapes offsets reverse pools",
                               defaults=(None,))):
    """All that the text of a program depends on, beside the function itself.

    `arguments` has an Argument or a constant for each parameter of the function, `initial` whether
    each state is given, `state_shapes` the given states' channels, () where nothing is given, and
    `offsets` the element type of cu_seqlens, or "". `pools` are the call's Pools, where states lie in
    some: each state is then given."""

    __slots__ = ()


def _tensor(shape, dtype):
    return f"tensor<{'x'.join([*map(str, shape), dtype])}>"


class _Op:
    def __init__(self, name, operands, result, axis, place):
        self.name, self.operands, self.result = name, operands, result
        self.axis, self.place = axis, place


class Trace:
    """One run of a function on traced values. `ranks[i]` says what is known of state i: "matrix",
    "vector" or "number". A state that is not `given` may be taken for a number, and turn out to be a
    vector."""

    def __init__(self, ranks, state_shapes, given=()):
        self.ops, self.names = [], 0
        self.rows = Rows()
        self.states = []
        self.returned_by = None  # the function, once it has returned
        self._ranks, self._shapes, self._given = ranks, state_shapes, given
        self.postponed = None  # an error, unless a state turns out to be a vector
        for number, shape in enumerate(state_shapes):
            self.states.append(None if ranks[number] is None else self._make(number))

    def _make(self, index):
        shape, name = self._shapes[index], f"%s.{index}"
        kind = self._ranks[index]
        if kind == "matrix":
            key, value = shape or (None, None)
            return State(self, Size(key), Size(value), name)
        if kind == "vector":
            return Value(self, Size(shape[0] if shape else None), name=name)
        return Value(self, None, name=name)

    def decide(self, index, is_matrix):
        """The state `index`, which is used as a matrix or not, from here on."""
        if self.states[index] is None:
            self._ranks[index] = "matrix" if is_matrix else "number"
            self.states[index] = self._make(index)
        return self.states[index]

    def argument(self, index):
        known = self.states[index]
        return Undecided(self, index) if known is None else known

    # Notes.

    def add(self, name, operands, size, axis=None, boolean=False):
        result = Value(self, size, boolean)
        self.ops.append(_Op(name, operands, result, axis, user_place()))
        return result

    def add_state(self, name, state, operands, axis):
        result = State(self, state.key, state.value)
        self.ops.append(_Op(name, [state, *operands], result, axis, user_place()))
        return result

    def value(self, given, what):
        """A Value in f32. A comparison is 1 where it holds, else 0."""
        given = self._checked(given, what)
        if not given.boolean:
            return given
        numbers = [self.add("constant", [n], None) for n in (1.0, 0.0)]
        if given.size is not None:
            numbers = [self._spread(n, given.size) for n in numbers]
        return self.add("arith.select", [given, *numbers], given.size)

    def shifted(self, given, steps, initial):
        """The row of `given` some steps earlier, as a sequence of its own."""
        return self.rows.shifted(self, given, steps, initial)

    def last_rows(self, given, count, initial):
        return self.rows.last(self, given, count, initial)

    def fail_at_number(self, message):
        """Fails where a vector is wanted and a number given. The number may be one for a state alone that
        turns out to be a vector: then the function is traced again, and else fails."""
        if not any(rank == "number" and not given for rank, given in zip(self._ranks, self._given)):
            fail(message)
        if self.postponed is None:
            try:
                fail(message)
            except _values.TraceError as error:
                self.postponed = error

    def _fail(self, message):
        if self.returned_by is None:
            fail(message)
        raise _values.TraceError(place_of(self.returned_by) + message)

    def _checked(self, given, what):
        given = _values._decided(given)
        if isinstance(given, LastRows):
            self._fail(f"{what} is the last rows of a tensor, which may only be returned as an output")
        if _values.is_number(given):
            try:
                return self.add("constant", [float(given)], None)
            except OverflowError:
                self._fail(f"{what} is a Python number that float64 does not hold")
        if isinstance(given, State):
            self._fail(f"{what} must be a number or a vector, but is a matrix of state, which changes by "
                       "S.decay(gate) and S.add(key, value) alone and is read by S.read(vector)")
        if not isinstance(given, Value):
            self._fail(f"{what} must be a traced value or a Python number, but is "
                       f"{type(given).__module__}.{type(given).__qualname__}; pass tensors as arguments"
                       + (", and ask for None with 'is'" if given is None else ""))
        if given.trace is not self:
            self._fail(f"{what} comes from another recurrence, or from an earlier call of this one")
        self.rows.check_used(given)
        return given

    def vector(self, given, size, what):
        given = self.value(given, what)
        if given.size is None:
            return self.add("broadcast", [given], size)
        given.size.unify(size, f"{what} and the state")
        return given

    def elementwise(self, name, *given):
        given = [self._checked(v, "an operand") for v in given]
        if name in ("arith.addf", "arith.subf") and all(v.boolean for v in given):
            fail("two comparisons have no sum or difference; combine them with &, | or ^")
        values = self._alike([self.value(v, "an operand") for v in given])
        return self.add(name, values, values[0].size, boolean=name.startswith("arith.cmpf"))

    def logic(self, name, *given):
        given = [self._checked(v, "an operand") for v in given]
        if not all(v.boolean for v in given):
            fail(f"'{name}' combines comparisons, such as x > 0")
        if name == "not":
            return self.elementwise("arith.cmpf oeq", *given, 0.0)
        values = self._alike(given)
        return self.add(f"arith.{name}i", values, values[0].size, boolean=True)

    def _alike(self, values):
        """The same values, all numbers or all vectors of one size."""
        size = next((v.size for v in values if v.size is not None), None)
        return values if size is None else [self._spread(v, size) for v in values]

    def _spread(self, value, size):
        if value.size is None:
            return self.add("broadcast", [value], size, boolean=value.boolean)
        size.unify(value.size, "the operands")
        return value

    def reduce(self, name, value, axis=None):
        value = self.value(value, "what is reduced")
        if value.size is None:
            self.fail_at_number(f"{name[4:]} takes a vector, but got a number")
        if axis not in (None, 0, -1):
            fail(f"a vector of a step has one axis, 0 or -1; got axis={axis!r}")
        return self.add(name, [value], None)


def _call(function, arguments):
    """What a function returns. A library that it calls may wrap a TraceError in an error of its
    own, which would hide the user's line."""
    try:
        return function(*arguments)
    except _values.TraceError:
        raise
    except Exception as error:
        while error := error.__cause__ or error.__context__:
            if isinstance(error, _values.TraceError):
                raise error from None
        raise


def run(function, spec):
    """Traces until the kinds of states no longer change; gives the trace, the states' new values
    and the outputs."""
    count = len(spec.initial)
    ranks = [{0: "number", 1: "vector", 2: "matrix"}[len(shape)] if given else None
             for given, shape in zip(spec.initial, spec.state_shapes)]
    shapes = [tuple(shape) for shape in spec.state_shapes]
    for _ in range(count + 2):
        trace = Trace(ranks, shapes, spec.initial)
        inputs = []
        for index, argument in enumerate(spec.arguments):
            if not isinstance(argument, Argument):
                inputs.append(argument)
                continue
            size = Size(argument.channels) if argument.channels else None
            row = Value(trace, size, name=f"%x.{index}" + ("" if argument.dtype == "f32" else "f"))
            inputs.append(row)
            trace.rows.add(index, argument, row)
        returned = _call(function, [*map(trace.argument, range(count)), *inputs])
        if count == 0 and not isinstance(returned, tuple):
            returned = (returned,)
        if not isinstance(returned, tuple) or len(returned) < count + 1:
            fail_at(function, f"must return {count} new state{'s' * (count > 1)} and at least one "
                     "output, as in 'return S, S.read(q)'" if count else
                     "must return at least one value, as in 'return a * x'")
        trace.returned_by = function
        states = [_values._decided(v) for v in returned[:count]]
        outputs = [trace.value(v, "an output") if not isinstance(v, (State, LastRows)) else v
                   for v in returned[count:]]
        changed = False
        for index, new in enumerate(states):
            old = trace.argument(index)
            if isinstance(old, Undecided):
                old = trace.decide(index, isinstance(new, State))
            if isinstance(new, State) != isinstance(old, State):
                fail_at(function, f"state {index + 1} is a matrix and a number or vector at once")
            if isinstance(old, State):
                new.key.unify(old.key, "the state's keys before and after the step")
                new.value.unify(old.value, "the state's values before and after the step")
                continue
            states[index] = new = trace.value(new, "a new state")
            if old.size is None and new.size is not None:
                if spec.initial[index]:
                    fail_at(function, f"state {index + 1} is a vector after a step, but its "
                             "initial_state is one number a head")
                ranks[index], changed = "vector", True
            elif old.size is not None:
                states[index] = new = trace._spread(new, old.size)
        if not changed:
            if trace.postponed:
                raise trace.postponed
            return trace, states, outputs
    fail_at(function, "the states' shapes do not settle")


def checked_states(count):
    try:
        count = index(count)
    except TypeError:
        raise TypeError(f"'states' must be an int, but is {count!r}") from None
    if count < 0:
        raise ValueError(f"'states' must be 0 or more, but is {count}")
    return count


def checked_names(option, names):
    """A name, or several, as a tuple."""
    names = (names,) if isinstance(names, str) else names
    if not isinstance(names, (tuple, list, set, frozenset)) or not all(isinstance(n, str) for n in names):
        raise TypeError(f"'{option}' must be a parameter's name or a tuple of names, but is {names!r}")
    return tuple(names)


def code_of(function):
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return getattr(function, "__code__", None)


def place_of(function):
    """ "file:line: " of a function, to begin a message with."""
    code = code_of(function)
    return f"{code.co_filename}:{code.co_firstlineno}: " if code else ""


def fail_at(function, message):
    raise _values.TraceError(f"{place_of(function)}'{function.__name__}' {message}")
