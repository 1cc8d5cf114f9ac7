"""A model read node by node, and the function that it becomes."""

import os
import re

from .. import _arrays, _inspect
from .._errors import EjkError
from . import _convolution, _known, _nodes, _opsets, _scan
from ._errors import NodeError, check
from ._text import Fill, Value, Writer

_STANDARD = ("", "ai.onnx")
_OWN = (*_STANDARD, "com.microsoft")


class OnnxError(EjkError, ValueError):
    """A model holds what ejk does not compile; the message names the node."""


def compile(model, name="model"):
    """A function of an ONNX model: an `onnx.ModelProto`, its bytes, or a file's name.

    Nodes may be LinearAttention and CausalConvWithState (of ONNX and of com.microsoft), a Scan
    whose step is a linear recurrence, elementwise ones, those that arrange elements (Transpose,
    Reshape, Squeeze, Unsqueeze, Expand), and what is known of constants and sizes alone. Anything
    else is an `ejk.onnx.OnnxError` that names the node. `name` is the entry's name in a package."""
    import onnx
    if not isinstance(model, onnx.ModelProto):
        model = _loaded(onnx, model)
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise OnnxError(f"the entry's name must be letters, digits and _, but is '{name}'")
    return OnnxFunction(*_Importer(onnx, model, name).run())


def _loaded(onnx, model):
    """The ModelProto of a file's name, or of a file's bytes."""
    in_memory = isinstance(model, (bytes, bytearray))
    what = f"'{os.fspath(model)}'" if isinstance(model, (str, os.PathLike)) else "what was given"
    try:
        loaded = onnx.load_model_from_string(bytes(model)) if in_memory else onnx.load(model)
    except OSError:
        raise
    except Exception as error:  # protobuf's, of a kind for each format, and the checker's
        raise OnnxError(f"no ONNX model can be read from {what}: {' '.join(str(error).split())}") from None
    if not loaded.HasField("graph"):  # as of a file without bytes
        raise OnnxError(f"no ONNX model can be read from {what}: there is no graph")
    return loaded


class OnnxFunction:
    """What `ejk.onnx.compile` gives.

    It is called with the model's inputs, in order or by name, as NumPy, torch or JAX arrays, and
    gives its outputs, a tuple if there are several. `inputs` and `outputs` are their names, and
    `weights` the initializers' arrays by name: a package takes them as inputs, after the model's
    own."""

    def __init__(self, text, name, inputs, outputs, weights):
        self._function = _inspect.compile(text, name)
        self.inputs, self.outputs, self.weights = inputs, outputs, weights
        self._copies = {}  # of the weights, on other devices than a CPU

    def __repr__(self):
        return f"<ejk ONNX model ({', '.join(self.inputs)}) -> ({', '.join(self.outputs)})>"

    def __call__(self, /, *tensors, **named):
        given = dict(zip(self.inputs, tensors))
        for own, tensor in named.items():
            if own not in self.inputs or own in given:
                raise OnnxError(f"the model has no further input '{own}'; it takes "
                                + ", ".join(self.inputs))
            given[own] = tensor
        missing = [n for n in self.inputs if n not in given]
        if missing or len(tensors) > len(self.inputs):
            raise OnnxError(f"the model takes {', '.join(self.inputs)}, but "
                            + (f"{', '.join(missing)} is missing" if missing else
                               f"got {len(tensors)} tensors"))
        tensors = [given[n] for n in self.inputs]
        return self._function(*tensors, *self._weights_beside(tensors))

    def _weights_beside(self, tensors):
        """The weights, where the tensors of a call are."""
        door, weights = _arrays.common_door(zip(self.inputs, tensors)), list(self.weights.values())
        if not weights or not hasattr(door, "beside"):
            return weights
        return door.beside(weights, next(t for t in tensors if _arrays.door_of(t) is door), self._copies)

    def mlir(self):
        """The function as MLIR."""
        return self._function.mlir()

    def package(self, path, target=None):
        """Writes a kernel package, for the C API and `ejk-launch`."""
        self._function.package(path, target)


