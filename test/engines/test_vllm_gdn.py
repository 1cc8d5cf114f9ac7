"""vLLM's gated DeltaNet layer and its metadata builder on a CPU, with ejk under them: prefill in pieces,
decode, drafts, drafts beside prefill, padded rows. What Triton computes around the recurrence is torch here."""

import os
import types
import unittest

os.environ["VLLM_PLUGINS"] = ""

import torch
import vllm.model_executor.layers.mamba.gdn.qwen_gdn_linear_attn as layers
from transformers import Qwen3NextConfig
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.forward_context import set_forward_context
from vllm.v1.attention.backends.gdn_attn import GDNAttentionMetadataBuilder

import ejk_vllm
import engine_reference as reference
import vllm_batches as batches

HK, HV, K, V, W, HIDDEN, DRAFTS, BLOCKS = 2, 4, 16, 16, 4, 32, 2, 16


def convolve(x, weight, bias, activation=None, conv_states=None, has_initial_state=None,
             cache_indices=None, query_start_loc=None, metadata=None, **_):
    out, ends = torch.empty_like(x), query_start_loc.tolist()
    for n, slot in enumerate(cache_indices.tolist()):
        past = conv_states[slot][:, :W - 1]
        past = past if has_initial_state[n] else torch.zeros_like(past)
        out[:, ends[n]:ends[n + 1]], last = reference.convolved(
            x[:, ends[n]:ends[n + 1]], weight, bias, past)
        conv_states[slot][:, :W - 1] = last
    return out


def convolve_token(x, conv_state, weight, bias, activation, conv_state_indices=None,
                   num_accepted_tokens=None, query_start_loc=None, max_query_len=None, **_):
    out = x.clone()
    slots = conv_state_indices.tolist()
    ends = query_start_loc.tolist() if query_start_loc is not None else range(len(slots) + 1)
    for n, slot in enumerate(slots):
        if slot <= 0:
            continue
        first = 0 if num_accepted_tokens is None else int(num_accepted_tokens[n]) - 1
        rows, state = x[ends[n]:ends[n + 1]].T, conv_state[slot]
        past = state[:, first:first + W - 1].clone()
        y, last = reference.convolved(rows, weight, bias, past)
        out[ends[n]:ends[n + 1]] = y.T
        if num_accepted_tokens is None:
            state[:, :W - 1] = last
        else:  # the history that each number of accepted rows needs
            state[:, :W - 2 + rows.shape[1]] = torch.cat([past[:, 1:], rows], 1)
    x.copy_(out)
    return x


def prepare(conv_output, a, b, A_log, dt_bias, num_k_heads, head_k_dim, head_v_dim, **_):
    rows = conv_output.shape[0]
    sizes = [num_k_heads * head_k_dim] * 2 + [HV * head_v_dim]
    q, k, v = conv_output.split(sizes, -1)
    q, k = (reference._unit(x.reshape(rows, num_k_heads, head_k_dim).double()).to(conv_output.dtype)
            for x in (q, k))
    gate, beta = reference.gdn_gates(a, b, A_log, dt_bias)
    return q, k, v.reshape(rows, HV, head_v_dim), gate.float(), beta.float()


