"""Mamba-3 of `ejk.ops`, which has what its arguments share: with one input and one output a head (SISO), and with
R of them (MIMO)."""

from inspect import Parameter, Signature, signature

from . import _functions as fn
from ._errors import TensorError
from ._named import named
from ._outside import cast, first_row, may_be_differentiated, next_row, operands, stack, unstack, wide
from ._recurrence import Recurrence
from ._short_convolution import ROWS_OF_PARTS, in_16_bits

_RANKS = 8  # at most


@named
def _mamba3(S, x, dt, A, trap, ahead, B, C, D):
    S = S.decay(A * dt)
    own = trap * dt
    y = S.read(C) + own * fn.sum(B * C) * x
    # The next step's share of this row decays with the state.
    S = S.add(B, (own + ahead) * x)
    return S, y if D is None else y + D * x


def mamba3(x, dt, A, trap, B, C, D=None, *, previous=None, initial_state=None, cu_seqlens=None,
           reverse=False, save_states=True):
    """Mamba-3's state-space model with one input and one output a head (SISO), by the trapezoidal rule.

    S = α·S + (1 − λ)·dt·α·B₋₁ x₋₁ᵀ + λ·dt·B xᵀ with α = exp(A·dt);  y = Sᵀ C + D·x

    B₋₁ and x₋₁ are those of the row before. x [B, T, H, P]; dt [B, T, H], after its softplus, in float32;
    A [H] or [B, T, H], negative; trap is λ [B, T, H], from 0 to 1, after its sigmoid, in float32; B and C
    [B, T, G, N] with G dividing H, with their biases and rotated by their angles; D [H]. States are
    [B, H, N, P].

    A sequence is continued with its final state as `initial_state` and its last rows of B and x as
    `previous`, a pair of [N, G, N'] and [N, H, P] (N' channels of B)."""
    x, dt, A, trap, B, C, D = operands(
        ("x", x, "[B, T, H, P]"), ("dt", dt, "[B, T, H]"), ("A", A, "[...]"), ("trap", trap, "[B, T, H]"),
        ("B", B, "[B, T, G, N]"), ("C", C, "[B, T, G, N]"), ("D", D, "[H]?"))
    _check_trap(dt, trap)
    ahead = next_row(dt * (1 - trap), cu_seqlens, reverse)
    if previous is not None:
        B_before, x_before = _pair(previous)
        initial_state = _with_previous(initial_state, B_before[:, None], x_before[:, None], dt * (1 - trap),
                                       cu_seqlens, reverse)
    return _mamba3(reverse)(x, dt, A, trap, ahead, B, C, D, initial_state=initial_state,
                            cu_seqlens=cu_seqlens, save_states=save_states)


def _check_trap(dt, trap):
    if tuple(dt.shape) != tuple(trap.shape):
        raise TensorError(f"'trap' must have the shape of 'dt', {list(dt.shape)}, but has {list(trap.shape)}")


def _pair(previous):
    if not isinstance(previous, (tuple, list)) or len(previous) != 2:
        raise TensorError("'previous' must be a pair, B and x of the row before the first")
    return (wide(rows) for rows in previous)


