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
