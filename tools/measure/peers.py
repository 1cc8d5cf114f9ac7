"""flash-linear-attention's kernels at the shapes of the tables."""
import os
import statistics
import sys
from pathlib import Path

from measure import tuning
from measure.cases import NAMES, chosen
from measure.report import report


def peer_calls(args):
    """Of each case that flash-linear-attention has: (case, its forward, its gradients or None)."""
    import torch
    from fla.ops.gla import chunk_gla, fused_recurrent_gla
    from fla.ops.simple_gla import chunk_simple_gla, fused_recurrent_simple_gla
    from fla.ops.delta_rule import chunk_delta_rule, fused_recurrent_delta_rule
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule, fused_recurrent_gated_delta_rule
    from fla.ops.kda import chunk_kda, fused_recurrent_kda
    delta = {"none": (chunk_delta_rule, fused_recurrent_delta_rule),
             "g": (chunk_gated_delta_rule, fused_recurrent_gated_delta_rule),
             "gk": (chunk_kda, fused_recurrent_kda)}
    for case in chosen(args.only):
        package = case.package
        sizes = {key: int(value) for key, value in (part.split("=") for part in case.sizes.split(","))}
        gates = ("none", "g", "gk") if package.delta else ("g_gamma", "g", "gk")
        if package.gate not in gates or package.packed or package.reverse or package.heads \
                or package.arch != "sm_90a" or package.pool or package.f32_matmuls:
            continue
        B, T, H, K, V = sizes["B"], sizes["T"], sizes["H"], package.K, package.V
        T = min(T, 256) if args.share else T
        dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[package.dtype]
        draw = lambda *shape: torch.randn(*shape, device="cuda", dtype=dtype, requires_grad=package.vjp)
        q, k, v = draw(B, T, H, K), draw(B, T, H, K), draw(B, T, H, V)
        gates = {"g_gamma": lambda: -torch.rand(H, device="cuda") / 16,
                 "g": lambda: -torch.rand(B, T, H, device="cuda") / 16,
                 "gk": lambda: (-torch.rand(B, T, H, K, device="cuda") / 16).to(dtype)}
        gate = gates.get(package.gate, gates["g"])().detach().requires_grad_(package.vjp and package.gate != "g_gamma")
        chunked = package.schedule != "step" and sizes["T"] > 1
        if package.delta:
            beta = torch.rand(B, T, H, device="cuda").requires_grad_(package.vjp)
            k = torch.nn.functional.normalize(k.detach().float(), dim=-1).to(dtype).requires_grad_(package.vjp)
            function = delta[package.gate][0 if chunked else 1]
            keywords = {"beta": beta} | ({} if package.gate == "none" else {"g": gate})
        elif package.gate == "gk":
            function = chunk_gla if chunked else fused_recurrent_gla
            keywords = {"g" if chunked else "gk": gate}
        else:
            function = chunk_simple_gla if chunked else fused_recurrent_simple_gla
            keywords = {package.gate: gate}
        if package.state:
            keywords |= {"initial_state": torch.randn(B, H, K, V, device="cuda"), "output_final_state": True}
        forward = lambda: function(q, k, v, **keywords)
        gradients = None
        if package.vjp:
            leaves = [t for t in (q, k, v, *keywords.values()) if isinstance(t, torch.Tensor) and t.requires_grad]
            kept = []  # o, of one forward for all calls

            def gradients():
                if not kept:
                    kept.append(forward()[0])
                return torch.autograd.grad(kept[0], leaves, torch.ones_like(v), retain_graph=True)
        yield case, forward, gradients


def tune_share(args):
    """Has Triton compile every N-th choice of each of the peer's kernels, for the process that times
    them to find, and leaves a file for each case that it is done with."""
    index, count, folder = args.share.split("/", 2)
    tuning.limit(0, int(index), int(count))
    tuning.once()
    for number, (_, forward, gradients) in enumerate(peer_calls(args)):
        try:
            forward()
            if gradients:
                gradients()
        except Exception:  # peers() reports it
            pass
        Path(folder, f"{number}.{index}").touch()


def peers(args):
    """flash-linear-attention at the shapes of the tables: forward, and forward with all gradients.
    Triton compiles its choices one after another; args.jobs processes do so beforehand."""
    if args.share:
        return tune_share(args)
    import torch
    tuners = tuning.Tuners([sys.argv[0], "peers", f"--only={args.only}", "-o", os.devnull], args.jobs, args.jobs)
    tuning.limit(0)

    def measured(function):
        for _ in range(3):  # the first one tunes
            function()
        times = []
        with tuners.stopped():
            torch.cuda.synchronize()
            for _ in range(15):
                torch.cuda._sleep(20000000)  # 10 ms, in which the host sends all launches
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                function()
                end.record()
                end.synchronize()
                times.append(start.elapsed_time(end))
        return statistics.median(times)

    rows = []
    for number, (case, forward, gradients) in enumerate(peer_calls(args)):
        row = {"table": case.table, "gate": NAMES[case.package.gate], "shape": case.label()}
        tuners.wait(number)
        try:
            with torch.set_grad_enabled(case.package.vjp):
                row["peer_fwd_ms"] = measured(forward)
                if gradients:
                    row["peer_bwd_ms"] = measured(gradients)
        except Exception as error:  # a shape that the peer refuses is a result, too
            row["error"] = str(error).splitlines()[0][:200]
        report(args, rows, row)
