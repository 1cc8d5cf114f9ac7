"""Named recurrences that correct their state: of `ejk.ops`, which has what their arguments share."""

from . import _functions as f
from ._errors import TensorError
from ._named import default_scale, named
from ._outside import operands, stack, zeros_like


def unit(x):
    """A row divided by its norm, with fla's epsilon."""
    return x * f.rsqrt(f.sum(x * x) + 1e-6)


# v is first: it may have more heads than q and k have.
@named
def _correction(S, v, q, k, beta, g, scale, normalise):
    if normalise:
        q, k = unit(q), unit(k)
    if g is not None:
        S = S.decay(g)
    S = S.add(k, v - S.read(k) if beta is None else beta * (v - S.read(k)))
    return S, S.read(q * scale)


def _corrections(name, x, rank):
    """A row for each correction along axis 2, of a tensor that has them there or of a tuple."""
    channels = ", C" * (rank > 4)
    if isinstance(x, (tuple, list)):
        x = operands(*[(name, part, "[...]") for part in x]) if x else []
        if not x or any(len(part.shape) != rank - 1 or part.shape != x[0].shape for part in x):
            raise TensorError(f"'{name}' must have one shape [B, T, H{channels}] for each correction, but has "
                              f"{[list(part.shape) for part in x]}")
        return stack(x, 2)
    x, = operands((name, x, "[...]"))
    if len(x.shape) != rank:
        raise TensorError(f"'{name}' must be [B, T, n, H{channels}], or a tuple of n tensors [B, T, H{channels}], "
                          f"but has shape {list(x.shape)}")
    return x


def gated_delta_product(q, k, v, beta, g=None, *, scale=None, initial_state=None, cu_seqlens=None,
                        reverse=False, save_states=True):
    """Gated DeltaProduct (arXiv:2502.10297): n delta rules a step, after one decay by exp(g).

    S = exp(g)·S;  for i = 1 … n: S = S + kᵢ (βᵢ·(vᵢ − Sᵀ kᵢ))ᵀ;  o = scale · Sᵀ q

    q [B, T, H, K]; k [B, T, n, H, K]; v [B, T, n, HV, V]; beta [B, T, n, HV], 0 to 2 for keys of length
    1; g [B, T, HV]; H divides HV, and o is [B, T, HV, V]. Keys are taken as given. k, v and beta may also
    be tuples of n tensors without the axis n, which are copied into one.

    It is computed as a delta rule of n·T rows: one correction is faster than several in a step. q and g are
    copied between zeros, and `o` is a view of every n-th row of that rule's output."""
    q, g = operands(("q", q, "[B, T, H, K]"), ("g", g, "[B, T, HV]?"))
    k, v, beta = [_corrections(n, x, rank) for n, x, rank in (("k", k, 5), ("v", v, 5), ("beta", beta, 4))]
    count = k.shape[2]
    if not count or any(tuple(x.shape[:3]) != (*q.shape[:2], count) for x in (k, v, beta)):
        raise TensorError("'k', 'v' and 'beta' must have q's B and T, and one number of corrections a step, 1 or "
                          f"more, but have shapes {list(k.shape)}, {list(v.shape)} and {list(beta.shape)} "
                          f"beside {list(q.shape)}")
    if reverse:  # the rows of a step too are taken from the last to the first
        k, v, beta = (stack([x[:, :, i] for i in reversed(range(count))], 2) for x in (k, v, beta))
    k, v, beta = (x.reshape(x.shape[0], x.shape[1] * count, *x.shape[3:]) for x in (k, v, beta))
    return product_of_rows(q, k, v, beta, g, count, scale, False, reverse, initial_state=initial_state,
                           cu_seqlens=cu_seqlens, save_states=save_states)


