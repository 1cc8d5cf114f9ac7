"""What ejk.compat.fla's functions take and refuse, and that torch.compile takes them. Needs nothing of fla's."""

import inspect
import unittest

import torch

from ejk.compat import fla as ours
from ejk.compat.fla import _modules
from test_fla import MISSING, expanded


class Arguments(unittest.TestCase):
    """What needs nothing of fla's."""

    def tensors(self, HV=2):
        torch.manual_seed(0)
        q, k = torch.randn(2, 1, 5, 2, 8) / 3
        return q, k, torch.randn(1, 5, HV, 4), -torch.rand(1, 5, HV), torch.rand(1, 5, HV)

    def test_gates_of_every_kind_beside_the_delta_rule(self):
        q, k, v, g, beta = self.tensors(HV=4)
        gk, gv = -torch.rand(1, 5, 4, 8), -torch.rand(1, 5, 4, 4)
        beta = beta[..., None] * torch.rand(4)  # a number for each value channel
        o, state = ours.fused_recurrent_gated_delta_rule(q, k, v, g, gk, gv, beta,
                                                         output_final_state=True)
        S, rows = torch.zeros(4, 8, 4), []
        for t in range(5):
            S = S * (g[0, t, :, None, None] + gk[0, t, :, :, None] + gv[0, t, :, None, :]).exp()
            key, query = (expanded(x, 4)[0, t] for x in (k, q))
            u = beta[0, t] * (v[0, t] - torch.einsum("hkv,hk->hv", S, key))
            S = S + key[:, :, None] * u[:, None, :]
            rows.append(torch.einsum("hkv,hk->hv", S, query) * 8 ** -0.5)
        torch.testing.assert_close(o[0], torch.stack(rows), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(state[0], S, rtol=1e-5, atol=1e-5)

    def test_slot_attention_with_shared_keys_keeps_each_heads_state(self):
        # q has two heads for each of k's, v's and s's: a state is that of one of them, and is taken so.
        torch.manual_seed(0)
        q, k, v = torch.randn(1, 6, 4, 8), torch.randn(1, 6, 2, 8), torch.randn(1, 6, 2, 5)
        s, g = torch.randn(1, 6, 2, 3), -torch.rand(1, 6, 2, 3)
        o, states = ours.fused_recurrent_gsa(q, k, v, s, g, output_final_state=True)
        whole, wide = ours.fused_recurrent_gsa(q, *(expanded(x, 4) for x in (k, v, s, g)), output_final_state=True)
        self.assertTrue(torch.equal(o, whole))
        for state, of_each in zip(states, wide):
            self.assertEqual(state.shape[1], 2)
            self.assertTrue(torch.equal(state.repeat_interleave(2, 1), of_each))

    def test_what_is_not_supported_is_named(self):
        q, k, v, g, beta = self.tensors()
        gk = g[..., None].expand(1, 5, 2, 8)
        for name, arguments, named in (
                ("chunk_gated_delta_rule", (q, k, v, g, beta), dict(cp_context=object())),
                ("chunk_gated_delta_rule", (q, k, v, g, beta),
                 dict(chunk_indices=torch.zeros(1, 2))),
                ("chunk_gated_delta_rule", (q, k, v, g, beta), dict(dt_bias=torch.zeros(2))),
                ("chunk_gated_delta_rule", (q, k, v, g, beta), dict(chunk_size=48)),
                ("chunk_gated_delta_rule", (q, k, v, g, beta), dict(unheard_of=1)),
                ("chunk_gated_delta_rule", (q, k, v, g, beta), dict(allow_neg_eigval=True)),
                ("chunk_kda", (q, k, v, gk, beta), dict(return_intermediate_states=True)),
                ("chunk_kda", (q, k, v, gk, beta), dict(use_graph=True)),
                ("chunk_kda", (q, k, v, gk, beta), dict(max_num_seqs=4)),
                ("chunk_kda", (q, k, v, gk, beta), dict(A_log=torch.zeros(2))),
                ("chunk_rwkv7", (q, gk, k, v, q, k), dict(cp_context=object())),
                ("chunk_simple_gla", (q, k, v, g), dict(g_gamma=torch.zeros(2))),
                ("chunk_simple_gla", (q, k, v, g), dict(head_first=True)),
                ("chunk_gla", (q, k, v, gk), dict(cu_seqlens_cpu=torch.tensor([0, 5]))),
                ("chunk_retention", (q, k, v), dict(chunk_size=3)),
                ("parallel_retention", (q, k, v), dict(output_attentions=True)),
                ("fused_recurrent_gla", (q, k, v), dict(unheard_of=1))):
            wanted = next(iter(named))
            with self.subTest(name, wanted=wanted), self.assertRaisesRegex(Exception, wanted):
                getattr(ours, name)(*arguments, **named)

    def test_what_only_tunes_fla_changes_nothing(self):
        q, k, v, g, beta = self.tensors()
        plain = ours.chunk_gated_delta_rule(q, k, v, g, beta)[0]
        self.assertTrue(torch.equal(plain, ours.chunk_gated_delta_rule(q, k, v, g, beta,
                                                                       chunk_size=16)[0]))

    def test_states_of_16_bits_are_taken(self):
        q, k, v, g, beta = self.tensors()
        state = torch.randn(1, 2, 8, 4).bfloat16()
        for call in (lambda h: ours.chunk_simple_gla(q, k, v, g, initial_state=h),
                     lambda h: ours.chunk_gated_delta_rule(q, k, v, g, beta, initial_state=h),
                     lambda h: ours.fused_recurrent_gated_delta_rule(q, k, v, g, beta=beta, initial_state=h.mT,
                                                                     state_v_first=True)):
            self.assertTrue(torch.equal(call(state)[0], call(state.float())[0]))

    def test_a_packed_convolution_goes_on_from_each_sequences_rows(self):
        torch.manual_seed(0)
        x, weight, before = torch.randn(1, 12, 6), torch.randn(6, 4), torch.randn(4, 6, 4)
        offsets = [0, 5, 5, 6, 12]  # the second is empty, the third shorter than the convolution
        y, state = _modules.causal_conv1d(x, weight, initial_state=before, output_final_state=True, activation="silu",
                                          cu_seqlens=torch.tensor(offsets))
        for n, (first, end) in enumerate(zip(offsets, offsets[1:])):
            if first == end:
                self.assertTrue(torch.equal(state[n], before[n]))
                continue
            own, last = _modules.causal_conv1d(x[:, first:end], weight, initial_state=before[n:n + 1],
                                               output_final_state=True, activation="silu")
            torch.testing.assert_close(y[:, first:end], own)
            torch.testing.assert_close(state[n:n + 1], last)

    @unittest.skipIf(MISSING, MISSING)
    def test_each_argument_is_used_or_named(self):
        """No argument is ignored: each is read somewhere in its function."""
        import ast
        import textwrap
        for name in ours.__all__:
            function = inspect.unwrap(getattr(ours, name))
            tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
            read = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
            for argument in inspect.signature(function).parameters:
                self.assertIn(argument, read, f"{name} does not read '{argument}'")

    def test_what_is_asked_for_in_vain_is_named(self):
        q = torch.zeros(1, 4, 1, 4)
        given = dict(q=q, k=q, v=q, r=q, w=q, a=q, b=q, kk=q, u=q[0, 0], i=q, f=q,
                     g=q, gk=q, beta=q[..., 0], s=q, num_householder=1, scale=1.0, layer_idx=0, num_layers=1, kk_a=q)
        for name in ours.__all__:
            takes = inspect.signature(inspect.unwrap(getattr(ours, name))).parameters
            own = {n: given[n] for n, p in takes.items()
                   if p.default is p.empty and n in given and p.kind is not p.VAR_KEYWORD}
            if "gated_delta" in name or name.endswith("gdn") or "simple" in name:
                own["g"] = q[..., 0] if "g" in own else own.pop("g", None)
                own = {n: x for n, x in own.items() if x is not None}
            for argument in ("cp_context", "chunk_indices", "use_graph", "max_num_seqs",
                             "return_intermediate_states", "output_attentions"):
                if argument in takes:
                    with self.subTest(name), self.assertRaisesRegex(NotImplementedError,
                                                                    f"'{argument}'"):
                        getattr(ours, name)(**own, **{argument: True})

    @unittest.skipIf(MISSING, MISSING)
    def test_signatures_are_those_of_fla(self):
        import importlib
        from ejk.compat.fla._switch import FOLDERS
        homes = [importlib.import_module(f"fla.ops.{folder}") for folder in FOLDERS]
        compared = 0
        for name in ours.__all__:
            theirs = next((getattr(h, name) for h in homes if hasattr(h, name)), None)
            if theirs is None:
                self.assertIn("hgrn2", name)
                continue
            theirs, own = (inspect.signature(inspect.unwrap(f)).parameters
                           for f in (theirs, getattr(ours, name)))
            if list(theirs) == ["kwargs"]:  # retired by fla
                continue
            self.assertEqual([(n, p.default, p.kind) for n, p in theirs.items()],
                             [(n, p.default, p.kind) for n, p in own.items()], name)
            compared += 1
        self.assertGreater(compared, 20)

    def test_a_normalised_state_without_the_sum_of_keys(self):
        torch.manual_seed(0)
        q, k, v = torch.rand(3, 1, 5, 2, 4)
        state = torch.randn(1, 2, 4, 4)
        o, _ = ours.chunk_linear_attn(q, k, v, initial_state=state)
        wanted, _ = ours.chunk_linear_attn(q, k, v, initial_state=(state, torch.zeros(1, 1, 2, 4)))
        torch.testing.assert_close(o, wanted)


class Compile(unittest.TestCase):
    def test_a_dynamic_graph_is_compiled_once_for_all_lengths(self):
        def rows(T):
            torch.manual_seed(T)
            q, k, v = (torch.randn(1, T, 2, 16) for _ in range(3))
            gates = dict(gk=-torch.rand(1, T, 2, 16), g=-torch.rand(1, T, 2))
            return q, torch.nn.functional.normalize(k, dim=-1), v, gates, torch.rand(1, T, 2)
        functions = {"chunk_gla": lambda q, k, v, g, beta: ours.chunk_gla(q, k, v, g["gk"])[0],
                     "chunk_retention": lambda q, k, v, g, beta: ours.chunk_retention(q, k, v)[0],
                     "chunk_kda":
                         lambda q, k, v, g, beta: ours.chunk_kda(q, k, v, g["gk"], beta)[0]}
        for name, function in functions.items():
            graphs = []

            def backend(graph, example):
                graphs.append(graph)
                return torch._dynamo.backends.debugging.aot_eager(graph, example)
            torch._dynamo.reset()
            compiled = torch.compile(function, fullgraph=True, dynamic=True, backend=backend)
            for T in (20, 33, 50):
                results = []
                for run in (function, compiled):
                    q, *others = rows(T)
                    q.requires_grad_()
                    o = run(q, *others)
                    o.square().sum().backward()
                    results.append((o.detach(), q.grad))
                with self.subTest(name, T=T):
                    torch.testing.assert_close(*results)
            self.assertEqual(len(graphs), 1, name)


if __name__ == "__main__":
    unittest.main()
