"""Which dimensions of a program's tensors may be divided over devices: batch entries, which never
meet, and heads, which meet only where they share a key, a value or a parameter."""

from ._program import _evaluate

# Programs in which a head's number has a meaning, which it would lose on another device.
_NUMBERED_HEADS = ("ejk.head_index", "ejk.num_heads", "ejk.lightning_attn")


def head_symbols(entry):
    """The symbols of the manifest that count heads: H, and what divides it."""
    return {e for t in entry.inputs for e in t["shape"] if isinstance(e, str) and e[0] == "H"}


def is_by_entry(entry, shapes, size=None):
    """Whether a dimension of `size` in the manifest has as much for each entry of the batch: it is
    B, or the number of saved states where that is a multiple of B for every B."""
    if not isinstance(size, list):
        return size == "B"
    symbols = entry.symbols(shapes)
    many = 1 << 20
    one, all_of_them = (_evaluate(size, {**symbols, "B": b}) for b in (1, many))
    return "B" in symbols and one is not None and all_of_them == many * one


def divides(entry, shapes):
    """Whether the batch, and whether the heads, may be divided."""
    batch = entry.order > 0 or all(any(is_by_entry(entry, shapes, e) for e in t["shape"])
                                   for t in entry.outputs)
    heads = not any(op in entry.program.text for op in _NUMBERED_HEADS) and (
        entry.order > 0 or all(any(isinstance(e, str) and e[0] == "H" for e in t["shape"])
                               for t in entry.outputs))
    return batch, heads


def sizes_of(entry, shapes):
    """{symbol: size}, from the inputs' shapes."""
    found = {}
    for tensor, shape in zip(entry.inputs, shapes):
        for e, size in zip(tensor["shape"], shape):
            if isinstance(e, str):
                found.setdefault(e, size)
    return found