class _Importer:
    """Reads nodes in order. What has a name is a tensor (`Value`), a tensor of one number (`Fill`),
    or an array that is known here."""

    def __init__(self, onnx, model, name):
        self._onnx, self._model, self._name = onnx, model, name
        self._w = Writer()
        self._values, self._weights, self._arguments = {}, {}, 0
        self._dtypes = _known.element_types(onnx)
        self._opset = next((i.version for i in model.opset_import if i.domain in _STANDARD), 27)

    def run(self):
        graph, w = self._model.graph, self._w
        try:
            stored = _known.initializers(self._onnx, graph)
        except NodeError as error:
            raise OnnxError(str(error)) from None
        inputs = [i for i in graph.input if i.name not in stored]
        arguments = [self._argument(i.name, i.type.tensor_type) for i in inputs]
        self._values.update((n, _known.stored(array)) for n, array in stored.items())
        for index, node in enumerate(graph.node):
            try:
                self._node(node)
            except NodeError as error:
                raise OnnxError(f"node {index}, {node.op_type}"
                                + (f" '{node.name}'" if node.name else "") + f": {error}") from None
        if not graph.output:
            raise OnnxError("the model has no output")
        results = []
        for output in graph.output:
            value = self._values.get(output.name)
            if isinstance(value, Fill):
                value = w.filled(value)
            if not isinstance(value, Value):
                raise OnnxError(f"the output '{output.name}' is no result of a node")
            if value.name.startswith("%a") or value in [r for _, r in results]:
                value = _nodes.elementwise(w, _nodes.UNARY["Identity"], [value], value.dtype)
            results.append((output.name, value))
        arguments += [v for _, v in self._weights.values()]
        names = [i.name for i in inputs] + list(self._weights)
        taken = ", ".join(f"{v.name}: {v.type} {{ejk.name = {_quoted(n)}}}"
                          for v, n in zip(arguments, names))
        given = ", ".join(f"{v.type} {{ejk.name = {_quoted(n)}}}" for n, v in results)
        lines = "\n  ".join([*w.lines, "return " + ", ".join(v.name for _, v in results) + " : "
                             + ", ".join(v.type for _, v in results)])
        text = f"func.func @{self._name}({taken})\n    -> ({given}) {{\n  {lines}\n}}\n"
        return (text, self._name, [i.name for i in inputs], [n for n, _ in results],
                {n: a for n, (a, _) in self._weights.items()})

    def _new_argument(self, dtype, dims):
        self._arguments += 1
        return Value(f"%a{self._arguments - 1}", dtype, dims)

    def _argument(self, name, kind):
        if kind.elem_type not in self._dtypes:
            raise OnnxError(f"the input '{name}' must be float, float16 or bfloat16, but is of "
                            f"type {self._onnx.TensorProto.DataType.Name(kind.elem_type)}")
        if not kind.HasField("shape"):
            raise OnnxError(f"the input '{name}' must have a shape")
        dims = tuple(d.dim_value if d.HasField("dim_value") else d.dim_param or f"{name}.{i}"
                     for i, d in enumerate(kind.shape.dim))
        self._values[name] = self._w.knows(self._new_argument(self._dtypes[kind.elem_type], dims))
        return self._values[name]

    def _operand(self, name):
        """A tensor, or a number everywhere: a constant of one element becomes a number of the
        program, one of more an input of it."""
        value = self._values[name] if name else None
        if not isinstance(value, _known.np.ndarray):
            return value
        dtype = _known.DTYPES.get(value.dtype.name)
        check(dtype, f"its input '{name}' must be of floats, but is of integers")
        if value.size == 1:
            return Fill(float(value.astype("float32").reshape(())), dtype, value.shape)
        if name not in self._weights:
            self._weights[name] = value, self._new_argument(dtype, value.shape)
        return self._weights[name][1]

    def _tensor(self, name):
        value = self._operand(name)
        return self._w.filled(value) if isinstance(value, Fill) else value

    def _node(self, node):
        standard = node.domain in _STANDARD
        attributes = {a.name: self._onnx.helper.get_attribute_value(a) for a in node.attribute}
        for own in node.input:
            check(not own or own in self._values, f"its input '{own}' is not known")
        inputs = [self._values[own] if own else None for own in node.input]
        results = None
        if standard:
            attributes, inputs = _opsets.modern(self._onnx, node.op_type, attributes, inputs, self._opset)
            results = _known.evaluate(self._onnx, node, attributes, inputs, self._opset)
        if results is None:
            results = self._results(node, standard, attributes, inputs)
        for own, result in zip(node.output, results):
            if own:
                self._values[own] = result

    def _results(self, node, standard, attributes, inputs):
        w, op = self._w, node.op_type
        if op in ("LinearAttention", "CausalConvWithState") and node.domain in _OWN:
            given = [self._tensor(n) for n in node.input]
            if op == "LinearAttention":
                return _nodes.linear_attention(w, given, attributes, node.domain == "com.microsoft")
            return _convolution.causal_convolution(w, given, attributes)
        if op == "Scan" and standard:
            return _scan.scan(self._onnx, w, attributes, [self._tensor(n) for n in node.input],
                              self._values, self._opset)
        if op == "Concat" and standard:
            return (_convolution.concat(attributes, [self._operand(n) for n in node.input]),)
        if op == "Conv" and standard:
            x, weight, bias = (*(self._tensor(n) for n in node.input), None)[:3]
            return (_convolution.convolution(w, x, weight, bias, attributes),)
        if op == "Slice" and standard:
            check(isinstance(inputs[0], _convolution.Joined),
                  "of tensors, ejk slices the Concat before a Conv alone, for its last columns")
            given = [None if x is None else _known.sizes(x, "its range") for x in inputs[1:]]
            return (_convolution.ending(inputs[0], *(*given, None, None)[:4]),)
        if op == "Split" and standard:
            given = None
            if len(inputs) > 1 and inputs[1] is not None:
                given = _known.sizes(inputs[1], "its parts' sizes")
            return _nodes.split(w, self._tensor(node.input[0]), attributes, given, len(node.output))
        if op in _ARRANGING and standard:
            return (self._arranged(op, attributes, self._tensor(node.input[0]), inputs),)
        if standard and (op in _nodes.UNARY or op in _nodes.BINARY or op in ("Cast", "CastLike")):
            kept = node.input[:1] if op == "CastLike" else node.input
            operands = [self._operand(n) for n in kept]
            check(operands and all(operands), "it must have all of its inputs")
            if all(isinstance(x, Fill) for x in operands):
                operands[0] = w.filled(operands[0])
            dtype = operands[0].dtype
            check(all(x.dtype == dtype for x in operands), "its inputs must be of one type")
            if op == "Cast":
                dtype = self._dtypes.get(attributes.get("to"))
                check(dtype, "it must cast to float, float16 or bfloat16")
            if op == "CastLike":
                dtype = self._operand(node.input[1]).dtype
            if op in ("Cast", "CastLike") and dtype == operands[0].dtype:
                return (operands[0],)
            if op not in _nodes.BINARY:
                function = _nodes.UNARY.get(op, _nodes.UNARY["Identity"])
                return (_nodes.elementwise(w, function, operands[:1], dtype),)
            check(len(operands) >= 2, "it must have two inputs")
            result = operands[0]
            for other in operands[1:]:
                result = _nodes.elementwise(w, _nodes.BINARY[op], [result, other], dtype)
            return (result,)
        full = f"{node.domain}.{op}" if node.domain else op
        raise NodeError(
            f"ejk does not compile {full}; it knows LinearAttention, CausalConvWithState, Scan, "
            "Conv, Concat, Slice, Split, Constant, Shape, "
            + ", ".join(sorted([*_ARRANGING, "Cast", "CastLike", *_nodes.UNARY, *_nodes.BINARY])))

    def _arranged(self, op, attributes, x, inputs):
        """A node that gives the same elements in another arrangement."""
        w, sizes = self._w, _known.sizes
        if op == "Transpose":
            return w.permuted(x, list(attributes.get("perm", reversed(range(len(x.dims))))))
        given = None
        if len(inputs) > 1 and inputs[1] is not None:
            given = sizes(inputs[1], "its second input")
        check(given is not None or op == "Squeeze",
              f"it must have its axes or sizes, as {op} of opset {self._opset} takes them")
        if op == "Expand":
            return _nodes.broadcast(w, x, given)
        if op == "Reshape":
            dims = _known.target_of(x.dims, given, not attributes.get("allowzero", 0))
        elif op == "Unsqueeze":
            dims = _known.unsqueezed(x.dims, given)
        else:
            dims = _known.squeezed(x.dims, given)
        result = w.reshaped(x, dims)
        check(result, f"its sizes {list(dims)} are not known to have as many elements as "
              f"{list(x.dims)}, in groups of neighbours")
        return result


_ARRANGING = ("Transpose", "Reshape", "Squeeze", "Unsqueeze", "Expand")


def _quoted(name):
    return '"' + "".join(c if c.isprintable() and c not in '"\\' else "".join(
        f"\\{b:02X}" for b in c.encode()) for c in name) + '"'
