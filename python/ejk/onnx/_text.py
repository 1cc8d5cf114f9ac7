"""The MLIR of one function, written value by value."""

import math
from collections import namedtuple


class Value(namedtuple("Value", "name dtype dims")):
    """A tensor. A size in `dims` is a number, or the name of one that is known at a call."""

    __slots__ = ()

    @property
    def type(self):
        return tensor_type(self.dims, self.dtype)


def tensor_type(dims, dtype):
    return "tensor<" + "".join(f"{d if isinstance(d, int) else '?'}x" for d in dims) + dtype + ">"


# In the place of a loop: an axis of an operand is read at this place alone.
At = namedtuple("At", "place")


class Fill(namedtuple("Fill", "number dtype dims")):
    """A tensor that is one number everywhere: a constant of one element, or a fill of sizes."""

    __slots__ = ()


def grouped(old, new):
    """How axes of sizes `old` become axes of sizes `new` with the same elements in order: pairs of
    axes' numbers, [(of old, of new)], whose sizes have one product. None if there is no way."""
    def product(dims, axes):
        sizes = [dims[a] for a in axes]
        return (math.prod(s for s in sizes if isinstance(s, int)),
                sorted(s for s in sizes if not isinstance(s, int)))
    pairs, i, j = [], 0, 0
    while i < len(old) and j < len(new):
        ours, theirs = [i], [j]
        i, j = i + 1, j + 1
        while (left := product(old, ours)) != (right := product(new, theirs)):
            if (len(left[1]), left[0]) < (len(right[1]), right[0]) and i < len(old):
                ours.append(i)
                i += 1
            elif j < len(new):
                theirs.append(j)
                j += 1
            else:
                return None
        pairs.append((ours, theirs))
    if not pairs or any(size != 1 for size in (*old[i:], *new[j:])):
        return None
    pairs[-1][0].extend(range(i, len(old)))
    pairs[-1][1].extend(range(j, len(new)))
    return pairs


def _map(count, axes):
    loops = ", ".join(f"d{i}" for i in range(count))
    places = ", ".join(str(i.place) if isinstance(i, At) else f"d{i}" for i in axes)
    return f"affine_map<({loops}) -> ({places})>"


