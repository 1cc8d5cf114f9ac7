"""Peers' kernels for the cases of the table 'models', each on its fastest path."""
import functools
import inspect
from dataclasses import dataclass, field
from typing import Callable


@dataclass
class Peer:
    """A peer's calls at a case. `given` are inputs of the reference by name where the peer takes others than
    the case's, and `scale` is a factor of o that the peer leaves out."""
    forward: Callable  # -> o
    both: Callable = None  # (do) -> {name of an input: its gradient}
    given: dict = field(default_factory=dict)
    scale: float = 1.0
    tuned: bool = False  # by Triton, at its first call


def gradients(torch, function, leaves):
    """Of `function`, whose result is o: a call (do) -> {name: gradient} of those leaves that have one."""
    names = [name for name, leaf in leaves.items() if leaf.requires_grad]
    wanted = [leaves[name] for name in names]
    return lambda do: dict(zip(names, torch.autograd.grad(function(), wanted, do)))


def inputs(tensors, *others):
    """The inputs that have gradients, as leaves, and the constant ones."""
    constant = ("do", "cu_seqlens", "h0", "pool", "index", *others)
    return {name: tensor.detach().requires_grad_(name != "g_gamma")
            for name, tensor in tensors.items() if name not in constant}


def quiet(torch, function):
    def forward():
        with torch.no_grad():
            return function()
    return forward


def fla_calls(torch, case, tensors):
    """flash-linear-attention, on its path for strong gates where the gates are bounded. It has no pools of states:
    a token's states are given to it in order, in f32, and it writes new ones."""
    package = case.package
    heads = tensors["v"].shape[2]
    if not package.delta and tensors["q"].shape[2] != heads or package.pool not in ("", "f32"):
        return None
    leaves = inputs(tensors)
    q, k, v = (leaves[name] for name in "qkv")
    states = {}
    if package.state:
        h0 = tensors["pool"][tensors["index"].long()] if package.pool else tensors["h0"]
        states = {"initial_state": h0, "output_final_state": True}
    if package.state and package.delta:
        from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule
        from fla.ops.kda import fused_recurrent_kda
        function = functools.partial(fused_recurrent_kda if "gk" in leaves else fused_recurrent_gated_delta_rule,
                                     g=leaves.get("gk", leaves.get("g")), beta=leaves["beta"], **states)
    elif package.delta:
        from fla.ops.gated_delta_rule import chunk_gated_delta_rule
        from fla.ops.kda import chunk_kda
        function = functools.partial(chunk_kda if "gk" in leaves else chunk_gated_delta_rule,
                                     g=leaves.get("gk", leaves.get("g")), beta=leaves["beta"])
        if "gk" in leaves and case.profile == "lb5":
            function = functools.partial(function, safe_gate=True)
        if package.packed:
            function = functools.partial(function, cu_seqlens=tensors["cu_seqlens"].long())
    elif "gk" in leaves:
        from fla.ops.gla import chunk_gla
        function = functools.partial(chunk_gla, g=leaves["gk"])
    else:
        from fla.ops.simple_gla import chunk_simple_gla
        function = functools.partial(chunk_simple_gla, **{name: leaves[name] for name in ("g", "g_gamma") if name in leaves})
    call = lambda: function(q, k, v)[0]
    return Peer(quiet(torch, call), gradients(torch, call, leaves), tuned=True)


def flashinfer_calls(torch, case, tensors):
    """FlashInfer's gated delta rule, which has no gradient. Prefill takes gates as factors, which it is given ready
    made; decode computes gates of what it is given, and has states with the value's channels first."""
    package = case.package
    if not package.delta or package.gate != "g":
        return None
    if package.state:
        return flashinfer_decode(torch, case, tensors)
    from flashinfer.gdn_prefill import chunk_gated_delta_rule
    rows = lambda name: tensors[name].flatten(0, 1).contiguous()
    B, T = tensors["q"].shape[:2]
    ends = tensors["cu_seqlens"] if package.packed else torch.arange(0, B * T + 1, T, device="cuda")
    keywords = {"g": rows("g").exp(), "beta": rows("beta"), "cu_seqlens": ends.long(), "output": torch.empty_like(rows("v"))}
    if not package.packed and "max_seqlen" in inspect.signature(chunk_gated_delta_rule).parameters:  # of later versions
        keywords["max_seqlen"] = T
    q, k, v = map(rows, "qkv")
    return Peer(lambda: chunk_gated_delta_rule(q, k, v, **keywords).unflatten(0, (B, T)))


