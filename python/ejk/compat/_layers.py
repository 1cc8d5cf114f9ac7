"""Layers of transformers between their projections as one of ejk's blocks.

A layer's own forward stays where this one does not know it: `forward_of` says so for a class, and each
forward here for one layer, whose activation or sizes a block does not take."""

import functools
import inspect

import torch

from .. import ops
from .._errors import TensorError
from .._outside import wide
from .._short_convolution import MOST_CHANNELS, TAPS

#===------------------------------------------------------------------------===#
# Packed sequences
#===------------------------------------------------------------------------===#


def offsets(named):
    """The offsets of packed sequences among a layer's keywords, None for a batch."""
    cu_seqlens = named.get("cu_seqlens")
    if cu_seqlens is None:
        cu_seqlens = named.get("cu_seq_lens_q")
    if cu_seqlens is None and named.get("seq_idx") is not None:
        cu_seqlens = _starts(torch.diff(named["seq_idx"][0]) != 0)
    return cu_seqlens


def _starts(begins):
    """Offsets of sequences, where `begins` [T−1] says which rows after the first begin one."""
    later = begins.nonzero()[:, 0] + 1
    return torch.cat([later.new_zeros(1), later, later.new_full((1,), len(begins) + 1)])


def offsets_of_positions(position_ids):
    """The offsets of sequences that each begin at position 0; None where there is one, or a part of one."""
    if (torch.compiler.is_compiling() or not isinstance(position_ids, torch.Tensor) or position_ids.dim() != 2
            or position_ids.shape[0] != 1 or position_ids.shape[1] < 2):
        return None
    begins = position_ids[0] == 0
    return _starts(begins[1:]) if bool(begins[0] & begins[1:].any()) else None


def check_packed(cu_seqlens, entries, state, remedy="them without 'past_key_values'"):
    """Refuses packed sequences in a batch of more than one entry, and those that would continue a state."""
    if cu_seqlens is None:
        return
    if entries != 1:
        raise TensorError(f"packed sequences have a batch of 1, but it is {entries}")
    if state is not None:
        raise NotImplementedError(f"packed sequences do not continue a cache; give {remedy}")


#===------------------------------------------------------------------------===#
# What a layer keeps from call to call
#===------------------------------------------------------------------------===#


class Kept:
    """The rows and the state that a layer starts from, and those that it leaves."""

    def __init__(self, layer, cache, named, entries):
        self._layer, self._cache, self.cu_seqlens = layer, cache, offsets(named)
        self._rows = self.state = None
        if cache is not None:
            self._rows = cache.get_conv_state(layer.layer_idx, state_idx=0)
            self.state = cache.get_recurrent_state(layer.layer_idx, state_idx=0)
        check_packed(self.cu_seqlens, entries, self.state)

    def options(self, *sizes):
        """The block's keywords. `sizes` are heads and channels of the tensors that are convolved."""
        rows, width = None, self._layer.conv1d.weight.shape[-1]
        if self._rows is not None and width > 1:
            # A cache keeps a row more than a convolution needs, and all rows where it may go back.
            last = self._rows[..., 1 - width:].mT
            parts = last.split([heads * channels for heads, channels in sizes], -1)
            rows = tuple(x.unflatten(-1, size) for x, size in zip(parts, sizes))
        return dict(conv_state=rows, cu_seqlens=self.cu_seqlens,
                    initial_state=None if self.state is None else wide(self.state))

    def keep(self, rows, state):
        """`rows()` gives those of all that is convolved, [B, T, channels]."""
        if self._cache is None:
            return
        layer, cache = self._layer, self._cache
        rows, width = rows(), layer.conv_kernel_size
        if not cache.is_recording_past(layer.layer_idx):
            rows = rows[:, -width:]
        cache.update_conv_state(rows.mT, layer.layer_idx, conv_kernel_size=width)
        cache.update_recurrent_state(state, layer.layer_idx)


def masked(hidden_states, attention_mask):
    if attention_mask is None:
        return hidden_states
    return (hidden_states * attention_mask[:, :, None]).to(hidden_states.dtype)


def _joined(*rows):
    return torch.cat([x.flatten(2) for x in rows], -1)


def takes_convolution(layer):
    convolution = layer.conv1d
    return layer.activation in ("silu", "swish") and convolution.weight.shape[-1] <= TAPS


#===------------------------------------------------------------------------===#
# Gated DeltaNet
#===------------------------------------------------------------------------===#


def _takes_delta(layer, norm, activation):
    return (takes_convolution(layer) and norm.activation in activation
            and max(layer.head_k_dim, layer.head_v_dim) <= MOST_CHANNELS)


