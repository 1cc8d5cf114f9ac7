"""What a recurrence's function works on while it is traced: rows, numbers and states.

Nothing is computed. Each operation is noted with the user's own line; `_trace.py` writes the
notes as one step of an `ejk.scan`.
"""

import os
import sys

from ._errors import TraceError

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def user_place():
    """The file, line and column of the innermost line that is not this package's."""
    frame = sys._getframe(1)
    while frame and (frame.f_code.co_filename.startswith(_PACKAGE)
                     and not frame.f_code.co_filename.endswith(os.sep + "ops.py")
                     or f"{os.sep}numpy{os.sep}" in frame.f_code.co_filename):
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


def fail(message):
    file, line, _ = user_place()
    raise TraceError(f"{file}:{line}: {message}" if line else message)


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


class Value:
    """A number (`size` is None) or a vector of a step, in f32; `boolean` for a comparison's."""

    __array_priority__ = 1000

    def __init__(self, trace, size, boolean=False, name=None):
        self.trace, self.size, self.boolean, self.name = trace, size, boolean, name

    # NumPy's functions on traced values are those of ejk: np.exp(g) works.
    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        from . import _functions
        if method != "__call__" or options:
            return NotImplemented
        function = _functions.BY_NUMPY_NAME.get(ufunc.__name__)
        if function is None:
            fail(f"np.{ufunc.__name__} has no counterpart in a step; ejk has "
                 + ", ".join(sorted(_functions.BY_NUMPY_NAME)))
        return function(*inputs)

    def __array_function__(self, function, types, arguments, options):
        from . import _functions
        own = {"where": _functions.where, "sum": _functions.sum, "max": _functions.max,
               "amax": _functions.max, "clip": _functions.clip}.get(function.__name__)
        if own is None:
            fail(f"np.{function.__name__} has no counterpart in a step")
        return own(*arguments, **options)

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        from . import _functions
        name = getattr(function, "__name__", str(function))
        own = {**_functions.BY_NUMPY_NAME, **{n: getattr(_functions, n) for n in _functions.NAMES}}
        if name not in own or options:
            fail(f"torch's {name} has no counterpart in a step, which sees vectors and numbers; ejk has "
                 + ", ".join(sorted(_functions.NAMES)))
        return own[name](*map(_decided, arguments))

    def __bool__(self):
        fail("a traced value is neither true nor false: a step cannot branch on it; "
             "use ejk.where(condition, a, b)")

    def __iter__(self):
        fail("a traced value cannot be iterated over or unpacked")

    def __getitem__(self, index):
        fail("single channels cannot be picked in a step; split the tensor before the call")

    def __float__(self):
        fail("a traced value has no number yet; use ejk's or NumPy's functions, not math's")

    def __array__(self, *arguments, **options):
        fail("a traced value has no numbers yet; use ejk's or NumPy's elementwise functions")

    def sum(self):
        return self.trace.reduce("ejk.sum", self)

    def max(self):
        return self.trace.reduce("ejk.max", self)

    def rotate_half(self):
        if self.size is None:
            fail("rotate_half takes a vector, but got a number")
        return self.trace.add("ejk.rotate_half", [self], self.size)

    def __neg__(self):
        return self.trace.elementwise("arith.negf", self)

    def __pos__(self):
        return self

    def __abs__(self):
        return self.trace.elementwise("math.absf", self)


def _operator(op, reverse=False):
    def apply(self, other):
        if not isinstance(other, (Value, int, float)):
            return NotImplemented
        pair = (other, self) if reverse else (self, other)
        return self.trace.elementwise(op, *pair)
    return apply


for _name, _op in {"add": "arith.addf", "sub": "arith.subf", "mul": "arith.mulf",
                   "truediv": "arith.divf", "pow": "math.powf"}.items():
    setattr(Value, f"__{_name}__", _operator(_op))
    setattr(Value, f"__r{_name}__", _operator(_op, reverse=True))
for _name, _predicate in {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}.items():
    setattr(Value, f"__{_name}__", _operator("arith.cmpf " + _predicate))


class State:
    """A matrix of state, [K, V]. Its methods give the state after the operation."""

    def __init__(self, trace, key, value, name=None):
        self.trace, self.key, self.value, self.name = trace, key, value, name

    def decay(self, gate, axis=None):
        """The state times exp(gate): of a number for all, of a vector along `axis`, "key" (its
        rows, the default) or "value" (its columns)."""
        gate = self.trace.value(gate, "the gate")
        if gate.size is None:
            if axis not in (None, "head"):
                fail(f"the gate is one number a head, so it has no axis; got axis={axis!r}")
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

    def _refuse(self, *_):
        fail("a state changes by S.decay(gate) and S.add(key, value), and is read by "
             "S.read(vector); it takes no other arithmetic")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __truediv__ = __rtruediv__ = __matmul__ = __rmatmul__ = __neg__ = __pow__ = _refuse
    __array_ufunc__ = None


class Undecided:
    """A state before its first use, which decides whether it is a matrix, a vector or a number."""

    def __init__(self, trace, index):
        self._trace, self._index = trace, index

    def __getattr__(self, name):
        return getattr(self._trace.decide(self._index, name in ("decay", "add", "read")), name)

    __torch_function__ = Value.__torch_function__

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        return _decided(self).__array_ufunc__(ufunc, method, *map(_decided, inputs), **options)

    def __neg__(self):
        return -_decided(self)

    def __abs__(self):
        return abs(_decided(self))


def _decided(value):
    return value._trace.decide(value._index, False) if isinstance(value, Undecided) else value


def _forward(name):
    def apply(self, other):
        return getattr(_decided(self), name)(_decided(other))
    return apply


for _name in ["add", "sub", "mul", "truediv", "pow"]:
    setattr(Undecided, f"__{_name}__", _forward(f"__{_name}__"))
    setattr(Undecided, f"__r{_name}__", _forward(f"__r{_name}__"))
for _name in ["lt", "le", "gt", "ge"]:
    setattr(Undecided, f"__{_name}__", _forward(f"__{_name}__"))