def flashinfer_decode(torch, case, tensors):
    from flashinfer.gdn_decode import gated_delta_rule_decode_pretranspose
    B, T, heads = tensors["v"].shape[:3]
    # The kernel's gate is -exp(A_log) softplus(a + dt_bias), its rate sigmoid(b), of bf16 a and b.
    a = tensors["g"].neg().expm1().clamp_min(1e-30).log().clamp_min(-60).bfloat16()
    b = torch.logit(tensors["beta"].clamp(1e-6, 1 - 1e-6)).bfloat16()
    zeros = torch.zeros(heads, device="cuda")
    states = tensors["pool"] if case.package.pool else tensors["h0"]
    pool = states.transpose(-1, -2).contiguous()
    index = tensors["index"] if case.package.pool else torch.arange(B, dtype=torch.int32, device="cuda")
    q, k, v = (tensors[name] for name in "qkv")
    out = torch.empty_like(v)

    def forward():
        return gated_delta_rule_decode_pretranspose(
            q, k, v, None, zeros, a, zeros, b, output=out, use_qk_l2norm=False, initial_state=pool,
            initial_state_indices=index, backend="flashinfer")[0]
    return Peer(forward, given={"g": -torch.nn.functional.softplus(a.double()), "beta": b.double().sigmoid()})


def cudnn_calls(torch, case, tensors):
    """cuDNN's KDA. On a Hopper GPU these are kernels that NVRTC compiles; its gated delta rule there needs cuTile,
    which is left out."""
    package = case.package
    if not package.delta or package.gate != "gk" or package.state:
        return None
    from cudnn.linear_attention.ops import kimi_delta_attention
    B, T = tensors["q"].shape[:2]
    ends = tensors["cu_seqlens"] if package.packed else torch.arange(0, B * T + 1, T, device="cuda")
    leaves = inputs(tensors)
    rows = lambda name: leaves[name].flatten(0, 1)
    call = lambda: kimi_delta_attention(*map(rows, ("q", "k", "v", "gk", "beta")), ends.int())[0].unflatten(0, (B, T))
    return Peer(quiet(torch, call), gradients(torch, call, leaves))


def flashqla_calls(torch, case, tensors):
    """FlashQLA's gated delta rule, split over the sequence where its model of costs says so."""
    package = case.package
    if not package.delta or package.gate != "g" or package.state:
        return None
    from flash_qla.ops.gated_delta_rule import chunk_gated_delta_rule
    leaves = inputs(tensors)
    ends = {"cu_seqlens": tensors["cu_seqlens"]} if package.packed else {}
    call = lambda: chunk_gated_delta_rule(*(leaves[name] for name in ("q", "k", "v", "g", "beta")), **ends)[0]
    return Peer(quiet(torch, call), gradients(torch, call, leaves))


def mamba_calls(torch, case, tensors):
    """mamba-ssm's scan of Mamba-2, whose step is decay exp(dt A) and input dt x: A is -1, dt the gate, x = v / dt."""
    package = case.package
    if not package.grouped:
        return None
    from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined
    dt = tensors["g"].neg().clamp_min(1e-3)
    x = (tensors["v"].float() / dt[..., None]).to(tensors["v"].dtype)
    leaves = {"x": x, "dt": dt, "k": tensors["k"], "q": tensors["q"]}
    leaves = {name: leaf.detach().requires_grad_() for name, leaf in leaves.items()}
    A = -torch.ones(dt.shape[2], device="cuda")
    call = lambda: mamba_chunk_scan_combined(leaves["x"], leaves["dt"], A, leaves["k"], leaves["q"], chunk_size=256)
    return Peer(quiet(torch, call), gradients(torch, call, leaves), scale=package.K ** -0.5, tuned=True,
                given={"g": -dt.double(), "v": x.double() * dt.double()[..., None]})


PEERS = {"fla": fla_calls, "FlashInfer": flashinfer_calls, "cuDNN": cudnn_calls, "FlashQLA": flashqla_calls,
         "mamba-ssm": mamba_calls}
MODULES = {"fla": "fla", "FlashInfer": "flashinfer", "cuDNN": "cudnn", "FlashQLA": "flash_qla", "mamba-ssm": "mamba_ssm"}
DISTRIBUTIONS = {"fla": "fla-core", "FlashInfer": "flashinfer-python", "cuDNN": "nvidia-cudnn-frontend", "FlashQLA": "flash-qla",
                 "mamba-ssm": "mamba-ssm"}


def versions(who):
    """Of the peers that are installed: 'name version' by name."""
    import importlib.metadata
    import importlib.util
    found = {}
    for name in who:
        if importlib.util.find_spec(MODULES[name]):
            try:
                found[name] = importlib.metadata.version(DISTRIBUTIONS[name])
            except importlib.metadata.PackageNotFoundError:
                found[name] = "?"
    return found
