"""Layers of transformers whose recurrence has no block of `ejk.ops`: MiniMax's lightning attention, Mamba's
selective scan, RWKV-4, xLSTM's matrix memory and RecurrentGemma's RG-LRU.

Projections and norms stay transformers' own. As in `_layers`, a class or function that is not known
keeps its own code."""

import dis
import functools
import importlib.util

import torch
import torch.nn.functional as F

from .. import _functions as f
from .. import ops
from .._outside import wide
from .._recurrence import Recurrence
from .._short_convolution import MOST_CHANNELS, convolved_apart, taps_of
from . import _layers
from ._layers import Kept, check_packed, code_of, masked, offsets, parameters_of, takes_convolution


def _heads(x, most=64):
    """Channels that know nothing of each other as heads of at most `most`: x [..., heads, channels]."""
    total = x.shape[-1]
    size = next(n for n in range(min(most, total), 0, -1) if total % n == 0)
    return x.unflatten(-1, (total // size, size))


def _state_type(rows):
    return torch.float64 if rows.dtype == torch.float64 else torch.float32


#===------------------------------------------------------------------------===#
# Lightning attention
#===------------------------------------------------------------------------===#

_LIGHTNING = ["self", "hidden_states", "position_embeddings", "attention_mask", "cache", "kwargs"]
_LIGHTNING_NAMES = {"qkv_proj", "act_fn", "num_attention_heads", "head_dim", "slope_rate", "query_decay", "key_decay",
                    "diagonal_decay", "norm", "output_gate", "out_proj", "get_linear_cache", "set_linear_cache"}


def _lightning_attention(own):
    @functools.wraps(own)
    def forward(self, hidden_states, position_embeddings=None, attention_mask=None, cache=None, **named):
        if self.head_dim > MOST_CHANNELS or "past_key_values" in named:
            return own(self, hidden_states, position_embeddings, attention_mask, cache=cache, **named)
        state = None if cache is None else cache.get_linear_cache(self.layer_idx)
        cu_seqlens = offsets(named)
        check_packed(cu_seqlens, hidden_states.shape[0], state)
        rows = masked(self.act_fn(self.qkv_proj(hidden_states)), attention_mask)
        q, k, v = rows.unflatten(-1, (self.num_attention_heads, 3 * self.head_dim)).split(self.head_dim, -1)
        state = None if state is None else state.to(_state_type(q))
        o, state = ops.simple_gla(q, k, v, g_gamma=-wide(self.slope_rate.flatten()), scale=1.0, initial_state=state,
                                  cu_seqlens=cu_seqlens)
        o = torch.sigmoid(self.output_gate(hidden_states)) * self.norm(o.flatten(2))
        if cache is not None:
            cache.set_linear_cache(self.layer_idx, state)
        return self.out_proj(o), state
    return forward


#===------------------------------------------------------------------------===#
# Mamba's selective scan
#===------------------------------------------------------------------------===#


# A channel is a head, whose state is a vector: each of its slots decays by a rate of its own. z is first: the
# output has its type.
def _selective_scan(state, z, x, dt, A, B, C, D, bias):
    dt = f.softplus(dt if bias is None else dt + bias)
    state = state * f.exp(dt * A) + (dt * x) * B
    return state, (f.sum(state * C) + D * x) * f.silu(z)


_SELECTIVE_SCAN = Recurrence(_selective_scan, 1, False)


@functools.lru_cache(maxsize=None)
def _has_mamba_kernels():
    return importlib.util.find_spec("mamba_ssm") is not None


def _takes_mamba(layer):
    # mamba_ssm's kernel for GPUs has not been timed against this one.
    return (takes_convolution(layer) and layer.ssm_state_size <= MOST_CHANNELS
            and not (layer.A_log.is_cuda and _has_mamba_kernels()))


def _mamba_rows(layer, hidden_states, channels):
    """The rows that are convolved and those of the gate, [B, T, channels] each."""
    rows = layer.in_proj(hidden_states)
    if hasattr(layer, "x_proj_weight"):  # Zamba's: the two of a channel beside each other
        return rows.unflatten(-1, (channels, 2)).unbind(-1)
    return rows.split(channels, -1)


def _mamba_parameters(layer, x):
    """dt before its bias [B, T, channels], that bias, and B and C [B, T, groups, slots]."""
    sizes = [layer.time_step_rank, layer.ssm_state_size, layer.ssm_state_size]
    if hasattr(layer, "x_proj_weight"):  # Zamba's: each head has projections of its own
        heads = x.unflatten(-1, (layer.n_mamba_heads, layer.mamba_head_dim))
        dt, B, C = torch.einsum("bthp,hrp->bthr", heads, layer.x_proj_weight).split(sizes, -1)
        return torch.einsum("bthr,hpr->bthp", dt, layer.dt_proj_weight).flatten(2), layer.dt_proj_bias, B, C
    dt, B, C = layer.x_proj(x).split(sizes, -1)
    if hasattr(layer, "dt_layernorm"):
        dt, B, C = layer.dt_layernorm(dt), layer.b_layernorm(B), layer.c_layernorm(C)
    bias = layer.dt_proj.bias
    if hasattr(layer.config, "_is_quantized"):
        dt = layer.dt_proj(dt) - bias
    else:
        dt = F.linear(dt, layer.dt_proj.weight)
    return dt, bias, B[:, :, None], C[:, :, None]


def _mamba(layer, hidden_states, cache, named, mask):
    slots = layer.ssm_state_size
    channels = layer.A_log.numel() // slots
    kept = Kept(layer, cache, named, hidden_states.shape[0])
    rows, z = _mamba_rows(layer, hidden_states, channels)
    heads = _heads(rows)
    options = kept.options(heads.shape[2:])
    before = options.pop("conv_state")
    state = options["initial_state"]
    if state is not None:
        options["initial_state"] = state.reshape(-1, channels, slots)
    width, taps, biases = taps_of(layer.conv1d.weight, layer.conv1d.bias, [heads.shape[2:]], "the rows")
    before = (None,) if before is None or width == 1 else before
    (x,), _ = convolved_apart((heads,), taps, biases, before, 0, 0, kept.cu_seqlens)
    x = masked(x.flatten(2), mask)
    dt, bias, B, C = _mamba_parameters(layer, x)
    A = -torch.exp(wide(layer.A_log))
    o, last = _SELECTIVE_SCAN(z, x, dt, A.reshape(channels, slots), B, C, layer.D.flatten(),
                              None if bias is None else bias.flatten(), **options)
    kept.keep(lambda: rows, last.reshape(-1, *layer.A_log.shape))
    return layer.out_proj(o)


_MAMBA_NAMES = {"mamba_selective_scan", "mamba_selective_state_update", "in_proj", "A_log", "D", "out_proj",
                "time_step_rank", "ssm_state_size"}
_KNOWN = (
    (_MAMBA_NAMES | {"x_proj", "dt_proj"}, _takes_mamba, _mamba),
    (_MAMBA_NAMES | {"x_proj_weight", "dt_proj_weight", "dt_proj_bias", "n_mamba_heads", "mamba_head_dim"},
     _takes_mamba, _mamba),
)

#===------------------------------------------------------------------------===#
# RWKV-4
#===------------------------------------------------------------------------===#

_WKV = ["time_decay", "time_first", "key", "value", "state", "return_state"]
_LEAST = -1e38  # the maximum before the first row


# A numerator and a denominator for each channel, both divided by exp(top).
def _wkv(numerator, denominator, top, key, value, decay, first):
    own = key + first
    best = f.maximum(top, own)
    before, now = f.exp(top - best), f.exp(own - best)
    o = (before * numerator + now * value) / (before * denominator + now)
    best = f.maximum(top + decay, key)
    before, now = f.exp(top + decay - best), f.exp(key - best)
    return before * numerator + now * value, before * denominator + now, best, o


_WKV_RECURRENCE = Recurrence(_wkv, 3, False)


def _rwkv_attention(module, own):
    @functools.wraps(own)
    def rwkv_linear_attention(time_decay, time_first, key, value, state=None, return_state=False):
        if key.is_cuda and getattr(module, "rwkv_cuda_kernel", None) is not None:
            return own(time_decay, time_first, key, value, state=state, return_state=return_state)
        rows = _heads(key)
        if state is None:
            initial = None, None, rows.new_full((rows.shape[0], *rows.shape[2:]), _LEAST, dtype=_state_type(rows))
        else:
            initial = tuple(_heads(x.to(_state_type(key))) for x in state)
        o, last = _WKV_RECURRENCE(rows, _heads(value), _heads(-torch.exp(time_decay)), _heads(time_first),
                                  initial_state=initial)
        given = return_state or state is not None
        return o.flatten(2), [x.flatten(1) for x in last] if given else None
    return rwkv_linear_attention


#===------------------------------------------------------------------------===#
# RecurrentGemma's RG-LRU
#===------------------------------------------------------------------------===#

_RG_LRU = ["self", "hidden_states", "recurrent_gate", "reset", "recurrent_states", "acc_dtype"]


def _gated_sum(state, x, gate):
    state = state * gate + x
    return state, state


_GATED_SUM = Recurrence(_gated_sum, 1, False)


def _rg_lru(own):
    @functools.wraps(own)
    def _rnn_scan(self, hidden_states, recurrent_gate, reset, recurrent_states, acc_dtype=torch.float32):
        if acc_dtype != torch.float32:
            return own(self, hidden_states, recurrent_gate, reset, recurrent_states, acc_dtype)
        state = recurrent_states
        if state is not None:
            state = _heads(state.to(hidden_states.device, _state_type(hidden_states)))
        # At a reset the gate is 0: it is a factor here, no logarithm.
        o, state = _GATED_SUM(_heads(hidden_states), _heads(recurrent_gate * ~reset), initial_state=state)
        return o.flatten(2), state.flatten(1).to(acc_dtype)
    return _rnn_scan


#===------------------------------------------------------------------------===#
# xLSTM's matrix memory
#===------------------------------------------------------------------------===#

_MLSTM = ["self", "query", "key", "value", "igate", "fgate", "c_initial", "n_initial", "m_initial",
          "return_last_states", "mode"]


def _matrix_memory(own):
    @functools.wraps(own)
    def forward(self, query, key, value, igate, fgate, c_initial=None, n_initial=None, m_initial=None,
                return_last_states=None, mode=None):
        config, channels = self.config, query.shape[-1]
        mode = config.mode if mode is None else mode
        if mode not in ("train", "inference") or max(channels, value.shape[-1]) > MOST_CHANNELS:
            return own(self, query, key, value, igate, fgate, c_initial, n_initial, m_initial, return_last_states, mode)
        states = c_initial, n_initial, None if m_initial is None else m_initial.squeeze(-1)
        cu_seqlens = offsets(_layers.packing_of(self))
        check_packed(cu_seqlens, query.shape[0], c_initial, "use_cache=False")
        q, k, v, i, g = (x.transpose(1, 2) for x in (query, key, value, igate, fgate))
        # Queries are scaled, not keys, as in the states of a cache.
        o, (C, n, m) = ops.mlstm(q * channels ** -0.5, k, v, i, g, scale=1.0, eps=config.eps, cu_seqlens=cu_seqlens,
                                 initial_state=tuple(None if x is None else x.to(_state_type(q)) for x in states))
        o = o.transpose(1, 2)
        if mode == "train" and not (config.return_last_states if return_last_states is None else return_last_states):
            return o
        return o, (C, n, m[..., None])
    return forward


#===------------------------------------------------------------------------===#
# What stands in a module
#===------------------------------------------------------------------------===#


def _replaced_in(kind):
    """What is replaced in a class: the method's name and ejk's function in its place, or None."""
    own, scan = (vars(kind).get(name) for name in ("forward", "_rnn_scan"))
    if code_of(scan) is not None and parameters_of(scan) == _RG_LRU:
        return "_rnn_scan", _rg_lru(scan)
    if code_of(own) is None:
        return None
    parameters, names = parameters_of(own), set(code_of(own).co_names)
    if parameters == _LIGHTNING and _LIGHTNING_NAMES <= names:
        return "forward", _lightning_attention(own)
    if parameters == _MLSTM and {"_train_fn", "_inference_fn"} <= names:
        return "forward", _matrix_memory(own)
    mamba = _layers.forward_of(kind, _KNOWN)
    return None if mamba is None else ("forward", mamba)


def _names_of(kind):
    code = code_of(vars(kind).get("forward"))
    return set() if code is None else set(code.co_names)


def _passes_keywords_on(kind):
    """Whether a class uses the keywords that its forward does not know: it gives them to its parts."""
    loads = [i.argval for i in dis.get_instructions(code_of(vars(kind)["forward"])) if i.opname.startswith("LOAD_FAST")]
    return any("kwargs" in (name if isinstance(name, tuple) else (name,)) for name in loads)


# From a model's layer to the part that is replaced.
_PARTS = {"mixer": ("mixer",), "mamba": ("mamba",), "mlstm_layer": ("mlstm_layer", "mlstm_backend")}


def _told(kinds):
    """(owner, name, function) by which packed sequences get to layers whose models drop keywords."""
    models = _models(kinds)
    holders = [(kind, path) for kind in kinds if kind not in models
               for name, path in _PARTS.items() if name in _names_of(kind)]
    holders = [(k, path) for k, path in holders
               if "kwargs" not in parameters_of(vars(k)["forward"]) or not _passes_keywords_on(k)]
    found = [(kind, "forward", _layers.telling(vars(kind)["forward"], path)) for kind, path in holders]
    closed = any("kwargs" not in parameters_of(vars(k)["forward"]) for k, _ in holders)
    for kind in models:
        own, names = vars(kind)["forward"], _names_of(kind)
        held = next((name for name in ("layers", "blocks") if name in names), None)
        if held is not None and (closed or not _passes_keywords_on(kind)):
            own = _layers.giving(own, held)
            found += [(k, "__call__", _layers.taking(k.__call__)) for k, _ in holders]
        if held is not None:
            found.append((kind, "forward", _layers.with_offsets(own)))
        elif "backbone" in names:
            found.append((kind, "forward", _layers.with_packing(own)))
    return found


_SHIFT = "a row is mixed with the one before it, which may be of another sequence"
_CONVOLUTION = "the convolution before the recurrence runs on from one sequence into the next"


def replacements(module, kinds):
    """(owner, name, function) of what ejk replaces in a module of models; `kinds` are its classes."""
    found = [(kind, *replaced) for kind in kinds if (replaced := _replaced_in(kind))]
    wkv = vars(module).get("rwkv_linear_attention")
    if code_of(wkv) is not None and parameters_of(wkv) == _WKV:
        found.append((module, "rwkv_linear_attention", _rwkv_attention(module, wkv)))
    if not found:
        return []
    why = {"rwkv_linear_attention": _SHIFT, "_rnn_scan": _CONVOLUTION}.get(found[0][1])
    if why is None:
        return found + _told(kinds)
    return found + [(kind, "forward", _layers.without_packing(vars(kind)["forward"], why)) for kind in _models(kinds)]


def _models(kinds):
    """Those of the classes that are whole models with a forward of their own."""
    return [k for k in kinds if hasattr(k, "base_model_prefix") and code_of(vars(k).get("forward")) is not None]


__all__ = ["replacements"]
