"""A model's blocks between their projections, against the layers of transformers."""

import unittest
import unittest.mock

import torch

import ejk
from reference import error

try:
    from transformers.models.qwen3_next import modeling_qwen3_next as qwen3_next
except ImportError:
    qwen3_next = None


def layer(dtype, key_heads=2, value_heads=4):
    config = qwen3_next.Qwen3NextConfig(
        hidden_size=24, linear_num_key_heads=key_heads, linear_num_value_heads=value_heads,
        linear_key_head_dim=8, linear_value_head_dim=6, linear_conv_kernel_dim=4,
        num_hidden_layers=1, layer_types=["linear_attention"])
    torch.manual_seed(0)
    made = qwen3_next.Qwen3NextGatedDeltaNet(config, 0).to(dtype)
    with torch.no_grad():
        made.conv1d.weight.normal_(std=0.5)
        made.norm.weight.normal_(mean=1.0, std=0.2)
        made.dt_bias.normal_()
    return made


def parts(layer, x):
    q, k, v, z, b, a = layer.fix_query_key_value_ordering(layer.in_proj_qkvz(x), layer.in_proj_ba(x))
    return q, k, v, z, a, b


def run(layer, x, **named):
    o, *rest = ejk.ops.gated_delta_net(
        *parts(layer, x), layer.conv1d.weight, layer.A_log, layer.dt_bias, layer.norm.weight,
        eps=layer.layer_norm_epsilon, **named)
    return (layer.out_proj(o.flatten(2)), *rest)


@unittest.skipUnless(qwen3_next, "needs transformers with Qwen3-Next")
class GatedDeltaNet(unittest.TestCase):
    def setUp(self):
        # The layer's own code, also where fla is installed, whose kernels need a GPU.
        for name in ("torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule"):
            own = getattr(qwen3_next, name)
            patch = unittest.mock.patch.object(qwen3_next, name, getattr(own, "__wrapped__", own))
            patch.start()
            self.addCleanup(patch.stop)

    def compare(self, dtype, tolerance, **heads):
        own = layer(dtype, **heads)
        x = torch.randn(2, 11, 24, dtype=dtype, requires_grad=True)
        weights = torch.randn(2, 11, 24, dtype=dtype)
        leaves = [x, *own.parameters()]
        found, wanted = run(own, x)[0], own(x)
        self.assertLess(error(found.detach(), wanted.detach()), tolerance)
        grads = [torch.autograd.grad((o * weights).sum(), leaves) for o in (found, wanted)]
        for name, a, b in zip(["x", *(n for n, _ in own.named_parameters())], *grads):
            with self.subTest(name):
                self.assertLess(error(a, b), 10 * tolerance)

    def test_single(self):
        self.compare(torch.float32, 2e-6)

    def test_one_key_head_for_each_value_head(self):
        self.compare(torch.float32, 2e-6, key_heads=3, value_heads=3)

    def test_parts_and_packed(self):
        own = layer(torch.float32)
        x = torch.randn(1, 12, 24)
        with torch.no_grad():
            whole, state, rows = run(own, x, output_conv_state=True)
            self.assertLess(error(whole, own(x)), 2e-6)
            first, now, last = run(own, x[:, :7], output_conv_state=True)
            outputs = [first]
            for t in range(7, 12):
                o, now, last = run(own, x[:, t:t + 1], initial_state=now, conv_state=last,
                                   output_conv_state=True)
                outputs.append(o)
            self.assertLess(error(torch.cat(outputs, 1), whole), 4e-6)
            self.assertLess(error(now, state), 4e-6)
            for a, b in zip(last, rows):  # a projection of one row is rounded apart from one of all
                self.assertLess(error(a, b), 1e-6)
            cu = torch.tensor([0, 5, 5, 12])
            packed, states = run(own, x, cu_seqlens=cu)
            for n, (begin, end) in enumerate([(0, 5), (5, 5), (5, 12)]):
                if begin < end:
                    alone, own_state = run(own, x[:, begin:end])
                    self.assertLess(error(packed[:, begin:end], alone), 2e-6)
                    self.assertLess(error(states[n:n + 1], own_state), 2e-6)


def distance(found, wanted):
    return error(found.detach().double(), wanted.detach().double())


