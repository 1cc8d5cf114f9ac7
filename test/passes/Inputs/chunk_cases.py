"""Random steps, and the same steps on f32 operands.

Writes a module of functions, each of which computes one scan twice: from bf16 or
f16 sequences, which --ejk-chunk takes, and from the same numbers widened to f32,
which it leaves to the step-by-step interpreter. Checks compare the two.

    chunk_cases.py random SEED COUNT TOLERANCE > cases.mlir
    chunk_cases.py matrix TOLERANCE > cases.mlir

`matrix` goes through the classes of decay in both directions, packed and not,
with gates of every size in turn.
"""
import itertools
import random
import sys

SIZES = [1, 3, 16, 20, 32, 60, 64, 72, 100]
STYLES = ["zero", "tiny", "log_gate", "thirty", "mixed", "cliffs", "resets"]
LENGTHS = [1, 5, 15, 16, 17, 40, 64, 65]


class Case:
    def __init__(self, rng, number):
        self.rng, self.number = rng, number
        self.lines = []
        self.seed = rng.randrange(1, 1 << 30)
        self.narrow = rng.choice(["bf16", "bf16", "bf16", "f16"])
        self.heads = rng.choice([1, 2, 4])
        self.kv_heads = rng.choice([h for h in (1, 2, 4) if self.heads % h == 0])
        self.K, self.V = rng.choice(SIZES), rng.choice(SIZES)
        # States that are cut into slices, along the axis no read sums over.
        self.along = None
        if rng.random() < 0.15:
            self.along = rng.choice(["key", "value"])
            self.K, self.V = rng.choice([(200, 256), (256, 130), (512, 48)])
        self.draw_sequences()
        self.reverse = rng.random() < 0.5
        self.order = "decays first" if rng.random() < 0.6 else "adds first"
        self.mixer = random.Random(number)  # whose draws change no other one
        if self.mixer.random() < 0.25:
            self.order = "any"
        self.styles = STYLES + ["log_gate", "mixed"]
        self.axes = [axis for axis in ("head", "key", "value", "gamma")
                     if rng.random() < (0.25 if axis == "gamma" else 0.45)]

    def draw_sequences(self):
        rng = self.rng
        if rng.random() < 0.4:
            lengths = [rng.choice([0, 1, 7, 16, 33, 64, 70]) for _ in range(rng.choice([1, 2, 4]))]
            ends = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
            self.B, self.T, self.N = 1, ends[-1], len(lengths)
            self.cu = ends
        else:
            self.B, self.T, self.cu = rng.choice([1, 2]), rng.choice(LENGTHS), None
            self.N = self.B

    # Text.

    def emit(self, text):
        self.lines.append("  " + text)

    def name(self):
        self.seed += 1
        return f"%x{self.seed}"

    def random(self, distribution, shape, element):
        value = self.name()
        kind = f"tensor<{'x'.join(map(str, shape))}x{element}>"
        self.emit(f"{value} = check.random {distribution} seed {self.seed} : {kind}")
        return value, kind

    # Gates of every size.

    def gate(self, shape):
        kind = f"tensor<{'x'.join(map(str, shape))}xf32>"
        style = self.rng.choice(self.styles)
        if style == "zero":
            return self.random("zero", shape, "f32")
        value, _ = self.random("log_gate", shape, "f32")
        if style == "log_gate":
            return value, kind
        factors = {"tiny": "1.0e-6", "thirty": "30.0", "resets": "0.03"}
        if style in factors:
            factor, result = self.name(), self.name()
            self.emit(f"{factor} = arith.constant dense<{factors[style]}> : {kind}")
            self.emit(f"{result} = arith.mulf {value}, {factor} : {kind}")
            return (self.resets(result, kind, len(shape)) if style == "resets" else result), kind
        which, _ = self.random("uniform", shape, "f32")
        steps = [("0.97", "0xFF800000"), ("0.94", "-1.0e4"), ("0.9", "-30.0")]
        steps = [("0.3", "-1.0e-3")] + steps[::-1] if style == "mixed" else steps[:2][::-1]
        for bound, number in steps:
            limit, constant, above, chosen = (self.name() for _ in range(4))
            self.emit(f"{limit} = arith.constant dense<{bound}> : {kind}")
            self.emit(f"{constant} = arith.constant dense<{number}> : {kind}")
            self.emit(f"{above} = arith.cmpf ogt, {which}, {limit} : {kind}")
            self.emit(f"{chosen} = arith.select {above}, {constant}, {value} : "
                      f"{kind.replace('f32', 'i1')}, {kind}")
            value = chosen
        return value, kind

    def resets(self, value, kind, rank):
        """-1e4 at steps 0, 16, 33, 49, 66, …: what follows must not suffer."""
        result, dims = self.name(), ", ".join(f"d{i}" for i in range(rank))
        axis = 1 if rank > 2 else 0
        same = f"affine_map<({dims}) -> ({dims})>"
        self.emit(f"{result} = linalg.generic {{indexing_maps = [{same}, {same}], iterator_types = "
                  f"[{', '.join(['%sparallel%s' % (chr(34), chr(34))] * rank)}]}}")
        self.emit(f"    ins({value} : {kind}) outs({value} : {kind}) {{")
        self.emit("  ^bb0(%in: f32, %out: f32):")
        for line in (f"%t = linalg.index {axis} : index", "%c33 = arith.constant 33 : index",
                     "%c16 = arith.constant 16 : index", "%low = arith.constant -1.0e4 : f32",
                     "%rest = arith.remui %t, %c33 : index", "%half = arith.remui %rest, %c16 : index",
                     "%c0 = arith.constant 0 : index", "%c32 = arith.constant 32 : index",
                     "%is = arith.cmpi eq, %half, %c0 : index",
                     "%not = arith.cmpi ne, %rest, %c32 : index", "%both = arith.andi %is, %not : i1",
                     "%g = arith.select %both, %low, %in : f32", "linalg.yield %g : f32"):
            self.emit("    " + line)
        self.emit(f"}} -> {kind}")
        return result

    # The step.

    def write(self):
        rng = self.rng
        K, V, H = self.K, self.V, self.heads
        rows = [self.B, self.T]
        narrow = self.narrow
        # Vectors along each axis, of 16-bit sequences; the first has H heads.
        vectors = {"K": [], "V": []}
        self.sequences = []
        for i in range(rng.choice([2, 3])):
            for axis, size in (("K", K), ("V", V)):
                heads = H if i == 0 and axis == "K" else rng.choice([H, self.kv_heads])
                value, kind = self.random("normal", rows + [heads, size], narrow)
                arg = f"{axis.lower()}{i}"
                self.sequences.append((arg, value, kind, f"vector<{size}x{narrow}>"))
                vectors[axis].append(arg)
        gates = []
        for axis, size in (("head", None), ("key", K), ("value", V)):
            if axis in self.axes:
                shape = rows + [H] + ([size] if size else [])
                value, kind = self.gate(shape)
                self.sequences.append((f"g{axis}", value, kind, None))
                gates.append((axis, f"%g{axis}", f"vector<{size}xf32>" if size else "f32"))
        self.parameters = []
        if "gamma" in self.axes:
            shape = rng.choice([[H], [self.N, H], [self.kv_heads]])
            value, kind = self.gate(shape)
            self.parameters.append(("gamma", value, kind, "f32"))
            gates.append(("head", "%gamma", "f32"))
        if rng.random() < 0.25:
            value, kind = self.random("normal", [self.kv_heads, K], "f32")
            self.parameters.append(("bias", value, kind, f"vector<{K}xf32>"))
        rng.shuffle(gates)
        self.initial = None
        if rng.random() < 0.5:
            self.initial = self.random("normal", [self.N, H, K, V], "f32")
        step, outputs, extra = self.step(gates, vectors)
        self.finish(step, outputs, extra)

    def step(self, gates, vectors):
        """The region's text but for the widening, what it yields, other states."""
        rng, K, V = self.rng, self.K, self.V
        S, vK, vV = f"vector<{K}x{V}xf32>", f"vector<{K}xf32>", f"vector<{V}xf32>"
        text, outputs = [], []
        key, value = "%k0w", "%v0w"
        if any(p[0] == "bias" for p in self.parameters):
            # A key of the user's making, which is not zero where rows are.
            text += [f"%kb = arith.addf %k0w, %bias : {vK}", f"%ke = math.tanh %kb : {vK}"]
            key = "%ke"
        links = [("decay", gate) for gate in gates]
        adds = [("add", (key, value))]
        if rng.random() < 0.3:
            adds.append(("add", ("%k1w", "%v1w")))
        links = adds + links if self.order == "adds first" else links + adds
        if self.order == "any":
            self.mixer.shuffle(links)
        # Positions of reads: the derived forms' own, and sometimes any.
        places = [len(adds) if self.order == "adds first" else len(links)]
        while rng.random() < 0.5 and len(places) < 3:
            places.append(rng.randrange(len(links) + 1))
        state, reads = "%S", 0
        for i in range(len(links) + 1):
            for _ in range(places.count(i)):
                along = self.along or rng.choice(["key", "key", "value"])
                axis, side = ("K", vK) if along == "key" else ("V", vV)
                result = vV if along == "key" else vK
                vector = f"%{rng.choice(vectors[axis])}w"
                text += [f"%s{reads} = arith.constant dense<{rng.choice(['0.25', '0.3'])}> : {side}",
                         f"%q{reads} = arith.mulf {vector}, %s{reads} : {side}",
                         f"%r{reads} = ejk.read {state}, %q{reads} along {along} : {S}, {side}"]
                outputs.append((f"%r{reads}", result))
                reads += 1
            if i == len(links):
                break
            kind, what = links[i]
            if kind == "decay":
                axis, gate, gate_type = what
                text.append(f"%S{i} = ejk.decay {state} by {gate} along {axis} : {S}, {gate_type}")
            else:
                text.append(f"%S{i} = ejk.outer_add {state}, {what[0]}, {what[1]} : {S}, {vK}, {vV}")
            state = f"%S{i}"
        extra = []
        if rng.random() < 0.4 and not self.along:
            read, side = outputs[0]
            size, vector = (K, "%k0w") if side == vK else (V, "%v0w")
            text += [f"%t0 = arith.mulf {read}, {vector} : {side}",
                     f"%X1 = arith.addf %X, %t0 : {side}",
                     f"%X2 = arith.subf %X1, {vector} : {side}",
                     f"%n = ejk.sum %X1 : {side}", "%C1 = arith.addf %C, %n : f32"]
            extra = [("X", f"x{size}", side, "%X2"), ("C", "", "f32", "%C1")]
            outputs += [(rng.choice(["%X", "%X1", "%X2"]), side), ("%C1", "f32")]
        self.next = state
        return text, outputs, extra

    def finish(self, step, outputs, extra):
        results = []
        for wide in (False, True):
            results.append(self.scan(wide, step, outputs, extra))
        # What adds up over time cancels: its terms' errors are of more than its own size.
        added = {v for v, _ in outputs} & {"%X", "%X1", "%X2", "%C1"}
        loose = [v in added for v, _ in outputs] + [False] + [True] * len(extra)
        for (narrow, _), (wide, kind), is_loose in zip(*results, loose):
            tolerance = float(self.tolerance) * (4 if is_loose else 1)
            self.emit(f"check.expect_close {narrow}, {wide} max_relative {tolerance:.1e} : {kind}")

    def scan(self, wide, step, outputs, extra):
        H, rows = self.heads, f"{self.B}x{self.T}"
        args, body = [], []
        for arg, value, kind, narrow in self.sequences:
            if wide and narrow:
                source, kind = value, kind.replace(self.narrow, "f32")
                value = self.name()
                self.emit(f"{value} = arith.extf {source} : "
                          f"{kind.replace('f32', self.narrow)} to {kind}")
                args.append(f"%{arg}w = {value} : {kind}")
            else:
                args.append(f"%{arg} = {value} : {kind}")
                if narrow:
                    body.append(f"%{arg}w = arith.extf %{arg} : {narrow} to "
                                f"{narrow.replace(self.narrow, 'f32')}")
        state_types = [f"tensor<{self.N}x{H}x{self.K}x{self.V}xf32>"]
        state_types += [f"tensor<{self.N}x{H}{dims}xf32>" for _, dims, _, _ in extra]
        initial = self.initial[0] if self.initial else "zero"
        states = [f"%S = {initial} : {state_types[0]}"]
        states += [f"%{name} = zero : {kind}" for (name, _, _, _), kind in zip(extra, state_types[1:])]
        output_types = [f"tensor<{rows}x{H}x{kind[7:]}" if kind != "f32" else
                        f"tensor<{rows}x{H}xf32>" for _, kind in outputs]
        names = [self.name() for _ in output_types + state_types]
        cu = ""
        if self.cu:
            offsets = self.name()
            cu_type = f"tensor<{len(self.cu)}xi32>"
            self.emit(f"{offsets} = arith.constant dense<{self.cu}> : {cu_type}")
            cu = f" cu_seqlens({offsets} : {cu_type})"
        self.emit(f"{', '.join(names)} = ejk.scan{' reverse' if self.reverse else ''}{cu}")
        self.emit(f"    sequences({', '.join(args)})")
        if self.parameters:
            self.emit("    parameters(" + ", ".join(
                f"%{a} = {v} : {k} as {t}" for a, v, k, t in self.parameters) + ")")
        self.emit(f"    states({', '.join(states)}) -> ({', '.join(output_types)}) {{")
        for line in body + step:
            self.emit("  " + line)
        nexts = [self.next] + [n for _, _, _, n in extra]
        next_types = [f"vector<{self.K}x{self.V}xf32>"] + [t for _, _, t, _ in extra]
        self.emit(f"  ejk.yield states({', '.join(nexts)} : {', '.join(next_types)}) outputs("
                  f"{', '.join(v for v, _ in outputs)} : {', '.join(t for _, t in outputs)})")
        self.emit("}")
        return list(zip(names, output_types + state_types))


