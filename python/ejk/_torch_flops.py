"""What torch.utils.flop_counter.FlopCounterMode counts of a call.

As for torch's own operators, these are the multiplications and additions of matmuls: 2·K·V for each
key and value that a step adds to a state, and for each read of one. A derivative has two for each
of them, and computes states again where its forward has not saved them."""

import re
import sys

import torch

from ._program import _evaluate

_UPDATE = re.compile(r"(%[\w.]+) = (ejk\.outer_add|ejk\.read) ([^:]*): vector<(\d+)x(\d+)x")
_OP = re.compile(r"(%[\w.]+) = [\w.]+ ([^:]*):")
# The additions and reads of a step of the dialect's named ops.
_NAMED = {"ejk.gla": (1, 1), "ejk.recurrent": (1, 1), "ejk.lightning_attn": (1, 1),
          "ejk.delta_rule": (1, 2)}


def _of_step(text):
    """Flops of (additions, reads, reads by queries, of which a head has several)."""
    name = next((n for n in _NAMED if n + " " in text), None)
    if name:
        key, value = re.search(r"-> tensor<[^>]*>, tensor<\?x\?x(\d+)x(\d+)xf32>", text).groups()
        each = 2 * int(key) * int(value)
        added, read = _NAMED[name]
        return each * added, each * (read - 1), each
    given = re.search(r"queries\(([^)]*)\)", text)
    of_queries = set(re.findall(r"(%[\w.]+) =", given[1])) if given else set()
    added = read = by_queries = 0
    for line in text.split("\n"):
        op = _OP.search(line)
        if op and of_queries & set(re.findall(r"%[\w.]+", op[2])):
            of_queries.add(op[1])
        found = _UPDATE.search(line)
        if found and found[2] == "ejk.outer_add":
            added += 2 * int(found[4]) * int(found[5])
        elif found and found[1] in of_queries:
            by_queries += 2 * int(found[4]) * int(found[5])
        elif found:
            read += 2 * int(found[4]) * int(found[5])
    return added, read, by_queries


def count(find, program, entry, shapes):
    """The flops of an entry on inputs of these shapes; `find` gives an Entry by its name."""
    kind, _, wrt = entry.partition(":")
    # Saved states stand behind the other results, and behind the other inputs.
    found = find(program, {"forward": "0", "backward": "1:" + wrt}.get(kind, entry))
    sizes = found.symbols([tuple(s) for s in shapes])
    steps = sizes.get("B", 1) * sizes["T"]
    heads = _evaluate(find(program, "0").outputs[-1]["shape"][1], sizes)
    query_heads = _evaluate(find(program, "0").outputs[0]["shape"][2], sizes)
    added, read, by_queries = _of_step(found.program.text)
    added *= steps * heads
    forward = added + steps * (heads * read + query_heads * by_queries)
    once = 2 * forward + (0 if kind == "backward" else added)
    return {"0": forward, "forward": forward, "2": 2 * once}.get(kind, once)


def register(find):
    """Tells torch's counters, those in use included."""
    counter = sys.modules.get("torch.utils.flop_counter")
    if counter is None:
        return
    operator = torch.ops.ejk.call

    def formula(program, entry, shapes, *_, **named):
        return count(find, program, entry, shapes)
    if operator not in counter.flop_registry:
        counter.register_flop_formula(operator)(formula)
    for mode in torch.utils._python_dispatch._get_current_dispatch_mode_stack():
        if isinstance(mode, counter._FlopCounterMode):
            mode.counter.flop_registry.setdefault(operator, counter.flop_registry[operator])
