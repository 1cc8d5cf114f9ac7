"""Mamba-2 under vLLM: prefill, decode, and verification of drafts."""

from ejk import serving
from ejk._errors import TensorError

from . import find, note_use

_MIXER = "vllm.model_executor.layers.mamba.mamba_mixer2"


def _begin(function, has=(), lacks=()):
    note_use("mamba2")
    for names, what in ((has, "takes no"), (lacks, "needs")):
        wrong = [f"'{name}'" for name, is_wrong in names if is_wrong]
        if wrong:
            raise TensorError(f"ejk's {function} {what} {', '.join(wrong)}; EJK_VLLM=gdn,kda leaves Mamba-2 "
                              "to vLLM")


def _one_a_head(x):
    """[heads] of what vLLM expands to [heads, P] or [heads, P, S] with strides of 0."""
    return None if x is None else x.reshape(x.shape[0], -1)[:, 0] if x.ndim > 1 else x


def decode(state, x, dt, A, B, C, D, dt_bias, z=None, dt_softplus=False, state_batch_indices=None,
           dst_state_batch_indices=None, null_block_id=0, out=None, num_accepted_tokens=None,
           cu_seqlens=None, is_blackwell=False):
    """A token of each sequence, or packed sequences of drafted ones; x [rows, heads, P]. `is_blackwell`
    tunes vLLM's kernel."""
    _begin("selective_state_update", has=[("z", z is not None)],
           lacks=[("state_batch_indices", state_batch_indices is None), ("out", out is None)])
    read = state_batch_indices
    write = read if dst_state_batch_indices is None else dst_state_batch_indices
    rows = 1  # of x, as [N, 1, ...], or packed
    accepted = num_accepted_tokens
    if cu_seqlens is not None:
        rows, sequences = 0, cu_seqlens.shape[0] - 1
        read, write = read[:sequences], write[:sequences]
        accepted = None if accepted is None else accepted[:sequences]
    if accepted is None:
        read, write = (at[:, 0] if at.ndim == 2 else at for at in (read, write))
    x, dt, B, C = (t.unsqueeze(rows) for t in (x, dt[..., 0] if dt.ndim == 3 else dt, B, C))
    y = serving.mamba2(x, dt, _one_a_head(A), B, C, _one_a_head(D), _one_a_head(dt_bias),
                       softplus=dt_softplus, pool=state, read_slots=read, write_slots=write,
                       accepted=accepted, first_slot=null_block_id + 1, cu_seqlens=cu_seqlens)
    out.copy_(y.view(out.shape))


def prefill_instead_of(original):
    def prefill(x, dt, A, B, C, chunk_size, cu_seqlens, cu_chunk_seqlens, last_chunk_indices, seq_idx,
                out, D=None, z=None, dt_bias=None, initial_states=None, dt_softplus=False,
                dt_limit=(0.0, float("inf")), return_intermediate_states=False, state_dtype=None,
                final_states_out=None, final_state_indices=None):
        """Packed sequences of any length. Those whose states vLLM asks for at chunks' ends are
        computed by vLLM. What it says of chunks belongs to its own kernel."""
        if return_intermediate_states or final_states_out is None:
            return original(x, dt, A, B, C, chunk_size, cu_seqlens, cu_chunk_seqlens,
                            last_chunk_indices, seq_idx, out, D, z, dt_bias, initial_states,
                            dt_softplus, dt_limit, return_intermediate_states, state_dtype,
                            final_states_out, final_state_indices)
        _begin("mamba_chunk_scan_combined_varlen",
               has=[("z", z is not None), ("dt_limit", tuple(dt_limit) != (0.0, float("inf")))])
        read = None
        if initial_states is not None:
            final_states_out[final_state_indices] = initial_states.to(final_states_out.dtype)
            read = final_state_indices
        y = serving.mamba2(x[None], dt[None], A, B[None], C[None], _one_a_head(D), dt_bias,
                           softplus=dt_softplus, pool=final_states_out, read_slots=read,
                           write_slots=final_state_indices, first_slot=1, cu_seqlens=cu_seqlens)
        out.copy_(y.view(out.shape))
        return None
    return prefill


def install(patch):
    patch.replace("vllm", find(_MIXER, "selective_state_update",
                               ["state", "x", "dt", "A", "B", "C", "D", "dt_bias", "dt_softplus",
                                "state_batch_indices", "dst_state_batch_indices", "null_block_id",
                                "out", "num_accepted_tokens", "cu_seqlens"]), decode)
    chunks = find(_MIXER, "mamba_chunk_scan_combined_varlen",
                  ["x", "dt", "A", "B", "C", "cu_seqlens", "out", "D", "dt_bias", "initial_states",
                   "dt_softplus", "final_states_out", "final_state_indices",
                   "return_intermediate_states"])
    patch.replace("vllm", chunks, prefill_instead_of(chunks))
