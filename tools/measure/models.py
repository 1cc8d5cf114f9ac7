"""Recurrences of models, and peers' kernels beside them: the same inputs, one process, a cold cache."""
import contextlib
import math
import os
import statistics
import sys
import time
from pathlib import Path

from measure import profiles, tuning
from measure.cases import chosen
from measure.launches import Loaded, entry_names, sizes_of
from measure.model_peers import PEERS, versions
from measure.report import report

ROUNDS = 15
# Rows and heads that errors are taken over. Outputs are causal, so the first rows are theirs alone; so
# are gradients where those of o are zero elsewhere.
CHECKED_ROWS, CHECKED_HEADS = 512, 2


class Cold:
    """Times callables with the second-level cache full of something else."""

    def __init__(self, torch):
        self.torch = torch
        self.other = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")

    def graph(self, call):
        """A CUDA graph of `call`, which must not wait for the device."""
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                call()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        return graph.replay

    def time(self, call):
        """The median in milliseconds."""
        torch, times = self.torch, []
        for _ in range(ROUNDS):
            self.other.zero_()
            torch.cuda._sleep(20000000)  # 10 ms, in which the host sends all launches
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end))
        return statistics.median(times)

    def copy_rate(self):
        """Bytes a second, read and written, of a copy on the device."""
        source = self.torch.empty(1 << 30, dtype=self.torch.uint8, device="cuda")
        target = self.torch.empty_like(source)
        return 2 * source.nbytes / (self.time(lambda: target.copy_(source)) / 1e3)


def draw(torch, case):
    """The inputs of a case by name: queries and keys of length 1, gates by the case's profile."""
    sizes, package = sizes_of(case), case.package
    B, T, heads = sizes["B"], sizes["T"], sizes.get("Hv") or sizes["H"]
    rows = sizes.get("Hk") or heads
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
    normal = lambda *shape: torch.randn(*shape, device="cuda")
    unit = lambda x: torch.nn.functional.normalize(x, dim=-1).to(dtype[package.dtype])
    tensors = {"q": unit(normal(B, T, rows, package.K)), "k": unit(normal(B, T, rows, package.K)),
               "v": normal(B, T, heads, package.V).to(dtype[package.dtype])}
    shapes = {"g_gamma": (heads,), "g": (B, T, heads), "gk": (B, T, heads, package.K),
              "gv": (B, T, heads, package.V)}
    for gate in () if package.gate == "none" else package.gate.split("+"):
        kind = package.gate_dtype or package.dtype if gate in ("gk", "gv") else "f32"
        tensors[gate] = profiles.draw(torch, case.profile, shapes[gate]).to(dtype[kind])
    if package.delta:
        tensors["beta"] = torch.rand(B, T, heads, device="cuda")
    tensors["do"] = normal(B, T, heads, package.V).to(dtype[package.dtype])
    if package.packed:
        tensors["cu_seqlens"] = offsets(torch, T, sizes["N"])
    if package.state:
        states = normal(sizes.get("P", B), heads, package.K, package.V).to(dtype[package.pool or "f32"])
        tensors |= {"pool": states, "index": torch.randperm(sizes["P"], device="cuda")[:B].int()} if package.pool else {"h0": states}
    return tensors


def offsets(torch, T, N):
    """Of N packed sequences of T rows in all; the longest is about 30 times the shortest."""
    lengths = torch.logspace(0, 1.5, N)[torch.randperm(N)]
    ends = (lengths.cumsum(0) / lengths.sum() * T).round().int()
    ends[-1] = T
    return torch.cat([torch.zeros(1, dtype=torch.int32), ends]).cuda()


