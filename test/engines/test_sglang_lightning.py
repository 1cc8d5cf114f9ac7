"""SGLang's lightning attention backend and its metadata on a CPU, with ejk under them, as both kinds of models
call it: prefill in pieces, decode, drafts, padded rows, and the states that a prefix cache asks for."""

import unittest

import torch

import engine_reference as reference
import sglang_batches as batches
from sglang_batches import ForwardMode

from sglang.srt.layers.attention.linear.lightning_backend import LightningAttentionBackend
from sglang.srt.layers.radix_attention import RadixAttention
from sglang.srt.model_executor.forward_context import ForwardContext, forward_context

H, D, DRAFTS = 4, 32, 3


class Layer(batches.PoolTest):
    type, limit = torch.float32, 1e-5
    layer_id, fields = 0, {}

    def setUp(self):
        torch.manual_seed(0)
        batches.server_args(speculative_num_draft_tokens=DRAFTS, **self.fields)
        params = batches.cache_params(self.type, intermediate_size=0, n_groups=0, num_heads=H, head_dim=D,
                                      state_size=D, conv_kernel=1)
        # The buffer has room for one more drafted row than a batch here has.
        self.runner = batches.runner(params, DRAFTS + 1, num_attention_heads=H, num_hidden_layers=3,
                                     linear_backend=self.calls, mamba_chunk_size=64)
        self.backend = LightningAttentionBackend(self.runner)
        self.layer = RadixAttention(H, D, D ** -0.5, H, layer_id=0)
        cache = self.runner.req_to_token_pool.mamba2_layer_cache(0)
        self.pool, self.buffer = cache.temporal, cache.intermediate_ssm
        self.before, self.buffer_before = self.pool.clone(), self.buffer.clone()

    def rows(self, count):
        return torch.randn(3, count, H, D)

    def run_batch(self, rows, *arguments, on_host=False, **named):
        found = batches.batch(self.runner, *arguments, **named)
        self.backend.init_forward_metadata(batches.known_on_host(found) if on_host else found)
        q, k, v = rows
        if self.calls == "minimax":  # such a model scales queries
            q = q * D ** -0.5
        with torch.no_grad(), forward_context(ForwardContext(attn_backend=self.backend)):
            return self.layer(q, k, v, found).view(-1, H, D)

    def whole(self, rows, state=None):
        return reference.lightning(*rows, self.backend.tp_slope[0].view(H),
                                   torch.zeros(H, D, D) if state is None else state, D ** -0.5)

    def test_prefill_in_pieces_and_decode(self):
        rows, slots, at, outputs = [self.rows(80) for _ in range(2)], [5, 3], [0, 0], [[], []]
        for lengths in ([70, 7], [4, 66], [1, 1], [1, 1]):
            own = torch.cat([x[:, s:s + n] for x, s, n in zip(rows, at, lengths)], 1)
            mode = ForwardMode.DECODE if lengths == [1, 1] else ForwardMode.EXTEND
            for n, part in enumerate(self.run_batch(own, slots, lengths, at, mode).split(lengths)):
                outputs[n].append(part)
                at[n] += lengths[n]
        for n, x in enumerate(rows):
            expected, states = self.whole(x[:, :at[n]])
            self.assertClose(torch.cat(outputs[n]), expected, f"outputs {n}")
            self.assertClose(self.pool[slots[n]], states[-1], f"state {n}")
        self.assertKept(slots)

    def test_padded_rows(self):
        rows = self.rows(3)
        o = self.run_batch(rows, [4, -1, 2], [1, 1, 1], [9, 9, 9], ForwardMode.DECODE)
        for n, slot in ((0, 4), (2, 2)):
            expected, states = self.whole(rows[:, n:n + 1], self.before[slot])
            self.assertClose(o[n], expected[0])
            self.assertClose(self.pool[slot], states[0])
        self.assertEqual(o[1].abs().max().item(), 0)
        self.assertKept([4, 2])


class SegLa(Layer, unittest.TestCase):
    calls = "seg_la"

    def test_drafts_leave_the_pool(self):
        rows, slots = self.rows(3 * DRAFTS), [6, -1, 3]
        o = self.run_batch(rows, slots, [DRAFTS] * 3, [9] * 3, ForwardMode.TARGET_VERIFY)
        self.assertKept([])
        for n in (0, 2):
            own = slice(DRAFTS * n, DRAFTS * (n + 1))
            expected, states = self.whole(rows[:, own], self.before[slots[n]])
            self.assertClose(o[own], expected)
            for row in range(DRAFTS):
                self.assertClose(self.buffer[n, row], states[row], f"{n}, row {row}")
        for row in set(range(len(self.buffer))) - {0, 2}:
            self.assertTrue(torch.equal(self.buffer[row], self.buffer_before[row]), f"row {row}")

    def test_states_of_a_prefix_cache(self):
        # Of 150 rows the first 128, of 70 behind 9 others the first 64, of 64 all, and of 9 rows nothing.
        lengths, computed, slots = [150, 70, 64, 9], [0, 9, 0, 0], [1, 2, 3, 4]
        track, kept = [(7, 129), (8, 74), (9, 64), None], [128, 64, 64, None]
        rows = self.rows(sum(lengths))
        for on_host in (False, True):
            with self.subTest(on_host=on_host):
                self.pool.copy_(self.before)
                o = self.run_batch(rows, slots, lengths, computed, track=track, on_host=on_host)
                for n, part in enumerate(o.split(lengths)):
                    own = rows[:, sum(lengths[:n]):sum(lengths[:n + 1])]
                    expected, states = self.whole(own, self.before[slots[n]] if computed[n] else None)
                    self.assertClose(part, expected, f"outputs {n}")
                    self.assertClose(self.pool[slots[n]], states[-1], f"state {n}")
                    if kept[n] is not None:
                        self.assertClose(self.pool[track[n][0]], states[kept[n] - 1], f"tracked {n}")
                self.assertKept([*slots, 7, 8, 9])

    def test_phases(self):
        self.assertEqual(self.backend.ejk_phases, {"decode", "prefill", "verify"})
        batches.server_args(linear_attn_backend="triton", linear_attn_decode_backend="ejk",
                            linear_attn_verify_backend="triton")
        self.runner.linear_attn_backends = batches.resolve_linear_attn_backends()
        self.backend = LightningAttentionBackend(self.runner)
        self.assertEqual(self.backend.ejk_phases, {"decode"})
        self.test_padded_rows()
        with self.assertRaises(Exception):  # Triton, which a CPU has not
            self.run_batch(self.rows(4), [5], [4], [0])


class SegLaInHalves(SegLa):
    """States in bfloat16."""
    type, limit = torch.bfloat16, 1e-2


class MiniMax(Layer, unittest.TestCase):
    calls = "minimax"


if __name__ == "__main__":
    unittest.main()
