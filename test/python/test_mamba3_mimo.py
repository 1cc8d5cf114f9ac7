"""`ejk.ops.mamba3_mimo` beside its definition in f64, step by step: outputs, states and all gradients.

    EJK_TEST_CASES=50 python3 -m unittest test_mamba3_mimo.Torch
"""

import itertools
import os
import unittest

import numpy as np
import reference
import test_named
import torch

import ejk
from ejk import _mamba3
from reference import error

# Of ‖found − expected‖ / ‖expected‖. A CPU computes steps in float32; outputs and gradients of bf16 tensors are
# rounded to it, 2^-9 at most. From 64 steps on, the inputs and outputs of a rank are rounded, too.
LIMITS = {torch.float32: 5e-5, torch.bfloat16: 4e-3}
IN_PARTS = 8e-3


def definition(x, dt, A, trap, B, C, mimo_x, D=None, mimo_o=None, z=None, mimo_z=None, previous=None,
               initial_state=None, cu_seqlens=None, reverse=False):
    """(o, states) in f64, so that torch differentiates it. Parameters may have a value for each row, too."""
    x, dt, A, trap, B, C, mimo_x, D, mimo_o, z, mimo_z = (
        None if t is None else t.double() for t in (x, dt, A, trap, B, C, mimo_x, D, mimo_o, z, mimo_z))
    H = x.shape[2]
    if previous is not None:
        previous = [p.double() for p in previous]

    def at(parameter, b, t, rank):
        return parameter if parameter.dim() == rank else parameter[b, t]
    states, outputs = [], {}
    for n, (b, first, end) in enumerate(reference.sequences(x.shape[1], cu_seqlens, x.shape[0])):
        S = x.new_zeros(H, B.shape[4], x.shape[3]) if initial_state is None else initial_state[n].double()
        earlier = x.new_zeros(S.shape)
        if previous is not None:
            earlier = products(previous[0][n], at(mimo_x, b, 0, 3) * previous[1][n][:, None])
        for t in reversed(range(first, end)) if reverse else range(first, end):
            rows = at(mimo_x, b, t, 3) * x[b, t][:, None]  # [H, R, P]
            now = products(B[b, t], rows)
            alpha, step, share = (at(A, b, t, 1) * dt[b, t]).exp(), dt[b, t], trap[b, t]
            S = (alpha[:, None, None] * S + ((1 - share) * step * alpha)[:, None, None] * earlier
                 + (share * step)[:, None, None] * now)
            y = torch.einsum("hnp,rhn->hrp", S, test_named.heads(C[b, t], H))
            if D is not None:
                y = y + at(D, b, t, 1)[:, None, None] * rows
            if z is not None:
                y = y * torch.nn.functional.silu(at(mimo_z, b, t, 3) * z[b, t][:, None])
            outputs[b, t] = y.transpose(0, 1) if mimo_o is None else (at(mimo_o, b, t, 3) * y).sum(1)
            earlier = now
        states.append(S)
    zero = torch.zeros_like(next(iter(outputs.values())))
    o = [torch.stack([outputs.get((b, t), zero) for t in range(x.shape[1])]) for b in range(x.shape[0])]
    return torch.stack(o), torch.stack(states)


def products(B, x):
    """Σᵣ Bᵣ xᵣᵀ of B [R, G, N] and x [H, R, P]."""
    return torch.einsum("rhn,hrp->hnp", test_named.heads(B, x.shape[0]), x)