def in_float64(kind, q, k, v, g, b, z, weight, A_log, dt_bias, norm_weight, bound, eps, starts):
    """A block's definition, sequence by sequence of those that begin at rows `starts`."""
    F, outputs = torch.nn.functional, []
    H, K = q.shape[2:]
    for begin, end in zip(starts, [*starts[1:], q.shape[1]]):
        x = torch.cat([y[:, begin:end].flatten(2) for y in (q, k, v)], -1)
        width = weight.shape[-1]
        x = F.silu(F.conv1d(F.pad(x.mT, (width - 1, 0)), weight[:, None], groups=x.shape[-1]).mT)
        cq, ck, cv = (y.unflatten(-1, (H, -1)) for y in x.split([H * K, H * K, v[0, 0].numel()], -1))
        cq, ck = (y * torch.rsqrt((y * y).sum(-1, keepdim=True) + 1e-6) for y in (cq, ck))
        raw = g[:, begin:end] + dt_bias
        rate = A_log.exp() if kind == "gated_delta_net" else A_log.exp()[:, None]
        gate = -rate * F.softplus(raw) if bound is None else bound * torch.sigmoid(rate * raw)
        gate = gate if gate.dim() == 4 else gate[..., None]
        S, rows = torch.zeros(q.shape[0], H, K, v.shape[-1], dtype=q.dtype), []
        for t in range(end - begin):
            S = gate[:, t].exp()[..., None] * S
            u = b[:, begin + t].sigmoid()[..., None] * (cv[:, t] - torch.einsum("nhkv,nhk->nhv", S, ck[:, t]))
            S = S + ck[:, t][..., None] * u[..., None, :]
            rows.append(torch.einsum("nhkv,nhk->nhv", S, cq[:, t]) * K ** -0.5)
        outputs.append(torch.stack(rows, 1))
    o = torch.cat(outputs, 1)
    o = norm_weight * o * torch.rsqrt((o * o).mean(-1, keepdim=True) + eps)
    return o * (F.silu(z) if kind == "gated_delta_net" else z.sigmoid())


