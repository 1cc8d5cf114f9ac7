"""Nodes whose results are known when a model is read: of constants, and of tensors' sizes.

What is known is a NumPy array. One of integers has dtype object, and may hold names of sizes beside
numbers: the sizes of a tensor [batch, time, 8] are ["batch", "time", 8]."""

import numpy as np

from .. import _numpy
from ._errors import NodeError, check
from ._text import Fill, Value

class Sum(str):
    """A size that is another, known at a call only, plus a number."""

    def __new__(cls, base, more):
        made = super().__new__(cls, f"{base} + {more}")
        made.base, made.more = base, more
        return made


def plus(size, more):
    """A size plus a number."""
    if isinstance(size, int):
        return size + more
    base, own = (size.base, size.more) if isinstance(size, Sum) else (size, 0)
    return Sum(base, own + more) if own + more else base


DTYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
# Nodes that only arrange elements; NumPy arranges names as well.
_ARRANGED = {
    "Identity": lambda x, _: x[0],
    "Concat": lambda x, a: np.concatenate(x, a["axis"]),
    "Gather": lambda x, a: np.take(x[0], x[1].astype(np.int64), a.get("axis", 0)),
    "Unsqueeze": lambda x, a: np.expand_dims(x[0], tuple(x[1].astype(np.int64))),
    "Squeeze": lambda x, a: np.squeeze(x[0], tuple(x[1].astype(np.int64)) if len(x) > 1 and x[1] is not None
                                       else None)}
_SHIFTS = {"Add": lambda a, b: plus(*((a, b) if isinstance(b, int) else (b, a))),
           "Sub": lambda a, b: plus(a, -b)}
_NOT_CONSTANT = ("Random", "Bernoulli", "Multinomial", "Dropout")


def element_types(onnx):
    """The types of floats by ONNX's numbers."""
    kinds = onnx.TensorProto
    return {kinds.FLOAT: "f32", kinds.FLOAT16: "f16", kinds.BFLOAT16: "bf16"}


def stored(array):
    """An array of a model as it is kept here."""
    array = np.asarray(array)
    return array.astype(object) if array.dtype.kind in "iu" else array


def named(x):
    """Whether names of sizes are among the elements of what is known."""
    return x.dtype == object and any(isinstance(n, str) for n in x.reshape(-1))


def sizes(x, what):
    """A list of sizes that is known, as a tuple."""
    check(isinstance(x, np.ndarray) and x.dtype == object and x.ndim == 1,
          f"{what} must be known when the model is read: a constant, or made of tensors' sizes")
    return tuple(x)


def target_of(old, wanted, keep_zero=True):
    """The sizes that a Reshape makes of `old`: 0 is the size at its place, −1 what remains."""
    new = [old[i] if n == 0 and keep_zero and i < len(old) else n for i, n in enumerate(wanted)]
    if -1 not in new:
        return tuple(new)
    rest = list(old)
    number = 1
    for n in new:
        if n == -1:
            continue
        if n in rest and not isinstance(n, int):
            rest.remove(n)
        else:
            check(isinstance(n, int), f"size '{n}' is none of {list(old)}")
            number *= n
    names = [n for n in rest if not isinstance(n, int)]
    product = int(np.prod([n for n in rest if isinstance(n, int)], dtype=np.int64))
    check(number > 0 and product % number == 0
          and (not names or len(names) == 1 and product == number),
          f"the size -1 of {list(wanted)} is not known from {list(old)}")
    new[new.index(-1)] = names[0] if names else product // number
    return tuple(new)


def unsqueezed(dims, axes):
    """Sizes with ones at `axes` of the result."""
    rank = len(dims) + len(axes)
    at = sorted(a % rank for a in axes)
    check(len(set(at)) == len(axes), f"its axes {list(axes)} are twice the same")
    rest = iter(dims)
    return tuple(1 if i in at else next(rest) for i in range(rank))


def squeezed(dims, axes):
    """Sizes without the ones at `axes`, or without any."""
    at = ([i for i, n in enumerate(dims) if n == 1] if axes is None else
          [a % len(dims) for a in axes])
    check(all(dims[i] == 1 for i in at), f"its axes {at} of sizes {list(dims)} must have size 1")
    return tuple(n for i, n in enumerate(dims) if i not in at)


