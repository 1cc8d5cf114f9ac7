"""Recurrences that read the state before they write it: NumPy in f64, and the tests
delta-*.mlir and vjp-delta-*.mlir, made by generate.py.

A model is its step twice: in NumPy and as the text of a scan's region. Nothing of the
compiler's derivation is repeated here. A gradient is taken by a complex step: with
x + ih in the place of x, the imaginary part of the loss over h is the derivative,
without a difference that would cancel, so it is exact to rounding.

    S' = D ⊙ S     r = S'ᵀ a     u = w + c r     S = S' + b uᵀ     o = Sᵀ q
"""
import numpy as np

H, HK, K, V = 4, 2, 4, 3
EPSILON = 2.0 ** -20  # exact in f32, so both sides have the same


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.log1p(np.exp(x))


def unit(x):
    return x / np.sqrt((x * x).sum(axis=-1, keepdims=True) + EPSILON)


def read(state, vector):
    return np.einsum("...kv,...k->...v", state, vector)


def read_value(state, vector):
    return np.einsum("...kv,...v->...k", state, vector)


def outer(key, value):
    return key[..., :, None] * value[..., None, :]


def number(x):
    """A number a head, as a factor of vectors."""
    return x[..., None]


# Steps: (state, rows of the operands) to (state, o).

def gdn(state, x):
    state = np.exp(x["g"])[..., None, None] * state
    u = number(x["beta"]) * (x["v"] - read(state, x["k"]))
    state = state + outer(x["k"], u)
    return state, 0.5 * read(state, x["q"])


def rule(state, x):
    """ejk.delta_rule with both gates that it may have."""
    if "g" in x:
        state = np.exp(x["g"])[..., None, None] * state
    if "gk" in x:
        state = np.exp(x["gk"])[..., None] * state
    u = number(x["beta"]) * (x["v"] - read(state, x["k"]))
    state = state + outer(x["k"], u)
    return state, 0.5 * read(state, x["q"])


def kda(state, x):
    q, k = unit(x["q"]), unit(x["k"])
    gate = -np.exp(x["A"])[..., None] * softplus(x["dt"] + x["bias"])
    state = np.exp(gate)[..., None] * state
    u = number(sigmoid(x["b"])) * (x["v"] - read(state, k))
    state = state + outer(k, u)
    return state, 0.5 * read(state, q)


def rwkv7(state, x):
    kappa, rate = unit(x["kappa"]), sigmoid(x["a"])
    removed = read(state, kappa)
    state = np.exp(-0.625 * sigmoid(x["w"]))[..., None] * state
    state = state - outer(kappa * rate, removed)
    state = state + outer(x["k"], x["v"])
    return state, read(state, x["q"])


def twice(state, x):
    """Two corrections in a step, the second of which is not linear, under two gates."""
    state = np.exp(x["gk"])[..., :, None] * np.exp(x["gv"])[..., None, :] * state
    first = number(x["beta"]) * (x["v"] - read(state, x["k"]))
    state = state + outer(x["k"], first)
    second = np.tanh(x["v2"] - read(state, x["k2"]))
    state = state + outer(x["k2"], second)
    return state, read(state, x["q"])


def product(state, x):
    """Two corrections in a step, the second of which sees what the first has changed, under two gates."""
    state = np.exp(x["g"])[..., None, None] * np.exp(x["gk"])[..., :, None] * state
    for key, value, rate in (("k", "v", "beta"), ("k2", "v2", "beta2")):
        state = state + outer(x[key], number(x[rate]) * (x[value] - read(state, x[key])))
    return state, 0.5 * read(state, x["q"])


def fed(state, x):
    """What is read feeds another read, a key and a gate."""
    first = read(state, x["k"])
    probe = x["q"] * number(np.tanh((first * x["v"]).sum(axis=-1)))
    second = np.tanh(read(state, probe))
    key = x["k"] + number(second.sum(axis=-1)) * x["q"]
    gate = -softplus(number(x["beta"]) + np.tanh(read_value(state, second)))
    state = np.exp(gate)[..., None] * state
    state = state + outer(key, x["v"] - second)
    return state, read(state, x["q"])


