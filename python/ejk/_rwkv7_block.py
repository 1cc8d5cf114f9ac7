"""The block of an RWKV-7 layer between its projections, and the shifted tokens before them. Rows that
both of its parts need are computed in both: two sums a row."""

from . import _functions as f
from ._errors import TensorError
from ._outside import of_shape, operands
from ._recurrence import Recurrence
from ._short_convolution import MOST_CHANNELS

_SLOWEST = -0.6065306597126334  # −exp(−½), the log of the strongest decay


def _shifted_tokens(x, x_r, x_w, x_k, x_v, x_a, x_g, row, wanted):
    change = x.shifted(1, row) - x
    mixed = tuple(x + change * share for share in (x_r, x_w, x_k, x_v, x_a, x_g) if share is not None)
    return (*mixed, x.last_rows(1, row)) if wanted else mixed


def _rwkv7_key(k, a, k_a):
    return k + k * (f.sigmoid(a) - 1.0) * k_a


def _rwkv7_value(v, first, share):
    return v if first is None else v + (first - v) * f.sigmoid(share)


def _rwkv7_recurrence(S, r, w, k, v, a, k_k, k_a, first, share):
    removed = k * k_k
    # As torch's normalize: divided by the norm, or by 1e-12 where that is larger.
    removed = removed * f.rsqrt(f.maximum(f.sum(removed * removed), 1e-24))
    held = S.read(removed)
    S = S.decay(_SLOWEST * f.sigmoid(w)).add(-f.sigmoid(a) * removed, held)
    S = S.add(_rwkv7_key(k, a, k_a), _rwkv7_value(v, first, share))
    return S, S.read(r)


def _rwkv7_output(o, r, k, v, a, g, k_a, r_k, weight, bias, first, share, channels, eps):
    o = o - f.sum(o) / channels
    o = o * f.rsqrt(f.sum(o * o) / channels + eps)
    if weight is not None:
        o = o * weight + bias
    o = o + f.sum(r * _rwkv7_key(k, a, k_a) * r_k) * _rwkv7_value(v, first, share)
    return o * g


def _rwkv7_block(S, r, w, k, v, a, g, k_k, k_a, r_k, weight, bias, first, share, channels, eps):
    S, o = _rwkv7_recurrence(S, r, w, k, v, a, k_k, k_a, first, share)
    return S, _rwkv7_output(o, r, k, v, a, g, k_a, r_k, weight, bias, first, share, channels, eps)


# Made here: torch.compile does not follow that in a call.
_SHIFTED_TOKENS = Recurrence(_shifted_tokens, 0, False)
_RWKV7 = Recurrence(_rwkv7_recurrence, 1, False)
_RWKV7_OUTPUT = Recurrence(_rwkv7_output, 0, False)
_RWKV7_BLOCK = Recurrence(_rwkv7_block, 1, False)


def rwkv7_shift(x, x_r, x_w, x_k, x_v, x_a, x_g=None, *, row=None, output_row=False, cu_seqlens=None):
    """The shifted tokens of an RWKV-7 layer, before its projections: for each of r, w, k, v, a and g a mix of a
    row with the row before it.

    xᵢ = x + xᵢ_share · (x₋₁ − x)

    x [B, T, D]; each of the shares x_r to x_g [D], or of as many elements. Without `x_g` there is no sixth.
    `row` [N, D] is the row before the first of each sequence, zero without it; with `output_row`, the last row
    of each is one more result, [N, D]."""
    names = ("x_r", "x_w", "x_k", "x_v", "x_a", "x_g")
    x, row, *shares = operands(("x", x, "[B, T, D]"), ("row", row, "[N, D]?"), *[
        (n, share, "[...]?" if n == "x_g" else "[...]")
        for n, share in zip(names, (x_r, x_w, x_k, x_v, x_a, x_g))])
    B, T, D = x.shape
    count = B if cu_seqlens is None else cu_seqlens.shape[0] - 1
    if row is not None and (row.dtype != x.dtype or list(row.shape) != [count, D]):
        raise TensorError(f"'row' must be {x.dtype} {[count, D]}, as 'x' is, but is {row.dtype} {list(row.shape)}")
    channels = _of_a_head(D)
    heads = D // channels
    shares = [of_shape(n, share, (heads, channels)) for n, share in zip(names, shares)]
    row = None if row is None else row.reshape(row.shape[0], 1, heads, channels)
    found = _SHIFTED_TOKENS(x.reshape(B, T, heads, channels), *shares, row, bool(output_row), cu_seqlens=cu_seqlens)
    mixed = tuple(y.reshape(B, T, D) for y in (found[:-1] if output_row else found))
    return (*mixed, found[-1].reshape(-1, D)) if output_row else mixed


