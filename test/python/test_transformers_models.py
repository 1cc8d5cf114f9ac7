"""Small models of transformers with ejk's blocks in their layers, beside their own code: training, packed batches, padding
and generation.

    EJK_TEST_MODELS=all EJK_TEST_STEPS=50 python3 -m unittest -v test_transformers_models
"""

import importlib
import os
import unittest

import torch

try:
    import transformers
    MISSING = None if transformers.__version__ >= "5.24" else "transformers is older than 5.24"
except ImportError as error:
    MISSING = f"transformers is not installed ({error})"

from ejk.compat import _layers
from ejk.compat import transformers as switch
from test_transformers import module_of, own_functions

VOCABULARY, STEPS = 61, int(os.environ.get("EJK_TEST_STEPS", 3))
SIZES = dict(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, pad_token_id=0, bos_token_id=1,
             eos_token_id=None)
ATTENTION = dict(SIZES, num_attention_heads=2, num_key_value_heads=1, head_dim=16, intermediate_size=48,
                 max_position_embeddings=256)
KINDS = dict(layer_types=["linear_attention", "full_attention"])
GATED = dict(ATTENTION, **KINDS, linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=16,
             linear_value_head_dim=8)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=16)
LATENT = dict(ATTENTION, **KINDS, linear_num_heads=2, linear_head_dim=16, num_key_value_heads=2, q_lora_rank=None, kv_lora_rank=16,
              qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16, n_routed_experts=4, num_experts=4,
              num_experts_per_tok=2, moe_intermediate_size=16, n_group=1, topk_group=1, n_shared_experts=1,
              num_experts_per_token=2, num_shared_experts=1, first_k_dense_replace=1)
MAMBA = dict(ATTENTION, mamba_n_heads=4, mamba_d_head=16, mamba_d_state=8, mamba_n_groups=2, mamba_expand=2,
             mamba_d_conv=4, mamba_chunk_size=16)
MODELS = {
    "qwen3_next": ("Qwen3NextForCausalLM", "Qwen3NextConfig", dict(GATED, **EXPERTS)),
    "qwen3_5": ("Qwen3_5ForCausalLM", "Qwen3_5TextConfig", GATED),
    "qwen3_5_moe": ("Qwen3_5MoeForCausalLM", "Qwen3_5MoeTextConfig", dict(GATED, **EXPERTS)),
    "lara_mini": ("LaraMiniForCausalLM", "LaraMiniConfig", dict(GATED, **EXPERTS)),
    "olmo_hybrid": ("OlmoHybridForCausalLM", "OlmoHybridConfig", dict(GATED, linear_allow_neg_eigval=True)),
    "kimi_linear": ("KimiLinearForCausalLM", "KimiLinearConfig", LATENT),
    "bailing_hybrid": ("BailingHybridForCausalLM", "BailingHybridConfig", LATENT),
    "mamba2": ("Mamba2ForCausalLM", "Mamba2Config", dict(SIZES, num_heads=4, head_dim=16, state_size=8, n_groups=2,
                                                         expand=2, chunk_size=16)),
    "bamba": ("BambaForCausalLM", "BambaConfig", dict(MAMBA, attn_layer_indices=[1])),
    "falcon_h1": ("FalconH1ForCausalLM", "FalconH1Config", dict(MAMBA, mamba_d_ssm=64)),
    "nemotron_h": ("NemotronHForCausalLM", "NemotronHConfig", dict(
        ATTENTION, layers_block_type=["mamba", "attention"], mamba_num_heads=4, mamba_head_dim=16, ssm_state_size=8,
        n_groups=2, chunk_size=16)),
    "zamba2": ("Zamba2ForCausalLM", "Zamba2Config", dict(
        SIZES, num_hidden_layers=3, layers_block_type=["mamba", "mamba", "hybrid"], n_mamba_heads=4, mamba_headdim=16,
        mamba_d_state=8, mamba_ngroups=2, num_attention_heads=2, num_key_value_heads=2, intermediate_size=48,
        attention_hidden_size=64, attention_head_dim=32, num_mem_blocks=1, adapter_rank=8, chunk_size=16)),
    "granitemoehybrid": ("GraniteMoeHybridForCausalLM", "GraniteMoeHybridConfig", dict(
        MAMBA, **KINDS, num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=32)),
}
FEW = ("qwen3_next", "olmo_hybrid", "kimi_linear", "mamba2", "falcon_h1", "zamba2")
CHOSEN = MODELS if os.environ.get("EJK_TEST_MODELS") == "all" else os.environ.get("EJK_TEST_MODELS", ",".join(FEW)).split(",")
LENGTHS = (11, 1, 7, 19, 2)


