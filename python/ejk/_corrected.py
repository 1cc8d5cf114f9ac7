"""Named recurrences that correct their state: of `ejk.ops`, which has what their arguments share."""

import inspect

from . import _functions as f
from ._errors import TensorError
from ._named import default_scale, named

_MOST = 8  # corrections of a step


def unit(x):
    """A row divided by its norm, with fla's epsilon."""
    return x * f.rsqrt(f.sum(x * x) + 1e-6)


def _product(count):
    """The step of `count` corrections, one after the other."""
    def step(S, *arguments):
        rows, (q, g, scale, normalise) = arguments[:-4], arguments[-4:]
        if normalise:
            q = unit(q)
        if g is not None:
            S = S.decay(g)
        for v, k, beta in zip(rows[::3], rows[1::3], rows[2::3]):
            if normalise:
                k = unit(k)
            S = S.add(k, beta * (v - S.read(k)))
        return S, S.read(q * scale)
    # v is first: it may have more heads than q and k have.
    names = ["S", *(f"{n}{i + 1}" for i in range(count) for n in ("v", "k", "beta")), "q", "g", "scale",
             "normalise"]
    step.__signature__ = inspect.Signature(
        [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names])
    step.__name__ = step.__qualname__ = f"_gated_delta_product_{count}"
    return named(step)


_products = {count: _product(count) for count in range(1, _MOST + 1)}


def _parts(name, x):
    """The n tensors of one with them along axis 2, or of a tuple."""
    if isinstance(x, (tuple, list)):
        return tuple(x)
    rank = 4 if name == "beta" else 5
    if len(x.shape) != rank:
        raise TensorError(f"'{name}' must be [B, T, n, H{', C' * (rank > 4)}], or a tuple of n tensors "
                          f"[B, T, H{', C' * (rank > 4)}], but has shape {list(x.shape)}")
    return tuple(x[:, :, i] for i in range(x.shape[2]))


def gated_delta_product(q, k, v, beta, g=None, *, scale=None, initial_state=None, cu_seqlens=None,
                        reverse=False, save_states=True):
    """Gated DeltaProduct (arXiv:2502.10297): n delta rules a step, after one decay by exp(g).

    S = exp(g)·S;  for i = 1 … n: S = S + kᵢ (βᵢ·(vᵢ − Sᵀ kᵢ))ᵀ;  o = scale · Sᵀ q

    q [B, T, H, K]; k [B, T, n, H, K]; v [B, T, n, HV, V]; beta [B, T, n, HV], 0 to 2 for keys of length
    1; g [B, T, HV]; H divides HV, and o is [B, T, HV, V]. Keys are taken as given. k, v and beta may also be tuples of n
    tensors without the axis n, which need no copies. n is at most 8."""
    return product_of(q, k, v, beta, g, scale, False, reverse, initial_state=initial_state,
                      cu_seqlens=cu_seqlens, save_states=save_states)


def product_of(q, k, v, beta, g, scale, normalise, reverse, **options):
    """`gated_delta_product`, of q and keys that the step normalises or not."""
    k, v, beta = (_parts(n, x) for n, x in (("k", k), ("v", v), ("beta", beta)))
    if not 1 <= len(k) <= _MOST or not len(k) == len(v) == len(beta):
        raise TensorError(f"'k', 'v' and 'beta' must have one number of corrections a step, from 1 to {_MOST}, "
                          f"but have {len(k)}, {len(v)} and {len(beta)}")
    rows = [x for row in zip(v, k, beta) for x in row]
    return _products[len(k)](reverse)(*rows, q, g, default_scale(scale, q), normalise, **options)


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
