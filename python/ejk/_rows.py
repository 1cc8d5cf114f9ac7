"""Rows of other steps: which a trace takes of its tensors over time, and their text."""

from operator import index as integer

from ._values import LastRows, Value, _decided, fail


class Rows:
    """The tensors over time of a trace, and the rows of other steps that it takes of them."""

    def __init__(self):
        self._arguments = {}  # by the name of a row
        self._used, self._halos = set(), {}  # rows that ops use; the halo of a tensor, by index
        self.shifts = {}  # (index of a tensor, steps): the shifted row
        self.counts = {}  # of a tensor: how many rows before its first some step may need

    def add(self, index, argument, row):
        self._arguments[row.name] = (index, argument)

    def check_used(self, value):
        """Notes that an op uses `value`, which is then no halo."""
        found = self._arguments.get(value.name)
        if found is None:
            return
        index, argument = found
        if self.is_halo(index):
            fail(f"'{argument.name}' has the rows before the first step, which 'shifted' reads: "
                 "a step cannot use it itself")
        self._used.add(index)

    def is_halo(self, index):
        return any(halo is not None and halo[0] == index for halo in self._halos.values())

    def shifted(self, trace, given, steps, initial):
        index, argument = self._source(trace, given, "shifted")
        steps = _count(steps, "shifted takes a number of steps")
        if steps < 0:
            fail(f"shifted takes earlier rows, of 0 steps or more, but got {steps}; a recurrence "
                 "with reverse=True takes the later ones")
        self._note(trace, index, argument, steps, initial)
        if steps == 0:
            return given
        if (index, steps) not in self.shifts:
            name = f"%x.{index}.{steps}" + ("" if argument.dtype == "f32" else "f")
            self.shifts[index, steps] = Value(trace, given.size, name=name)
        return self.shifts[index, steps]

    def last(self, trace, given, count, initial):
        index, argument = self._source(trace, given, "last_rows")
        count = _count(count, "last_rows takes a number of rows")
        if count < 1:
            fail(f"last_rows takes 1 row or more, but got {count}")
        self._note(trace, index, argument, count, initial)
        return LastRows(trace, index, count)

    def _source(self, trace, given, what):
        given = _decided(given)
        if isinstance(given, Value) and given.trace is trace and given.name in self._arguments:
            index, argument = self._arguments[given.name]
            if argument.kind != "parameter" and not self.is_halo(index):
                self._used.add(index)
                return index, argument
        fail(f"{what} takes a row of a tensor over time as the step gets it. For a function f of "
             f"such rows, write f(x.shifted(n)) in the place of f(x).shifted(n); what depends on "
             "the state is kept as a state of its own")

    def _note(self, trace, index, argument, count, initial):
        """Takes `count` rows before the first into account, and where they come from."""
        halo = None
        if initial is not None:
            initial = _decided(initial)
            found = (self._arguments.get(initial.name)
                     if isinstance(initial, Value) and initial.trace is trace else None)
            if not found or found[1].kind == "parameter" or found[0] in self._used:
                fail("initial takes an argument of the step, [N, R, H', C], that the step uses for "
                     "nothing else")
            halo = found
            if (halo[1].dtype, halo[1].channels, halo[1].rank) != (argument.dtype, argument.channels,
                                                                   argument.rank):
                own, wanted = (f"{a.dtype} with {a.channels or 'no'} channels" for a in (halo[1], argument))
                fail(f"'{halo[1].name}', the rows before the first of '{argument.name}', must have "
                     f"its element type and its channels, {wanted}, but is {own}")
        known = self._halos.setdefault(index, halo)
        if (known and known[0]) != (halo and halo[0]):
            fail(f"'{argument.name}' has one kind of rows before its first: give 'initial' to "
                 "each of its shifted and last_rows, or to none")
        self.counts[index] = max(self.counts.get(index, 0), count)

    # The text.

    def halo_type(self, index):
        """The type of tensor `index`, which is a halo, or None where it is none."""
        for of, halo in self._halos.items():
            if halo is not None and halo[0] == index:
                argument = halo[1]
                channels = f"x{argument.channels}" if argument.channels else ""
                return f"tensor<?x{self.counts[of]}x?{channels}x{argument.dtype}>"
        return None

    def _operands(self, index, ssa, offsets):
        text = ""
        halo = self._halos.get(index)
        if halo is not None:
            text += f" halo(%{ssa[halo[0]]} : {self.halo_type(halo[0])})"
        if offsets:
            text += f" cu_seqlens(%cu_seqlens : tensor<?x{offsets}>)"
        return text

    def shift_texts(self, ssa, type_of, spec):
        """The ops that shift tensors, before the scan."""
        return [f"%{ssa[index]}.shifted.{steps} = ejk.shift %{ssa[index]} by {-steps if spec.reverse else steps}"
                f"{self._operands(index, ssa, spec.offsets)} : {type_of(index)}"
                for index, steps in self.shifts]

    def last_text(self, name, rows, ssa, type_of, spec):
        """The op of an output that is the last rows of a tensor, and the output's type."""
        index, argument = rows.index, spec.arguments[rows.index]
        if self._halos.get(index) is not None and rows.count != self.counts[index]:
            fail(f"'{argument.name}' needs {self.counts[index]} rows before its first, so that many "
                 f"of its last rows are to be taken, but last_rows got {rows.count}")
        channels = f"x{argument.channels}" if argument.channels else ""
        result = f"tensor<?x{rows.count}x?{channels}x{argument.dtype}>"
        return (f"{name} = ejk.last_rows {'reverse ' if spec.reverse else ''}%{ssa[index]}"
                f"{self._operands(index, ssa, spec.offsets)} : {type_of(index)} -> {result}", result)


def _count(number, what):
    try:
        return integer(number)
    except TypeError:
        fail(f"{what}, a Python number, but got {type(number).__name__}")
