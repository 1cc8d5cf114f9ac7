"""From a recurrence's function to the text of one `ejk.scan`."""

import math
import unicodedata
from collections import namedtuple

from . import _pools, _values
from ._rows import Rows
from ._values import LastRows, Size, State, Undecided, Value, fail, user_place


class Argument(namedtuple("Argument", "name kind dtype rank channels heads", defaults=("",))):
    """A tensor of a call, as far as a program depends on it.

    `kind` is "sequence" or "query" ([B, T, H'] or [B, T, H', C]), or "parameter" ([], [H'] or
    [H', C]); `channels` is C, or 0 where a step sees a number. Arguments with the same `heads` have
    equally many, which need not be so where it is empty."""

    __slots__ = ()

    def type(self):
        return _tensor(["?"] * (self.rank - bool(self.channels))
                       + ([self.channels] if self.channels else []), self.dtype)


class Specialisation(namedtuple("Specialisation",
                               "arguments initial state_shapes offsets reverse pools",
                               defaults=(None,))):
    """All that the text of a program depends on, beside the function itself.

    `arguments` has an Argument or a constant for each parameter of the function, `initial` whether
    each state is given, `state_shapes` the given states' channels, () where nothing is given, and
    `offsets` the element type of cu_seqlens, or "". `pools` are the call's Pools, where states lie in
    some: each state is then given."""

    __slots__ = ()


def _tensor(shape, dtype):
    return f"tensor<{'x'.join([*map(str, shape), dtype])}>"


def number_text(value):
    """A float as MLIR reads it: with a point, or the bits of what has none."""
    value = float(value)
    if math.isinf(value):
        return "0x7F800000" if value > 0 else "0xFF800000"
    if math.isnan(value):
        return "0x7FC00000"
    return f"{value:.17e}"


class _Op:
    def __init__(self, name, operands, result, axis, place):
        self.name, self.operands, self.result = name, operands, result
        self.axis, self.place = axis, place


