"""A model read node by node, and the function that it becomes."""

import re

from .. import _inspect
from .._errors import EjkError
from . import _nodes
from ._text import Value, Writer

_STANDARD = ("", "ai.onnx")
_OWN = (*_STANDARD, "com.microsoft")


class OnnxError(EjkError, ValueError):
    """A model holds what ejk does not compile; the message names the node."""


def compile(model, name="model"):
    """A function of an ONNX model: an `onnx.ModelProto`, its bytes, or a file's name.

    Nodes may be LinearAttention and CausalConvWithState (of ONNX and of com.microsoft), elementwise
    ones, Transpose, Cast, Identity and Constant. Anything else is an `ejk.onnx.OnnxError` that
    names the node. `name` is the entry's name in a package."""
    import onnx
    if isinstance(model, (bytes, bytearray)):
        model = onnx.load_model_from_string(bytes(model))
    elif not isinstance(model, onnx.ModelProto):
        model = onnx.load(model)
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise OnnxError(f"the entry's name must be letters, digits and _, but is '{name}'")
    return OnnxFunction(*_Importer(onnx, model, name).run())


class OnnxFunction:
    """What `ejk.onnx.compile` gives.

    It is called with the model's inputs, in order or by name, as NumPy, torch or JAX arrays, and
    gives its outputs, a tuple if there are several. `inputs` and `outputs` are their names, and
    `weights` the initializers' arrays by name: a package takes them as inputs, after the model's
    own."""

    def __init__(self, text, name, inputs, outputs, weights):
        self._function = _inspect.compile(text, name)
        self.inputs, self.outputs, self.weights = inputs, outputs, weights

    def __repr__(self):
        return f"<ejk ONNX model ({', '.join(self.inputs)}) -> ({', '.join(self.outputs)})>"

    def __call__(self, *tensors, **named):
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
        return self._function(*[given[n] for n in self.inputs], *self.weights.values())

    def mlir(self):
        """The function as MLIR."""
        return self._function.mlir()

    def package(self, path, target=None):
        """Writes a kernel package, for the C API and `ejk-launch`."""
        self._function.package(path, target)