def evaluate(onnx, node, attributes, inputs, opset):
    """The results of a node of ONNX's own domain, a tuple; None if they are not known when the model is read.
    `attributes` and `inputs` are those of the newest opset, and `node` is the model's own, of `opset`."""
    known = _result(onnx, node, attributes, inputs)
    if known is not None:
        return (known,)
    if (not all(x is None or isinstance(x, np.ndarray) for x in inputs) or node.op_type.startswith(_NOT_CONSTANT)
            or any(a.type == a.GRAPH for a in node.attribute)):
        return None
    return _computed(onnx, node, inputs, opset)


def _result(onnx, node, attributes, inputs):
    """The result of a node that computes with sizes or with one number everywhere; None of another one."""
    op = node.op_type
    if op == "Shape" and inputs[0] is not None:
        x = inputs[0]
        dims = x.shape if isinstance(x, np.ndarray) else x.dims
        return np.array(list(dims), object)[attributes.get("start", 0):attributes.get("end")]
    if op in ("Cast", "CastLike", "Identity") and isinstance(inputs[0], Fill):
        to = inputs[0].dtype
        if op == "Cast":
            to = element_types(onnx).get(attributes["to"])
        elif op == "CastLike" and isinstance(inputs[1], (Value, Fill)):
            to = inputs[1].dtype
        elif op == "CastLike":
            to = DTYPES.get(inputs[1].dtype.name)
        return inputs[0]._replace(number=_rounded(inputs[0].number, to), dtype=to) if to else None
    if not all(x is None or isinstance(x, np.ndarray) for x in inputs):
        return None
    if op == "ConstantOfShape":
        dims = sizes(inputs[0], "its shape")
        value = attributes.get("value")
        value = np.float32(0) if value is None else onnx.numpy_helper.to_array(value).reshape(())
        if value.dtype.name in DTYPES:
            return Fill(float(value), DTYPES[value.dtype.name], dims)
    if any(x is not None and named(x) for x in inputs):
        shifted = op in _SHIFTS and inputs[0].size == inputs[1].size == 1 and (
            isinstance(inputs[1].item(), int) or op == "Add" and isinstance(inputs[0].item(), int))
        if shifted:
            x = np.empty(np.broadcast_shapes(inputs[0].shape, inputs[1].shape), object)
            x.fill(_SHIFTS[op](inputs[0].item(), inputs[1].item()))
            return x
        given = ", ".join(str(n) for x in inputs if x is not None for n in x.reshape(-1))
        check(op in _ARRANGED, f"it computes with a size that is known at a call only, in {given}; "
              "give the model a number for this size")
        return _ARRANGED[op](inputs, attributes)
    return None


def _rounded(number, dtype):
    """A number as an element of this type holds it."""
    with np.errstate(over="ignore"):
        return float(np.float32(number).astype(_numpy._own_dtype(dtype)))


def _computed(onnx, node, inputs, opset):
    """A node of constants, by ONNX's own evaluator."""
    from onnx.reference import ReferenceEvaluator
    helper = onnx.helper
    given = {n: x.astype(np.int64) if x.dtype == object else x
             for n, x in zip(node.input, inputs) if x is not None}
    graph = helper.make_graph(
        [node], "constants",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
         for n, x in given.items()],
        [onnx.ValueInfoProto(name=n) for n in node.output if n])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    try:
        results = iter(ReferenceEvaluator(model).run(None, given))
    except NotImplementedError:
        return None
    except Exception as error:  # its own, of many kinds
        raise NodeError(f"ONNX's evaluator does not compute {node.op_type} of opset {opset} on these constants: "
                        f"{error}") from None
    return tuple(stored(next(results)) if n else None for n in node.output)


def initializers(onnx, graph):
    """A graph's constants by name."""
    found = {}
    for tensor in (*graph.initializer, *(t.values for t in graph.sparse_initializer)):
        try:
            found[tensor.name] = onnx.numpy_helper.to_array(tensor)
        except (ValueError, TypeError) as error:
            raise NodeError(f"the initializer '{tensor.name}' is damaged: {error}") from None
    for tensor in graph.sparse_initializer:
        found[tensor.values.name] = _dense(onnx, tensor, found[tensor.values.name])
    return found


def _dense(onnx, tensor, values):
    dense = np.zeros(tuple(tensor.dims), values.dtype)
    at = onnx.numpy_helper.to_array(tensor.indices)
    if at.ndim == 1:
        dense.reshape(-1)[at] = values
    else:
        dense[tuple(at.T)] = values
    return dense
