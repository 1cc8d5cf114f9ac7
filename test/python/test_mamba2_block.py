"""`ejk.ops.mamba2_block` beside its definition in f64, step by step: outputs, states, last rows and all gradients."""

import unittest
import unittest.mock

import numpy as np
import torch

import ejk
from ejk import _mamba2_block
from reference import error

F = torch.nn.functional
SEQUENCES = ("x", "B", "C", "z", "dt")
# Of outputs and gradients. 16-bit results are rounded once.
LIMITS = {torch.float32: (3e-6, 2e-5), torch.float16: (6e-4, 6e-4), torch.bfloat16: (4e-3, 4e-3)}


def case(dtype=torch.float32, entries=2, steps=11, heads=4, channels=6, groups=2, states=5, width=4, dt=-2.0,
         sequences=None, **without):
    """Operands by name. `dt`: the mean of dt before its softplus; `sequences`: initial states and rows for so many."""
    total = heads * channels + 2 * groups * states
    given = {"x": (entries, steps, heads, channels), "B": (entries, steps, groups, states),
             "C": (entries, steps, groups, states), "z": (entries, steps, heads, channels),
             "dt": (entries, steps, heads)}
    found = {n: torch.randn(shape).to(dtype) for n, shape in given.items()}
    found.update(conv_weight=(torch.randn(total, 1, width) / 2).to(dtype), A_log=torch.rand(heads),
                 dt_bias=torch.randn(heads) + dt, D=torch.randn(heads), norm_weight=1 + torch.randn(heads * channels) / 10,
                 conv_bias=(torch.randn(total) / 4).to(dtype))
    if sequences:
        found["initial_state"] = torch.randn(sequences, heads, states, channels)
        found["conv_state"] = tuple(torch.randn(sequences, width - 1, *given[n][2:]).to(dtype) for n in "xBC")
    return {n: x for n, x in found.items() if n not in without}


