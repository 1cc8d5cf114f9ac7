"""ejk.serving against its definitions a row at a time in f64: pools with other things between slots, drafts of
several lengths, sequences without a slot, 16-bit parameters."""

import pathlib
import sys
import unittest

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "engines"))

import engine_reference as reference
from ejk import EjkError, TensorError, _program, serving

H, HV, C = 2, 4, 16


def ints(values):
    return torch.tensor(values, dtype=torch.int32)


class Serving(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        size = HV * C * C
        self.pages = torch.randn(11, size + 64)
        self.pool = self.pages[:, :size].view(11, HV, C, C)
        self.before, self.before_pages = self.pool.clone(), self.pages.clone()
        self.A_log, self.bias = torch.randn(HV), torch.randn(HV).bfloat16()

    def rows(self, *shape):
        return torch.randn(*shape).bfloat16()

    def assertClose(self, found, expected, limit):
        self.assertLess(reference.error(found, expected), limit)

    def assertKept(self, but):
        for slot in set(range(11)) - set(but):
            self.assertTrue(torch.equal(self.pages[slot], self.before_pages[slot]), f"slot {slot}")

    def test_drafts_of_a_gated_delta_rule(self):
        ends, accepted = [0, 3, 4, 6, 6], [2, 1, 3, 1]
        table = ints([[1, 2, 3], [4, 5, 6], [7, 8, 9], [0, 0, 0]])
        q, k, v = self.rows(1, 6, H, C), self.rows(1, 6, H, C), self.rows(1, 6, HV, C)
        a, b = self.rows(1, 6, HV), self.rows(1, 6, HV)
        o = serving.gated_delta_rule(q, k, v, a, b, self.A_log, self.bias, pool=self.pool, read_slots=table,
                                     write_slots=table, accepted=ints(accepted), first_slot=1,
                                     cu_seqlens=ints(ends))
        written = []
        for n in range(3):
            own = slice(ends[n], ends[n + 1])
            gates = reference.gdn_gates(a[0, own], b[0, own], self.A_log, self.bias)
            expected, states = reference.delta_rule(q[0, own], k[0, own], v[0, own], *gates,
                                                    self.before[table[n, accepted[n] - 1]], C ** -0.5)
            self.assertClose(o[0, own], expected, 4e-3)
            for row, state in enumerate(states):
                written.append(int(table[n, row]))
                self.assertClose(self.pool[written[-1]], state, 1e-5)
        self.assertKept(written)

    def test_a_new_request_starts_from_zero(self):
        q, k, v, g = self.rows(2, 1, HV, C), self.rows(2, 1, HV, C), self.rows(2, 1, HV, C), self.rows(2, 1, HV, C)
        beta, bias = self.rows(2, 1, HV), torch.randn(HV, C)
        for bound in (None, -5.0):
            self.pages.copy_(self.before_pages)
            o = serving.kimi_delta_attention(q, k, v, g, beta, self.A_log, bias, lower_bound=bound,
                                             pool=self.pool, read_slots=ints([-1, 6]), write_slots=ints([3, 6]))
            for n, (slot, start) in enumerate([(3, torch.zeros(HV, C, C)), (6, self.before[6])]):
                gates = reference.kda_gates(g[n], beta[n], self.A_log, bias, bound)
                expected, states = reference.delta_rule(q[n], k[n], v[n], *gates, start, C ** -0.5)
                self.assertClose(o[n], expected, 4e-3)
                self.assertClose(self.pool[slot], states[0], 1e-5)
            self.assertKept([3, 6])

    def test_mamba2(self):
        x, dt, B, D = self.rows(3, 1, HV, C), self.rows(3, 1, HV), self.rows(3, 1, H, C), torch.randn(HV)
        A, Cs = -torch.rand(HV), self.rows(3, 1, H, C)
        slots = ints([2, -1, 10])
        y = serving.mamba2(x, dt, A, B, Cs, D, self.bias, pool=self.pool, read_slots=slots, write_slots=slots)
        for n, slot in ((0, 2), (2, 10)):
            expected, states = reference.mamba2(x[n], dt[n], A, B[n], Cs[n], D, self.bias, self.before[slot])
            self.assertClose(y[n], expected, 4e-3)
            self.assertClose(self.pool[slot], states[0], 1e-5)
        self.assertEqual(y[1].abs().max().item(), 0)
        self.assertKept([2, 10])

    def test_lightning(self):
        q, k, v = (self.rows(1, 1, HV, C) for _ in range(3))
        slope, slots = torch.rand(HV), ints([5])
        o = serving.lightning(q, k, v, slope, pool=self.pool, read_slots=slots, write_slots=slots)
        S = self.before[5].double() * (-slope.double()).exp()[:, None, None]
        S = S + k[0, 0].double()[:, :, None] * v[0, 0].double()[:, None, :]
        self.assertClose(o[0, 0], torch.einsum("hkv,hk->hv", S, q[0, 0].double()), 4e-3)
        self.assertClose(self.pool[5], S, 1e-5)

    def test_lightning_of_f32_rows(self):
        q, k, v = (torch.randn(1, 70, HV, C) for _ in range(3))
        slope, slots = torch.rand(HV), ints([5, 2])
        rows = dict(read_slots=slots, write_slots=slots, cu_seqlens=ints([0, 40, 70]))
        for matmuls, schedule in ((None, "step"), ("bf16x3", "chunk"), ("bf16x6", "chunk")):
            self.pages.copy_(self.before_pages)
            serving.lightning(q, k, v, slope, f32_matmuls=matmuls, pool=self.pool, **rows)
            S = self.before[5].double()
            for t in range(40):
                S = S * (-slope.double()).exp()[:, None, None] + k[0, t, :, :, None] * v[0, t, :, None].double()
            self.assertClose(self.pool[5], S, 1e-5)
            call = serving._LIGHTNING[matmuls]
            found = call.explain(v, q, k, slope, 1.0, pool=self.pool, value_major=False, target="sm_90a", **rows)
            self.assertEqual(found.schedule, schedule, matmuls)
            program = call.program(v, q, k, slope, 1.0, pool=self.pool, value_major=False, **rows)
            self.assertEqual(program.f32_matmuls, matmuls)
            # As another process finds it in the cache.
            _program._programs.pop(program.key)
            self.assertEqual(_program.by_key(program.key).f32_matmuls, matmuls)
        with self.assertRaisesRegex(ValueError, "'f32_matmuls' must be None, 'bf16x3' or 'bf16x6', but is 'tf32'"):
            serving.lightning(q, k, v, slope, f32_matmuls="tf32", pool=self.pool, **rows)

    def test_no_derivative(self):
        q, a, slots = self.rows(1, 1, HV, C), self.rows(1, 1, HV), ints([4])
        x, slope = torch.randn(1, 1, HV, C), torch.rand(HV)
        calls = {"gated_delta_rule": [q, q, q, a, a, self.A_log, self.bias],
                 "kimi_delta_attention": [q, q, q, q, a, self.A_log], "mamba2": [q, a, -slope, q, q],
                 "lightning": [x, x, x, slope]}
        for name, arguments in calls.items():
            for i, tensor in enumerate(arguments):
                given = [*arguments[:i], tensor.clone().requires_grad_(), *arguments[i + 1:]]
                with self.subTest(name, argument=i):
                    with self.assertRaisesRegex(EjkError, "no derivative.*no_grad"):
                        getattr(serving, name)(*given, pool=self.pool, write_slots=slots)
                    self.assertTrue(torch.equal(self.pool, self.before))
                    with torch.no_grad():
                        o = getattr(serving, name)(*given, pool=self.pool, write_slots=slots)
                    self.assertFalse(o.requires_grad)
                    self.assertFalse(torch.equal(self.pool[4], self.before[4]))
                self.pages.copy_(self.before_pages)

    def test_errors(self):
        q = self.rows(1, 1, HV, C)
        a = self.rows(1, 1, HV)
        with self.assertRaisesRegex(TensorError, "'pool' must be given"):
            serving.gated_delta_rule(q, q, q, a, a, self.A_log, self.bias)
        with self.assertRaisesRegex(ValueError, "must be below 0, but is 0.5"):
            serving.kimi_delta_attention(q, q, q, q, a, self.A_log, lower_bound=0.5, pool=self.pool)

    def test_mamba2_without_a_bias(self):
        H, C = 2, 16
        x, B, Cs = torch.randn(3, 1, 1, H, C)
        dt, A, slots = torch.randn(1, 1, H), -torch.rand(H), torch.tensor([0])
        for softplus in (True, False):
            y = serving.mamba2(x, dt, A, B, Cs, softplus=softplus, pool=torch.zeros(1, H, C, C), write_slots=slots)
            step = torch.nn.functional.softplus(dt) if softplus else dt
            torch.testing.assert_close(y, (B * Cs).sum(-1, keepdim=True) * step[..., None] * x)


if __name__ == "__main__":
    unittest.main()
