"""SGLang's dispatchers on a CPU with `ejk` as their backend: prefill, decode, drafts, padded rows, and the
states that a prefix cache asks for. The dispatchers' own classes are there; no Triton runs."""

import unittest

import torch
from sglang.srt.plugins.hook_registry import HookRegistry

import ejk_sglang
import engine_reference as reference

ROWS, H, D = 8, 4, 16


def ints(values):
    return torch.tensor(values, dtype=torch.int32)


def dispatcher(family):
    import importlib
    from sglang.srt.layers.attention.linear.utils import LinearAttnKernelBackend
    ejk_sglang.register()
    ejk_sglang.register()
    HookRegistry.apply_hooks()
    module = importlib.import_module(f"sglang.srt.layers.attention.linear.{family}_backend")
    ejk = LinearAttnKernelBackend("ejk")
    return getattr(module, ejk_sglang._DISPATCHERS[family])(ejk, ejk, ejk)


class Family:
    """What both families have; `run` is the definition."""

    def setUp(self):
        torch.manual_seed(0)
        self.dispatcher = dispatcher(self.family)
        self.A_log = torch.randn(H)
        self.pool = torch.randn(ROWS, H, D, D)
        self.before = self.pool.clone()

    def assertClose(self, found, expected, limit, what=""):
        self.assertLess(reference.error(found, expected), limit, what)

    def assertKept(self, but):
        for slot in set(range(ROWS)) - set(but):
            self.assertTrue(torch.equal(self.pool[slot], self.before[slot]), f"slot {slot}")

    def test_packed_decode(self):
        mixed = torch.randn(3, 3 * H * D).bfloat16()
        a, b = self.gates(3)
        o = self.dispatcher.packed_decode(
            mixed, a, b, A_log=self.A_log, dt_bias=self.bias, scale=D ** -0.5, ssm_states=self.pool,
            cache_indices=ints([5, -1, 2]), num_v_heads=H, head_v_dim=D, **self.more)
        q, k, v = (x.view(3, H, D) for x in mixed.split(H * D, -1))
        for n, slot in ((0, 5), (2, 2)):
            expected, states = self.run_rows(q, k, v, a, b, slice(n, n + 1), self.before[slot])
            self.assertClose(o[0, n], expected[0], 4e-3)
            self.assertClose(self.pool[slot], states[0], 1e-5)
        self.assertEqual(o[0, 1].abs().max().item(), 0)
        self.assertKept([5, 2])

    def test_drafts_leave_the_pool(self):
        steps, N = 3, 3
        q, k, v = (torch.randn(1, N * steps, H, D).bfloat16() for _ in range(3))
        a, b = self.gates(N * steps)
        buffer = torch.randn(4, steps, H, D, D)
        kept = buffer.clone()
        # The second is padding, and the last one's row of the buffer is where an index of -1 might go.
        slots, rows = [6, -1, 3], [2, -1, 0]
        o = self.dispatcher.target_verify(
            self.A_log, self.bias, q, k, v, a, b, ssm_states=self.pool, cache_indices=ints(slots),
            query_start_loc=ints([0, 3, 6, 9]), intermediate_states_buffer=buffer,
            intermediate_state_indices=ints(rows), cache_steps=steps, retrieve_parent_token=None,
            **self.more)
        self.assertKept([])
        for n in (0, 2):
            own = slice(3 * n, 3 * n + 3)
            expected, states = self.run_rows(q[0], k[0], v[0], a, b, own, self.before[slots[n]])
            self.assertClose(o[0, own], expected, 4e-3)
            for row in range(steps):
                self.assertClose(buffer[rows[n], row], states[row], 1e-5)
        for row in (1, 3):
            self.assertTrue(torch.equal(buffer[row], kept[row]), f"row {row}")

    def test_prefill_and_the_states_of_a_prefix_cache(self):
        ends, slots = [0, 130, 135, 235], [1, 4, 7]
        q, k, v = (torch.randn(1, 235, H, D).bfloat16() for _ in range(3))
        a, b = self.gates(235)
        tracked, chunks = torch.full((3, H, D, D), 9.0), ints([2, -1, 1])
        o = self.extend(q, k, v, a, b, slots, ends, track_state=tracked, track_chunk_idx=chunks)
        for n, slot in enumerate(slots):
            own = slice(ends[n], ends[n + 1])
            expected, states = self.run_rows(q[0], k[0], v[0], a, b, own, self.before[slot])
            self.assertClose(o[0, own], expected, 8e-3)
            self.assertClose(self.pool[slot], states[-1], 8e-3)
            if chunks[n] >= 0:
                self.assertClose(tracked[n], states[64 * chunks[n] - 1], 8e-3, f"tracked {n}")
        self.assertKept(slots)

    def test_one_token_of_a_packed_batch(self):
        q, k, v = (torch.randn(1, 2, H, D).bfloat16() for _ in range(3))
        a, b = self.gates(2)
        o = self.dispatcher.decode(q, k, v, a, b, A_log=self.A_log, dt_bias=self.bias,
                                   ssm_states=self.pool, cache_indices=ints([3, -1]),
                                   query_start_loc=ints([0, 1, 2]), **self.more)
        expected, states = self.run_rows(q[0], k[0], v[0], a, b, slice(0, 1), self.before[3])
        self.assertClose(o[0, 0], expected[0], 4e-3)
        self.assertClose(self.pool[3], states[0], 1e-5)
        self.assertKept([3])


