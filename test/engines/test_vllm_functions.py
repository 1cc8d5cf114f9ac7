"""The functions of Kimi delta attention and Mamba-2 that vLLM's layers call, as those call them: views of
packed projections, pages that hold other things beside a state, columns of block tables, padded rows."""

import os
import unittest

os.environ["VLLM_PLUGINS"] = ""

import torch
import vllm.model_executor.layers.mamba.mamba_mixer2 as mixer
import vllm.models.kimi_k3.nvidia.ops.third_party.kda as kda

import ejk_vllm
import engine_reference as reference

BLOCKS, ROWS = 12, 3


def ints(values):
    return torch.tensor(values, dtype=torch.int32)


def padded_pool(*shape, kind=torch.float32):
    """A pool whose slots are 64 elements of something else apart."""
    size = torch.Size(shape[1:]).numel()
    pages = torch.randn(shape[0], size + 64).to(kind)
    return pages[:, :size].view(shape), pages


class Patched(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.patch = ejk_vllm.register()
        torch.manual_seed(0)

    def assertClose(self, found, expected, limit, what=""):
        self.assertLess(reference.error(found, expected), limit, what)

    def assertKept(self, pages, before, but):
        for block in set(range(BLOCKS)) - set(but):
            self.assertTrue(torch.equal(pages[block], before[block]), f"block {block}")


class Kimi(Patched):
    H, D = 4, 16

    def rows(self, count):
        """q, k, v, the raw gate and beta of `count` rows: views of wider rows."""
        H, D = self.H, self.D
        mixed = torch.randn(count, 3 * H * D + 40).bfloat16()[:, :3 * H * D]
        beta = torch.randn(1, count, 3 * H).bfloat16()[..., H:2 * H]
        return mixed, torch.randn(1, count, H, D).bfloat16() * 2, beta

    def parts(self, mixed):
        return (x.view(-1, self.H, self.D) for x in mixed.split(self.H * self.D, -1))

    def setUp(self):
        self.A_log, self.bias = torch.randn(self.H), torch.randn(self.H * self.D)
        self.pool, self.pages = padded_pool(BLOCKS, self.H, self.D, self.D)
        self.before = self.pages.clone()

    def expected(self, q, k, v, g, beta, state, bound):
        gate, rate = reference.kda_gates(g, beta, self.A_log, self.bias, bound)
        return reference.delta_rule(q, k, v, gate, rate, state, self.D ** -0.5)

    def test_decode(self):
        for bound in (None, -5.0):
            with self.subTest(bound=bound):
                mixed, g, beta = self.rows(3)
                table = ints([[3, 9], [0, 0], [5, 9]])[:, 0]  # a stride of 2, and no block
                before = self.pages.clone()
                out = torch.full((1, 3, self.H, self.D), 7.0).bfloat16()
                o, pool = kda.fused_recurrent_kda_packed_decode(
                    mixed_qkv=mixed, raw_g=g, raw_beta=beta, A_log=self.A_log, dt_bias=self.bias,
                    lower_bound=bound, initial_state=self.pool, state_indices=table, out=out)
                self.assertEqual((o.data_ptr(), pool.data_ptr()), (out.data_ptr(), self.pool.data_ptr()))
                q, k, v = self.parts(mixed)
                for n, block in ((0, 3), (2, 5)):
                    start = before[block][:self.pool[0].numel()].view(self.pool[0].shape)
                    one = slice(n, n + 1)
                    expected, states = self.expected(q[one], k[one], v[one], g[0, one], beta[0, one],
                                                     start, bound)
                    self.assertClose(out[0, n], expected[0], 4e-3)
                    self.assertClose(self.pool[block], states[0], 1e-5)
                self.assertEqual(out[0, 1].abs().max().item(), 0)
                self.assertKept(self.pages, before, [3, 5])

    def test_drafts(self):
        lengths, accepted = [3, 1, 2], [2, 1, 3]
        table = ints([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
        mixed, g, beta = self.rows(sum(lengths))
        q, k, v = (x[None] for x in self.parts(mixed))
        ends = [0, 3, 4, 6]
        out = torch.empty(1, 6, self.H, self.D).bfloat16()
        kda.fused_recurrent_kda(q=q, k=k, v=v, raw_g=g, raw_beta=beta, A_log=self.A_log,
                                dt_bias=self.bias, lower_bound=-5.0, initial_state=self.pool,
                                cu_seqlens=ints(ends), ssm_state_indices=table,
                                num_accepted_tokens=ints(accepted), out=out)
        size, written = self.pool[0].numel(), []
        for n, length in enumerate(lengths):
            start = self.before[table[n, accepted[n] - 1]][:size].view(self.pool[0].shape)
            own = slice(ends[n], ends[n + 1])
            expected, states = self.expected(q[0, own], k[0, own], v[0, own], g[0, own], beta[0, own],
                                             start, -5.0)
            self.assertClose(out[0, own], expected, 4e-3)
            for row in range(length):
                written.append(table[n, row].item())
                self.assertClose(self.pool[written[-1]], states[row], 1e-5)
        self.assertKept(self.pages, self.before, written)

    def test_prefill(self):
        for bound in (None, -5.0):
            with self.subTest(bound=bound):
                ends = [0, 70, 71, 100]
                mixed, g, beta = self.rows(100)
                q, k, v = (x[None] for x in self.parts(mixed))
                start = torch.randn(3, self.H, self.D, self.D)
                o, last = kda.chunk_kda_with_fused_gate(
                    q=q, k=k, v=v, raw_g=g, raw_beta=beta, A_log=self.A_log, g_bias=self.bias,
                    initial_state=start, output_final_state=True, lower_bound=bound,
                    use_qk_l2norm_in_kernel=True, cu_seqlens=ints(ends))
                for n in range(3):
                    own = slice(ends[n], ends[n + 1])
                    expected, states = self.expected(q[0, own], k[0, own], v[0, own], g[0, own],
                                                     beta[0, own], start[n], bound)
                    self.assertClose(o[0, own], expected, 8e-3)
                    self.assertClose(last[n], states[-1], 8e-3)


class Mamba2(Patched):
    H, P, N, G = 4, 16, 16, 2

    def setUp(self):
        self.A, self.D, self.bias = -torch.rand(self.H) - 0.1, torch.randn(self.H), torch.randn(self.H)
        self.pool, self.pages = padded_pool(BLOCKS, self.H, self.P, self.N)
        self.before = self.pages.clone()

    def rows(self, count):
        return (torch.randn(count, self.H, self.P).bfloat16(), torch.randn(count, self.H).bfloat16(),
                torch.randn(count, self.G, self.N).bfloat16(), torch.randn(count, self.G, self.N).bfloat16())

    def expanded(self, dt):
        """As the layer hands them to a decode: with strides of 0."""
        H, P, N = self.H, self.P, self.N
        return (dt[:, :, None].expand(-1, H, P), self.A[:, None, None].expand(H, P, N),
                self.D[:, None].expand(H, P), self.bias[:, None].expand(H, P))

    def expected(self, x, dt, B, C, state):
        return reference.mamba2(x, dt, self.A, B, C, self.D, self.bias, state)

    def start(self, block):
        return self.before[block][:self.pool[0].numel()].view(self.pool[0].shape)

    def test_decode(self):
        x, dt, B, C = self.rows(3)
        steps, A, D, bias = self.expanded(dt)
        blocks, out = ints([4, 0, 7]), torch.full_like(x, 7)
        mixer.selective_state_update(self.pool, x, steps, A, B, C, D, bias, dt_softplus=True,
                                     state_batch_indices=blocks, dst_state_batch_indices=blocks, out=out)
        for n, block in ((0, 4), (2, 7)):
            one = slice(n, n + 1)
            expected, states = self.expected(x[one], dt[one], B[one], C[one], self.start(block))
            self.assertClose(out[n], expected[0], 4e-3)
            self.assertClose(self.pool[block], states[0], 1e-5)
        self.assertKept(self.pages, self.before, [4, 7])

    def test_drafts(self):
        ends, accepted = [0, 3, 4], [2, 1]
        x, dt, B, C = self.rows(4)
        steps, A, D, bias = self.expanded(dt)
        table, out = ints([[1, 2, 3], [4, 5, 6]]), torch.empty_like(x)
        mixer.selective_state_update(self.pool, x, steps, A, B, C, D, bias, dt_softplus=True,
                                     state_batch_indices=table, dst_state_batch_indices=table, out=out,
                                     num_accepted_tokens=ints(accepted), cu_seqlens=ints(ends))
        for n in range(2):
            own = slice(ends[n], ends[n + 1])
            expected, states = self.expected(x[own], dt[own], B[own], C[own],
                                             self.start(table[n, accepted[n] - 1]))
            self.assertClose(out[own], expected, 4e-3)
            for row, state in enumerate(states):
                self.assertClose(self.pool[table[n, row]], state, 1e-5)
        self.assertKept(self.pages, self.before, [1, 2, 3, 4])

    def test_prefill(self):
        ends, blocks = [0, 66, 67, 90], ints([3, 5, 8])
        x, dt, B, C = self.rows(90)
        for has in (None, [True, False, True]):
            with self.subTest(has=has):
                self.pages.copy_(self.before)
                start = None if has is None else torch.where(
                    torch.tensor(has)[:, None, None, None], self.pool[blocks.long()], 0)
                out = torch.empty_like(x)
                mixer.mamba_chunk_scan_combined_varlen(
                    x, dt, self.A, B, C, chunk_size=256, cu_seqlens=ints(ends), cu_chunk_seqlens=None,
                    last_chunk_indices=None, seq_idx=ints([0]), out=out, D=self.D, dt_bias=self.bias,
                    initial_states=start, dt_softplus=True, state_dtype=torch.float32,
                    final_states_out=self.pool, final_state_indices=blocks)
                for n in range(3):
                    own = slice(ends[n], ends[n + 1])
                    state = self.start(blocks[n]) if has and has[n] else torch.zeros_like(self.pool[0])
                    expected, states = self.expected(x[own], dt[own], B[own], C[own], state)
                    self.assertClose(out[own], expected, 8e-3)
                    self.assertClose(self.pool[blocks[n]], states[-1], 8e-3)
                self.assertKept(self.pages, self.before, [3, 5, 8])

    def test_a_gate_is_refused(self):
        x, dt, B, C = self.rows(1)
        with self.assertRaisesRegex(ValueError, "takes no 'z'"):
            mixer.selective_state_update(self.pool, x, dt, self.A, B, C, self.D, self.bias, z=x,
                                         state_batch_indices=ints([1]), out=torch.empty_like(x))
        with self.assertRaisesRegex(ValueError, "needs 'state_batch_indices', 'out'"):
            mixer.selective_state_update(self.pool, x, dt, self.A, B, C, self.D, self.bias)


if __name__ == "__main__":
    unittest.main()
