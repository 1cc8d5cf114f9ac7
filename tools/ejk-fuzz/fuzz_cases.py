"""Random cases for ejk-fuzz: MLIR text, inputs and the oracle's answer.

A case is a function of (seed, index, limits, schedule) and nothing else.
"""
import numpy as np
import oracle
import scan_steps
import tensors

ODD_CHANNELS = [1, 2, 3, 5, 7, 15, 17, 24, 31, 33, 48, 60, 63, 65, 72, 96, 100, 127, 130, 200, 257,
                384, 500, 511]
EVEN_CHANNELS = [8, 16, 32, 64, 128, 256, 512]
USUAL_CHANNELS = [64, 128]
GATES = ["g", "g_gamma", "gk", "gv"]
FLOATS = ["f32", "f16", "bf16"]
FORMS = ["recurrent"] * 5 + ["gla"] * 2 + ["lightning_attn", "softplus_scan", "logsigmoid_scan"]
# Drawn apart, so that other cases stay those without: a vector that decays beside the state, and rotated rows.
NEW_FORMS = ["normaliser_scan", "rotary_scan"]


class Case(scan_steps.Steps):
    """text: the MLIR. derivative: the options that make ejk-run and ejk-compile take its
    derivative, none if it is not to be taken. differences: whether it can stand being
    compared with central differences. inputs and expected: {name: (kind, array)},
    expected in f64: the results, or the gradients.
    usual: whether it is as models have them, for which `by_chunks` there are kernels of their own:
    of 64 or 128 channels, all rows in bf16, with one gate.
    magnitude(): what those would be with every term's absolute value.
    gate_terms(): of each gradient that a gate has a part in, the sizes of the gate's terms.
    has_no_effect(name): where a gate cannot have any, so that its gradient is zero."""

    # Whether `allowed` models the roundings of this case: then also those of a gate's gradient.
    has_model = False

    def __init__(self, seed, index, max_steps, max_elements, gradients, by_chunks=False):
        self.rng = np.random.default_rng([seed, index])
        # Of its own, so that other draws stay those of cases without.
        self.may_share = np.random.default_rng([seed, index, 3]).random() < 0.4
        self.of_new_form = np.random.default_rng([seed, index, 5])
        self.at_guard = np.random.default_rng([seed, index, 13])
        self.is_at_guard = self.at_guard.random() < 0.15
        # Whether the step says what its gates lie between.
        self.is_bounded = np.random.default_rng([seed, index, 17]).random() < 0.5
        self.inputs, self.arguments = {}, []
        self.derivative, self.differences = [], False
        self.gradients = self.chance({"never": 0, "some": 0.5, "always": 1}[gradients])
        self.usual = by_chunks and self.chance(0.3)
        # A backward goes over the steps twice, and the oracle keeps every state.
        self.draw_sizes(max_steps, max_elements // 4 if self.gradients else max_elements)
        self.form = self.draw_form()
        self.group_states()
        self.reverse = self.chance(0.3)
        self.options = {"reverse": self.reverse, "cu_seqlens": self.cu}
        self.draw_tensors()
        # A step that computes its gate leads its gradients on to its arguments.
        self.chain = lambda grads, sized: grads
        build = getattr(self, "build_" + self.form, self.build_named)
        body = build()
        self.results = self.pick([("o", "ht")] * 8 + [("o",), ("ht",)])
        if self.form == "normaliser_scan":
            self.results = ("o",)
        if self.gradients:
            self.draw_derivative()
        self.write(body)
        self.expected = {name: ("f64", x) for name, x in self.answer(lambda x: x).items()}

    def draw_form(self):
        form = self.pick(FORMS)
        if self.of_new_form.random() < 0.15:
            form = NEW_FORMS[int(self.of_new_form.integers(2))]
            if form == "rotary_scan" and self.K % 2:
                form = "normaliser_scan"
        return form

    def group_states(self):
        """Draws whether the query heads of a group share a state: gates, h0 and ht then have Hs
        heads, the keys' and values', and not the queries'."""
        self.shares_states = self.may_share and self.form != "lightning_attn"
        of = "Hkv" if self.shares_states else "H"
        self.sizes["Hs"] = self.sizes[of]
        self.share = self.H // self.sizes["Hs"]
        if of in self.dynamic:
            self.dynamic.add("Hs")

    def per_query_head(self, options):
        return oracle.per_query_head(self.share, options)

    def per_state_head(self, grads):
        """Sums of gradients that the oracle has for each query head."""
        axes = {"g": 2, "gk": 2, "gv": 2, "g_gamma": -1, "h0": 1, "a": -1, "bias": -1, "dt": 2,
                "x": 2}
        summed = {}
        for name, x in grads.items():
            axis = axes.get(name)
            if axis is not None and self.share > 1:
                axis %= x.ndim
                x = x.reshape(*x.shape[:axis], x.shape[axis] // self.share, self.share,
                              *x.shape[axis + 1:]).sum(axis + 1)
            summed[name] = x
        return summed

    def magnitude(self):
        return self.answer(np.abs)

    def allowed(self, name, roundings, exact, by_chunks):
        """The error, as a norm, of so many roundings of every term."""
        return roundings * np.linalg.norm(self.magnitude()[name])

    def answer(self, sized):
        """The oracle's, from operands that `sized` leaves as they are or makes absolute."""
        options = {**self.options, "scale": sized(self.scale)}
        if options.get("h0") is not None:
            options["h0"] = sized(options["h0"])
        operands = [sized(x) for x in self.operands]
        if self.gradients:
            return self.backward(operands, options, sized)
        o, ht = oracle.forward(*operands, **self.per_query_head(options))
        ht = ht[:, ::self.share]
        return {name: x for name, x in (("o", o), ("ht", ht)) if name in self.results}

    # Gradients.

    def draw_derivative(self):
        """Cotangents, and what to differentiate by: everything, or now and then a part."""
        for name, letters, kind in (("o", "B,T,H,V", self.kind), ("ht", "N,Hs,K,V", "f32")):
            if name in self.results:
                drawn = self.rng.standard_normal(self.shape(letters))
                self.inputs["d" + name] = (kind, tensors.round_to(drawn, kind))
        self.wrt = [name for name, _ in self.arguments if name != "cu_seqlens"]
        self.derivative = ["--vjp"]
        if self.chance(0.3):
            kept = self.rng.random(len(self.wrt)) < 0.5
            kept[self.rng.integers(len(kept))] = True
            self.wrt = [name for name, keep in zip(self.wrt, kept) if keep]
            self.derivative.append("--wrt=" + ",".join(self.wrt))
        # A gate moves all later steps: over many, third derivatives outgrow the step.
        self.differences = self.T <= 32 and self.chance(0.5)

    def backward(self, operands, options, sized):
        """{'dq': …}. Keys and values get a head for each query head, as the scans' have,
        for a gate's gradient has terms of each."""
        q, k, v = self.repeated(operands)
        do, dht = (sized(x) for x in self.cotangents())
        options = self.per_query_head(options)
        grads = oracle.backward(q, k, v, do, self.of_first_head(dht), **options)
        grads = self.chain(self.per_state_head(grads), sized)
        for name in ("k", "v"):
            x = grads[name]
            grads[name] = x.reshape(*x.shape[:2], self.kv_heads, self.H // self.kv_heads,
                                    x.shape[3]).sum(axis=3)
        return {"d" + name: grads[name] for name in self.wrt}

    def gate_terms(self):
        """{'dg': …}: the oracle's `gate_terms`, led on to the arguments of a step's own gate."""
        q, k, v = self.repeated(self.operands)
        do, dht = self.cotangents()
        terms = oracle.gate_terms(q, k, v, do, self.of_first_head(dht),
                                  **self.per_query_head(self.options), scale=self.scale)
        terms = self.per_state_head(terms)
        none = {"q": np.zeros(q.shape), "k": np.zeros(k.shape), "v": np.zeros(v.shape)}
        chained = self.chain({**none, **terms}, np.abs)
        return {"d" + name: x for name, x in chained.items() if name in self.wrt
                and name not in none}

    def has_no_effect(self, name):
        """Of the gradient `name`, where a gate has nothing to decay, or is -inf and leaves
        nothing: a mask, None where there is no such place."""
        gate = self.options.get(name[1:])
        if name == "dx":
            gate = self.options["gk"]
        elif name[1:] not in self.inputs or name[1:] not in GATES:
            return None
        mask = np.isneginf(gate)
        if self.options.get("h0") is not None:
            return mask
        ends = [0, self.T] if self.cu is None else self.cu
        spans = [(a, b) for a, b in zip(ends, ends[1:]) if b > a]
        if name == "dg_gamma":
            steps = np.array([b - a for a, b in zip(ends, ends[1:])])
            steps = steps if self.cu is not None else np.repeat(steps, self.B)
            idle = steps <= 1
            return mask | (idle[:, None] if gate.ndim == 2 else idle.all())
        for a, b in spans:
            mask[:, b - 1 if self.reverse else a] = True
        return mask

    def of_first_head(self, dht):
        """A cotangent of states for each query head: the group's, and zero but in the first."""
        given = np.zeros((dht.shape[0], self.H, *dht.shape[2:]))
        given[:, ::self.share] = dht
        return given

    def repeated(self, operands):
        """q, k and v, with keys and values for each query head."""
        return operands[0], *(np.repeat(x, self.H // x.shape[2], axis=2) for x in operands[1:])

    def cotangents(self):
        return [self.inputs[name][1].astype(np.float64) if name in self.inputs
                else np.zeros(self.shape(letters))
                for name, letters in (("do", "B,T,H,V"), ("dht", "N,Hs,K,V"))]

    def per_sequence(self, x):
        """Sums over each sequence's steps: [B,T,H] to [N,H]."""
        if self.cu is None:
            return x.sum(axis=1)
        return np.array([x[0, a:b].sum(axis=0) for a, b in zip(self.cu, self.cu[1:])])

    # Small draws.

    def chance(self, p):
        return bool(self.rng.random() < p)

    def pick(self, choices):
        return choices[int(self.rng.integers(len(choices)))]

    def channels(self):
        if self.usual:
            return int(self.pick(USUAL_CHANNELS))
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

    def has_other_halves(self):
        """Whether there are 16-bit inputs of another type than the rows."""
        return any(kind in FLOATS and kind not in ("f32", self.kind)
                   for kind, _ in self.inputs.values())

    def gate(self, letters):
        """Log decays from 0 to -inf, in one of several moods; some as models train with them."""
        shape = self.shape(letters)
        decay = self.rng.exponential(1.0, shape)
        if self.is_at_guard and len(shape) == 4:
            # Gates per channel of which the largest add up to nearly 64 over half of a chunk of 64, 32 or 16 rows,
            # which is what a chunk's range guard lets pass. Each head has other ones.
            means = self.at_guard.uniform(1.3, 1.9, shape[2]) * 2.0 ** self.at_guard.integers(3)
            drawn = means[:, None] * (1 + 0.3 * self.at_guard.standard_normal(shape))
            return -np.maximum(drawn, 1e-3)
        mood = self.pick(["mild", "mild", "slow", "tiny", "strong", "steep", "huge", "mixed",
                          "mixed", "forget", "zero", "sigmoid", "sigmoid", "softplus", "saturated"])
        if mood == "sigmoid":  # a bounded gate, with a bias for each channel or head
            bias = self.pick([0.0, -2.0]) + self.rng.standard_normal(shape[-1])
            return -5 / (1 + np.exp(-(bias + self.rng.standard_normal(shape))))
        if mood == "softplus":  # -exp(A) softplus(x + bias), as such models begin
            bias = np.log(np.expm1(np.exp(self.rng.uniform(np.log(1e-3), np.log(0.1), shape[-1]))))
            return -self.rng.uniform(1, 16) * np.log1p(np.exp(bias + self.rng.standard_normal(shape)))
        if mood == "saturated":  # channels that forget beside others that keep
            return np.where(self.rng.random(shape[-1]) < 0.5, -5.0, -1e-3) * np.ones(shape)
        if mood == "zero":
            return np.zeros(shape)
        if mood == "forget":
            return np.full(shape, -np.inf)
        if mood == "steep":
            return np.full(shape, -14.0)
        gate = -decay * {"mild": 0.1, "slow": 1e-3, "tiny": 1e-6, "strong": 8.0, "huge": 300.0,
                         "mixed": 1.0}[mood]
        if mood == "mixed":
            special = np.array([0.0, -np.inf, -1e-6, -90.0, -110.0, -1e4, -1e30])
            gate = np.where(self.rng.random(shape) < 0.3, self.rng.choice(special, shape), gate)
        return gate

    def draw_tensors(self):
        self.kind = "bf16" if self.usual else self.pick(["f32", "f32", "f16", "bf16", "bf16"])
        normal = self.rng.standard_normal
        self.operands = [self.add(name, letters, self.kind, normal(self.shape(letters)))
                         for name, letters in (("q", "B,T,H,K"), ("k", "B,T,Hkv,K"),
                                               ("v", "B,T,Hkv,V"))]
        self.scale = self.pick([None, None, 1.0, 0.1234, -0.5])
        self.attributes = [] if self.scale is None else [f"softmax_scale = {self.scale:.17e} : f64"]
        if self.scale is None:
            self.scale = self.K ** -0.5
        if self.gradients or self.form.endswith("scan"):
            self.scale = float(np.float32(self.scale))  # a step holds it in f32

    def add_rest(self):
        """h0 and cu_seqlens, which come last."""
        if self.chance(0.5):
            letters = "N,Hs,K,V"
            self.options["h0"] = self.add("h0", letters, "f32",
                                          self.rng.standard_normal(self.shape(letters)))
        if self.cu is not None:
            self.add("cu_seqlens", "N+1", self.pick(["i32", "i64"]), self.cu)

    # The named forms.

    def build_named(self):
        gates = {"recurrent": GATES, "gla": ["g", "g_gamma"]}
        names = gates.get(self.form, [])
        one = self.pick(names) if names and self.usual else None
        for name in names:
            if name == one or (not one and self.chance(0.45)):
                letters = {"g": self.pick(["B,T,Hs", "B,T,Hs,K"]), "gk": "B,T,Hs,K",
                           "gv": "B,T,Hs,V", "g_gamma": self.pick(["Hs", "N,Hs"])}[name]
                kinds = [self.kind] if self.usual else ["f32", self.kind, self.pick(FLOATS)]
                kind = "f32" if name == "g_gamma" else self.pick(kinds)
                self.options[name] = self.add(name, letters, kind, self.gate(letters))
        if self.form == "lightning_attn":
            # A step holds 1 - layer/layers in f32: exactly, where it is to give exact gradients.
            layers = 2 ** self.pick(range(6)) if self.gradients else int(self.rng.integers(1, 33))
            layer = int(self.rng.integers(layers))
            self.attributes += [f"layer_idx = {layer} : i64", f"num_layers = {layers} : i64"]
            self.options["g_gamma"] = oracle.lightning_gamma(self.H, layer, layers)
        self.add_rest()
        types = dict(self.arguments)
        spelled = {"h0": "initial_state"}
        optional = " ".join(f"{spelled.get(n, n)}(%{n} : {t})" for n, t in self.arguments[3:])
        attributes = " {" + ", ".join(self.attributes) + "}" if self.attributes else ""
        flags = "reverse " * self.reverse + "shared_state " * self.shares_states
        return f"""  %o, %ht = ejk.{self.form} {flags}%q, %k, %v {optional}
      {attributes} : {types["q"]}, {types["k"]}, {types["v"]}
      -> {self.type("B,T,H,V", self.kind)}, {self.type("N,Hs,K,V", "f32")}
"""

    def write(self, body):
        types = {"o": self.type("B,T,H,V", self.kind), "ht": self.type("N,Hs,K,V", "f32")}
        arguments = ",\n    ".join(f'%{n}: {t} {{ejk.name = "{n}"}}' for n, t in self.arguments)
        named = ", ".join(f'{types[n]} {{ejk.name = "{n}"}}' for n in self.results)
        self.text = (f"// {self.describe()}\nfunc.func @case(\n    {arguments})\n    -> ({named}) "
                     f"{{\n{body}  return {', '.join('%' + n for n in self.results)} : "
                     f"{', '.join(types[n] for n in self.results)}\n}}\n")

    def describe(self):
        extras = [n for n, _ in self.arguments[3:]] + (["reverse"] if self.reverse else [])
        extras += ["shared states"] if self.shares_states and self.share > 1 else []
        extras += ["gradients by"] + self.wrt if self.gradients else []
        return (f"{self.form} {self.kind} B={self.B} T={self.T} N={self.N} H={self.H} "
                f"Hkv={self.kv_heads} K={self.K} V={self.V} {' '.join(extras)}")
