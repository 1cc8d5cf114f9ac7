"""Layers of transformers with ejk under them: packed sequences, and Kimi delta attention."""

import importlib
import inspect
import unittest
import unittest.mock

import torch

try:
    import transformers
    MISSING = None if transformers.__version__ >= "5.2" else "transformers is older than 5.2"
except ImportError as error:
    MISSING = f"transformers is not installed ({error})"

from ejk.compat import transformers as switch
from ejk.compat._patch import Patch

SIZES = dict(hidden_size=32, num_hidden_layers=2,
             layer_types=["linear_attention", "full_attention"])
GATED = dict(SIZES, linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=16,
             linear_value_head_dim=8)
KIMI = dict(SIZES, linear_num_heads=2, linear_head_dim=16)
MODELS = {"qwen3_next": GATED, "qwen3_5": GATED, "qwen3_5_moe": GATED, "qwen4_exp": GATED,
          "olmo_hybrid": GATED, "lara_mini": GATED, "kimi_linear": KIMI, "glm5_next": KIMI,
          "bailing_hybrid": KIMI}
LENGTHS = [11, 1, 7, 19]
OFFSETS = [0, 11, 12, 19, 38]
OWN = ("torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule",
       "chunk_kimi_delta_attention", "recurrent_kimi_delta_attention", "causal_conv1d_fn",
       "causal_conv1d_update")


def module_of(name):
    """The module of a model; None where this release of transformers lacks it."""
    try:
        return importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    except ModuleNotFoundError:
        return None


def layer_of(module, name):
    """A small layer with a delta rule."""
    kind = next(c for c in vars(module).values()
                if inspect.isclass(c) and c.__module__ == module.__name__
                and issubclass(c, torch.nn.Module) and "conv1d" in inspect.getsource(c.__init__)
                and "delta" in inspect.getsource(c.forward))
    configs = importlib.import_module(f"transformers.models.{name}.configuration_{name}")
    own = [c for n, c in vars(configs).items() if n.endswith("Config") and "Vision" not in n
           and "PreTrained" not in n]
    config = next((c for c in own if c.__name__.endswith("TextConfig")), own[0])
    torch.manual_seed(0)
    layer = kind(config(**MODELS[name]), 0)
    for parameter in layer.parameters():
        if not torch.isfinite(parameter).all() or parameter.abs().max() > 1e3:
            torch.nn.init.normal_(parameter)  # what only a whole model's initialisation sets
    return layer


def own_functions(module):
    """transformers' own functions in torch, also where fla is installed, whose kernels have no
    CPU. Step by step: chunks in float32 lose gates' gradients, whose terms cancel."""
    patch = Patch()
    for name in OWN:
        step = {"torch_chunk_gated_delta_rule": "torch_recurrent_gated_delta_rule",
                "chunk_kimi_delta_attention": "recurrent_kimi_delta_attention"}.get(name, name)
        function = getattr(module, step, None)
        if function is not None:
            patch.set(module, name, inspect.unwrap(function))
    return patch


def gradients(layer, x, call):
    layer.zero_grad()
    x = x.clone().requires_grad_()
    result = call(x)
    generator = torch.Generator().manual_seed(1)
    (result * torch.randn(result.shape, generator=generator)).sum().backward()
    return {"": result.detach(), "x": x.grad,
            **{n: p.grad.clone() for n, p in layer.named_parameters() if p.grad is not None}}


