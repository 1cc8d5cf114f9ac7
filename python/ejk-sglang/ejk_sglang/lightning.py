"""Lightning attention under SGLang: prefill, decode, verification of drafts, and the states that a prefix
cache asks for, for both of the ways in which a model may call it (`seg_la` and `minimax`)."""

import torch

from ejk import serving

from .pools import cut, drafted, firsts, slots

_BACKEND = "sglang.srt.layers.attention.linear.lightning_backend.LightningAttentionBackend"


def choose(original, self, model_runner):
    original(self, model_runner)
    backends = model_runner.linear_attn_backends
    self.ejk_phases = {phase for phase in ("decode", "prefill", "verify") if getattr(backends, phase).is_custom()}


def _takes(self, phase, q, k):
    # Queries of another type than keys are of a quantised cache.
    return phase in self.ejk_phases and q.dtype == k.dtype


def _caller(self, layer, q, k, v, scale):
    """The recurrence on rows [N, T, heads, channels], of a layer and its scale. SGLang's own kernels
    multiply f32 rows in TF32."""
    slope = self.tp_slope[layer.layer_id].reshape(-1)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return lambda **where: serving.lightning(q, k, v, slope, scale=scale, f32_matmuls="bf16x3", **where)


def _decode(self, layer, q, k, v, pool, indices, scale):
    """A token of each sequence, [N, heads, channels]."""
    run = _caller(self, layer, *(x[:, None] for x in (q, k, v)), scale)
    return run(**slots(pool, indices)).view(q.shape)


def _prefill(self, layer, q, k, v, pool, indices, scale, offsets, has_states, track_lens=None, track_indices=None):
    """Packed sequences of any length, [rows, heads, channels]. The state after the first `track_lens` rows
    goes to the slot in `track_indices`, below 0 for none."""
    run = _caller(self, layer, *(x[None] for x in (q, k, v)), scale)
    write = indices[:offsets.shape[0] - 1]
    read = torch.where(has_states[:write.shape[0]] > 0, write, -1)
    if track_lens is not None and track_indices is not None:
        wanted = torch.where(track_lens > 0, track_indices, -1).to(write.dtype)
        wanted = torch.where(write >= 0, wanted, -1)
        run(pool=pool, read_slots=firsts(torch.where(wanted >= 0, read, -1)), write_slots=firsts(wanted),
            cu_seqlens=cut(offsets, torch.where(wanted >= 0, track_lens, 0)))
    return run(pool=pool, read_slots=read, write_slots=write, cu_seqlens=offsets).view(q.shape)


def entry(original, self, q, k, v, kv_cache, state_indices_tensor, metadata, layer, mask=None, temp_cache=None,
          intermediate_state_indices=None, track_lens=None, track_state_indices=None):
    """All phases of `seg_la`: [rows, heads, channels] in and out."""
    phase = "verify" if temp_cache is not None else "prefill" if metadata.num_prefills else "decode"
    if mask is not None or not _takes(self, phase, q, k):
        return original(self, q, k, v, kv_cache, state_indices_tensor, metadata, layer, mask, temp_cache,
                        intermediate_state_indices, track_lens, track_state_indices)
    count = metadata.batch_size
    if phase == "verify":
        rows = (x.view(count, -1, *x.shape[1:]) for x in (q, k, v))
        return drafted(_caller(self, layer, *rows, layer.scaling), kv_cache, state_indices_tensor[:count], temp_cache,
                       intermediate_state_indices[:count], q.shape[0] // count).view(q.shape)
    if phase == "decode" and q.shape[0] == count:
        return _decode(self, layer, q, k, v, kv_cache, state_indices_tensor[:count], layer.scaling)
    return _prefill(self, layer, q, k, v, kv_cache, state_indices_tensor, layer.scaling, metadata.query_start_loc,
                    metadata.has_initial_states, track_lens, track_state_indices)


def decode(original, self, q, k, v, kv_cache, state_indices_tensor, metadata, layer):
    """The decoded rows of a batch of `minimax`, whose model scales queries. Returns [rows, heads·channels]."""
    if not _takes(self, "decode", q, k):
        return original(self, q, k, v, kv_cache, state_indices_tensor, metadata, layer)
    q, k, v = (x[metadata.num_prefill_tokens:] for x in (q, k, v))
    return _decode(self, layer, q, k, v, kv_cache, state_indices_tensor[metadata.num_prefills:], 1.0).flatten(1)


def prefill_and_mix(original, self, q, k, v, kv_cache, state_indices_tensor, forward_batch, layer, metadata):
    """A batch of `minimax`: prefills, and decoded rows behind them."""
    if not _takes(self, "prefill", q, k) or not metadata.num_prefills:
        return original(self, q, k, v, kv_cache, state_indices_tensor, forward_batch, layer, metadata)
    rows = metadata.num_prefill_tokens if metadata.num_decodes else q.shape[0]
    o = _prefill(self, layer, q[:rows], k[:rows], v[:rows], kv_cache, state_indices_tensor[:metadata.num_prefills],
                 1.0, metadata.query_start_loc[:metadata.num_prefills + 1], metadata.has_initial_states).flatten(1)
    if not metadata.num_decodes:
        return o
    return torch.cat([o, self._decode_infer(q, k, v, kv_cache, state_indices_tensor, metadata, layer)])


_ROWS = ["q", "k", "v", "kv_cache", "state_indices_tensor", "metadata", "layer"]
HOOKS = {
    f"{_BACKEND}.__init__": (choose, ["model_runner"]),
    f"{_BACKEND}._linear_attention_entry": (
        entry, [*_ROWS, "mask", "temp_cache", "intermediate_state_indices", "track_lens", "track_state_indices"]),
    f"{_BACKEND}._decode_infer": (decode, _ROWS),
    f"{_BACKEND}._prefill_and_mix_infer": (prefill_and_mix, [*_ROWS, "forward_batch"]),
}