class _Importer:
    def __init__(self, onnx, model, name):
        self._onnx, self._model, self._name = onnx, model, name
        self._w = Writer()
        self._values, self._weights = {}, {}
        kinds = onnx.TensorProto
        self._dtypes = {kinds.FLOAT: "f32", kinds.FLOAT16: "f16", kinds.BFLOAT16: "bf16"}

    def run(self):
        graph, w = self._model.graph, self._w
        stored = {t.name: self._onnx.numpy_helper.to_array(t) for t in graph.initializer}
        inputs = [i for i in graph.input if i.name not in stored]
        arguments = [self._argument(i.name, i.type.tensor_type) for i in inputs]
        for own, array in stored.items():
            self._constant(own, array)
        for index, node in enumerate(graph.node):
            try:
                self._node(node)
            except _nodes.NodeError as error:
                raise OnnxError(f"node {index}, {node.op_type}"
                                + (f" '{node.name}'" if node.name else "") + f": {error}") from None
        results = []
        for output in graph.output:
            value = self._values.get(output.name)
            if not isinstance(value, Value):
                raise OnnxError(f"the output '{output.name}' is no result of a node")
            if value.name.startswith("%a") or value in [r for _, r in results]:
                value = _nodes.elementwise(w, _nodes.UNARY["Identity"], [value], value.dtype)
            results.append((output.name, value))
        weights = {n: a for n, (a, v) in self._weights.items() if v in self._used}
        arguments += [v for n, (_, v) in self._weights.items() if n in weights]
        names = [i.name for i in inputs] + list(weights)
        taken = ", ".join(f"{v.name}: {v.type} {{ejk.name = {_quoted(n)}}}"
                          for v, n in zip(arguments, names))
        given = ", ".join(f"{v.type} {{ejk.name = {_quoted(n)}}}" for n, v in results)
        lines = "\n  ".join([*w.lines, "return " + ", ".join(v.name for _, v in results) + " : "
                             + ", ".join(v.type for _, v in results)])
        text = f"func.func @{self._name}({taken})\n    -> ({given}) {{\n  {lines}\n}}\n"
        return text, self._name, [i.name for i in inputs], [n for n, _ in results], weights

    _used = property(lambda self: self.__dict__.setdefault("_used_values", []))

    def _argument(self, name, kind):
        if kind.elem_type not in self._dtypes:
            raise OnnxError(f"the input '{name}' must be float, float16 or bfloat16, but is of "
                            f"type {self._onnx.TensorProto.DataType.Name(kind.elem_type)}")
        if not kind.HasField("shape"):
            raise OnnxError(f"the input '{name}' must have a shape")
        dims = tuple(d.dim_value if d.HasField("dim_value") else d.dim_param or f"{name}.{i}"
                     for i, d in enumerate(kind.shape.dim))
        value = Value(f"%a{len(self._values)}", self._dtypes[kind.elem_type], dims)
        self._values[name] = self._w.knows(value)
        return value

    def _constant(self, name, array):
        """One element becomes a number of the program; more are an input of it."""
        import numpy as np
        dtype = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}.get(array.dtype.name)
        if array.size == 1 and dtype:
            self._values[name] = float(np.asarray(array, np.float32).reshape(()))
        elif dtype:
            value = Value(f"%a{len(self._values)}", dtype, tuple(array.shape))
            self._values[name] = value
            self._weights[name] = array, value
        else:
            self._values[name] = array  # for nodes that read it here

    def _node(self, node):
        w, check = self._w, _nodes.check
        attributes = {a.name: self._onnx.helper.get_attribute_value(a) for a in node.attribute}
        inputs = []
        for own in node.input:
            check(not own or own in self._values, f"its input '{own}' is not known")
            inputs.append(self._values[own] if own else None)
        self._used.extend(x for x in inputs if isinstance(x, Value))
        op, standard = node.op_type, node.domain in _STANDARD
        floats = all(x is None or isinstance(x, (Value, float)) for x in inputs)
        tensors = [x for x in inputs if isinstance(x, Value)]
        if op in ("LinearAttention", "CausalConvWithState") and node.domain in _OWN:
            check(floats and not any(isinstance(x, float) for x in inputs),
                  "its inputs must be tensors of floats with more than one element")
            function = {"LinearAttention": _nodes.linear_attention,
                        "CausalConvWithState": _nodes.causal_convolution}[op]
            results = function(w, inputs, attributes)
        elif op == "Constant" and standard:
            check(set(attributes) == {"value"}, "it must have a 'value'")
            self._constant(node.output[0], self._onnx.numpy_helper.to_array(attributes["value"]))
            return
        elif op == "Transpose" and standard:
            check(len(tensors) == 1, "its input must be a tensor")
            order = list(attributes.get("perm", reversed(range(len(tensors[0].dims)))))
            results = (w.permuted(tensors[0], order),)
        elif standard and (op in _nodes.UNARY or op in _nodes.BINARY):
            check(floats and tensors, "its inputs must be tensors of floats, and one of them known "
                  "at a call only")
            dtype = tensors[0].dtype
            check(all(x.dtype == dtype for x in tensors), "its inputs must be of one type")
            if op == "Cast":
                dtype = self._dtypes.get(attributes.get("to"))
                check(dtype, "it must cast to float, float16 or bfloat16")
            if op in _nodes.UNARY:
                results = (_nodes.elementwise(w, _nodes.UNARY[op], inputs[:1], dtype),)
            else:
                result = inputs[0]
                check(len(inputs) >= 2, "it must have two inputs")
                for other in inputs[1:]:
                    result = _nodes.elementwise(w, _nodes.BINARY[op], [result, other], dtype)
                results = (result,)
        else:
            full = f"{node.domain}.{op}" if node.domain else op
            raise _nodes.NodeError(f"ejk does not compile {full}; it knows LinearAttention, "
                                   "CausalConvWithState, Transpose, Constant, "
                                   + ", ".join(sorted([*_nodes.UNARY, *_nodes.BINARY])))
        for own, result in zip(node.output, results):
            if own:
                self._values[own] = result


def _quoted(name):
    return '"' + "".join(c if c.isprintable() and c not in '"\\' else "".join(
        f"\\{b:02X}" for b in c.encode()) for c in name) + '"'
