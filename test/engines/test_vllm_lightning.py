"""vLLM's lightning attention layers and their metadata builders on a CPU, with ejk under them: prefill in
pieces, decode, both in a batch, drafts, padded rows. What Triton computes around the recurrence is torch here."""

import os
import types
import unittest

os.environ["VLLM_PLUGINS"] = ""

import torch
import vllm.model_executor.layers.mamba.linear.bailing_linear_attn as bailing
import vllm.model_executor.layers.mamba.linear.minimax_linear_attn as minimax
import vllm.third_party.flash_linear_attention.ops.layernorm_guard as norms
from transformers import PreTrainedConfig
from vllm.config import CUDAGraphMode, VllmConfig, set_current_vllm_config
from vllm.forward_context import set_forward_context

import ejk_vllm
import engine_reference as reference
import vllm_batches as batches

H, D, HIDDEN, DRAFTS, BLOCKS = 4, 16, 32, 2, 16


def normalised(x, weight, bias, z=None, eps=1e-6, group_size=None, norm_before_gate=True, is_rms_norm=True,
               activation="sigmoid"):
    groups = x.float().unflatten(-1, (-1, group_size or x.shape[-1]))
    y = (groups * torch.rsqrt(groups.square().mean(-1, keepdim=True) + eps)).flatten(-2) * weight.float()
    return (y if z is None else y * z.float().sigmoid()).to(x.dtype)


