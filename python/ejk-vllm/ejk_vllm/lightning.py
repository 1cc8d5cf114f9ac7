"""Lightning attention under vLLM: prefill, decode, and verification of drafts.

vLLM computes the prefills of a batch one by one, and its host waits for the device to say where each begins
and whether it is a new request. Here they are one call, and the host does not wait."""

import torch

from ejk import serving

from . import find, note_use
from .gdn import pools

_MINIMAX = "vllm.model_executor.layers.mamba.linear.minimax_linear_attn"
_BAILING = "vllm.model_executor.layers.mamba.linear.bailing_linear_attn"


def _run(q, k, v, slope_rate, **where):
    """q is scaled by the layer where its model wants that. Returns [rows, heads·channels]. Rows are f32, which
    vLLM's own kernels multiply in TF32."""
    note_use("lightning")
    o = serving.lightning(q, k, v, slope_rate.reshape(-1), f32_matmuls="bf16x3", **where)
    return o.reshape(-1, o.shape[-2] * o.shape[-1])


def decode(q, k, v, kv_cache, slope_rate, state_indices_tensor, q_start=0, q_end=None, slot_start=0,
           slot_end=None, block_size=32):
    """One token of each sequence, [rows, heads, channels]. `block_size` tunes vLLM's kernel."""
    q, k, v = (x[q_start:q_end, None] for x in (q, k, v))
    return _run(q, k, v, slope_rate, **pools(kv_cache, state_indices_tensor[slot_start:slot_end]))


def drafts(q, k, v, kv_cache, slope_rate, state_indices_tensor, query_start_loc, num_accepted_tokens, q_start,
           q_end, slot_start, slot_end, block_size):
    """Packed sequences of as many tokens as were drafted and one more."""
    q, k, v = (x[None, q_start:q_end] for x in (q, k, v))
    slots = state_indices_tensor[slot_start:slot_end]
    ends = query_start_loc[:slots.shape[0] + 1].to(q.device)
    return _run(q, k, v, slope_rate, cu_seqlens=ends - q_start if q_start else ends,
                **pools(kv_cache, slots, num_accepted_tokens, slots.shape[0]))


def prefill_and_mix(q, k, v, kv_cache, state_indices_tensor, attn_metadata, slope_rate, block_size, decode_fn,
                    prefix_fn, layer_idx=None):
    """A batch of decoded sequences, for which the layer has `decode_fn`, and prefills of any length behind
    them. What else vLLM says belongs to its own kernels."""
    first, count, rows = (getattr(attn_metadata, name) for name in
                          ("num_decodes", "num_prefills", "num_decode_tokens"))
    parts = []
    if rows:
        parts.append(decode_fn(q, k, v, kv_cache, state_indices_tensor, attn_metadata))
    if count:
        slots = getattr(attn_metadata, "state_indices_tensor_p", None)
        slots = state_indices_tensor[first:first + count] if slots is None else slots[:count]
        ends = attn_metadata.query_start_loc[first:first + count + 1]
        known = attn_metadata.seq_lens[first:first + count] > ends.diff()
        where = pools(kv_cache, slots)
        where["read_slots"] = torch.where(known, slots, -1)
        parts.append(_run(*(x[None, rows:] for x in (q, k, v)), slope_rate,
                          cu_seqlens=ends - rows if rows else ends, **where))
    return torch.cat(parts) if len(parts) > 1 else parts[0] if parts else q.new_empty(0, q[:1].numel())


def leave_new_sequences(kv_cache, state_indices_tensor, attn_metadata):
    """What lies in the slot of a new request is not read, so nothing is cleared."""


def install(patch):
    rows = ["q", "k", "v", "kv_cache", "slope_rate", "state_indices_tensor"]
    patch.replace("vllm", find(_MINIMAX, "linear_attention_decode",
                               [*rows, "q_start", "q_end", "slot_start", "slot_end", "block_size"]), decode)
    patch.replace("vllm", find(_BAILING, "bailing_linear_attention_decode_spec",
                               [*rows, "query_start_loc", "num_accepted_tokens", "q_start", "q_end", "slot_start",
                                "slot_end", "block_size"]), drafts)
    for module in (_MINIMAX, _BAILING):
        patch.replace("vllm", find(module, "linear_attention_prefill_and_mix",
                                   [*rows, "attn_metadata", "block_size", "decode_fn", "prefix_fn", "layer_idx"]),
                      prefill_and_mix)
        patch.replace("vllm", find(module, "clear_linear_attention_cache_for_new_sequences",
                                   ["kv_cache", "state_indices_tensor", "attn_metadata"]), leave_new_sequences)