# Operands of each model: heads and channels of a sequence, or a parameter's shape.
SEQUENCES = {
    "gdn": {"v": (H, V), "q": (HK, K), "k": (HK, K), "g": (H,), "beta": (H,)},
    "kda": {"v": (H, V), "q": (HK, K), "k": (HK, K), "dt": (H, K), "b": (H,)},
    "rwkv7": {"q": (H, K), "w": (H, K), "k": (H, K), "v": (H, V), "kappa": (H, K), "a": (H, K)},
    "twice": {"q": (H, K), "k": (HK, K), "v": (HK, V), "k2": (HK, K), "v2": (H, V),
              "gk": (H, K), "gv": (H, V), "beta": (H,)},
    "product": {"v": (H, V), "q": (HK, K), "k": (HK, K), "k2": (H, K), "v2": (H, V), "g": (H,),
                "gk": (H, K), "beta": (H,), "beta2": (H,)},
    "fed": {"q": (H, K), "k": (HK, K), "v": (HK, V), "beta": (H,)},
    **{name: {"v": (H, V), "q": (HK, K), "k": (HK, K), "beta": (H,), **gates}
       for name, gates in {"rule": {}, "rule-g": {"g": (H,)}, "rule-gk": {"gk": (H, K)},
                           "rule-g-gk": {"g": (H,), "gk": (H, K)}}.items()},
}
PARAMETERS = {"kda": {"A": (H,), "bias": (H, K)}}
STEPS = {"gdn": gdn, "kda": kda, "rwkv7": rwkv7, "twice": twice, "product": product,
         "fed": fed,
         "rule": rule, "rule-g": rule, "rule-gk": rule, "rule-g-gk": rule}

TEXT = {}
MATRIX = f"vector<{K}x{V}xf32>"
KEY, VALUE = f"vector<{K}xf32>", f"vector<{V}xf32>"


def unit_text(name, result):
    """The lines that make `unit` of a key vector."""
    return f"""    %{result}_squares = arith.mulf %{name}, %{name} : {KEY}
    %{result}_sum = ejk.sum %{result}_squares : {KEY}
    %{result}_more = arith.addf %{result}_sum, %epsilon : f32
    %{result}_over = math.rsqrt %{result}_more : f32
    %{result}_each = vector.broadcast %{result}_over : f32 to {KEY}
    %{result} = arith.mulf %{name}, %{result}_each : {KEY}
"""


def sigmoid_text(name, result, kind):
    one = "%one" if kind == "f32" else "%ones"
    return f"""    %{result}_minus = arith.negf %{name} : {kind}
    %{result}_e = math.exp %{result}_minus : {kind}
    %{result}_d = arith.addf {one}, %{result}_e : {kind}
    %{result} = arith.divf {one}, %{result}_d : {kind}
"""


CORRECT = f"""    %r = ejk.read %S1, %kt along key : {MATRIX}, {KEY}
    %e = arith.subf %vt, %r : {VALUE}
    %beta_each = vector.broadcast %beta_t : f32 to {VALUE}
    %u = arith.mulf %beta_each, %e : {VALUE}
    %S2 = ejk.outer_add %S1, %kt, %u : {MATRIX}, {KEY}, {VALUE}
"""
HALF = f"""    %half = arith.constant dense<0.5> : {VALUE}
    %ot = arith.mulf %half, %read : {VALUE}
"""

TEXT["gdn"] = f"""    %S1 = ejk.decay %S by %gt along head : {MATRIX}, f32
{CORRECT}    %read = ejk.read %S2, %qt along key : {MATRIX}, {KEY}
{HALF}""", "S2"

TEXT["kda"] = f"""    %epsilon = arith.constant {EPSILON} : f32
    %one = arith.constant 1.0 : f32
{unit_text("q_row", "qt")}{unit_text("k_row", "kt")}{sigmoid_text("bt", "beta_t", "f32")}\
    %y = arith.addf %dtt, %biast : {KEY}
    %ey = math.exp %y : {KEY}
    %softplus = math.log1p %ey : {KEY}
    %rate = math.exp %At : f32
    %minus = arith.negf %rate : f32
    %rates = vector.broadcast %minus : f32 to {KEY}
    %gt = arith.mulf %rates, %softplus : {KEY}
    %S1 = ejk.decay %S by %gt along key : {MATRIX}, {KEY}
{CORRECT}    %read = ejk.read %S2, %qt along key : {MATRIX}, {KEY}
{HALF}""", "S2"

