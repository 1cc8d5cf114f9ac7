"""Nodes of older opsets, read as those of the newest one."""

import numpy as np

from ._errors import check

# By op: the opset since which it has inputs in the place of attributes, and these, in the inputs' order.
_INPUTS = {"Squeeze": (13, ("axes",)), "Unsqueeze": (13, ("axes",)), "Split": (13, ("split",)),
           "Slice": (10, ("starts", "ends", "axes")), "Reshape": (5, ("shape",))}
# Before opset 7, an attribute `axis` says where the second operand's axes lie among the first one's.
_PLACED = ("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less")
# Before opset 13 they go over all axes from `axis` on, as over one. ONNX's evaluator does not.
_OVER_ONE_AXIS = ("Softmax", "LogSoftmax", "Hardmax")


def modern(onnx, op, attributes, inputs, opset):
    """The attributes and inputs that a node of ONNX's own domain has in the newest opset. What was an attribute is
    an array that is known."""
    attributes, inputs = dict(attributes), list(inputs)
    since, names = _INPUTS.get(op, (0, ()))
    given = [n for n in names if n in attributes]
    if given:
        check(opset < since, f"'{given[0]}' is an input of {op} since opset {since}, and the model's opset is {opset}")
        check(len(inputs) == 1, f"'{given[0]}' is an attribute of {op} of opset {opset}, which takes one input")
        inputs += [np.array(attributes.pop(n), object) if n in given else None for n in names]
    check(opset >= 7 or op not in _PLACED or "axis" not in attributes,
          f"{op} of opset {opset} has the attribute 'axis', which ejk does not take; convert the model to opset 7 "
          "or newer")
    check(opset >= 13 or op not in _OVER_ONE_AXIS,
          f"{op} of opset {opset} is another function than the one since opset 13, which alone ejk takes")
    check(opset >= 9 or op != "Scan", f"Scan of opset {opset} has another form than the one since opset 9, which "
          "alone ejk takes")
    if op == "Cast" and isinstance(attributes.get("to"), bytes):  # before opset 6
        attributes["to"] = onnx.TensorProto.DataType.Value(attributes["to"].decode())
    if op == "Concat":
        check("axis" in attributes or opset < 4, "it must have the attribute 'axis'")
        attributes.setdefault("axis", 1)
    return attributes, inputs
