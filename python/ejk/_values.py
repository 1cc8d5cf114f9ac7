"""What a recurrence's function works on while it is traced: rows, numbers and states.

Nothing is computed. Each operation is noted with the user's own line; `_trace.py` writes the
notes as one step of an `ejk.scan`. A value does not change: `x += y` gives x a new one.
"""

import sys
from numbers import Real

from ._errors import PACKAGE, TraceError, is_users

# Their functions are written as a user's are.
_OPS = tuple(PACKAGE + name for name in ("ops.py", "_corrected.py", "_composed.py", "_mamba3.py"))


def user_place():
    """The file, line and column of the innermost line that is not this package's."""
    frame = sys._getframe(1)
    while frame and not is_users(frame) and frame.f_code.co_filename not in _OPS:
        frame = frame.f_back
    if not frame:
        return "", 0, 0
    column = 0
    if hasattr(frame.f_code, "co_positions"):
        for index, place in enumerate(frame.f_code.co_positions()):
            if index == frame.f_lasti // 2:
                column = (place[2] or 0) + 1
                break
    return frame.f_code.co_filename, frame.f_lineno, column


def fail(message, error=TraceError):
    file, line, _ = user_place()
    raise error(f"{file}:{line}: {message}" if line else message)


class _NoAttribute(TraceError, AttributeError):
    """A TraceError that `hasattr` takes for what it is."""


_NoAttribute.__name__ = _NoAttribute.__qualname__ = TraceError.__name__


class Size:
    """A number of channels, which later operations may still decide."""

    def __init__(self, value=None):
        self._value, self._parent = value, None

    def root(self):
        return self if self._parent is None else self._parent.root()

    @property
    def value(self):
        return self.root()._value

    def unify(self, other, what):
        a, b = self.root(), other.root()
        if a is b:
            return
        if a._value is not None and b._value is not None and a._value != b._value:
            fail(f"{what} have {a._value} and {b._value} channels; they must have as many")
        if a._value is None:
            a, b = b, a
        b._parent = a


def _call(function, name, arguments, options):
    try:
        return function(*map(_decided, arguments), **options)
    except TraceError:
        raise
    except TypeError as wrong:
        fail(f"{name} in a step is ejk's: {wrong}")


# What to write for a function of NumPy or torch that is not one of a step.
_INSTEAD = {"outer": ": S.add(k, v) adds the outer product of k and v to a state",
            **dict.fromkeys(("dot", "inner", "vdot"), ": use ejk.sum(a * b)")}


class Value:
    """A number (`size` is None) or a vector of a step, in f32; `boolean` for a comparison's."""

    __slots__ = ("trace", "size", "boolean", "name")
    __array_priority__ = 1000

    def __init__(self, trace, size, boolean=False, name=None):
        self.trace, self.size, self.boolean, self.name = trace, size, boolean, name

    # NumPy's functions on traced values are those of ejk: np.exp(g) works.
    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        from . import _functions
        what = f"np.{ufunc.__name__}"
        if method != "__call__" or options:
            fail(f"{what}{'' if method == '__call__' else '.' + method} with "
                 f"{', '.join(options) or 'a traced value'} has no counterpart in a step")
        function = _functions.BY_NUMPY_NAME.get(ufunc.__name__)
        if function is None:
            fail(f"{what} has no counterpart in a step; ejk has "
                 + ", ".join(sorted(_functions.BY_NUMPY_NAME)))
        return function(*inputs)

    def __array_function__(self, function, types, arguments, options):
        from . import _functions
        own = {"where": _functions.where, "sum": _functions.sum, "max": _functions.max,
               "amax": _functions.max, "clip": _functions.clip}.get(function.__name__)
        if own is None:
            fail(f"np.{function.__name__} has no counterpart in a step{_INSTEAD.get(function.__name__, '')}")
        if set(options) - {"axis"} or "axis" in options and own not in (_functions.sum,
                                                                       _functions.max):
            fail(f"np.{function.__name__} takes no {', '.join(options)} in a step")
        return _call(own, f"np.{function.__name__}", arguments, options)

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        from . import _functions
        name = getattr(function, "__name__", str(function))
        own = {**_functions.BY_NUMPY_NAME, **{n: getattr(_functions, n) for n in _functions.NAMES}}
        if name not in own or any(v is not None and v is not False
                                  for v in (options or {}).values()):
            fail(f"torch's {name} has no counterpart in a step, which sees vectors and numbers"
                 f"{_INSTEAD.get(name, '')}; ejk has "
                 + ", ".join(sorted(_functions.NAMES)))
        return _call(own[name], f"torch's {name}", arguments, {})

    def __array__(self, *arguments, **options):
        fail("a traced value has no numbers yet; use ejk's or NumPy's elementwise functions")

    # JAX asks for it, and calls what it finds where no error of ours gets through.
    __jax_array__ = property(__array__)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        what = "vector" if self.size is not None else "number"
        if name in ("decay", "add", "read"):
            fail(f"a {what} has no '{name}': only a state that is a matrix has. A state is one where its "
                 "decay, add or read is called before anything else: S.decay(g) is exp(g) · S", _NoAttribute)
        fail(f"a {what} of a step has no '{name}'; it has sum, max, rotate_half, shifted, last_rows and "
             "arithmetic, and "
             "ejk has functions for it", _NoAttribute)

    def __repr__(self):
        kind = "comparison" if self.boolean else "number" if self.size is None else "vector"
        known = self.size is not None and self.size.value
        return f"<traced {kind}{f' of {known} channels' if known else ''}>"

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def sum(self, axis=None):
        """The sum of a vector's channels, a number."""
        return self.trace.reduce("ejk.sum", self, axis)

    def max(self, axis=None):
        """The largest of a vector's channels, a number."""
        return self.trace.reduce("ejk.max", self, axis)

    def rotate_half(self):
        """(−second half, first half) of a vector."""
        if self.size is None:
            self.trace.fail_at_number("rotate_half takes a vector, but got a number")
        return self.trace.add("ejk.rotate_half", [self.trace.value(self, "what is rotated")],
                              self.size)

    def shifted(self, steps, initial=None):
        """The row that this tensor over time has `steps` steps earlier in the direction of the
        recurrence. Before the sequence's first step it is a row of `initial`, [N, R, H', C] with
        as many rows R as the largest shift, in the order of memory, or zero without it."""
        return self.trace.shifted(self, steps, initial)

    def last_rows(self, count, initial=None):
        """The last `count` rows of this tensor over time, [N, count, H', C], in the order of
        memory: what `shifted` takes as `initial` where a later call goes on. It may only be
        returned as an output. A shorter sequence is continued by rows of `initial`, or by
        zeros."""
        return self.trace.last_rows(self, count, initial)

    def __neg__(self):
        if self.boolean:
            fail("a comparison has no negative; use ~ for its opposite")
        return self.trace.elementwise("arith.negf", self)

    def __pos__(self):
        return self.trace.value(self, "an operand")

    def __abs__(self):
        return self.trace.elementwise("math.absf", self)

    def __invert__(self):
        return self.trace.logic("not", self)