def model_of(name, spread=True, **changes):
    kind, config, sizes = MODELS[name]
    sizes = dict(sizes, **changes)
    module = module_of(name)
    configs = importlib.import_module(f"transformers.models.{name}.configuration_{name}")
    torch.manual_seed(0)
    model = getattr(module, kind)(getattr(configs, config)(**sizes))
    for n, parameter in model.named_parameters():
        if not torch.isfinite(parameter).all() or parameter.abs().max() > 1e3:
            torch.nn.init.normal_(parameter, 0, 0.02)  # what the model leaves as it was in memory
        if not spread and not n.endswith(("A_log", "dt_bias")):
            continue
        if n.endswith("A_log"):
            torch.nn.init.uniform_(parameter, -1, 1)
        elif n.endswith("dt_bias"):
            torch.nn.init.normal_(parameter, -2)
        elif "norm" in n or n.endswith(".D"):
            torch.nn.init.normal_(parameter, 1, 0.2)
        else:
            torch.nn.init.normal_(parameter, 0, 0.2)
    return model


def losses(model):
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    tokens = torch.randint(1, VOCABULARY, (4, 2, 40), generator=torch.Generator().manual_seed(1))
    found = []
    model.train()
    for step in range(STEPS):
        batch = tokens[step % 4]
        loss = model(input_ids=batch, labels=batch, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(float(loss.detach()))
    return found


class Counted:
    """How often a block of ejk.ops was called."""

    def __init__(self):
        self.calls, self._own = 0, {n: getattr(_layers.ops, n) for n in ("gated_delta_net", "kda_block", "mamba2_block")}

    def _counting(self, function):
        def call(*arguments, **named):
            self.calls += 1
            return function(*arguments, **named)
        return call

    def __enter__(self):
        for n, f in self._own.items():
            setattr(_layers.ops, n, self._counting(f))
        return self

    def __exit__(self, *_):
        for n, f in self._own.items():
            setattr(_layers.ops, n, f)


@unittest.skipIf(MISSING, MISSING)
class Models(unittest.TestCase):
    def test_losses(self):
        for name in CHOSEN:
            with self.subTest(name), own_functions(module_of(name)):
                wanted = losses(model_of(name, spread=False))
                with switch.install(), Counted() as count:
                    found = losses(model_of(name, spread=False))
                self.assertGreaterEqual(count.calls, STEPS)
                worst = max(abs(a - b) for a, b in zip(found, wanted))
                print(f"{name}: {STEPS} steps, loss {wanted[0]:.4f} to {wanted[-1]:.4f}, off by {worst:.1e} at most")
                self.assertLess(worst, 1e-3)

    def test_a_packed_batch(self):
        tokens = torch.randint(1, VOCABULARY, (1, sum(LENGTHS)), generator=torch.Generator().manual_seed(2))
        positions = torch.cat([torch.arange(n) for n in LENGTHS])[None]
        numbers = torch.cat([torch.full((n,), i, dtype=torch.int32) for i, n in enumerate(LENGTHS)])[None]
        offsets = torch.tensor([0, *torch.tensor(LENGTHS).cumsum(0).tolist()], dtype=torch.int32)
        for name in CHOSEN:
            # Granite's own attention does not keep sequences apart on a CPU.
            changes = dict(layer_types=["linear_attention"] * 2) if name == "granitemoehybrid" else {}
            with self.subTest(name), own_functions(module_of(name)):
                model = model_of(name, **changes).eval()
                with switch.install(), torch.no_grad():
                    apart = torch.cat([model(input_ids=part, use_cache=False).logits for part in tokens.split(LENGTHS, 1)], 1)
                    for more in ({}, dict(seq_idx=numbers), dict(cu_seq_lens_q=offsets, cu_seq_lens_k=offsets)):
                        with Counted() as count:
                            packed = model(input_ids=tokens, position_ids=positions, use_cache=False, **more).logits
                        self.assertGreater(count.calls, 0)
                        off = float((packed - apart).abs().max() / apart.abs().max())
                        self.assertLess(off, 1e-5, (name, list(more)))
                    mixed = model(input_ids=tokens, use_cache=False).logits
                    self.assertGreater(float((mixed - apart).abs().max()), 1e-3, "sequences would be told apart")

    def test_generation(self):
        prompt = torch.randint(1, VOCABULARY, (2, 9), generator=torch.Generator().manual_seed(3))
        mask = torch.ones_like(prompt)
        padded = prompt.clone()
        padded[0, :4], mask[0, :4] = 0, 0
        settings = dict(max_new_tokens=12, do_sample=False, output_logits=True, return_dict_in_generate=True)
        for name in CHOSEN:
            with self.subTest(name), own_functions(module_of(name)):
                model = model_of(name).eval()
                for given in (dict(input_ids=prompt), dict(input_ids=padded, attention_mask=mask),
                              dict(input_ids=prompt[:, :2]), dict(input_ids=prompt, use_cache=False)):
                    wanted = model.generate(**given, **settings)
                    with switch.install(), Counted() as count:
                        found = model.generate(**given, **settings)
                    self.assertGreaterEqual(count.calls, 12)
                    self.assertTrue(torch.equal(found.sequences, wanted.sequences), name)
                    for a, b in zip(found.logits, wanted.logits):
                        self.assertLess(float((a - b).abs().max() / b.abs().max()), 2e-4, name)

    def test_packed_sequences_do_not_continue_a_cache(self):
        tokens = torch.randint(1, VOCABULARY, (1, 8), generator=torch.Generator().manual_seed(5))
        for name in CHOSEN:
            with self.subTest(name), own_functions(module_of(name)), switch.install(), torch.no_grad():
                model = model_of(name).eval()
                first = model(input_ids=tokens, use_cache=True)
                key = next(k for k in ("cache", "past_key_values") if k in first)
                with self.assertRaisesRegex(NotImplementedError, "do not continue a cache"):
                    model(input_ids=tokens, use_cache=True, seq_idx=torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1]]), **{key: first[key]})

    def test_compiled(self):
        for name in CHOSEN:
            with self.subTest(name), own_functions(module_of(name)), switch.install(), torch.no_grad():
                model = model_of(name).eval()
                layer = next(m for m in model.modules() if hasattr(m, "conv1d"))
                x = torch.randn(2, 24, 32)
                torch._dynamo.reset()
                found = torch.compile(layer, fullgraph=True, backend="aot_eager")(x)
                torch.testing.assert_close(found, layer(x))

    def test_a_prompt_in_pieces(self):
        tokens = torch.randint(1, VOCABULARY, (2, 20), generator=torch.Generator().manual_seed(4))
        for name in CHOSEN:
            with self.subTest(name), own_functions(module_of(name)):
                model = model_of(name).eval()
                with switch.install(), torch.no_grad():
                    whole = model(input_ids=tokens, use_cache=False).logits
                    first = model(input_ids=tokens[:, :9], use_cache=True)
                    key = next(k for k in ("cache", "past_key_values") if k in first)
                    named = {} if name == "mamba2" else dict(position_ids=torch.arange(9, 20).expand(2, -1))
                    second = model(input_ids=tokens[:, 9:], use_cache=True, **named, **{key: first[key]})
                    found = torch.cat([first.logits, second.logits], 1)
                self.assertLess(float((found - whole).abs().max() / whole.abs().max()), 1e-4, name)


if __name__ == "__main__":
    unittest.main()
