"""Peers' kernels for the cases of the table 'models', each on its fastest path."""
import functools


def fla_calls(torch, case, tensors):
    """flash-linear-attention's forward and its forward with all gradients; None where it has no such op."""
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule, fused_recurrent_gated_delta_rule
    from fla.ops.gla import chunk_gla
    from fla.ops.kda import chunk_kda
    from fla.ops.simple_gla import chunk_simple_gla
    package = case.package
    if package.pool or not package.delta and tensors["q"].shape[2] != tensors["v"].shape[2]:
        return None
    others = ("do", "cu_seqlens", "h0")
    leaves = {name: tensor.detach().requires_grad_(name != "g_gamma") for name, tensor in tensors.items() if name not in others}
    q, k, v = (leaves[name] for name in "qkv")
    if package.state:
        function = functools.partial(fused_recurrent_gated_delta_rule, g=leaves["g"], beta=leaves["beta"],
                                     initial_state=tensors["h0"], output_final_state=True)
    elif package.delta:
        function = functools.partial(chunk_kda if "gk" in leaves else chunk_gated_delta_rule,
                                     g=leaves.get("gk", leaves.get("g")), beta=leaves["beta"])
        if case.profile == "lb5":
            function = functools.partial(function, safe_gate=True)
        if package.packed:
            function = functools.partial(function, cu_seqlens=tensors["cu_seqlens"].long())
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


def flashinfer_calls(torch, case, tensors):
    """FlashInfer's forward of the gated delta rule, which has no gradient; None for all else. Its gates
    are factors, which it is given ready made."""
    from flashinfer.gdn_prefill import chunk_gated_delta_rule
    package = case.package
    if not package.delta or package.gate != "g" or package.state:
        return None
    rows = lambda name: tensors[name].flatten(0, 1).contiguous()
    B, T = tensors["q"].shape[:2]
    ends = tensors["cu_seqlens"] if package.packed else torch.arange(0, B * T + 1, T, device="cuda")
    keywords = {"g": rows("g").exp(), "beta": rows("beta"), "cu_seqlens": ends.long(), "output": torch.empty_like(rows("v"))}
    q, k, v = map(rows, "qkv")

    def forward():
        return chunk_gated_delta_rule(q, k, v, **keywords).unflatten(0, (B, T))
    return forward, None


PEERS = {"fla": fla_calls, "FlashInfer": flashinfer_calls}
