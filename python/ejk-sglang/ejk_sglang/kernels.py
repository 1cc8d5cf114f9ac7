"""SGLang's kernel classes with ejk's recurrences. What ejk has no kernel for goes to the classes that
they extend: drafts in a tree, replay, and a prefill whose states are asked for at every chunk."""

import torch
from sglang.srt.layers.attention.linear.kernels.gdn_triton import TritonGDNKernel
from sglang.srt.layers.attention.linear.kernels.kda_triton import TritonKDAKernel

from ejk import serving
from ejk.compat.fla import chunk_gated_delta_rule, chunk_kda

from .pools import cut, drafted, firsts, slots

_REPLAY = ("replayssm_d", "replayssm_k", "replayssm_g", "replayssm_write_pos")


def _parts(mixed_qkv, pool):
    """q, k and v of a row each, [N, 1, heads, channels]."""
    HV, V, K = pool.shape[-3:]
    N, channels = mixed_qkv.shape
    H = (channels - HV * V) // (2 * K)
    q, k, v = mixed_qkv.split([H * K, H * K, HV * V], -1)
    return q.view(N, 1, H, K), k.view(N, 1, H, K), v.view(N, 1, HV, V)


_CHUNK = 64  # rows between the states that a prefix cache can ask for


def _track(run, ssm_states, cache_indices, offsets, track_state, track_chunk_idx):
    """Writes each sequence's state before its chunk `track_chunk_idx`, below 0 for none, to its row of
    `track_state`: by a call whose sequences are each cut in two there, of which the second is skipped."""
    rows = track_chunk_idx.clamp(min=0) * _CHUNK
    own = torch.arange(rows.shape[0], device=rows.device, dtype=torch.int32)
    tracked = (track_chunk_idx >= 0) & (cache_indices >= 0)
    track_state.copy_(ssm_states[cache_indices.clamp(min=0).long()])
    run(track_state, firsts(torch.where(tracked, own, -1)), cut(offsets, rows))


class EjkGDNKernel(TritonGDNKernel):
    """Gated DeltaNet."""

    supports_packed_decode = True
    supports_strided_target_verify_qkv = True
    supports_track_state_snapshot = True

    def packed_decode(self, mixed_qkv, a, b, *, A_log, dt_bias, scale, ssm_states, cache_indices,
                      num_v_heads, head_v_dim, **kwargs):
        if all(kwargs.get(name) is not None for name in _REPLAY):
            return super().packed_decode(
                mixed_qkv, a, b, A_log=A_log, dt_bias=dt_bias, scale=scale, ssm_states=ssm_states,
                cache_indices=cache_indices, num_v_heads=num_v_heads, head_v_dim=head_v_dim, **kwargs)
        o = serving.gated_delta_rule(*_parts(mixed_qkv, ssm_states), a[:, None], b[:, None], A_log,
                                     dt_bias, scale=scale, **slots(ssm_states, cache_indices))
        return o.transpose(0, 1)

    def decode(self, q, k, v, a, b, *, A_log, dt_bias, ssm_states, cache_indices, query_start_loc,
               **kwargs):
        return serving.gated_delta_rule(
            q, k, v, a[None], b[None], A_log, dt_bias, cu_seqlens=query_start_loc,
            **slots(ssm_states, cache_indices[:query_start_loc.shape[0] - 1]))

    def extend(self, q, k, v, g, beta, *, ssm_states, cache_indices, query_start_loc,
               inplace_update=True, **kwargs):
        if not inplace_update or kwargs.get("num_state_checkpoints"):
            return super().extend(q, k, v, g, beta, ssm_states=ssm_states,
                                  cache_indices=cache_indices, query_start_loc=query_start_loc,
                                  inplace_update=inplace_update, **kwargs)

        def run(pool, indices, offsets):
            with torch.no_grad():
                return chunk_gated_delta_rule(
                    q, k, v, g, beta, initial_state=pool, use_qk_l2norm_in_kernel=True,
                    state_v_first=True, cu_seqlens=offsets, ssm_state_indices=indices,
                    inplace_final_state=True)[0]
        if kwargs.get("track_state") is not None:
            _track(run, ssm_states, cache_indices, query_start_loc, kwargs["track_state"],
                   kwargs["track_chunk_idx"])
        return run(ssm_states, cache_indices, query_start_loc), None, None

    def target_verify(self, A_log, dt_bias, q, k, v, a, b, *, ssm_states, cache_indices,
                      query_start_loc, intermediate_states_buffer, intermediate_state_indices,
                      cache_steps, retrieve_parent_token, **kwargs):
        if retrieve_parent_token is not None:
            return super().target_verify(
                A_log, dt_bias, q, k, v, a, b, ssm_states=ssm_states, cache_indices=cache_indices,
                query_start_loc=query_start_loc,
                intermediate_states_buffer=intermediate_states_buffer,
                intermediate_state_indices=intermediate_state_indices, cache_steps=cache_steps,
                retrieve_parent_token=retrieve_parent_token, **kwargs)
        N = query_start_loc.shape[0] - 1
        return drafted(
            lambda **pools: serving.gated_delta_rule(q, k, v, a[None], b[None], A_log, dt_bias,
                                                     cu_seqlens=query_start_loc, **pools),
            ssm_states, cache_indices[:N], intermediate_states_buffer,
            intermediate_state_indices[:N], cache_steps)