class Trace:
    """One run of a function on traced values. `ranks[i]` says what is known of state i: "matrix",
    "vector" or "number"."""

    def __init__(self, ranks, state_shapes):
        self.ops, self.names = [], 0
        self.rows = Rows()
        self.states = []
        self.returned_by = None  # the function, once it has returned
        self._ranks, self._shapes = ranks, state_shapes
        for index, shape in enumerate(state_shapes):
            self.states.append(None if ranks[index] is None else self._make(index))

    def _make(self, index):
        shape, name = self._shapes[index], f"%s.{index}"
        kind = self._ranks[index]
        if kind == "matrix":
            key, value = shape or (None, None)
            return State(self, Size(key), Size(value), name)
        if kind == "vector":
            return Value(self, Size(shape[0] if shape else None), name=name)
        return Value(self, None, name=name)

    def decide(self, index, is_matrix):
        """The state `index`, which is used as a matrix or not, from here on."""
        if self.states[index] is None:
            self._ranks[index] = "matrix" if is_matrix else "number"
            self.states[index] = self._make(index)
        return self.states[index]

    def argument(self, index):
        known = self.states[index]
        return Undecided(self, index) if known is None else known

    # Notes.

    def add(self, name, operands, size, axis=None, boolean=False):
        result = Value(self, size, boolean)
        self.ops.append(_Op(name, operands, result, axis, user_place()))
        return result

    def add_state(self, name, state, operands, axis):
        result = State(self, state.key, state.value)
        self.ops.append(_Op(name, [state, *operands], result, axis, user_place()))
        return result

    def value(self, given, what):
        """A Value in f32. A comparison is 1 where it holds, else 0."""
        given = self._checked(given, what)
        if not given.boolean:
            return given
        numbers = [self.add("constant", [n], None) for n in (1.0, 0.0)]
        if given.size is not None:
            numbers = [self._spread(n, given.size) for n in numbers]
        return self.add("arith.select", [given, *numbers], given.size)

    def shifted(self, given, steps, initial):
        """The row of `given` some steps earlier, as a sequence of its own."""
        return self.rows.shifted(self, given, steps, initial)

    def last_rows(self, given, count, initial):
        return self.rows.last(self, given, count, initial)

    def _fail(self, message):
        if self.returned_by is None:
            fail(message)
        raise _values.TraceError(place_of(self.returned_by) + message)

    def _checked(self, given, what):
        given = _values._decided(given)
        if isinstance(given, LastRows):
            self._fail(f"{what} is the last rows of a tensor, which may only be returned as an output")
        if _values.is_number(given):
            try:
                return self.add("constant", [float(given)], None)
            except OverflowError:
                self._fail(f"{what} is a Python number that float64 does not hold")
        if isinstance(given, State):
            self._fail(f"{what} must be a number or a vector, but is a matrix of state")
        if not isinstance(given, Value):
            self._fail(f"{what} must be a traced value or a Python number, but is "
                       f"{type(given).__module__}.{type(given).__qualname__}; pass tensors as arguments"
                       + (", and ask for None with 'is'" if given is None else ""))
        if given.trace is not self:
            self._fail(f"{what} comes from another recurrence, or from an earlier call of this one")
        self.rows.check_used(given)
        return given

    def vector(self, given, size, what):
        given = self.value(given, what)
        if given.size is None:
            return self.add("broadcast", [given], size)
        given.size.unify(size, f"{what} and the state")
        return given

    def elementwise(self, name, *given):
        given = [self._checked(v, "an operand") for v in given]
        if name in ("arith.addf", "arith.subf") and all(v.boolean for v in given):
            fail("two comparisons have no sum or difference; combine them with &, | or ^")
        values = self._alike([self.value(v, "an operand") for v in given])
        return self.add(name, values, values[0].size, boolean=name.startswith("arith.cmpf"))

    def logic(self, name, *given):
        given = [self._checked(v, "an operand") for v in given]
        if not all(v.boolean for v in given):
            fail(f"'{name}' combines comparisons, such as x > 0")
        if name == "not":
            return self.elementwise("arith.cmpf oeq", *given, 0.0)
        values = self._alike(given)
        return self.add(f"arith.{name}i", values, values[0].size, boolean=True)

    def _alike(self, values):
        """The same values, all numbers or all vectors of one size."""
        size = next((v.size for v in values if v.size is not None), None)
        return values if size is None else [self._spread(v, size) for v in values]

    def _spread(self, value, size):
        if value.size is None:
            return self.add("broadcast", [value], size, boolean=value.boolean)
        size.unify(value.size, "the operands")
        return value

    def reduce(self, name, value, axis=None):
        value = self.value(value, "what is reduced")
        if value.size is None:
            fail(f"{name[4:]} takes a vector, but got a number")
        if axis not in (None, 0, -1):
            fail(f"a vector of a step has one axis, 0 or -1; got axis={axis!r}")
        return self.add(name, [value], None)


def _channels(value, op=None):
    """"64x32x" of a matrix, "64x" of a vector, "" of a number."""
    sizes = [value.key, value.value] if isinstance(value, State) else [value.size]
    text = ""
    for size in sizes:
        if size is None:
            continue
        if size.value is None:
            file, line, _ = op.place if op else ("", 0, 0)
            raise _values.TraceError((f"{file}:{line}: " if line else "")
                                     + "the number of channels is not known: no tensor of the "
                                     "call decides it")
        text += f"{size.value}x"
    return text


def type_of(value, op=None):
    channels = _channels(value, op)
    element = "i1" if getattr(value, "boolean", False) else "f32"
    return f"vector<{channels}{element}>" if channels else element


def _body(op, places):
    """The text of one op."""
    result = op.result
    operands = [getattr(o, "name", o) for o in op.operands]
    type_ = type_of(result, op)
    if op.name == "constant":
        text = f"arith.constant {number_text(op.operands[0])} : f32"
    elif op.name == "broadcast":
        text = f"vector.broadcast {operands[0]} : {type_of(op.operands[0], op)} to {type_}"
    elif op.name == "ejk.decay":
        text = (f"ejk.decay {operands[0]} by {operands[1]} along {op.axis} : {type_}, "
                f"{type_of(op.operands[1], op)}")
    elif op.name in ("ejk.outer_add", "ejk.read"):
        along = f" along {op.axis}" if op.axis else ""
        text = (f"{op.name} {', '.join(operands)}{along} : "
                + ", ".join(type_of(o, op) for o in op.operands))
    elif op.name in ("ejk.sum", "ejk.max"):
        text = f"{op.name} {operands[0]} : {type_of(op.operands[0], op)}"
    elif op.name.startswith("arith.cmpf"):
        name, predicate = op.name.split()
        text = f"{name} {predicate}, {', '.join(operands)} : {type_of(op.operands[0], op)}"
    elif op.name == "math.clampf":
        text = f"math.clampf {operands[0]} to [{operands[1]}, {operands[2]}] : {type_}"
    elif op.name == "arith.select":
        condition = type_of(op.operands[0], op)
        text = (f"arith.select {', '.join(operands)} : "
                + (f"{condition}, " if condition != "i1" else "") + type_)
    elif op.name in ("ejk.step_index", "ejk.head_index", "ejk.num_heads"):
        index = result.name + "_i"
        return (f"{index} = {op.name} : index{_loc(op, places)}\n"
                f"    {index}64 = arith.index_cast {index} : index to i64{_loc(op, places)}\n"
                f"    {result.name} = arith.sitofp {index}64 : i64 to f32{_loc(op, places)}")
    else:
        text = f"{op.name} {', '.join(operands)} : {type_}"
    return f"{result.name} = {text}{_loc(op, places)}"