TEXT["rwkv7"] = f"""    %epsilon = arith.constant {EPSILON} : f32
    %ones = arith.constant dense<1.0> : {KEY}
    %most = arith.constant dense<-0.625> : {KEY}
{unit_text("kappat", "unit")}{sigmoid_text("at", "rate", KEY)}{sigmoid_text("wt", "w01", KEY)}\
    %gt = arith.mulf %most, %w01 : {KEY}
    %removed = ejk.read %S, %unit along key : {MATRIX}, {KEY}
    %S1 = ejk.decay %S by %gt along key : {MATRIX}, {KEY}
    %scaled = arith.mulf %unit, %rate : {KEY}
    %taken = arith.negf %scaled : {KEY}
    %S2 = ejk.outer_add %S1, %taken, %removed : {MATRIX}, {KEY}, {VALUE}
    %S3 = ejk.outer_add %S2, %kt, %vt : {MATRIX}, {KEY}, {VALUE}
    %ot = ejk.read %S3, %qt along key : {MATRIX}, {KEY}
""", "S3"

TEXT["twice"] = f"""    %S0 = ejk.decay %S by %gkt along key : {MATRIX}, {KEY}
    %S1 = ejk.decay %S0 by %gvt along value : {MATRIX}, {VALUE}
{CORRECT}    %r2 = ejk.read %S2, %k2t along key : {MATRIX}, {KEY}
    %e2 = arith.subf %v2t, %r2 : {VALUE}
    %u2 = math.tanh %e2 : {VALUE}
    %S3 = ejk.outer_add %S2, %k2t, %u2 : {MATRIX}, {KEY}, {VALUE}
    %ot = ejk.read %S3, %qt along key : {MATRIX}, {KEY}
""", "S3"

TEXT["product"] = f"""    %S0 = ejk.decay %S by %gt along head : {MATRIX}, f32
    %S1 = ejk.decay %S0 by %gkt along key : {MATRIX}, {KEY}
{CORRECT}    %r2 = ejk.read %S2, %k2t along key : {MATRIX}, {KEY}
    %e2 = arith.subf %v2t, %r2 : {VALUE}
    %beta2_each = vector.broadcast %beta2t : f32 to {VALUE}
    %u2 = arith.mulf %beta2_each, %e2 : {VALUE}
    %S3 = ejk.outer_add %S2, %k2t, %u2 : {MATRIX}, {KEY}, {VALUE}
    %read = ejk.read %S3, %qt along key : {MATRIX}, {KEY}
{HALF}""", "S3"

TEXT["fed"] = f"""    %first = ejk.read %S, %kt along key : {MATRIX}, {KEY}
    %products = arith.mulf %first, %vt : {VALUE}
    %dot = ejk.sum %products : {VALUE}
    %tanh = math.tanh %dot : f32
    %tanhs = vector.broadcast %tanh : f32 to {KEY}
    %probe = arith.mulf %qt, %tanhs : {KEY}
    %r2 = ejk.read %S, %probe along key : {MATRIX}, {KEY}
    %second = math.tanh %r2 : {VALUE}
    %total = ejk.sum %second : {VALUE}
    %totals = vector.broadcast %total : f32 to {KEY}
    %more = arith.mulf %totals, %qt : {KEY}
    %key = arith.addf %kt, %more : {KEY}
    %back = ejk.read %S, %second along value : {MATRIX}, {VALUE}
    %bounded = math.tanh %back : {KEY}
    %betas = vector.broadcast %beta_t : f32 to {KEY}
    %y = arith.addf %betas, %bounded : {KEY}
    %ey = math.exp %y : {KEY}
    %softplus = math.log1p %ey : {KEY}
    %gt = arith.negf %softplus : {KEY}
    %S1 = ejk.decay %S by %gt along key : {MATRIX}, {KEY}
    %u = arith.subf %vt, %second : {VALUE}
    %S2 = ejk.outer_add %S1, %key, %u : {MATRIX}, {KEY}, {VALUE}
    %ot = ejk.read %S2, %qt along key : {MATRIX}, {KEY}
""", "S2"