class Parts(unittest.TestCase):
    """Blocks of 16-bit rows from 64 steps on, which are three programs, and short ones of f32, which are one."""

    def compare(self, kind, steps, dtype, limits, bound=None, packed=False, **named):
        torch.manual_seed(0)
        B, H, K, V = 1 if packed else 2, 2, 64, 48

        def rows(*channels):
            return torch.randn(B, steps, H, *channels).to(dtype)
        g = rows(K) if kind == "kda_block" else torch.randn(B, steps, H)
        leaves = [rows(K), rows(K), rows(V), g, torch.randn(B, steps, H), rows(V),
                  (torch.randn(H * (2 * K + V), 4) / 2).to(dtype), torch.rand(H),
                  torch.randn(H, K) if kind == "kda_block" else torch.randn(H), 1 + torch.randn(V) / 10]
        for x in leaves:
            x.requires_grad_()
        q, k, v, g, b, z, *weights = leaves
        starts = [0, 21, steps - 30] if packed else [0]
        cu = torch.tensor([*starts, steps]) if packed else None
        if kind == "kda_block":
            o = ejk.ops.kda_block(q, k, v, g, b, z, *weights, lower_bound=bound, cu_seqlens=cu)[0]
        else:
            o = ejk.ops.gated_delta_net(q, k, v, z, g, b, *weights, cu_seqlens=cu)[0]
        cotangent = torch.randn_like(o)
        found = torch.autograd.grad(o, leaves, cotangent)
        exact = [x.detach().double().requires_grad_() for x in leaves]
        eps = 1e-6 if kind == "gated_delta_net" else 1e-5
        wanted = in_float64(kind, *exact, bound, eps, starts)
        gradients = torch.autograd.grad(wanted, exact, cotangent.double())
        self.assertLess(distance(o, wanted), limits[0])
        for name, a, c in zip("q k v g b z weight A_log dt_bias norm".split(), found, gradients):
            with self.subTest(name):
                # A head's gradients are sums of terms of either sign, one a row.
                self.assertLess(distance(a, c), limits[1] * (2 if name in ("A_log", "dt_bias") else 1))

    def test_in_parts(self):
        for packed in (False, True):
            self.compare("gated_delta_net", 96, torch.bfloat16, (5e-3, 8e-3), packed=packed)
            self.compare("kda_block", 96, torch.bfloat16, (5e-3, 8e-3), packed=packed)
            self.compare("kda_block", 96, torch.bfloat16, (5e-3, 8e-3), bound=-5.0, packed=packed)

    def test_in_one(self):
        for packed in (False, True):
            self.compare("gated_delta_net", 60, torch.float32, (2e-6, 1e-5), packed=packed)
            self.compare("kda_block", 60, torch.float32, (2e-6, 1e-5), packed=packed)
            self.compare("kda_block", 60, torch.float32, (2e-6, 1e-5), bound=-5.0, packed=packed)

    def test_a_sequence_goes_on(self):
        torch.manual_seed(1)
        q, k, z = torch.randn(3, 1, 200, 2, 32).bfloat16()
        g, v = torch.randn(1, 200, 2, 32).bfloat16(), torch.randn(1, 200, 2, 32).bfloat16()
        b = torch.randn(1, 200, 2)
        weights = (torch.randn(192, 4) / 2).bfloat16(), torch.rand(2), torch.randn(64), torch.ones(32)

        def run(begin, end, **named):
            return ejk.ops.kda_block(*(x[:, begin:end] for x in (q, k, v, g, b, z)), *weights,
                                     output_conv_state=True, **named)
        whole, state, rows = run(0, 200)
        # 100 steps in parts, 20 in one program, one, and 79 in parts again.
        outputs, now, last = [], None, None
        for begin, end in ((0, 100), (100, 120), (120, 121), (121, 200)):
            o, now, last = run(begin, end, initial_state=now, conv_state=last)
            outputs.append(o)
        self.assertLess(distance(torch.cat(outputs, 1), whole), 5e-3)
        self.assertLess(distance(now, state), 5e-3)
        for a, c in zip(last, rows):
            self.assertTrue(torch.equal(a, c))

    def test_compiled_and_checkpointed(self):
        """One result, to the bit, however torch calls a block: outputs, states, last rows and gradients."""
        from torch.utils.checkpoint import checkpoint
        for kind in ("gated_delta_net", "kda_block"):
            for packed in (False, True):
                with self.subTest(kind, packed=packed):
                    self.same_bits(kind, packed, checkpoint)

    def same_bits(self, kind, packed, checkpoint):
        torch.manual_seed(2)
        B, T, H, K, V = 1 if packed else 2, 80, 2, 16, 24
        gate = (H, K) if kind == "kda_block" else (H,)
        shapes = [(B, T, H, K)] * 2 + [(B, T, H, V)] * 2
        q, k, v, z = (torch.randn(shape).bfloat16() for shape in shapes)
        g, b = torch.randn(B, T, *gate).bfloat16(), torch.randn(B, T, H).bfloat16()
        weights = [(torch.randn(H * (2 * K + V), 1, 4) / 2).bfloat16(), torch.rand(H), torch.randn(gate), torch.rand(V)]
        cu = torch.tensor([0, 70, 70, 80]) if packed else None
        N = 3 if packed else B
        state = torch.randn(N, H, K, V)
        last = tuple(torch.randn(N, 3, *x.shape[2:]).bfloat16() for x in (q, k, v))
        leaves = [x.requires_grad_() for x in (q, k, v, z, g, b, *weights, state, *last)]

        def block(q, k, v, z, g, b, weight, A_log, dt_bias, norm, state, *last):
            options = dict(initial_state=state, conv_state=last, output_conv_state=True, cu_seqlens=cu)
            if kind == "kda_block":
                o, state, last = ejk.ops.kda_block(q, k, v, g, b, z, weight, A_log, dt_bias, norm, **options)
            else:
                o, state, last = ejk.ops.gated_delta_net(q, k, v, z, g, b, weight, A_log, dt_bias, norm, **options)
            return o, state, *last
        torch._dynamo.reset()
        found = []
        for call in (block, torch.compile(block, fullgraph=True, backend="aot_eager"),
                     lambda *x: checkpoint(block, *x, use_reentrant=False)):
            results = call(*leaves)
            gradients = torch.autograd.grad(sum(x.float().square().sum() for x in results), leaves)
            found.append([x.detach() for x in (*results, *gradients)])
        for other in found[1:]:
            self.assertEqual(len(other), len(found[0]))
            for i, (a, c) in enumerate(zip(found[0], other)):
                self.assertTrue(torch.equal(a, c), i)
        self.assertTrue(all(bool(x.isfinite().all()) and bool(x.any()) for x in found[0]))

    def test_what_is_in_no_sequence_is_not_read(self):
        for dtype, steps in ((torch.bfloat16, 90), (torch.float32, 30)):
            for kind in ("gated_delta_net", "kda_block"):
                torch.manual_seed(3)
                H, C, used = 2, 16, steps - 13
                q, k, v, z = (torch.randn(1, steps, H, C).to(dtype) for _ in range(4))
                gate = (H, C) if kind == "kda_block" else (H,)
                rows = dict(q=q, k=k, v=v, z=z, b=torch.randn(1, steps, H).to(dtype),
                            **{"g" if kind == "kda_block" else "a": torch.randn(1, steps, *gate).to(dtype)})
                weights = dict(conv_weight=(torch.randn(3 * H * C, 4) / 2).to(dtype), A_log=torch.rand(H),
                               dt_bias=torch.randn(gate), norm_weight=torch.rand(C))
                for x in rows.values():
                    x[:, used:] = torch.nan
                    x.requires_grad_()
                o, state = getattr(ejk.ops, kind)(**rows, **weights, cu_seqlens=torch.tensor([0, 3, used]))
                self.assertFalse(o[:, used:].any())
                self.assertTrue(o.isfinite().all() and state.isfinite().all())
                o.sum().backward()
                for n, x in rows.items():
                    self.assertTrue(x.grad.isfinite().all(), (kind, n))

    def test_eigenvalues_below_zero(self):
        torch.manual_seed(4)
        q, k, v, z = torch.randn(4, 1, 9, 2, 4)
        a, b, weight, A, ones = torch.randn(1, 9, 2), torch.randn(1, 9, 2), torch.randn(24, 1), torch.zeros(2), torch.ones(4)
        o = ejk.ops.gated_delta_net(q, k, v, z, a, b, weight, A, A, ones, allow_neg_eigval=True)[0]
        F = torch.nn.functional
        cq, ck, cv = (F.silu(x * w.view(2, 4)) for x, w in zip((q, k, v), weight.split(8)))
        cq, ck = (x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6) for x in (cq, ck))
        p = ejk.ops.gated_delta_rule(cq, ck, cv, -F.softplus(a), 2 * b.sigmoid())[0]
        p = p * torch.rsqrt((p * p).mean(-1, keepdim=True) + 1e-6) * F.silu(z)
        self.assertLess(error(o, p), 2e-6)
        g = torch.randn(1, 9, 2, 4)
        o = ejk.ops.kda_block(q, k, v, g, b, z, weight, A, None, ones, allow_neg_eigval=True, eps=1e-6)[0]
        p = ejk.ops.kda(cq, ck, cv, -F.softplus(g), 2 * b.sigmoid())[0]
        self.assertLess(error(o, p * torch.rsqrt((p * p).mean(-1, keepdim=True) + 1e-6) * z.sigmoid()), 2e-6)

    def test_eigenvalues_below_zero_in_parts(self):
        """Rows of 16 bits beside those of float32, which are one program, of few heads and of more than 512."""
        torch.manual_seed(6)
        for kind, H in (("gated_delta_net", 2), ("gated_delta_net", 514), ("kda_block", 2)):
            block, gate = getattr(ejk.ops, kind), (H, 4) if kind == "kda_block" else (H,)
            q, k, v, z = torch.randn(4, 1, 64, H, 4)
            g, b, weight = torch.randn(1, 64, *gate), torch.randn(1, 64, H), torch.randn(12 * H, 4) / 2
            gates = (g, b, z) if kind == "kda_block" else (z, g, b)
            constants = torch.rand(H), torch.randn(gate), torch.ones(4)

            def run(dtype, **named):
                return block(*(x.bfloat16().to(dtype) for x in (q, k, v, *gates, weight)), *constants, **named)[0]
            found, wanted, other = (run(torch.bfloat16, allow_neg_eigval=True),
                                    run(torch.float32, allow_neg_eigval=True), run(torch.float32))
            with self.subTest(kind, heads=H):
                self.assertLess(distance(found, wanted), 3e-2)
                self.assertGreater(distance(other, wanted), 0.1)

    def test_a_bound_above_zero(self):
        x = torch.randn(1, 3, 2, 4)
        with self.assertRaisesRegex(ValueError, "kda_block: 'lower_bound' must be below 0, but is 5"):
            ejk.ops.kda_block(x, x, x, x, x[..., 0], x, torch.randn(24, 4), torch.zeros(2), None,
                              torch.ones(4), lower_bound=5)

    def test_a_gate_of_other_channels(self):
        x = torch.randn(1, 3, 2, 4)
        for g in (x[..., :3], x[..., :1]):
            with self.assertRaisesRegex(ejk.TensorError, r"'g' must be \[B, T, Hv, K\] with K = 4, but has shape"):
                ejk.ops.kda_block(x, x, x, g, x[..., 0], x, torch.randn(24, 4), torch.zeros(2), None, torch.ones(4))

    def test_rows_before_the_first_that_do_not_fit(self):
        half = torch.float16
        for steps, kind in ((3, torch.float32), (3, half), (70, half)):
            x, gate = torch.randn(1, steps, 2, 4, dtype=kind), torch.randn(1, steps, 2, dtype=kind)
            weight, ones, zeros = torch.randn(24, 1, 4, dtype=kind), torch.ones(4), torch.zeros(2)
            good = torch.zeros(1, 3, 2, 4, dtype=kind)
            other = torch.float32 if kind == half else half
            for wrong, message in ((good.to(other), rf"'conv_state' must have the rows of 'v' as {kind} "
                                                    rf"\[1, 3, 2, 4\], but has {other} \[1, 3, 2, 4\]"),
                                   (good[:, :2], r"'conv_state' .* 'v' .*, but has \S+ \[1, 2, 2, 4\]"),
                                   (good[..., :3], r"'conv_state' .* 'v' .*, but has \S+ \[1, 3, 2, 3\]"),
                                   (good.expand(2, 3, 2, 4), r"'conv_state' .* 'v' .*, but has \S+ \[2, 3, 2, 4\]"),
                                   (good[0], r"'conv_state' must be \[N, W-1, heads, channels\], but has shape"),
                                   (good.to("meta"), "'conv_state' on meta"), ([0.0], "'conv_state' must be a tensor")):
                state = (good, good, wrong)
                with self.assertRaisesRegex(ejk.TensorError, message):
                    ejk.ops.gated_delta_net(x, x, x, x, gate, gate, weight, zeros, zeros, ones, conv_state=state)
                with self.assertRaisesRegex(ejk.TensorError, message):
                    ejk.ops.kda_block(x, x, x, x, gate, x, weight, zeros, None, ones, conv_state=state)
            ejk.ops.gated_delta_net(x, x, x, x, gate, gate, weight, zeros, zeros, ones, conv_state=(good, None, good))

    def test_which_kernels(self):
        """Of rows, one each, forward; chunks for the recurrence and its derivative."""
        from ejk import _blocks, _short_convolution
        x, n = torch.zeros(1, 4096, 4, 128, dtype=torch.bfloat16), torch.zeros(1, 4096, 4)
        w = torch.zeros(4, 128, dtype=torch.bfloat16)

        def kernels(recurrence, *arguments, derivatives=0):
            found = recurrence.explain(*arguments, target="sm_90a", derivatives=derivatives)
            self.assertFalse(found.remarks)
            return found
        for normalise in (False, True):
            self.assertEqual(len(kernels(_short_convolution._SHORT_CONVOLUTION, x, w, w, w, w, None, None, 0,
                                         normalise).kernels), 1)
        self.assertEqual(len(kernels(_blocks._GATED_NORM_SILU, x, x, torch.zeros(1, 128), 128.0,
                                     1e-6).kernels), 1)
        gates, one = n.reshape(1, 4096, 1, 4), torch.zeros(1, 4)
        self.assertEqual(len(kernels(_blocks._GATE_OF_HEAD, gates, gates, one, one, 1.0).kernels), 1)
        self.assertEqual(len(kernels(_blocks._GATES_OF_CHANNELS, n, x, torch.zeros(4), torch.zeros(4, 128), -5.0,
                                     1.0).kernels), 1)
        for derivatives in (0, 1):
            for g, bound in ((n, None), (x.float(), -5.0)):
                found = kernels(_blocks._DELTA, x, x, x, g, n, 0.1, bound, derivatives=derivatives)
                self.assertEqual(found.schedule, "chunk")