def _loc(op, places):
    file, line, column = op.place
    if not places or not line:
        return ""
    return ' loc("%s":%d:%d)' % (file.replace("\\", "\\\\").replace('"', '\\"'), line, column)


def _call(function, arguments):
    """What a function returns. A library that it calls may wrap a TraceError in an error of its
    own, which would hide the user's line."""
    try:
        return function(*arguments)
    except _values.TraceError:
        raise
    except Exception as error:
        while error := error.__cause__ or error.__context__:
            if isinstance(error, _values.TraceError):
                raise error from None
        raise


def run(function, spec):
    """Traces until the kinds of states no longer change; gives the trace, the states' new values
    and the outputs."""
    count = len(spec.initial)
    ranks = [{0: "number", 1: "vector", 2: "matrix"}[len(shape)] if given else None
             for given, shape in zip(spec.initial, spec.state_shapes)]
    shapes = [tuple(shape) for shape in spec.state_shapes]
    for _ in range(count + 2):
        trace = Trace(ranks, shapes)
        inputs = []
        for index, argument in enumerate(spec.arguments):
            if not isinstance(argument, Argument):
                inputs.append(argument)
                continue
            size = Size(argument.channels) if argument.channels else None
            row = Value(trace, size, name=f"%x.{index}" + ("" if argument.dtype == "f32" else "f"))
            inputs.append(row)
            trace.rows.add(index, argument, row)
        returned = _call(function, [*map(trace.argument, range(count)), *inputs])
        if count == 0 and not isinstance(returned, tuple):
            returned = (returned,)
        if not isinstance(returned, tuple) or len(returned) < count + 1:
            fail_at(function, f"must return {count} new state{'s' * (count > 1)} and at least one "
                     "output, as in 'return S, S.read(q)'" if count else
                     "must return at least one value, as in 'return a * x'")
        trace.returned_by = function
        states = [_values._decided(v) for v in returned[:count]]
        outputs = [trace.value(v, "an output") if not isinstance(v, (State, LastRows)) else v
                   for v in returned[count:]]
        changed = False
        for index, new in enumerate(states):
            old = trace.argument(index)
            if isinstance(old, Undecided):
                old = trace.decide(index, isinstance(new, State))
            if isinstance(new, State) != isinstance(old, State):
                fail_at(function, f"state {index + 1} is a matrix and a number or vector at once")
            if isinstance(old, State):
                new.key.unify(old.key, "the state's keys before and after the step")
                new.value.unify(old.value, "the state's values before and after the step")
                continue
            states[index] = new = trace.value(new, "a new state")
            if old.size is None and new.size is not None:
                if spec.initial[index]:
                    fail_at(function, f"state {index + 1} is a vector after a step, but its "
                             "initial_state is one number a head")
                ranks[index], changed = "vector", True
            elif old.size is not None:
                states[index] = new = trace._spread(new, old.size)
        if not changed:
            return trace, states, outputs
    fail_at(function, "the states' shapes do not settle")


def _code(function):
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return getattr(function, "__code__", None)


def place_of(function):
    """ "file:line: " of a function, to begin a message with."""
    code = _code(function)
    return f"{code.co_filename}:{code.co_firstlineno}: " if code else ""


def fail_at(function, message):
    raise _values.TraceError(f"{place_of(function)}'{function.__name__}' {message}")