def random_cases(seed, count):
    for number in range(count):
        yield Case(random.Random(seed * 1000003 + number), number)


CLASSES = {"none": [], "constant": ["gamma"], "scalar": ["head"], "key": ["key"],
           "value": ["value"], "both": ["key", "value"], "all": ["gamma", "head", "key", "value"]}
# K, V and T: odd, unequal, short and long.
SHAPES = [(64, 64, 130), (60, 72, 65), (100, 3, 64), (3, 100, 63), (72, 20, 129), (16, 60, 40)]


def matrix_cases():
    shapes = itertools.cycle(SHAPES)
    combinations = itertools.product(CLASSES, STYLES, (False, True), (False, True))
    for number, (name, style, reverse, packed) in enumerate(combinations):
        case = Case(random.Random(number), number)
        case.axes, case.reverse, case.along = CLASSES[name], reverse, None
        case.styles = [style]
        case.K, case.V, T = next(shapes)
        case.heads, case.kv_heads = (4, 2) if number % 3 == 0 else (2, 2)
        case.order = "decays first" if number % 2 == 0 or number % 5 == 0 else "adds first"
        if packed:
            case.B, case.T, case.N, case.cu = 1, T + 1, 5, [0, 0, 1, T - 20, T - 20, T + 1]
        else:
            case.B, case.T, case.N, case.cu = 2, T, 2, None
        yield case


def main():
    *arguments, tolerance = sys.argv[1:]
    cases = (matrix_cases() if arguments[0] == "matrix" else
             random_cases(int(arguments[1]), int(arguments[2])))
    for case in cases:
        case.tolerance = tolerance
        case.write()
        print(f"// Case {case.number}.")
        print(f"func.func @case{case.number}() {{")
        print("\n".join(case.lines))
        print("  return\n}")


main()
