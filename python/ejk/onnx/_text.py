"""The MLIR of one function, written value by value."""

from collections import namedtuple


class Value(namedtuple("Value", "name dtype dims")):
    """A tensor. A size in `dims` is a number, or the name of one that is known at a call."""

    __slots__ = ()

    @property
    def type(self):
        return tensor_type(self.dims, self.dtype)


def tensor_type(dims, dtype):
    return "tensor<" + "".join(f"{d if isinstance(d, int) else '?'}x" for d in dims) + dtype + ">"


def _map(count, axes):
    loops = ", ".join(f"d{i}" for i in range(count))
    return f"affine_map<({loops}) -> ({', '.join(f'd{i}' for i in axes)})>"


class Writer:
    """Lines of a function, and where each dynamic size can be asked for."""

    def __init__(self):
        self.lines, self._count, self._sizes, self._dims = [], 0, {}, {}

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

    def without(self, value, units):
        """The tensor without axes of size 1."""
        kept = [i for i in range(len(value.dims)) if i not in units]
        axes = [kept.index(i) if i in kept else len(kept) + units.index(i)
                for i in range(len(value.dims))]
        return self.generic([value.dims[i] for i in kept], value.dtype, [(value, axes)],
                            lambda x, _: x[0], summed=(1,) * len(units))

    def generic(self, dims, dtype, operands, body, summed=()):
        """A tensor of `dims` from elements of the operands.

        `operands` are (value, loop of each axis). `body(numbers, index)` gives the lines' result in
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
        from .._trace import number_text
        return self.let(f"arith.constant {number_text(number)} : f32")

    def convert(self, value, dtype):
        if value.dtype == dtype:
            return value
        return self.generic(value.dims, dtype, [(value, range(len(value.dims)))], lambda x, _: x[0])

    def permuted(self, value, order, dtype=None):
        """Axis i of the result is axis order[i] of the value."""
        axes = [order.index(axis) for axis in range(len(order))]
        return self.generic([value.dims[a] for a in order], dtype or value.dtype, [(value, axes)],
                            lambda x, _: x[0])
