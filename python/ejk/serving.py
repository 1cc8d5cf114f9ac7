"""The recurrences of an inference engine's layers, as the engine calls them: gates as projections leave
them, norms of queries and keys inside, and states in slots of a pool ("docs/serving.md").

Each function is one kernel for a decoded token and for drafted ones. It computes in float32 and returns the
outputs. The pool of torch or NumPy is changed in its place. JAX's arrays do not change: with them a function
returns (outputs, new pool). There are no derivatives: where torch records them and a tensor needs one, a call is
an error; call it under torch.no_grad() or torch.inference_mode().

Arguments that all of them take:

- `pool`: [P, H, V, K] (the keys' channels innermost), float32, bfloat16 or float16. A slot is dense, and
  slots may lie any multiple of 16 bytes apart.
- `read_slots`, `write_slots`: [N] or [N, D] int32 or int64, where sequences start and end; without
  `read_slots`, all start from zero. `accepted` [N]: sequence n starts from the slot of its row
  `accepted[n]` of D. An index below `first_slot` stands for no slot: a sequence without one to read
  starts from zero, and one without any has outputs of zero.
- `cu_seqlens`: [N+1] int32 or int64, for packed sequences: then rows are [1, T, ...].
"""

from . import _arrays
from . import _functions as f
from ._drafts import Ring, Tree
from ._errors import TensorError
from ._library import F32_MATMULS
from ._named import checked_bound, default_scale, number, rate_of
from ._recurrence import Recurrence

__all__ = ["gated_delta_rule", "kimi_delta_attention", "mamba2", "lightning", "Tree", "Ring"]


def _normalised(x):
    return x * f.rsqrt(f.sum(x * x) + 1e-6)


def _delta(S, v, k, gate, beta):
    S = S.decay(gate)
    return S.add(k, f.sigmoid(beta) * (v - S.read(k)))


def _gated_delta_rule(S, v, q, k, a, b, A_log, dt_bias, scale):
    S = _delta(S, v, _normalised(k), -rate_of(A_log) * f.softplus(a + dt_bias), b)
    return S, S.read(_normalised(q) * scale)


def _kimi(S, v, q, k, g, beta, A_log, dt_bias, scale, lower_bound):
    raw = g if dt_bias is None else g + dt_bias
    rate = rate_of(A_log)
    gate = -rate * f.softplus(raw) if lower_bound is None else lower_bound * f.sigmoid(rate * raw)
    S = _delta(S, v, _normalised(k), gate, beta)
    return S, S.read(_normalised(q) * scale)


def _mamba2(S, x, dt, C, B, A, D, dt_bias, softplus):
    step = dt if dt_bias is None else dt + dt_bias
    if softplus:
        step = f.softplus(step)
    S = S.decay(A * step).add(B, step * x)
    y = S.read(C)
    return S, y if D is None else y + D * x


def _lightning(S, v, q, k, slope, scale):
    S = S.decay(-slope).add(k, v)
    return S, S.read(q * scale)


# Made here: torch.compile does not follow that in a call.
_GATED_DELTA_RULE, _KIMI, _MAMBA2 = (Recurrence(step, 1, False) for step in (_gated_delta_rule, _kimi, _mamba2))
_LIGHTNING = {matmuls: Recurrence(_lightning, 1, False, f32_matmuls=matmuls) for matmuls in F32_MATMULS}


def _run(recurrence, *arguments, value_major=True, **pools):
    pool = pools.get("pool")
    if pool is None:
        raise TensorError("'pool' must be given: states of an engine lie in one")
    o, written = recurrence(*arguments, value_major=value_major, **pools)
    # An array of JAX's does not change: the new pool is a result.
    return (o, written) if _arrays.door_of(written).__name__ == "ejk._jax" else o


def gated_delta_rule(q, k, v, a, b, A_log, dt_bias, *, scale=None, **pools):
    """The recurrence of a gated DeltaNet layer, as Qwen3-Next has it.

    q, k = q/‖q‖, k/‖k‖;  β = σ(b);  S = exp(−exp(A_log)·softplus(a + dt_bias)) · S
    S = S + (β·(v − S k)) kᵀ;  o = scale · S q

    q and k [N, T, H, K]; v [N, T, HV, V], where H divides HV; a and b [N, T, HV]; A_log and dt_bias [HV];
    the pool [P, HV, V, K]. `scale` is K^-½ if left out. Returns o [N, T, HV, V]."""
    return _run(_GATED_DELTA_RULE, v, q, k, a, b, A_log, dt_bias, default_scale(scale, q), **pools)


def kimi_delta_attention(q, k, v, g, beta, A_log, dt_bias=None, *, lower_bound=None, scale=None, **pools):
    """The recurrence of a Kimi delta attention layer: `gated_delta_rule` with a gate for each key channel.

    gate = −exp(A_log)·softplus(g + dt_bias), or with `lower_bound` ℓ = ℓ·σ(exp(A_log)·(g + dt_bias))

    g [N, T, HV, K] and beta [N, T, HV] as projections leave them; A_log [HV]; dt_bias [HV, K], or of as
    many elements; `lower_bound` at most 0, −5 in Kimi K3."""
    bound = checked_bound(lower_bound)
    HV, K = g.shape[-2:]
    if dt_bias is not None:
        dt_bias = dt_bias.reshape(HV, K)
    return _run(_KIMI, v, q, k, g, beta, A_log.reshape(HV), dt_bias, default_scale(scale, q), bound, **pools)


def mamba2(x, dt, A, B, C, D=None, dt_bias=None, *, softplus=True, **pools):
    """The recurrence of a Mamba-2 layer.

    δ = softplus(dt + dt_bias);  S = exp(A·δ) · S + δ·x Bᵀ;  y = S C + D·x

    x [N, T, heads, P]; dt [N, T, heads]; A (below 0), D and dt_bias [heads]; B and C [N, T, groups, S], where
    groups divide heads; the pool [slots, heads, P, S]. With softplus=False, δ is dt + dt_bias."""
    return _run(_MAMBA2, x, dt, C, B, A, D, dt_bias, bool(softplus), **pools)


def lightning(q, k, v, slope, *, scale=1.0, f32_matmuls=None, value_major=False, **pools):
    """Lightning attention: S = exp(−slope) · S + k vᵀ; o = scale · Sᵀ q.

    q and k [N, T, H, K]; v [N, T, H, V]; slope [H], above 0. The pool is [P, H, K, V], or [P, H, V, K] with
    `value_major`. Rows in float32, which engines' layers have here, go step by step on a GPU; with
    `f32_matmuls` "bf16x3" prefills go chunk by chunk, with an error below 1e-5, and with "bf16x6" below 1e-6."""
    if f32_matmuls not in _LIGHTNING:
        raise ValueError(f"'f32_matmuls' must be None, 'bf16x3' or 'bf16x6', but is {f32_matmuls!r}")
    return _run(_LIGHTNING[f32_matmuls], v, q, k, slope, number("scale", scale), value_major=value_major, **pools)
