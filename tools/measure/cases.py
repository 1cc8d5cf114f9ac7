"""What ejk-measure times: packages, and launches of them at the sizes of docs/performance.md's tables."""
import re
from dataclasses import asdict, dataclass, replace

NAMES = {"none": "none", "g_gamma": "γ", "g": "g", "gk": "gk", "gv": "gv", "gk+gv": "gk, gv"}
# What a row of a table is called where it stands among others'.
TITLES = {"chunk-forward": "forward", "chunk-backward": "all gradients",
          "chunk-both": "forward and all gradients", "chunk-shapes": "forward",
          "chunk-shapes-backward": "all gradients", "chunk-shapes-both": "forward and all gradients",
          "fixed-heads": "heads in the types", "head-sizes": "forward", "small": "forward",
          "f16": "f16, forward", "f16-backward": "f16, all gradients", "f16-both": "f16, forward and all gradients",
          "f32": "f32, forward", "f32-backward": "f32, all gradients", "f32-both": "f32, forward and all gradients",
          "mma-sync": "sm_80 package, forward", "layer-backward": "all gradients",
          "layer-both": "forward and all gradients", "long": "unsplit, forward",
          "long-backward": "unsplit, all gradients", "long-both": "unsplit, forward and all gradients",
          "split": "split, forward", "split-backward": "split, all gradients",
          "split-both": "split, forward and all gradients", "heads": "forward", "decode": "decode",
          "decode-pool": "decode", "step-forward": "step by step, forward",
          "step-backward": "step by step, all gradients", "step-both": "step by step, forward and all gradients",
          "delta-forward": "delta rule, forward", "delta-backward": "delta rule, all gradients",
          "delta-both": "delta rule, forward and all gradients", "delta-step": "delta rule, step by step, forward",
          "delta-decode": "delta rule, decode", "models": "models"}