class Checked:
    """The recurrence in f64, step by step, at the first rows of a sequence and at two heads of it."""

    def __init__(self, torch, case, tensors):
        self.torch, self.package, self.tensors = torch, case.package, tensors
        self.rows = min(CHECKED_ROWS, tensors["q"].shape[1])
        if "cu_seqlens" in tensors:
            self.rows = min(self.rows, int(tensors["cu_seqlens"][1]))
        count = tensors["v"].shape[2]
        self.group = count // tensors["q"].shape[2]
        self.heads = torch.tensor([0, count - 1][:CHECKED_HEADS], device="cuda")
        self.o, self.gradients = self.exact({})

    def part(self, name, tensor):
        """Of a tensor [B, T, heads, ...] called `name`."""
        heads = self.heads // (self.group if name in ("q", "k") else 1)
        return tensor[0, :self.rows].index_select(1, heads).double()

    def masked(self):
        """do, and zero where the gradients of the checked rows and heads would get something of others."""
        do = self.torch.zeros_like(self.tensors["do"])
        do[0, :self.rows, self.heads] = self.tensors["do"][0, :self.rows, self.heads]
        return do

    def exact(self, given):
        """o and, of a package that has them, the gradients by name; `given` are inputs in place of the case's."""
        torch, package = self.torch, self.package
        tensors = self.tensors | given
        names = [name for name in ("q", "k", "v", "g", "gk", "beta") if name in tensors]
        x = {name: self.part(name, tensors[name]).requires_grad_(package.vjp) for name in names}
        decay = torch.ones(self.rows, len(self.heads), package.K, 1, dtype=torch.float64, device="cuda")
        if "g_gamma" in tensors:
            decay = decay * tensors["g_gamma"].double()[self.heads].exp()[:, None, None]
        if "g" in tensors:
            decay = decay * x["g"].exp()[:, :, None, None]
        if "gk" in tensors:
            decay = decay * x["gk"].exp()[..., None]
        state = torch.zeros(len(self.heads), package.K, package.V, dtype=torch.float64, device="cuda")
        if package.state:
            states = tensors["pool"][tensors["index"][0].item()] if package.pool else tensors["h0"][0]
            state = states.double()[self.heads]
        out = []
        for q, k, v, d, beta in zip(x["q"], x["k"], x["v"], decay, x.get("beta", decay)):
            state = state * d
            if "beta" in x:
                v = beta[:, None] * (v - torch.einsum("hkv,hk->hv", state, k))
            state = state + k[:, :, None] * v[:, None, :]
            out.append(torch.einsum("hkv,hk->hv", state, q) * package.K ** -0.5)
        o = torch.stack(out)
        gradients = {}
        if package.vjp:
            wanted = torch.autograd.grad(o, list(x.values()), self.part("do", tensors["do"]))
            gradients = dict(zip(x, wanted))
        return o.detach(), gradients

    def error(self, o):
        return relative(self.part("o", o), self.o)

    def gradient_error(self, found):
        """The largest error of a gradient, and whose it is."""
        errors = {name: relative(self.part(name, gradient), self.gradients[name])
                  for name, gradient in found.items() if name in self.gradients}
        name = max(errors, key=lambda name: (errors[name] != errors[name], errors[name]))
        return {"gradient_error": errors[name], "of": f"d{name}"}

    def of(self, peer):
        """The same for a peer, whose inputs differ from the case's where it computes some by itself."""
        if not peer.given:
            return self
        other = object.__new__(Checked)
        other.__dict__ = dict(self.__dict__)
        other.o, other.gradients = self.exact(peer.given)
        # What a peer takes in another form has another gradient.
        other.gradients = {name: g for name, g in other.gradients.items() if name not in peer.given}
        return other


def relative(found, expected):
    return float((found.detach().double() - expected).norm() / expected.norm())


def measure(torch, args, cold, case, rate, tuners):
    tensors = draw(torch, case)
    path = f"{args.folder}/{case.package.name()}.ejk"
    sizes = sizes_of(case)
    checked = Checked(torch, case, tensors)
    pool = tensors["pool"].clone() if "pool" in tensors else None  # it is written in place
    with tuners.stopped():
        f = Loaded(path, "f", sizes, given=tensors)
        f.launch()
        row = {"error": checked.error(f.outputs[0]), "floor_ms": f.bytes / rate * 1e3,
               "ms": cold.time(cold.graph(f.launch))}
        names = entry_names(path)
        if "f_vjp" in names:
            launches, known = [], dict(tensors)
            for entry in ("f_fwd", "f_vjp") if "f_fwd" in names else ("f", "f_vjp"):
                one = Loaded(path, entry, sizes, given=known)
                one.launch()
                known |= one.named_outputs()
                launches.append(one)
            row["both_ms"] = cold.time(cold.graph(lambda: [one.launch() for one in launches]))
            one = Loaded(path, "f_vjp", sizes, given=known | {"do": checked.masked()})
            one.launch()
            row |= checked.gradient_error({name.removeprefix("d"): gradient for name, gradient in one.named_outputs().items()})
    f = launches = known = one = None
    torch.cuda.empty_cache()
    row["peers"] = []
    # A given bound changes nothing for a peer: its times stand in the row without.
    for who in () if case.package.lower_bound else args.peers:
        if pool is not None:
            tensors["pool"].copy_(pool)
        found = peer(torch, cold, case, tensors, checked, who, tuners)
        if found:
            row["peers"].append(found)
    return row