class Layer:
    """What both layers have. `scale` is of the outputs, `states` the type of the pool."""
    limit = 1e-5

    @classmethod
    def setUpClass(cls):
        patch = ejk_vllm.register()
        cls.addClassCleanup(setattr, ejk_vllm, "_installed", None)
        cls.addClassCleanup(patch.remove)
        for owner, name in ((bailing, "layernorm_fn"), (norms, "rmsnorm_fn")):
            patch.set(owner, name, normalised)
        config = PreTrainedConfig(
            hidden_size=HIDDEN, num_attention_heads=H, head_dim=D, num_hidden_layers=4, use_bias=False,
            use_qkv_bias=True, use_qk_norm=True, linear_silu=True, group_norm_size=2, rms_norm_eps=1e-6,
            max_position_embeddings=128, rope_theta=10000.0)
        cls.vllm_config = VllmConfig()
        cls.vllm_config.model_config = types.SimpleNamespace(
            dtype=torch.bfloat16, hf_text_config=config, hf_config=config, is_hybrid=True, is_moe=False,
            max_model_len=128)
        cache = cls.vllm_config.cache_config
        cache.mamba_cache_dtype, cache.mamba_block_size, cache.mamba_cache_mode = cls.states, 128, "none"
        cls.vllm_config.compilation_config.max_cudagraph_capture_size = None
        cls.vllm_config.compilation_config.cudagraph_mode = CUDAGraphMode.NONE
        if cls.drafts:
            cls.vllm_config.speculative_config = types.SimpleNamespace(
                num_speculative_tokens=DRAFTS, use_eagle_block_drop=lambda: False, parallel_drafting=False)
        torch.set_default_dtype(torch.bfloat16)
        cls.addClassCleanup(torch.set_default_dtype, torch.float32)
        torch.manual_seed(0)
        with set_current_vllm_config(cls.vllm_config):
            if not torch.distributed.is_initialized():
                batches.start()
            cls.layer = layer = cls.kind(config, cls.vllm_config, prefix="model.layers.1.linear_attn")
            layer.float()
            batches.load(layer)
            cls.spec = layer.get_kv_cache_spec(cls.vllm_config)
            builder = layer.get_attn_backend().get_builder_cls()
            cls.builder = builder(cls.spec, [layer.prefix], cls.vllm_config, torch.device("cpu"))

    def setUp(self):
        self.pages = torch.zeros(BLOCKS, 1, 1, self.spec.page_size_bytes, dtype=torch.int8)
        self.layer.bind_kv_cache(self.pages)
        self.pool = self.layer.kv_cache[0]
        self.pool.normal_()  # new blocks are not cleared
        self.before = self.pool.clone()

    def run_batch(self, hidden, lengths, computed, table, accepted=None):
        """`lengths` rows of each sequence, which had `computed` before; returns the layer's outputs."""
        common = batches.common(lengths, computed, table, accepted and [n - 1 for n in lengths])
        more = dict(num_accepted_tokens=batches.ints(accepted)) if accepted else {}
        metadata = self.builder.build(0, common, **more)
        output, positions = torch.empty_like(hidden), self.positions(lengths, computed)
        with set_current_vllm_config(self.vllm_config), \
                set_forward_context({self.layer.prefix: metadata}, self.vllm_config), torch.no_grad():
            self.layer._forward(hidden, output, positions)
        return output

    @staticmethod
    def positions(lengths, computed):
        return torch.cat([torch.arange(c, c + n) for n, c in zip(lengths, computed)])

    def whole(self, hidden):
        """All rows of a sequence at once, by the definition, and the state after each row."""
        with torch.no_grad(), set_current_vllm_config(self.vllm_config):
            q, k, v = (x.reshape(-1, H, D) for x in self.rows(hidden))
            o, states = reference.lightning(q, k, v, self.layer.tp_slope.view(H), torch.zeros(H, D, D), self.scale)
            return self.closed(hidden, o.reshape(-1, H * D).float()), states

    def assertClose(self, found, expected, limit, what=""):
        self.assertLess(reference.error(found, expected), limit, what)

    def assertKept(self, but):
        for block in set(range(BLOCKS)) - set(but):
            self.assertTrue(torch.equal(self.pool[block], self.before[block]), f"block {block}")

    def test_prefill_in_pieces_and_decode(self):
        first, second = torch.randn(80, HIDDEN).float(), torch.randn(80, HIDDEN).float()
        table, at, outputs = [[3, 4, 5], [6, 7, 8]], [0, 0], [[], []]
        for lengths in ([70, 7], [4, 66], [1, 1], [1, 1]):
            rows = torch.cat([x[s:s + n] for x, s, n in zip((first, second), at, lengths)])
            for n, part in enumerate(self.run_batch(rows, lengths, at, table).split(lengths)):
                outputs[n].append(part)
                at[n] += lengths[n]
        for n, x in enumerate((first, second)):
            expected, states = self.whole(x[:at[n]])
            self.assertClose(torch.cat(outputs[n]), expected, self.limit, f"outputs {n}")
            self.assertClose(self.pool[table[n][0]], states[-1], self.limit, f"state {n}")
        self.assertKept([3, 6])

    def test_decode_beside_new_and_old_prefills(self):
        hidden = [torch.randn(n, HIDDEN).float() for n in (7, 40, 21)]
        table = [[3, 4, 5], [6, 7, 8], [9, 10, 11]]
        self.run_batch(torch.cat([hidden[0][:6], hidden[1][:9]]), [6, 9], [0, 0], table[:2])
        y = self.run_batch(torch.cat([hidden[0][6:], hidden[1][9:], hidden[2]]), [1, 31, 21], [6, 9, 0], table)
        for n, (found, x) in enumerate(zip(y.split([1, 31, 21]), hidden)):
            expected, states = self.whole(x)
            self.assertClose(found, expected[-found.shape[0]:], self.limit, f"outputs {n}")
            self.assertClose(self.pool[table[n][0]], states[-1], self.limit, f"state {n}")
        self.assertKept([3, 6, 9])

    def test_padded_rows(self):
        hidden = torch.randn(5, HIDDEN).float()
        self.run_batch(hidden[:4], [4], [0], [[3, 4, 5]])
        y = self.run_batch(torch.cat([hidden[4:], hidden[:2]]), [1, 1, 1], [4, 1, 1], [[3, 4, 5], [0] * 3, [-1] * 3])
        self.assertClose(y[:1], self.whole(hidden)[0][4:], self.limit)
        self.assertKept([3])

    def test_the_log_says_who_computes(self):
        ejk_vllm._used.clear()
        with self.assertLogs("vllm.ejk", "INFO") as log:
            for start in (0, 3, 6):
                self.run_batch(torch.randn(3, HIDDEN).float(), [3], [start], [[3, 4, 5]])
        self.assertEqual([r.getMessage() for r in log.records], ["ejk computes the recurrence of lightning"])


