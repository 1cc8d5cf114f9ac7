"""Random steps of one to three states, for ejk-fuzz-steps.

A state is a matrix, a vector along keys or along values, or a number. Matrices decay along any axis, by gates that
are given or computed, and may be corrected by what is read of them, along either axis, and twice. What one state adds
may be what is read of another. Outputs read matrices, one after the other too, with factors.
"""
import random

KINDS = ("matrix", "matrix", "matrix", "matrix", "keys", "values", "number")


class Step:
    """text: the MLIR of a function @f. sizes: what --random needs of rows, from a symbol to its number.
    heads: how many there are. words: what it is."""

    def __init__(self, seed, index):
        self.rng = random.Random(f"{seed} {index}")
        pick = self.rng.choice
        self.kind = pick(("bf16", "bf16", "bf16", "f16", "f32"))
        self.K, self.V = pick(((64, 64), (32, 32), (64, 32), (16, 48), (128, 64), (100, 72), (64, 128), (8, 8)))
        self.reverse, self.packed = self.rng.random() < 0.2, self.rng.random() < 0.2
        self.starts = self.rng.random() < 0.4
        self.states = [pick(KINDS) for _ in range(pick((1, 2, 2, 3)))]
        if "matrix" not in self.states:
            self.states[0] = "matrix"
        self.lines, self.count, self.said = [], 0, []
        T = pick((1, 9, 40, 70, 130, 150))
        self.heads = pick((1, 2, 3, 4))
        self.sizes = {"T": T, **({"N": pick((1, 3))} if self.packed else {"B": pick((1, 2))})}
        self.build()

    # Types, by what a value is: a number, or a row along keys or values.
    def vector(self, axis, element="f32"):
        return element if axis is None else f"vector<{self.K if axis == 'key' else self.V}x{element}>"

    def matrix(self):
        return f"vector<{self.K}x{self.V}xf32>"

    def emit(self, text):
        self.count += 1
        self.lines.append(f"    %x{self.count} = {text}")
        return f"%x{self.count}"

    # A value in the step is (name, axis).
    def number(self, value):
        return self.emit(f"arith.constant {value:e} : f32"), None

    def spread(self, x, axis):
        """`x` in every channel, where it is a number."""
        name, own = x
        if own == axis:
            return name
        assert own is None, (x, axis)
        return self.emit(f"vector.broadcast {name} : f32 to {self.vector(axis)}")

    def binary(self, op, x, y):
        axis = x[1] or y[1]
        return self.emit(f"arith.{op} {self.spread(x, axis)}, {self.spread(y, axis)} : {self.vector(axis)}"), axis

    def unary(self, op, x):
        return self.emit(f"{op} {x[0]} : {self.vector(x[1])}"), x[1]

    def sigmoid(self, x):
        """Of any size: e to the power of what is at most 0."""
        name, axis = x
        below = self.emit(f"arith.cmpf olt, {name}, {self.spread(self.number(0), axis)} : {self.vector(axis)}")
        bits = "i1" if axis is None else self.vector(axis, "i1")
        types = self.vector(axis) if axis is None else f"{bits}, {self.vector(axis)}"
        choose = lambda x, y: (self.emit(f"arith.select {below}, {x[0]}, {y[0]} : {types}"), axis)
        power = self.unary("math.exp", choose(x, self.unary("arith.negf", x)))
        one = (self.spread(self.number(1), axis), axis)
        return self.binary("divf", choose(power, one), self.binary("addf", one, power))

    def log_gate(self, x):
        """-log(1 + e^x), which is finite where x is not large."""
        return self.unary("arith.negf", self.unary("math.log1p", self.unary("math.exp", x)))

    def dot(self, x, y):
        product = self.binary("mulf", x, y)
        return self.emit(f"ejk.sum {product[0]} : {self.vector(product[1])}"), None

    def unit(self, x):
        square = self.binary("addf", self.dot(x, x), self.number(1e-6))
        return self.binary("mulf", x, self.unary("math.rsqrt", square))

    def rotated(self, x):
        """By an angle of 0.6."""
        half = self.emit(f"ejk.rotate_half {x[0]} : {self.vector(x[1])}"), x[1]
        parts = (self.binary("mulf", part, self.number(size)) for part, size in ((x, 0.8), (half, 0.6)))
        return self.binary("addf", *parts)

    def read(self, state, row):
        name = self.emit(f"ejk.read {state}, {row[0]} along {row[1]} : {self.matrix()}, {self.vector(row[1])}")
        return name, "value" if row[1] == "key" else "key"

    def row(self, axis):
        """A row of the step along `axis`, some of them computed."""
        if axis == "value":
            v, b = self.args["v"], self.args["b"]
            return self.rng.choice((lambda: v, lambda: v, lambda: self.binary("mulf", self.sigmoid(b), v),
                                    lambda: self.sigmoid(v)))()
        k = self.args["k"]
        return self.rng.choice((lambda: k, lambda: k, lambda: self.unit(k), lambda: self.args["q"],
                                lambda: self.binary("mulf", self.sigmoid(self.args["b"]), k),
                                lambda: self.rotated(k)))()

    def decay(self, state):
        how = self.rng.choice(("none", "head", "head", "computed", "key", "value", "both"))
        self.said[-1] += f", gate {how}"
        gates = {"none": [], "head": [("g", "head")], "computed": [("log", "head")], "key": [("gk", "key")],
                 "value": [("gv", "value")], "both": [("gk", "key"), ("g", "head")]}[how]
        for name, axis in gates:
            gate = self.log_gate(self.args["a"]) if name == "log" else self.args[name]
            state = self.emit(f"ejk.decay {state} by {gate[0]} along {axis} : {self.matrix()}, {self.vector(gate[1])}")
        return state

    def next_matrix(self, i, before):
        state = self.decay(before)
        how = self.rng.choice(("plain", "plain", "plain", "corrected", "corrected twice", "corrected along values",
                               "other"))
        key, value = self.row("key"), self.row("value")
        if how == "corrected twice":
            first = self.unit(self.args["q"])
            rest = self.binary("subf", value, self.read(state, first))
            added = self.binary("mulf", self.sigmoid(self.args["a"]), rest)
            state = self.outer_add(state, first, added)
        if how in ("corrected", "corrected twice"):
            key = self.unit(self.args["k"])
            value = self.binary("mulf", self.sigmoid(self.args["b"]), self.binary("subf", value, self.read(state, key)))
        elif how == "corrected along values":
            value = self.unit(self.args["v"])
            key = self.binary("mulf", self.sigmoid(self.args["b"]), self.binary("subf", key, self.read(state, value)))
        elif how == "other":
            others = [n for n in range(i) if self.states[n] in ("matrix", "values")]
            if others:
                n = self.rng.choice(others)
                # A vector grows with its rows, so it is bounded.
                other = self.after[n]
                value = self.read(other, key) if self.states[n] == "matrix" else self.sigmoid((other, "value"))
                how = f"adds what state {n} has"
        self.said[-1] += f", {how}"
        return self.outer_add(state, key, value)

    def outer_add(self, state, key, value):
        return self.emit(f"ejk.outer_add {state}, {key[0]}, {value[0]} : {self.matrix()}, {self.vector('key')}, "
                         f"{self.vector('value')}")

    def next_row(self, before, axis):
        if axis is None and self.rng.random() < 0.4:
            self.said[-1] += ", a maximum"
            return self.binary("maximumf", self.binary("addf", (before, None), self.args["g"]), self.args["a"])[0]
        gates = {"key": ("g", "gk"), "value": ("g", "gv"), None: ("g",)}[axis]
        kept = self.unary("math.exp", self.args[self.rng.choice(gates)])
        added = self.row(axis) if axis else self.sigmoid(self.args["a"])
        return self.binary("addf", self.binary("mulf", kept, (before, axis)), added)[0]

    def output(self):
        total, last = None, None
        for state, kind in zip(self.after, self.states):
            if kind == "matrix":
                read = self.read(state, self.args["q"])
                if last and self.K == self.V and self.rng.random() < 0.2:
                    # Its matrix by what was read before, as if that were a query.
                    name = self.emit(f"ejk.read {state}, {last[0]} along key : {self.matrix()}, {self.vector('key')}")
                    read = (name, "value")
                last = read
            elif kind == "values":
                read = self.sigmoid((state, "value"))
            else:
                x = self.dot((state, "key"), self.args["q"]) if kind == "keys" else (state, None)
                read = self.binary("mulf", self.sigmoid(x), self.args["v"])
            how = self.rng.choice(("plain", "plain", "number", "row"))
            if how != "plain":
                read = self.binary("mulf", read, self.args["a"] if how == "number" else self.sigmoid(self.args["v"]))
            total = read if total is None else self.binary("addf", total, read)
        return total[0]

    def build(self):
        axes = {"keys": "key", "values": "value", "number": None}
        outside = lambda axis, element, lead: (f"tensor<{lead}" + {"key": f"x{self.K}", "value": f"x{self.V}",
                                                                  None: ""}[axis] + f"x{element}>")
        inputs = {"q": ("key", self.kind), "k": ("key", self.kind), "v": ("value", self.kind), "g": (None, "f32"),
                  "gk": ("key", "f32"), "gv": ("value", "f32"), "a": (None, "f32"), "b": (None, "f32")}
        self.args = {name: (f"%{name}_f" if element != "f32" else f"%{name}_r", axis)
                     for name, (axis, element) in inputs.items()}
        for name, (axis, element) in inputs.items():
            if element != "f32":
                types = f"{self.vector(axis, element)} to {self.vector(axis)}"
                self.lines.append(f"    %{name}_f = arith.extf %{name}_r : {types}")
        self.after = []
        for i, kind in enumerate(self.states):
            self.said.append(f"{kind}")
            before = f"%s{i}"
            self.after.append(self.next_matrix(i, before) if kind == "matrix" else self.next_row(before, axes[kind]))
        total = self.output()
        if self.kind != "f32":
            total = self.emit(f"arith.truncf {total} : {self.vector('value')} to {self.vector('value', self.kind)}")
        body = "\n".join(self.lines)
        used = [name for name in inputs if f"%{name}_r" in body]
        shape = "1x?x?" if self.packed else "?x?x?"
        own = {name: outside(inputs[name][0], inputs[name][1], shape) for name in used}
        matrices = f"tensor<?x?x{self.K}x{self.V}xf32>"
        of_state = lambda kind: matrices if kind == "matrix" else outside(axes[kind], "f32", "?x?")
        in_step = lambda kind: self.matrix() if kind == "matrix" else self.vector(axes[kind])
        finals = [of_state(kind) for kind in self.states]
        arguments = [f"%{name}: {type}" for name, type in own.items()]
        starts = [f"%h{i}: {type}" for i, type in enumerate(finals)] if self.starts else []
        offsets = ["%cu_seqlens: tensor<?xi32>"] if self.packed else []
        o = outside("value", self.kind, shape)
        results = ", ".join([f'{o} {{ejk.name = "o"}}'] + [f'{t} {{ejk.name = "ht{i}"}}' for i, t in enumerate(finals)])
        states = ", ".join(f"%s{i} = {f'%h{i}' if self.starts else 'zero'} : {t}" for i, t in enumerate(finals))
        names = ", ".join(["%o"] + [f"%ht{i}" for i in range(len(finals))])
        self.text = f"""func.func @f({', '.join(arguments + starts + offsets)})
    -> ({results}) {{
  {names} = ejk.scan{' reverse' * self.reverse}{' cu_seqlens(%cu_seqlens : tensor<?xi32>)' * self.packed}
      sequences({', '.join(f'%{name}_r = %{name} : {type}' for name, type in own.items())})
      states({states})
      -> ({o}) {{
{body}
    ejk.yield states({', '.join(self.after)} : {', '.join(map(in_step, self.states))})
        outputs({total} : {self.vector('value', self.kind)})
  }}
  return {names} : {', '.join([o, *finals])}
}}
"""
        self.words = (f"{self.kind} {self.K}x{self.V}{' reverse' * self.reverse}{' packed' * self.packed}"
                      f"{' h0' * self.starts}: {'; '.join(self.said)}")
