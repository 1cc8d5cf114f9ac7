"""`ejk.ops.rwkv7_block` and `rwkv7_shift` beside what fla's layer computes around its projections, in f64, step by step."""

import unittest

import numpy as np
import torch

import ejk
from ejk import _rwkv7_block
from reference import error

F = torch.nn.functional
SEQUENCES = ("r", "w", "k", "v", "a", "g", "v_first", "v_share")
LIMITS = {torch.float32: (3e-6, 2e-5), torch.float16: (1e-3, 1e-3), torch.bfloat16: (5e-3, 8e-3)}


def case(dtype=torch.float32, entries=2, steps=11, heads=2, keys=8, values=8, states=None, w=0.0, **without):
    """Operands by name. `w`: the mean of w before its sigmoid; `states`: initial states, so many."""
    def rows(channels):
        return torch.randn(entries, steps, heads, channels).to(dtype)
    K, V = heads * keys, heads * values
    found = dict(r=rows(keys), w=rows(keys) + w, k=rows(keys), v=rows(values), a=rows(keys), g=rows(values),
                 k_k=0.7 + torch.randn(K) / 5, k_a=1 + torch.randn(K) / 5, r_k=torch.randn(heads, keys) / 2,
                 norm_weight=1 + torch.randn(V) / 5, norm_bias=torch.randn(V) / 5, v_first=rows(values),
                 v_share=rows(values))
    if states:
        found["initial_state"] = torch.randn(states, heads, keys, values)
    return {n: x for n, x in found.items() if n not in without}


def in_float64(r, w, k, v, a, g, k_k, k_a, r_k, norm_weight=None, norm_bias=None, v_first=None, v_share=None, eps=None,
               initial_state=None, cu_seqlens=None):
    (B, T, H, K), V = r.shape, v.shape[-1]
    w = -0.6065306597126334 * w.sigmoid()
    v = v if v_first is None else torch.lerp(v, v_first, v_share.sigmoid())
    a = a.sigmoid()
    kk = F.normalize(k * k_k.view(H, K), dim=-1, p=2.0)
    k = k.addcmul(k * (a - 1), k_a.view(H, K))
    spans = [(b, 0, T) for b in range(B)] if cu_seqlens is None else [
        (0, first, end) for first, end in zip(cu_seqlens.tolist(), cu_seqlens.tolist()[1:])]
    o, states = torch.zeros_like(v), []
    for n, (b, first, end) in enumerate(spans):
        S = r.new_zeros(H, K, V) if initial_state is None else initial_state[n]
        for t in range(first, end):
            removed = torch.einsum("hkv,hk->hv", S, -kk[b, t])
            S = (w[b, t].exp()[..., None] * S + (kk[b, t] * a[b, t])[..., None] * removed[:, None]
                 + k[b, t][..., None] * v[b, t][:, None])
            o = o.index_put((torch.tensor(b), torch.tensor(t)), torch.einsum("hkv,hk->hv", S, r[b, t]))
        states.append(S)
    o = F.group_norm(o.reshape(B * T, H * V), H, norm_weight, norm_bias, 1e-5 * K if eps is None else eps).view_as(v)
    return (o + (r * k * r_k).sum(-1, keepdim=True) * v) * g, torch.stack(states)


def call(r, w, k, v, a, g, k_k, k_a, r_k, norm_weight=None, norm_bias=None, **options):
    return ejk.ops.rwkv7_block(r, w, k, v, a, g, k_k, k_a, r_k, norm_weight, norm_bias, **options)


def distance(found, wanted):
    return error(found.detach().double(), wanted.detach().double())


