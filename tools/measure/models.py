"""Recurrences of models, and a peer's kernels beside them: the same inputs, one process, a cold cache."""
import functools
import statistics
import sys

from measure import profiles
from measure.cases import chosen
from measure.launches import Loaded, entry_names, sizes_of
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
    return tensors


def exact(torch, case, tensors):
    """o of the first rows and heads, step by step in f64."""
    T = min(CHECKED_ROWS, tensors["q"].shape[1])
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


def fla_calls(torch, case, tensors):
    """flash-linear-attention's forward and its forward with all gradients; None where it has no such op."""
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule
    from fla.ops.gla import chunk_gla
    from fla.ops.kda import chunk_kda
    from fla.ops.simple_gla import chunk_simple_gla
    package = case.package
    leaves = {name: tensor.detach().requires_grad_(name != "g_gamma") for name, tensor in tensors.items() if name != "do"}
    q, k, v = (leaves[name] for name in "qkv")
    if package.delta:
        function = functools.partial(chunk_kda if "gk" in leaves else chunk_gated_delta_rule,
                                     g=leaves.get("gk", leaves.get("g")), beta=leaves["beta"])
    elif "gk" in leaves:
        function = functools.partial(chunk_gla, g=leaves["gk"])
    else:
        function = functools.partial(chunk_simple_gla, **{name: leaves[name] for name in ("g", "g_gamma") if name in leaves})
    wanted = [leaf for leaf in leaves.values() if leaf.requires_grad]

    def forward():
        with torch.no_grad():
            return function(q, k, v)[0]

    def both():
        return torch.autograd.grad(function(q, k, v)[0], wanted, tensors["do"])
    return forward, both


def measure(torch, args, cold, case, rate):
    tensors = draw(torch, case)
    path = f"{args.folder}/{case.package.name()}.ejk"
    sizes = sizes_of(case)
    f = Loaded(path, "f", sizes, given=tensors)
    f.launch()
    reference = exact(torch, case, tensors)
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
    if args.fla:
        forward, both = fla_calls(torch, case, tensors)
        row["fla_error"] = error(torch, forward(), reference)
        row["fla_ms"] = cold.time(cold.graph(forward))
        row["fla_both_ms"] = cold.time(both)
    return row


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
            measured = {"failed": str(problem).splitlines()[0][:200]}
        torch.cuda.empty_cache()
        report(args, rows, {"shape": case.label(), "gate": case.profile, "gpu": gpu,
                            **{key: round(value, 6) if isinstance(value, float) else value
                               for key, value in measured.items()}})
