"""The text of a trace: one function of MLIR with one `ejk.scan`."""

import math
import unicodedata

from . import _pools, _values
from ._trace import Argument, code_of, fail_at, run
from ._values import LastRows, State


def number_text(value):
    """A float as MLIR reads it: with a point, or the bits of what has none."""
    value = float(value)
    if math.isinf(value):
        return "0x7F800000" if value > 0 else "0xFF800000"
    if math.isnan(value):
        return "0x7FC00000"
    return f"{value:.17e}"


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


def body_of(op, places):
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


def text_of(function, spec, name, places=False):
    """The MLIR of `function` for these arguments, with `places` with the user's lines; how many outputs
    it has; and the names of the arguments that are rows before the first ones of others."""
    trace, states, outputs = run(function, spec)
    for index, output in enumerate(outputs):
        if isinstance(output, State):
            fail_at(function,
                     f"output {index + 1} is a matrix of state; states are returned first")
    if not states and all(isinstance(output, LastRows) for output in outputs):
        fail_at(function, "returns nothing of a step, but last rows alone: return a value of each row, too, as in "
                "'return x, x.last_rows(3)', or take the rows of the tensor outside of the function")
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
    pools = _pools.PoolText(spec, state_types) if spec.pools else None
    taken = ["cu_seqlens", *state_names, *(pools.taken if pools else [])]
    ssa = dict(zip([i for i, _ in arguments], _names([a.name for _, a in arguments], taken)))

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
    body = widened + [body_of(op, places) for op in trace.ops] + lines + [yields]
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
    return text, len(outputs), tuple(a.name for i, a in arguments if shifts.is_halo(i))


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
    """A name in MLIR for each parameter, none of those `taken`. The trace's own have a point."""
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
    code = code_of(function)
    if not code:
        return ""
    file = code.co_filename.replace("\\", "\\\\").replace('"', '\\"')
    return f' loc("{file}":{code.co_firstlineno}:1)'
