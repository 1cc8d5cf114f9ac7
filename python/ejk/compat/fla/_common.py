"""What every function here shares: checks of arguments, layouts of states, gates made of
parameters."""

from operator import index  # of a size that torch holds symbolic, the number

import torch
import torch.nn.functional as F

from ..._errors import TensorError
from ..._named import LARGEST_LOG, number


def refuse(function, **arguments):
    """Raises for arguments that ask for something; None and False do not."""
    for name, value in arguments.items():
        if value is not None and value is not False:
            raise NotImplementedError(f"ejk's {function} does not support '{name}'; leave it out")


def check_keywords(function, given, known=()):
    """Raises for keywords that the function does not have. fla drops them in silence."""
    for name in given:
        if name == "head_first":
            raise NotImplementedError(f"{function}: 'head_first' has been removed from fla; "
                                      "give tensors as [B, T, H, ...]")
        if name not in known:
            raise TypeError(f"{function}() has no argument '{name}' that ejk knows")


def check_chunk_size(function, size, allowed=None):
    """A chunk size orders fla's work and does not change a result; ejk chooses its own. It must
    be one that fla would take."""
    if size is None:
        return
    if (not isinstance(size, int) or size < 1 or size & (size - 1)
            or allowed and size not in allowed):
        raise ValueError(f"{function}: 'chunk_size' must be "
                         + (f"one of {', '.join(map(str, allowed))}" if allowed else "a power of 2")
                         + f", but is {size}")


def check_offsets(cu_seqlens, cu_seqlens_cpu):
    """fla takes a copy of cu_seqlens on the host to save a transfer. ejk reads none there, but a
    copy of other offsets is a mistake."""
    if cu_seqlens_cpu is None:
        return
    if cu_seqlens is None:
        raise TensorError("'cu_seqlens_cpu' is given without 'cu_seqlens'")
    if cu_seqlens.shape != cu_seqlens_cpu.shape or (
            cu_seqlens.is_cpu and not torch.equal(cu_seqlens.long(), cu_seqlens_cpu.long())):
        raise TensorError("'cu_seqlens_cpu' must hold what 'cu_seqlens' does")


def state_layout(kwargs, state_v_first, function):
    """`state_v_first` under its two names."""
    check_keywords(function, kwargs, ("transpose_state_layout",))
    if "transpose_state_layout" in kwargs:
        if state_v_first:
            raise ValueError(f"{function}: 'state_v_first' and 'transpose_state_layout' are one "
                             "argument; give one of them")
        state_v_first = kwargs["transpose_state_layout"]
    return bool(state_v_first)


def state_in(state, v_first=False, like=None):
    """An initial state as ejk takes it: [N, H, K, V] in float32 (float64 beside float64)."""
    if state is None:
        return None
    if not isinstance(state, torch.Tensor) or state.dim() != 4:
        raise TensorError("'initial_state' must be a tensor [N, H, K, V], but is "
                          + (f"of shape {list(state.shape)}" if isinstance(state, torch.Tensor)
                             else f"a {type(state).__name__}"))
    exact = like is not None and like.dtype == torch.float64
    state = state.double() if exact else state.float()
    return state.transpose(-1, -2).contiguous() if v_first else state


def state_out(state, wanted, v_first=False):
    """A final state as fla gives it: None where it is not asked for."""
    if not wanted:
        return None
    return state.transpose(-1, -2).contiguous() if v_first else state


class Slots:
    """Where states lie in a pool, by the keywords that fla's kernels and those of servers have."""

    NAMES = ("ssm_state_indices", "initial_state_indices", "inplace_final_state", "num_accepted_tokens")

    def __init__(self, function, indices, inplace, accepted):
        if accepted is not None and indices.dim() != 2:
            raise TensorError(f"{function}: 'num_accepted_tokens' needs indices [N, D]")
        if not inplace and indices.dim() != 1:
            raise NotImplementedError(f"ejk's {function} writes the states after each token in place "
                                      "alone; leave out inplace_final_state=False")
        self._indices, self.inplace, self._accepted = indices, inplace, accepted

    @classmethod
    def take(cls, function, kwargs, initial_state):
        """(the other keywords, the Slots or None)"""
        others = {n: x for n, x in kwargs.items() if n not in cls.NAMES}
        ssm, initial = kwargs.get("ssm_state_indices"), kwargs.get("initial_state_indices")
        inplace, accepted = kwargs.get("inplace_final_state"), kwargs.get("num_accepted_tokens")
        if ssm is not None and initial is not None:
            raise ValueError(f"{function}: 'ssm_state_indices' and 'initial_state_indices' are one "
                             "argument; give one of them")
        indices = ssm if ssm is not None else initial
        if indices is None:
            refuse(function + " without 'ssm_state_indices'", inplace_final_state=inplace,
                   num_accepted_tokens=accepted)
            return others, None
        if initial_state is None:
            raise ValueError(f"{function}: indices need 'initial_state', the pool that they are of")
        return others, cls(function, indices, True if inplace is None else bool(inplace), accepted)

    def gather(self, pool):
        """The states that the sequences start from; zero for an index below 0."""
        states = pool[self._indices.clamp(min=0).long()]
        return torch.where((self._indices >= 0).view(-1, *[1] * (states.dim() - 1)), states, 0)

    def keywords(self, pool, v_first):
        """Those of a call of a recurrence, which changes the pool in its place."""
        read = self._indices
        if read.dim() == 2 and self._accepted is None:
            read = read[:, 0]
        return dict(pool=pool, read_slots=read, write_slots=self._indices, accepted=self._accepted,
                    value_major=bool(v_first))