@dataclass(frozen=True)
class Package:
    """One compiled recurrence. heads: 0 leaves H and Hkv to the launch."""
    gate: str
    K: int = 128
    V: int = 128
    dtype: str = "bf16"
    gate_dtype: str = ""  # of gates per channel; the sequences' type where it is empty
    heads: int = 0
    reverse: bool = False
    packed: bool = False
    state: bool = False
    pool: str = ""
    vjp: bool = False
    delta: bool = False
    schedule: str = "auto"
    f32_matmuls: str = ""
    arch: str = "sm_90a"
    lower_bound: str = ""  # of gk, which the step clips to [lower_bound, 0]
    grouped: bool = False  # q and k have fewer heads than v, as Mamba-2's C and B

    def name(self):
        values = (f"{key}-{value}" for key, value in asdict(self).items() if value not in (False, ""))
        return "_".join(values).replace("+", "-and-")

    def source(self):
        H = self.heads or "?"
        row = lambda n, dtype=None: f"tensor<?x?x{H}x{n}x{dtype or self.dtype}>"
        state = f"tensor<?x{H}x{self.K}x{self.V}xf32>"
        kinds = {"g": f"tensor<?x?x{H}xf32>", "g_gamma": f"tensor<{H}xf32>",
                 "gk": row(self.K, self.gate_dtype), "gv": row(self.V, self.gate_dtype)}
        arguments = {"q": row(self.K), "k": row(self.K), "v": row(self.V)}
        gates = [] if self.gate == "none" else self.gate.split("+")
        clauses = {gate: kinds[gate] for gate in gates}
        if self.state:
            clauses["initial_state"] = state
        if self.packed:
            clauses["cu_seqlens"] = "tensor<?xi32>"
        names = {"initial_state": "h0"}
        if self.delta:
            arguments["beta"] = f"tensor<?x?x{H}xf32>"
        arguments.update({names.get(key, key): kind for key, kind in clauses.items()})
        written = " ".join(f"{key}(%{names.get(key, key)} : {kind})" for key, kind in clauses.items())
        if self.pool:
            return self.pooled(row, arguments, clauses, state)
        if self.lower_bound:
            return self.clipped(row, arguments, state)
        if self.grouped:
            return self.in_groups(row, arguments, state)
        op, rate = "ejk.recurrent", ""
        if self.delta:
            op, rate = "ejk.delta_rule", f"beta(%beta : {arguments['beta']})"
        flags = " {reverse}" if self.reverse else ""
        result = f"{row(self.V)}, {state}" if self.state else row(self.V)
        returned = "%o, %ht" if self.state else "%o"
        return (f"func.func @f({', '.join(f'%{n}: {t}' for n, t in arguments.items())}) -> ({result}) {{\n"
                f"  %o, %ht = {op} %q, %k, %v {rate} {written}{flags} : {row(self.K)}, {row(self.K)}, "
                f"{row(self.V)} -> {row(self.V)}, {state}\n  return {returned} : {result}\n}}\n")

    def pooled(self, row, arguments, clauses, state):
        """A token for each sequence, whose states lie in a pool of self.pool and are updated there."""
        pool = state.replace("f32", self.pool)
        token = lambda text: text.replace("tensor<?x?x", "tensor<?x1x", 1)
        beta = f"beta(%beta : {token(arguments['beta'])}) " if self.delta else ""
        arguments = {name: kind if name == "g_gamma" else token(kind) for name, kind in arguments.items()}
        arguments |= {"pool": pool, "index": "tensor<?xi32>"}
        written = " ".join(f"{key}(%{key} : {arguments[key]})" for key in clauses if key != "initial_state")
        return (f"func.func @f({', '.join(f'%{n}: {t}' for n, t in arguments.items() if n != 'h0')}) -> "
                f"({token(row(self.V))}, {pool}) {{\n"
                f"  %h0 = ejk.read_states %pool at %index : {pool}, tensor<?xi32> -> {state}\n"
                f"  %o, %ht = ejk.{'delta_rule' if self.delta else 'recurrent'} %q, %k, %v {beta}{written} "
                f"initial_state(%h0 : {state}) : "
                f"{token(row(self.K))}, {token(row(self.K))}, {token(row(self.V))} -> {token(row(self.V))}, {state}\n"
                f"  %updated = ejk.write_states %ht to %pool at %index : {state}, {pool}, tensor<?xi32>\n"
                f"  return %o, %updated : {token(row(self.V))}, {pool}\n}}\n")

    def clipped(self, row, arguments, state):
        """A gate per key channel, in f32, that the step clips, and a correction if that is asked for."""
        K, V, S = f"vector<{self.K}xf32>", f"vector<{self.V}xf32>", f"vector<{self.K}x{self.V}xf32>"
        channels = {"q": self.K, "k": self.K, "v": self.V}
        widen = [f"%{n}w = arith.extf %{n}t : vector<{size}x{self.dtype}> to vector<{size}xf32>"
                 for n, size in channels.items()]
        added = [] if not self.delta else [
            f"%r = ejk.read %S1, %kw along key : {S}, {K}", f"%change = arith.subf %vw, %r : {V}",
            f"%rate = vector.broadcast %betat : f32 to {V}", f"%u = arith.mulf %change, %rate : {V}"]
        lines = [*widen, f"%low = arith.constant dense<{self.lower_bound}> : {K}", f"%zero = arith.constant dense<0.0> : {K}",
                 f"%scale = arith.constant dense<{self.K ** -0.5}> : {K}", f"%g = math.clampf %gkt to [%low, %zero] : {K}",
                 f"%S1 = ejk.decay %S by %g along key : {S}, {K}", *added,
                 f"%S2 = ejk.outer_add %S1, %kw, {'%u' if self.delta else '%vw'} : {S}, {K}, {V}",
                 f"%qs = arith.mulf %qw, %scale : {K}", f"%read = ejk.read %S2, %qs along key : {S}, {K}",
                 f"%ot = arith.truncf %read : {V} to vector<{self.V}x{self.dtype}>",
                 f"ejk.yield states(%S2 : {S}) outputs(%ot : vector<{self.V}x{self.dtype}>)"]
        sequences = ", ".join(f"%{n}t = %{n} : {t}" for n, t in arguments.items())
        body = "\n    ".join(lines)
        return (f"func.func @f({', '.join(f'%{n}: {t}' for n, t in arguments.items())}) -> "
                f"({row(self.V)} {{ejk.name = \"o\"}}) {{\n"
                f"  %o, %ht = ejk.scan sequences({sequences})\n    states(%S = zero : {state}) -> ({row(self.V)}) {{\n    {body}\n  }}\n"
                f"  return %o : {row(self.V)}\n}}\n")

    def in_groups(self, row, arguments, state):
        """A gate per head of v, in whose heads q and k take part by groups."""
        K, V, S = f"vector<{self.K}xf32>", f"vector<{self.V}xf32>", f"vector<{self.K}x{self.V}xf32>"
        shapes = {"q": f'"Hk", "{self.K}"', "k": f'"Hk", "{self.K}"', "v": f'"Hv", "{self.V}"', "g": '"Hv"'}
        lines = [*(f"%{n}w = arith.extf %{n}t : vector<{size}x{self.dtype}> to vector<{size}xf32>"
                   for n, size in {"q": self.K, "k": self.K, "v": self.V}.items()),
                 f"%S1 = ejk.decay %S by %gt along head : {S}, f32",
                 f"%S2 = ejk.outer_add %S1, %kw, %vw : {S}, {K}, {V}",
                 f"%scale = arith.constant dense<{self.K ** -0.5}> : {K}", f"%qs = arith.mulf %qw, %scale : {K}",
                 f"%read = ejk.read %S2, %qs along key : {S}, {K}",
                 f"%ot = arith.truncf %read : {V} to vector<{self.V}x{self.dtype}>",
                 f"ejk.yield states(%S2 : {S}) outputs(%ot : vector<{self.V}x{self.dtype}>)"]
        # The first sequence has the most heads: v.
        sequences = ", ".join(f"%{n}t = %{n} : {arguments[n]}" for n in "vqkg")
        inputs = ", ".join(f'%{n}: {kind} {{ejk.shape = ["B", "T", {shapes[n]}]}}' for n, kind in arguments.items())
        body = "\n    ".join(lines)
        return (f'func.func @f({inputs}) -> ({row(self.V)} {{ejk.name = "o"}}) {{\n'
                f"  %o, %ht = ejk.scan sequences({sequences})\n    states(%S = zero : {state}) -> ({row(self.V)}) "
                f"{{\n    {body}\n  }}\n  return %o : {row(self.V)}\n}}\n")

    def flags(self):
        schedule = [] if self.schedule == "auto" else [f"--schedule={self.schedule}"]
        matmuls = [f"--f32-matmuls={self.f32_matmuls}"] if self.f32_matmuls else []
        return [f"--arch={self.arch}", *schedule, *matmuls, *(["--vjp"] if self.vjp else [])]