class OneRow(unittest.TestCase):
    """Blocks whose convolution reads no earlier rows."""

    def calls(self, x, gate, **options):
        """The results of each block on rows of x."""
        weight, zeros, ones = torch.linspace(-1, 1, 24)[:, None].to(x.dtype), torch.zeros(2), torch.ones(4)
        options["output_conv_state"] = True
        yield ejk.ops.gated_delta_net(x, x, x, x, gate, gate, weight, zeros, zeros, ones, **options)
        yield ejk.ops.kda_block(x, x, x, x, gate, x, weight, zeros, None, ones, **options)
        yield ejk.ops.mamba2_block(x, x, x, x, gate, weight, zeros, zeros, None, None, **options)

    def test_goes_on_from_no_rows(self):
        torch.manual_seed(0)
        for kind, steps in ((torch.float32, 6), (torch.float16, 140)):
            x, gate = torch.randn(1, steps, 2, 4).to(kind), torch.randn(1, steps, 2).to(kind)
            half = steps // 2
            begun = list(self.calls(x[:, :half], gate[:, :half]))
            for number, (o, state, rows) in enumerate(self.calls(x, gate)):
                first, now, last = begun[number]
                self.assertEqual([(r.shape, r.dtype) for r in rows], [((1, 0, 2, 4), kind)] * 3)
                for before in (last, (), None, (None, last[1], None)):
                    second, end, _ = list(self.calls(x[:, half:], gate[:, half:], initial_state=now,
                                                     conv_state=before))[number]
                    self.assertLess(error(torch.cat([first, second], 1), o), 5e-3 if kind != torch.float32 else 2e-6)
                    self.assertLess(error(end, state), 2e-3)

    def test_shapes(self):
        x, gate = torch.randn(1, 6, 2, 4), torch.randn(1, 6, 2)
        for _, _, rows in self.calls(x, gate, cu_seqlens=torch.tensor([0, 2, 2, 6])):
            self.assertEqual([r.shape for r in rows], [(3, 0, 2, 4)] * 3)
        with self.assertRaisesRegex(ejk.TensorError, r"must have the rows of 'q' as \S+ \[1, 0, 2, 4\], but has"):
            next(self.calls(x, gate, conv_state=(x[:, :1], None, None)))
        wide = torch.ones(24, 2), torch.zeros(2), torch.zeros(2), torch.ones(4)
        with self.assertRaisesRegex(ejk.TensorError, "rows of q, k and v, but has 0 entries"):
            ejk.ops.gated_delta_net(x, x, x, x, gate, gate, *wide, conv_state=())


