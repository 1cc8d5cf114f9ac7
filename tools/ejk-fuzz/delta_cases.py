"""Random cases of steps that correct their state, for ejk-fuzz: ejk.delta_rule, and scans like it
that nobody has published.

As in fuzz_cases, a case is a function of its seed, number, limits and schedule. Key heads may be
fewer than value heads, or value heads fewer than key heads; keys have length 0.97, so that β up to
2 keeps the state bounded, and may point nearly one way. A step may normalise keys and queries of any
length, and make β of a number by a sigmoid.
"""
import numpy as np
import corrections
import tensors
from corrections import Part
from fuzz_cases import FLOATS, Case

# What of the model's error a result may have, which is drawn from the same roundings in another
# order.
MODEL = {"f32": 4.0, "by chunks": 1.5}
FORMS = ["delta_rule"] * 3 + ["scan"] * 3
SEQUENCE_ROWS = {"q": "K", "k": "K", "v": "V", "a": "K", "p": "V", "w": "V", "e": "K"}


EPSILON = float(np.float32(1e-3))  # of norms in a step


def normalised(rows):
    return rows / np.sqrt((rows * rows).sum(axis=-1, keepdims=True) + EPSILON)


def through_norm(rows, grad):
    """The gradient by `rows` of what has the gradient `grad` by the normalised rows."""
    over = 1 / np.sqrt((rows * rows).sum(axis=-1, keepdims=True) + EPSILON)
    return over * grad - over ** 3 * rows * (rows * grad).sum(axis=-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rounder(kind):
    return lambda x: tensors.round_to(x, kind).astype(np.float64)


class DeltaCase(Case):
    has_model = True

    def draw_form(self):
        """H is the number of states, Hkv of the keys' heads or of the values'."""
        form = self.pick(FORMS)
        self.shared = "k" if form == "delta_rule" else self.pick("kv")
        return form

    def group_states(self):
        """With a state shared by query heads, Hkv is the number of states, and H that of queries."""
        super().group_states()
        if self.shares_states:
            self.shared = "nothing but states"

    def heads(self, name):
        if self.shares_states:
            return "H" if name == "q" else "Hs"
        few = {"k": "qka", "v": "vpw"}[self.shared]
        return "Hkv" if name in few else "H"

    def row(self, name, array):
        letters = f"B,T,{self.heads(name)},{SEQUENCE_ROWS[name]}"
        return letters, array(self.shape(letters))

    def keys(self, shape):
        """Of length 0.97; of some cases all nearly one way."""
        keys = self.rng.standard_normal(shape)
        if self.parallel:
            keys = 4.0 + keys * self.pick([1.0, 0.1])
        keys = 0.97 * keys / np.maximum(np.linalg.norm(keys, axis=-1, keepdims=True), 1e-3)
        return keys * np.exp2(self.rng.uniform(-1, 5, (*shape[:-1], 1))) if self.normalises else keys

    def draw_tensors(self):
        self.kind = "bf16" if self.usual else self.pick(["f32", "f32", "f16", "bf16", "bf16"])
        self.parallel, self.bends = self.chance(0.3), False
        # A key of one channel has a length of 1 whatever it is: its gradient is what rounding leaves of 0.
        self.normalises = self.form == "scan" and self.chance(0.4) and self.K > 1
        self.x, normal = {}, self.rng.standard_normal
        for name, array in (("q", normal), ("k", self.keys), ("v", normal)):
            letters, drawn = self.row(name, array)
            self.x[name] = self.add(name, letters, self.kind, drawn)
        self.scale = self.pick([None, None, 1.0, 0.1234, -0.5])
        self.attributes = [] if self.scale is None else [f"softmax_scale = {self.scale:.17e} : f64"]
        if self.scale is None:
            self.scale = self.K ** -0.5
        if self.gradients or self.form == "scan":
            self.scale = float(np.float32(self.scale))  # a step holds it in f32
        most = self.pick([1.0, 1.0, 2.0])
        kind = self.pick(["f32", self.kind, self.pick(FLOATS)])
        draw = self.rng.standard_normal if self.normalises else lambda shape: most * self.rng.random(shape)
        self.x["beta"] = self.add("beta", "B,T,Hs", kind, draw(self.shape("B,T,Hs")))

    def draw_gates(self, names):
        one = self.pick(names) if self.usual else None
        for name in names:
            if name == one or (not one and self.chance(0.45)):
                letters = {"g": "B,T,Hs", "gk": "B,T,Hs,K", "gv": "B,T,Hs,V"}[name]
                self.options[name] = self.x[name] = self.add(
                    name, letters, self.pick(["f32", self.kind, self.pick(FLOATS)]), self.gate(letters))

    def build_delta_rule(self):
        """By its name."""
        self.draw_gates(["g", "gk"])
        self.add_rest()
        self.parts = [Part("k", "w", "c", "k")]
        types = dict(self.arguments)
        spelled = {"h0": "initial_state"}
        optional = " ".join(f"{spelled.get(n, n)}(%{n} : {t})" for n, t in self.arguments[3:])
        attributes = " {" + ", ".join(self.attributes) + "}" if self.attributes else ""
        flags = "reverse " * self.reverse + "shared_state " * self.shares_states
        return f"""  %o, %ht = ejk.delta_rule {flags}%q, %k, %v {optional}
      {attributes} : {types["q"]}, {types["k"]}, {types["v"]}
      -> {self.type("B,T,H,V", self.kind)}, {self.type("N,Hs,K,V", "f32")}
"""

    def build_scan(self):
        """A step of corrections: its add along another key than it reads, its read before the
        decay, other outer products beside it, a second one, or one that is not linear."""
        K, V = self.K, self.V
        S, key, value = f"vector<{K}x{V}xf32>", f"vector<{K}xf32>", f"vector<{V}xf32>"
        before, other, second = (self.chance(p) for p in (0.3, 0.3, 0.15))
        plain = self.chance(0.35)
        self.bends = self.chance(0.1)
        sequences = ["q", "k", "v", "beta"]
        def more(name, array):
            letters, drawn = self.row(name, array)
            self.x[name] = self.add(name, letters, self.kind, drawn)
            sequences.append(name)
        normal = self.rng.standard_normal
        if other or second:
            # With rates from 0 to 1 for k's channels, as RWKV-7 has it, states stay bounded.
            more("a", lambda shape: self.value_of("k") * self.rng.random(shape))
        if plain:
            more("p", normal)
            more("e", lambda shape: 0.1 * normal(shape))
        if second:
            more("w", normal)
        self.draw_gates(["g", "gk", "gv"])
        self.add_rest()
        sequences += [name for name in ("g", "gk", "gv") if name in self.x]
        add = "a" if other else "k"
        corrects = Part(add, "w0", "c", "k", before=before, bends=self.bends)
        self.parts, text, state = [corrects], [], "%S"
        if before:
            text.append(f"%r = ejk.read %S, %k_w along key : {S}, {key}")
        for name, axis, kind in (("g", "head", "f32"), ("gk", "key", key), ("gv", "value", value)):
            if name in self.x:
                gate = self.add_gate(text, name, kind)
                text.append(f"%S{name} = ejk.decay {state} by {gate} along {axis} : {S}, {kind}")
                state = f"%S{name}"
        if not before:
            text.append(f"%r = ejk.read {state}, %k_w along key : {S}, {key}")
        text += [f"%betas = vector.broadcast %beta_w : f32 to {value}",
                 f"%left = arith.subf %v_w, %r : {value}",
                 f"%u = arith.mulf %betas, %left : {value}"]
        if self.bends:
            text.append(f"%bent = math.tanh %u : {value}")
        text.append(f"%S1 = ejk.outer_add {state}, %{add}_w, {'%bent' if self.bends else '%u'} : "
                    f"{S}, {key}, {value}")
        state = "%S1"
        if plain:
            self.parts.append(Part("e", "p"))
            text.append(f"%S2 = ejk.outer_add {state}, %e_w, %p_w : {S}, {key}, {value}")
            state = "%S2"
        if second:
            self.parts.append(Part("a", "w2", "c", "a"))
            text += [f"%r2 = ejk.read {state}, %a_w along key : {S}, {key}",
                     f"%left2 = arith.subf %w_w, %r2 : {value}",
                     f"%u2 = arith.mulf %betas, %left2 : {value}",
                     f"%S3 = ejk.outer_add {state}, %a_w, %u2 : {S}, {key}, {value}"]
            state = "%S3"
        return self.step(sequences, text, state)

    @staticmethod
    def norm_lines(name, vector):
        return [f"%{name}_squares = arith.mulf %{name}_r, %{name}_r : {vector}",
                f"%{name}_sum = ejk.sum %{name}_squares : {vector}",
                f"%{name}_epsilon = arith.constant {EPSILON:.17e} : f32",
                f"%{name}_more = arith.addf %{name}_sum, %{name}_epsilon : f32",
                f"%{name}_over = math.rsqrt %{name}_more : f32",
                f"%{name}_each = vector.broadcast %{name}_over : f32 to {vector}",
                f"%{name}_w = arith.mulf %{name}_r, %{name}_each : {vector}"]

    def add_gate(self, text, name, kind):
        """The gate as it is given, or clipped to bounds that it lies within, and at which its slope differs from one
        side to the other: chunks then need no range guard."""
        least, most = self.x[name].min(initial=0.0), self.x[name].max(initial=-1.0)
        bound = next((bound for bound in (-2.5, -3.5, -5.0, -7.5) if bound < least - 0.01), None)
        if not self.is_bounded or bound is None or most > -5e-4:
            return f"%{name}_w"
        for which, value in (("low", bound), ("high", 0.0)):
            text.append(f"%{name}_{which} = arith.constant {value if kind == 'f32' else f'dense<{value}>'} : {kind}")
        text.append(f"%{name}_b = math.clampf %{name}_w to [%{name}_low, %{name}_high] : {kind}")
        return f"%{name}_b"

    @staticmethod
    def sigmoid_lines():
        return ["%beta_one = arith.constant 1.0 : f32", "%beta_minus = arith.negf %beta_r : f32",
                "%beta_e = math.exp %beta_minus : f32", "%beta_sum = arith.addf %beta_one, %beta_e : f32",
                "%beta_w = arith.divf %beta_one, %beta_sum : f32"]

    def step(self, sequences, text, state):
        """The scan of these lines. The first sequence has a head for each state."""
        types, K, V = dict(self.arguments), self.K, self.V
        sizes = {**SEQUENCE_ROWS, "gk": "K", "gv": "V"}
        states = self.sizes["Hs"]
        sequences = sorted(sequences, key=lambda name: self.inputs[name][1].shape[2] != states)
        lines, entries = [], []
        for name in sequences:
            kind = self.inputs[name][0]
            vector = lambda of: f"vector<{self.sizes[sizes[name]]}x{of}>" if name in sizes else of
            narrow = kind != "f32"
            made = "r" if self.normalises and name in ("q", "k", "beta") else "w"
            entries.append(f"%{name}_{'t' if narrow else made} = %{name} : {types[name]}")
            if narrow:
                lines.append(f"%{name}_{made} = arith.extf %{name}_t : {vector(kind)} to "
                             f"{vector('f32')}")
            if made == "r":
                lines += self.sigmoid_lines() if name == "beta" else self.norm_lines(name, vector("f32"))
        key, value = f"vector<{K}xf32>", f"vector<{V}xf32>"
        tail = [f"%scale = arith.constant dense<{self.scale:.17e}> : {key}",
                f"%q_s = arith.mulf %q_w, %scale : {key}",
                f"%o_w = ejk.read {state}, %q_s along key : vector<{K}x{V}xf32>, {key}"]
        result = "%o_w"
        if self.kind != "f32":
            tail.append(f"%o_t = arith.truncf %o_w : {value} to vector<{V}x{self.kind}>")
            result = "%o_t"
        tail.append(f"ejk.yield states({state} : vector<{K}x{V}xf32>) outputs({result} : "
                    f"vector<{V}x{self.kind}>)")
        body = "".join(f"    {line}\n" for line in lines + text + tail)
        start = f"%h0 : {types['h0']}" if "h0" in types else f"zero : {self.type('N,Hs,K,V', 'f32')}"
        queries = ""
        if self.shares_states:
            queries = "\n      queries(" + next(e for e in entries if " = %q :" in e) + ")"
            entries = [e for e in entries if " = %q :" not in e]
        cu = f"cu_seqlens(%cu_seqlens : {types['cu_seqlens']})" if self.cu is not None else ""
        return f"""  %o, %ht = ejk.scan {"reverse" if self.reverse else ""} {cu}
      sequences({", ".join(entries)}){queries}
      states(%S = {start})
      -> ({self.type("B,T,H,V", self.kind)}) {{
{body}  }}
"""

    # The oracle's.

    def value_of(self, name):
        """What the step makes of the argument."""
        array = self.x[name]
        if not self.normalises or name not in ("q", "k", "beta"):
            return array
        return sigmoid(array) if name == "beta" else normalised(array)

    def operand(self, name):
        """With a head for each query or state, whichever are more: what the step computes of the
        arguments, too."""
        if name == "c":
            return -self.operand("beta")
        if name in ("w", "w0", "w2"):
            source = "v" if name == "w0" or self.form == "delta_rule" else "w"
            return self.operand("beta")[..., None] * self.operand("row " + source)
        array = self.value_of(name.removeprefix("row "))
        return np.repeat(array, self.H // array.shape[2], axis=2)

    def scan(self, rounded, terms=None):
        """The results or the gradients, by name."""
        names = {"q"} | {n for n in ("g", "gk", "gv") if n in self.x}
        for part in self.parts:
            names |= {n for n in (part.a, part.b, part.c, part.w) if n}
        x = {name: self.operand(name) for name in names}
        scans = corrections.scans_of(self.B, self.T, self.cu, self.reverse)
        h0 = self.options.get("h0")
        h0 = np.zeros(self.shape("N,Hs,K,V")) if h0 is None else h0
        h0 = np.repeat(h0, self.share, axis=1)
        if not self.gradients:
            o, ht = corrections.forward(x, self.parts, scans, h0, self.scale, rounded)
            ht = ht[:, ::self.share]
            return {name: a for name, a in (("o", o), ("ht", ht)) if name in self.results}
        do, dht = self.cotangents()
        grads = corrections.backward(x, self.parts, scans, h0, do, self.of_first_head(dht),
                                     self.scale, rounded, terms)
        beta = self.operand("beta")[..., None]
        found = {"beta": -grads.get("c", 0.0)}
        for name, array in grads.items():
            if name in ("c", "w", "w0", "w2"):
                continue
            found[name] = array
        for name in grads.keys() & {"w", "w0", "w2"}:
            source = "v" if name == "w0" or self.form == "delta_rule" else "w"
            found[source] = beta * grads[name]
            found["beta"] = found["beta"] + (grads[name] * self.operand("row " + source)).sum(axis=-1)
        if self.normalises:
            found["beta"] = found["beta"] * (beta * (1 - beta))[..., 0]
            for name in found.keys() & {"q", "k"}:
                rows = np.repeat(self.x[name], self.H // self.x[name].shape[2], axis=2)
                found[name] = through_norm(rows, found[name])
        return {"d" + name: self.fold(name, found[name]) for name in self.wrt}

    def fold(self, name, grad):
        """Sums over the heads that share an argument's."""
        if name == "h0":
            return self.per_state_head({name: grad})[name]
        heads = self.x[name].shape[2]
        return grad.reshape(*grad.shape[:2], heads, self.H // heads, *grad.shape[3:]).sum(axis=3)

    def answer(self, sized):
        return self.scan(corrections.same)

    def gate_terms(self):
        terms = {}
        self.scan(corrections.same, terms)
        return {"d" + name: self.fold(name, x) for name, x in terms.items() if name in self.wrt}

    def allowed(self, name, roundings, exact, by_chunks):
        """The error, as a norm, that rounding what matmuls take explains; in f64 what f32's does,
        less their ratio."""
        # by chunks computed operands are bf16, of f16 rows too
        kind = "bf16" if by_chunks else "f32"
        difference = np.linalg.norm(self.scan(rounder(kind))[name] - self.expected[name][1])
        return MODEL["by chunks" if by_chunks else "f32"] * difference * (2.0 ** -29 if exact
                                                                          else 1.0)

    def describe(self):
        drawn = [word for word, is_so in (("parallel", self.parallel), ("bends", self.bends),
                                          ("normalises", self.normalises),
                                          (f"{self.shared} shared",
                                           self.H != self.kv_heads and not self.shares_states))
                 if is_so]
        return " ".join(["correcting", super().describe(), *drawn])