class Definition(unittest.TestCase):
    def compare(self, operands, limits=None, **options):
        limit, of_gradients = limits or LIMITS[operands["r"].dtype]
        own = {n: x.clone().requires_grad_() for n, x in operands.items()}
        exact = {n: x.double().requires_grad_() for n, x in operands.items()}
        found, wanted = call(**own, **options), in_float64(**exact, **options)
        for name, a, b in zip(("o", "state"), found, wanted):
            self.assertLess(distance(a, b), limit, name)
        cotangents = [torch.randn_like(a) for a in found]
        gradients = torch.autograd.grad(found, list(own.values()), cotangents)
        exact_ones = torch.autograd.grad(wanted, list(exact.values()), [c.double() for c in cotangents])
        largest = max(float(g.norm()) for g in exact_ones)
        for name, a, b in zip(own, gradients, exact_ones):
            size = max(float(b.norm()), 1e-3 * largest)
            self.assertLess(float((a.double() - b).norm()) / size, of_gradients, f"gradient of {name}")

    def test_types(self):
        for dtype in LIMITS:
            for steps in (2, 11, 70):
                torch.manual_seed(steps)
                with self.subTest(dtype=dtype, steps=steps):
                    self.compare(case(dtype, steps=steps, keys=16, values=16))

    def test_sizes_and_options(self):
        torch.manual_seed(0)
        self.compare(case(keys=7, values=9, heads=3))
        self.compare(case(v_first=None, v_share=None))
        self.compare(case(norm_weight=None, norm_bias=None))
        self.compare(case(), eps=0.01)

    def test_gates_that_decay_all_or_nothing(self):
        for w in (-20.0, 20.0):
            torch.manual_seed(1)
            self.compare(case(w=w), limits=(1e-5, 1e-4))

    def test_packed_with_states(self):
        for offsets in ([0, 5, 5, 6, 11], [0, 0, 11]):
            torch.manual_seed(2)
            cu = torch.tensor(offsets)
            self.compare(case(entries=1, states=len(offsets) - 1), cu_seqlens=cu)
            self.compare(case(entries=1), cu_seqlens=cu)

    def test_a_key_of_zeros(self):
        torch.manual_seed(3)
        operands = {n: x.requires_grad_() for n, x in case().items()}
        with torch.no_grad():
            operands["k"][:, 3] = 0
        o, _ = call(**operands)
        self.assertLess(distance(o, in_float64(**{n: x.detach().double() for n, x in operands.items()})[0]), 3e-6)
        o.sum().backward()
        self.assertTrue(all(x.grad.isfinite().all() for x in operands.values()))

    def test_what_is_in_no_sequence_is_not_read(self):
        torch.manual_seed(4)
        operands, cu = case(entries=1, steps=20), torch.tensor([0, 3, 15])
        wanted = call(**{n: x[:, :15] if n in SEQUENCES else x for n, x in operands.items()}, cu_seqlens=cu)
        for n in SEQUENCES:
            operands[n][:, 15:] = torch.nan
            operands[n].requires_grad_()
        found = call(**operands, cu_seqlens=cu)
        self.assertTrue(torch.equal(found[0][:, :15], wanted[0]))
        self.assertFalse(found[0][:, 15:].any())
        found[0].sum().backward()
        self.assertTrue(all(operands[n].grad.isfinite().all() for n in SEQUENCES))

    def test_token_by_token(self):
        for dtype, limit in ((torch.float32, 4e-6), (torch.bfloat16, 5e-3)):
            torch.manual_seed(5)
            operands = case(dtype, steps=70)
            whole, state = call(**operands)
            outputs, now = [], None
            for first, end in [(0, 66), *((t, t + 1) for t in range(66, 70))]:
                part = {n: x[:, first:end] if n in SEQUENCES else x for n, x in operands.items()}
                o, now = call(**part, initial_state=now)
                outputs.append(o)
            self.assertLess(distance(torch.cat(outputs, 1), whole), limit)
            self.assertLess(distance(now, state), 4e-6)

    def test_errors(self):
        for without, message in (("v_share", "'v_first' and 'v_share' are given together"),
                                 ("norm_bias", "'norm_weight' and 'norm_bias' are given together")):
            with self.assertRaisesRegex(ejk.TensorError, message):
                call(**case(**{without: None}))

    def test_a_row_before_the_first_that_does_not_fit(self):
        x, shares = torch.zeros(2, 3, 8, dtype=torch.bfloat16), [torch.zeros(8, dtype=torch.bfloat16)] * 6
        for row in (torch.zeros(2, 8), x[:1, 0], x[:, 0, :7]):
            with self.assertRaisesRegex(ejk.TensorError, r"'row' must be torch.bfloat16 \[2, 8\], as 'x' is, but is " +
                                        rf"{row.dtype} \[{row.shape[0]}, {row.shape[1]}\]"):
                ejk.ops.rwkv7_shift(x, *shares, row=row)

    def test_which_kernels(self):
        x, h = torch.zeros(1, 4096, 4, 64, dtype=torch.bfloat16), torch.zeros(4, 64)
        found = _rwkv7_block._RWKV7.explain(x, x, x, x, x, h, h, x, x, target="sm_90a")
        self.assertEqual((found.schedule, len(found.kernels), found.remarks), ("chunk", 1, ()))
        self.assertEqual(_rwkv7_block._RWKV7.explain(x, x, x, x, x, h, h, x, x, target="sm_90a", derivatives=1).schedule,
                         "chunk")
        found = _rwkv7_block._RWKV7_OUTPUT.explain(x, x, x, x, x, x, h, h, h, h, x, x, 64.0, 1e-3, target="sm_90a")
        self.assertEqual(len(found.kernels), 1)

    def test_numpy_and_jax(self):
        import jax
        torch.manual_seed(6)
        operands = {n: x.requires_grad_() for n, x in case().items()}
        wanted = call(**operands)
        cotangent = torch.randn_like(wanted[0])
        gradients = torch.autograd.grad(wanted[0], list(operands.values()), cotangent)
        arrays = {n: x.detach().numpy() for n, x in operands.items()}
        own = {n: jax.numpy.asarray(x) for n, x in arrays.items()}
        for function, given in ((call, arrays), (jax.jit(call), own)):
            for a, b in zip(function(**given), wanted):
                self.assertLess(error(np.asarray(a), b.detach()), 2e-6)
        found = jax.grad(lambda own: (call(**own)[0] * cotangent.numpy()).sum())(own)
        for name, b in zip(operands, gradients):
            self.assertLess(error(np.asarray(found[name]), b), 1e-5, name)