def _with_previous(state, B, x, shares, cu_seqlens, reverse):
    """`state` with the first step's share of the row before it: B [N, R, G, N'] and x [N, R, H, P]."""
    (N, R, G, channels), (H, P) = B.shape, x.shape[2:]
    count = shares.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1
    if not N == x.shape[0] == count:
        raise TensorError(f"'previous' must have the rows before {count} sequences, but has those of B before {N} and "
                          f"of x before {x.shape[0]}")
    share = first_row(shares, cu_seqlens, reverse).reshape(N, G, H // G, 1, 1)
    products = (B.reshape(N, R, G, 1, channels, 1) * x.reshape(N, R, G, H // G, 1, P)).sum(1)
    added = (share * products).reshape(N, H, channels, P)
    return added if state is None else state + added


def _ranked(*many):
    """Of a step whose parameters `many` are tuples, one that takes their elements, up to _RANKS of each: tensors,
    and then None."""
    def make(step):
        own = list(signature(step).parameters)
        counts = [_RANKS if name in many else 1 for name in own]
        names = [name if count == 1 else f"{name}{i + 1}" for name, count in zip(own, counts) for i in range(count)]

        def of_elements(*values):
            given = iter(values)
            return step(*[next(given) if count == 1 else [x for x in [next(given) for _ in range(count)]
                                                          if x is not None] for count in counts])
        of_elements.__name__, of_elements.__qualname__ = step.__name__, step.__qualname__
        of_elements.__signature__ = Signature([Parameter(n, Parameter.POSITIONAL_OR_KEYWORD) for n in names])
        return of_elements
    return make


def _padded(*tuples):
    return [x for rows in tuples for x in (*rows, *[None] * (_RANKS - len(rows)))]


def _total(terms):
    first, *others = terms
    for term in others:
        first = first + term
    return first


def _many(S, x, own_x, dt, A, trap, ahead, B, C, D):
    """A step that adds B_r x_rᵀ and reads C_r, for all r. `own_x` has the rows that D multiplies."""
    S = S.decay(A * dt)
    own = trap * dt
    y = [S.read(c) + own * _total([fn.sum(b * c) * row for b, row in zip(B, x)]) for c in C]
    for b, row in zip(B, x):
        S = S.add(b, (own + ahead) * row)
    return S, y if D is None else [o + D * row for o, row in zip(y, own_x)]


def _weighted(y, z, mimo_z, mimo_o):
    """What R outputs are combined to."""
    if z is not None:
        y = [o * fn.silu(z * w) for o, w in zip(y, mimo_z)]
    return _total([w * o for o, w in zip(y, mimo_o)])


# x is first: outputs have its type.

@named
@_ranked("x", "B", "C")
def _mimo(S, x, dt, A, trap, ahead, D, B, C):
    S, y = _many(S, x, x, dt, A, trap, ahead, B, C, D)
    return S, *y


@named
@_ranked("B", "C", "mimo_x", "mimo_z", "mimo_o")
def _mimo_whole(S, x, dt, A, trap, ahead, D, z, B, C, mimo_x, mimo_z, mimo_o):
    x = [x * w for w in mimo_x]
    S, y = _many(S, x, x, dt, A, trap, ahead, B, C, D)
    return S, *([_weighted(y, z, mimo_z, mimo_o)] if mimo_o else y)


@_ranked("mimo_x")
def _mimo_inputs(x, mimo_x):
    return tuple(x * w for w in mimo_x)


@_ranked("y", "mimo_z", "mimo_o")
def _mimo_output(y, z, mimo_z, mimo_o):
    return _weighted(y, z, mimo_z, mimo_o)


# Made here: torch.compile does not follow that in a call.
_INPUTS, _OUTPUT = Recurrence(_mimo_inputs, 0, False), Recurrence(_mimo_output, 0, False)

# Inputs and outputs of one recurrence by chunks. With more, the kernels of its derivative have more tensors than a
# package may have tensor maps for.
_MOST_BY_CHUNKS = 4


def mamba3_mimo(x, dt, A, trap, B, C, mimo_x, D=None, *, mimo_o=None, z=None, mimo_z=None, previous=None,
                initial_state=None, cu_seqlens=None, reverse=False, save_states=True):
    """Mamba-3's state-space model with R inputs and R outputs a head (MIMO, arXiv:2603.15569), by the trapezoidal
    rule.

    S = α·S + (1 − λ)·dt·α·Σᵣ B₋₁ᵣ x₋₁ᵣᵀ + λ·dt·Σᵣ Bᵣ xᵣᵀ with α = exp(A·dt) and xᵣ = mimo_x[:, r] ⊙ x
    yᵣ = Sᵀ Cᵣ + D·xᵣ;  y = Σᵣ mimo_o[:, r] ⊙ yᵣ ⊙ silu(mimo_z[:, r] ⊙ z)

    B₋₁ᵣ and x₋₁ᵣ are those of the row before. x and z [B, T, H, P]; mimo_x, mimo_o and mimo_z [H, R, P], R from 1
    to 8; dt [B, T, H], after its softplus, in float32; A [H] or [B, T, H], negative; trap is λ [B, T, H], from 0 to
    1, after its sigmoid, in float32; B and C [B, T, R, G, N] with G dividing H; D [H]. States are [B, H, N, P]: their
    size does not depend on R.

    The caller normalises B and C, adds their biases, and rotates them by their angles. Without z, nothing gates the
    outputs. Without `mimo_o` they are not combined: y is [B, T, R, H, P], for a norm that comes between, and z is
    the caller's part, too. mamba_ssm's function of this name has C, B and x as Q, K and V, the weights as MIMO_V,
    MIMO_Out and MIMO_Z, A·dt as ADT and λ before its sigmoid as Trap.

    A sequence is continued with its final state as `initial_state` and its last rows of B and x as
    `previous`, a pair of [N, R, G, N'] and [N, H, P] (N' channels of B).

    A call is one program, whose xᵣ and yᵣ are float32, where rows are float32, where there are fewer than 64 steps,
    and where NumPy or PyTorch calls and no gradient is needed. Else it is three, for xᵣ, the recurrence and y: xᵣ
    and yᵣ are then rows of x's type, and an R from 5 to 8 takes four recurrences of at most 4 inputs and outputs."""
    x, dt, A, trap, B, C, mimo_x, D, mimo_o, z, mimo_z = operands(
        ("x", x, "[B, T, H, P]"), ("dt", dt, "[B, T, H]"), ("A", A, "[...]"), ("trap", trap, "[B, T, H]"),
        ("B", B, "[B, T, R, G, N]"), ("C", C, "[B, T, R, G, N]"), ("mimo_x", mimo_x, "[H, R, P]"), ("D", D, "[H]?"),
        ("mimo_o", mimo_o, "[H, R, P]?"), ("z", z, "[B, T, H, P]?"), ("mimo_z", mimo_z, "[H, R, P]?"))
    _check_mimo(x, dt, trap, B, C, mimo_x, mimo_o, z, mimo_z)
    ahead = next_row(dt * (1 - trap), cu_seqlens, reverse)
    if previous is not None:
        initial_state = _with_previous_rows(initial_state, previous, B, mimo_x, dt * (1 - trap), cu_seqlens, reverse)
    weights = [() if w is None else unstack(w, 1) for w in (mimo_x, mimo_z, mimo_o)]
    B, C = unstack(B, 2), unstack(C, 2)
    options = dict(cu_seqlens=cu_seqlens, save_states=save_states)
    if x.shape[1] < ROWS_OF_PARTS or not in_16_bits(x) or not may_be_differentiated(
            x, dt, A, trap, *B, *C, *weights[0], D, *weights[2], z, *weights[1], initial_state):
        *y, state = _mimo_whole(reverse)(x, dt, A, trap, ahead, D, z, *_padded(B, C, *weights),
                                         initial_state=initial_state, **options)
        return y[0] if mimo_o is not None else stack(y, 2), state
    y, state = _mimo_in_groups(_inputs(x, weights[0], cu_seqlens), (dt, A, trap, ahead), D, B, C, initial_state,
                               reverse, options)
    if mimo_o is None:
        return stack(y, 2), state
    return _OUTPUT(*_padded(y), z, *_padded(*weights[1:]), cu_seqlens=cu_seqlens), state


def _inputs(x, mimo_x, cu_seqlens):
    rows = _INPUTS(x, *_padded(mimo_x), cu_seqlens=cu_seqlens)
    return rows if isinstance(rows, tuple) else (rows,)


def _mimo_in_groups(x, numbers, D, B, C, initial_state, reverse, options):
    """The outputs of each rank, and the state. The state is a sum over inputs, so that more than _MOST_BY_CHUNKS of
    them are recurrences of their own."""
    R = len(x)
    half = R if R <= _MOST_BY_CHUNKS else (R + 1) // 2
    groups, y, state = [slice(first, first + half) for first in range(0, R, half)], [None] * R, None
    for inputs in groups:
        given = initial_state if inputs is groups[0] else None
        for outputs in groups:
            skip = D if inputs is outputs else None
            *rows, last = _mimo(reverse)(*_padded(x[inputs]), *numbers, skip, *_padded(B[inputs], C[outputs]),
                                         initial_state=given, **options)
            y[outputs] = rows if y[outputs][0] is None else [a + b for a, b in zip(y[outputs], rows)]
        state = last if state is None else state + last
    return y, state


def _with_previous_rows(state, previous, B, mimo_x, shares, cu_seqlens, reverse):
    B_before, x_before = _pair(previous)
    for name, rows, wanted in (("B", B_before, B.shape[2:]), ("x", x_before, (mimo_x.shape[0], mimo_x.shape[2]))):
        if tuple(rows.shape[1:]) != tuple(wanted):
            raise TensorError(f"'previous' must have {name} of shape [N, {', '.join(map(str, wanted))}], but has "
                              f"{list(rows.shape)}")
    x_before = x_before[:, None] * cast(stack(unstack(mimo_x, 1), 0), x_before.dtype)
    return _with_previous(state, B_before, x_before, shares, cu_seqlens, reverse)


def _check_mimo(x, dt, trap, B, C, mimo_x, mimo_o, z, mimo_z):
    _check_trap(dt, trap)
    H, P, (R, G) = *x.shape[2:], B.shape[2:4]
    if not 1 <= R <= _RANKS:
        raise TensorError(f"'B' has R = {R} vectors a step; ejk takes 1 to {_RANKS}")
    if tuple(B.shape[:2]) != tuple(x.shape[:2]) or not G or H % G:
        raise TensorError(f"'B' must be [B, T, R, G, N] with B and T of 'x', {list(x.shape[:2])}, and G dividing its "
                          f"{H} heads, but has shape {list(B.shape)}")
    if tuple(C.shape) != tuple(B.shape):
        raise TensorError(f"'C' must have the shape of 'B', {list(B.shape)}, but has {list(C.shape)}")
    for name, weight in (("mimo_x", mimo_x), ("mimo_o", mimo_o), ("mimo_z", mimo_z)):
        if weight is not None and tuple(weight.shape) != (H, R, P):
            raise TensorError(f"'{name}' must be [H, R, P], here {[H, R, P]}, but has shape {list(weight.shape)}")
    if (z is None) != (mimo_z is None):
        raise TensorError("'z' and 'mimo_z' go together: give both, or neither")
    if z is not None and mimo_o is None:
        raise TensorError("'z' gates what 'mimo_o' combines: give 'mimo_o', too, or gate the outputs")
    if z is not None and tuple(z.shape) != tuple(x.shape):
        raise TensorError(f"'z' must have the shape of 'x', {list(x.shape)}, but has {list(z.shape)}")


__all__ = ["mamba3", "mamba3_mimo"]