def random_case(rng, R, dtype, T):
    """Arguments, with B, C, x and z in `dtype`."""
    torch.manual_seed(int(rng.integers(1 << 30)))
    packed, G, N, P = rng.random() < 0.5, int(rng.integers(1, 3)), 6, 5
    H, batch = G * int(rng.integers(1, 3)), 1 if packed else int(rng.integers(1, 3))
    cuts = np.sort(rng.integers(0, T + 1, 2))
    offsets = [0, *cuts, T] if rng.random() < 0.7 else [0, *cuts]
    count = len(offsets) - 1 if packed else batch

    def rows(*shape):
        return torch.randn(batch, T, *shape).to(dtype)
    case = dict(x=rows(H, P), dt=torch.rand(batch, T, H), trap=torch.rand(batch, T, H), B=rows(R, G, N),
                C=rows(R, G, N), mimo_x=torch.randn(H, R, P),
                A=-torch.rand(H) if rng.random() < 0.5 else -torch.rand(batch, T, H))
    if rng.random() < 0.7:
        case["D"] = torch.randn(H)
    if rng.random() < 0.8:
        case["mimo_o"] = torch.randn(H, R, P)
        if rng.random() < 0.7:
            case.update(z=rows(H, P), mimo_z=torch.randn(H, R, P))
    if packed:
        case["cu_seqlens"] = torch.tensor(offsets)
    if rng.random() < 0.6:
        case["initial_state"] = torch.randn(count, H, N, P)
    if rng.random() < 0.6:
        case["previous"] = torch.randn(count, R, G, N).to(dtype), torch.randn(count, H, P).to(dtype)
    if rng.random() < 0.4:
        case["reverse"] = True
    return case