def _run_delta(layer, hidden_states, cache, named, q, k, v, z, a, b, norm, negative=False):
    kept = Kept(layer, cache, named, hidden_states.shape[0])
    o, state = ops.gated_delta_net(
        q, k, v, z, a, b, layer.conv1d.weight, layer.A_log, layer.dt_bias, norm.weight, allow_neg_eigval=negative,
        conv_bias=layer.conv1d.bias, eps=norm.variance_epsilon, **kept.options(q.shape[2:], k.shape[2:], v.shape[2:]))
    kept.keep(lambda: _joined(q, k, v), state)
    return o.flatten(2)


def _qwen3_next(layer, hidden_states, cache, named, _):
    q, k, v, z, b, a = layer.fix_query_key_value_ordering(layer.in_proj_qkvz(hidden_states),
                                                          layer.in_proj_ba(hidden_states))
    return layer.out_proj(_run_delta(layer, hidden_states, cache, named, q, k, v, z, a, b, layer.norm))


def _of_heads(x, channels):
    return x.unflatten(-1, (-1, channels))


def _qwen3_5(layer, hidden_states, cache, named, _):
    K, V = layer.head_k_dim, layer.head_v_dim
    q, k, v = layer.in_proj_qkv(hidden_states).split([layer.key_dim, layer.key_dim, layer.value_dim], -1)
    o = _run_delta(layer, hidden_states, cache, named, _of_heads(q, K), _of_heads(k, K), _of_heads(v, V),
                   _of_heads(layer.in_proj_z(hidden_states), V), layer.in_proj_a(hidden_states),
                   layer.in_proj_b(hidden_states), layer.norm)
    return layer.out_proj(o)


def _olmo_hybrid(layer, hidden_states, cache, named, _):
    K, V = layer.head_k_dim, layer.head_v_dim
    o = _run_delta(layer, hidden_states, cache, named, _of_heads(layer.q_proj(hidden_states), K),
                   _of_heads(layer.k_proj(hidden_states), K), _of_heads(layer.v_proj(hidden_states), V),
                   _of_heads(layer.g_proj(hidden_states), V), layer.a_proj(hidden_states),
                   layer.b_proj(hidden_states), layer.o_norm, bool(layer.allow_neg_eigval))
    return layer.o_proj(o)


#===------------------------------------------------------------------------===#
# Kimi delta attention
#===------------------------------------------------------------------------===#


def _gate_of(gate):
    """(projection of the forget gate, its lower bound), or None where it is another one."""
    if hasattr(gate, "f_proj"):
        return gate.f_proj, gate.lower_bound if gate.safe_gate else None
    if hasattr(gate, "f_a_proj"):
        return (lambda x: gate.f_b_proj(gate.f_a_proj(x))), getattr(gate, "safe_gate_lower_bound", None)
    return None


def _takes_kimi(layer):
    return (takes_convolution(layer) and layer.o_norm.activation == "sigmoid" and layer.head_dim <= MOST_CHANNELS
            and _gate_of(layer.forget_gate) is not None)


def _kimi(layer, hidden_states, cache, named, _):
    C, gate = layer.head_dim, layer.forget_gate
    project, bound = _gate_of(gate)
    q, k, v = (_of_heads(p(hidden_states), C) for p in (layer.q_proj, layer.k_proj, layer.v_proj))
    z = layer.g_proj(hidden_states) if hasattr(layer, "g_proj") else layer.g_b_proj(layer.g_a_proj(hidden_states))
    kept = Kept(layer, cache, named, hidden_states.shape[0])
    o, state = ops.kda_block(
        q, k, v, _of_heads(project(hidden_states), C), layer.b_proj(hidden_states), _of_heads(z, C),
        layer.conv1d.weight, gate.A_log, gate.dt_bias, layer.o_norm.weight, lower_bound=bound,
        conv_bias=layer.conv1d.bias, eps=layer.o_norm.variance_epsilon,
        **kept.options(q.shape[2:], k.shape[2:], v.shape[2:]))
    kept.keep(lambda: _joined(q, k, v), state)
    return layer.o_proj(o.flatten(2))


#===------------------------------------------------------------------------===#
# Mamba-2
#===------------------------------------------------------------------------===#


def _takes_mamba2(layer):
    return takes_convolution(layer) and max(layer.head_dim, layer.ssm_state_size) <= MOST_CHANNELS