class GatedDeltaNet(Family, unittest.TestCase):
    family, more = "gdn", {}

    def setUp(self):
        super().setUp()
        self.bias = torch.randn(H)

    def gates(self, rows):
        return torch.randn(rows, H).bfloat16(), torch.randn(rows, H).bfloat16()

    def run_rows(self, q, k, v, a, b, own, state):
        gate, beta = reference.gdn_gates(a[own], b[own], self.A_log, self.bias)
        return reference.delta_rule(q[own], k[own], v[own], gate, beta, state, D ** -0.5)

    def extend(self, q, k, v, a, b, slots, ends, **tracked):
        gate, beta = reference.gdn_gates(a, b, self.A_log, self.bias)
        o, last, h = self.dispatcher.extend(
            q, k, v, gate.float()[None], beta.float()[None], ssm_states=self.pool,
            cache_indices=ints(slots), query_start_loc=ints(ends), **tracked)
        self.assertIsNone(last)
        return o


class Kimi(Family, unittest.TestCase):
    family, more = "kda", {"lower_bound": None}

    def setUp(self):
        super().setUp()
        self.bias = torch.randn(H * D)

    def gates(self, rows):
        return torch.randn(rows, H * D).bfloat16(), torch.randn(1, rows, H).bfloat16()

    def run_rows(self, q, k, v, a, b, own, state):
        gate, beta = reference.kda_gates(a.view(-1, H, D)[own], b[0, own], self.A_log, self.bias,
                                         self.more["lower_bound"])
        return reference.delta_rule(q[own], k[own], v[own], gate, beta, state, D ** -0.5)

    def extend(self, q, k, v, a, b, slots, ends, **tracked):
        o, h = self.dispatcher.extend(
            q, k, v, a[None], b, ssm_states=self.pool, cache_indices=ints(slots),
            query_start_loc=ints(ends), A_log=self.A_log, dt_bias=self.bias, beta_is_raw=True,
            return_intermediate_states=True, **self.more, **tracked)
        return o


class KimiBounded(Kimi):
    more = {"lower_bound": -5.0}


class Choice(unittest.TestCase):
    def test_other_backends_stay(self):
        from sglang.srt.layers.attention.linear.gdn_backend import GDNKernelDispatcher, TritonGDNKernel
        from sglang.srt.layers.attention.linear.utils import LinearAttnKernelBackend
        dispatcher("gdn")
        triton = LinearAttnKernelBackend("triton")
        self.assertIs(type(GDNKernelDispatcher(triton, triton).decode_kernel), TritonGDNKernel)
        mixed = GDNKernelDispatcher(triton, LinearAttnKernelBackend("ejk"))
        self.assertIs(type(mixed.decode_kernel), TritonGDNKernel)
        self.assertEqual(type(mixed.extend_kernel).__name__, "EjkGDNKernel")

    def test_what_a_version_lacks_is_named(self):
        backend = "sglang.srt.layers.attention.linear.lightning_backend.LightningAttentionBackend"
        with self.assertRaisesRegex(ejk_sglang.Unsupported, "no attribute '_nothing'.*; ejk-sglang knows 0.5.23"):
            ejk_sglang._check(f"{backend}._nothing", [])
        with self.assertRaisesRegex(ejk_sglang.Unsupported, "_decode_infer has no parameter 'colour'"):
            ejk_sglang._check(f"{backend}._decode_infer", ["layer", "colour"])


if __name__ == "__main__":
    unittest.main()
