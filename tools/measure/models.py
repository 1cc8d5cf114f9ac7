"""Recurrences of models, and a peer's kernels beside them: the same inputs, one process, a cold cache."""
import statistics
import sys

from measure import profiles
from measure.cases import chosen
from measure.launches import Loaded, entry_names, sizes_of
from measure.model_peers import PEERS
from measure.report import report

ROUNDS = 15
# Rows and heads that the error is taken over: outputs are causal, so the first rows are theirs alone.
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


def exact(torch, case, tensors):
    """o of the first rows and heads, step by step in f64."""
    T = min(CHECKED_ROWS, tensors["q"].shape[1])
    if "cu_seqlens" in tensors:
        T = min(T, int(tensors["cu_seqlens"][1]))
    heads = tensors["v"].shape[2]
    group = heads // tensors["q"].shape[2]
    chosen_heads = torch.tensor([0, heads - 1][:CHECKED_HEADS], device="cuda")
    rows = lambda name, divide=1: tensors[name][0, :T].index_select(1, chosen_heads // divide).double()
    q, k, v = rows("q", group), rows("k", group), rows("v")
    package = case.package
    decay = torch.ones(T, len(chosen_heads), package.K, 1, dtype=torch.float64, device="cuda")
    if "g_gamma" in tensors:
        decay = decay * tensors["g_gamma"].double()[chosen_heads].exp()[:, None, None]
    if "g" in tensors:
        decay = decay * rows("g").exp()[:, :, None, None]
    if "gk" in tensors:
        decay = decay * rows("gk").exp()[..., None]
    state = torch.zeros(len(chosen_heads), package.K, package.V, dtype=torch.float64, device="cuda")
    if package.state:
        states = tensors["pool"][tensors["index"][0].item()] if package.pool else tensors["h0"][0]
        state = states.double()[chosen_heads]
    out = []
    for t in range(T):
        state = state * decay[t]
        added = v[t]
        if "beta" in tensors:
            added = rows("beta")[t][:, None] * (v[t] - torch.einsum("hkv,hk->hv", state, k[t]))
        state = state + k[t][:, :, None] * added[:, None, :]
        out.append(torch.einsum("hkv,hk->hv", state, q[t]) * package.K ** -0.5)
    return torch.stack(out), chosen_heads


def error(torch, o, reference):
    expected, heads = reference
    found = o[0, :len(expected)].index_select(1, heads).double()
    return float((found - expected).norm() / expected.norm())


def measure(torch, args, cold, case, rate):
    tensors = draw(torch, case)
    path = f"{args.folder}/{case.package.name()}.ejk"
    sizes = sizes_of(case)
    reference = exact(torch, case, tensors)  # before a pool is written
    f = Loaded(path, "f", sizes, given=tensors)
    f.launch()
    row = {"error": error(torch, f.outputs[0], reference), "floor_ms": f.bytes / rate * 1e3,
           "ms": cold.time(cold.graph(f.launch))}
    names = entry_names(path)
    if "f_vjp" in names:
        launches, known = [], dict(tensors)
        for entry in ("f_fwd", "f_vjp") if "f_fwd" in names else ("f", "f_vjp"):
            one = Loaded(path, entry, sizes, given=known)
            known |= one.named_outputs()
            launches.append(one)
        row["both_ms"] = cold.time(cold.graph(lambda: [one.launch() for one in launches]))
    f = launches = known = None
    torch.cuda.empty_cache()
    row["peers"] = [found for who in args.peers.split(",") if who
                    for found in [peer(torch, cold, case, tensors, reference, who)] if found]
    return row


def first_line(problem):
    return (str(problem).splitlines() or [type(problem).__name__])[0][:200]


def peer(torch, cold, case, tensors, reference, who):
    """A peer's times and error at a case, why it has none, or None if it has no such operation."""
    try:
        calls = PEERS[who](torch, case, tensors)
        if calls is None:
            return None
        forward, both = calls
        found = {"who": who, "error": error(torch, forward(), reference)}
        # Offsets are copied to the host by some, which no graph holds.
        found["ms"] = cold.time(forward if case.package.packed else cold.graph(forward))
        if both and case.package.vjp:
            try:
                found["both_ms"] = cold.time(both)
            except Exception as problem:
                found["failed"] = first_line(problem)
        return found
    except Exception as problem:  # a shape that a peer refuses is a result, too
        return {"who": who, "failed": first_line(problem)}
    finally:
        torch.cuda.empty_cache()


def rounded(row):
    return {key: round(value, 6) if isinstance(value, float) else list(map(rounded, value)) if key == "peers" else value
            for key, value in row.items()}


def models(args):
    """Times the cases of the table 'models', and prints the error of o beside each time."""
    import torch
    cold, name = Cold(torch), torch.cuda.get_device_name()
    rate, gpu = cold.copy_rate(), name.split()[1]
    print(f"{name}, copy {rate / 1e12:.2f} TB/s", file=sys.stderr)
    rows = []
    for case in chosen("^models$"):
        if args.shapes and not any(part in case.label() for part in args.shapes.split(";")):
            continue
        torch.manual_seed(1)
        try:
            measured = measure(torch, args, cold, case, rate)
        except Exception as problem:  # a shape that fails is a result, too
            measured = {"failed": first_line(problem)}
        torch.cuda.empty_cache()
        report(args, rows, {"shape": case.label(), "gate": case.profile, "gpu": gpu,
                            **rounded(measured)})
