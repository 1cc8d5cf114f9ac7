"""Small models of transformers whose recurrence is ejk's and has no block: MiniMax, Mamba and its kin, RWKV-4, xLSTM
and RecurrentGemma, beside their own code."""

import contextlib
import functools
import unittest
import unittest.mock

import torch

try:
    import transformers
    MISSING = None if transformers.__version__ >= "5.24" else "transformers is older than 5.24"
except ImportError as error:
    MISSING = f"transformers is not installed ({error})"

from ejk.compat import _scans
from ejk.compat import transformers as switch
from test_transformers import module_of

VOCABULARY = 61
SIZES = dict(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, pad_token_id=0, bos_token_id=1,
             eos_token_id=None)
ATTENTION = dict(SIZES, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48, max_position_embeddings=256)
MAMBA = dict(SIZES, state_size=8, time_step_rank=4, expand=2)
HYBRID = dict(ATTENTION, mamba_d_state=8, mamba_d_conv=4, mamba_expand=2, mamba_dt_rank=4)
MODELS = {
    "minimax": ("MiniMax", dict(ATTENTION, head_dim=8, block_size=8, num_local_experts=4, num_experts_per_tok=2,
                                layer_types=["linear_attention", "full_attention"])),
    "mamba": ("Mamba", MAMBA),
    "falcon_mamba": ("FalconMamba", MAMBA),
    "jamba": ("Jamba", dict(HYBRID, attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2,
                            expert_layer_offset=1, num_experts=4, num_experts_per_tok=2)),
    "zamba": ("Zamba", dict(HYBRID, num_hidden_layers=3, layers_block_type=["mamba", "hybrid", "hybrid"],
                            n_mamba_heads=2, num_key_value_heads=4, attention_hidden_size=64, attention_head_dim=16)),
    "rwkv": ("Rwkv", dict(SIZES, attention_hidden_size=32, context_length=256, rescale_every=0)),
    "xlstm": ("xLSTM", dict(SIZES, hidden_size=128, num_heads=2, chunk_size=16)),
    "recurrent_gemma": ("RecurrentGemma", dict(ATTENTION, head_dim=8, lru_width=32, attention_window_size=16,
                                               block_types=["recurrent", "attention"])),
}
SCANS = ("mamba", "falcon_mamba", "jamba", "zamba")
MIXES = ("rwkv", "recurrent_gemma")  # models that mix rows before their recurrence
APART = [name for name in MODELS if name not in MIXES]
LENGTHS = (11, 1, 7, 19, 2)


def model_of(name, **changes):
    prefix, sizes = MODELS[name]
    module = module_of(name)
    torch.manual_seed(0)
    config = getattr(transformers, f"{prefix}Config")(**{**sizes, **changes})
    model = getattr(module, f"{prefix}ForCausalLM")(config)
    for n, parameter in model.named_parameters():
        if n.endswith("A_log"):
            torch.nn.init.uniform_(parameter, -1, 1)
        elif n.endswith(("recurrent_param", "time_decay", "dt_proj.bias", "dt_proj_bias")):
            torch.nn.init.normal_(parameter, -2)
        elif "norm" in n or n.endswith(".D"):
            torch.nn.init.normal_(parameter, 1, 0.2)
        elif "gate_preact" in n:  # hidden channels are more than in the others
            torch.nn.init.normal_(parameter, 0, 0.1)
        else:
            torch.nn.init.normal_(parameter, 0, 0.2)
    return model


