"""Puts ejk under the recurrent layers of Hugging Face's transformers: Qwen3-Next, Kimi Linear, Mamba-2,
MiniMax and their kin."""

import functools
import inspect
import sys

import torch

from .._errors import TensorError
from . import _layers, _scans, fla
from ._patch import Patch

# What models call the functions: those that fall back to torch, and, before version 5, fla's own.
_NAMES = {"torch_chunk_gated_delta_rule": fla.chunk_gated_delta_rule,
          "chunk_gated_delta_rule": fla.chunk_gated_delta_rule,
          "torch_recurrent_gated_delta_rule": fla.fused_recurrent_gated_delta_rule,
          "fused_recurrent_gated_delta_rule": fla.fused_recurrent_gated_delta_rule,
          "chunk_kimi_delta_attention": fla.chunk_kda,
          "recurrent_kimi_delta_attention": fla.fused_recurrent_kda}
_CONVOLUTION = "causal_conv1d_fn"


def _filtered(function, convolves):
    """transformers passes a model's keywords on to each kernel, which takes what it knows; so these
    alone are dropped. `convolves`: the layer's convolution keeps packed sequences apart, too."""
    own = inspect.signature(function).parameters
    names = {n for n, p in own.items() if p.kind is not p.VAR_KEYWORD} - {"cu_seqlens"}

    @functools.wraps(function)
    def call(query, key, value, g=None, beta=None, **named):  # what follows stands in another order
        cu_seqlens = _layers.offsets(named)
        if cu_seqlens is not None:
            if not convolves:
                raise NotImplementedError(
                    "packed sequences need a release of transformers whose models call "
                    f"'{_CONVOLUTION}'; in this one the convolution before the recurrence runs on "
                    "from one sequence into the next")
            if named.get("initial_state") is not None:
                raise NotImplementedError("packed sequences do not continue a cache; give them "
                                          "without 'past_key_values'")
        return function(query, key, value, g=g, beta=beta, cu_seqlens=cu_seqlens,
                        **{n: x for n, x in named.items() if n in names})
    return call


def _packed_convolution(rows, weight, bias, activation, cu_seqlens):
    """The causal convolution of each sequence by itself; rows [1, channels, T]."""
    width, steps = weight.shape[-1], rows.shape[-1]
    if rows.shape[0] != 1:
        raise TensorError(f"packed sequences have a batch of 1, but it is {rows.shape[0]}")
    if steps == width:
        raise NotImplementedError(f"{_CONVOLUTION} takes no packed batch of {width} rows, the "
                                  "convolution's width: a cache may have padded it; give it a row "
                                  "more")
    positions = torch.arange(steps, device=rows.device)
    first = cu_seqlens.to(positions)[torch.searchsorted(cu_seqlens.to(positions), positions,
                                                        right=True) - 1]
    own = rows.to(weight.dtype)
    out = own * weight[:, -1, None]
    for back in range(1, min(width, steps)):
        earlier = torch.nn.functional.pad(own, (back, 0))[..., :steps]
        out = out + torch.where(positions - back >= first, earlier, 0) * weight[:, -1 - back, None]
    if bias is not None:
        out = out + bias[:, None]
    if activation is not None:
        from transformers.activations import ACT2FN
        out = ACT2FN[activation](out)
    return out.to(rows.dtype)


def _separating(convolution):
    """`causal_conv1d_fn`, which keeps packed sequences apart."""
    @functools.wraps(convolution)
    def causal_conv1d_fn(hidden_states, weight, bias=None, activation=None, **named):
        cu_seqlens = _layers.offsets(named)
        if cu_seqlens is None:
            return convolution(hidden_states, weight, bias, activation=activation, **named)
        return _packed_convolution(hidden_states, weight, bias, activation, cu_seqlens)
    return causal_conv1d_fn


def _replace_layers(patch, module):
    """Puts ejk's blocks and recurrences into a model's layers; whether it has some."""
    kinds = [kind for kind in vars(module).values()
             if inspect.isclass(kind) and kind.__module__ == module.__name__ and issubclass(kind, torch.nn.Module)]
    forwards = {kind: _layers.forward_of(kind) for kind in kinds}
    forwards = {kind: forward for kind, forward in forwards.items() if forward}
    for kind, forward in forwards.items():
        patch.set(kind, "forward", forward)
    for kind in kinds if forwards else ():
        if _layers.passes_keywords(kind, "layers"):
            patch.set(kind, "forward", _layers.with_offsets(vars(kind)["forward"]))
        elif _layers.passes_keywords(kind, "backbone"):
            patch.set(kind, "forward", _layers.with_packing(vars(kind)["forward"]))
    scans = _scans.replacements(module, kinds)
    for owner, name, function in scans:
        patch.set(owner, name, function)
    return bool(forwards or scans)


def install():
    """Puts ejk's blocks into the models of transformers that are imported already: gated DeltaNet, Kimi delta
    attention and Mamba-2, each from its short convolution to its gated norm. Where a block does not take a layer, its
    recurrence alone is ejk's, but for Mamba-2's. Of lightning attention, Mamba, RWKV-4, xLSTM and RG-LRU the
    recurrence is ejk's. Packed sequences (`cu_seq_lens_q`, `seq_idx` or `position_ids`) stay apart, in the
    convolution too, or are an error. docs/moving-from-fla.md lists the models.

    Returns a patch: its `remove()` undoes all, and so does the end of a `with` block. Call it
    before a model is made: layers of some versions store the function when they are made."""
    patch, found = Patch(), 0
    for name, module in list(sys.modules.items()):
        if not name.startswith("transformers.models.") or ".modeling_" not in name:
            continue
        members = vars(module)
        own = [n for n in _NAMES if n in members]
        if not _replace_layers(patch, module) and not own:
            continue
        found += 1
        convolution = members.get(_CONVOLUTION)
        for function in own:
            patch.set(module, function, _filtered(_NAMES[function], convolution is not None))
        if own and convolution is not None:
            patch.set(module, _CONVOLUTION, _separating(convolution))
    if not found:
        raise RuntimeError("no model of transformers with a recurrence that ejk computes is imported; import it "
                           "first, such as "
                           "transformers.models.qwen3_next.modeling_qwen3_next")
    return patch


__all__ = ["install"]
