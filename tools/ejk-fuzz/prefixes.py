"""What follows a row, or runs beside its sequence, does not change the bits of its outputs.

A case is run on its inputs and on others that differ behind one row of each sequence, or are that much
shorter, or hold one entry of the batch. docs/accuracy.md says for each schedule which rows have the same bits.
"""
import numpy as np

CHUNK = 64  # rows of the longest one
GATES = ("g", "gk", "gv")


def rows_of(case):
    """The inputs that have a row for each step."""
    return [name for name, (_, x) in case.inputs.items()
            if x.ndim > 2 and name != "h0" and x.shape[1] == case.T]


def depends_on_chunks(case, schedule):
    """Whether only rows of chunks that stayed whole keep their bits: where gates per channel are summed, or in
    reverse those of heads, from a chunk's first row in memory."""
    least = 3 if case.reverse else 4
    return schedule != "step" and any(np.ndim(case.options.get(name)) >= least for name in GATES)


class Prefixes:
    """Where the sequences of a case are cut: behind row `last` of each, in the order of steps."""

    def __init__(self, case, schedule, rng):
        self.case, self.schedule, self.rng = case, schedule, rng
        self.coarse = depends_on_chunks(case, schedule)
        ends = [0, case.T] if case.cu is None else case.cu
        entries = range(case.B)
        spans = [(b, int(first), int(end)) for b in entries for first, end in zip(ends, ends[1:]) if end > first]
        self.spans = [(b, first, end, int(rng.integers(first, end))) for b, first, end in spans]

    def kept(self, span):
        """The rows of a sequence whose bits stay, when those behind `last` differ."""
        _, first, end, last = span
        if self.case.reverse:
            return slice(first + -(-(last - first) // CHUNK) * CHUNK if self.coarse else last, end)
        return slice(first, first + (last + 1 - first) // CHUNK * CHUNK if self.coarse else last + 1)

    def followed_by_others(self):
        """Inputs with other rows behind."""
        inputs = {name: (kind, x.copy()) for name, (kind, x) in self.case.inputs.items()}
        for name in rows_of(self.case):
            x = inputs[name][1]
            for b, first, end, last in self.spans:
                rows = np.arange(first, last) if self.case.reverse else np.arange(last + 1, end)
                x[b, rows] = self.other(name, x[b, self.rng.permutation(rows)])
        return inputs

    def other(self, name, rows):
        if name in GATES:
            how = self.rng.integers(4)
            with np.errstate(over="ignore"):  # to -inf
                return [rows, rows * rows.dtype.type(30), np.zeros_like(rows), np.full_like(rows, -np.inf)][how]
        return -rows if name in ("q", "v") else rows

    def cut(self, device):
        """(inputs that end with one row, the rows that are compared); None where sizes say how long they are, or
        where one row is left, for which a GPU has a kernel that sums in an order of its own."""
        case = self.case
        if case.cu is not None or case.reverse or "T" not in case.dynamic:
            return None
        last = self.spans[0][3] if self.spans else 0
        if last == 0 and (device == "cuda" or not self.spans):
            return None
        inputs = {name: (kind, x[:, :last + 1] if name in rows_of(case) else x)
                  for name, (kind, x) in case.inputs.items()}
        return inputs, slice(0, (last + 1) // CHUNK * CHUNK if self.coarse else last + 1)

    def alone(self):
        """The inputs of the batch's last entry; None where sizes say how many there are."""
        case = self.case
        if case.cu is not None or case.B < 2 or not {"B", "N"} <= case.dynamic:
            return None
        per_entry = [*rows_of(case), "h0"]
        return {name: (kind, x[-1:] if name in per_entry or (x.ndim == 2 and x.shape[0] == case.N) else x)
                for name, (kind, x) in case.inputs.items()}


def differing(a, b):
    """How many rows [rows, ...] have other bits."""
    if not a.size:
        return 0
    a, b = (np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}").reshape(len(x), -1) for x in (a, b))
    return int((a != b).any(axis=1).sum())


def check(case, schedule, device, rng, run):
    """(how many rows were compared, what is wrong). `run(inputs)` gives the outputs o [B, T, H, V], by `schedule` on
    `device`."""
    prefixes = Prefixes(case, schedule, rng)
    whole, compared, wrong = run(case.inputs), 0, []

    def compare(found, wanted, what):
        nonlocal compared
        compared += len(found)
        if count := differing(found, wanted):
            wrong.append(f"{count} of {len(found)} rows have other bits {what}")

    other = run(prefixes.followed_by_others())
    for span in prefixes.spans:
        rows, b = prefixes.kept(span), span[0]
        compare(other[b, rows], whole[b, rows], f"where others follow row {span[3]} of entry {b}")
    if cut := prefixes.cut(device):
        inputs, rows = cut
        shorter = run(inputs)
        for b in range(case.B):
            compare(shorter[b, rows], whole[b, rows], f"in a batch of {shorter.shape[1]} rows")
    if inputs := prefixes.alone():
        compare(run(inputs)[0], whole[-1], "where the batch's last entry is alone")
    return compared, wrong