def _operator(op, reverse=False):
    def apply(self, other, *modulus):
        if modulus:
            fail("a step has no power of three operands")
        pair = (other, self) if reverse else (self, other)
        return self.trace.elementwise(op, *pair)
    return apply


def _logic(op, reverse=False):
    def apply(self, other):
        pair = (other, self) if reverse else (self, other)
        return self.trace.logic(op, *pair)
    return apply


def _refusal(message):
    def refuse(self, *_, **__):
        fail(message)
    return refuse


_ARITHMETIC = {"add": "arith.addf", "sub": "arith.subf", "mul": "arith.mulf",
               "truediv": "arith.divf", "pow": "math.powf"}
_COMPARISONS = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
_LOGIC = ("and", "or", "xor")
_ABSENT = {"floordiv": "use ejk.floor(a / b)", "mod": "use a - b * ejk.floor(a / b)",
           "divmod": "use ejk.floor(a / b)", "matmul": "use ejk.sum(a * b), or S.read(vector)",
           "lshift": "a step computes in float32", "rshift": "a step computes in float32"}
_NO_NUMBER = "a traced value has no number yet; use ejk's or NumPy's functions, not math's"
_NO_PARTS = "single channels cannot be picked in a step; split the tensor before the call"
_CONVERSIONS = {
    "bool": "a traced value is neither true nor false: a step cannot branch on it; use "
            "ejk.where(condition, a, b), and &, | and ~ for 'and', 'or' and 'not'",
    "float": _NO_NUMBER, "int": _NO_NUMBER, "complex": _NO_NUMBER, "index": _NO_NUMBER,
    "round": "use ejk.rint", "floor": "use ejk.floor", "ceil": "use ejk.ceil",
    "trunc": "use ejk.trunc",
    "len": "a traced value has no length in a step, which sees one vector or number; pass the length as "
           "an argument", "iter": "a traced value cannot be iterated over or unpacked",
    "reversed": "a traced value cannot be iterated over or unpacked", "getitem": _NO_PARTS,
    "setitem": "a traced value does not change; use ejk.where", "delitem": _NO_PARTS,
    "contains": "'in' looks into a traced value, which has no numbers yet; compare with ==",
    "hash": "a traced value is no key: equal ones are not known before a call",
    "call": "a traced value is no function"}


def _format(self, spec):
    if spec:
        fail(_NO_NUMBER)
    return repr(self)


for _name, _op in _ARITHMETIC.items():
    setattr(Value, f"__{_name}__", _operator(_op))
    setattr(Value, f"__r{_name}__", _operator(_op, reverse=True))
for _name, _predicate in _COMPARISONS.items():
    setattr(Value, f"__{_name}__", _operator("arith.cmpf " + _predicate))
for _name in _LOGIC:
    setattr(Value, f"__{_name}__", _logic(_name))
    setattr(Value, f"__r{_name}__", _logic(_name, reverse=True))