class Bailing(Layer, unittest.TestCase):
    kind, states, scale, drafts = bailing.BailingMoELinearAttention, "float32", D ** -0.5, True

    def rows(self, hidden):
        layer = self.layer
        q, k, v = torch.nn.functional.silu(layer.query_key_value(hidden)[0]).split(H * D, -1)
        q, k = (normalised(x.reshape(-1, H, D), norm.weight, None, eps=1e-6).reshape(-1, H * D)
                for x, norm in ((q, layer.query_layernorm), (k, layer.key_layernorm)))
        return *layer.rotary_emb(torch.arange(hidden.shape[0]), q, k), v

    def closed(self, hidden, o):
        layer = self.layer
        return layer.dense(normalised(o, layer.g_norm.weight, None, layer.g_proj(hidden)[0], 1e-6, H * D // 2))[0]

    def test_drafts(self):
        first, second = torch.randn(20, HIDDEN).float(), torch.randn(20, HIDDEN).float()
        table = [[3, 4, 5], [6, 7, 8]]
        wholes = [self.whole(x) for x in (first, second)]
        self.run_batch(torch.cat([first[:5], second[:7]]), [5, 7], [0, 0], table)
        padded = [torch.cat([first[5:8], second[7:10], first[:3]]), [3, 3, 3], [5, 7, 1], [*table, [0] * 3]]
        self.run_batch(*padded, accepted=[1, 1, 1])
        for n, start in ((0, 5), (1, 7)):
            for row in range(3):
                self.assertClose(self.pool[table[n][row]], wholes[n][1][start + row], self.limit, f"{n}, row {row}")
        # One draft of the first was right, and both of the second.
        y = self.run_batch(torch.cat([first[7:10], second[10:12]]), [3, 2], [7, 10], table, accepted=[2, 3])
        for n, (found, start) in enumerate(zip(y.split([3, 2]), (7, 10))):
            self.assertClose(found, wholes[n][0][start:start + found.shape[0]], self.limit, f"outputs {n}")
            for row in range(found.shape[0]):
                self.assertClose(self.pool[table[n][row]], wholes[n][1][start + row], self.limit, f"{n}, row {row}")
        self.assertKept([3, 4, 5, 6, 7, 8])

    def test_drafts_beside_a_prefill(self):
        first, second = torch.randn(9, HIDDEN).float(), torch.randn(30, HIDDEN).float()
        table = [[3, 4, 5], [6, 7, 8]]
        self.run_batch(first[:6], [6], [0], table[:1])
        y = self.run_batch(torch.cat([first[6:], second]), [3, 30], [6, 0], table, accepted=[1, 1])
        for n, (found, x) in enumerate(zip(y.split([3, 30]), (first, second))):
            self.assertClose(found, self.whole(x)[0][-found.shape[0]:], self.limit, f"outputs {n}")
        self.assertClose(self.pool[5], self.whole(first)[1][8], self.limit, "a draft's state")
        self.assertClose(self.pool[6], self.whole(second)[1][29], self.limit, "the prefill's state")


class BailingInHalves(Bailing):
    """States in bfloat16, the model's type."""
    states, limit = "auto", 1e-2


class MiniMax(Layer, unittest.TestCase):
    kind, states, scale, drafts = minimax.MiniMaxText01LinearAttention, "float32", 1.0, False

    def rows(self, hidden):
        qkv = torch.nn.functional.silu(self.layer.qkv_proj(hidden)[0])
        return qkv.view(-1, H, 3 * D).split(D, -1)

    def closed(self, hidden, o):
        layer = self.layer
        y = normalised(o, layer.norm.weight, None, eps=1e-5)
        return layer.out_proj(layer.output_gate(hidden)[0].sigmoid() * y)[0]


class Version(unittest.TestCase):
    def test_a_layer_that_is_called_otherwise_is_refused(self):
        with self.assertRaisesRegex(ejk_vllm.Unsupported, "linear_attention_decode of vllm .* has no parameter 'rate'"):
            ejk_vllm.find(minimax.__name__, "linear_attention_decode", ["q", "rate"])


if __name__ == "__main__":
    unittest.main()