class EjkKDAKernel(TritonKDAKernel):
    """Kimi delta attention. Gates and betas come as projections leave them, in several shapes."""

    supports_packed_decode = True
    supports_safe_gate_verify = True
    supports_track_state_snapshot = True
    # The fused verification writes rings of its own.
    supports_fused_chain_verify = False

    @staticmethod
    def _run(q, k, v, a, b, A_log, dt_bias, lower_bound, scale=None, **pools):
        N, T, H, K = k.shape
        return serving.kimi_delta_attention(
            q, k, v, a.reshape(N, T, -1, K), b.reshape(N, T, -1), A_log.reshape(-1), dt_bias,
            lower_bound=lower_bound, scale=scale, **pools)

    def packed_decode(self, mixed_qkv, a, b, *, A_log, dt_bias, scale, ssm_states, cache_indices,
                      num_v_heads, head_v_dim, lower_bound=None, **kwargs):
        if lower_bound is None and all(kwargs.get(name) is not None for name in _REPLAY):
            return super().packed_decode(
                mixed_qkv, a, b, A_log=A_log, dt_bias=dt_bias, scale=scale, ssm_states=ssm_states,
                cache_indices=cache_indices, num_v_heads=num_v_heads, head_v_dim=head_v_dim, **kwargs)
        o = self._run(*_parts(mixed_qkv, ssm_states), a, b, A_log, dt_bias, lower_bound, scale,
                      **slots(ssm_states, cache_indices))
        return o.transpose(0, 1)

    def decode(self, q, k, v, a, b, *, A_log, dt_bias, ssm_states, cache_indices, query_start_loc,
               lower_bound=None, **kwargs):
        return self._run(q, k, v, a, b, A_log, dt_bias, lower_bound, cu_seqlens=query_start_loc,
                         **slots(ssm_states, cache_indices[:query_start_loc.shape[0] - 1]))

    def extend(self, q, k, v, g, beta, *, ssm_states, cache_indices, query_start_loc, A_log=None,
               dt_bias=None, lower_bound=None, beta_is_raw=False, return_intermediate_states=False,
               **kwargs):
        tracked = kwargs.get("track_state")
        if kwargs.get("num_state_checkpoints"):
            return super().extend(
                q, k, v, g, beta, ssm_states=ssm_states, cache_indices=cache_indices,
                query_start_loc=query_start_loc, A_log=A_log, dt_bias=dt_bias,
                lower_bound=lower_bound, beta_is_raw=beta_is_raw,
                return_intermediate_states=return_intermediate_states, **kwargs)
        N, T, H, K = k.shape

        def run(pool, indices, offsets):
            with torch.no_grad():
                return chunk_kda(
                    q, k, v, g.reshape(N, T, -1, K), beta.reshape(N, T, -1), initial_state=pool,
                    use_qk_l2norm_in_kernel=True, use_gate_in_kernel=A_log is not None,
                    use_beta_sigmoid_in_kernel=beta_is_raw, lower_bound=lower_bound,
                    safe_gate=lower_bound is not None, state_v_first=True, cu_seqlens=offsets,
                    A_log=None if A_log is None else A_log.reshape(-1), dt_bias=dt_bias,
                    ssm_state_indices=indices, inplace_final_state=True)[0]
        if tracked is not None:
            _track(run, ssm_states, cache_indices, query_start_loc, tracked,
                   kwargs["track_chunk_idx"])
        o = run(ssm_states, cache_indices, query_start_loc)
        return (o, None) if return_intermediate_states else o

    def target_verify(self, A_log, dt_bias, q, k, v, a, b, *, ssm_states, cache_indices,
                      query_start_loc, intermediate_states_buffer, intermediate_state_indices,
                      cache_steps, retrieve_parent_token, lower_bound=None, cache_ring=False, **kwargs):
        if retrieve_parent_token is not None or cache_ring:
            return super().target_verify(
                A_log, dt_bias, q, k, v, a, b, ssm_states=ssm_states, cache_indices=cache_indices,
                query_start_loc=query_start_loc,
                intermediate_states_buffer=intermediate_states_buffer,
                intermediate_state_indices=intermediate_state_indices, cache_steps=cache_steps,
                retrieve_parent_token=retrieve_parent_token, lower_bound=lower_bound,
                cache_ring=cache_ring, **kwargs)
        N = query_start_loc.shape[0] - 1
        return drafted(
            lambda **pools: self._run(q, k, v, a, b, A_log, dt_bias, lower_bound,
                                      cu_seqlens=query_start_loc, **pools),
            ssm_states, cache_indices[:N], intermediate_states_buffer,
            intermediate_state_indices[:N], cache_steps)


KERNELS = {"gdn": EjkGDNKernel, "kda": EjkKDAKernel}