def product_of_rows(q, k, v, beta, g, count, scale, normalise, reverse, *, cu_seqlens=None, **options):
    """`count` delta rules a step as one delta rule of all rows; docs/delta-rule.md says why. k, v and beta have a
    row for each, in the order of memory. With `normalise`, the step divides q and keys by their norms."""
    def placed(x, first):
        """x in the first row of a step or the last, in the order of steps, and 0 in the others."""
        at = 0 if first != bool(reverse) else count - 1
        rows = stack([x if i == at else zeros_like(x) for i in range(count)], 2)
        return rows.reshape(x.shape[0], x.shape[1] * count, *x.shape[2:])
    scale = default_scale(scale, q)
    if count > 1:
        q, g = placed(q, False), None if g is None else placed(g, True)
        cu_seqlens = None if cu_seqlens is None else cu_seqlens * count
    o, state = _correction(reverse)(v, q, k, beta, g, scale, normalise, cu_seqlens=cu_seqlens, **options)
    return o[:, 0 if reverse else count - 1::count], state


@named
def _gdn2(S, v, q, k, g, b, w, scale):
    S = S.decay(g)
    S = S.add(k, w * v - S.read(b * k))
    return S, S.read(q * scale)


def gdn2(q, k, v, g, b, w, *, scale=None, initial_state=None, cu_seqlens=None, reverse=False,
         save_states=True):
    """Gated DeltaNet-2: what is erased and what is written each have a gate for every channel.

    S = exp(g)[:, None] ⊙ S;  S = S + k (w⊙v − Sᵀ (b⊙k))ᵀ;  o = scale · Sᵀ q

    q and k [B, T, H, K], taken as given; v [B, T, HV, V]; g [B, T, HV, K], the log of the decay; b
    [B, T, HV, K] erases and w [B, T, HV, V] writes, both 0 to 1; H divides HV. With b and w one number
    it is `kda`."""
    return _gdn2(reverse)(v, q, k, g, b, w, default_scale(scale, q), initial_state=initial_state,
                          cu_seqlens=cu_seqlens, save_states=save_states)


@named
def _comba(S, v, q, k, p, g, beta, scale):
    if g is not None:
        S = S.decay(g)
    S = S.add(k, beta * (v - S.read(p)))
    return S, S.read(q * scale)


def comba(q, k, v, p, g, beta, *, scale=None, initial_state=None, cu_seqlens=None, reverse=False,
          save_states=True):
    """Comba (arXiv:2506.02475): the state is corrected by what it holds for p, not k.

    S = exp(g)·S;  S = S + k (β·(v − Sᵀ p))ᵀ;  o = scale · Sᵀ q

    q, k and p [B, T, H, K], taken as given; v [B, T, HV, V]; g, the log of the decay, and beta [B, T, HV];
    H divides HV. In the paper p is b·k with b [H] from 0 to 1, and q is corrected before: q − d·k with d
    [H]. g may be None."""
    return _comba(reverse)(v, q, k, p, g, beta, default_scale(scale, q), initial_state=initial_state,
                           cu_seqlens=cu_seqlens, save_states=save_states)


@named
def _oja(S, v, q, k, g, beta, scale):
    if g is not None:
        S = S.decay(g, axis="value")
    S = S.add(beta * (k - S.read(v, axis="value")), v)
    return S, S.read(q * scale)


def oja(q, k, v, beta, g=None, *, scale=None, initial_state=None, cu_seqlens=None, reverse=False,
        save_states=True):
    """The gated Oja rule: the state is corrected along its values, as `delta_rule` is along its keys.

    S = S ⊙ exp(g)[None, :];  S = S + (β·(k − S v)) vᵀ;  o = scale · Sᵀ q

    q and k [B, T, H, K]; v [B, T, HV, V], of length 1; beta [B, T, HV]; g [B, T, HV, V], the log of the
    decay of each value channel, or None; H divides HV."""
    return _oja(reverse)(v, q, k, g, beta, default_scale(scale, q), initial_state=initial_state,
                         cu_seqlens=cu_seqlens, save_states=save_states)


__all__ = ["gated_delta_product", "gdn2", "comba", "oja"]