class Widths(unittest.TestCase):
    def test_widths(self):
        torch.manual_seed(0)
        q, k, v, z = torch.randn(4, 1, 5, 2, 4)
        a, b = torch.randn(2, 1, 5, 2)
        for width in (1, 2, 3):
            weight, bias = torch.randn(24, width), torch.randn(24)
            o = ejk.ops.gated_delta_net(q, k, v, z, a, b, weight, torch.zeros(2), torch.zeros(2),
                                        torch.ones(4), conv_bias=bias)[0]
            x = torch.cat([y.flatten(2) for y in (q, k, v)], -1)
            y = torch.nn.functional.conv1d(torch.nn.functional.pad(x.mT, (width - 1, 0)),
                                           weight[:, None], bias, groups=24).mT
            cq, ck, cv = (torch.nn.functional.silu(y).view(1, 5, 3, 2, 4)[:, :, i] for i in range(3))
            cq, ck = (u * torch.rsqrt((u * u).sum(-1, keepdim=True) + 1e-6) for u in (cq, ck))
            p = ejk.ops.gated_delta_rule(cq, ck, cv, -torch.nn.functional.softplus(a), b.sigmoid())[0]
            p = p * torch.rsqrt((p * p).mean(-1, keepdim=True) + 1e-6) * torch.nn.functional.silu(z)
            self.assertLess(error(o, p), 2e-6)
        with self.assertRaisesRegex(ejk.TensorError, "a width of 5"):
            ejk.ops.gated_delta_net(q, k, v, z, a, b, torch.randn(24, 5), torch.zeros(2),
                                    torch.zeros(2), torch.ones(4))
        with self.assertRaisesRegex(ejk.TensorError, r"must be \[24, 1, W\]"):
            ejk.ops.gated_delta_net(q, k, v, z, a, b, torch.randn(20, 4), torch.zeros(2),
                                    torch.zeros(2), torch.ones(4))


if __name__ == "__main__":
    unittest.main()