#===------------------------------------------------------------------------------------===#
# In NumPy
#===------------------------------------------------------------------------------------===#

def forward(model, inputs, cu_seqlens=None, reverse=False):
    """(o, ht); the operands may have axes before their own, which all are computed over."""
    sequences, lead = SEQUENCES[model], {}
    first = next(iter(sequences))
    B, T = inputs[first].shape[-len(sequences[first]) - 2:][:2]

    def rows(name, bs, t):
        x = inputs[name]
        heads = sequences[name][0]
        if len(sequences[name]) == 1:
            return np.repeat(x[..., bs, t, :], H // heads, axis=-1)
        return np.repeat(x[..., bs, t, :, :], H // heads, axis=-2)

    if cu_seqlens is None:
        walks = [(slice(0, B), slice(0, B), range(T))]
    else:
        walks = [(slice(n, n + 1), slice(0, 1), range(cu_seqlens[n], cu_seqlens[n + 1]))
                 for n in range(len(cu_seqlens) - 1)]
    # A parameter has no axis of batch entries.
    lead = {name: np.expand_dims(inputs[name], -len(shape) - 1)
            for name, shape in PARAMETERS.get(model, {}).items()}
    outputs, finals = [None] * T, []
    for ns, bs, steps in walks:
        state = inputs["h0"][..., ns, :, :, :]
        for t in list(steps)[::-1] if reverse else steps:
            x = {name: rows(name, bs, t) for name in sequences}
            state, outputs[t] = STEPS[model](state, {**x, **lead})
        finals.append(state)
    o = np.stack(np.broadcast_arrays(*outputs), axis=-3) if cu_seqlens is None else \
        np.concatenate([np.expand_dims(x, -3) for x in np.broadcast_arrays(*outputs)], axis=-3)
    shape = np.broadcast_shapes(*(x.shape[:-4] for x in finals))
    finals = [np.broadcast_to(x, shape + x.shape[-4:]) for x in finals]
    return o, np.concatenate(finals, axis=-4)


def loss(model, inputs, cotangents, **options):
    o, ht = forward(model, inputs, **options)
    return ((cotangents["do"] * o).sum(axis=(-4, -3, -2, -1))
            + (cotangents["dht"] * ht).sum(axis=(-4, -3, -2, -1)))


def backward(model, inputs, cotangents, **options):
    """The gradients by operand name, each by complex steps."""
    grads = {}
    for name, x in inputs.items():
        steps = np.eye(x.size).reshape((x.size,) + x.shape)
        moved = {**inputs, name: x + 1j * 2.0 ** -100 * steps}
        grads[name] = (loss(model, moved, cotangents, **options).imag * 2.0 ** 100).reshape(x.shape)
    return grads


def check(model, inputs, cotangents, grads, **options):
    """Against central differences along one direction for each operand."""
    rng = np.random.default_rng(1)
    for name, x in inputs.items():
        direction = rng.standard_normal(x.shape)
        sides = [loss(model, {**inputs, name: x + step * direction}, cotangents, **options)
                 for step in (1e-6, -1e-6)]
        numeric, exact = (sides[0] - sides[1]) / 2e-6, (grads[name] * direction).sum()
        if not abs(numeric - exact) < 1e-6 * max(1.0, abs(exact)):
            raise SystemExit(f"{model}: d{name} gives {exact}, differences {numeric}")


#===------------------------------------------------------------------------------------===#
# Tests
#===------------------------------------------------------------------------------------===#

# The text's names of rows; others are called by the operand and t.
ROW_NAMES = {("gdn", "beta"): "beta_t", ("twice", "beta"): "beta_t", ("product", "beta"): "beta_t",
             ("fed", "beta"): "beta_t",
             ("kda", "q"): "q_row", ("kda", "k"): "k_row"}
WAYS = {"batch": ("batch", False), "packed_reverse": ("packed", True)}


class Problem:
    def __init__(self, model, way, layouts, draw):
        self.model, self.way = model, way
        self.layout_name, self.reverse = WAYS[way]
        layout = layouts[self.layout_name]
        B, T, N, self.cu = layout["B"], layout["T"], layout["N"], layout["cu"]
        self.shapes = {n: (B, T) + s for n, s in SEQUENCES[model].items()}
        self.shapes.update(PARAMETERS.get(model, {}))
        self.shapes["h0"] = (N, H, K, V)
        self.cotangent_shapes = {"do": (B, T, H, V), "dht": (N, H, K, V)}

        def drawn(name, shape):
            x = draw(self.layout_name, f"{'' if name[0] == 'g' else 'x'}{name}_{model}"
                     if name != "h0" else "h0", shape).astype(np.float64)
            return np.abs(x) if name in ("beta", "beta2") and model != "fed" else x
        self.inputs = {n: drawn(n, s) for n, s in self.shapes.items()}
        self.cotangents = {n: drawn(n, s) for n, s in self.cotangent_shapes.items()}
        self.options = {"cu_seqlens": self.cu, "reverse": self.reverse}

    def file(self, name):
        return f"{self.layout_name}_cu" if name == "cu" else f"delta-{self.model}_{self.way}_{name}"


def rule_text(p, types):
    """ejk.delta_rule, whose default scale is ½ for 4 channels."""
    clauses = [f"beta(%beta : {types['beta']})"]
    clauses += [f"{g}(%{g} : {types[g]})" for g in ("g", "gk") if g in p.shapes]
    clauses += [f"initial_state(%h0 : {types['h0']})"]
    clauses += [f"cu_seqlens(%cu : {types['cu']})"] if p.cu else []
    return "\n".join([f"  %o, %ht = ejk.delta_rule {'reverse ' if p.reverse else ''}%q, %k, %v",
                      *(f"      {clause}" for clause in clauses),
                      f"      : {types['q']}, {types['k']}, {types['v']}",
                      f"      -> {types['do']}, {types['dht']}"])


def scan_text(p, types):
    if p.model not in TEXT:
        return rule_text(p, types)
    rows = {n: ROW_NAMES.get((p.model, n), f"{n}t") for n in p.shapes}
    sequences = ", ".join(f"%{rows[n]} = %{n} : {types[n]}" for n in SEQUENCES[p.model])
    lines = [f"  %o, %ht = ejk.scan{' reverse' if p.reverse else ''}"
             + (f" cu_seqlens(%cu : {types['cu']})" if p.cu else ""),
             f"      sequences({sequences})"]
    parameters = PARAMETERS.get(p.model, {})
    if parameters:
        kinds = {1: "f32", 2: KEY}
        lines.append("      parameters(" + ", ".join(
            f"%{rows[n]} = %{n} : {types[n]} as {kinds[len(s)]}" for n, s in parameters.items())
            + ")")
    text, state = TEXT[p.model]
    return "\n".join([*lines, f"      states(%S = %h0 : {types['h0']}) -> ({types['do']}) {{",
                      text + f"    ejk.yield states(%{state} : {MATRIX}) outputs(%ot : {VALUE})",
                      "  }"])


class Text(Problem):
    """The function of a problem, and the lines of one that calls it, or its derivative."""

    def __init__(self, model, way, layouts, draw, mlir_type):
        super().__init__(model, way, layouts, draw)
        self.mlir_type, self.files = mlir_type, {}
        self.types = {n: mlir_type(s, "f32")
                      for n, s in {**self.shapes, **self.cotangent_shapes}.items()}
        self.arguments = list(self.shapes)
        if self.cu:
            self.types["cu"] = mlir_type((len(self.cu),), "i32")
            self.arguments.append("cu")
        types = self.types
        listed = ", ".join(f"%{n}: {types[n]}" for n in self.arguments)
        self.function = "\n".join([
            f"func.func @{way}({listed})", f"    -> ({types['do']}, {types['dht']}) {{",
            scan_text(self, types), f"  return %o, %ht : {types['do']}, {types['dht']}", "}", ""])

    def load(self, arrays):
        """Loads arrays by name; None is for the offsets."""
        lines = []
        for n, array in arrays.items():
            self.files[self.file(n)] = (np.array(self.cu, np.int32) if n == "cu"
                                        else array.astype(np.float32))
            lines.append(f'  %{n} = check.load "{self.file(n)}.npy" : {self.types[n]}')
        return lines

    def given(self):
        """The function's operands."""
        return {n: self.inputs.get(n) for n in self.arguments}

    def call(self, callee, names, results):
        ins = ", ".join(self.types[n] for n in names)
        outs = ", ".join(t for _, t in results)
        return [f"  {', '.join(f'%{n}' for n, _ in results)} = func.call @{callee}("
                f"{', '.join(f'%{n}' for n in names)})", f"      : ({ins})", f"      -> ({outs})"]

    def declare(self, callee, names, results):
        return (f"func.func private @{callee}({', '.join(self.types[n] for n in names)})\n"
                f"    -> ({', '.join(t for _, t in results)})\n")

    def expect(self, file, name, array, type_, tolerance="1.0e-11"):
        self.files[file] = array
        wide = self.mlir_type(array.shape, "f64")
        return [f'  %e_{name} = check.load "{file}.npy" : {wide}',
                f"  %w_{name} = arith.extf %{name} : {type_} to {wide}",
                f"  check.expect_close %w_{name}, %e_{name} max_relative {tolerance} : {wide}"]

    def checked(self, lines):
        return "\n".join([f"func.func @check_{self.way}() {{", *lines, "  return", "}", ""])


def test(model, layouts, draw, mlir_type):
    """The text of the forward test and of the gradients', and the arrays that they load."""
    forwards, gradients, files = [], [], {}
    for way in WAYS:
        p = Text(model, way, layouts, draw, mlir_type)
        o, ht = forward(model, p.inputs, **p.options)
        grads = backward(model, p.inputs, p.cotangents, **p.options)
        check(model, p.inputs, p.cotangents, grads, **p.options)
        types = p.types
        lines = p.load(p.given())
        lines += p.call(way, p.arguments, [("o", types["do"]), ("ht", types["dht"])])
        lines += p.expect(p.file("o"), "o", o, types["do"])
        lines += p.expect(p.file("ht"), "ht", ht, types["dht"])
        forwards.append(p.function + "\n" + p.checked(lines))

        given = {**p.given(), **p.cotangents}
        results = [(f"g_{n}", types[n]) for n in p.shapes]
        lines = p.load(given) + p.call(f"{way}_vjp", given, results)
        for n, grad in grads.items():
            lines += p.expect(f"vjp-{p.file(n)}", f"g_{n}", grad, types[n])
        gradients.append("\n".join([p.function, p.declare(f"{way}_vjp", given, results),
                                    p.checked(lines)]))
        files.update(p.files)
    return "\n".join(forwards), "\n".join(gradients), files


def second_test(model, layouts, draw, mlir_type):
    """The text of a test of Σ w ⊙ gradients' derivative, and the arrays that it loads. That
    is the gradients' change along w, here by central differences, and by the cotangents the
    outputs' change."""
    p = Text(model, "packed_reverse", layouts, draw, mlir_type)
    weights = {n: draw(p.layout_name, f"w_{model}_{n}", s).astype(np.float64)
               for n, s in p.shapes.items()}

    def along(step):
        return {n: x + step * weights[n] for n, x in p.inputs.items()}
    step = 1e-5
    sides = [backward(model, along(side), p.cotangents, **p.options) for side in (step, -step)]
    grads = {n: (sides[0][n] - sides[1][n]) / (2 * step) for n in p.inputs}
    tiny = 2.0 ** -100
    grads["do"], grads["dht"] = (
        x.imag / tiny for x in forward(model, along(1j * tiny), **p.options))
    p.types.update({f"w_{n}": p.types[n] for n in weights})
    given = {**p.given(), **p.cotangents, **{f"w_{n}": w for n, w in weights.items()}}
    results = [(f"g_{n}", p.types[n]) for n in grads]
    callee = f"{p.way}_vjp_vjp"
    lines = p.load(given) + p.call(callee, given, results)
    for n, grad in grads.items():
        lines += p.expect(f"vjp2-{p.file(n)}", f"g_{n}", grad, p.types[n], "1.0e-7")
    return ("\n".join([p.function, p.declare(callee, given, results), p.checked(lines)]), p.files)
