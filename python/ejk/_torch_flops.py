"""What torch.utils.flop_counter.FlopCounterMode counts of a call.

As for torch's own operators, these are the multiplications and additions of matmuls: 2·K·V for each
key and value that a step adds to a state, and for each read of one. A derivative has two for each
of them, and computes states again where its forward has not saved them."""

import re
import sys

import torch

from . import _pools

_UPDATE = re.compile(r"(%[\w.]+) = (ejk\.outer_add|ejk\.read) ([^:]*): vector<(\d+)x(\d+)x")
_OP = re.compile(r"(%[\w.]+) = [\w.]+ ([^:]*):")
# The additions and reads of a step of the dialect's named ops.
_NAMES = {"gla": (1, 1), "recurrent": (1, 1), "lightning_attn": (1, 1), "delta_rule": (1, 2)}
_NAMED = re.compile(r"ejk\.(" + "|".join(_NAMES) + r")\b([\w ]*)(%[\w.]+), (%[\w.]+), (%[\w.]+)\b.*?"
                    r": (tensor<[^>]*>), (tensor<[^>]*>), (tensor<[^>]*>)\s*->"
                    r"\s*tensor<[^>]*>, tensor<[^>]*?(\d+)x(\d+)xf32>", re.S)
_FIRST = r"\(\s*%[\w.]+ = (%[\w.]+) : (tensor<[^>]*>)"
# Ops whose result has its source's first sizes.
_SAME = r" = tensor\.(?:cast|expand_shape) (%[\w.]+)\b.*?: (tensor<[^>]*>)"


def _close(text, start, pair):
    """Where the bracket that opens at `start` closes."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == pair[0]) - (text[at] == pair[1])
        if not depth:
            return at
    return len(text)


class _Function:
    """The text of a program's function, called on tensors of some shapes."""

    def __init__(self, program, shapes):
        text = program.text
        start = re.search(rf"func\.func\s+(?:public\s+)?@{program.name}\s*\(", text).end() - 1
        end = _close(text, start, "()")
        self.body = text[end:].partition("func.func")[0]
        self._shapes = dict(zip(re.findall(r"(%[\w.$-]+)\s*:", text[start:end]), shapes))

    def sizes(self, operand, kind):
        """The first three sizes of a tensor, None for what is not known."""
        if operand.partition(".shifted.")[0] in self._shapes:
            return tuple(self._shapes[operand.partition(".shifted.")[0]][:3])
        own = [int(n) if n.isdigit() else None for n in kind[len("tensor<"):].split("x")[:3]]
        source = re.search(re.escape(operand) + _SAME, self.body) if None in own else None
        if source:
            own = [n or m for n, m in zip(own, self.sizes(*source.groups()))]
        return tuple(own)


def _of_step(text, of_queries):
    """Flops of a step's (additions, reads, reads by queries, of which a head has several)."""
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


def _of_scans(function):
    """Flops of (additions, reads) of each scan."""
    for start in re.finditer(r"\bejk\.scan\b", function.body):
        opened = re.compile(r"\{[ \t]*\n").search(function.body, start.end())
        first = re.compile(r"sequences" + _FIRST).search(function.body, start.end())
        if not opened or not first:
            continue
        head = function.body[start.end():opened.start()]
        *steps, heads = function.sizes(*first.groups())
        queries, query_heads, of_queries = re.search(r"queries" + _FIRST, head), 0, set()
        if queries:
            query_heads = function.sizes(*queries.groups())[2]
            of_queries = set(re.findall(r"(%[\w.]+) =", head[queries.start():_close(head, queries.start() + 7, "()")]))
        if None in (*steps, heads, query_heads):
            continue
        step = function.body[opened.start():_close(function.body, opened.start(), "{}")]
        added, read, by_queries = _of_step(step, of_queries)
        steps = steps[0] * steps[1]
        yield steps * heads * added, steps * (heads * read + query_heads * by_queries)


def _of_named(function):
    """Flops of (additions, reads) of each of the dialect's named ops."""
    for op in _NAMED.finditer(function.body):
        q, k, v = (function.sizes(op[3 + i], op[6 + i]) for i in range(3))
        if None in (*q, *k, *v):
            continue
        # Values may have more heads than queries, whose states are then theirs.
        most = max(q[2], v[2])
        heads = v[2] if "shared_state" in op[2] else most
        (added, read), each = _NAMES[op[1]], 2 * int(op[9]) * int(op[10]) * q[0] * q[1]
        yield each * added * heads, each * ((read - 1) * heads + most)


def count(find, program, entry, shapes):
    """The flops of an entry on inputs of these shapes; `find` gives an Entry by its name."""
    kind = entry.partition(":")[0]
    # Cotangents and saved states stand behind the function's own inputs.
    function = _Function(find(program, "0").program, shapes)
    found = [*_of_scans(function), *_of_named(function)]
    added, forward = sum(a for a, _ in found), sum(a + r for a, r in found)
    once = 2 * forward + (0 if kind == "backward" else added)
    return {"0": forward, "forward": forward, "2": 2 * once}.get(kind, once)


def register(find):
    """Tells torch's counters, those in use included."""
    counter = sys.modules.get("torch.utils.flop_counter")
    if counter is None:
        return

    def call(program, entry, shapes, *_, **named):
        return count(find, program, entry, shapes)

    def call_in_pools(program, entry, shapes, written, *_, **named):
        own = find(program, entry)
        return count(find, program, entry, _pools.placed(own, shapes, written[-len(own.replaced):]))
    for operator, formula in ((torch.ops.ejk.call, call), (torch.ops.ejk.call_in_pools, call_in_pools)):
        if operator not in counter.flop_registry:
            counter.register_flop_formula(operator)(formula)
        for mode in torch.utils._python_dispatch._get_current_dispatch_mode_stack():
            if isinstance(mode, counter._FlopCounterMode):
                mode.counter.flop_registry.setdefault(operator, counter.flop_registry[operator])
