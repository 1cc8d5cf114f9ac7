"""Elementwise functions for steps, under NumPy's names.

Each takes traced values and Python numbers. `np.exp(g)` and `ejk.exp(g)` are the same."""

import math as _math

from . import _values
from ._values import Value, fail


def _trace_of(arguments, name):
    for argument in arguments:
        argument = _values._decided(argument)
        if isinstance(argument, Value):
            return argument.trace
    fail(f"ejk.{name} is for the function of a recurrence, whose values are traced; "
         "use your array library's own outside of it")


def _function(name, op, count, doc):
    """A function that is an op, or one of a trace and of operands."""
    def apply(*arguments):
        if len(arguments) != count:
            fail(f"{name} takes {count} argument{'s' * (count > 1)}, but got {len(arguments)}")
        trace = _trace_of(arguments, name)
        return op(trace, *arguments) if callable(op) else trace.elementwise(op, *arguments)
    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = doc
    return apply


def _arctan2(trace, y, x):
    # At (0, 0) the angle is one of constants with the operands' signs, so that the gradient is 0 and no NaN.
    at_zero = logical_and(*(trace.elementwise("arith.cmpf oeq", v, 0.0) for v in (y, x)))
    y, x = (where(at_zero, trace.elementwise("math.copysign", size, v), v) for size, v in ((0.0, y), (1.0, x)))
    return trace.elementwise("math.atan2", y, x)


def _but_nan(op):
    """The op of two operands, or where one is NaN the other. As `op` does, equal operands share a gradient."""
    def apply(trace, a, b):
        known = [where(trace.elementwise("arith.cmpf oeq", v, v), v, other) for v, other in ((a, b), (b, a))]
        return trace.elementwise(op, *known)
    return apply


_UNARY = {
    "exp": "math.exp", "exp2": "math.exp2", "expm1": "math.expm1", "log": "math.log",
    "log2": "math.log2", "log10": "math.log10", "log1p": "math.log1p", "sqrt": "math.sqrt",
    "rsqrt": "math.rsqrt", "cbrt": "math.cbrt", "sin": "math.sin", "cos": "math.cos",
    "tan": "math.tan", "arcsin": "math.asin", "arccos": "math.acos", "arctan": "math.atan",
    "sinh": "math.sinh", "cosh": "math.cosh", "tanh": "math.tanh", "arcsinh": "math.asinh",
    "arccosh": "math.acosh", "arctanh": "math.atanh", "erf": "math.erf", "erfc": "math.erfc",
    "abs": "math.absf", "negative": "arith.negf", "floor": "math.floor", "ceil": "math.ceil",
    "trunc": "math.trunc", "rint": "math.roundeven"}
_BINARY = {
    "add": "arith.addf", "subtract": "arith.subf", "multiply": "arith.mulf",
    "divide": "arith.divf", "power": "math.powf", "arctan2": _arctan2,
    "copysign": "math.copysign", "maximum": "arith.maximumf", "minimum": "arith.minimumf",
    "fmax": _but_nan("arith.maximumf"), "fmin": _but_nan("arith.minimumf"), "less": "arith.cmpf olt",
    "less_equal": "arith.cmpf ole", "greater": "arith.cmpf ogt",
    "greater_equal": "arith.cmpf oge", "equal": "arith.cmpf oeq", "not_equal": "arith.cmpf une"}

for _name, _op in _UNARY.items():
    globals()[_name] = _function(_name, _op, 1, f"np.{_name}, elementwise.")
for _name, _op in _BINARY.items():
    globals()[_name] = _function(_name, _op, 2, f"np.{_name}, elementwise.")


def where(condition, a, b):
    """`a` where `condition` holds, else `b`; both are computed."""
    trace = _trace_of((condition, a, b), "where")
    condition, *values = [_values._decided(v) for v in (condition, a, b)]
    if type(condition).__name__ in ("bool", "bool_"):
        return trace.value(values[not condition], "an operand")
    if not (isinstance(condition, Value) and condition.boolean):
        fail("where takes a comparison, such as x > 0, as its condition")
    values = trace._alike([condition, *[trace.value(v, "an operand") for v in values]])
    return trace.add("arith.select", values, values[0].size)


def logical_and(a, b):
    """Whether both comparisons hold: `a & b`."""
    return _trace_of((a, b), "logical_and").logic("and", a, b)


