"""Mamba-2 under SGLang: decode and verification of drafts as a backend of `selective_state_update`, and
prefill, with the states that a prefix cache asks for. Drafts in a tree go to SGLang's own backend."""

import torch
from sglang.kernels.ops.mamba.triton_ops import ssu_dispatch
from sglang.srt.arg_groups.overrides import resolved_view

from ejk import serving

from .pools import cut, drafted, firsts, slots

_BACKEND = "sglang.srt.layers.attention.hybrid_linear_attn_backend.Mamba2AttnBackend"
_SSU = "sglang.kernels.ops.mamba.triton_ops"


def _one_a_head(x):
    """[heads] of what SGLang expands to [heads, P] or [heads, P, S] with strides of 0."""
    while x is not None and x.ndim > 1:
        x = x[..., 0]
    return x


class EjkSSUBackend(ssu_dispatch.MambaSSUBackend):
    """ejk's for the phases that are chosen, and `own`, SGLang's, for the others."""

    def __init__(self, own, decode, prefill, verify):
        self.own, self.decode, self.prefill, self.verify = own, decode, prefill, verify

    @property
    def name(self):
        return "ejk"

    def __call__(self, state, x, dt, A, B, C, D=None, z=None, dt_bias=None, dt_softplus=False,
                 state_batch_indices=None, pad_slot_id=-1, out=None, disable_state_update=False,
                 intermediate_states_buffer=None, cache_steps=None, retrieve_parent_token=None,
                 intermediate_state_indices=None):
        is_draft = disable_state_update
        takes = (z is None and state_batch_indices is not None and pad_slot_id == -1 and out is not None
                 and retrieve_parent_token is None)
        if is_draft:
            takes = takes and intermediate_state_indices is not None and x.ndim == 4
        else:
            takes = takes and intermediate_states_buffer is None and x.ndim == 3
        if not takes or not (self.verify if is_draft else self.decode):
            return self.own(
                state, x, dt, A, B, C, D=D, z=z, dt_bias=dt_bias, dt_softplus=dt_softplus,
                state_batch_indices=state_batch_indices, pad_slot_id=pad_slot_id, out=out,
                disable_state_update=disable_state_update,
                intermediate_states_buffer=intermediate_states_buffer, cache_steps=cache_steps,
                retrieve_parent_token=retrieve_parent_token,
                intermediate_state_indices=intermediate_state_indices)
        rows = (x, dt[..., 0], B, C)
        x, dt, B, C = rows if is_draft else (t[:, None] for t in rows)

        def run(**pools):
            return serving.mamba2(x, dt, _one_a_head(A), B, C, _one_a_head(D), _one_a_head(dt_bias),
                                  softplus=dt_softplus, **pools)
        if is_draft:
            y = drafted(run, state, state_batch_indices, intermediate_states_buffer,
                        intermediate_state_indices, x.shape[1])
        else:
            y = run(**slots(state, state_batch_indices))
        out.copy_(y.view(out.shape))


def _chosen():
    backend = ssu_dispatch._mamba_ssu_backend
    return backend if isinstance(backend, EjkSSUBackend) else None


def choose(original, server_args):
    """Runs around what makes SGLang's backend. A `--mamba-backend` other than the default stays, and so does
    Triton where states are rounded stochastically."""
    original(server_args)
    given = resolved_view(server_args)
    decode = given.linear_attn_decode_backend or given.linear_attn_backend
    chosen = [name == "ejk" for name in (decode, given.linear_attn_prefill_backend or given.linear_attn_backend,
                                         given.linear_attn_verify_backend or decode)]
    own = ssu_dispatch._mamba_ssu_backend
    if any(chosen) and own.name == "triton" and not given.enable_mamba_cache_stochastic_rounding:
        ssu_dispatch._mamba_ssu_backend = EjkSSUBackend(own, *chosen)


def _track(run, states, offsets, sequences, ends):
    """The states after row `ends[i]` of the batch, which is one of sequence `sequences[i]`, or before that
    sequence's first row: by a call in which each sequence is cut there, and what is behind is skipped."""
    sequences = sequences.long()
    tracked = states[sequences]
    at = torch.full_like(offsets[:-1], -1)
    at[sequences] = torch.arange(len(sequences), device=at.device, dtype=at.dtype)
    rows = torch.zeros_like(at)
    rows[sequences] = ends.to(rows.dtype) - offsets[:-1][sequences]
    at = firsts(at)
    run(tracked, at, at, cut(offsets, rows))
    return tracked


def scan(original, x, dt, A, B, C, chunk_size, **named):
    """Packed sequences of any length; [1, rows, ...]. SGLang gathers and scatters their states. `named`
    says of chunks what belongs to other kernels."""
    chosen = _chosen()
    if chosen is None or not chosen.prefill or not named.get("return_track_states") or named.get("z") is not None \
            or tuple(named.get("dt_limit", (0.0, float("inf")))) != (0.0, float("inf")):
        return original(x, dt, A, B, C, chunk_size, **named)
    offsets, states = named["cu_seqlens"], named.get("initial_states")
    own = torch.arange(offsets.shape[0] - 1, device=offsets.device, dtype=torch.int32)
    is_new = states is None
    if is_new:
        states = x.new_zeros((own.shape[0], *x.shape[2:], B.shape[-1]), dtype=named.get("state_dtype") or C.dtype)

    def run(pool, read, write, ends):
        return serving.mamba2(x, dt, A, B, C, named.get("D"), named.get("dt_bias"),
                              softplus=named.get("dt_softplus", False), pool=pool, read_slots=read,
                              write_slots=write, cu_seqlens=ends)
    sequences, tracked = named.get("track_seq_idx"), None
    if sequences is not None and sequences.numel():
        tracked = _track(run, states, offsets, sequences, named["track_end_locs"])[None]
    y = run(states, None if is_new else own, own, offsets)
    named["out"].copy_(y.view(named["out"].shape))
    # States at multiples of `chunk_size` are not kept: `track` has made SGLang ask for each one it wants.
    return x.new_empty(1, 0), states, tracked


def track(original, self, mamba_cache_indices, forward_batch):
    """Runs around what says which states a prefix cache wants: those at multiples of the chunk size, too,
    are asked for by the row that they come after."""
    chunks, h_src, h_dst, rows, final_src, final_dst, *recomputed = original(self, mamba_cache_indices, forward_batch)
    chosen = _chosen()
    if chosen is None or not chosen.prefill:
        return chunks, h_src, h_dst, rows, final_src, final_dst, *recomputed
    lengths = forward_batch.extend_seq_lens.to(rows.device)
    starts = lengths.cumsum(0) - lengths
    ends = starts[rows] + chunks[rows] * self.mamba_chunk_size
    wanted = forward_batch.mamba_track_indices.to(rows.device)[rows]
    return chunks, h_src[:0], h_dst[:0], rows, final_src, final_dst, rows, ends, wanted


HOOKS = {
    f"{_SSU}.ssu_dispatch.initialize_mamba_selective_state_update_backend": (choose, ["server_args"]),
    f"{_SSU}.ssd_combined.mamba_chunk_scan_combined": (
        scan, ["x", "dt", "A", "B", "C", "chunk_size", "D", "z", "dt_bias", "initial_states", "cu_seqlens",
               "dt_softplus", "dt_limit", "out", "state_dtype", "return_track_states", "track_seq_idx",
               "track_end_locs"]),
    f"{_BACKEND}._init_track_ssm_indices": (track, ["mamba_cache_indices", "forward_batch"]),
}