for _name, _remedy in _ABSENT.items():
    for _place in ("", "r"):
        setattr(Value, f"__{_place}{_name}__", _refusal(f"a step has no {_name}: {_remedy}"))
for _name, _message in _CONVERSIONS.items():
    setattr(Value, f"__{_name}__", _refusal(_message))
Value.__format__ = _format


class LastRows:
    """The last rows of a tensor over time, an output of a recurrence."""

    __slots__ = ("trace", "index", "count")

    def __init__(self, trace, index, count):
        self.trace, self.index, self.count = trace, index, count

    def __repr__(self):
        return f"<traced last {self.count} rows>"


class State:
    """A matrix of state, [K, V]. Its methods give the state after the operation."""

    __slots__ = ("trace", "key", "value", "name")

    def __init__(self, trace, key, value, name=None):
        self.trace, self.key, self.value, self.name = trace, key, value, name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        fail(f"a state has no '{name}'; it has decay, add and read", _NoAttribute)

    def __repr__(self):
        return "<traced state>"

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def decay(self, gate, axis=None):
        """The state times exp(gate): of a number for all, of a vector along `axis`, "key" (its
        rows, the default) or "value" (its columns)."""
        gate = self.trace.value(gate, "the gate")
        if gate.size is None:
            if axis not in (None, "head"):
                self.trace.fail_at_number(f"the gate is one number a head, so it has no axis; got axis={axis!r}")
            return self.trace.add_state("ejk.decay", self, [gate], "head")
        axis = axis or "key"
        if axis not in ("key", "value"):
            fail(f"axis must be 'key' or 'value', but is {axis!r}")
        gate.size.unify(self.key if axis == "key" else self.value,
                        f"the gate and the state's {axis}s")
        return self.trace.add_state("ejk.decay", self, [gate], axis)

    def add(self, key, value):
        """The state plus the outer product of `key` and `value`."""
        key = self.trace.vector(key, self.key, "the key")
        value = self.trace.vector(value, self.value, "the value")
        return self.trace.add_state("ejk.outer_add", self, [key, value], None)

    def read(self, vector, axis="key"):
        """The state contracted with `vector` along `axis`: Sᵀ·vector along "key", which has the
        size of a value, S·vector along "value"."""
        if axis not in ("key", "value"):
            fail(f"axis must be 'key' or 'value', but is {axis!r}")
        own, other = (self.key, self.value) if axis == "key" else (self.value, self.key)
        vector = self.trace.vector(vector, own, "the vector that reads")
        return self.trace.add("ejk.read", [self, vector], other, axis)


_refuse = _refusal("a state changes by S.decay(gate) and S.add(key, value), and is read by "
                   "S.read(vector); it takes no other arithmetic")
for _name in [*_ARITHMETIC, *_LOGIC, *_ABSENT]:
    setattr(State, f"__{_name}__", _refuse)
    setattr(State, f"__r{_name}__", _refuse)
for _name in [*_COMPARISONS, "neg", "pos", "abs", "invert"]:
    setattr(State, f"__{_name}__", _refuse)
for _name, _message in _CONVERSIONS.items():
    setattr(State, f"__{_name}__", _refusal(_message))
for _name in ["array", "array_ufunc", "array_function"]:
    setattr(State, f"__{_name}__", _refuse)
State.__jax_array__, State.__torch_function__ = property(_refuse), classmethod(_refuse)
State.__format__ = _format


class Undecided:
    """A state before its first use, which decides whether it is a matrix, a vector or a number."""

    __slots__ = ("_trace", "_index")

    def __init__(self, trace, index):
        self._trace, self._index = trace, index

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._trace.decide(self._index, name in ("decay", "add", "read")), name)

    __torch_function__ = Value.__torch_function__

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        return _decided(self).__array_ufunc__(ufunc, method, *map(_decided, inputs), **options)

    def __array_function__(self, function, types, arguments, options):
        return _decided(self).__array_function__(function, types, arguments, options)

    def __repr__(self):
        return "<traced state>"

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


Undecided.__name__ = Undecided.__qualname__ = State.__name__  # in messages of Python's


def _decided(value):
    return value._trace.decide(value._index, False) if isinstance(value, Undecided) else value


def _forward(name):
    def apply(self, *others):
        return getattr(_decided(self), name)(*map(_decided, others))
    return apply


for _name in [*_ARITHMETIC, *_LOGIC, *_ABSENT]:
    setattr(Undecided, f"__{_name}__", _forward(f"__{_name}__"))
    setattr(Undecided, f"__r{_name}__", _forward(f"__r{_name}__"))
for _name in [*_COMPARISONS, "neg", "pos", "abs", "invert"]:
    setattr(Undecided, f"__{_name}__", _forward(f"__{_name}__"))
for _name, _message in _CONVERSIONS.items():
    setattr(Undecided, f"__{_name}__", _refusal(_message))
Undecided.__array__, Undecided.__jax_array__ = Value.__array__, Value.__jax_array__
Undecided.__format__ = _format


def is_number(given):
    """Whether it is a number of Python's or NumPy's, which a step takes as a constant."""
    return isinstance(given, Real)