class Layer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        layers.causal_conv1d_fn, layers.causal_conv1d_update = convolve, convolve_token
        layers.fused_post_conv_prep = prepare
        cls.patch = ejk_vllm.register()
        cls.addClassCleanup(cls.patch.remove)
        config = Qwen3NextConfig(
            hidden_size=HIDDEN, linear_num_key_heads=HK, linear_num_value_heads=HV,
            linear_key_head_dim=K, linear_value_head_dim=V, linear_conv_kernel_dim=W,
            num_hidden_layers=2, vocab_size=64)
        cls.vllm_config = VllmConfig()
        cls.vllm_config.model_config = types.SimpleNamespace(
            dtype=torch.bfloat16, hf_text_config=config, hf_config=config, is_hybrid=True,
            is_moe=False, max_model_len=64)
        cache = cls.vllm_config.cache_config
        cache.mamba_cache_dtype, cache.mamba_ssm_cache_dtype = "auto", "float32"
        cache.mamba_block_size, cache.mamba_cache_mode = 16, "none"
        cls.vllm_config.speculative_config = types.SimpleNamespace(
            num_speculative_tokens=DRAFTS, use_eagle_block_drop=lambda: False, parallel_drafting=False)
        torch.set_default_dtype(torch.bfloat16)
        cls.addClassCleanup(torch.set_default_dtype, torch.float32)
        torch.manual_seed(0)
        with set_current_vllm_config(cls.vllm_config):
            batches.start()
            layer = layers.QwenGatedDeltaNetAttention(
                config, cls.vllm_config, prefix="model.layers.0.linear_attn", gqa_interleaved_layout=False)
            layer._forward_method = layer.forward_cuda
            layer.gdn_decode_kernel = "triton"
            batches.load(layer, but=[layer.conv1d])
            cls.vllm_config.compilation_config.static_forward_context[layer.prefix] = layer
            cls.spec = layer.get_kv_cache_spec(cls.vllm_config)
            cls.builder = GDNAttentionMetadataBuilder(cls.spec, [layer.prefix], cls.vllm_config,
                                                      torch.device("cpu"))
        cls.layer = layer

    def setUp(self):
        page = self.spec.page_size_bytes
        self.pages = torch.zeros(BLOCKS, 1, 1, page, dtype=torch.int8)
        self.layer.bind_kv_cache(self.pages)
        self.pool = self.layer.kv_cache[1]
        self.pool.normal_()  # new blocks are not cleared

    def run_batch(self, hidden, lengths, computed, table, drafts=None, accepted=None):
        """`lengths` rows of each sequence, which had `computed` before; returns the layer's outputs."""
        metadata = self.builder.build(
            0, batches.common(lengths, computed, table, drafts), batches.ints(accepted) if accepted else None,
            batches.ints(drafts) if drafts else None)
        with set_current_vllm_config(self.vllm_config), \
                set_forward_context({self.layer.prefix: metadata}, self.vllm_config), torch.no_grad():
            return self.layer(hidden)

    def whole(self, hidden):
        """All rows of a sequence at once, by the definition."""
        with torch.no_grad(), set_current_vllm_config(self.vllm_config):
            layer = self.layer
            qkvz, _ = layer.in_proj_qkvz(hidden)
            ba, _ = layer.in_proj_ba(hidden)
            mixed, z = qkvz.split([2 * HK * K + HV * V, HV * V], -1)
            b, a = ba.chunk(2, -1)
            weight = layer.conv1d.weight.view(-1, W)
            y, _ = reference.convolved(mixed.T, weight, layer.conv1d.bias,
                                       torch.zeros(mixed.shape[1], W - 1))
            q, k, v = y.T.split([HK * K, HK * K, HV * V], -1)
            rows = hidden.shape[0]
            gates = reference.gdn_gates(a, b, layer.A_log, layer.dt_bias)
            o, states = reference.delta_rule(
                q.view(rows, HK, K), k.view(rows, HK, K), v.view(rows, HV, V), *gates,
                torch.zeros(HV, V, K), K ** -0.5)
            core = layer.norm(o.to(hidden.dtype).reshape(-1, V), z.reshape(-1, V))
            return layer.out_proj(core.reshape(rows, HV * V))[0], states

    def assertClose(self, found, expected, limit, what):
        self.assertLess(reference.error(found, expected), limit, what)

    def test_prefill_in_pieces_decode_and_drafts(self):
        first, second = torch.randn(24, HIDDEN), torch.randn(24, HIDDEN)
        outputs = [[], []]
        table = [[3, 4, 5], [6, 7, 8]]
        untouched = self.pool.clone()
        at = [0, 0]

        def go(lengths, **more):
            rows = torch.cat([x[s:s + n] for x, s, n in zip((first, second), at, lengths)])
            y = self.run_batch(rows, lengths, at, table, **more)
            for n, part in enumerate(y.split(lengths)):
                outputs[n].append(part)
            for n in range(2):
                at[n] += lengths[n]
        go([5, 7])
        go([4, 2])
        go([1, 1])
        expected = [self.whole(first), self.whole(second)]
        for n in range(2):
            self.assertClose(self.pool[table[n][0]], expected[n][1][at[n] - 1], 8e-3, f"state {n}")
        # Drafts: two tokens and one more each; of the first sequence one draft is accepted, of the second
        # both. So the next call starts at the second and the third of the table's blocks.
        go([3, 3], drafts=[2, 2], accepted=[1, 1])
        for n in range(2):
            for row in range(3):
                self.assertClose(self.pool[table[n][row]], expected[n][1][at[n] - 3 + row], 8e-3,
                                 f"state {n} after drafted row {row}")
        outputs[0][-1] = outputs[0][-1][:2]
        at[0] -= 1
        go([3, 3], drafts=[2, 2], accepted=[2, 3])
        for n in range(2):
            self.assertClose(torch.cat(outputs[n]), expected[n][0][:at[n]], 2e-2, f"outputs {n}")
        for block in set(range(BLOCKS)) - {b for row in table for b in row}:
            self.assertTrue(torch.equal(self.pool[block], untouched[block]), f"block {block}")

    def test_drafts_beside_a_prefill(self):
        first, second = torch.randn(9, HIDDEN), torch.randn(20, HIDDEN)
        table = [[3, 4, 5], [6, 7, 8]]
        self.run_batch(first[:6], [6], [0], table[:1])
        y = self.run_batch(torch.cat([first[6:9], second]), [3, 20], [6, 0], table, drafts=[2, -1],
                           accepted=[1, 1])
        for n, (found, x) in enumerate(zip(y.split([3, 20]), (first, second))):
            expected, states = self.whole(x)
            self.assertClose(found, expected[-found.shape[0]:], 2e-2, f"outputs {n}")
        self.assertClose(self.pool[5], self.whole(first)[1][8], 8e-3, "a draft's state")
        self.assertClose(self.pool[6], self.whole(second)[1][19], 8e-3, "the prefill's state")

    def test_decode_beside_a_prefill(self):
        first, second = torch.randn(7, HIDDEN), torch.randn(70, HIDDEN)
        table = [[3, 4, 5], [6, 7, 8]]
        self.run_batch(first[:6], [6], [0], table[:1])
        y = self.run_batch(torch.cat([first[6:], second]), [1, 70], [6, 0], table)
        for n, (found, x) in enumerate(zip(y.split([1, 70]), (first, second))):
            self.assertClose(found, self.whole(x)[0][-found.shape[0]:], 2e-2, f"outputs {n}")

    def test_the_log_says_who_computes(self):
        ejk_vllm._used.clear()
        with self.assertLogs("vllm.ejk", "INFO") as log:
            for start in (0, 3):
                self.run_batch(torch.randn(3, HIDDEN), [3], [start], [[3, 4, 5]])
        self.assertEqual([r.getMessage() for r in log.records], ["ejk computes the recurrence of gdn"])

    def test_what_is_not_known_is_refused(self):
        with self.assertRaisesRegex(ejk_vllm.Unsupported, "has no .*fused_nothing"):
            ejk_vllm.find(layers.__name__, "fused_nothing", [])
        with self.assertRaisesRegex(ejk_vllm.Unsupported, "has no parameter 'colour'"):
            ejk_vllm.find(layers.__name__, "fused_sigmoid_gating_delta_rule_update", ["colour"])


if __name__ == "__main__":
    unittest.main()
