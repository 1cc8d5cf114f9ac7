"""ejk.compat.fla beside fla's own reference functions: outputs, states and all gradients.

    EJK_TEST_CASES=100 python3 -m unittest test_fla.Parity      # argument sets a function
"""

import inspect
import os
import unittest

import numpy as np
import torch

from ejk.compat import fla as ours

try:
    import fla.ops  # noqa: F401
    from fla.ops.comba.naive import naive_recurrent_comba
    from fla.ops.delta_rule.naive import delta_rule_recurrence
    from fla.ops.gated_delta_rule.naive import naive_recurrent_gated_delta_rule
    from fla.ops.generalized_delta_rule.dplr.naive import dplr_recurrence
    from fla.ops.gated_delta_product.naive import naive_recurrent_gated_delta_product
    from fla.ops.gdn2.naive import naive_recurrent_gdn2
    from fla.ops.gla.naive import naive_recurrent_gla
    from fla.ops.gsa.naive import naive_recurrent_gsa
    from fla.ops.kda.gate import naive_kda_gate, naive_kda_lowerbound_gate
    from fla.ops.kda.naive import naive_recurrent_kda
    from fla.ops.linear_attn.naive import naive_recurrent_linear_attn
    from fla.ops.rwkv6.recurrent_naive import naive_recurrent_rwkv6
    from fla.ops.simple_gla.naive import naive_recurrent_simple_gla
    MISSING = None
except ImportError as error:
    MISSING = f"fla-core is not installed ({error})"

# fla's tests allow a root mean square of the difference of 0.005 of the reference's, in bf16. In
# float32 both sides sum in another order: a parameter of one number sums terms that may nearly
# cancel.
LIMITS = {torch.float32: 1e-4, torch.bfloat16: 5e-3}