def logical_or(a, b):
    """Whether one of two comparisons holds: `a | b`."""
    return _trace_of((a, b), "logical_or").logic("or", a, b)


def logical_xor(a, b):
    """Whether one of two comparisons holds and the other does not: `a ^ b`."""
    return _trace_of((a, b), "logical_xor").logic("xor", a, b)


def logical_not(a):
    """Whether the comparison does not hold: `~a`."""
    return _trace_of((a,), "logical_not").logic("not", a)


def clip(x, low, high):
    """`x`, but at least `low` and at most `high`. At a bound the gradient is `x`'s."""
    return _trace_of((x, low, high), "clip").elementwise("math.clampf", x, low, high)


def square(x):
    """x·x."""
    return x * x


def reciprocal(x):
    """1/x."""
    return 1.0 / x


def _minus_abs(x, name):
    """−|x|, with a slope of −1 at 0, and whether x < 0."""
    below = _trace_of((x,), name).elementwise("arith.cmpf olt", x, 0.0)
    return where(below, x, -x), below


def sigmoid(x):
    """1/(1 + exp(−x)), within some ulp for every x."""
    size, below = _minus_abs(x, "sigmoid")
    e = exp(size)
    return where(below, e, 1.0) / (1.0 + e)


def softplus(x):
    """log(1 + exp(x)), without overflow."""
    size, below = _minus_abs(x, "softplus")
    return where(below, 0.0, x) + log1p(exp(size))


def log_sigmoid(x):
    """log(sigmoid(x)): a log gate from a number of any sign."""
    return -softplus(-x)


def silu(x):
    """x·sigmoid(x)."""
    return x * sigmoid(x)


def relu(x):
    """max(x, 0), whose slope at 0 is 0."""
    return where(_trace_of((x,), "relu").elementwise("arith.cmpf ole", x, 0.0), 0.0, x)


def logaddexp(a, b):
    """log(exp(a) + exp(b)), without overflow."""
    d = a - b
    # Equal infinities have no difference; where one is NaN, the result is.
    d = where(equal(a, b), where(equal(d, d), d, 0.0), d)
    size, below = _minus_abs(d, "logaddexp")
    return where(below, b, a) + log1p(exp(size))


def sum(x, axis=None):
    """The sum of a vector's channels, a number."""
    return _trace_of((x,), "sum").reduce("ejk.sum", x, axis)


def max(x, axis=None):
    """The largest of a vector's channels, a number."""
    return _trace_of((x,), "max").reduce("ejk.max", x, axis)


def rotate_half(x):
    """(−second half, first half) of a vector, for rotary position embeddings."""
    return _trace_of((x,), "rotate_half") and x.rotate_half()


def shifted(x, steps, initial=None):
    """The row that `x`, a tensor over time, has `steps` steps earlier: `x.shifted(steps)`."""
    return _trace_of((x,), "shifted").shifted(x, steps, initial)


def last_rows(x, count, initial=None):
    """The last `count` rows of `x`, a tensor over time, as an output: `x.last_rows(count)`."""
    return _trace_of((x,), "last_rows").last_rows(x, count, initial)


def step_index(like):
    """The position of this step in its sequence, from 0, as a number; `like` is any traced
    value."""
    return _trace_of((like,), "step_index").add("ejk.step_index", [], None)


def head_index(like):
    """The query head of this step, 0 to H−1, as a number; `like` is any traced value."""
    return _trace_of((like,), "head_index").add("ejk.head_index", [], None)


def num_heads(like):
    """The number of query heads, as a number; `like` is any traced value."""
    return _trace_of((like,), "num_heads").add("ejk.num_heads", [], None)


BY_NUMPY_NAME = {name: globals()[name] for name in [*_UNARY, *_BINARY, "square", "reciprocal",
                                                    "logaddexp", "logical_and", "logical_or",
                                                    "logical_xor", "logical_not", "clip"]}
BY_NUMPY_NAME.update(absolute=globals()["abs"], fabs=globals()["abs"],
                     float_power=globals()["power"], true_divide=globals()["divide"])
PI = _math.pi
NAMES = [*_UNARY, *_BINARY, "where", "logical_and", "logical_or", "logical_xor", "logical_not", "clip", "square", "reciprocal", "sigmoid", "softplus",
         "log_sigmoid", "silu", "relu", "logaddexp", "sum", "max", "rotate_half", "shifted", "last_rows", "step_index",
         "head_index", "num_heads"]