class Torch(unittest.TestCase):
    def compare(self, case, limit):
        found, own = test_named.gradients(ejk.ops.mamba3_mimo, case, 0)
        wanted, exact = test_named.gradients(definition, case, 0)
        what = ", ".join(f"{n} {list(x.shape) if isinstance(x, torch.Tensor) else x}" for n, x in case.items()
                         if n != "previous")
        for i, (a, b) in enumerate(zip(found, wanted, strict=True)):
            self.assertLess(error(a.double(), b), limit, f"{what}: result {i}")
        norms = {key: b.double().norm() for key, b in exact.items()}
        # A parameter's gradient is a sum over rows, whose terms may cancel: its error is of these terms. A gate's
        # terms are sums themselves, so that their errors do not cancel.
        rows = {n: case[n].expand(*case["dt"].shape[:2], *case[n].shape) for n in ("D", "mimo_x", "mimo_o", "mimo_z")
                if n in case}
        terms = test_named.gradients(definition, {**case, **rows, "A": case["A"].expand_as(case["dt"])}, 0)[1]
        norms.update({(n, 0): max(norms[n, 0], terms[n, 0].double().norm()) for n in rows})
        norms["A", 0] = terms["A", 0].double().abs().sum((0, 1)).norm()
        largest = max(norms.values())
        for key, a in own.items():
            b = exact[key].double()
            # A gradient that all but vanishes is a sum of terms that cancel.
            norm = max(norms[key], 1e-3 * largest)
            self.assertLess((a.double() - b).norm() / norm, limit, f"{what}: gradient of {key}")

    def test_few_steps(self):
        rng = np.random.default_rng(int(os.environ.get("EJK_TEST_SEED", 1)))
        for _ in range(int(os.environ.get("EJK_TEST_CASES", 4))):
            for dtype, limit in LIMITS.items():
                self.compare(random_case(rng, int(rng.choice((1, 2, 4))), dtype, int(rng.integers(1, 20))), limit)
        self.compare(random_case(rng, 8, torch.float32, 9), LIMITS[torch.float32])

    def test_in_parts(self):
        rng = np.random.default_rng(int(os.environ.get("EJK_TEST_SEED", 2)))
        for R in (1, 2, 4, 4):
            self.compare(random_case(rng, R, torch.bfloat16, 70), IN_PARTS)

    def test_ranks_of_several_recurrences(self):
        rng = np.random.default_rng(int(os.environ.get("EJK_TEST_SEED", 3)))
        for R in (5, 8):
            self.compare(random_case(rng, R, torch.bfloat16, 66), IN_PARTS)

    def test_without_gradients_is_one_program(self):
        case = random_case(np.random.default_rng(4), 6, torch.bfloat16, 80)
        found = ejk.ops.mamba3_mimo(**case)
        for a, b in zip(found, definition(**case), strict=True):
            self.assertLess(error(a.double(), b), LIMITS[torch.bfloat16])
        with_gradients = ejk.ops.mamba3_mimo(**{**case, "mimo_x": case["mimo_x"].requires_grad_()})
        self.assertLess(error(with_gradients[0].detach().double(), found[0].double()), IN_PARTS)

    def test_rank_1_with_weights_of_1_is_siso(self):
        case = random_case(np.random.default_rng(5), 1, torch.float32, 12)
        for name in ("mimo_o", "z", "mimo_z", "previous"):
            case.pop(name, None)
        B_before, x_before = torch.randn(3, 1, 2, 6), torch.randn(3, 4, 5)
        rows = {n: x for n, x in case.items() if n not in ("mimo_x", "initial_state", "cu_seqlens")}
        rows = {n: x[:1] if isinstance(x, torch.Tensor) and x.dim() > 1 else x for n, x in rows.items()}
        H, G = rows["x"].shape[2], rows["B"].shape[3]
        ones, before = torch.ones(H, 1, 5), (B_before[:1, :, :G], x_before[:1, :H])
        found = ejk.ops.mamba3_mimo(**rows, mimo_x=ones, mimo_o=ones, previous=before)
        siso = {n: x[:, :, 0] if n in ("B", "C") else x for n, x in rows.items()}
        wanted = ejk.ops.mamba3(**siso, previous=(before[0][:, 0], before[1]))
        for a, b in zip(found, wanted, strict=True):
            torch.testing.assert_close(a, b)

    def test_goes_on_where_a_call_ended(self):
        torch.manual_seed(6)
        T, H, R, N, P = 90, 2, 3, 6, 5
        rows = dict(x=torch.randn(1, T, H, P), dt=torch.rand(1, T, H), trap=torch.rand(1, T, H),
                    B=torch.randn(1, T, R, 1, N), C=torch.randn(1, T, R, 1, N))
        rest = dict(A=-torch.rand(H), mimo_x=torch.randn(H, R, P), mimo_o=torch.randn(H, R, P))
        for dtype, limit in ((torch.float32, 1e-6), (torch.bfloat16, LIMITS[torch.bfloat16])):
            rows = {n: x.to(dtype) if n in "xBC" else x for n, x in rows.items()}
            wanted, last = ejk.ops.mamba3_mimo(**rows, **rest)
            o, state, before = [], None, None
            for first, end in ((0, 70), (70, 71), (71, 90)):
                part = {n: x[:, first:end] for n, x in rows.items()}
                own, state = ejk.ops.mamba3_mimo(**part, **rest, initial_state=state, previous=before)
                before = part["B"][:, -1], part["x"][:, -1]
                o.append(own)
            self.assertLess(error(torch.cat(o, 1).double(), wanted.double()), limit)
            self.assertLess(error(state.double(), last.double()), limit)

    def test_errors(self):
        rows = torch.zeros(1, 4, 4, 5)
        case = dict(x=rows, dt=torch.rand(1, 4, 4), A=-torch.rand(4), trap=torch.rand(1, 4, 4),
                    B=torch.zeros(1, 4, 3, 2, 6), C=torch.zeros(1, 4, 3, 2, 6), mimo_x=torch.zeros(4, 3, 5),
                    mimo_o=torch.zeros(4, 3, 5), z=rows, mimo_z=torch.zeros(4, 3, 5))
        state = torch.zeros(1, 3, 2, 6), torch.zeros(1, 4, 5)
        for change, message in (
                (dict(B=case["B"][:, :, 0]), r"'B' must be \[B, T, R, G, N\]"),
                (dict(B=torch.zeros(1, 4, 9, 2, 6)), "'B' has R = 9 vectors a step; ejk takes 1 to 8"),
                (dict(B=torch.zeros(1, 4, 3, 3, 6)), r"G dividing its 4 heads, but has shape \[1, 4, 3, 3, 6\]"),
                (dict(C=torch.zeros(1, 4, 2, 2, 6)), r"'C' must have the shape of 'B', \[1, 4, 3, 2, 6\]"),
                (dict(mimo_x=torch.zeros(3, 4, 5)), r"'mimo_x' must be \[H, R, P\], here \[4, 3, 5\]"),
                (dict(mimo_z=None), "'z' and 'mimo_z' go together"),
                (dict(mimo_o=None), "'z' gates what 'mimo_o' combines"),
                (dict(z=rows[:, :2]), r"'z' must have the shape of 'x', \[1, 4, 4, 5\]"),
                (dict(trap=torch.rand(1, 3, 4)), "'trap' must have the shape of 'dt'"),
                (dict(previous=state[0]), "'previous' must be a pair"),
                (dict(previous=(state[0][:, 0], state[1])), r"'previous' must have B of shape \[N, 3, 2, 6\]"),
                (dict(previous=(state[0], state[1][:, :2])), r"'previous' must have x of shape \[N, 4, 5\]"),
                (dict(previous=(state[0].expand(2, 3, 2, 6), state[1])), "'previous' .* 1 sequences, .* before 2")):
            with self.subTest(message), self.assertRaisesRegex(ejk.TensorError, message):
                ejk.ops.mamba3_mimo(**{**case, **change})

    def test_in_parts_under_torch_compile(self):
        case = random_case(np.random.default_rng(11), 2, torch.bfloat16, 64)
        torch._dynamo.reset()
        compiled = torch.compile(ejk.ops.mamba3_mimo, fullgraph=True, backend="aot_eager")
        (found, own), (wanted, exact) = (test_named.gradients(f, case, 0) for f in (compiled, ejk.ops.mamba3_mimo))
        torch.testing.assert_close(found, wanted)
        torch.testing.assert_close(own, exact)

    def test_goes_by_chunks(self):
        H, N, P, R = 2, 64, 64, _mamba3._MOST_BY_CHUNKS
        x, numbers, w = torch.randn(1, 256, H, P).bfloat16(), torch.rand(1, 256, H), torch.randn(H, P)
        B = torch.randn(1, 256, 1, N).bfloat16()
        shares = (numbers, -numbers, numbers, numbers, torch.randn(H))
        parts = *_mamba3._padded([x] * R), *shares, *_mamba3._padded([B] * R, [B] * R)
        whole = x, *shares, x, *_mamba3._padded([B] * R, [B] * R, [w] * R, [w] * R, [w] * R)
        for target in ("sm_90a", "sm_80"):
            for recurrence, arguments, derivatives in ((_mamba3._mimo_whole, whole, 0), (_mamba3._mimo, parts, 0),
                                                       (_mamba3._mimo, parts, 1)):
                with self.subTest(target, derivatives=derivatives):
                    found = recurrence(False).explain(*arguments, target=target, derivatives=derivatives)
                    self.assertEqual((found.schedule, found.remarks), ("chunk", ()))