def text_of(function, spec, name, places=False):
    """The MLIR of `function` for these arguments, with `places` with the user's lines; and how many
    outputs it has."""
    trace, states, outputs = run(function, spec)
    for index, output in enumerate(outputs):
        if isinstance(output, State):
            fail_at(function,
                     f"output {index + 1} is a matrix of state; states are returned first")
    for number, op in enumerate(trace.ops):
        op.result.name = f"%v.{number}"
    arguments = [(i, a) for i, a in enumerate(spec.arguments) if isinstance(a, Argument)]
    shifts = trace.rows
    sequences = [(i, a) for i, a in arguments if a.kind == "sequence" and not shifts.is_halo(i)]
    queries = [(i, a) for i, a in arguments if a.kind == "query"]
    if not sequences:
        fail_at(function, "needs at least one tensor over time, of rank 3 or 4"
                 + (", that is no query" if queries else ""))
    dtype = next(a.dtype for i, a in arguments if a.kind != "parameter" and not shifts.is_halo(i))
    batch = "1" if spec.offsets else "?"
    rows = str(spec.pools.rows) if spec.pools and spec.pools.rows is not None else "?"

    def tensor(index):
        argument = spec.arguments[index]
        if shifts.is_halo(index):
            return shifts.halo_type(index)
        text = argument.type()
        return text if argument.kind == "parameter" else text.replace("?x?", f"{batch}x{rows}", 1)

    state_types, state_names = [], []
    for index in range(len(states)):
        state = trace.states[index]
        state_types.append(f"tensor<?x?x{_channels(state)}f32>")
        state_names.append("initial_state" if len(states) == 1 else f"initial_state{index}")
    ssa = dict(zip([i for i, _ in arguments],
                   _names([a.name for _, a in arguments], ["cu_seqlens", *state_names])))

    def described(index, argument):
        sizes = []
        if argument.heads and not shifts.is_halo(index):
            sizes = [argument.heads] + [str(argument.channels)] * bool(argument.channels)
            if argument.kind != "parameter":
                sizes = ["B" if batch == "?" else batch, "T" if rows == "?" else rows] + sizes
        return _attributes(ssa[index], sizes)

    inputs = [f"%{ssa[i]}: {tensor(i)}" + described(i, a) for i, a in arguments]
    if not spec.pools:
        inputs += [f"%{n}: {t}" for n, t, given in zip(state_names, state_types, spec.initial)
                   if given]
    if spec.offsets:
        inputs.append(f"%cu_seqlens: tensor<?x{spec.offsets}>")
    pools = _pools.PoolText(spec, state_types) if spec.pools else None
    if pools:
        inputs += pools.inputs
    names = ["o" if i == 0 else f"o{i + 1}" for i in range(len(outputs))]
    names += ["ht" if len(states) == 1 else f"ht{i}" for i in range(len(states))]
    lines, output_types, yielded, around = [], [], [], shifts.shift_texts(ssa, tensor, spec)
    scanned = []  # the results of the scan
    for index, output in enumerate(outputs):
        if isinstance(output, LastRows):
            if spec.pools:
                fail_at(function, f"returns the last rows of '{spec.arguments[output.index].name}', "
                         "which are kept in no pool; call it with initial_state instead")
            text, type_ = shifts.last_text(f"%out.{names[index]}", output, ssa, tensor, spec)
            around.append(text)
            output_types.append(type_)
            continue
        scanned.append((names[index], f"tensor<{batch}x{rows}x?x{_channels(output)}{dtype}>"))
        output_types.append(scanned[-1][1])
        yielded.append((output.name, type_of(output)))
        if dtype != "f32":
            narrow = type_of(output).replace("f32", dtype)
            lines.append(f"%o.{index} = arith.truncf {output.name} : {type_of(output)} to {narrow}")
            yielded[-1] = (f"%o.{index}", narrow)
    result_types = output_types + (pools.types if pools else state_types)
    result_names = [*names[:len(outputs)], *pools.names] if pools else names
    results = ", ".join(f'{t} {{ejk.name = "{n}"}}' for t, n in zip(result_types, result_names))
    widened = []
    for row, a in ([(f"%x.{i}", a) for i, a in arguments if not shifts.is_halo(i)]
                   + [(f"%x.{i}.{n}", spec.arguments[i]) for i, n in shifts.shifts]):
        if a.dtype != "f32":
            narrow, wide = (f"vector<{a.channels}x{d}>" if a.channels else d
                            for d in (a.dtype, "f32"))
            widened.append(f"{row}f = arith.extf {row} : {narrow} to {wide}")
    parameters = [f"%x.{i} = %{ssa[i]} : {a.type()} as "
                  + (f"vector<{a.channels}x{a.dtype}>" if a.channels else a.dtype)
                  for i, a in arguments if a.kind == "parameter"]
    per_row = pools and spec.pools.per_row
    scan = "ejk.scan" + (" reverse" if spec.reverse else "") + (" save_every 1" if per_row else "")
    if spec.offsets:
        scan += f" cu_seqlens(%cu_seqlens : tensor<?x{spec.offsets}>)"

    def over_time(group):
        own = [i for i, _ in group]
        taken = [(f"%x.{i} = %{ssa[i]}", i) for i in own]
        taken += [(f"%x.{i}.{n} = %{ssa[i]}.shifted.{n}", i) for i, n in shifts.shifts if i in own]
        return ", ".join(f"{row} : {tensor(i)}" for row, i in taken)

    scan += f"\n      sequences({over_time(sequences)})"
    if queries:
        scan += f"\n      queries({over_time(queries)})"
    if parameters:
        scan += "\n      parameters(" + ", ".join(parameters) + ")"
    if states:
        scan += "\n      states(" + ", ".join(
            f"%s.{i} = " + (pools.start(i) if pools else
                            f"%{state_names[i]}" if spec.initial[i] else "zero") + f" : {t}"
            for i, t in enumerate(state_types)) + ")"
    yields = "ejk.yield" + (f" states({', '.join(s.name for s in states)} : "
                            f"{', '.join(type_of(s) for s in states)})" if states else "")
    if yielded:
        yields += (f" outputs({', '.join(n for n, _ in yielded)} : "
                   f"{', '.join(t for _, t in yielded)})")
    if per_row:
        yields += (f" saves({', '.join(s.name for s in states)} : "
                   f"{', '.join(type_of(s) for s in states)})")
    body = widened + [_body(op, places) for op in trace.ops] + lines + [yields]
    made = [f"%out.{n}" for n in names] + [f"%saved.{i}" for i in range(len(states)) if per_row]
    place = _place_of(function) if places else ""
    saves = f" saves({', '.join(state_types)})" if per_row else ""
    of_scan = [f"%out.{name}" for name, _ in scanned] + made[len(outputs):]
    before, after, returned = "".join(f"  {text}\n" for text in around), "", made
    if pools:
        before += pools.before()
        after, returned = pools.after(made, output_types)
    text = (f"func.func @{name}({', '.join(inputs)})\n    -> ({results}) {{\n{before}"
            f"  {', '.join(of_scan)} = {scan}\n      -> ({', '.join(t for _, t in scanned)}){saves} {{\n    "
            + "\n    ".join(body) + f"\n  }}{place}\n{after}"
            f"  return {', '.join(returned)} : {', '.join(result_types)}\n}}{place}\n")
    return text, len(outputs)


