"""SGLang's Mamba-2 mixer, its backend and metadata on a CPU, with ejk under them: prefill in pieces, decode,
drafts, padded rows, and the states that a prefix cache asks for. Convolutions are torch here."""

import types
import unittest
from unittest import mock

import torch

import engine_reference as reference
import sglang_batches as batches
from sglang_batches import ForwardMode

import sglang.srt.layers.attention.mamba.mamba as mamba
from sglang.kernels.ops.mamba.triton_ops import ssu_dispatch
from sglang.srt.arg_groups import overrides
from sglang.srt.arg_groups.overrides import resolved_view
from sglang.srt.layers.attention.hybrid_linear_attn_backend import Mamba2AttnBackend

from ejk_sglang.mamba2 import EjkSSUBackend

HIDDEN, H, P, S, GROUPS, W, CHUNK, DRAFTS = 32, 4, 16, 16, 2, 4, 16, 4
INNER, STATES = H * P, GROUPS * S


def convolve(x, weight, bias, activation, conv_states, has_initial_state, cache_indices, query_start_loc, **_):
    out, ends = torch.empty_like(x), query_start_loc.tolist()
    for n, slot in enumerate(cache_indices.tolist()):
        past = conv_states[slot] if has_initial_state[n] else torch.zeros_like(conv_states[slot])
        own = slice(ends[n], ends[n + 1])
        out[:, own], conv_states[slot] = reference.convolved(x[:, own], weight, bias, past)
    return out


def convolve_tokens(x, conv_state, weight, bias, activation, conv_state_indices, intermediate_conv_window=None,
                    intermediate_state_indices=None, **_):
    """One token, [N, C], or drafted ones, [N, C, T], for which the pool stays as it is."""
    out = x.clone()
    for n, slot in enumerate(conv_state_indices.tolist()):
        if slot < 0:
            continue
        rows = x[n] if x.ndim == 3 else x[n][:, None]
        y, last = reference.convolved(rows, weight, bias, conv_state[slot])
        out[n] = y if x.ndim == 3 else y[:, 0]
        if intermediate_conv_window is None:
            conv_state[slot] = last
    return out


class Mixer(batches.PoolTest, unittest.TestCase):
    type, limit = torch.float32, 1e-5

    def setUp(self):
        torch.manual_seed(0)
        self.args = batches.server_args(speculative_num_draft_tokens=DRAFTS)
        ssu_dispatch.initialize_mamba_selective_state_update_backend(self.args)
        params = batches.cache_params(self.type, intermediate_size=INNER, n_groups=GROUPS, num_heads=H, head_dim=P,
                                      state_size=S, conv_kernel=W)
        self.runner = batches.runner(params, DRAFTS, mamba_chunk_size=CHUNK)
        self.backend = Mamba2AttnBackend(self.runner)
        self.mixer = mixer = mamba.MambaMixer2(params, HIDDEN, use_conv_bias=True, use_bias=False, n_groups=GROUPS)
        with torch.no_grad():
            for parameter in mixer.parameters():
                parameter.normal_(std=0.3)
            mixer.A.copy_(-torch.rand(H))
            mixer.norm.forward = mixer.norm.forward_native
        cache = self.runner.req_to_token_pool.mamba2_layer_cache(0)
        self.pool, self.conv, self.buffer = cache.temporal, cache.conv[0], cache.intermediate_ssm
        self.before, self.conv_before, self.buffer_before = (x.clone() for x in (self.pool, self.conv, self.buffer))
        for name, function in (("fn", convolve), ("update", convolve_tokens)):
            for form in ("", "_triton"):
                patch = mock.patch.object(mamba, f"causal_conv1d_{name}{form}", function, create=True)
                patch.start()
                self.addCleanup(patch.stop)

    def run_batch(self, hidden, *arguments, on_host=False, **named):
        found = batches.batch(self.runner, *arguments, **named)
        self.backend.init_forward_metadata(batches.known_on_host(found) if on_host else found)
        with torch.no_grad():
            return self.backend.forward(self.mixer, hidden, None, 0, found,
                                        use_triton_causal_conv=found.forward_mode.is_target_verify())

    def whole(self, hidden, state=None, past=None):
        """All rows of a sequence at once, by the definition, and the state after each row."""
        mixer = self.mixer
        with torch.no_grad():
            gate, xBC, dt = mixer.in_proj(hidden)[0].split([INNER, INNER + 2 * STATES, H], -1)
            xBC = reference.convolved(xBC.T, mixer.conv1d.weight.view(-1, W), mixer.conv1d.bias,
                                      torch.zeros(xBC.shape[1], W - 1) if past is None else past)[0].T
            x, B, C = xBC.split([INNER, STATES, STATES], -1)
            y, states = reference.mamba2(
                x.reshape(-1, H, P), dt, mixer.A, B.reshape(-1, GROUPS, S), C.reshape(-1, GROUPS, S), mixer.D,
                mixer.dt_bias, torch.zeros(H, P, S) if state is None else state)
            return mixer.out_proj(mixer.norm.forward_native(y.reshape(-1, INNER).float(), gate))[0], states

    def test_prefill_in_pieces_and_decode(self):
        hidden, slots, at = [torch.randn(80, HIDDEN) for _ in range(2)], [5, 3], [0, 0]
        outputs = [[], []]
        for lengths in ([70, 7], [4, 66], [1, 1], [1, 1]):
            rows = torch.cat([x[s:s + n] for x, s, n in zip(hidden, at, lengths)])
            mode = ForwardMode.DECODE if lengths == [1, 1] else ForwardMode.EXTEND
            for n, part in enumerate(self.run_batch(rows, slots, lengths, at, mode).split(lengths)):
                outputs[n].append(part)
                at[n] += lengths[n]
        for n, x in enumerate(hidden):
            expected, states = self.whole(x[:at[n]])
            self.assertClose(torch.cat(outputs[n]), expected, f"outputs {n}")
            self.assertClose(self.pool[slots[n]], states[-1], f"state {n}")
        self.assertKept(slots)

    def test_padded_rows(self):
        hidden = torch.randn(3, HIDDEN)
        y = self.run_batch(hidden, [4, -1, 2], [1, 1, 1], [9, 9, 9], ForwardMode.DECODE)
        for n, slot in ((0, 4), (2, 2)):
            expected, states = self.whole(hidden[n:n + 1], self.before[slot], self.conv_before[slot])
            self.assertClose(y[n], expected[0])
            self.assertClose(self.pool[slot], states[0])
        self.assertEqual(y[1].abs().max().item(), 0)
        self.assertKept([4, 2])

    def test_drafts_leave_the_pool(self):
        hidden, slots = torch.randn(3 * DRAFTS, HIDDEN), [6, -1, 3]
        y = self.run_batch(hidden, slots, [DRAFTS] * 3, [9] * 3, ForwardMode.TARGET_VERIFY)
        self.assertKept([])
        for n in (0, 2):
            own = slice(DRAFTS * n, DRAFTS * (n + 1))
            expected, states = self.whole(hidden[own], self.before[slots[n]], self.conv_before[slots[n]])
            self.assertClose(y[own], expected)
            for row in range(DRAFTS):
                self.assertClose(self.buffer[n, row], states[row], f"{n}, row {row}")
        for row in set(range(len(self.buffer))) - {0, 2}:
            self.assertTrue(torch.equal(self.buffer[row], self.buffer_before[row]), f"row {row}")

    def test_states_of_a_prefix_cache(self):
        # Of 70 rows the first 32 (at a multiple of the chunk size in the batch), of 40 the first 16 (at row 86,
        # which is none), of 32 all, of the last one nothing, and of 20 rows behind 30 others none of its own.
        lengths, computed, slots = [70, 40, 32, 9, 20], [0, 0, 0, 0, 30], [1, 2, 3, 4, 5]
        track = [(7, 33), (8, 17), (9, 32), None, (10, 31)]
        rows = [32, 16, 32, None, 0]
        hidden = torch.randn(sum(lengths), HIDDEN)
        for on_host in (False, True):
            with self.subTest(on_host=on_host):
                self.pool.copy_(self.before)
                self.conv.copy_(self.conv_before)
                y = self.run_batch(hidden, slots, lengths, computed, track=track, on_host=on_host)
                for n, part in enumerate(y.split(lengths)):
                    start = (self.before[5], self.conv_before[5]) if computed[n] else ()
                    expected, states = self.whole(hidden[sum(lengths[:n]):sum(lengths[:n + 1])], *start)
                    self.assertClose(part, expected, f"outputs {n}")
                    self.assertClose(self.pool[slots[n]], states[-1], f"state {n}")
                    if rows[n] is not None:
                        wanted = states[rows[n] - 1] if rows[n] else self.before[5]
                        self.assertClose(self.pool[track[n][0]], wanted, f"tracked {n}")
                self.assertKept([*slots, 7, 8, 9, 10])