def first_line(problem):
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0][:200]


def peer(torch, cold, case, tensors, checked, who, tuners):
    """A peer's times and error at a case, why it has none, or None if it has no such operation."""
    try:
        calls = PEERS[who](torch, case, tensors)
        if calls is None:
            return None
        found = {"who": who}
        if calls.tuned and not tuners.wait_for(case):
            return {"who": who, "failed": "not tuned within --seconds"}
        with tuners.stopped():
            checked = checked.of(calls)
            found["error"] = checked.error(calls.forward() * calls.scale)
            for _ in range(2):  # the first calls compile, and choose
                calls.forward()
            try:  # offsets are copied to the host by some, which no graph holds
                forward = calls.forward if case.package.packed else cold.graph(calls.forward)
            except Exception:
                forward, found["eager"] = calls.forward, True
                torch.cuda.synchronize()
            found["ms"] = cold.time(forward)
            if calls.both and case.package.vjp:
                try:
                    masked = checked.masked() if calls.scale == 1 else (checked.masked() * calls.scale).to(tensors["do"].dtype)
                    found |= checked.gradient_error(calls.both(masked))
                    for _ in range(2):
                        calls.both(tensors["do"])
                    found["both_ms"] = cold.time(lambda: calls.both(tensors["do"]))
                except Exception as problem:
                    found["failed"] = first_line(problem)
        return found
    except Exception as problem:  # a shape that a peer refuses is a result, too
        return {"who": who, "failed": first_line(problem)}
    finally:
        torch.cuda.empty_cache()


def kernels_of(case):
    """Cases for which this is the same need the same of Triton's kernels."""
    sizes, package = sizes_of(case), case.package
    return (package.gate, package.K, package.V, package.delta, package.state, package.grouped, package.packed,
            sizes["Hk"], sizes["Hv"], sizes["B"])


def shortened(case):
    """A case with fewer rows, for which Triton makes the same kernels."""
    import dataclasses
    rows = sizes_of(case)["T"]
    few = 4096 if case.package.grouped else 1024
    return case if case.package.packed else dataclasses.replace(case, sizes=case.sizes.replace(f"T={rows}", f"T={min(rows, few)}"))


def pieces(args):
    """The chosen cases that peers tuned by Triton have, in lists that need the same kernels."""
    found = {}
    for case in cases_of(args):
        if not case.package.lower_bound and not case.package.pool:
            found.setdefault(kernels_of(case), []).append(case)
    return found


def tune_share(args):
    """Has Triton compile choice `lane` of each kernel of every piece whose number is this process's."""
    import torch
    index, count, folder = args.share.split("/", 2)
    tasks = [(number, lane) for number in range(len(pieces(args))) for lane in range(args.choices)]
    prune = None
    torch.cuda.set_per_process_memory_fraction(0.6 / int(count))  # the rest is for what is timed
    for task in range(int(index), len(tasks), int(count)):
        number, lane = tasks[task]
        prune = tuning.limit(args.choices, lane, args.choices, prune)
        tuning.once()
        for case in list(pieces(args).values())[number]:
            for who in set(args.peers) & set(TUNED):
                try:
                    tensors = draw(torch, shortened(case))
                    calls = PEERS[who](torch, case, tensors)
                    if calls:
                        calls.forward()
                        if case.package.vjp:
                            calls.both(tensors["do"])
                except Exception:  # peer() reports it
                    pass
                calls = tensors = None
                torch.cuda.empty_cache()
        Path(folder, f"{number}.{lane}").touch()


