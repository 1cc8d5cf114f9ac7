"""What torch.onnx.export makes of a call: a node LinearAttention of com.microsoft, where it fits."""

import re
import sys

import torch

from . import _recurrence
from ._errors import EjkError
from ._program import by_key


def is_exporting():
    return "torch.onnx._internal.exporter" in sys.modules and torch.onnx.is_in_onnx_export()


# torch.compile calls this when it traces the caller, and takes its result as a constant.
is_exporting._dynamo_marked_constant = True


def _named_op(program):
    """(gate's name, beta's name, scale) of a program that is one op of the dialect; else None."""
    found = re.search(r"= (?:ejk\.gla|ejk\.recurrent)((?: \w+)*) %q, %k, %v(.*) \{(.*)\}\n",
                      program.text)
    if not found or "reverse" in found[1]:
        return None
    operands = [n for n in re.findall(r"(\w+)\(%", found[2]) if n != "initial_state"]
    if operands not in ([], ["g"], ["gk"]):
        return None
    scale = re.search(r"softmax_scale = (\S+)", found[3])
    return (*operands, None)[0], None, float(scale[1]) if scale else None


def _delta_rule(program):
    """The same of one that `ejk.ops` has traced of its delta rule."""
    for recurrence in list(_recurrence._recurrences.values()):
        if not recurrence._identity.startswith("ejk.ops._delta_rule:") or recurrence._reverse:
            continue
        for ((arguments, _, _, offsets, pools), _), (key, *_) in list(recurrence._programs.items()):
            if key == program.key and not offsets and not pools:
                given = dict(zip(recurrence._names, arguments))
                if given["lower_bound"][1] is not None:
                    return None
                return None if given["g"][0] == "constant" else "g", "beta", float(given["scale"][1])
    return None


def _fit(key):
    program = by_key(key)
    return _named_op(program) or _delta_rule(program)


_fit._dynamo_marked_constant = True


def call(key, entry, tensors):
    """The results of `entry`, a program's function, as those of a node."""
    found = _fit(key)
    if found is None or found[2] == 0.0 or torch.float64 in [t.dtype for t in tensors]:
        raise EjkError(
            f"torch.onnx.export: ONNX's LinearAttention does not compute '{entry.name}'; it fits "
            "linear_attn, simple_gla, gla, recurrent with one gate per head or per key channel, "
            "delta_rule, gated_delta_rule and kda of ejk.ops, forward in time, without cu_seqlens, not in float64")
    gate, beta, scale = found
    named = {t["name"]: x for t, x in zip(entry.inputs, tensors)}
    q, v = named["q"], named["v"]
    shapes = entry.output_shapes(tuple(tuple(t.shape) for t in tensors))
    heads, state_heads = int(shapes[0][2]), int(shapes[1][1])

    def rows(name, count):
        """[B, T, heads · channels], with as many heads as `count`."""
        x = named.get(name)
        if x is None:
            return None
        if x.shape[2] != count:
            x = x.repeat_interleave(count // int(x.shape[2]), 2)
        x = x if x.dim() == 3 else x.flatten(2)
        return x if same else x.float()
    used = [n for n in ("q", "k", "v", gate, beta) if n]
    same = all(named[n].dtype == q.dtype for n in used)  # one type is all that the node takes
    state = named.get("initial_state")
    if state is None and q.dtype != torch.float32:
        state = q.new_zeros(shapes[1], dtype=torch.float32)  # so that the final one is float32
    rule = ("gated_" if gate else "") + "delta" if beta else "gated" if gate else "linear"
    attributes = {"q_num_heads": heads, "kv_num_heads": state_heads, "update_rule": rule}
    if scale is not None:
        attributes["scale"] = scale
    inputs = [rows("q", heads), rows("k", state_heads), rows("v", state_heads), state,
              rows(gate, state_heads), rows(beta, state_heads)]
    while inputs[-1] is None:
        inputs.pop()
    channels = int(v.shape[3])
    o, final = torch.onnx.ops.symbolic_multi_out(
        "com.microsoft::LinearAttention", inputs, attributes,
        dtypes=[q.dtype if same else torch.float32, torch.float32],
        shapes=[[*q.shape[:2], heads * channels], shapes[1]], version=1)
    return [o.unflatten(2, (heads, channels)).to(q.dtype), final]
