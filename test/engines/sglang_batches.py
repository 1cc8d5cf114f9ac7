"""A process of one rank with ejk as its linear-attention backend, pools of states, and the batches that
SGLang's scheduler hands to a layer, for tests on a CPU."""

import types

import torch
from sglang.srt.runtime_context import get_context, get_parallel

# Modules of layers ask for these when they are imported. They are in force as long as something refers to them.
_rank = get_parallel().override(tp_size=1, tp_rank=0, attn_tp_size=1, attn_tp_rank=0,
                                tp_group=types.SimpleNamespace(rank_in_group=0, world_size=1))
_rank.__enter__()

from sglang.srt.configs.mamba_utils import Mamba2CacheParams, Mamba2StateDType, Mamba2StateShape
from sglang.srt.layers.attention.linear.utils import resolve_linear_attn_backends
from sglang.srt.mem_cache.memory_pool import HybridReqToTokenPool
from sglang.srt.model_executor.forward_batch_info import ForwardBatch, ForwardMode
from sglang.srt.plugins.hook_registry import HookRegistry

import ejk_sglang
import engine_reference as reference

REQUESTS = 6


def ints(values, dtype=torch.int32):
    return torch.tensor(values, dtype=dtype)


def server_args(**fields):
    """Publishes SGLang's arguments, with ejk everywhere if `fields` do not say otherwise."""
    ejk_sglang.register()
    HookRegistry.apply_hooks()
    given = dict(
        attention_backend="triton", chunked_prefill_size=-1, linear_attn_backend="ejk", enable_mis=False,
        enable_symm_mem=False, mamba_backend="triton", kv_cache_dtype="auto", speculative_algorithm=None,
        speculative_eagle_topk=1, _mamba_cache_chunk_size=64)
    return get_context().override_server_args(**{**given, **fields}).install()


def cache_params(type, **shape):
    return Mamba2CacheParams(shape=Mamba2StateShape.create(tp_world_size=1, **shape), layers=[0],
                             dtype=Mamba2StateDType(conv=torch.float32, temporal=type))


def runner(params, drafts=4, **config):
    """What backends read of a model's runner; the states hold what was there before."""
    pool = HybridReqToTokenPool(
        size=REQUESTS, mamba_size=2 * REQUESTS, mamba_spec_state_size=REQUESTS, max_context_len=512, device="cpu",
        enable_memory_saver=False, cache_params=params, mamba_layer_ids=[0], enable_mamba_extra_buffer=False,
        speculative_num_draft_tokens=drafts, enable_overlap_schedule=False)
    cache = pool.mamba2_layer_cache(0)
    for x in (cache.temporal, cache.intermediate_ssm, *cache.conv, *cache.intermediate_conv_window):
        x.normal_()
    config = types.SimpleNamespace(**config)
    return types.SimpleNamespace(
        device="cpu", req_to_token_pool=pool, token_to_kv_pool=None, is_draft_worker=False, sliding_window_size=None,
        server_args=get_context().server_args, kv_cache_dtype=torch.float32, kv_cache_dtype_str="auto",
        linear_attn_backends=resolve_linear_attn_backends(),
        model_config=types.SimpleNamespace(hf_config=config, hf_text_config=config, context_len=512,
                                           is_encoder_decoder=False))


def batch(runner, slots, lengths, computed, mode=ForwardMode.EXTEND, track=None):
    """`lengths` rows of each sequence, which had `computed` before. `track` has for each a slot for the state of
    a prefix and that prefix's rows, or None."""
    rows, count = sum(lengths), len(slots)
    requests = torch.arange(count, dtype=torch.int32)
    runner.req_to_token_pool.req_index_to_mamba_index_mapping[requests.long()] = ints(slots)
    lasts = [c + n for c, n in zip(computed, lengths)]
    found = ForwardBatch(
        forward_mode=mode, batch_size=count, input_ids=torch.zeros(rows, dtype=torch.int64),
        req_pool_indices=requests, seq_lens=ints(lasts), seq_lens_cpu=ints(lasts),
        out_cache_loc=torch.zeros(rows, dtype=torch.int64), seq_lens_sum=sum(lasts),
        positions=torch.cat([torch.arange(c, c + n) for c, n in zip(computed, lengths)]))
    if mode.is_target_verify():
        found.spec_info = types.SimpleNamespace(draft_token_num=lengths[0], ragged_verify_layout=None)
    elif mode.is_extend():
        found.extend_prefix_lens, found.extend_prefix_lens_cpu = ints(computed), list(computed)
        found.extend_seq_lens, found.extend_seq_lens_cpu = ints(lengths), list(lengths)
        found.extend_start_loc = (ints(lengths).cumsum(0) - ints(lengths)).int()
        found.extend_num_tokens = rows
    if track is not None:
        found.mamba_track_mask = torch.tensor([t is not None for t in track])
        found.mamba_track_indices = ints([t[0] if t else 0 for t in track], torch.int64)
        found.mamba_track_seqlens = ints([t[1] if t else -1 for t in track], torch.int64)
    return found


def known_on_host(found):
    """The same, with what the scheduler says on the host of the prefixes to track."""
    found.mamba_prefill_track_mask_cpu = found.mamba_track_mask.tolist()
    found.mamba_track_seqlens_cpu = found.mamba_track_seqlens.tolist()
    return found


class PoolTest:
    """What tests ask of results and of a `pool`, which was `before`. Errors are below `limit`."""

    def assertClose(self, found, expected, what=""):
        self.assertLess(reference.error(found, expected), self.limit, what)

    def assertKept(self, but):
        for slot in set(range(len(self.pool))) - set(but):
            self.assertTrue(torch.equal(self.pool[slot], self.before[slot]), f"slot {slot}")