def expanded(x, heads):
    return x.repeat_interleave(heads // x.shape[2], 2)


def scaled(q, scale):
    """q for a reference that has no scale but K^-½."""
    return q if scale is None else q * (scale * q.shape[-1] ** 0.5)


def flipped(x):
    return x if x is None else x.flip(1)


def references():
    """{function: reference of one batch of equal sequences}: (arguments) → (o, final state)."""
    def gla(q, k, v, scale, h0, g=None, gk=None, **_):
        return naive_recurrent_gla(scaled(q, scale), k, v, gk if g is None else g, h0, True)

    def simple(q, k, v, g, scale, h0, **_):
        return naive_recurrent_simple_gla(q, k, v, g, scale, h0, True)

    def by_head(rates):
        def run(q, k, v, scale, h0, **_):
            return simple(q, k, v, rates(q.shape[2]).expand(q.shape[:3]), scale, h0)
        return run

    def linear(q, k, v, scale, h0, normalize=False, **_):
        return naive_recurrent_linear_attn(q, k, v, scale, h0, True, normalize)

    def delta(q, k, v, beta, scale, h0, **_):
        q, k, v, beta = (x.transpose(1, 2) for x in (scaled(q, scale), k, v, beta))
        o, state = delta_rule_recurrence(q, k, v, beta, h0, True)
        return o.transpose(1, 2), state

    def gated_delta(q, k, v, g, beta, scale, h0, **_):
        q, k = (expanded(x, v.shape[2]) for x in (q, k))
        return naive_recurrent_gated_delta_rule(q, k, v, beta, g, scale, h0, True)

    def delta_product(q, k, v, g, beta, num_householder, scale, h0, **_):
        h0 = None if h0 is None else h0.clone()
        return naive_recurrent_gated_delta_product(
            q, k, v, g, beta, q.shape[-1] ** -0.5 if scale is None else scale, None, h0, True,
            num_householder)

    def gsa(q, k, v, s, scale, h0, g=None, **_):
        return naive_recurrent_gsa(q, k, v, s, g, scale, h0, True)

    def kda(q, k, v, g, beta, scale, h0, **_):
        return naive_recurrent_kda(q, k, v, g, beta, scale, h0, True)

    def gdn2(q, k, v, g, b, w, scale, h0, **_):
        q, k = (expanded(x, v.shape[2]) for x in (q, k))
        return naive_recurrent_gdn2(q, k, v, g, b, w, scale, h0, True)

    def comba(q, k, v, p, g, beta, scale, h0, **_):
        q, k, p = (expanded(x, v.shape[2]) for x in (q, k, p))
        return naive_recurrent_comba(q, k, v, p, beta, g, scale, h0, True)

    def oja(q, k, v, gv, beta, scale, h0, **_):  # fla has none: its kernel's equations
        q, k = (expanded(x, v.shape[2]) for x in (q, k))
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        S = torch.zeros(*v.shape[:1], *v.shape[2:3], q.shape[-1], v.shape[-1]) if h0 is None else h0
        rows = []
        for t in range(q.shape[1]):
            S = S * gv[:, t].exp()[..., None, :]
            wrong = k[:, t] - torch.einsum("bhkv,bhv->bhk", S, v[:, t])
            S = S + torch.einsum("bhk,bhv->bhkv", beta[:, t, :, None] * wrong, v[:, t])
            rows.append(torch.einsum("bhkv,bhk->bhv", S, scale * q[:, t]))
        return torch.stack(rows, 1), S

    def rwkv6(r, k, v, w, u, scale, h0, **_):
        o, state = naive_recurrent_rwkv6(*(x.transpose(1, 2) for x in (r, k, v, w)), u, scale, h0,
                                         True)
        return o.transpose(1, 2), state

    def rwkv7(r, w, k, v, a, b, scale, h0, **_):
        o, state = dplr_recurrence(*(x.transpose(1, 2) for x in (scaled(r, scale), k, v, a, b, w)),
                                   h0, True)
        return o.transpose(1, 2), state

    def mul_rwkv7(r, w, k, v, kk, a, scale, h0, **_):
        return rwkv7(r, w, k, v, -kk, kk * a, scale, h0)

    def hgrn2(q, g, i, scale, h0, **_):
        return gla(q, 1 - g.exp(), i, scale, h0, g)

    def retention(heads):
        return (1 - 2.0 ** (-5.0 - torch.arange(heads, dtype=torch.float))).log()

    def lightning(heads):
        return -(8 / heads * (1 - 1 / 4)) * torch.arange(heads, dtype=torch.float)
    return {"chunk_gla": gla, "fused_chunk_gla": gla, "fused_recurrent_gla": gla,
            "chunk_simple_gla": simple, "fused_chunk_simple_gla": simple,
            "fused_recurrent_simple_gla": simple, "parallel_simple_gla": simple,
            "chunk_lightning_attn": by_head(lightning),
            "fused_recurrent_lightning_attn": by_head(lightning),
            "chunk_retention": by_head(retention), "fused_chunk_retention": by_head(retention),
            "fused_recurrent_retention": by_head(retention),
            "parallel_retention": by_head(retention), "chunk_linear_attn": linear,
            "fused_chunk_linear_attn": linear, "fused_recurrent_linear_attn": linear,
            "chunk_delta_rule": delta, "fused_chunk_delta_rule": delta,
            "fused_recurrent_delta_rule": delta, "chunk_gated_delta_rule": gated_delta,
            "fused_recurrent_gated_delta_rule": gated_delta,
            "chunk_gdn2": gdn2, "fused_recurrent_gdn2": gdn2, "chunk_comba": comba,
            "fused_recurrent_comba": comba, "chunk_gated_oja_rule": oja,
            "fused_recurrent_gated_oja_rule": oja,
            "chunk_gated_delta_product": delta_product, "chunk_gsa": gsa,
            "fused_recurrent_gsa": gsa, "chunk_kda": kda,
            "fused_recurrent_kda": kda, "chunk_rwkv6": rwkv6, "fused_recurrent_rwkv6": rwkv6,
            "chunk_rwkv7": rwkv7, "fused_recurrent_rwkv7": rwkv7,
            "fused_mul_recurrent_rwkv7": mul_rwkv7, "chunk_hgrn2": hgrn2,
            "fused_recurrent_hgrn2": hgrn2}


def random_case(rng, name):
    """(arguments of the function, what the reference is given beside or instead of some)."""
    function = getattr(ours, name)
    takes = inspect.signature(function).parameters
    takes_gate = "gated_delta_rule" in name or "kda" in name
    values_gate = "gdn2" in name or "comba" in name or "oja" in name
    slots = 6 if "gsa" in name else None
    dtype = torch.bfloat16 if rng.random() < 0.25 else torch.float32
    packed = rng.random() < 0.35
    B, T, H = (1 if packed else int(rng.integers(1, 3)), int(rng.integers(1, 24)),
               int(rng.choice([1, 2, 3])))
    HV = H * int(rng.choice([1, 2])) if takes_gate or values_gate else H
    householders = int(rng.integers(1, 4)) if "product" in name else 1
    groups = int(rng.choice([1, 2])) if slots else 1
    K, V = (8, 4) if rng.random() < 0.7 else (4, 8)
    # Each value is a program of its own, so there are few.
    scale = None if rng.random() < 0.6 else 0.5
    torch.manual_seed(int(rng.integers(1 << 30)))

    def normal(heads, channels, repeats=1):
        return torch.randn(B, T * repeats, heads, channels, dtype=torch.float32)

    def unit(x):
        return x / x.norm(dim=-1, keepdim=True)
    # Gates of a number a head, and of a number a key channel.
    by_channel = "kda" in name or "gdn2" in name or "hgrn2" in name or "gla" in name and "simple" not in name
    tensors = {}
    for n in takes:
        if n in ("q", "r"):
            tensors[n] = normal(H * groups, K)
        elif n == "k":
            k = normal(H, K, householders)
            tensors[n] = unit(k) if "beta" in takes or "a" in takes else k
        elif n in ("v", "i"):
            tensors[n] = normal(HV, V, householders)
        elif n == "beta":
            tensors[n] = torch.rand(B, T * householders, HV)
        elif n == "s":
            tensors[n] = torch.rand(B, T, H, slots)
        elif n == "g" and slots:
            if rng.random() < 0.7 or "recurrent" in name:
                tensors[n] = -torch.rand(B, T, H, slots)
        elif n == "u":
            tensors[n] = torch.randn(H, K)
        elif "gdn2" in name and n in "bw":
            tensors[n] = torch.rand(B, T, HV, K if n == "b" else V)
        elif n == "p":
            tensors[n] = 0.7 * unit(normal(H, K))
        elif n == "gv" and "oja" in name:
            tensors[n] = -torch.rand(B, T, HV, V)
        elif n == "w" or n in ("g", "gk") and by_channel:
            tensors[n] = -torch.rand(B, T, HV, K)
        elif n == "g":
            tensors[n] = -torch.rand(B, T, HV)
        elif n in ("kk", "a"):
            tensors[n] = -unit(normal(H, K)) if n == "a" and "b" in takes else unit(normal(H, K))
        elif n == "b":
            tensors[n] = unit(normal(H, K)) * torch.rand(B, T, H, 1)
    if "oja" in name:  # the state reads itself with values
        tensors["v"] = unit(tensors["v"])
    tensors = {n: x.to(dtype) for n, x in tensors.items()}
    if packed:
        cuts = np.sort(rng.integers(0, T + 1, int(rng.integers(0, 4))))
        tensors["cu_seqlens"] = torch.tensor([0, *cuts, T])
    N = len(tensors["cu_seqlens"]) - 1 if packed else B
    normalize = "normalize" in takes and rng.random() < 0.5
    if "normalize" in takes:
        tensors["q"], tensors["k"] = (tensors[n].abs() + 0.1 for n in "qk")
    v_first = "state_v_first" in takes and rng.random() < 0.4
    if "initial_state" in takes and rng.random() < 0.6:
        state = torch.randn(N, HV, *((V, K) if v_first else (K, slots or V)))
        tensors["initial_state"] = state
        if slots:
            tensors["z"] = torch.randn(N, HV, slots, V)
        if normalize:
            tensors["z"] = torch.rand(N, 1, H, K)
    options = {}
    if scale is not None:
        options["scale"] = scale
    for n, wanted in (("state_v_first", v_first), ("normalize", normalize)):
        if n in takes:
            options[n] = wanted
    if "reverse" in takes and rng.random() < 0.4:
        options["reverse"] = True
    if "output_final_state" in takes:
        options["output_final_state"] = True
    if "use_qk_l2norm_in_kernel" in takes and rng.random() < 0.4:
        options["use_qk_l2norm_in_kernel"] = True
    if takes_gate and rng.random() < 0.4:
        options["use_beta_sigmoid_in_kernel"] = True
        options["allow_neg_eigval"] = bool(rng.random() < 0.5)
    if takes_gate and rng.random() < 0.4:
        options["use_gate_in_kernel"] = True
        tensors["A_log"] = torch.rand(HV)
        tensors["dt_bias"] = torch.randn(HV * K if "kda" in name else HV)
        if "kda" in name and rng.random() < 0.5:
            options["lower_bound"] = -4.0
    if "num_householder" in takes:
        options["num_householder"] = householders
    if "layer_idx" in takes:
        options["layer_idx"], options["num_layers"] = 1, 4
    return tensors, options


def run_ours(name, tensors, options):
    tensors = dict(tensors)
    if "z" in tensors:
        tensors["initial_state"] = (tensors["initial_state"], tensors.pop("z"))
    o, state = getattr(ours, name)(**tensors, **options)
    return [o, *(state if isinstance(state, (tuple, list)) else [] if state is None else [state])]


def run_reference(reference, name, tensors, options):
    """The reference on each sequence, with what fla's kernels do around it in torch."""
    tensors, options = dict(tensors), dict(options)
    wanted = options.pop("output_final_state", name == "fused_recurrent_rwkv7")
    v_first, reverse = options.pop("state_v_first", False), options.pop("reverse", False)
    slots = tensors["s"].shape[3] if "s" in tensors else None
    pair = options.get("normalize", False) or slots  # whether a state has a second part
    repeats = options.get("num_householder", 1)
    h0, z0 = tensors.pop("initial_state", None), tensors.pop("z", None)
    if h0 is not None and v_first:
        h0 = h0.transpose(-1, -2)
    offsets = tensors.pop("cu_seqlens", None)
    scale = options.pop("scale", 1.0 if name in ("chunk_rwkv7", "fused_mul_recurrent_rwkv7")
                        else None)
    if options.pop("use_qk_l2norm_in_kernel", False):
        for n in tensors.keys() & set("qkp"):
            x = tensors[n]
            tensors[n] = x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)
    A, bias = tensors.pop("A_log", None), tensors.pop("dt_bias", None)
    bound = options.pop("lower_bound", None)
    if options.pop("use_gate_in_kernel", False):
        if bound is not None:
            tensors["g"] = naive_kda_lowerbound_gate(tensors["g"], A, bias, bound)
        elif tensors["g"].dim() == 4:
            tensors["g"] = naive_kda_gate(tensors["g"], A, bias)
        else:
            tensors["g"] = -A.exp() * torch.nn.functional.softplus(tensors["g"].float() + bias)
    if options.pop("use_beta_sigmoid_in_kernel", False):
        tensors["beta"] = tensors["beta"].float().sigmoid() * (1 + options["allow_neg_eigval"])
    first = next(iter(tensors.values()))
    spans = ([(slice(None), slice(0, first.shape[1]))] if offsets is None else
             [(slice(0, 1), slice(int(a), int(b))) for a, b in zip(offsets, offsets[1:])])
    outputs, states, keys = [], [], []
    for number, (entries, rows) in enumerate(spans):
        several = slice(rows.start * repeats, rows.stop * repeats)
        own = {n: x if n == "u" else x[entries, several if n in ("k", "v", "beta") else rows]
               for n, x in tensors.items()}
        if reverse:
            own = {n: x if n == "u" else x.flip(1) for n, x in own.items()}
        state = h0 if h0 is None or offsets is None else h0[number:number + 1]
        if pair:
            z = z0 if z0 is None or offsets is None else z0[number:number + 1]
            state = None if state is None else (state, z)
        if rows.stop == rows.start:  # no step: the state stays; the references want one
            K = tensors["q" if "q" in tensors else "r"].shape[3]
            _, _, heads, V = tensors["v" if "v" in tensors else "i"].shape
            matrix, z = state if isinstance(state, tuple) else (state, None)
            states.append(torch.zeros(1, heads, K, slots or V) if matrix is None else matrix)
            zero = torch.zeros(1, heads, slots, V) if slots else torch.zeros(1, 1, heads, K)
            keys.append(zero if z is None else z)
            continue
        o, state = reference(**own, scale=scale, h0=state, **options)
        outputs.append(o.flip(1) if reverse else o)
        if isinstance(state, tuple):
            state, z = state
            keys.append(z)
        states.append(state)
    results = [torch.cat(outputs, 1)]
    if wanted:
        state = torch.cat(states)
        results.append(state.transpose(-1, -2) if v_first else state)
    if pair:
        results.append(torch.cat(keys))
    return results