class MixerInHalves(Mixer):
    """States in bfloat16."""
    type, limit = torch.bfloat16, 1e-2


class Choice(unittest.TestCase):
    def backend(self, **fields):
        ssu_dispatch.initialize_mamba_selective_state_update_backend(batches.server_args(**fields))
        return ssu_dispatch._mamba_ssu_backend

    def test_phases(self):
        ejk = self.backend()
        self.assertEqual((ejk.decode, ejk.prefill, ejk.verify), (True, True, True))
        ejk = self.backend(linear_attn_backend="triton", linear_attn_prefill_backend="ejk")
        self.assertEqual((ejk.decode, ejk.prefill, ejk.verify), (False, True, False))
        ejk = self.backend(linear_attn_verify_backend="triton")
        self.assertEqual((ejk.decode, ejk.prefill, ejk.verify), (True, True, False))

    def test_other_backends_stay(self):
        own = self.backend(linear_attn_backend="triton")
        self.assertIs(type(own), ssu_dispatch.TritonSSUBackend)
        own = self.backend(enable_mamba_cache_stochastic_rounding=True)
        self.assertIs(type(own), ssu_dispatch.TritonSSUBackend)

    def test_prefix_caches_may_ask_for_states(self):
        for backend, expected in (("ejk", True), ("triton", True), ("cutedsl", False)):
            view = resolved_view(batches.server_args(linear_attn_backend=backend))
            model = types.SimpleNamespace(architectures=["NemotronHForCausalLM"])
            self.assertEqual(overrides.supports_mamba_cache_extra_buffer(view, model), expected, backend)

    def test_what_is_left_to_the_engine(self):
        calls = []
        ejk = EjkSSUBackend(lambda *a, **named: calls.append(named), True, True, True)
        x = torch.randn(2, 3, H, P)
        for named in (dict(z=x), dict(retrieve_parent_token=batches.ints([[0, 0, 1]] * 2)), {}):
            ejk(x, x, x, x, x, x, state_batch_indices=batches.ints([1, 2]), out=x, disable_state_update=True,
                intermediate_states_buffer=x, **named)
        self.assertEqual(len(calls), 3)  # the last one without indices of the buffer


if __name__ == "__main__":
    unittest.main()