def ascii_name(name):
    """A Python name in the characters that names of packages have: β is beta."""
    text = ""
    for c in unicodedata.normalize("NFKD", name):
        if c.isascii():
            text += c
        elif not unicodedata.combining(c):
            text += unicodedata.name(c, f"u{ord(c):x}").split()[-1].lower().replace("-", "_")
    return text[:200] or "_"


def _names(names, taken):
    """A name in MLIR for each parameter. The trace's own have a point."""
    found = []
    for name in map(ascii_name, names):
        unique, number = name, 2
        while unique in found or unique in taken:
            unique, number = f"{name}_{number}", number + 1
        found.append(unique)
    return found


def _attributes(name, sizes):
    """Those of an argument: its name where the compiler takes that for a printer's, and its sizes if
    they are named."""
    attributes = []
    if name.startswith("arg") and not name[3:].strip("0123456789"):
        attributes.append(f'ejk.name = "{name}"')
    if sizes:
        attributes.append("ejk.shape = [" + ", ".join(f'"{size}"' for size in sizes) + "]")
    return f" {{{', '.join(attributes)}}}" if attributes else ""


def _place_of(function):
    code = _code(function)
    if not code:
        return ""
    file = code.co_filename.replace("\\", "\\\\").replace('"', '\\"')
    return f' loc("{file}":{code.co_firstlineno}:1)'