class Numpy(unittest.TestCase):
    def test_beside_the_definition(self):
        rng = np.random.default_rng(8)
        for T in (7, 70):
            case = random_case(rng, 3, torch.float32, T)
            found = ejk.ops.mamba3_mimo(**{n: test_named.as_numpy(x) for n, x in case.items()})
            for a, b in zip(found, definition(**case), strict=True):
                self.assertLess(error(a, b), LIMITS[torch.float32])


class Jax(unittest.TestCase):
    def compare(self, case, limit):
        import jax

        def array(x):
            if isinstance(x, tuple):
                return tuple(map(array, x))
            if x.dtype == torch.bfloat16:
                return jax.numpy.asarray(x.float().numpy()).astype("bfloat16")
            return jax.numpy.asarray(x.numpy())
        fixed = {n: case[n] for n in ("reverse",) if n in case}
        fixed.update({n: array(case[n]) for n in ("cu_seqlens",) if n in case})
        given = {n: array(x) for n, x in case.items() if n not in fixed}
        found, pull = jax.vjp(jax.jit(lambda given: ejk.ops.mamba3_mimo(**given, **fixed)), given)
        wanted, exact = test_named.gradients(definition, case, 0)
        torch.manual_seed(0)
        cotangents = [torch.randn(x.shape).bfloat16().float().numpy() for x in wanted]
        back, = pull(tuple(jax.numpy.asarray(c).astype(x.dtype) for c, x in zip(cotangents, found)))
        for i, (a, b) in enumerate(zip(found, wanted, strict=True)):
            self.assertLess(error(np.asarray(a, np.float64), b), limit, f"result {i}")
        for (n, i), b in exact.items():
            a = back[n][i] if isinstance(back[n], tuple) else back[n]
            self.assertLess(error(np.asarray(a, np.float64), b.double()), limit, f"gradient of {n}")

    def test_one_program(self):
        self.compare(random_case(np.random.default_rng(9), 2, torch.float32, 9), LIMITS[torch.float32])

    def test_in_parts(self):
        self.compare(random_case(np.random.default_rng(10), 2, torch.bfloat16, 66), IN_PARTS)


