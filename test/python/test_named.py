"""The recurrences of `ejk.ops` with a paper of their own, beside the paper's equations in f64, step by
step: outputs, states and all gradients.

    EJK_TEST_CASES=50 python3 -m unittest test_named.Torch      # cases a function
"""

import os
import unittest

import numpy as np
import reference
import torch

import ejk
from reference import error

# Of ‖found − expected‖ / ‖expected‖. A CPU computes steps in float32; outputs and gradients of bf16
# tensors are rounded to it, 2^-9 at most.
LIMITS = {torch.float32: 5e-5, torch.bfloat16: 4e-3}
# Two recurrences, with weights that are rounded between them.
OF_SLOTS = {torch.float32: 5e-5, torch.bfloat16: 8e-3}


def heads(x, count, dim=1):
    """Rows of each of `count` heads, of a group's."""
    return x.repeat_interleave(count // x.shape[dim], dim)


def outer(a, b):
    return a.unsqueeze(-1) * b.unsqueeze(-2)


def read(S, x):  # Sᵀ x
    return torch.einsum("bhkv,bhk->bhv", S, x)


# What one step does, of rows [N, H, C]: state, rows by name → state, output.

def gated_delta_product(S, q, k, v, beta, g=None, scale=None):
    H = v.shape[2]
    if g is not None:
        S = S * g.exp()[..., None, None]
    for i in range(k.shape[1]):
        key = heads(k[:, i], H)
        S = S - beta[:, i, :, None, None] * outer(key, read(S, key)) + beta[:, i, :, None, None] * outer(
            key, v[:, i])
    return S, scale * read(S, heads(q, H))


def gdn2(S, q, k, v, g, b, w, scale=None):
    H = v.shape[1]
    q, k = heads(q, H), heads(k, H)
    S = g.exp()[..., None] * S
    erased = torch.eye(k.shape[-1], dtype=S.dtype) - outer(k, b * k)
    S = erased @ S + outer(k, w * v)
    return S, scale * read(S, q)


def comba(S, q, k, v, p, beta, g=None, scale=None):
    H = v.shape[1]
    q, k, p = (heads(x, H) for x in (q, k, p))
    transition = torch.eye(k.shape[-1], dtype=S.dtype) - beta[..., None, None] * outer(k, p)
    decay = 1 if g is None else g.exp()[..., None, None]
    S = decay * (transition @ S) + beta[..., None, None] * outer(k, v)
    return S, scale * read(S, q)


def oja(S, q, k, v, beta, g=None, scale=None):
    H = v.shape[1]
    q, k = heads(q, H), heads(k, H)
    if g is not None:
        S = S * g.exp()[..., None, :]
    transition = torch.eye(v.shape[-1], dtype=S.dtype) - beta[..., None, None] * outer(v, v)
    S = S @ transition + beta[..., None, None] * outer(k, v)
    return S, scale * read(S, q)


def mamba3(states, x, dt, A, trap, B, C, D=None, scale=None):
    S, B_before, x_before = states
    H = x.shape[1]
    B, C = heads(B, H), heads(C, H)
    alpha = (A * dt).exp()
    S = (alpha[..., None, None] * S + ((1 - trap) * dt * alpha)[..., None, None] * outer(B_before, x_before)
         + (trap * dt)[..., None, None] * outer(B, x))
    y = read(S, C)
    return (S, B, x), y if D is None else y + D[:, None] * x


def mlstm(states, q, k, v, i, f, scale=None, eps=0.0):
    C, n, m = states
    gate = -torch.nn.functional.softplus(-f)
    top = torch.maximum(gate + m, i)
    kept, written = (gate + m - top).exp(), (i - top).exp()
    k = k * scale
    C = kept[..., None, None] * C + written[..., None, None] * outer(k, v)
    n = kept[..., None] * n + written[..., None] * k
    below = torch.maximum((n * q).sum(-1).abs(), (-top).exp())
    return (C, n, top), read(C, q) / (below[..., None] + eps)


def gated_slot_attention(states, q, k, v, s, g, scale=None):
    keys, values = states
    groups = q.shape[1] // k.shape[1]
    keys = g.exp()[..., None, :] * keys + outer(k, s)
    values = g.exp()[..., None] * values + outer(s, v)
    weights = (scale * read(heads(keys, q.shape[1]), q)).softmax(-1)
    del groups
    return (keys, values), read(heads(values, q.shape[1]), weights)


STEPS = {f.__name__: f for f in (gated_delta_product, gdn2, comba, oja, mamba3, mlstm,
                                 gated_slot_attention)}
PARAMETERS = ("A", "D")


def by_steps(name, scale=None, initial_state=None, previous=None, cu_seqlens=None, reverse=False, eps=None, **rows):
    """A function of ejk.ops, from its step: (o, states). In f64, so that torch differentiates it."""
    rows = {n: x.double() for n, x in rows.items() if x is not None}
    q = rows.get("q")
    B, T = next(iter(rows.values())).shape[:2]
    if q is not None and scale is None:
        scale = q.shape[-1] ** -0.5
    spans = reference.sequences(T, cu_seqlens, B)
    states, outputs = [], {}
    for number, (b, first, end) in enumerate(spans):
        state = start(name, rows, initial_state, previous, number)
        order = range(first, end)
        for t in reversed(order) if reverse else order:
            own = {n: x if n in PARAMETERS and x.dim() < 3 else x[b:b + 1, t] for n, x in rows.items()}
            own.update({} if eps is None else {"eps": eps})
            state, outputs[b, t] = STEPS[name](state, scale=scale, **own)
        states.append(state[:1] if name == "mamba3" else state)
    zero = torch.zeros_like(next(iter(outputs.values())))
    o = torch.stack([torch.cat([outputs.get((b, t), zero) for t in range(T)]) for b in range(B)])
    if isinstance(states[0], tuple):
        states = [torch.cat(parts) for parts in zip(*states)]
        return o, states[0] if len(states) == 1 else tuple(states)
    return o, torch.cat(states)


def start(name, rows, given, previous, number):
    """The state of sequence `number` before its first step."""
    def shape_of():
        if name == "mamba3":
            return [(rows["x"].shape[2], rows["B"].shape[3], rows["x"].shape[3])]
        H, K, V = rows["v"].shape[-2], rows["k"].shape[-1], rows["v"].shape[-1]
        if name == "mlstm":
            return [(H, K, V), (H, K), (H,)]
        if name == "gated_slot_attention":
            M = rows["s"].shape[-1]
            return [(H, K, M), (H, M, V)]
        return [(H, K, V)]
    shapes = shape_of()
    given = given if isinstance(given, tuple) else (given,) * len(shapes)
    parts = [torch.zeros(1, *shape, dtype=torch.float64) if x is None else x[number:number + 1].double()
             for shape, x in zip(shapes, given)]
    if name == "mamba3":
        H, N, P = shapes[0]
        if previous is None:
            previous = torch.zeros(number + 1, H, N), torch.zeros(number + 1, H, P)
        B, x = (p[number:number + 1].double() for p in previous)
        return parts[0], heads(B, H), x
    return tuple(parts) if len(parts) > 1 else parts[0]


def random_case(rng, name, dtype):
    """Arguments of a function of ejk.ops, tensors in `dtype` where it takes that."""
    packed = rng.random() < 0.4
    B, T, H = 1 if packed else int(rng.integers(1, 3)), int(rng.integers(1, 20)), int(rng.integers(1, 3))
    HV, K, V, M, count = H * int(rng.integers(1, 3)), 6, 5, 4, int(rng.integers(1, 4))
    torch.manual_seed(int(rng.integers(1 << 30)))
    case, lengths = {}, (T,)
    if packed:
        cuts = np.sort(rng.integers(0, T + 1, int(rng.integers(0, 4))))
        case["cu_seqlens"] = torch.tensor([0, *cuts, T])
        lengths = np.diff([0, *cuts, T])
    N = len(lengths) if packed else B

    def normal(*shape):
        return torch.randn(B, T, *shape)

    def unit(*shape):
        return torch.nn.functional.normalize(normal(*shape), dim=-1)

    def rate(*shape):
        return torch.rand(B, T, *shape)

    def gate(*shape):
        return -rate(*shape)
    rows, wide = {
        "gated_delta_product": lambda: (dict(q=normal(H, K), k=unit(count, H, K), v=normal(count, HV, V)),
                                        dict(beta=2 * rate(count, HV), g=gate(HV))),
        "gdn2": lambda: (dict(q=normal(H, K), k=unit(H, K), v=normal(HV, V)),
                         dict(g=gate(HV, K), b=rate(HV, K), w=rate(HV, V))),
        "comba": lambda: (dict(q=normal(H, K), k=unit(H, K), v=normal(HV, V), p=0.7 * unit(H, K)),
                          dict(g=gate(HV), beta=rate(HV))),
        "oja": lambda: (dict(q=normal(H, K), k=normal(H, K), v=unit(HV, V)),
                        dict(beta=rate(HV), g=gate(HV, V))),
        "mamba3": lambda: (dict(x=normal(HV, V), B=normal(H, K), C=normal(H, K)),
                           dict(dt=rate(HV), A=gate(HV), trap=rate(HV), D=torch.randn(HV))),
        "mlstm": lambda: (dict(q=normal(H, K), k=normal(H, K), v=normal(H, V)),
                          dict(i=normal(H), f=2 * normal(H))),
        "gated_slot_attention": lambda: (dict(q=normal(HV, K), k=normal(H, K), v=normal(H, V),
                                              s=rate(H, M)), dict(g=gate(H, M))),
    }[name]()
    for optional in ("g", "D"):
        if optional in wide and name not in ("gdn2", "gated_slot_attention") and rng.random() < 0.3:
            del wide[optional]
    if name == "comba":
        wide.setdefault("g", None)
    if name == "mamba3" and rng.random() < 0.5:
        wide["A"] = -torch.rand(HV)
    case = {**{n: x.to(dtype) for n, x in rows.items()}, **wide, **case}
    if rng.random() < 0.6:
        V_of, K_of = V, K
        case["initial_state"] = {
            "mlstm": lambda: (torch.randn(N, H, K, V), torch.randn(N, H, K), torch.randn(N, H)),
            "gated_slot_attention": lambda: (torch.randn(N, H, K, M), torch.randn(N, H, M, V)),
        }.get(name, lambda: torch.randn(N, HV, K_of, V_of))()
    if name == "mamba3" and rng.random() < 0.5:
        case["previous"] = torch.randn(N, H, K).to(dtype), torch.randn(N, HV, V).to(dtype)
    if name != "mamba3" and rng.random() < 0.4:
        case["scale"] = 0.5
    if rng.random() < 0.3:
        case["reverse"] = True
    return case


def long_mlstm(rng, reverse):
    """mLSTM of rows in 16 bits, enough for three recurrences: with a maximum that moves, and an initial one."""
    B, T, H, K, V = 1, 96, 2, 6, 5
    torch.manual_seed(int(rng.integers(1 << 30)))
    rows = {n: torch.randn(B, T, H, C).bfloat16() for n, C in (("q", K), ("k", K), ("v", V))}
    return dict(**rows, i=3 * torch.randn(B, T, H), f=3 * torch.randn(B, T, H), reverse=reverse,
                cu_seqlens=torch.tensor([0, 31, 31, 96]), initial_state=(
                    torch.randn(3, H, K, V), torch.randn(3, H, K), torch.randn(3, H)))


def flat(case):
    """Tensors of a case that have a gradient, by name."""
    found = {}
    for n, x in case.items():
        for i, part in enumerate(x if isinstance(x, tuple) else (x,)):
            if isinstance(part, torch.Tensor) and part.is_floating_point():
                found[n, i] = part
    return found


def with_gradients(case):
    leaves = {key: x.clone().requires_grad_() for key, x in flat(case).items()}

    def part(n, i, x):
        return leaves.get((n, i), x)
    own = {n: tuple(part(n, i, p) for i, p in enumerate(x)) if isinstance(x, tuple) else part(n, 0, x)
           for n, x in case.items()}
    return own, leaves


def listed(results):
    o, states = results
    return [o, *(states if isinstance(states, (tuple, list)) else [states])]


def gradients(function, case, seed):
    own, leaves = with_gradients(case)
    values = listed(function(**own))
    torch.manual_seed(seed)
    # Cotangents that bf16 holds, so that all are given the same.
    loss = sum((x.double() * torch.randn(x.shape).bfloat16().double()).sum() for x in values)
    found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    return ([x.detach() for x in values],
            {key: torch.zeros_like(x) if g is None else g for (key, x), g in zip(leaves.items(), found)})


class Torch(unittest.TestCase):
    def compare(self, name, case, limit, number):
        found, own = gradients(getattr(ejk.ops, name), case, number)
        wanted, exact = gradients(lambda **a: by_steps(name, **a), case, number)
        what = f"{name}, case {number}: " + ", ".join(
            f"{n} {[list(p.shape) for p in x] if isinstance(x, tuple) else list(x.shape) if isinstance(x, torch.Tensor) else x}"
            for n, x in case.items())
        self.assertEqual(len(found), len(wanted))
        for i, (a, b) in enumerate(zip(found, wanted)):
            self.assertLess(error(a.double(), b), limit, f"{what}: result {i}")
        norms = {key: b.double().norm() for key, b in exact.items()}
        largest = max(norms.values())
        for key, a in own.items():
            b = exact[key].double()
            # A gradient that all but vanishes is a sum of terms that cancel.
            norm = max(norms[key], 1e-3 * largest)
            self.assertLess((a.double() - b).norm() / norm if norm else a.double().norm(), limit,
                            f"{what}: gradient of {key}")

    def test_a_product_is_a_step_of_several_corrections(self):
        @ejk.recurrence
        def two(S, v1, k1, b1, v2, k2, b2, q, g):
            S = S.decay(g)
            S = S.add(k1, b1 * (v1 - S.read(k1)))
            S = S.add(k2, b2 * (v2 - S.read(k2)))
            return S, S.read(q / 6 ** 0.5)

        def written_out(q, k, v, beta, g, reverse=False, **options):
            self.assertFalse(reverse)
            return two(*(x[:, :, i] for i in range(2) for x in (v, k, beta)), q, g, **options)
        torch.manual_seed(3)
        unit = torch.nn.functional.normalize(torch.randn(1, 90, 2, 2, 6), dim=-1)
        case = dict(q=torch.randn(1, 90, 2, 6), k=unit, v=torch.randn(1, 90, 2, 4, 5),
                    beta=2 * torch.rand(1, 90, 2, 4), g=-torch.rand(1, 90, 4),
                    cu_seqlens=torch.tensor([0, 1, 1, 70, 83]), initial_state=torch.randn(4, 4, 6, 5))
        (found, own), (wanted, exact) = (gradients(f, case, 0)
                                         for f in (ejk.ops.gated_delta_product, written_out))
        for a, b in zip([*found, *own.values()], [*wanted, *exact.values()]):
            self.assertLess(error(a, b), 2e-5)
        self.assertFalse(found[0][:, 83:].any())

    def test_corrections_in_tuples(self):
        torch.manual_seed(4)
        rows = (torch.randn(2, 5, 3, 2, 6), torch.randn(2, 5, 3, 2, 5), torch.rand(2, 5, 3, 2))
        q, g = torch.randn(2, 5, 2, 6), -torch.rand(2, 5, 2)
        for reverse in (False, True):
            wanted = ejk.ops.gated_delta_product(q, *rows, g, reverse=reverse)
            found = ejk.ops.gated_delta_product(q, *(x.unbind(2) for x in rows), g, reverse=reverse)
            for a, b in zip(found, wanted):
                self.assertTrue(torch.equal(a, b))
        k, v, beta = rows
        for wrong, message in (((k[:, :, :2], v, beta), "one number of corrections a step, 1 or more"),
                               ((k[:, :, 0], v, beta), r"'k' must be \[B, T, n, H, C\], or a tuple"),
                               ((k, v, (beta[:, :, 0], beta)), "'beta' must have one shape"),
                               (((), v, beta), "'k' must have one shape")):
            with self.assertRaisesRegex(ejk.TensorError, message):
                ejk.ops.gated_delta_product(q, *wrong, g)

    def test_mlstm_in_three_recurrences(self):
        for reverse in (False, True):
            # Gradients of q and k are sums of two that are rounded each, and that of the initial maximum
            # one of terms that cancel.
            self.compare("mlstm", long_mlstm(np.random.default_rng(2), reverse), 8e-3, 0)

    def test_mlstm_divides_by_at_least_eps(self):
        torch.manual_seed(6)
        rows = {n: torch.randn(1, 9, 2, 5) for n in "qkv"}
        case = dict(rows, i=torch.randn(1, 9, 2), f=2 * torch.randn(1, 9, 2), eps=0.3)
        self.compare("mlstm", case, 1e-4, 0)
        # In three recurrences, whose gradients go back through the maximum.
        self.compare("mlstm", dict(long_mlstm(np.random.default_rng(2), False), eps=0.3), 8e-3, 0)

    def test_mamba3_of_packed_sequences(self):
        # A step's row is added by the next one, too, which is one of the same sequence.
        torch.manual_seed(5)
        H, N, P, cu = 2, 4, 3, [0, 4, 4, 5, 11]
        rows = dict(x=torch.randn(1, 11, H, P), dt=torch.rand(1, 11, H), trap=torch.rand(1, 11, H),
                    B=torch.randn(1, 11, H, N), C=torch.randn(1, 11, H, N))
        A, state = -torch.rand(H), torch.randn(4, H, N, P)
        previous = torch.randn(4, H, N), torch.randn(4, H, P)
        for reverse in (False, True):
            o, states = ejk.ops.mamba3(**rows, A=A, previous=previous, initial_state=state,
                                       cu_seqlens=torch.tensor(cu), reverse=reverse)
            for n, (first, end) in enumerate(zip(cu, cu[1:])):
                if first == end:
                    self.assertTrue(torch.equal(states[n], state[n]))
                    continue
                own, last = ejk.ops.mamba3(**{name: x[:, first:end] for name, x in rows.items()}, A=A,
                                           previous=tuple(x[n:n + 1] for x in previous),
                                           initial_state=state[n:n + 1], reverse=reverse)
                torch.testing.assert_close(o[:, first:end], own)
                torch.testing.assert_close(states[n:n + 1], last)

    def test_mlstm_with_gates_of_16_bits(self):
        # They are read as they are; sums and maxima of them have float32.
        torch.manual_seed(4)
        q, k, v = (torch.randn(1, 80, 2, 8, dtype=torch.bfloat16) for _ in range(3))
        i, f = (3 * torch.randn(1, 80, 2, dtype=torch.bfloat16) for _ in range(2))
        (o, states), (wanted, last) = (ejk.ops.mlstm(q, k, v, *gates) for gates in ((i, f), (i.float(), f.float())))
        for a, b in zip((o, *states), (wanted, *last)):
            self.assertTrue(torch.equal(a, b))

    def test_mlstm_with_some_of_its_initial_states(self):
        torch.manual_seed(0)
        q, k, v = torch.randn(3, 1, 70, 2, 16).bfloat16()
        i, f = torch.randn(2, 1, 70, 2)
        C, n, m = torch.randn(1, 2, 16, 16), torch.rand(1, 2, 16), torch.ones(1, 2)
        for states in ((C, n, None), (None, n, m), (C, None, m)):
            o, _ = ejk.ops.mlstm(q, k, v, i, f, initial_state=states)
            wanted, _ = ejk.ops.mlstm(*(x.float() for x in (q, k, v)), i, f, initial_state=states)
            self.assertLess((o.float() - wanted).norm() / wanted.norm(), 2e-2)


class Jax(unittest.TestCase):
    pass


class Numpy(unittest.TestCase):
    pass


def as_numpy(x):
    if isinstance(x, tuple):
        return tuple(map(as_numpy, x))
    return x.numpy() if isinstance(x, torch.Tensor) else x


def _make(name):
    def in_torch(self):
        rng = np.random.default_rng(int(os.environ.get("EJK_TEST_SEED", 0)))
        for number in range(int(os.environ.get("EJK_TEST_CASES", 3))):
            for dtype, limit in (OF_SLOTS if "slot" in name else LIMITS).items():
                self.compare(name, random_case(rng, name, dtype), limit, number)

    def in_numpy(self):
        rng = np.random.default_rng(5)
        for number in range(2):
            case = random_case(rng, name, torch.float32)
            found = listed(getattr(ejk.ops, name)(**{n: as_numpy(x) for n, x in case.items()}))
            for i, (a, b) in enumerate(zip(found, listed(by_steps(name, **case)))):
                self.assertLess(error(a, b), LIMITS[torch.float32], f"{name}, case {number}, result {i}")

    def in_jax(self):
        import jax
        rng = np.random.default_rng(6)
        case = random_case(rng, name, torch.float32)
        own = {n: jax.tree.map(jax.numpy.asarray, as_numpy(x)) if not isinstance(x, (bool, float)) else x
               for n, x in case.items() if x is not None}
        fixed = {n: x for n, x in own.items() if n in ("cu_seqlens", "scale", "reverse")}
        if name == "comba":
            fixed.setdefault("g", None)
            fixed = {n: x for n, x in fixed.items() if n not in own or n in ("cu_seqlens", "scale", "reverse")}
        given = {n: x for n, x in own.items() if n not in fixed}

        def values(given):
            return listed(getattr(ejk.ops, name)(**given, **fixed))
        found, pull = jax.vjp(jax.jit(values), given)
        wanted, exact = gradients(lambda **a: by_steps(name, **a), case, 0)
        torch.manual_seed(0)
        cotangents = [torch.randn(x.shape).bfloat16().float().numpy() for x in wanted]
        for i, (a, b) in enumerate(zip(found, wanted)):
            self.assertLess(error(a, b), LIMITS[torch.float32], f"{name}, result {i}")
        back, = pull([jax.numpy.asarray(x) for x in cotangents])
        for (n, i), b in exact.items():
            a = back[n][i] if isinstance(back[n], tuple) else back[n]
            self.assertLess(error(a, b), 1e-3, f"{name}, gradient of {n}")
    setattr(Torch, f"test_{name}", in_torch)
    setattr(Numpy, f"test_{name}", in_numpy)
    setattr(Jax, f"test_{name}", in_jax)


for _name in STEPS:
    _make(_name)


if __name__ == "__main__":
    unittest.main()