def check_same_heads(q, k, v, g=None):
    shape, values = q.shape, v.shape
    if shape != k.shape or (g is not None and g.shape != shape):
        raise TensorError("'q', 'k' and the gate must have one shape [B, T, H, K], but have "
                          + ", ".join(str(list(x.shape)) for x in (q, k, g) if x is not None))
    if values != shape and (len(values) != 4 or values[:3] != shape[:3]):
        raise TensorError(f"'v' must be [B, T, H, V] with q's B, T and H, but is {list(values)} "
                          f"beside {list(shape)}")


def default_scale(scale, q):
    return index(q.shape[-1]) ** -0.5 if scale is None else number("scale", scale)


def wide(x):
    """`x` in float32, or float64 where it is."""
    return x if x.dtype == torch.float64 else x.float()


def rates(A_log):
    """exp(A_log) in that type, and finite: 0·∞ would be NaN in gradients of a saturated gate."""
    return wide(A_log).clamp(max=LARGEST_LOG).exp()


def with_unused(rows, count):
    """`rows` [B, ≤ count, ...], and zeros for those after the last sequence's."""
    return torch.cat([rows, rows.new_zeros(rows.shape[0], count - rows.shape[1], *rows.shape[2:])],
                     1)


def softplus_gate(g, A_log, dt_bias):
    """−exp(A_log)·softplus(g + dt_bias), in float32; g is [B, T, H] or [B, T, H, K]."""
    g, A = wide(g), rates(A_log).reshape(-1)
    if g.dim() == 4:
        A = A[:, None]
    if dt_bias is not None:
        g = g + wide(dt_bias).reshape(g.shape[2:])
    return -A * F.softplus(g)


def bounded_gate(g, A_log, dt_bias, lower_bound):
    """lower_bound·sigmoid(exp(A_log)·(g + dt_bias)) in float32, g [B, T, H, K]."""
    g = wide(g)
    if dt_bias is not None:
        g = g + wide(dt_bias).reshape(g.shape[2:])
    if A_log is not None:
        g = rates(A_log).reshape(-1, 1) * g
    return lower_bound * torch.sigmoid(g)


def check_gate(function, use_gate_in_kernel, **parameters):
    """Parameters of a gate that is not computed here would be dropped."""
    if not use_gate_in_kernel:
        for name, value in parameters.items():
            if value is not None:
                raise ValueError(f"{function}: '{name}' is for use_gate_in_kernel=True")


def check_flags(function, **flags):
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise TypeError(f"{function}: '{name}' must be a bool, but is {value!r}")


def key_gate(function, use_gate_in_kernel, g, A_log, dt_bias, lower_bound):
    """KDA's log gate: g itself, or computed of it where `use_gate_in_kernel` says so."""
    check_gate(function, use_gate_in_kernel, A_log=A_log, dt_bias=dt_bias)
    if lower_bound is not None and not lower_bound < 0:
        raise ValueError(f"{function}: 'lower_bound' must be below 0, but is {lower_bound!r}")
    if not use_gate_in_kernel:
        return g
    if lower_bound is not None:
        return bounded_gate(g, A_log, dt_bias, lower_bound)
    if A_log is not None:
        return softplus_gate(g, A_log, dt_bias)
    raise ValueError(f"{function}: use_gate_in_kernel=True needs 'A_log' or 'lower_bound'")


def activated_beta(beta, sigmoid, negative):
    if negative and not sigmoid:
        raise ValueError("'allow_neg_eigval' needs use_beta_sigmoid_in_kernel=True")
    if not sigmoid:
        return beta
    beta = torch.sigmoid(wide(beta))
    return 2.0 * beta if negative else beta