@unittest.skipIf(MISSING, MISSING)
class Layers(unittest.TestCase):
    def compare(self, found, wanted, name):
        self.assertEqual(list(found), list(wanted))
        for n, b in wanted.items():
            self.assertLessEqual(float((found[n] - b).norm()), 1e-4 * float(b.norm()) + 1e-6,
                                 (name, n))

    def test_packed_sequences_are_kept_apart(self):
        for name in MODELS:
            module = module_of(name)
            if module is None:
                continue
            with self.subTest(name), own_functions(module), switch.install():
                layer = layer_of(module, name)
                x, cu = torch.randn(1, 38, 32), torch.tensor(OFFSETS, dtype=torch.int32)
                packed = gradients(layer, x, lambda x: layer(x, cu_seq_lens_q=cu,
                                                             cu_seq_lens_k=cu))
                apart = gradients(layer, x, lambda x: torch.cat(
                    [layer(part) for part in x.split(LENGTHS, 1)], 1))
                self.compare(packed, apart, name)

    def test_a_layer_is_as_with_transformers_own_functions(self):
        for name in MODELS:
            module = module_of(name)
            if module is None:
                continue
            with self.subTest(name), own_functions(module):
                layer, x = layer_of(module, name), torch.randn(2, 38, 32)
                wanted = gradients(layer, x, layer)
                before = {n: getattr(module, n, None) for n in OWN}
                with switch.install():
                    found = gradients(layer, x, layer)
                    self.assertTrue(all(getattr(module, n) is not f for n, f in before.items()
                                        if f is not None and "update" not in n), name)
                self.compare(found, wanted, name)
                self.assertEqual(before, {n: getattr(module, n, None) for n in OWN})

    def test_a_layer_that_is_computed_again_for_its_gradients(self):
        from torch.utils.checkpoint import checkpoint
        for name in ("qwen3_next", "qwen3_5", "olmo_hybrid", "kimi_linear"):
            module = module_of(name)
            if module is None:
                continue
            with self.subTest(name), own_functions(module), switch.install():
                layer, x = layer_of(module, name), torch.randn(2, 13, 32)
                wanted = gradients(layer, x, layer)
                for reentrant in (False, True):
                    found = gradients(layer, x, lambda x: checkpoint(layer, x,
                                                                     use_reentrant=reentrant))
                    self.compare(found, wanted, name)

    def test_rows_after_the_last_offset_are_in_no_sequence(self):
        module = module_of("qwen3_next")
        with own_functions(module), switch.install():
            layer, x = layer_of(module, "qwen3_next"), torch.randn(1, 38, 32)
            cu = torch.tensor([0, 11, 30])
            packed = layer(x, cu_seq_lens_q=cu)
            apart = torch.cat([layer(part) for part in x[:, :30].split([11, 19], 1)], 1)
        torch.testing.assert_close(packed[:, :30], apart, rtol=1e-4, atol=1e-5)

    def test_what_was_replaced_twice_is_as_before(self):
        class Owner:
            value = "own"
        with Patch() as patch:
            patch.set(Owner, "value", "first")
            patch.set(Owner, "value", "second")
        self.assertEqual(Owner.value, "own")

    def test_each_layer_is_a_block(self):
        from ejk.compat import _layers
        for name in MODELS:
            module = module_of(name)
            if module is None:
                continue
            with self.subTest(name), own_functions(module), switch.install():
                layer, x = layer_of(module, name), torch.randn(1, 5, 32)
                block = "kda_block" if MODELS[name] is KIMI else "gated_delta_net"
                with unittest.mock.patch.object(_layers.ops, block, wraps=getattr(_layers.ops, block)) as called:
                    layer(x)
                self.assertEqual(called.call_count, 1)

    def test_offsets_are_made_of_what_a_layer_is_given(self):
        for name in ("qwen3_next", "kimi_linear"):
            module = module_of(name)
            with self.subTest(name), own_functions(module), switch.install():
                layer, x = layer_of(module, name), torch.randn(1, 38, 32)
                wanted = layer(x, cu_seq_lens_q=torch.tensor(OFFSETS))
                numbers = torch.cat([torch.full((n,), i) for i, n in enumerate(LENGTHS)])[None]
                self.assertTrue(torch.equal(layer(x, seq_idx=numbers), wanted))
                # As many rows as the convolution is wide.
                packed = layer(x[:, :4], seq_idx=torch.tensor([[3, 3, 1, 1]]))
                apart = torch.cat([layer(x[:, :2]), layer(x[:, 2:4])], 1)
                torch.testing.assert_close(packed, apart, rtol=1e-4, atol=1e-5)

    def test_a_layer_that_no_block_takes_keeps_its_own_code(self):
        from ejk.compat import _layers
        def changed(layer, what):
            if what == "activation":
                layer.activation = "gelu"
            elif what == "width":
                layer.conv_kernel_size = 5
                layer.conv1d = torch.nn.Conv1d(layer.conv_dim, layer.conv_dim, 5, groups=layer.conv_dim, padding=4, bias=False)
            else:
                layer.norm.activation = "sigmoid"
        module = module_of("qwen3_next")
        for what in ("activation", "width", "gate"):
            with self.subTest(what), own_functions(module):
                layer, x = layer_of(module, "qwen3_next"), torch.randn(2, 9, 32)
                changed(layer, what)
                wanted = gradients(layer, x, layer)
                with switch.install(), unittest.mock.patch.object(_layers.ops, "gated_delta_net") as called:
                    found = gradients(layer, x, layer)
                self.assertFalse(called.called)
                self.compare(found, wanted, what)

    def test_what_would_mix_sequences_is_an_error(self):
        module = module_of("qwen3_next")
        with own_functions(module), switch.install():
            layer, cu = layer_of(module, "qwen3_next"), torch.tensor([0, 3, 7])
            x = torch.randn(1, 7, 32)
            with self.assertRaisesRegex(ValueError, "a batch of 1"):
                layer(x.expand(2, -1, -1), cu_seq_lens_q=cu)
            rows = torch.zeros(1, 7, 1, 4)
            with self.assertRaisesRegex(NotImplementedError, "do not continue a cache"):
                module.torch_chunk_gated_delta_rule(rows, rows, rows, g=rows[..., 0],
                                                    beta=rows[..., 0], cu_seqlens=cu,
                                                    initial_state=torch.zeros(2, 1, 4, 4))
            # The recurrence alone.
            layer.activation = "gelu"
            with self.assertRaisesRegex(ValueError, "a batch of 1"):
                layer(x.expand(2, -1, -1), cu_seq_lens_q=cu)
            with self.assertRaisesRegex(NotImplementedError, "of 4 rows"):
                layer(x[:, :4], cu_seq_lens_q=torch.tensor([0, 2, 4]))
        with Patch() as older:  # a release whose layers convolve by themselves
            convolution = module.causal_conv1d_fn
            older._undo.append(lambda: setattr(module, "causal_conv1d_fn", convolution))
            del module.causal_conv1d_fn
            with switch.install(), self.assertRaisesRegex(NotImplementedError, "causal_conv1d_fn"):
                module.torch_chunk_gated_delta_rule(rows, rows, rows, g=rows[..., 0],
                                                    beta=rows[..., 0], cu_seqlens=cu)


if __name__ == "__main__":
    unittest.main()
