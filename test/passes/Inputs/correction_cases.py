#!/usr/bin/env python3
"""Random steps that correct their state, as test cases for --ejk-chunk.

    correction_cases.py SEED COUNT TOLERANCE [--rows N] [--whole] [--twice] [--thrice] [--bounded] > cases.mlir

Writes to stdout a module of functions, each of which computes one scan twice: from bf16 or f16
sequences, which --ejk-chunk takes, and from the same numbers widened to f32, which it leaves to
the step-by-step interpreter. Checks compare the two. A third of the steps, or with --twice
each, corrects twice, with reads that stand before or after the other correction. With --thrice,
each corrects three times. With --whole, the scan in f32 has one segment for each sequence, so that
--ejk-split-over-time leaves it as it is. Keys are normalised in the step; some point nearly one
way. With --bounded, the step keeps gates within -5 and 0. The numbers that multiply what is read
lie in (-2, 0) or (-1, 0).
"""
import argparse
import random

SIZES = [16, 20, 32, 48, 64, 100, 128]


class Case:
    def __init__(self, rng, number, tolerance, rows, whole, twice, bounded, thrice=False):
        self.rng, self.number, self.tolerance, self.whole, self.bounded = rng, number, tolerance, whole, bounded
        self.lines, self.seed = [], rng.randrange(1, 1 << 30)
        self.narrow = rng.choice(["bf16", "bf16", "f16"])
        self.K, self.V = rng.choice(SIZES), rng.choice(SIZES)
        if rng.random() < 0.15:  # states in slices
            self.K, self.V = rng.choice([(128, 256), (256, 256), (64, 512)])
        self.H = rng.choice([1, 2, 4])
        self.shared = rng.choice([h for h in (1, 2, 4) if self.H % h == 0])
        self.reverse = rng.random() < 0.5
        self.order = "decays first" if rng.random() < 0.6 else "adds first"
        self.mixer = random.Random(number)  # whose draws change no other one
        if self.mixer.random() < 0.25:
            self.order = "any"
        self.twice = twice or thrice or self.mixer.random() < 0.33
        self.thrice = thrice
        self.packed = rng.random() < 0.4
        if self.packed:
            lengths = [rng.choice([0, 1, 7, 16, 33, 64, 70]) for _ in range(rng.choice([1, 2, 4]))]
            self.cu = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
            self.B, self.T, self.N = 1, self.cu[-1], len(lengths)
        else:
            self.B, self.cu = rng.choice([1, 2]), None
            self.T, self.N = rows or rng.choice([1, 5, 16, 17, 40, 64, 65, 150]), self.B
        self.gates = [a for a in ("head", "key", "value") if rng.random() < 0.4]
        # What a gate does where it is strong: everything is forgotten at once, or over and over.
        self.gate_style = rng.choice(["log_gate", "log_gate", "strong", "resets"])

    def emit(self, text):
        self.lines.append("  " + text)

    def name(self):
        self.seed += 1
        return f"%x{self.seed}"

    def draw(self, distribution, shape, element):
        value, kind = self.name(), f"tensor<{'x'.join(map(str, shape))}x{element}>"
        self.emit(f"{value} = check.random {distribution} seed {self.seed} : {kind}")
        return value, kind

    def gate(self, shape):
        value, kind = self.draw("log_gate", shape, "f32")
        if self.gate_style == "log_gate":
            return value, kind
        if self.gate_style == "strong":
            factor, result = self.name(), self.name()
            self.emit(f"{factor} = arith.constant dense<30.0> : {kind}")
            self.emit(f"{result} = arith.mulf {value}, {factor} : {kind}")
            return result, kind
        which, _ = self.draw("uniform", shape, "f32")
        limit, low, above, result = (self.name() for _ in range(4))
        self.emit(f"{limit} = arith.constant dense<0.95> : {kind}")
        self.emit(f"{low} = arith.constant dense<0xFF800000> : {kind}")
        self.emit(f"{above} = arith.cmpf ogt, {which}, {limit} : {kind}")
        self.emit(f"{result} = arith.select {above}, {low}, {value} : "
                  f"{kind.replace('f32', 'i1')}, {kind}")
        return result, kind

    def write(self):
        rng, K, V, H = self.rng, self.K, self.V, self.H
        rows, element = [self.B, self.T], self.narrow
        self.sequences = []

        def sequence(arg, heads, size):
            value, kind = self.draw("normal", rows + [heads, size], element)
            self.sequences.append((arg, value, kind, f"vector<{size}x{element}>"))
        sequence("v", H, V)  # the first has a head for each state
        for arg in ("q", "k", "a"):
            sequence(arg, rng.choice([H, self.shared]), K)
        sequence("p", H, V)
        if self.twice:
            sequence("d", self.shared, K)
        if self.thrice:
            sequence("d3", self.shared, K)
        value, kind = self.draw("uniform", rows + [H], "f32")
        self.sequences.append(("beta", value, kind, None))
        links = []
        for axis, size in (("head", None), ("key", K), ("value", V)):
            if axis in self.gates:
                value, kind = self.gate(rows + [H] + ([size] if size else []))
                self.sequences.append((f"g{axis}", value, kind, None))
                links.append(("decay", axis, f"%g{axis}", f"vector<{size}xf32>" if size else "f32"))
        self.initial = None
        if rng.random() < 0.5:
            self.initial = self.draw("normal", [self.N, H, K, V], "f32")
        step, outputs = self.step(links)
        results = [self.scan(wide, step, outputs) for wide in (False, True)]
        # Where keys point nearly one way, what is left of a value is far smaller than the value.
        tolerance = self.tolerance * (3 if self.parallel else 1)
        for (narrow, _), (wide, kind) in zip(*results):
            self.emit(f"check.expect_close {narrow}, {wide} max_relative {tolerance:.1e} : {kind}")

    def step(self, decays):
        """The region's text but for the widening, and what it yields."""
        rng, K, V = self.rng, self.K, self.V
        S, vK, vV = f"vector<{K}x{V}xf32>", f"vector<{K}xf32>", f"vector<{V}xf32>"
        text = ["%epsilon = arith.constant 1.0e-3 : f32"]

        def unit(vector, result):
            text.extend([
                f"%{result}s = arith.mulf {vector}, {vector} : {vK}",
                f"%{result}n = ejk.sum %{result}s : {vK}",
                f"%{result}m = arith.addf %{result}n, %epsilon : f32",
                f"%{result}r = math.rsqrt %{result}m : f32",
                f"%{result}b = vector.broadcast %{result}r : f32 to {vK}",
                f"%{result} = arith.mulf {vector}, %{result}b : {vK}"])
        key = "%kw"
        self.parallel = rng.random() < 0.3
        if self.parallel:
            text += [f"%ones = arith.constant dense<4.0> : {vK}", f"%kp = arith.addf %kw, %ones : {vK}"]
            key = "%kp"
        unit(key, "key")
        unit("%qw", "query")
        read_key = add_key = "%key"
        if rng.random() < 0.3:  # as RWKV-7 has it
            text += [f"%as = math.tanh %aw : {vK}", f"%ak = arith.mulf %key, %as : {vK}"]
            add_key = "%ak"
        most = rng.choice(["1.0", "2.0"]) if add_key == "%key" else "1.0"
        links, places = self.links(decays)
        if self.twice:
            text += [f"%near = arith.constant dense<{'4.0' if self.parallel else '0.0'}> : {vK}",
                     f"%dk = arith.addf %dw, %near : {vK}"]
            unit("%dk", "other")
            # Corrections by what was read before any of them are one of their rates' sum.
            names = list(places)
            if any(links.index((a,)) > links.index((b,)) >= places[a] for a in names for b in names):
                most, again, third = "1.0", "0.5", "0.5"
            else:
                again = self.mixer.choice(["1.0", "2.0"])
                third = self.mixer.choice(["1.0", "2.0"]) if self.thrice else None
            text += [f"%most2 = arith.constant {again} : f32", "%c2 = arith.mulf %most2, %beta : f32",
                     f"%c2s = vector.broadcast %c2 : f32 to {vV}"]
            if self.thrice:
                text.append(f"%d3k = arith.addf %d3w, %near : {vK}")
                unit("%d3k", "last")
                text += [f"%most3 = arith.constant {third} : f32", "%c3 = arith.mulf %most3, %beta : f32",
                         f"%c3s = vector.broadcast %c3 : f32 to {vV}"]
        text += [f"%most = arith.constant {most} : f32", "%c = arith.mulf %most, %beta : f32",
                 f"%cs = vector.broadcast %c : f32 to {vV}"]
        if self.plain:
            text += [f"%few = arith.constant dense<0.125> : {vK}", f"%aq = arith.mulf %aw, %few : {vK}"]
        state = "%S"
        outputs, form = [], rng.choice(["delta", "delta", "rwkv", "both"])
        again_of = self.mixer.choice(["delta", "delta", "rwkv"])
        for i, link in enumerate(links + [None]):
            if i == places["correct"]:
                text.append(f"%r = ejk.read {state}, {read_key} along key : {S}, {vK}")
            if i == places.get("again"):
                text.append(f"%r2 = ejk.read {state}, %other along key : {S}, {vK}")
            if i == places.get("third"):
                text.append(f"%r3 = ejk.read {state}, %last along key : {S}, {vK}")
            if rng.random() < 0.2:
                text.append(f"%o{i} = ejk.read {state}, %query along key : {S}, {vK}")
                outputs.append((f"%o{i}", vV))
            if link is None:
                break
            if link[0] == "decay":
                _, axis, gate, kind = link
                if self.bounded:
                    splat = (lambda x: f"dense<{x}>") if kind.startswith("vector") else (lambda x: x)
                    text += [f"{gate}l = arith.constant {splat('-5.0')} : {kind}",
                             f"{gate}h = arith.constant {splat('0.0')} : {kind}",
                             f"{gate}c = math.clampf {gate} to [{gate}l, {gate}h] : {kind}"]
                    gate += "c"
                text.append(f"%S{i} = ejk.decay {state} by {gate} along {axis} : {S}, {kind}")
            elif link[0] == "add":
                text.append(f"%S{i} = ejk.outer_add {state}, {link[1]}, {link[2]} : {S}, {vK}, {vV}")
            elif link[0] == "again":
                text += [f"%e2 = arith.subf %pw, %r2 : {vV}" if again_of == "delta" else
                         f"%e2 = arith.negf %r2 : {vV}", f"%u2 = arith.mulf %c2s, %e2 : {vV}",
                         f"%S{i} = ejk.outer_add {state}, %other, %u2 : {S}, {vK}, {vV}"]
            elif link[0] == "third":
                text += [f"%e3 = arith.subf %vw, %r3 : {vV}", f"%u3 = arith.mulf %c3s, %e3 : {vV}",
                         f"%S{i} = ejk.outer_add {state}, %last, %u3 : {S}, {vK}, {vV}"]
            else:
                if form == "delta":
                    text += [f"%e = arith.subf %vw, %r : {vV}", f"%u = arith.mulf %cs, %e : {vV}"]
                elif form == "rwkv":
                    text += [f"%e = arith.mulf %r, %cs : {vV}", f"%u = arith.negf %e : {vV}"]
                else:
                    text += [f"%h = arith.constant dense<-0.5> : {vV}", f"%e = arith.mulf %h, %r : {vV}",
                             f"%u = arith.addf %e, %vw : {vV}"]
                text.append(f"%S{i} = ejk.outer_add {state}, {add_key}, %u : {S}, {vK}, {vV}")
            state = f"%S{i}"
        text.append(f"%o = ejk.read {state}, %query along key : {S}, {vK}")
        outputs.append(("%o", vV))
        if rng.random() < 0.3:
            outputs.append(("%r", vV))
        if rng.random() < 0.2:
            outputs.append(("%u", vV))
        if self.twice and self.mixer.random() < 0.4:
            outputs.append((self.mixer.choice(["%r2", "%u2"]), vV))
        self.next = state
        return text, outputs

    def links(self, decays):
        """The changes of the state in their order, and where each read that corrects stands among
        them."""
        rng = self.rng
        self.plain = rng.random() < 0.4
        adds = [("add", "%aq", "%pw")] if self.plain else []
        links = adds + [("correct",)] if rng.random() < 0.5 else [("correct",)] + adds
        links = links + decays if self.order == "adds first" else decays + links
        if self.order == "any":
            self.mixer.shuffle(links)
        if self.twice:
            links.insert(self.mixer.randrange(len(links) + 1), ("again",))
        if self.thrice:
            links.insert(self.mixer.randrange(len(links) + 1), ("third",))
        # The read that corrects stands before its outer product; with no gate along values
        # it may stand anywhere before.
        places = {}
        for name, draws in (("correct", rng), ("again", self.mixer), ("third", self.mixer)):
            if (name,) not in links:
                continue
            place = links.index((name,))
            if "value" not in self.gates and draws.random() < 0.4:
                place = draws.randrange(place + 1)
            places[name] = place
        return links, places

    def scan(self, wide, step, outputs):
        H, rows, args, body = self.H, f"{self.B}x{self.T}", [], []
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
        state = f"tensor<{self.N}x{H}x{self.K}x{self.V}xf32>"
        types = [f"tensor<{rows}x{H}x{kind[7:]}" for _, kind in outputs] + [state]
        names = [self.name() for _ in types]
        cu = ""
        if self.cu:
            offsets, kind = self.name(), f"tensor<{len(self.cu)}xi32>"
            self.emit(f"{offsets} = arith.constant dense<{self.cu}> : {kind}")
            cu = f" cu_seqlens({offsets} : {kind})"
        whole = " segments<1073741824 to 1073741824, at_least 1>" if wide and self.whole else ""
        self.emit(f"{', '.join(names)} = ejk.scan{' reverse' if self.reverse else ''}{whole}{cu}")
        self.emit(f"    sequences({', '.join(args)})")
        initial = self.initial[0] if self.initial else "zero"
        self.emit(f"    states(%S = {initial} : {state}) -> ({', '.join(types[:-1])}) {{")
        for line in body + step:
            self.emit("  " + line)
        self.emit(f"  ejk.yield states({self.next} : vector<{self.K}x{self.V}xf32>) outputs("
                  f"{', '.join(v for v, _ in outputs)} : {', '.join(t for _, t in outputs)})")
        self.emit("}")
        return list(zip(names, types))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("tolerance", type=float)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--twice", action="store_true")
    parser.add_argument("--thrice", action="store_true")
    parser.add_argument("--bounded", action="store_true")
    options = parser.parse_args()
    for number in range(options.count):
        case = Case(random.Random(options.seed * 1000003 + number), number, options.tolerance,
                    options.rows, options.whole, options.twice, options.bounded, options.thrice)
        case.write()
        print(f"// Case {number}.")
        print(f"func.func @case{number}() {{")
        print("\n".join(case.lines))
        print("  return\n}")


main()