def in_float64(x, B, C, z, dt, conv_weight, A_log, dt_bias, D=None, norm_weight=None, conv_bias=None, eps=1e-5,
               norm_before_gate=False, norm_groups=None, dt_limit=(0.0, float("inf")), mask=None, conv_state=None,
               initial_state=None, cu_seqlens=None):
    """(o, states, last rows) of the definition."""
    (H, P), (G, N) = x.shape[2:], B.shape[2:]
    width = conv_weight.shape[-1]
    spans = [(b, 0, x.shape[1]) for b in range(x.shape[0])] if cu_seqlens is None else [
        (0, first, end) for first, end in zip(cu_seqlens.tolist(), cu_seqlens.tolist()[1:])]
    o, states, last = torch.zeros_like(z), [], []
    for n, (b, first, end) in enumerate(spans):
        rows = torch.cat([y[b, first:end].flatten(1) for y in (x, B, C)], -1)
        before = (rows.new_zeros(width - 1, rows.shape[1]) if conv_state is None else
                  torch.cat([y[n].flatten(1) for y in conv_state], -1))
        rows = torch.cat([before, rows])
        last.append(rows[len(rows) - width + 1:])
        S = x.new_zeros(H, N, P) if initial_state is None else initial_state[n]
        step = F.softplus(dt[b, first:end] if dt_bias is None else dt[b, first:end] + dt_bias).clamp(*dt_limit)
        for t in range(end - first):
            u = (rows[t:t + width] * conv_weight.reshape(-1, width).T).sum(0)
            u = F.silu(u if conv_bias is None else u + conv_bias)
            own, key, query = u.split([H * P, G * N, G * N])
            own = own.view(H, P) * (1 if mask is None else mask[b, first + t])
            key, query = (y.view(G, N).repeat_interleave(H // G, 0) for y in (key, query))
            S = (-A_log.exp() * step[t]).exp()[:, None, None] * S + key[:, :, None] * (step[t, :, None] * own)[:, None]
            y = (S * query[:, :, None]).sum(1)
            y = y if D is None else y + D[:, None] * own
            gate = F.silu(z[b, first + t])
            y = y if norm_before_gate else y * gate
            if norm_weight is not None:
                groups = y.reshape(norm_groups or G, -1)
                y = (groups * torch.rsqrt((groups * groups).mean(-1, keepdim=True) + eps)).view(H, P)
                y = y * norm_weight.view(H, P)
            o = o.index_put((torch.tensor(b), torch.tensor(first + t)), y * gate if norm_before_gate else y)
        states.append(S)
    last = torch.stack(last).split([H * P, G * N, G * N], -1)
    return o, torch.stack(states), tuple(y.unflatten(-1, s) for y, s in zip(last, [(H, P), (G, N), (G, N)]))


def call(x, B, C, z, dt, conv_weight, A_log, dt_bias, D=None, norm_weight=None, **options):
    return ejk.ops.mamba2_block(x, B, C, z, dt, conv_weight, A_log, dt_bias, D, norm_weight, output_conv_state=True,
                                **options)


def leaves_of(operands):
    return [y for x in operands.values() for y in (x if isinstance(x, tuple) else (x,))]


def mapped(operands, function):
    return {n: tuple(map(function, x)) if isinstance(x, tuple) else function(x) for n, x in operands.items()}


def distance(found, wanted):
    return error(found.detach().double(), wanted.detach().double())


class Comparing(unittest.TestCase):
    def compare(self, operands, limits=None, **options):
        limit, of_gradients = limits or LIMITS[operands["x"].dtype]
        own = mapped(operands, lambda x: x.clone().requires_grad_())
        exact = mapped(operands, lambda x: x.double().requires_grad_())
        found, wanted = call(**own, **options), in_float64(**exact, **options)
        found, wanted = ([*r[:2], *r[2]] for r in (found, wanted))
        for name, a, b in zip(("o", "state", "x", "B", "C"), found, wanted):
            self.assertLess(distance(a, b), limit, name)
        cotangents = [torch.randn_like(a) for a in found]
        gradients = torch.autograd.grad(found, leaves_of(own), cotangents)
        exact_ones = torch.autograd.grad(wanted, leaves_of(exact), [c.double() for c in cotangents])
        names = [n for n, x in own.items() for _ in (x if isinstance(x, tuple) else (x,))]
        largest = max(float(g.norm()) for g in exact_ones)
        for name, a, b in zip(names, gradients, exact_ones):
            # A gradient that all but vanishes is a sum of terms that cancel.
            size = max(float(b.norm()), 1e-3 * largest)
            # A head's gradients are sums of terms of either sign, one a row.
            limit = of_gradients * (2 if name in ("A_log", "dt_bias", "D") else 1)
            self.assertLess(float((a.double() - b).norm()) / size, limit, f"gradient of {name}")

    def token_by_token(self, dtype, limit, of_states):
        torch.manual_seed(9)
        operands = case(dtype, steps=70)
        whole, state, rows = call(**operands)
        outputs, now, last = [], None, None
        for first, end in [(0, 66), *((t, t + 1) for t in range(66, 70))]:
            part = {n: x[:, first:end] if n in SEQUENCES else x for n, x in operands.items()}
            o, now, last = call(**part, initial_state=now, conv_state=last)
            outputs.append(o)
        self.assertLess(distance(torch.cat(outputs, 1), whole), limit)
        self.assertLess(distance(now, state), of_states)
        for a, b in zip(last, rows):
            self.assertTrue(torch.equal(a, b))


class Definition(Comparing):
    def test_types(self):
        for dtype in LIMITS:
            for steps in (1, 11, 70):
                torch.manual_seed(steps)
                with self.subTest(dtype=dtype, steps=steps):
                    self.compare(case(dtype, steps=steps))

    def test_strong_and_weak_steps(self):
        for dt in (-8.0, 0.0, 3.0):
            torch.manual_seed(1)
            self.compare(case(torch.bfloat16, dt=dt, steps=70))
            self.compare(case(dt=dt), limits=(1e-5, 1e-4))

    def test_packed_with_states_and_rows(self):
        for offsets in ([0, 5, 5, 6, 11], [0, 11], [0, 0, 11]):
            torch.manual_seed(2)
            cu = torch.tensor(offsets)
            self.compare(case(entries=1, sequences=len(offsets) - 1), cu_seqlens=cu)
            self.compare(case(entries=1), cu_seqlens=cu)
        self.compare(case(sequences=2))

    def test_groups_and_norms(self):
        torch.manual_seed(3)
        for options in (dict(norm_before_gate=True), dict(norm_groups=1), dict(norm_groups=4), dict(eps=0.1)):
            self.compare(case(), **options)
        self.compare(case(norm_weight=None))
        self.compare(case(norm_weight=None), norm_before_gate=True)
        self.compare(case(D=None, conv_bias=None))
        self.compare(case(heads=3, groups=1, channels=7, states=9))
        self.compare(case(heads=3, groups=3))

    def test_a_norm_of_more_channels_than_a_program_takes(self):
        torch.manual_seed(4)
        for dtype in (torch.float32, torch.bfloat16):
            for before in (False, True):
                self.compare(case(dtype, heads=9, channels=64, groups=1, steps=5), norm_before_gate=before)

    def test_limits_of_dt(self):
        torch.manual_seed(5)
        for limit in ((0.1, 0.3), (0.2, float("inf")), (0.0, 0.15)):
            self.compare(case(), dt_limit=limit)
        with self.assertRaisesRegex(ValueError, "'dt_limit' must be"):
            call(**case(), dt_limit=(1.0, 0.5))

    def test_widths(self):
        torch.manual_seed(6)
        for width in (2, 3):
            self.compare(case(width=width, sequences=2))
        operands = case(width=1)
        o, state = ejk.ops.mamba2_block(**operands)
        wanted = in_float64(**mapped(operands, torch.Tensor.double))
        self.assertLess(distance(o, wanted[0]), 3e-6)
        self.assertLess(distance(state, wanted[1]), 3e-6)

    def test_padding(self):
        torch.manual_seed(7)
        mask = torch.ones(2, 11, dtype=torch.int64)
        mask[0, :4] = 0
        mask[1, 9:] = 0
        self.compare(case(), mask=mask)

    def test_what_is_in_no_sequence_is_not_read(self):
        for dtype, steps in ((torch.float32, 20), (torch.bfloat16, 80)):
            for cpu in (True, False):
                for heads in (2, 9):
                    torch.manual_seed(8)
                    operands = case(dtype, entries=1, steps=steps, heads=heads, channels=64, groups=1)
                    cu = torch.tensor([0, 3, 15])
                    with unittest.mock.patch.object(_mamba2_block, "on_cpu", lambda x: cpu):
                        wanted = call(**{n: x[:, :15] if n in SEQUENCES else x for n, x in operands.items()},
                                      cu_seqlens=cu)
                        for n in SEQUENCES:
                            operands[n][:, 15:] = torch.nan
                            operands[n].requires_grad_()
                        found = call(**operands, cu_seqlens=cu)
                        self.assertFalse(found[0][:, 15:].any())
                        if steps < 64 or cpu:
                            self.assertTrue(torch.equal(found[0][:, :15], wanted[0]))
                        found[0].sum().backward()
                    for n in SEQUENCES:
                        self.assertTrue(operands[n].grad.isfinite().all(), n)

    def test_token_by_token(self):
        self.token_by_token(torch.float32, 4e-6, 4e-6)
        self.token_by_token(torch.bfloat16, 4e-3, 4e-6)

    def test_errors(self):
        operands = case()
        for wrong, message in ((dict(conv_weight=torch.randn(40, 1, 4)), r"'conv_weight' must be \[44, 1, W\].* x, B and C"),
                               (dict(norm_groups=3), "'norm_groups' must divide the 4 heads"),
                               (dict(conv_state=(None,) * 2), "rows of x, B and C, but has 2"),
                               (dict(conv_state=(None, operands["B"][:, :3].half(), None)),
                                "'conv_state' must have the rows of 'B' as torch.float32 .*, but has torch.float16")):
            with self.assertRaisesRegex(ejk.TensorError, message):
                call(**{**operands, **wrong})

    def test_groups_of_more_channels_than_a_program_takes(self):
        self.compare(case(heads=18, channels=64, groups=1, steps=5), norm_groups=2)


class Parts(Comparing):
    """The same on a GPU's way, where 16-bit rows of 64 steps and more are convolved apart: here on a CPU."""

    def setUp(self):
        patch = unittest.mock.patch.object(_mamba2_block, "on_cpu", lambda x: False)
        patch.start()
        self.addCleanup(patch.stop)

    def test_types(self):
        # Convolved rows and y are rounded. Steps as models have them.
        for dtype, limits in ((torch.bfloat16, (5e-3, 8e-3)), (torch.float16, (1e-3, 1e-3))):
            for steps in (70, 96):
                torch.manual_seed(steps)
                self.compare(case(dtype, steps=steps, channels=16, states=16, dt=-4.0), limits)

    def test_strong_and_weak_steps(self):
        # With strong steps a row's own term is most of y, and the norm takes most of its gradient away.
        for dt, limits in ((-8.0, (5e-3, 8e-3)), (0.0, (5e-3, 2.5e-2)), (3.0, (8e-3, 6e-2))):
            torch.manual_seed(1)
            self.compare(case(torch.bfloat16, dt=dt, steps=70, channels=16, states=16), limits)

    def test_packed_with_states_and_rows(self):
        torch.manual_seed(2)
        cu = torch.tensor([0, 30, 30, 33, 70])
        self.compare(case(torch.bfloat16, entries=1, steps=70, sequences=4, dt=-4.0), (5e-3, 8e-3), cu_seqlens=cu)

    def test_a_norm_of_more_channels_than_a_program_takes(self):
        torch.manual_seed(4)
        for before in (False, True):
            self.compare(case(torch.bfloat16, heads=9, channels=64, groups=1, steps=64, dt=-4.0, entries=1), (5e-3, 8e-3),
                         norm_before_gate=before)

    def test_padding(self):
        torch.manual_seed(7)
        mask = torch.ones(2, 70)
        mask[0, :40] = 0
        self.compare(case(torch.bfloat16, steps=70, dt=-4.0), (5e-3, 8e-3), mask=mask)

    def test_token_by_token(self):
        self.token_by_token(torch.bfloat16, 5e-3, 5e-3)

    def test_which_kernels(self):
        """Chunks for the recurrence and its derivative, one kernel for rows before and behind."""
        T, H, P, N = 4096, 4, 64, 128
        x, dt = torch.zeros(1, T, H, P, dtype=torch.bfloat16), torch.zeros(1, T, H)
        B, a = torch.zeros(1, T, 1, N, dtype=torch.bfloat16), torch.zeros(H)
        for derivatives in (0, 1):
            for limits in ((None, None), (0.001, 100.0)):
                found = _mamba2_block._MAMBA2.explain(x, dt, B, B, a, a, a, *limits, target="sm_90a", derivatives=derivatives)
                self.assertEqual((found.schedule, found.remarks), ("chunk", ()))
        for recurrence, operands in (
                (_mamba2_block._GROUP_NORM_GATED, (x, x, torch.zeros(H, P), 64.0, 1e-5, False)),
                (_mamba2_block._GATED_SQUARES, (dt, x, x, False)),
                (_mamba2_block._GATED_SCALED, (x, x, torch.zeros(H, P), torch.zeros(1, T, 1), False))):
            self.assertEqual(len(recurrence.explain(*operands, target="sm_90a").kernels), 1)


class Doors(unittest.TestCase):
    def test_numpy_and_jax(self):
        import jax
        torch.manual_seed(10)
        operands = case(entries=1, sequences=3)
        cu = torch.tensor([0, 4, 4, 11])
        wanted = call(**operands, cu_seqlens=cu)
        arrays = mapped(operands, lambda x: x.numpy())
        for function, own in ((call, arrays),
                              (jax.jit(call), mapped(arrays, jax.numpy.asarray))):
            found = function(**own, cu_seqlens=np.array([0, 4, 4, 11], np.int32))
            for a, b in zip([*found[:2], *found[2]], [*wanted[:2], *wanted[2]]):
                self.assertLess(error(np.asarray(a), b), 2e-6)

    def test_gradients_in_jax(self):
        import jax
        torch.manual_seed(11)
        operands = mapped(case(), lambda x: x.requires_grad_())
        cotangent = torch.randn(2, 11, 4, 6)
        wanted = torch.autograd.grad(call(**operands)[0], leaves_of(operands), cotangent)
        own = mapped(operands, lambda x: jax.numpy.asarray(x.detach().numpy()))
        found = jax.grad(lambda own: (call(**own)[0] * cotangent.numpy()).sum())(own)
        for name, b in zip(operands, wanted):
            self.assertLess(error(np.asarray(found[name]), b), 1e-5, name)


if __name__ == "__main__":
    unittest.main()