TUNED = ("fla", "mamba-ssm")


class Tuners(tuning.Tuners):
    """Processes that compile, case after case, the few choices of each kernel of peers tuned by Triton."""

    def __init__(self, args):
        self.numbers = {kernels: number for number, kernels in enumerate(pieces(args))}
        command = [sys.argv[0], "models", args.folder, "-o", os.devnull, f"--peers={','.join(args.peers)}",
                   f"--shapes={args.shapes}", f"--choices={args.choices}"]
        super().__init__(command, args.jobs, args.choices)

        self.until = time.monotonic() + args.seconds if args.seconds else math.inf

    def wait_for(self, case):
        """Whether there is time left once the case's kernels are compiled."""
        if kernels_of(case) in self.numbers:
            self.wait(self.numbers[kernels_of(case)], self.until)
        return time.monotonic() < self.until


class NoTuners:
    stopped = staticmethod(contextlib.nullcontext)
    wait_for = staticmethod(lambda case: True)
    end = staticmethod(lambda: None)


def rounded(row):
    return {key: round(value, 6) if isinstance(value, float) else list(map(rounded, value)) if key == "peers" else value
            for key, value in row.items()}


def cases_of(args):
    return [case for case in chosen("^models$")
            if not args.shapes or any(part in case.label() for part in args.shapes.split(";"))]


def as_table(rows):
    """The rows as text: a line for ejk, and one below for each peer."""
    number = lambda row, key, form: format(row[key], form) if row.get(key) is not None else "-"
    lines = [f"{'':58} {'forward':>9} {'x floor':>8} {'fwd+bwd':>9} {'error o':>8} {'error d':>8}  (ms)"]
    for row in rows:
        for one, name in [(row, f"{row['shape']}, {row['gate']}")] + [(found, f"    {found['who']}") for found in row.get("peers", ())]:
            over = number({"x": one["ms"] / row["floor_ms"]} if "ms" in one and "floor_ms" in row else {}, "x", ".2f")
            notes = " ".join(filter(None, (one.get("of"), "eager" * one.get("eager", False), one.get("failed"))))
            lines.append(f"{name:58} {number(one, 'ms', '9.4f'):>9} {over:>8} {number(one, 'both_ms', '9.4f'):>9} "
                         f"{number(one, 'error', '.1e'):>8} {number(one, 'gradient_error', '.1e'):>8}  {notes}")
    return "\n".join(lines) + "\n"


def models(args):
    """Times the cases of the table 'models', and takes the errors of o and of the gradients beside each time."""
    args.peers = args.peers if isinstance(args.peers, list) else [who for who in args.peers.split(",") if who]
    if args.share:
        return tune_share(args)
    import torch
    cold, name = Cold(torch), torch.cuda.get_device_name()
    rate, gpu = cold.copy_rate(), name.split()[1]
    found = versions(args.peers)
    about = f"{name}, copy {rate / 1e12:.2f} TB/s, torch {torch.__version__}"
    about += "".join(f", {who} {version}" for who, version in found.items())
    tuned = [who for who in found if who in TUNED]
    if tuned:
        import triton
        choices = f"{args.choices} choices" if args.choices else "all choices"
        about += f"; Triton {triton.__version__}, {choices} of each kernel of {' and '.join(tuned)}"
        tuning.limit(args.choices)
    print(about, file=sys.stderr)
    args.peers = list(found)
    tuners = Tuners(args) if tuned and args.choices and args.jobs > 1 else NoTuners
    rows = []
    try:
        for case in cases_of(args):
            torch.manual_seed(1)
            try:
                measured = measure(torch, args, cold, case, rate, tuners)
            except Exception as problem:  # a shape that fails is a result, too
                measured = {"failed": first_line(problem)}
            torch.cuda.empty_cache()
            report(args, rows, {"shape": case.label(), "gate": case.profile, "gpu": gpu, **rounded(measured)})
            Path(args.output).with_suffix(".txt").write_text(f"{about}\n\n{as_table(rows)}", encoding="utf-8")
    finally:
        tuners.end()