def _of_a_head(channels):
    """The most channels of equal heads that a program takes."""
    return next(size for size in range(min(channels, MOST_CHANNELS), 0, -1) if channels % size == 0)


def rwkv7_block(r, w, k, v, a, g, k_k, k_a, r_k, norm_weight, norm_bias, *, v_first=None, v_share=None, eps=None,
                initial_state=None, cu_seqlens=None, save_states=True):
    """The block of an RWKV-7 layer between its projections, as fla's layer has it: gates, the recurrence, a
    group norm, the bonus of a step's own value, and the output's gate.

    κ = normalize(k ⊙ k_k);  a = σ(a);  k = k ⊙ (1 + (a − 1) ⊙ k_a);  v = v + (v_first − v) ⊙ σ(v_share)
    S = exp(−exp(−½)·σ(w))[:, None] ⊙ S − (κ ⊙ a) (Sᵀ κ)ᵀ + k vᵀ
    o = (norm(Sᵀ r) ⊙ norm_weight + norm_bias + (Σ r ⊙ k ⊙ r_k)·v) ⊙ g

    r, w, k and a [B, T, H, K], and v and g [B, T, H, V], as their projections leave them. w, a and g have
    those of low rank. k_k and k_a [H·K]; r_k [H, K]; norm_weight and norm_bias [H·V], or both None. `v_first`
    is the first layer's v, and `v_share` the projection that mixes it in, both [B, T, H, V]; without them v is
    taken as given. The norm is of each head, with `eps` 1e-5·K where it is None. `rwkv7_shift` has the shifted
    tokens before the projections. The state is [N, H, K, V] in float32.

    One step is one program. More steps are two: the recurrence, whose output is rounded to its rows' type, and
    what comes after it."""
    keys, values = "[B, T, H, K]", "[B, T, H, V]"
    r, w, k, v, a, g, k_k, k_a, r_k, norm_weight, norm_bias, v_first, v_share = operands(
        ("r", r, keys), ("w", w, keys), ("k", k, keys), ("v", v, values), ("a", a, keys), ("g", g, values),
        ("k_k", k_k, "[...]"), ("k_a", k_a, "[...]"), ("r_k", r_k, "[...]"),
        ("norm_weight", norm_weight, "[...]?"), ("norm_bias", norm_bias, "[...]?"),
        ("v_first", v_first, values + "?"), ("v_share", v_share, values + "?"))
    (H, K), V = r.shape[2:], v.shape[3]
    if (v_first is None) != (v_share is None):
        raise TensorError("'v_first' and 'v_share' are given together or not at all")
    if (norm_weight is None) != (norm_bias is None):
        raise TensorError("'norm_weight' and 'norm_bias' are given together or not at all")
    k_k, k_a, r_k = [of_shape(n, x, (H, K)) for n, x in (("k_k", k_k), ("k_a", k_a), ("r_k", r_k))]
    weight, bias = of_shape("norm_weight", norm_weight, (H, V)), of_shape("norm_bias", norm_bias, (H, V))
    eps = 1e-5 * K if eps is None else float(eps)
    options = dict(initial_state=initial_state, cu_seqlens=cu_seqlens, save_states=save_states)
    if r.shape[1] == 1:
        return _RWKV7_BLOCK(r, w, k, v, a, g, k_k, k_a, r_k, weight, bias, v_first, v_share, float(V), eps, **options)
    o, state = _RWKV7(r, w, k, v, a, k_k, k_a, v_first, v_share, **options)
    return _RWKV7_OUTPUT(o, r, k, v, a, g, k_a, r_k, weight, bias, v_first, v_share, float(V), eps,
                         cu_seqlens=cu_seqlens), state
