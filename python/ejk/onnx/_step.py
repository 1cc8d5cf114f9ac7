"""A step of ONNX's Scan, read as one of a gated linear recurrence.

The step's graph is read with terms in the place of tensors. A term is a number or a vector of a
batch entry and head, a state, or an outer product, and says for each axis of its tensor what the
axis stands for. So a Mul of a state by Exp(g) is a decay, a MatMul of a state with a vector reads
it, and an Add of a column times a row writes it."""

from collections import namedtuple

import numpy as np

from .. import _functions, _values
from .._errors import TraceError
from . import _known, _nodes, _opsets
from ._errors import NodeError, check
from ._text import Fill, Value, grouped

# What an axis stands for: the batch, heads, a vector's channels, a state's rows and columns. None:
# the tensor is constant along it.
BATCH, HEAD, CHANNEL, KEY, VALUE = "batch", "head", "channel", "key", "value"

Axis = namedtuple("Axis", "size role")


class Term(namedtuple("Term", "value axes dtype log", defaults=(None,))):
    """`value` is a traced number or vector, a state, or an `Outer`. `log` is the traced logarithm
    of an exponential: what a state decays by."""

    __slots__ = ()

    @property
    def dims(self):
        return tuple(a.size for a in self.axes)

    def at(self, role):
        """Which axis has this role; None if there is none."""
        return next((i for i, a in enumerate(self.axes) if a.role == role), None)

    @property
    def is_state(self):
        return isinstance(self.value, _values.State)


# A column times a row: a traced vector along KEY and one along VALUE, not yet added to a state.
# Along which of the state's own axes each lies is known by position.
Outer = namedtuple("Outer", "key value")

_UNARY = {"Neg": lambda x: -x, "Abs": _functions.abs, "Exp": _functions.exp, "Log": _functions.log,
          "Sqrt": _functions.sqrt, "Tanh": _functions.tanh, "Erf": _functions.erf,
          "Sigmoid": _functions.sigmoid, "Softplus": _functions.softplus, "Relu": _functions.relu,
          "Reciprocal": _functions.reciprocal, "Sin": _functions.sin, "Cos": _functions.cos,
          "Floor": _functions.floor, "Ceil": _functions.ceil}
_BINARY = {"Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b,
           "Div": lambda a, b: a / b, "Pow": lambda a, b: a ** b, "Max": _functions.maximum,
           "Min": _functions.minimum}
LINEAR = ("a step of a linear recurrence decays its state by a Mul with an Exp, reads it by a "
          "MatMul with a vector, and adds a column times a row to it")


def axes_of(dims, roles):
    return tuple(Axis(d, r) for d, r in zip(dims, roles))


