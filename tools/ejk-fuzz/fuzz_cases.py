"""Random cases for ejk-fuzz: MLIR text, inputs and the oracle's answer.

A case is a function of (seed, index, limits) and nothing else.
"""
import numpy as np
import oracle
import tensors

ODD_CHANNELS = [1, 2, 3, 5, 7, 15, 17, 24, 31, 33, 48, 60, 63, 65, 72, 96, 100, 127, 130, 200, 257,
                384, 500, 511]
EVEN_CHANNELS = [8, 16, 32, 64, 128, 256, 512]
FORMS = ["recurrent"] * 5 + ["gla"] * 2 + ["lightning_attn", "softplus_scan", "logsigmoid_scan"]


class Case:
    """text: the MLIR. inputs and expected: {name: (kind, array)}, expected in f64.
    magnitude(): what the results would be with every term's absolute value."""

    def __init__(self, seed, index, max_steps, max_elements):
        self.rng = np.random.default_rng([seed, index])
        self.inputs, self.arguments = {}, []
        self.draw_sizes(max_steps, max_elements)
        self.form = self.pick(FORMS)
        self.reverse = self.chance(0.3)
        self.options = {"reverse": self.reverse, "cu_seqlens": self.cu}
        self.draw_tensors()
        build = getattr(self, "build_" + self.form, self.build_named)
        body = build()
        results = self.pick([("o", "ht")] * 8 + [("o",), ("ht",)])
        self.write(body, results)
        o, ht = oracle.forward(*self.operands, **self.options)
        self.expected = {n: ("f64", x) for n, x in (("o", o), ("ht", ht)) if n in results}

    def magnitude(self):
        options = dict(self.options)
        options["scale"] = abs(self.scale)
        if options.get("h0") is not None:
            options["h0"] = np.abs(options["h0"])
        o, ht = oracle.forward(*(np.abs(x) for x in self.operands), **options)
        return {"o": o, "ht": ht}

    # Small draws.

    def chance(self, p):
        return bool(self.rng.random() < p)

    def pick(self, choices):
        return choices[int(self.rng.integers(len(choices)))]

    def channels(self):
        return int(self.pick([self.pick(ODD_CHANNELS), self.pick(ODD_CHANNELS),
                              self.pick(EVEN_CHANNELS), self.rng.integers(1, 513)]))

    def draw_sizes(self, max_steps, max_elements):
        self.K, self.V = self.channels(), self.channels()
        self.kv_heads, share = int(self.rng.integers(1, 4)), self.pick([1, 1, 1, 2, 3, 4])
        self.B, self.T = int(self.rng.integers(1, 4)), int(max_steps ** self.rng.random())
        # The oracle's work; shrink what can be shrunk, the sizes of a head last.
        work = lambda: self.B * self.T * self.kv_heads * share * self.K * self.V
        while work() > max_elements and (self.T > 1 or self.kv_heads * share * self.B > 1):
            if self.T > 16 or self.kv_heads * share * self.B == 1:
                self.T = self.T // 2
            elif self.B > 1:
                self.B -= 1
            else:
                self.kv_heads, share = 1, 1 if share == 1 or self.kv_heads == 1 else share
        self.H, self.cu = self.kv_heads * share, None
        if self.chance(0.35):
            self.T, self.B = self.T * self.B, 1
            inner = list(self.rng.integers(0, self.T + 1, int(self.rng.integers(0, 7))))
            if self.chance(0.6):
                inner += inner[:2]  # an empty sequence
            if self.chance(0.6):
                inner += [c + 1 for c in inner[:1] if c < self.T]  # and one of length 1
            if self.chance(0.03):
                self.T, inner = 0, [0]
            self.cu = np.array(sorted([0, self.T] + [int(c) for c in inner]))
        self.N = self.B if self.cu is None else len(self.cu) - 1
        self.sizes = {"B": self.B, "T": self.T, "N": self.N, "N+1": self.N + 1, "H": self.H,
                      "Hkv": self.kv_heads, "K": self.K, "V": self.V}
        dynamic = self.pick([0.0, 0.5, 1.0])
        self.dynamic = {letter for letter in ("B", "T", "N", "H", "Hkv") if self.chance(dynamic)}
        if "N" in self.dynamic:
            self.dynamic.add("N+1")

    def shape(self, letters):
        return tuple(self.sizes[letter] for letter in letters.split(","))

    def type(self, letters, kind):
        dims = "".join(("?" if letter in self.dynamic else str(self.sizes[letter])) + "x"
                       for letter in letters.split(",") if letter)
        return f"tensor<{dims}{kind}>"

    def add(self, name, letters, kind, array):
        """Adds an argument; gives back its f64 value after rounding to `kind`."""
        array = tensors.round_to(np.asarray(array).reshape(self.shape(letters)), kind)
        self.inputs[name] = (kind, array)
        self.arguments.append((name, self.type(letters, kind)))
        return array.astype(np.float64)

    def gate(self, letters):
        """Log decays from 0 to -inf, in one of several moods."""
        shape = self.shape(letters)
        decay = self.rng.exponential(1.0, shape)
        mood = self.pick(["mild", "mild", "slow", "strong", "mixed", "mixed", "forget", "zero"])
        if mood == "zero":
            return np.zeros(shape)
        if mood == "forget":
            return np.full(shape, -np.inf)
        gate = -decay * {"mild": 0.1, "slow": 1e-3, "strong": 8.0, "mixed": 1.0}[mood]
        if mood == "mixed":
            special = np.array([0.0, -np.inf, -1e-6, -90.0, -110.0, -1e4, -1e30])
            gate = np.where(self.rng.random(shape) < 0.3, self.rng.choice(special, shape), gate)
        return gate

    def draw_tensors(self):
        self.kind = self.pick(["f32", "f32", "f16", "bf16", "bf16"])
        normal = self.rng.standard_normal
        self.operands = [self.add(name, letters, self.kind, normal(self.shape(letters)))
                         for name, letters in (("q", "B,T,H,K"), ("k", "B,T,Hkv,K"),
                                               ("v", "B,T,Hkv,V"))]
        self.scale = self.pick([None, None, 1.0, 0.1234, -0.5])
        if self.scale is not None and self.scale != 1.0 and self.form.endswith("scan"):
            self.scale = float(np.float32(self.scale))  # the step holds it in f32
        self.options["scale"] = self.scale
        self.attributes = [] if self.scale is None else [f"softmax_scale = {self.scale:.17e} : f64"]
        if self.scale is None:
            self.scale = self.K ** -0.5

    def add_rest(self):
        """h0 and cu_seqlens, which come last."""
        if self.chance(0.5):
            letters = "N,H,K,V"
            self.options["h0"] = self.add("h0", letters, "f32",
                                          self.rng.standard_normal(self.shape(letters)))
        if self.cu is not None:
            self.add("cu_seqlens", "N+1", self.pick(["i32", "i64"]), self.cu)

    # The named forms.

    def build_named(self):
        gates = {"recurrent": ["g", "g_gamma", "gk", "gv"], "gla": ["g", "g_gamma"]}
        for name in gates.get(self.form, []):
            if self.chance(0.45):
                letters = {"g": self.pick(["B,T,H", "B,T,H,K"]), "gk": "B,T,H,K", "gv": "B,T,H,V",
                           "g_gamma": self.pick(["H", "N,H"])}[name]
                kind = "f32" if name == "g_gamma" else self.pick(["f32", self.kind])
                self.options[name] = self.add(name, letters, kind, self.gate(letters))
        if self.form == "lightning_attn":
            layers = int(self.rng.integers(1, 33))
            layer = int(self.rng.integers(layers))
            self.attributes += [f"layer_idx = {layer} : i64", f"num_layers = {layers} : i64"]
            self.options["g_gamma"] = oracle.lightning_gamma(self.H, layer, layers)
        self.add_rest()
        types = dict(self.arguments)
        spelled = {"h0": "initial_state"}
        optional = " ".join(f"{spelled.get(n, n)}(%{n} : {t})" for n, t in self.arguments[3:])
        attributes = " {" + ", ".join(self.attributes) + "}" if self.attributes else ""
        return f"""  %o, %ht = ejk.{self.form} {"reverse " if self.reverse else ""}%q, %k, %v {optional}
      {attributes} : {types["q"]}, {types["k"]}, {types["v"]}
      -> {self.type("B,T,H,V", self.kind)}, {self.type("N,H,K,V", "f32")}
"""

    # Scans with a gate of the user's own, computed in the step.

    def build_softplus_scan(self):
        """Mamba-2: decay exp(-exp(A)·softplus(dt + bias)), update times the softplus."""
        normal = self.rng.standard_normal
        dt = self.add("dt", "B,T,H", "f32", normal(self.shape("B,T,H")) * self.pick([1.0, 6.0]))
        letters = self.pick(["H", "N,H"])
        a = self.add("a", letters, "f32", normal(self.shape(letters)))
        bias = self.add("bias", "H", "f32", normal(self.shape("H")))
        self.add_rest()
        step = np.logaddexp(0.0, dt + bias)
        if letters == "H":
            rate = np.broadcast_to(np.exp(a), dt.shape)
        elif self.cu is None:
            rate = np.broadcast_to(np.exp(a)[:, None], dt.shape)
        else:
            rate = np.repeat(np.exp(a), np.diff(self.cu), axis=0)[None]
        self.options["g"] = -rate * step
        q, k, v = self.operands
        share = self.H // self.kv_heads
        self.operands = [q, np.repeat(k, share, axis=2),
                         np.repeat(v, share, axis=2) * step[..., None]]
        types = dict(self.arguments)
        body = f"""    %zero = arith.constant 0.0 : f32
    %y = arith.addf %dt_w, %bias_t : f32
    %top = arith.maximumf %y, %zero : f32
    %abs = math.absf %y : f32
    %low = arith.negf %abs : f32
    %e = math.exp %low : f32
    %l = math.log1p %e : f32
    %step = arith.addf %top, %l : f32
    %ea = math.exp %a_t : f32
    %rate = arith.mulf %ea, %step : f32
    %gate = arith.negf %rate : f32
    %S1 = ejk.decay %S by %gate along head : vector<{self.K}x{self.V}xf32>, f32
    %steps = vector.broadcast %step : f32 to vector<{self.V}xf32>
    %value = arith.mulf %v_w, %steps : vector<{self.V}xf32>
"""
        return self.scan(["q", "k", "v", "dt"], [f"%a_t = %a : {types['a']} as f32",
                                                 f"%bias_t = %bias : {types['bias']} as f32"], body,
                         value="%value")

    def build_logsigmoid_scan(self):
        """GLA: decay logsigmoid(x)/16 along the key, from logits x."""
        letters, kind = "B,T,H,K", self.pick(["f32", self.kind])
        x = self.rng.standard_normal(self.shape(letters)) * self.pick([1.0, 5.0])
        if self.chance(0.3):
            special = np.array([-np.inf, -1e4, -200.0, 60.0])
            x = np.where(self.rng.random(x.shape) < 0.1, self.rng.choice(special, x.shape), x)
        x = self.add("x", letters, kind, x)
        self.add_rest()
        self.options["gk"] = -np.logaddexp(0.0, -x) / 16
        vector = f"vector<{self.K}xf32>"
        body = f"""    %zero = arith.constant dense<0.0> : {vector}
    %sixteenth = arith.constant dense<0.0625> : {vector}
    %bottom = arith.minimumf %x_w, %zero : {vector}
    %abs = math.absf %x_w : {vector}
    %low = arith.negf %abs : {vector}
    %e = math.exp %low : {vector}
    %l = math.log1p %e : {vector}
    %log = arith.subf %bottom, %l : {vector}
    %gate = arith.mulf %log, %sixteenth : {vector}
    %S1 = ejk.decay %S by %gate along key : vector<{self.K}x{self.V}xf32>, {vector}
"""
        return self.scan(["q", "k", "v", "x"], [], body, value="%v_w")

    def scan(self, sequences, parameters, gate_body, value):
        """The scan around the gate, which makes %S1: rows widened, the output rounded."""
        types, K, V = dict(self.arguments), self.K, self.V
        row_sizes = {"q": K, "k": K, "v": V, "x": K}
        self.scale = self.options["scale"] = float(np.float32(self.scale))
        # A row is %NAME_w in f32: its own name, or that of the row it is widened from.
        narrow = {n: self.inputs[n][0] for n in sequences if self.inputs[n][0] != "f32"}
        row = lambda n: f"%{n}_t" if n in narrow else f"%{n}_w"
        widened = "".join(f"    %{n}_w = arith.extf %{n}_t : vector<{row_sizes[n]}x{kind}> to "
                          f"vector<{row_sizes[n]}xf32>\n" for n, kind in narrow.items())
        rounded, tail = "%o_w", ""
        if self.kind != "f32":
            rounded = "%o_t"
            tail = f"    %o_t = arith.truncf %o_w : vector<{V}xf32> to vector<{V}x{self.kind}>\n"
        state = f"%h0 : {types['h0']}" if "h0" in types else f"zero : {self.type('N,H,K,V', 'f32')}"
        cu = f"cu_seqlens(%cu_seqlens : {types['cu_seqlens']})" if self.cu is not None else ""
        entries = ", ".join(f"{row(n)} = %{n} : {types[n]}" for n in sequences)
        given = f"\n      parameters({', '.join(parameters)})" if parameters else ""
        return f"""  %o, %ht = ejk.scan {"reverse" if self.reverse else ""} {cu}
      sequences({entries}){given}
      states(%S = {state})
      -> ({self.type("B,T,H,V", self.kind)}) {{
{widened}{gate_body}\
    %S2 = ejk.outer_add %S1, %k_w, {value} : vector<{K}x{V}xf32>, vector<{K}xf32>, vector<{V}xf32>
    %scale = arith.constant dense<{self.scale:.17e}> : vector<{K}xf32>
    %q_s = arith.mulf %q_w, %scale : vector<{K}xf32>
    %o_w = ejk.read %S2, %q_s along key : vector<{K}x{V}xf32>, vector<{K}xf32>
{tail}    ejk.yield states(%S2 : vector<{K}x{V}xf32>) outputs({rounded} : vector<{V}x{self.kind}>)
  }}
"""

    def write(self, body, results):
        types = {"o": self.type("B,T,H,V", self.kind), "ht": self.type("N,H,K,V", "f32")}
        arguments = ",\n    ".join(f'%{n}: {t} {{ejk.name = "{n}"}}' for n, t in self.arguments)
        named = ", ".join(f'{types[n]} {{ejk.name = "{n}"}}' for n in results)
        self.text = (f"// {self.describe()}\nfunc.func @case(\n    {arguments})\n    -> ({named}) {{\n"
                     f"{body}  return {', '.join('%' + n for n in results)} : "
                     f"{', '.join(types[n] for n in results)}\n}}\n")

    def describe(self):
        extras = [n for n, _ in self.arguments[3:]] + (["reverse"] if self.reverse else [])
        return (f"{self.form} {self.kind} B={self.B} T={self.T} N={self.N} H={self.H} "
                f"Hkv={self.kv_heads} K={self.K} V={self.V} {' '.join(extras)}")