class Writer:
    """Lines of a function, and where each dynamic size can be asked for."""

    def __init__(self):
        self.lines, self._count, self._sizes, self._dims = [], 0, {}, {}
        # Of a value's name: the value that it is a permutation of, and the order.
        self._permuted = {}

    def fresh(self):
        self._count += 1
        return f"%v{self._count}"

    def add(self, text):
        self.lines.append(text)

    def let(self, text):
        name = self.fresh()
        self.add(f"{name} = {text}")
        return name

    def knows(self, value):
        """Dynamic sizes that a value shows for the first time are asked of it."""
        for axis, size in enumerate(value.dims):
            if not isinstance(size, int):
                self._sizes.setdefault(size, (value, axis))
        return value

    def size(self, size):
        if isinstance(size, int):
            return str(size)
        if size not in self._dims:
            value, axis = self._sizes[size]
            index = self.let(f"arith.constant {axis} : index")
            self._dims[size] = self.let(f"tensor.dim {value.name}, {index} : {value.type}")
        return self._dims[size]

    def empty(self, dims, dtype):
        sizes = ", ".join(self.size(d) for d in dims if not isinstance(d, int))
        return self.let(f"tensor.empty({sizes}) : {tensor_type(dims, dtype)}")

    def cast(self, value, dims):
        """The same tensor with other sizes known."""
        new = Value("", value.dtype, tuple(dims))
        if new.type == value.type:
            return Value(value.name, value.dtype, tuple(dims))
        return new._replace(name=self.let(f"tensor.cast {value.name} : {value.type} to {new.type}"))

    def split(self, value, axis, sizes):
        """Axis `axis` as several."""
        dims = (*value.dims[:axis], *sizes, *value.dims[axis + 1:])
        groups, at = [], 0
        for i in range(len(value.dims)):
            count = len(sizes) if i == axis else 1
            groups.append(list(range(at, at + count)))
            at += count
        shape = ", ".join(self.size(d) for d in dims)
        name = self.let(f"tensor.expand_shape {value.name} {groups} output_shape [{shape}] : "
                        f"{value.type} into {tensor_type(dims, value.dtype)}")
        return Value(name, value.dtype, dims)

    def merge(self, value, groups, dims):
        """Groups of axes as one each."""
        name = self.let(f"tensor.collapse_shape {value.name} {groups} : {value.type} into "
                        f"{tensor_type(dims, value.dtype)}")
        return Value(name, value.dtype, tuple(dims))

    def reshaped(self, value, dims):
        """The same elements in order, in other sizes; None where axes do not group into others."""
        dims = tuple(dims)
        if value.dims == dims:
            return value
        pairs = grouped(value.dims, dims) if value.dims and dims else None
        if pairs is None:
            return None
        middle = []
        for ours, theirs in pairs:
            kept = theirs if len(theirs) == 1 else ours
            sizes = [(dims if kept is theirs else value.dims)[a] for a in kept]
            if len(sizes) > 1 and not all(isinstance(s, int) for s in sizes):
                return None
            middle.append(sizes[0] if len(sizes) == 1 else math.prod(sizes))
        if len(pairs) < len(value.dims):
            value = self.merge(value, [ours for ours, _ in pairs], middle)
        for axis in range(len(pairs) - 1, -1, -1):
            theirs = pairs[axis][1]
            if len(theirs) > 1:
                value = self.split(value, axis, tuple(dims[a] for a in theirs))
        return value

    def filled(self, fill):
        """A fill as a tensor."""
        return self.generic(fill.dims, fill.dtype, [], lambda *_: self.constant(fill.number))

    def repeated(self, value, axis, group):
        """The tensor with each head at `axis` `group` times, one copy after the other."""
        if group == 1:
            return value
        dims = (*value.dims[:axis + 1], group, *value.dims[axis + 1:])
        axes = [i + (i > axis) for i in range(len(value.dims))]
        value = self.generic(dims, value.dtype, [(value, axes)], lambda x, _: x[0])
        return self.reshaped(value, (*dims[:axis], dims[axis] * group, *dims[axis + 2:]))

    def first_of_groups(self, value, axis, group):
        """The inverse of `repeated`: of each group of heads at `axis` the first."""
        if group == 1:
            return value
        heads, rank = value.dims[axis] // group, len(value.dims)
        value = self.split(value, axis, (heads, group))
        axes = [i if i <= axis else rank if i == axis + 1 else i - 1 for i in range(rank + 1)]
        return self.generic((*value.dims[:axis + 1], *value.dims[axis + 2:]), value.dtype,
                            [(value, axes)], lambda x, index: self.pick(x[0], index(rank), 0),
                            summed=(group,))

    def pick(self, number, index, wanted):
        """The number where the index is `wanted`, else 0."""
        at = self.let(f"arith.constant {wanted} : index")
        here = self.let(f"arith.cmpi eq, {index}, {at} : index")
        return self.let(f"arith.select {here}, {number}, {self.constant(0.0)} : f32")

    def chosen(self, numbers, index):
        """Of several numbers the one whose place the index is."""
        result = numbers[0]
        for i, number in enumerate(numbers[1:], 1):
            at = self.let(f"arith.constant {i} : index")
            here = self.let(f"arith.cmpi eq, {index}, {at} : index")
            result = self.let(f"arith.select {here}, {number}, {result} : f32")
        return result

    def where(self, number, limit, kept):
        """`kept` where `number` is at least `limit`, else 0."""
        there = self.let(f"arith.cmpf oge, {number}, {self.constant(limit)} : f32")
        return self.let(f"arith.select {there}, {kept}, {self.constant(0.0)} : f32")

    def opened(self, value, known=0):
        """The tensor with all sizes dynamic but the last `known`."""
        free = len(value.dims) - known
        return self.cast(value, [*(f"{value.name}.{i}" for i in range(free)), *value.dims[free:]])

    def without(self, value, units):
        """The tensor without axes of size 1."""
        kept = [i for i in range(len(value.dims)) if i not in units]
        axes = [kept.index(i) if i in kept else len(kept) + units.index(i)
                for i in range(len(value.dims))]
        return self.generic([value.dims[i] for i in kept], value.dtype, [(value, axes)],
                            lambda x, _: x[0], summed=(1,) * len(units))

    def generic(self, dims, dtype, operands, body, summed=()):
        """A tensor of `dims` from elements of the operands.

        `operands` are (value, loop of each axis, or `At`). `body(numbers, index)` gives the lines' result in
        f32, from the operands' elements in f32; `index(loop)` is a loop's position. Loops beyond
        the result's axes, of the sizes in `summed`, are summed over."""
        loops = len(dims) + len(summed)
        start = self.empty(dims, dtype)
        kinds = ["parallel"] * len(dims) + ["reduction"] * len(summed)
        # A sum needs its start, and is kept in f32.
        if summed:
            zero = self.let(f"arith.constant 0.0 : {dtype}")
            start = self.let(f"linalg.fill ins({zero} : {dtype}) outs({start} : "
                             f"{tensor_type(dims, dtype)}) -> {tensor_type(dims, dtype)}")
        maps = ", ".join([*(_map(loops, axes) for _, axes in operands),
                          _map(loops, range(len(dims)))])
        arguments = [self.fresh() for _ in operands] + [self.fresh()]
        outer, self.lines = self.lines, []
        numbers = [self.widen(a, v.dtype) for a, (v, _) in zip(arguments, operands)]
        result = body(numbers, lambda loop: self.let(f"linalg.index {loop} : index"))
        if summed:
            result = self.let(f"arith.addf {result}, {self.widen(arguments[-1], dtype)} : f32")
        self.add(f"linalg.yield {self.narrow(result, dtype)} : {dtype}")
        inner, self.lines = self.lines, outer
        types = [*(v.dtype for v, _ in operands), dtype]
        name = self.fresh()
        ins = (f" ins({', '.join(v.name for v, _ in operands)} : "
               f"{', '.join(v.type for v, _ in operands)})") if operands else ""
        self.add(f"{name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["
                 + ", ".join(f'"{k}"' for k in kinds) + f"]}}{ins} outs({start} : "
                 f"{tensor_type(dims, dtype)}) {{")
        self.add("^bb0(" + ", ".join(f"{a}: {t}" for a, t in zip(arguments, types)) + "):")
        self.lines += ["  " + line for line in inner]
        self.add(f"}} -> {tensor_type(dims, dtype)}")
        return Value(name, dtype, tuple(dims))

    def widen(self, name, dtype):
        return name if dtype == "f32" else self.let(f"arith.extf {name} : {dtype} to f32")

    def narrow(self, name, dtype):
        return name if dtype == "f32" else self.let(f"arith.truncf {name} : f32 to {dtype}")

    def constant(self, number):
        from .._scan_text import number_text
        return self.let(f"arith.constant {number_text(number)} : f32")

    def convert(self, value, dtype):
        if value.dtype == dtype:
            return value
        return self.generic(value.dims, dtype, [(value, range(len(value.dims)))], lambda x, _: x[0])

    def permuted(self, value, order, dtype=None):
        """Axis i of the result is axis order[i] of the value."""
        dtype = dtype or value.dtype
        if dtype == value.dtype:  # a permutation of a permutation is one, or none
            value, first = self._permuted.get(value.name, (value, range(len(order))))
            order = [first[axis] for axis in order]
            if order == sorted(order):
                return value
        axes = [order.index(axis) for axis in range(len(order))]
        result = self.generic([value.dims[a] for a in order], dtype, [(value, axes)],
                              lambda x, _: x[0])
        if dtype == value.dtype:
            self._permuted[result.name] = value, order
        return result