def _mamba2(layer, hidden_states, cache, named, mask):
    H, P, G, N = layer.num_heads, layer.head_dim, layer.n_groups, layer.ssm_state_size
    if hasattr(layer, "ssm_in_multiplier"):
        hidden_states = hidden_states * layer.ssm_in_multiplier
    projected = layer.in_proj(hidden_states)
    if hasattr(layer, "mup_vector"):
        projected = projected * layer.mup_vector
    z, rows, dt = projected.split([H * P, H * P + 2 * G * N, H], -1)
    x, B, C = rows.split([H * P, G * N, G * N], -1)
    kept = Kept(layer, cache, named, hidden_states.shape[0])
    options = kept.options((H, P), (G, N), (G, N))
    if kept.state is not None:  # caches have states as [P, N]
        options["initial_state"] = options["initial_state"].mT.contiguous()
    # transformers' step of one token knows no limits.
    one = kept.state is not None and hidden_states.shape[1] == 1
    norm = layer.norm if getattr(layer, "mamba_rms_norm", True) else None
    o, state = ops.mamba2_block(
        x.unflatten(-1, (H, P)), B.unflatten(-1, (G, N)), C.unflatten(-1, (G, N)), z.unflatten(-1, (H, P)), dt,
        layer.conv1d.weight, layer.A_log, layer.dt_bias, layer.D, None if norm is None else norm.weight,
        conv_bias=layer.conv1d.bias, eps=0.0 if norm is None else norm.variance_epsilon,
        norm_before_gate=getattr(norm, "norm_before_gate", False),
        norm_groups=None if norm is None else _norm_groups(norm, H * P),
        dt_limit=(0.0, float("inf")) if one else layer.time_step_limit, mask=mask, **options)
    kept.keep(lambda: rows, state.mT)
    # As transformers has it: no output, but of the last projection's bias, for padding.
    return layer.out_proj(masked(o.flatten(2), mask))


def _norm_groups(norm, channels):
    return channels // norm.group_size if hasattr(norm, "group_size") else norm.n_groups


#===------------------------------------------------------------------------===#
# The forwards
#===------------------------------------------------------------------------===#

_CACHE = {"get_conv_state", "get_recurrent_state", "update_conv_state", "update_recurrent_state", "conv1d"}
_DELTA = {"torch_chunk_gated_delta_rule", "A_log", "dt_bias"}
_KIMI = {"chunk_kimi_delta_attention", "q_proj", "k_proj", "v_proj", "forget_gate", "b_proj", "o_norm", "o_proj"}

