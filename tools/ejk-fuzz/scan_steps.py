"""Steps of a user's own for ejk-fuzz: a gate that is computed in the step, a normaliser, rotated rows.

Each function draws its arguments, gives the oracle the operands and gates that the step amounts to, and
returns the scan as MLIR text.
"""
import numpy as np


def rotate_half(x):
    half = x.shape[-1] // 2
    return np.concatenate([-x[..., half:], x[..., :half]], axis=-1)


class Steps:
    """The part of fuzz_cases.Case that draws these forms. `chain` leads the oracle's gradients on to the
    step's own arguments; `sized` leaves a factor as it is or makes it absolute."""

    def build_softplus_scan(self):
        """Mamba-2: decay exp(-exp(A)·softplus(dt + bias)), update times the softplus."""
        normal = self.rng.standard_normal
        dt = self.add("dt", "B,T,Hs", "f32", normal(self.shape("B,T,Hs")) * self.pick([1.0, 6.0]))
        letters = self.pick(["Hs", "N,Hs"])
        a = self.add("a", letters, "f32", normal(self.shape(letters)))
        bias = self.add("bias", "Hs", "f32", normal(self.shape("Hs")))
        self.add_rest()
        step = np.logaddexp(0.0, dt + bias)
        if letters == "Hs":
            rate = np.broadcast_to(np.exp(a), dt.shape)
        elif self.cu is None:
            rate = np.broadcast_to(np.exp(a)[:, None], dt.shape)
        else:
            rate = np.repeat(np.exp(a), np.diff(self.cu), axis=0)[None]
        self.options["g"] = -rate * step
        q, k, v = self.operands
        k, v = (np.repeat(x, self.H // self.kv_heads, axis=2) for x in (k, v))
        steps = np.repeat(step, self.share, axis=2)
        self.operands = [q, k, v * steps[..., None]]

        def chain(grads, sized):
            dsteps = (grads["v"] * sized(v)).sum(axis=3)
            dstep = (self.per_state_head({"dt": dsteps})["dt"] + grads["g"] * sized(-rate))
            dy = dstep * np.exp(-np.logaddexp(0.0, -(dt + bias)))
            da = self.per_sequence(grads["g"] * sized(-rate * step))
            return {**grads, "v": grads["v"] * steps[..., None], "dt": dy,
                    "a": da if letters == "N,Hs" else da.sum(axis=0), "bias": dy.sum(axis=(0, 1))}
        self.chain = chain
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
        """GLA: decay logsigmoid(x)/16 along the key, from logits x, or -5 sigmoid(x)."""
        letters, kind = "B,T,Hs,K", self.pick(["f32", self.kind])
        x = self.rng.standard_normal(self.shape(letters)) * self.pick([1.0, 5.0])
        if self.chance(0.3):
            special = np.array([-np.inf, -1e4, -200.0, 60.0])
            x = np.where(self.rng.random(x.shape) < 0.1, self.rng.choice(special, x.shape), x)
        x = self.add("x", letters, kind, x)
        self.add_rest()
        vector = f"vector<{self.K}xf32>"
        if self.is_bounded:
            # From -5 to 0, as Kimi K3's gates: -5 sigmoid(x) by its tanh.
            self.options["gk"] = -2.5 - 2.5 * np.tanh(x / 2)
            slope = -1.25 * (1 - np.tanh(x / 2) ** 2)
            gate = f"""    %half = arith.constant dense<0.5> : {vector}
    %least = arith.constant dense<-2.5> : {vector}
    %x_half = arith.mulf %x_w, %half : {vector}
    %tanh = math.tanh %x_half : {vector}
    %part = arith.mulf %tanh, %least : {vector}
    %gate = arith.addf %part, %least : {vector}
"""
        else:
            self.options["gk"] = -np.logaddexp(0.0, -x) / 16
            slope = np.exp(-np.logaddexp(0.0, x)) / 16
            gate = f"""    %zero = arith.constant dense<0.0> : {vector}
    %sixteenth = arith.constant dense<0.0625> : {vector}
    %bottom = arith.minimumf %x_w, %zero : {vector}
    %abs = math.absf %x_w : {vector}
    %low = arith.negf %abs : {vector}
    %e = math.exp %low : {vector}
    %l = math.log1p %e : {vector}
    %log = arith.subf %bottom, %l : {vector}
    %gate = arith.mulf %log, %sixteenth : {vector}
"""
        self.chain = lambda grads, sized: {**grads, "x": grads["gk"] * slope}
        body = f"{gate}    %S1 = ejk.decay %S by %gate along key : vector<{self.K}x{self.V}xf32>, {vector}\n"
        return self.scan(["q", "k", "v", "x"], [], body, value="%v_w")

    def build_normaliser_scan(self):
        """A gate of a number, and a vector n with the same gate that keys are added to: o has n·q in every channel,
        as if each value were greater by 1."""
        g = self.add("g", "B,T,Hs", "f32", self.gate("B,T,Hs"))
        if self.cu is not None:
            self.add("cu_seqlens", "N+1", self.pick(["i32", "i64"]), self.cu)
        self.options["g"] = g
        q, k, v = self.operands
        self.operands = [q, k, v + 1.0]
        key, value = f"vector<{self.K}xf32>", f"vector<{self.V}xf32>"
        body = f"""    %S1 = ejk.decay %S by %g_w along head : vector<{self.K}x{self.V}xf32>, f32
    %kept = math.exp %g_w : f32
    %keeps = vector.broadcast %kept : f32 to {key}
    %n0 = arith.mulf %n, %keeps : {key}
    %n1 = arith.addf %n0, %k_w : {key}
"""
        read = f"""    %products = arith.mulf %n1, %q_s : {key}
    %dot = ejk.sum %products : {key}
    %dots = vector.broadcast %dot : f32 to {value}
    %o_r = ejk.read %S2, %q_s along key : vector<{self.K}x{self.V}xf32>, {key}
    %o_w = arith.addf %o_r, %dots : {value}
"""
        return self.scan(["q", "k", "v", "g"], [], body, value="%v_w", read=read,
                         more=("%n", f"zero : {self.type('N,Hs,K', 'f32')}", "%n1", key))

    def build_rotary_scan(self):
        """A gate of a number, and queries and keys that are rotated by the angles of the keys' heads."""
        letters, kind = "B,T,Hkv,K", self.pick(["f32", self.kind])
        r = self.add("r", letters, kind, self.rng.uniform(-4, 4, self.shape(letters)))
        self.options["g"] = self.add("g", "B,T,Hs", "f32", self.gate("B,T,Hs"))
        self.add_rest()
        share = self.H // self.kv_heads
        of_queries = lambda x: np.repeat(x, share, axis=2)
        q, k, v = self.operands
        cos, sin = np.cos(r), np.sin(r)
        turned = lambda x, c, s: x * c + rotate_half(x) * s
        own = (q, of_queries(k))  # before the rotation, for each query head
        cos_q, sin_q = of_queries(cos), of_queries(sin)
        self.operands = [turned(q, cos_q, sin_q), turned(k, cos, sin), v]

        def chain(grads, sized):
            size = (lambda x: x) if sized(-1.0) < 0 else np.abs
            back = lambda x: x * size(cos_q) + size(-rotate_half(x * size(sin_q)))
            angle = sum(grads[n] * size(rotate_half(x) * cos_q - x * sin_q)
                        for n, x in zip(("q", "k"), own))
            angle = angle.reshape(*r.shape[:3], share, r.shape[3]).sum(axis=3)
            return {**grads, "q": back(grads["q"]), "k": back(grads["k"]), "r": angle}
        self.chain = chain
        vector = f"vector<{self.K}xf32>"
        body = f"""    %cos = math.cos %r_w : {vector}
    %sin = math.sin %r_w : {vector}
"""
        for n in "qk":
            body += f"""    %{n}h = ejk.rotate_half %{n}_w : {vector}
    %{n}c = arith.mulf %{n}_w, %cos : {vector}
    %{n}s = arith.mulf %{n}h, %sin : {vector}
    %{n}_r = arith.addf %{n}c, %{n}s : {vector}
"""
        body += (f"    %S1 = ejk.decay %S by %g_w along head : vector<{self.K}x{self.V}xf32>, f32\n")
        return self.scan(["q", "k", "v", "r", "g"], [], body, value="%v_w", key="%k_r", query="%q_r")

    def scan(self, sequences, parameters, gate_body, value, key="%k_w", query="%q_w", read=None,
             more=None):
        """The scan around the gate, which makes %S1: rows widened, the output rounded. `read` makes %o_w of
        %q_s, and `more` is another state: its name, its start, its next value and its type."""
        types, K, V = dict(self.arguments), self.K, self.V
        row_sizes = {"q": K, "k": K, "v": V, "x": K, "r": K}
        # A row is %NAME_w in f32: its own name, or that of the row it is widened from.
        narrow = {n: self.inputs[n][0] for n in sequences if self.inputs[n][0] != "f32"}
        row = lambda n: f"%{n}_t" if n in narrow else f"%{n}_w"
        widened = "".join(f"    %{n}_w = arith.extf %{n}_t : vector<{row_sizes[n]}x{kind}> to "
                          f"vector<{row_sizes[n]}xf32>\n" for n, kind in narrow.items())
        rounded, tail = "%o_w", ""
        if self.kind != "f32":
            rounded = "%o_t"
            tail = f"    %o_t = arith.truncf %o_w : vector<{V}xf32> to vector<{V}x{self.kind}>\n"
        state = f"%h0 : {types['h0']}" if "h0" in types else f"zero : {self.type('N,Hs,K,V', 'f32')}"
        cu = f"cu_seqlens(%cu_seqlens : {types['cu_seqlens']})" if self.cu is not None else ""
        entry = lambda n: f"{row(n)} = %{n} : {types[n]}"
        queries = f"\n      queries({entry('q')})" if self.shares_states else ""
        entries = ", ".join(entry(n) for n in sequences if n != "q" or not self.shares_states)
        given = f"\n      parameters({', '.join(parameters)})" if parameters else ""
        matrix = f"vector<{K}x{V}xf32>"
        states, nexts, next_types = f"%S = {state}", "%S2", matrix
        if more:
            name, start, after, type_of_state = more
            states += f", {name} = {start}"
            nexts, next_types = f"{nexts}, {after}", f"{next_types}, {type_of_state}"
        results = "%o, %ht, %more" if more else "%o, %ht"
        read = read or f"    %o_w = ejk.read %S2, %q_s along key : {matrix}, vector<{K}xf32>\n"
        return f"""  {results} = ejk.scan {"reverse" if self.reverse else ""} {cu}
      sequences({entries}){queries}{given}
      states({states})
      -> ({self.type("B,T,H,V", self.kind)}) {{
{widened}{gate_body}\
    %S2 = ejk.outer_add %S1, {key}, {value} : {matrix}, vector<{K}xf32>, vector<{V}xf32>
    %scale = arith.constant dense<{self.scale:.17e}> : vector<{K}xf32>
    %q_s = arith.mulf {query}, %scale : vector<{K}xf32>
{read}{tail}    ejk.yield states({nexts} : {next_types}) outputs({rounded} : vector<{V}x{self.kind}>)
  }}
"""