class Step:
    """The nodes of a step, read in order. `terms` is what has a name in it, `outer` what has one
    around it."""

    def __init__(self, onnx, trace, outer, opset):
        self.terms, self._onnx, self._trace, self._outer = {}, onnx, trace, outer
        self._opset = opset
        self._dtypes = _known.element_types(onnx)

    def _known(self, name):
        """A term, an array, or a `Fill`."""
        found = self.terms.get(name, self._outer.get(name))
        check(found is not None, f"its step's input '{name}' is not known")
        check(not isinstance(found, Value), f"its step reads '{name}' from around it; make it an "
              "input over time, or a constant")
        return found

    def node(self, node):
        op = node.op_type
        try:
            attributes = {a.name: self._onnx.helper.get_attribute_value(a) for a in node.attribute}
            inputs = [self._known(n) if n else None for n in node.input]
            attributes, inputs = _opsets.modern(self._onnx, op, attributes, inputs, self._opset)
            if not any(isinstance(x, Term) for x in inputs):
                results = _known.evaluate(self._onnx, node, attributes, inputs, self._opset)
                check(results is not None,
                      "it has no input that changes with time, and is no constant")
            else:
                results = (self._result(op, attributes, inputs),)
        except (NodeError, TraceError) as error:
            raise NodeError(f"its step's {op}" + (f" '{node.name}'" if node.name else "")
                            + f": {error}") from None
        self.terms.update((n, result) for n, result in zip(node.output, results) if n)

    def _result(self, op, attributes, inputs):
        x = inputs[0]
        if op in ("Identity", "Cast", "CastLike"):
            dtype = x.dtype
            if op == "Cast":
                dtype = self._dtypes.get(attributes["to"])
            elif op == "CastLike":
                dtype = (inputs[1].dtype if isinstance(inputs[1], (Term, Fill)) else
                         _known.DTYPES.get(inputs[1].dtype.name))
            check(dtype, "it must cast to float, float16 or bfloat16")
            check(not x.is_state or dtype == "f32", "a state is of float within its step")
            return x._replace(dtype=dtype, log=x.log if dtype == x.dtype else None)
        if op in ("Unsqueeze", "Squeeze", "Transpose", "Reshape", "Expand"):
            given = None
            if len(inputs) > 1 and inputs[1] is not None:
                given = _known.sizes(inputs[1], "its second input")
            return self._arranged(op, attributes, x, given)
        wide = [self._operand(i) for i in inputs]
        if op == "MatMul":
            return self._product(*wide)
        if op in _UNARY:
            check(isinstance(x.value, _values.Value), f"it computes with a state; {LINEAR}")
            return Term(_UNARY[op](x.value), x.axes, "f32", x.value if op == "Exp" else None)
        check(op in _BINARY, f"a step has no {op}; {LINEAR}")
        result = wide[0]
        for other in wide[1:]:
            result = self._binary(op, result, other)
        return result

    def _operand(self, x):
        if isinstance(x, Term):
            check(x.dtype == "f32",
                  f"it computes in {x.dtype}; a step computes in float, so cast before")
            return x
        if isinstance(x, Fill):
            return Term(self._trace.value(x.number, "a number"),
                        axes_of(x.dims, [None] * len(x.dims)), "f32")
        check(isinstance(x, np.ndarray) and x.dtype != object and x.size == 1,
              "a constant of a step must be one float")
        return Term(self._trace.value(float(x.reshape(())), "a number"),
                    axes_of(x.shape, [None] * x.ndim), "f32")

    def _arranged(self, op, attributes, x, given):
        if op == "Transpose":
            order = attributes.get("perm", reversed(range(len(x.axes))))
            return x._replace(axes=tuple(x.axes[a] for a in order))
        if op == "Expand":
            dims = _nodes.joined([x.dims, given])
            lead = (Axis(1, None),) * (len(dims) - len(x.axes))
            check(all(d == a.size or a.role is None for d, a in zip(dims, (*lead, *x.axes))),
                  "it repeats heads or channels of size 1")
            return x._replace(axes=axes_of(dims, [a.role for a in (*lead, *x.axes)]))
        check(given is not None or op == "Squeeze", "it must have its axes or sizes")
        # Roles stay with their axes, also with those of size 1.
        if op == "Unsqueeze":
            dims, rest = _known.unsqueezed(x.dims, given), iter(x.axes)
            at = {a % len(dims) for a in given}
            return x._replace(axes=axes_of(dims, [None if i in at else next(rest).role
                                                  for i in range(len(dims))]))
        if op == "Squeeze":
            _known.squeezed(x.dims, given)
            at = {a % len(x.axes) for a in given or ()}
            return x._replace(axes=tuple(a for i, a in enumerate(x.axes)
                                         if (i not in at if given else a.size != 1)))
        dims = _known.target_of(x.dims, given, not attributes.get("allowzero", 0))
        pairs = grouped(x.dims, dims)
        check(pairs, f"sizes {list(x.dims)} are not known to be {list(dims)} in groups of "
              "neighbours")
        roles = [None] * len(dims)
        for ours, theirs in pairs:
            said = [(a, x.axes[a].role) for a in ours if x.axes[a].role]
            wide = [a for a in theirs if dims[a] != 1] or theirs[:1]
            # Heads may be repeated: [heads, group] in which the group is constant, the heads first.
            repeated = [a for a in ours if x.dims[a] != 1]
            check(not said or len(said) == 1 and len(wide) == 1 and
                  (repeated in ([], [said[0][0]]) or said[0][1] == HEAD
                   and (x.dims[said[0][0]] == 1 or repeated[0] == said[0][0])),
                  f"sizes {list(x.dims)} as {list(dims)} mix heads and channels")
            if said:
                roles[wide[0]] = said[0][1]
        return x._replace(axes=axes_of(dims, roles))

    def _joined(self, a, b):
        """The axes of two terms that are broadcast to each other, aligned at the end."""
        dims = _nodes.joined([a.dims, b.dims])
        axes = []
        for i in range(-len(dims), 0):
            roles = {t.axes[i].role for t in (a, b) if len(t.axes) >= -i} - {None}
            check(len(roles) <= 1 or roles <= {CHANNEL, KEY, VALUE},
                  "it joins an axis of heads with one of channels")
            axes.append(Axis(dims[i], roles))
        return axes

    def _binary(self, op, a, b):
        axes = self._joined(a, b)
        if a.is_state or b.is_state:
            return self._of_state(op, a, b, axes)
        if isinstance(a.value, Outer) or isinstance(b.value, Outer):
            outer, other = (a, b) if isinstance(a.value, Outer) else (b, a)
            check(op == "Mul" and isinstance(other.value, _values.Value)
                  and other.at(CHANNEL) is None,
                  f"it computes with a column times a row; {LINEAR}")
            key, value = outer.value
            return Term(Outer(key * other.value, value),
                        tuple(Axis(x.size, next(iter(x.role), None)) for x in axes), "f32")
        places = [i for i, x in enumerate(axes) if CHANNEL in x.role]
        if len(places) == 2:
            check(op == "Mul", f"it makes a matrix of a column and a row by {op}; {LINEAR}")
            column = a if a.at(CHANNEL) is not None and (
                a.at(CHANNEL) - len(a.axes) == places[0] - len(axes)) else b
            row = b if column is a else a
            roles = {places[0]: KEY, places[1]: VALUE}
            return Term(Outer(column.value, row.value),
                        tuple(Axis(x.size, roles.get(i, next(iter(x.role), None)))
                              for i, x in enumerate(axes)), "f32")
        return Term(_BINARY[op](a.value, b.value),
                    tuple(Axis(x.size, next(iter(x.role), None)) for x in axes), "f32")

    def _of_state(self, op, a, b, axes):
        state, other = (a, b) if a.is_state else (b, a)
        check(not other.is_state, f"it computes with two states; {LINEAR}")
        check([x.size for x in axes] == list(state.dims),
              f"a state of sizes {list(state.dims)} becomes {[x.size for x in axes]}")
        lag = len(state.axes) - len(other.axes)

        def along(index):
            """The state's role where the other term has its axis `index`."""
            return None if index is None else state.axes[index + lag].role
        if op == "Mul":
            check(other.log is not None, "a state is multiplied by what is no Exp; " + LINEAR)
            axis = along(other.at(CHANNEL))
            check(axis in (None, KEY, VALUE),
                  "the decay's channels must be keys or values of the state")
            return state._replace(value=state.value.decay(other.log, axis))
        check(op in ("Add", "Sub") and isinstance(other.value, Outer)
              and (op == "Add" or other is b),
              f"it computes with a state; {LINEAR}")
        key, value = other.value
        first = along(other.at(KEY))
        if first == VALUE:
            key, value = value, key
        check({first, along(other.at(VALUE))} <= {KEY, VALUE, None}, LINEAR)
        return state._replace(value=state.value.add(-key if op == "Sub" else key, value))

    def _product(self, a, b):
        check(len(a.axes) >= 2 and len(b.axes) >= 2, "its operands must be matrices")
        check(a.axes[-1].size == b.axes[-2].size, "its operands' sizes do not agree")
        lead = self._joined(Term(None, a.axes[:-2], ""), Term(None, b.axes[:-2], ""))
        lead = tuple(Axis(x.size, next(iter(x.role), None)) for x in lead)
        plain = [isinstance(t.value, _values.Value) for t in (a, b)]
        if a.is_state and plain[1] and b.axes[-1].size == 1:
            role, left = a.axes[-1].role, a.axes[-2]
            read = a.value.read(b.value, role)
            return Term(read, (*lead, Axis(left.size, CHANNEL), Axis(1, None)), "f32")
        if b.is_state and plain[0] and a.axes[-2].size == 1:
            role, left = b.axes[-2].role, b.axes[-1]
            read = b.value.read(a.value, role)
            return Term(read, (*lead, Axis(1, None), Axis(left.size, CHANNEL)), "f32")
        check(all(plain), f"it multiplies matrices; {LINEAR}")
        if a.axes[-1].size == 1:
            return Term(Outer(a.value, b.value), (*lead, Axis(a.axes[-2].size, KEY),
                                                  Axis(b.axes[-1].size, VALUE)), "f32")
        check(a.axes[-2].size == b.axes[-1].size == 1, f"it multiplies matrices; {LINEAR}")
        return Term((a.value * b.value).sum(), (*lead, Axis(1, None), Axis(1, None)), "f32")

    def end(self, name, state):
        """A state after the step."""
        term = self._known(name)
        check(isinstance(term, Term), f"its state '{name}' is a constant after a step")
        if len(state.dims) == 4:
            check(term.is_state and [a.role for a in term.axes] == [BATCH, HEAD, KEY, VALUE]
                  and term.dims[1:] == tuple(state.dims[1:]),
                  f"its state '{name}' is no state after a step; {LINEAR}")
            return term
        check(isinstance(term.value, _values.Value) and len(term.axes) == len(state.dims)
              and term.dims == tuple(state.dims) and term.axes[1].role == HEAD
              and term.dtype == "f32",
              f"its state '{name}' has other sizes after a step")
        if len(state.dims) == 3 and term.value.size is None:
            return term._replace(value=self._trace.vector(term.value, _values.Size(state.dims[2]),
                                                          "the state"))
        return term

    def output(self, name, B, heads):
        term = self._known(name)
        check(isinstance(term, Term) and isinstance(term.value, _values.Value),
              f"its output '{name}' must be a number or a vector a head")
        roles = [a.role for a in term.axes]
        check(roles[:2] == [BATCH, HEAD] and term.dims[:2] == (B, heads)
              and all(a.size == 1 or a.role == CHANNEL for a in term.axes[2:]),
              f"its output '{name}' must be [{B}, {heads}, channels], but is {list(term.dims)}")
        return term