def tokens_of(*shape, seed=1):
    return torch.randint(1, VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def layers_of(name, model):
    """The layers, or their parts, whose own code computes a recurrence."""
    kinds = ("MiniMaxLightningAttention", "xLSTMBackend", "RecurrentGemmaRglru", "RwkvSelfAttention")
    return [m for m in model.modules() if type(m).__name__ in kinds or type(m).__name__.endswith("MambaMixer")]


def fails(*_, **__):
    raise AssertionError("the layer's own code ran")


class Broken:
    """A model's own recurrence, which fails where it is called: what runs is ejk's."""

    def __init__(self, name, model):
        self._module, self._layers = module_of(name), layers_of(name, model)
        self._counts, self._calls = name == "recurrent_gemma", 0

    def _count(self, *arguments, **named):
        self._calls += 1
        return self._gated_sum(*arguments, **named)

    def __enter__(self):
        self._own = {n: getattr(self._module, n) for n in ("mamba_selective_scan", "mamba_selective_state_update",
                                                           "rwkv_linear_attention_cpu", "causal_conv1d_fn",
                                                           "causal_conv1d_update") if hasattr(self._module, n)}
        for n in self._own:
            setattr(self._module, n, fails)
        self._buffers = [getattr(m, n) for m in self._layers for n in ("query_decay", "key_decay", "diagonal_decay")
                         if hasattr(m, n)]
        self._kept = [b.clone() for b in self._buffers]
        for buffer in self._buffers:
            buffer.fill_(float("nan"))
        self._functions = [(m, m._inference_fn) for m in self._layers if hasattr(m, "_inference_fn")]
        for m, _ in self._functions:
            m._inference_fn = fails
        # RecurrentGemma's own is the very function that is replaced.
        self._gated_sum, _scans._GATED_SUM = _scans._GATED_SUM, self._count

    def __exit__(self, kind, *_):
        for n, function in self._own.items():
            setattr(self._module, n, function)
        for buffer, kept in zip(self._buffers, self._kept):
            buffer.copy_(kept)
        for m, function in self._functions:
            m._inference_fn = function
        _scans._GATED_SUM = self._gated_sum
        if self._counts and not self._calls and kind is None:
            fails()


def gradients(model, tokens, **named):
    model.zero_grad()
    logits = model(input_ids=tokens, use_cache=False, **named).logits
    (logits * torch.randn(logits.shape, generator=torch.Generator().manual_seed(2))).sum().backward()
    return {"": logits.detach(), **{n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}}


def limit_of(name):
    """Of a gradient, of its norm. A bias of xLSTM's input gates scales memory and normaliser alike, and the output is
    their quotient. So the rows' gradients nearly cancel in its own: it is 0.6 where their absolute values add up to
    525, and the last place of such a float32 is 6e-5. Beside float64, the rows' are off by 2.4e-6 (xLSTM's own code:
    3.1e-6), and the bias's by 1.1e-4 (in chunks of 4 to 64 rows: 3e-6 to 2.5e-5)."""
    return 1e-3 if name.endswith("igate_preact.bias") else 1e-4


def cache_of(outputs):
    key = next(k for k in ("cache", "past_key_values", "state") if outputs.get(k) is not None)
    return {key: outputs[key]}


@unittest.skipIf(MISSING, MISSING)
class Models(unittest.TestCase):
    def near(self, found, wanted, limit, what):
        found, wanted = found.detach(), wanted.detach()
        self.assertLessEqual(float((found - wanted).norm()), limit * float(wanted.norm()) + 1e-6, what)

    def test_outputs_and_gradients(self):
        for name in MODELS:
            with self.subTest(name):
                module_of(name)
                model, tokens = model_of(name), tokens_of(2, 40)
                wanted = gradients(model, tokens)
                with switch.install(), Broken(name, model):
                    found = gradients(model, tokens)
                self.assertEqual(list(found), list(wanted))
                for n in wanted:
                    self.near(found[n], wanted[n], limit_of(n), (name, n))
                again = gradients(model_of(name), tokens)  # the patch is off
                self.assertTrue(all(torch.equal(again[n], wanted[n]) for n in wanted), name)

    def test_a_packed_batch(self):
        tokens = tokens_of(1, sum(LENGTHS))
        positions = torch.cat([torch.arange(n) for n in LENGTHS])[None]
        numbers = torch.cat([torch.full((n,), i, dtype=torch.int32) for i, n in enumerate(LENGTHS)])[None]
        offsets = torch.tensor([0, *torch.tensor(LENGTHS).cumsum(0).tolist()], dtype=torch.int32)
        given = ({}, dict(seq_idx=numbers), dict(cu_seq_lens_q=offsets, cu_seq_lens_k=offsets))
        for name in MODELS:
            with self.subTest(name):
                module_of(name)
                model = model_of(name).eval()
                own = Broken(name, model) if name in APART else contextlib.nullcontext()
                with switch.install(), own, torch.no_grad():
                    for more in given:
                        call = functools.partial(model, input_ids=tokens, position_ids=positions, use_cache=False,
                                                 **more)
                        if name not in APART:
                            with self.assertRaisesRegex(NotImplementedError, "does not keep packed sequences apart"):
                                call()
                            continue
                        packed = call().logits
                        apart = torch.cat([model(input_ids=part, use_cache=False).logits
                                           for part in tokens.split(LENGTHS, 1)], 1)
                        self.near(packed, apart, 1e-5, (name, list(more)))
                        mixed = model(input_ids=tokens, use_cache=False).logits
                        self.assertGreater(float((mixed - apart).abs().max()), 1e-3, "sequences would be told apart")

    def test_a_packed_batch_of_a_layer(self):
        offsets = torch.tensor([0, *torch.tensor(LENGTHS).cumsum(0).tolist()], dtype=torch.int32)
        for name in ("minimax", *SCANS):
            with self.subTest(name):
                module_of(name)
                model = model_of(name)
                layer, x = layers_of(name, model)[0], torch.randn(1, sum(LENGTHS), 32, requires_grad=True)
                more = dict(position_embeddings=None, attention_mask=None) if name == "minimax" else {}
                run = lambda x, **named: layer(x, **more, **named)[0] if more else layer(x, **named)
                with switch.install(), Broken(name, model):
                    found = []
                    for o in (run(x, cu_seq_lens_q=offsets),
                              torch.cat([run(part) for part in x.split(LENGTHS, 1)], 1)):
                        found.append((o, *torch.autograd.grad(o.square().sum(), [x, *layer.parameters()])))
                    for a, b in zip(*found):
                        self.near(a, b, 1e-4, name)
                    with self.assertRaisesRegex(ValueError, "a batch of 1"):
                        run(x.expand(2, -1, -1), cu_seq_lens_q=offsets)

    def test_packed_sequences_do_not_continue_a_cache(self):
        tokens = tokens_of(1, 8)
        for name in APART:
            with self.subTest(name):
                module_of(name)
                model = model_of(name).eval()
                with switch.install(), torch.no_grad():
                    if name == "xlstm":  # which makes a cache of zeros
                        with self.assertRaisesRegex(NotImplementedError, "a cache; give use_cache=False"):
                            model(input_ids=tokens, use_cache=True, cu_seq_lens_q=torch.tensor([0, 3, 8]))
                    first = model(input_ids=tokens, use_cache=True)
                    with self.assertRaisesRegex(NotImplementedError, "do not continue a cache"):
                        model(input_ids=tokens, use_cache=True, cu_seq_lens_q=torch.tensor([0, 3, 8]),
                              **cache_of(first))

    def test_generation(self):
        prompt = tokens_of(2, 9, seed=3)
        mask = torch.ones_like(prompt)
        padded = prompt.clone()
        padded[0, :4], mask[0, :4] = 0, 0
        settings = dict(max_new_tokens=12, do_sample=False, output_logits=True, return_dict_in_generate=True)
        for name in MODELS:
            with self.subTest(name):
                module_of(name)
                model = model_of(name).eval()
                for given in (dict(input_ids=prompt), dict(input_ids=padded, attention_mask=mask),
                              dict(input_ids=prompt[:, :2]), dict(input_ids=prompt, use_cache=False)):
                    wanted = model.generate(**given, **settings)
                    with switch.install(), Broken(name, model):
                        found = model.generate(**given, **settings)
                    self.assertTrue(torch.equal(found.sequences, wanted.sequences), name)
                    for a, b in zip(found.logits, wanted.logits):
                        self.near(a, b, 2e-4, name)
                if name in ("jamba", "zamba"):  # a prompt in pieces, which their own code does not continue
                    plain = dict(max_new_tokens=12, do_sample=False)
                    wanted = model.generate(prompt, **plain)
                    with switch.install(), Broken(name, model):
                        found = model.generate(prompt, prefill_chunk_size=4, **plain)
                    self.assertTrue(torch.equal(found, wanted), name)

    def test_padding(self):
        tokens, mask = tokens_of(2, 20), torch.ones(2, 20, dtype=torch.long)
        mask[0, :7] = 0
        for name in MODELS:
            with self.subTest(name):
                module_of(name)
                model = model_of(name)
                wanted = gradients(model, tokens, attention_mask=mask)
                with switch.install(), Broken(name, model):
                    found = gradients(model, tokens, attention_mask=mask)
                    rest = model(input_ids=tokens[:1, 7:], use_cache=False).logits
                for n in wanted:
                    self.near(found[n], wanted[n], limit_of(n), (name, n))
                if name not in ("rwkv", "xlstm", "recurrent_gemma"):  # which have no mask of their own
                    self.near(found[""][:1, 7:], rest, 1e-4, name)

    def test_a_prompt_in_pieces(self):
        for name in MODELS:
            if name == "recurrent_gemma":  # its convolution begins anew in each piece
                continue
            with self.subTest(name):
                module_of(name)
                # MiniMax's mask for full attention counts the rows that layer 0 has kept as keys.
                changes = dict(layer_types=["full_attention", "linear_attention"]) if name == "minimax" else {}
                model = model_of(name, **changes).eval()
                with switch.install(), Broken(name, model), torch.no_grad():
                    # RWKV's layers take one row for a batch of more than one entry as several rows.
                    tokens = tokens_of(1 if name == "rwkv" else 2, 20)
                    whole = model(input_ids=tokens, use_cache=False).logits
                    for pieces in ((9, 11), (1, 7, 1, 11), (4,) + 16 * (1,)):
                        found, cache, done = [], {}, 0
                        for piece in tokens.split(pieces, 1):
                            positions = torch.arange(done, done + piece.shape[1]).expand(len(tokens), -1)
                            named = dict(position_ids=positions) if name in ("minimax", "jamba", "zamba") else {}
                            outputs = model(input_ids=piece, use_cache=True, **named, **cache)
                            found.append(outputs.logits)
                            cache, done = cache_of(outputs), done + piece.shape[1]
                        self.near(torch.cat(found, 1), whole, 1e-4, (name, pieces))

    def test_a_layer_that_is_computed_again_for_its_gradients(self):
        tokens = tokens_of(2, 24)
        positions = torch.cat([torch.arange(9), torch.arange(15)])[None]
        for name in APART:
            with self.subTest(name):
                module_of(name)
                with switch.install():
                    for given in ((tokens, {}), (tokens[:1], dict(position_ids=positions))):
                        model = model_of(name).train()
                        with Broken(name, model):
                            wanted = gradients(model, given[0], **given[1])
                            model.gradient_checkpointing_enable()
                            found = gradients(model, given[0], **given[1])
                        for n in wanted:
                            self.near(found[n], wanted[n], 1e-5, (name, n))

    def test_16_bits_are_as_near_as_the_layers_own(self):
        tokens = tokens_of(2, 80)
        # No choice of experts, which rounding changes.
        changes = {"minimax": dict(num_local_experts=1, num_experts_per_tok=1), "jamba": dict(num_experts=1)}
        for name in MODELS:
            with self.subTest(name), torch.no_grad():
                module_of(name)
                model = model_of(name, **changes.get(name, {})).eval()
                wanted = model(input_ids=tokens, use_cache=False).logits
                model = model.bfloat16()
                if name == "xlstm":  # whose own code does not run in 16 bits on a CPU
                    limit = 0.1 * float(wanted.norm())
                else:
                    own = model(input_ids=tokens, use_cache=False).logits.float()
                    limit = 1.2 * float((own - wanted).norm())
                with switch.install(), Broken(name, model):
                    found = model(input_ids=tokens, use_cache=False).logits.float()
                self.assertLessEqual(float((found - wanted).norm()), limit, name)

    def test_float64(self):
        tokens = tokens_of(2, 9)
        for name in MODELS:
            if name in ("minimax", "jamba"):  # whose experts have no float64 on a CPU
                continue
            with self.subTest(name), torch.no_grad():
                module_of(name)
                model = model_of(name).eval()
                wanted = model(input_ids=tokens, use_cache=False).logits
                model = model.double()
                with switch.install(), Broken(name, model):
                    self.near(model(input_ids=tokens, use_cache=True).logits.float(), wanted, 1e-5, name)

    def test_weights_that_lie_elsewhere(self):
        for name in SCANS:
            with self.subTest(name):
                module_of(name)
                layer = layers_of(name, model_of(name))[0]
                parts = [getattr(layer, n) for n in ("conv1d", "dt_proj") if hasattr(layer, n)]
                for part in parts:
                    part._hf_hook = unittest.mock.Mock()
                with switch.install():
                    layer(torch.randn(1, 5, 32))
                for part in parts:
                    part._hf_hook.pre_forward.assert_called_once_with(part)
                    part._hf_hook.post_forward.assert_called_once_with(part, ())

    def test_a_layer_that_is_not_known_keeps_its_own_code(self):
        for name in ("mamba", "jamba"):
            with self.subTest(name):
                module = module_of(name)
                layer, x = layers_of(name, model_of(name))[0], torch.randn(2, 9, 32)
                layer.activation = "gelu"
                wanted = layer(x)
                with switch.install(), unittest.mock.patch.object(_scans, "_SELECTIVE_SCAN", fails):
                    self.assertTrue(torch.equal(layer(x), wanted))
                    with unittest.mock.patch.object(module, "mamba_selective_scan", fails), \
                            self.assertRaisesRegex(AssertionError, "own code"):
                        layer(x)

    def test_compiled(self):
        for name in ("minimax", *SCANS):
            with self.subTest(name):
                module_of(name)
                layer, x = layers_of(name, model_of(name).eval())[0], torch.randn(2, 24, 32)
                more = (None, None) if name == "minimax" else ()
                with switch.install(), torch.no_grad():
                    torch._dynamo.reset()
                    found = torch.compile(layer, fullgraph=True, backend="aot_eager")(x, *more)
                    torch.testing.assert_close(found, layer(x, *more))


if __name__ == "__main__":
    unittest.main()