# What a forward's code must name, whether one layer is taken, and what computes it.
_KNOWN = (
    (_DELTA | {"fix_query_key_value_ordering", "in_proj_qkvz", "in_proj_ba", "norm", "out_proj"},
     lambda layer: _takes_delta(layer, layer.norm, ("silu", "swish")), _qwen3_next),
    (_DELTA | {"in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "norm", "out_proj"},
     lambda layer: _takes_delta(layer, layer.norm, ("silu", "swish")), _qwen3_5),
    (_DELTA | {"q_proj", "k_proj", "v_proj", "a_proj", "b_proj", "g_proj", "allow_neg_eigval", "o_norm", "o_proj"},
     lambda layer: _takes_delta(layer, layer.o_norm, ("silu", "swish")), _olmo_hybrid),
    (_KIMI | {"g_a_proj", "g_b_proj"}, _takes_kimi, _kimi),
    (_KIMI | {"g_proj"}, _takes_kimi, _kimi),
    ({"mamba2_chunk_scan", "in_proj", "A_log", "dt_bias", "D", "time_step_limit", "norm", "out_proj"}, _takes_mamba2,
     _mamba2),
)
_FORWARD = ["self", "hidden_states", "cache", "attention_mask", "kwargs"]


def forward_of(kind, known=_KNOWN):
    """ejk's forward for a class of layers, in the place of its own; None where it is not one of these."""
    own = vars(kind).get("forward")
    code = code_of(own)
    if code is None or parameters_of(own) != _FORWARD:
        return None
    names = set(code.co_names)
    for needed, takes, run in known:
        if needed | _CACHE <= names:
            return _forward(own, takes, run)
    return None


def code_of(function):
    """The code of a function as it was written, under its decorators; None where it has none."""
    return getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None


def parameters_of(function):
    """The names of that function's parameters."""
    return list(inspect.signature(inspect.unwrap(function)).parameters)


def _forward(own, takes, run):
    @functools.wraps(own)
    def forward(self, hidden_states=None, cache=None, attention_mask=None, **named):
        named = {**packing_of(self), **named}
        if hidden_states is None or "cache_params" in named or not takes(self):
            named = named if hidden_states is None else {"hidden_states": hidden_states, **named}
            named = named if cache is None else {"cache": cache, **named}
            return own(self, attention_mask=attention_mask, **named)
        # Of a layer whose weights lie elsewhere: a part whose weights are read has a hook that brings them.
        parts = [getattr(self, part, None) for part in ("conv1d", "dt_proj")]
        hooks = [(part, part._hf_hook) for part in parts if getattr(part, "_hf_hook", None) is not None]
        for part, hook in hooks:
            hook.pre_forward(part)
        output = run(self, masked(hidden_states, attention_mask), cache, named, attention_mask)
        for part, hook in reversed(hooks):
            hook.post_forward(part, ())
        return output
    return forward


def with_offsets(forward):
    """A model's forward, which makes offsets of packed sequences of `position_ids`, as transformers' own
    attention does."""
    names = list(inspect.signature(forward).parameters)[1:]

    @functools.wraps(forward)
    def call(self, *arguments, **named):
        named = {**packing_of(self), **named}
        given = {**dict(zip(names, arguments)), **named}
        found = _offsets_that_positions_mean(given)
        if found is not None:
            named["cu_seq_lens_q"] = found
        return forward(self, *arguments, **named)
    return call


def _offsets_that_positions_mean(given):
    """The offsets that a model's `position_ids` stand for, None where a mask or other offsets are given."""
    if any(given.get(n) is not None for n in ("attention_mask", "cu_seq_lens_q", "seq_idx")):
        return None
    return offsets_of_positions(given.get("position_ids"))


def without_packing(forward, why):
    """A model's forward, which refuses packed sequences: `why` its layers would mix them."""
    names = list(inspect.signature(forward).parameters)[1:]

    @functools.wraps(forward)
    def call(self, *arguments, **named):
        given = {**dict(zip(names, arguments)), **named}
        if (any(given.get(n) is not None for n in ("cu_seqlens", "cu_seq_lens_q", "seq_idx"))
                or _offsets_that_positions_mean(given) is not None):
            raise NotImplementedError(f"{type(self).__name__} does not keep packed sequences apart: {why}; give "
                                      "each as an entry of a batch")
        return forward(self, *arguments, **named)
    return call


_PACKING = "_ejk_packing"
_PACKED = ("cu_seq_lens_q", "seq_idx", "position_ids")


def packing_of(module):
    """The keywords of packed sequences that lie on a module as an attribute, once."""
    return vars(module).pop(_PACKING, {})


def _calling(forward, packing, modules, arguments, named):
    """A call of a forward while the keywords of packed sequences lie on modules."""
    for module in modules:
        vars(module)[_PACKING] = packing
    try:
        return forward(*arguments, **named)
    finally:
        for module in modules:
            packing_of(module)


def with_packing(forward):
    """The forward of a model with a head, which gives its backbone no keywords: those of packed sequences get
    there as an attribute."""
    @functools.wraps(forward)
    def call(self, *arguments, **named):
        packing = {n: named[n] for n in _PACKED if named.get(n) is not None}
        if not packing:
            return forward(self, *arguments, **named)
        return _calling(forward, packing, [self.backbone], (self, *arguments), named)
    return call


# A model that drops keywords gives them to its layers as an attribute. A layer's call makes keywords of them again,
# because a layer that is computed again for its gradients is called with its keywords alone. Its forward gives
# them to the part that has the recurrence, as an attribute.

def giving(forward, name):
    """The forward of a model, which gives its layers, `name`, no keywords."""
    @functools.wraps(forward)
    def call(self, *arguments, **named):
        packing = {n: named[n] for n in _PACKED[:2] if named.get(n) is not None}
        return _calling(forward, packing, list(getattr(self, name)) if packing else [], (self, *arguments), named)
    return call


def taking(own):
    """The call of such a model's layer."""
    @functools.wraps(own)
    def __call__(self, *arguments, **named):
        return own(self, *arguments, **packing_of(self), **named)
    return __call__


def telling(forward, path):
    """The forward of a layer that gives the part of it at `path` no keywords."""
    names = parameters_of(forward)

    @functools.wraps(forward)
    def call(self, *arguments, **named):
        packing = {n: named[n] for n in _PACKED[:2] if named.get(n) is not None}
        if "kwargs" not in names:
            named = {n: x for n, x in named.items() if n not in _PACKED[:2]}
        part = functools.reduce(getattr, path, self)
        return _calling(forward, packing, [part] if packing else [], (self, *arguments), named)
    return call


def passes_keywords(kind, name):
    """Whether a class has a forward that takes any keywords and uses its `name`."""
    own = vars(kind).get("forward")
    code = code_of(own)
    return code is not None and "kwargs" in parameters_of(own) and name in code.co_names


__all__ = ["forward_of", "offsets", "passes_keywords", "with_offsets", "with_packing", "without_packing"]