class Shift(unittest.TestCase):
    def mixed(self, x, shares, row=None, cu=(0, None)):
        """The definition, in x's type."""
        parts = []
        for n, (first, end) in enumerate(zip(cu, cu[1:])):
            own = x[:, first:end]
            before = torch.zeros_like(x[:, :1]) if row is None else (row[n].view(1, 1, -1) if len(cu) > 2 else row[:, None])
            parts.append(torch.cat([before, own], 1)[:, :-1] - own)
        change = torch.cat(parts, 1)
        return [x + change * share for share in shares]

    def test_shift(self):
        for dtype, limit in ((torch.float32, 2e-7), (torch.bfloat16, 4e-3)):
            for channels in (24, 1536):
                torch.manual_seed(0)
                x = torch.randn(2, 9, channels).to(dtype).requires_grad_()
                shares = [torch.rand(1, 1, channels).requires_grad_() for _ in range(6)]
                row = torch.randn(2, channels).to(dtype).requires_grad_()
                *found, last = ejk.ops.rwkv7_shift(x, *shares, row=row, output_row=True)
                exact = [y.detach().double().requires_grad_() for y in (x, *shares, row)]
                wanted = self.mixed(exact[0], exact[1:7], exact[7])
                self.assertEqual(len(found), 6)
                self.assertTrue(torch.equal(last, x[:, -1]))
                for a, b in zip(found, wanted):
                    self.assertEqual(a.dtype, dtype)
                    self.assertLess(distance(a, b), limit)
                cotangents = [torch.randn_like(a) for a in found]
                gradients = torch.autograd.grad(found, [x, *shares, row], cotangents)
                for a, b in zip(gradients, torch.autograd.grad(wanted, exact, [c.double() for c in cotangents])):
                    self.assertLess(distance(a, b), 10 * limit)

    def test_packed_and_in_pieces(self):
        torch.manual_seed(1)
        x, shares, cu = torch.randn(1, 12, 16), [torch.rand(16) for _ in range(5)], torch.tensor([0, 5, 5, 12])
        row = torch.randn(3, 16)
        *found, last = ejk.ops.rwkv7_shift(x, *shares, row=row, output_row=True, cu_seqlens=cu)
        self.assertEqual(len(found), 5)
        for a, b in zip(found, self.mixed(x, shares, row, (0, 5, 5, 12))):
            torch.testing.assert_close(a, b)
        torch.testing.assert_close(last, torch.stack([x[0, 4], row[1], x[0, 11]]))
        whole = ejk.ops.rwkv7_shift(x, *shares)
        *first, last = ejk.ops.rwkv7_shift(x[:, :7], *shares, output_row=True)
        second = ejk.ops.rwkv7_shift(x[:, 7:], *shares, row=last)
        for a, b, c in zip(first, second, whole):
            torch.testing.assert_close(torch.cat([a, b], 1), c)


if __name__ == "__main__":
    unittest.main()