@unittest.skipIf(MISSING, MISSING)
class Parity(unittest.TestCase):
    pass


def _make(name):
    def test(self):
        reference = references()[name]
        rng = np.random.default_rng(int(os.environ.get("EJK_TEST_SEED", 0)))
        worst = 0.0
        for number in range(int(os.environ.get("EJK_TEST_CASES", 3))):
            tensors, options = random_case(rng, name)
            floats = [n for n, x in tensors.items() if x.is_floating_point()]
            limit = LIMITS[next(iter(tensors.values())).dtype]
            found, wanted, types = [], [], []
            for run, results in ((run_ours, found), (run_reference, wanted)):
                own = {n: x.clone().requires_grad_() if n in floats else x for n,
                       x in tensors.items()}
                if run is run_reference:
                    # In float32: the rounding of a reference's own steps is no part of the answer.
                    exact = {n: x.float() if n in floats else x for n, x in own.items()}
                    values = run(reference, name, exact, options)
                else:
                    values = run(name, own, options)
                    types = [x.dtype for x in values]
                torch.manual_seed(number)
                # Cotangents that the tensors' type holds, so that both sides are given the same.
                main = next(iter(tensors.values())).dtype
                loss = sum((x.float() * torch.randn(x.shape).to(main).float()).sum()
                           for x in values)
                gradients = torch.autograd.grad(loss, [own[n] for n in floats], allow_unused=True)
                results += [x.detach().float() for x in values]
                results += [torch.zeros_like(own[n]).float() if g is None else g.float()
                            for n, g in zip(floats, gradients)]
            self.assertEqual(types[0], main)
            for a in types[1:2]:
                self.assertEqual(a, torch.float32)
            # A number near 0 that is a sum of others is measured by the largest of its kind.
            for what, a, b in zip([*[f"result {i}" for i in range(len(types))], *floats], found,
                                  wanted):
                self.assertEqual(a.shape, b.shape, what)
                size = b.square().mean().sqrt().item() if b.numel() else 0.0
                off = (a - b).square().mean().sqrt().item() if b.numel() else 0.0
                ratio = off / max(size, 1e-2)
                worst = max(worst, ratio / limit)
                self.assertLessEqual(ratio, limit, f"{name}, case {number}, {what}: {options}, "
                                     f"{ {n: list(x.shape) for n, x in tensors.items()} }")
        if os.environ.get("EJK_TEST_CASES"):
            print(f"{name}: the largest error is {worst:.3f} of its limit", flush=True)
    return test


if not MISSING:
    for _name in references():
        setattr(Parity, f"test_{_name}", _make(_name))