@dataclass(frozen=True)
class Case:
    """A row of a table: what is launched, and at which sizes."""
    table: str
    package: Package
    sizes: str
    shape: str = ""
    profile: str = "weak"  # how gates are drawn: a name of measure/profiles.py

    def label(self):
        return self.shape or self.sizes


def model_cases():
    """Recurrences at the shapes and gates of models that people train and serve."""
    delta = Package("g", delta=True, vjp=True)
    for sizes in ("B=4,T=4096,Hk=64,Hv=64", "B=1,T=8192,Hk=16,Hv=32", "B=1,T=16384,Hk=16,Hv=64",
                  "B=1,T=32768,Hk=2,Hv=8", "B=1,T=65536,Hk=2,Hv=8", "B=8,T=2048,Hk=16,Hv=32"):
        yield Case("models", delta, sizes, f"GDN {sizes}", "mixed")
    kda = Package("gk", delta=True, vjp=True, gate_dtype="f32")
    for sizes in ("B=4,T=4096,H=64", "B=1,T=8192,H=96", "B=1,T=8192,H=32", "B=1,T=8192,H=16",
                  "B=1,T=32768,H=16", "B=8,T=2048,H=32"):
        for profile in ("mid", "lb5"):
            yield Case("models", kda, sizes, f"KDA {sizes}", profile)
        yield Case("models", replace(kda, lower_bound="-5.0"), sizes, f"KDA {sizes}, bound given", "lb5")
    gla = Package("gk", vjp=True, gate_dtype="f32")
    for profile in ("mid", "lb5"):
        yield Case("models", gla, "B=4,T=4096,H=64", "GLA B=4,T=4096,H=64", profile)
    yield Case("models", replace(gla, lower_bound="-5.0"), "B=4,T=4096,H=64", "GLA B=4,T=4096,H=64, bound given", "lb5")
    yield Case("models", Package("gk", K=256, V=512, vjp=True, gate_dtype="f32"), "B=4,T=4096,H=4",
               "GLA's layer B=4,T=4096,H=4, K=256, V=512", "mid")
    yield Case("models", Package("g_gamma", vjp=True), "B=1,T=16384,H=64", "lightning B=1,T=16384,H=64", "weak")
    mamba = Package("g", K=128, V=64, vjp=True, grouped=True)
    for sizes in ("B=4,T=4096,Hk=8,Hv=128", "B=1,T=8192,Hk=8,Hv=128"):
        yield Case("models", mamba, sizes, f"Mamba-2 {sizes}, K=128, V=64", "mixed")
    packed = "B=1,T=32768,N=17"
    yield Case("models", replace(delta, packed=True), packed + ",Hk=16,Hv=32", "GDN T=32768,Hk=16,Hv=32, 17 packed sequences", "mixed")
    yield Case("models", replace(kda, packed=True), packed + ",H=32", "KDA T=32768,H=32, 17 packed sequences", "mid")
    for B in (1, 64, 256):
        for dtype in ("f32", "bf16"):
            yield Case("models", Package("g", delta=True, state=True, pool=dtype), f"B={B},T=1,P={B},Hk=16,Hv=32",
                       f"GDN, a token, B={B},Hk=16,Hv=32, a pool in {dtype}", "mixed")
        yield Case("models", Package("gk", delta=True, state=True, gate_dtype="f32", pool="f32"), f"B={B},T=1,P={B},H=32",
                   f"KDA, a token, B={B},H=32, a pool in f32", "lb5")
    for B in (1, 64):
        yield Case("models", Package("g", delta=True, state=True), f"B={B},T=4,Hk=16,Hv=32",
                   f"GDN, 4 drafted tokens, B={B},Hk=16,Hv=32", "mixed")