class NoRows(unittest.TestCase):
    """A call of no rows that goes on where another one ended: its final state is the initial one."""

    def check(self, array):
        rng, H, G, N, P, R = np.random.default_rng(11), 4, 2, 6, 5, 3

        def normal(*shape):
            return array(rng.normal(size=shape).astype("f4"))
        for name, ranks in (("mamba3", ()), ("mamba3_mimo", (R,))):
            for packed, has_state, reverse in itertools.product((False, True), repeat=3):
                batch, count = (1, 3) if packed else (2, 2)
                case = dict(x=normal(batch, 0, H, P), dt=normal(batch, 0, H), trap=normal(batch, 0, H),
                            A=-abs(normal(H)), B=normal(batch, 0, *ranks, G, N), C=normal(batch, 0, *ranks, G, N),
                            previous=(normal(count, *ranks, G, N), normal(count, H, P)), reverse=reverse)
                if ranks:
                    case["mimo_x"] = case["mimo_o"] = normal(H, R, P)
                if packed:
                    case["cu_seqlens"] = array(np.zeros(count + 1, np.int32))
                state = normal(count, H, N, P) if has_state else array(np.zeros((count, H, N, P), "f4"))
                if has_state:
                    case["initial_state"] = state
                with self.subTest(name, packed=packed, has_state=has_state, reverse=reverse):
                    o, last = getattr(ejk.ops, name)(**case)
                    self.assertEqual(tuple(o.shape), (batch, 0, H, P))
                    np.testing.assert_array_equal(np.asarray(last), np.asarray(state))

    def test_numpy(self):
        self.check(np.asarray)

    def test_torch(self):
        self.check(torch.from_numpy)

    def test_jax(self):
        try:
            import jax
        except ImportError as absent:
            self.skipTest(f"jax is not installed ({absent})")
        self.check(jax.numpy.asarray)

    def test_gradients(self):
        x, dt, B = torch.ones(2, 0, 4, 5), torch.ones(2, 0, 4), torch.ones(2, 0, 2, 6)
        given = [torch.randn(*s).requires_grad_() for s in ((2, 4, 6, 5), (2, 2, 6), (2, 4, 5))]
        state = ejk.ops.mamba3(x, dt, -torch.ones(4), dt, B, B, initial_state=given[0], previous=given[1:])[1]
        cotangent = torch.randn(state.shape)
        found = torch.autograd.grad(state, given, cotangent)
        for a, b in zip(found, (cotangent, torch.zeros(2, 2, 6), torch.zeros(2, 4, 5)), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0)


if __name__ == "__main__":
    unittest.main()
