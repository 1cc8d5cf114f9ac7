"""Models of fla and of transformers, which train on a CPU through ejk.

    python3 -m unittest -v test_fla_models      # prints losses and processor times
"""

import inspect
import time
import unittest
import unittest.mock

import torch

import ejk
from ejk.compat import fla as ours

try:
    import fla.models  # noqa: F401
    NO_FLA = None
except ImportError as error:
    NO_FLA = f"flash-linear-attention is not installed ({error})"
try:
    from transformers.models.qwen3_next import modeling_qwen3_next as qwen
    NO_TRANSFORMERS = None
except ImportError as error:
    NO_TRANSFORMERS = f"transformers with Qwen3-Next is not installed ({error})"


def batches(count, vocabulary, shape=(2, 80)):
    """Sequences that a model can learn: each token follows from the last."""
    torch.manual_seed(1)
    for _ in range(count):
        first = torch.randint(vocabulary, (shape[0], 1))
        yield (first + 3 * torch.arange(shape[1])) % vocabulary


def train(model, steps, vocabulary):
    torch.set_num_threads(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses, start = [], time.process_time()
    for tokens in batches(steps, vocabulary):
        loss = model(input_ids=tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, time.process_time() - start


@unittest.skipIf(NO_FLA, NO_FLA)
class Fla(unittest.TestCase):
    def learn(self, name, **options):
        from fla import models
        torch.manual_seed(0)
        with ours.install():
            config = getattr(models, name + "Config")(
                hidden_size=64, num_hidden_layers=2, vocab_size=61, use_cache=False, **options)
            model = getattr(models, name + "ForCausalLM")(config).train()
            losses, seconds = train(model, 50, 61)
        print(f"{name}: loss {losses[0]:.3f} to {losses[-1]:.3f} in 50 steps, {seconds:.1f} s")
        self.assertLess(losses[-1], 0.5 * losses[0])

    def test_a_function_of_ejks_trains_each_model_that_calls_it(self):
        for name, options in (
                ("Comba", dict(num_heads=2, head_dim=32, expand_v=1)), ("DeltaNet", dict(num_heads=2)),
                ("GatedDeltaNet", dict(num_heads=2, head_dim=32, expand_v=1)),
                ("GatedDeltaProduct", dict(num_heads=2, head_dim=32, expand_v=1)),
                ("GLA", dict(num_heads=2)), ("GSA", dict(num_heads=2, num_slots=16)),
                ("HGRN2", dict(num_heads=2, expand_ratio=32)),
                ("KDA", dict(num_heads=2, head_dim=32)), ("LightNet", dict(num_heads=2)),
                ("LinearAttention", dict(num_heads=2)), ("Mamba2", dict(head_dim=32, state_size=16, chunk_size=16)),
                ("Raven", dict(num_heads=2)), ("RetNet", dict(num_heads=2)),
                ("RWKV6", dict(num_heads=2)), ("RWKV7", dict(head_dim=32))):
            with self.subTest(name):
                self.learn(name, **options)

    def test_an_rwkv7_layer_is_a_block(self):
        """`ejk.ops.rwkv7_block` between the projections of fla's layer, and `rwkv7_shift` before them."""
        from fla.layers.rwkv7 import RWKV7Attention
        torch.manual_seed(0)
        with ejk.compat.fla.install():
            for number in (0, 1):
                layer = RWKV7Attention(hidden_size=64, head_dim=16, layer_idx=number, num_hidden_layers=2)
                for parameter in layer.parameters():
                    torch.nn.init.normal_(parameter, 0.1, 0.3)
                x, first = torch.randn(2, 70, 64), torch.randn(2, 70, 64) if number else None
                wanted, _, _, v_first = layer(x, v_first=first)
                r, w, k, v, a, g = ejk.ops.rwkv7_shift(x, layer.x_r, layer.x_w, layer.x_k, layer.x_v, layer.x_a, layer.x_g)
                rows = dict(r=layer.r_proj(r), w=layer.w_lora(w), k=layer.k_proj(k), v=layer.v_proj(v), a=layer.a_lora(a),
                            g=layer.g_lora(g))
                if number:
                    rows.update(v_first=first, v_share=layer.v_lora(v))
                rows = {n: y.unflatten(-1, (4, 16)) for n, y in rows.items()}
                norm = layer.g_norm
                found, _ = ejk.ops.rwkv7_block(
                    *(rows.pop(n) for n in "rwkvag"), layer.k_k, layer.k_a, layer.r_k, norm.weight, norm.bias, eps=norm.eps, **rows)
                found = layer.o_proj(found.flatten(2))
                gradients = [torch.autograd.grad(o.square().sum(), [p for p in layer.parameters()])
                             for o in (found, wanted)]
                self.assertLess(float((found - wanted).detach().norm() / wanted.detach().norm()), 1e-5)
                for a, b in zip(*gradients):
                    self.assertLess(float((a - b).norm()), 1e-4 * float(b.norm()) + 1e-5)

    def test_what_has_no_function_of_ejks_is_named(self):
        from fla import models
        tokens = torch.randint(61, (2, 80))
        for name, function in (("ABC", "chunk_abc"), ("HGRN", "chunk_hgrn"),
                               ("MesaNet", "chunk_mesa_net"),
                               ("PaTHAttention", "parallel_path_attn")):
            with self.subTest(name), ours.install():
                own = inspect.signature(getattr(models, name + "Config").__init__).parameters
                options = dict(num_heads=2) if "num_heads" in own else {}
                model = getattr(models, name + "ForCausalLM")(getattr(models, name + "Config")(
                    hidden_size=64, num_hidden_layers=2, vocab_size=61, use_cache=False, **options))
                with self.assertRaisesRegex(ejk.EjkError, f"{function} is computed by Triton"):
                    model(input_ids=tokens, labels=tokens)

    def test_parts_around_a_recurrence_are_as_flas_references(self):
        from fla.modules.norm.layernorm_gated import rms_norm_ref
        from fla.modules.token_shift import token_shift_ref
        from fla.ops.rwkv7.fused_k_update import k_update_ref
        from fla.ops.rwkv7.gate_output_correction import gate_output_correction_ref

        from ejk.compat.fla import _mixing, _modules
        torch.manual_seed(0)
        x, z, weight = torch.randn(2, 9, 12), torch.randn(2, 9, 12), torch.randn(12)
        for options in (dict(), dict(group_size=4), dict(group_size=4, norm_before_gate=False)):
            torch.testing.assert_close(_modules.rmsnorm_fn(x, weight, None, z, **options),
                                       rms_norm_ref(x, weight, None, z, **options))
        cu = torch.tensor([0, 4, 4, 5, 9])
        torch.testing.assert_close(_mixing.token_shift(x), token_shift_ref(x))
        whole, last = _mixing.token_shift(x[:1], cu, output_cache=True)
        torch.testing.assert_close(whole, token_shift_ref(x[:1], cu))
        torch.testing.assert_close(last, torch.stack([x[0, 3], 0 * x[0, 0], x[0, 4], x[0, 8]]))
        _, before = _mixing.token_shift(x[:, :5], output_cache=True)
        torch.testing.assert_close(_mixing.token_shift(x[:, 5:], cache=before),
                                   _mixing.token_shift(x)[:, 5:])
        torch.testing.assert_close(_mixing.fused_k_rwkv7(x, z, weight), k_update_ref(x, z, weight))
        r, k, v = torch.randn(3, 2, 9, 3, 4)
        own = x, r, k, torch.randn(3, 4), v, z
        torch.testing.assert_close(_mixing.gate_output_correction(*own),
                                   gate_output_correction_ref(*own))
        # Keys weighted by the gates since are the softmax of the scores so far.
        scores = torch.randn(1, 9, 2, 3)
        keys, gates, sums = _mixing.fused_additive_gate(scores)
        since = gates.flip(1).cumsum(1).flip(1) - gates
        torch.testing.assert_close(keys * since.exp(), scores.softmax(1))
        torch.testing.assert_close(sums, scores.logsumexp(1, keepdim=True))
        halves = [_mixing.fused_additive_gate(scores[:, :4])]
        halves.append(_mixing.fused_additive_gate(scores[:, 4:], halves[0][2]))
        for i in range(2):
            torch.testing.assert_close(torch.cat([h[i] for h in halves], 1), (keys, gates)[i])

    def test_rotary_embedding_is_as_flas_reference(self):
        from fla.modules.rotary import ops

        from ejk.compat.fla import _modules
        torch.manual_seed(0)
        x, angles = torch.randn(2, 9, 3, 12), torch.randn(20, 4)
        cos, sin = angles.cos(), angles.sin()
        for interleaved in (False, True):
            def wanted(rows, first):
                span = slice(first, first + rows.shape[1])
                return ops.rotary_embedding_ref(rows, cos[span], sin[span], interleaved)

            def found(rows, **options):
                return _modules.rotary_embedding(rows, cos, sin, interleaved, **options)
            torch.testing.assert_close(found(x), wanted(x, 0))
            torch.testing.assert_close(found(x, seqlen_offsets=5), wanted(x, 5))
            torch.testing.assert_close(found(x, seqlen_offsets=torch.tensor([2, 7])),
                                       torch.cat([wanted(x[:1], 2), wanted(x[1:], 7)]))
            packed = found(x[:1], cu_seqlens=torch.tensor([0, 4, 4, 9]),
                           seqlen_offsets=torch.tensor([1, 0, 3]))
            torch.testing.assert_close(packed, torch.cat([wanted(x[:1, :4], 1),
                                                          wanted(x[:1, 4:], 3)], 1))

    def test_packed_sequences_are_kept_apart(self):
        from fla import models
        torch.manual_seed(0)
        with ours.install(), torch.no_grad():
            model = models.GatedDeltaNetForCausalLM(models.GatedDeltaNetConfig(
                hidden_size=64, num_hidden_layers=2, vocab_size=61, use_cache=False, num_heads=2,
                head_dim=32, expand_v=1)).eval()
            a, b = torch.randint(61, (1, 70)), torch.randint(61, (1, 21))
            packed = model(input_ids=torch.cat([a, b], 1),
                           cu_seqlens=torch.tensor([0, 70, 91])).logits
            apart = torch.cat([model(input_ids=x).logits for x in (a, b)], 1)
        torch.testing.assert_close(packed, apart, rtol=1e-4, atol=1e-4)

    def test_a_model_of_flas_that_mixes_packed_sequences_is_an_error(self):
        from fla import models
        tokens, cu = torch.randint(61, (1, 12)), torch.tensor([0, 5, 12])
        for name, options in (("Mamba", dict(state_size=16)), ("LinearAttention", dict(num_heads=2)),
                              ("Mamba2", dict(head_dim=32, state_size=16, chunk_size=16)),
                              ("Mom", dict(num_heads=2, head_dim=32))):
            with self.subTest(name), ours.install():
                model = getattr(models, name + "ForCausalLM")(getattr(models, name + "Config")(
                    hidden_size=64, num_hidden_layers=1, vocab_size=61, use_cache=False, **options))
                with self.assertRaisesRegex(NotImplementedError, "keep packed sequences apart"):
                    model(input_ids=tokens, cu_seqlens=cu)

    def test_another_release_of_fla_is_named(self):
        from unittest import mock

        import fla as installed
        from ejk.compat.fla import _switch
        with mock.patch.object(installed, "__version__", "0.5.2"):
            with self.assertRaisesRegex(ejk.EjkError, "needs flash-linear-attention 0.6 or newer.*"
                                        "0.5.2 is installed"):
                ours.install()
        with mock.patch.object(_switch, "FOLDERS", ("gla", "not_there")):
            before = installed.ops.gla.chunk_gla
            with self.assertRaisesRegex(ejk.EjkError, "lacks what .* in release 0.6"):
                ours.install()
            self.assertIs(installed.ops.gla.chunk_gla, before)

    def test_parts_in_bfloat16_are_rounded_once(self):
        """Results and gradients, in the root mean square: half a unit of bfloat16 is 2^-9."""
        from ejk.compat.fla import _mixing, _modules
        torch.manual_seed(0)

        def off(a, b):
            return float((a.double() - b).square().mean().sqrt() / b.square().mean().sqrt())

        def check(function, *tensors):
            narrow = [t.bfloat16().requires_grad_() for t in tensors]
            exact = [t.detach().double().requires_grad_() for t in narrow]
            found, wanted = function(narrow), function(exact)
            for a, b in zip((found, *torch.autograd.grad(found.sum(), narrow[:2])),
                            (wanted, *torch.autograd.grad(wanted.sum(), exact[:2]))):
                self.assertEqual(a.dtype, torch.bfloat16)
                self.assertLess(off(a, b.detach()), 2e-3)
        x, y, z = torch.randn(3, 2, 64, 256) * 4
        rows = torch.randn(6, 256)
        with unittest.mock.patch.object(torch.Tensor, "float", lambda t: t.to(torch.promote_types(
                t.dtype, torch.float32))):  # lets float64 through, for what is exact
            check(lambda t: _mixing.fused_k_rwkv7(*t), x, y, rows[0])
            check(lambda t: sum(o.double() for o in _mixing.fused_addcmul_rwkv7(*t)).to(t[0].dtype),
                  x, y, *rows)
            check(lambda t: _modules.swiglu(*t), x, y)
            check(lambda t: _modules.rms_norm(t[0], t[1], None, t[2]), x, rows[0], z)
            check(lambda t: _modules.causal_conv1d(t[0], t[1], residual=t[2])[0], x, rows.T[:, :4], z)

    def test_rows_after_the_last_offset_are_in_no_sequence(self):
        from fla import models
        torch.manual_seed(0)
        with ours.install(), torch.no_grad():
            for name, options in (("GatedDeltaNet", dict(head_dim=32, expand_v=1, num_heads=2)),
                                  ("RetNet", dict(num_heads=2))):
                model = getattr(models, name + "ForCausalLM")(getattr(models, name + "Config")(
                    hidden_size=64, num_hidden_layers=2, vocab_size=61, use_cache=False,
                    **options)).eval()
                tokens = torch.randint(61, (1, 90))
                with self.subTest(name):
                    found = model(input_ids=tokens, cu_seqlens=torch.tensor([0, 30, 70])).logits
                    wanted = model(input_ids=tokens[:, :70],
                                   cu_seqlens=torch.tensor([0, 30, 70])).logits
                    torch.testing.assert_close(found[:, :70], wanted, rtol=1e-4, atol=1e-4)
        from ejk.compat.fla import _mixing
        x, cu = torch.randn(1, 9, 4), torch.tensor([0, 4, 7])
        for function in (lambda x: _mixing.token_shift(x, cu),
                         lambda x: _mixing.fused_additive_gate(x, cu_seqlens=cu)[0]):
            found, wanted = function(x), function(x[:, :7])
            torch.testing.assert_close(found, torch.nn.functional.pad(wanted, (0, 0, 0, 2)))

    def test_tokens_one_by_one_are_as_all_at_once(self):
        from fla import models
        torch.manual_seed(0)
        with ours.install(), torch.no_grad():
            model = models.GatedDeltaNetForCausalLM(models.GatedDeltaNetConfig(
                hidden_size=64, num_hidden_layers=2, vocab_size=61, num_heads=2, head_dim=32,
                expand_v=1)).eval()
            tokens = torch.randint(61, (2, 70))
            whole = model(input_ids=tokens).logits
            rows = model(input_ids=tokens[:, :66], use_cache=True)
            logits, cache = [rows.logits], rows.past_key_values
            for t in range(66, 70):
                step = model(input_ids=tokens[:, t:t + 1], past_key_values=cache, use_cache=True)
                logits.append(step.logits)
                cache = step.past_key_values
        torch.testing.assert_close(torch.cat(logits, 1), whole, rtol=1e-4, atol=1e-4)

    def test_a_patch_is_removed(self):
        import fla.layers.gla
        import fla.ops.gla
        before = fla.ops.gla.chunk_gla
        patch = ours.install()
        self.assertIs(fla.layers.gla.chunk_gla, ours.chunk_gla)
        patch.remove()
        self.assertIs(fla.layers.gla.chunk_gla, before)
        self.assertIs(fla.ops.chunk_gla, before)


@unittest.skipIf(NO_TRANSFORMERS, NO_TRANSFORMERS)
class Transformers(unittest.TestCase):
    def model(self):
        config = qwen.Qwen3NextConfig(
            vocab_size=61, hidden_size=64, intermediate_size=96, num_hidden_layers=3,
            num_attention_heads=2, num_key_value_heads=1, head_dim=32, linear_key_head_dim=16,
            linear_value_head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4,
            num_experts=2, num_experts_per_tok=2, moe_intermediate_size=32,
            shared_expert_intermediate_size=32,
            layer_types=["linear_attention", "full_attention", "linear_attention"],
            use_cache=False)
        torch.manual_seed(0)
        return qwen.Qwen3NextForCausalLM(config).train()

    def test_qwen3_next_trains_as_with_its_own_functions(self):
        from ejk.compat import transformers as switch
        from ejk.compat._patch import Patch
        # Where fla is installed, transformers calls its kernels, which have no CPU.
        with Patch() as fallback:
            for name in ("torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule",
                         "causal_conv1d_fn", "causal_conv1d_update"):
                fallback.set(qwen, name, getattr(qwen, name).__wrapped__)
            expected, slow = train(self.model(), 50, 61)
            with switch.install():
                train(self.model(), 1, 61)  # compiles
                found, fast = train(self.model(), 50, 61)
        print(f"Qwen3-Next: loss {found[0]:.4f} to {found[-1]:.4f}, transformers' own "
              f"{expected[-1]:.4f}; 50 steps {fast:.1f} s, transformers' own {slow:.1f} s")
        for a, b in zip(found, expected):
            self.assertAlmostEqual(a, b, delta=1e-3)
        self.assertLess(found[-1], 0.5 * found[0])

    def test_signatures_fit_what_models_call(self):
        """What transformers' own functions take, ejk's take at the same places."""
        import inspect

        from ejk.compat import transformers as switch
        for name, ours_ in (("torch_chunk_gated_delta_rule", ours.chunk_gated_delta_rule),
                            ("torch_recurrent_gated_delta_rule",
                             ours.fused_recurrent_gated_delta_rule)):
            theirs = inspect.signature(inspect.unwrap(getattr(qwen, name))).parameters
            with switch.install():
                installed = getattr(qwen, name)
            self.assertIsNot(installed, getattr(qwen, name))
            names = {"query": "q", "key": "k", "value": "v"}
            own = inspect.signature(inspect.unwrap(ours_)).parameters
            for argument, parameter in theirs.items():
                if parameter.kind is parameter.VAR_KEYWORD or argument == "chunk_size":
                    continue  # chunk_size orders the fallback's work, and changes no result
                self.assertIn(names.get(argument, argument), own, name)
            called = inspect.signature(installed, follow_wrapped=False).parameters
            self.assertEqual(list(called)[:5], list(theirs)[:5], name)
            # Later ones are in another order, so they are taken by name alone.
            with self.assertRaisesRegex(TypeError, "positional"):
                installed(*[torch.zeros(1, 2, 1, 4)] * 5, 64)

    def test_a_model_that_is_not_there_is_an_error(self):
        import sys
        from unittest import mock

        from ejk.compat import transformers as switch
        kept = {n: m for n, m in sys.modules.items() if not n.startswith("transformers.models.")}
        with mock.patch.dict(sys.modules, kept, clear=True):
            with self.assertRaisesRegex(RuntimeError, "import it first"):
                switch.install()


if __name__ == "__main__":
    unittest.main()