def cases():
    long = "B=4,T=4096"
    for gate in NAMES:
        yield Case("chunk-forward", Package(gate), long + ",H=64")
    for gate in ("g_gamma", "g", "gk", "gv", "gk+gv"):
        yield Case("chunk-backward", Package(gate, vjp=True), long + ",H=64")
    packed = "T=65536,H=16"
    for gate in ("g_gamma", "g", "gk", "gk+gv"):
        yield Case("chunk-shapes", Package(gate, reverse=True), long + ",H=64", long + ",H=64, reverse")
        for sizes in ("B=1,T=8192,H=96", "B=16,T=4096,H=16", "B=4,T=16384,H=64"):
            yield Case("chunk-shapes", Package(gate), sizes)
        for n in (31, 33):
            yield Case("chunk-shapes", Package(gate, packed=True), f"B=1,{packed},N={n}",
                       f"{packed} in {n} packed sequences")
    for gate in ("g_gamma", "g", "gk", "gv"):
        yield Case("chunk-shapes-backward", Package(gate, vjp=True), "B=1,T=8192,H=96")
    for gate in ("g_gamma", "g", "gk"):
        fixed = Package(gate, heads=64)
        yield Case("fixed-heads", fixed, long, long + ",H=64, forward")
        yield Case("fixed-heads", replace(fixed, vjp=True), long, long + ",H=64, all gradients")
    for gate in ("g_gamma", "g", "gk"):
        for K, V in ((64, 64), (96, 96), (128, 64), (64, 128), (128, 256), (256, 256), (512, 512)):
            heads = max(1, 64 * 128 * 128 // (K * V) // 2 * 2)
            sizes = f"B=4,T=4096,H={min(heads, 128)}"
            yield Case("head-sizes", Package(gate, K=K, V=V), sizes, f"{sizes}, K={K}, V={V}")
    for gate in ("g_gamma", "g", "gk"):
        yield Case("f16", Package(gate, dtype="f16"), long + ",H=64")
        yield Case("f16-backward", Package(gate, dtype="f16", vjp=True), long + ",H=64")
        for matmuls in ("", "bf16x3", "bf16x6"):
            f32 = Package(gate, dtype="f32", f32_matmuls=matmuls)
            sizes = "B=4,T=4096,H=32"
            shape = f"{sizes}, {matmuls or 'step by step'}"
            yield Case("f32", f32, sizes, shape)
            yield Case("f32-backward", replace(f32, vjp=True), sizes, shape)
    for gate in ("g_gamma", "g", "gk"):
        yield Case("mma-sync", Package(gate, arch="sm_80"), long + ",H=64")
    yield Case("small", Package("g_gamma", K=64, V=64), "B=8,T=1024,H=8", "B=8,T=1024,H=8, K=V=64")
    for gate, delta in (("g", False), ("gk", False), ("g", True)):
        yield Case("layer-backward", Package(gate, delta=delta, vjp=True), "B=8,T=2048,H=8",
                   "B=8,T=2048,H=8" + ", delta rule" * delta)
    for gate in ("g_gamma", "g", "gk"):
        for sizes in ("B=2,T=16384,H=16", "B=1,T=65536,H=8", "B=1,T=1048576,H=1"):
            for table, schedule in (("long", "chunk"), ("split", "split")):
                yield Case(table, Package(gate, schedule=schedule), sizes)
                if sizes != "B=1,T=1048576,H=1":
                    yield Case(f"{table}-backward", Package(gate, schedule=schedule, vjp=True), sizes)
    for gate in ("g", "gk"):
        for heads in (1, 4, 16, 33, 66, 132, 256, 1024):
            yield Case("heads", Package(gate), f"B=1,T=4096,H={heads}")
    for batch in (256, 64, 1):
        for gate in ("gk", "g", "g_gamma"):
            yield Case("decode", Package(gate, state=True), f"B={batch},T=1,H=32")
            for dtype in ("f32", "bf16"):
                yield Case("decode-pool", Package(gate, state=True, pool=dtype), f"B={batch},P={batch},H=32",
                           f"B={batch},H=32, a pool of as many states in {dtype}")
    for gate in ("gk", "g", "g_gamma"):
        yield Case("step-forward", Package(gate, schedule="step"), "B=4,T=2048,H=16")
    for gate in ("gk", "g", "g_gamma"):
        yield Case("step-backward", Package(gate, schedule="step", vjp=True), "B=4,T=2048,H=16")
    for gate in ("none", "g", "gk"):
        delta = Package(gate, delta=True)
        yield Case("delta-forward", delta, long + ",H=64")
        yield Case("delta-backward", replace(delta, vjp=True), long + ",H=64")
        yield Case("delta-step", replace(delta, schedule="step"), "B=4,T=2048,H=16")
        yield Case("delta-decode", replace(delta, state=True), "B=256,T=1,H=32")
    yield from model_cases()


def chosen(only):
    return [case for case in cases() if re.search(only, case.table)]
