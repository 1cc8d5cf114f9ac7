"""Context parallelism over torch.distributed: each process has some rows of every sequence.

The functions are those of `ejk.ops`, with a `group`. Each process gives its own rows, in the order
of ranks; processes may have different numbers of rows. `cu_seqlens` and `initial_state` are the
whole's, and the same on all. The final state has the sequences that end on this process, and zeros
for others: the sum over processes is the whole's. Gradients of what processes share
(`initial_state`, `g_gamma`, Mamba-2's parameters) are each process's part: sum them, as data
parallelism does."""

from operator import index

import torch

from .._arrays import check_exact
from .._errors import EjkError, TensorError
from .._named import number
from .._torch_tensors import describe
from ._segments import Segment, bound_by_name, boundaries
from ._torch_job import OVER_TIME, Job

#: Of `ejk.ops`.
FUNCTIONS = ("recurrent", "gla", "simple_gla", "lightning_attn", "retention", "linear_attn",
             "mamba2_ssd", "delta_rule", "gated_delta_rule", "kda")
__all__ = [*FUNCTIONS, "Local"]


class Local:
    """All segments on this process: for `ejk.split`. `parts` is their number, or their lengths."""

    def __init__(self, parts):
        self.parts = parts

    def lengths(self, rows):
        """The lengths of the segments that have rows; of no rows, one length."""
        try:
            parts = list(self.parts)
        except TypeError:
            return _alike(rows, _length(self.parts, self.parts))
        parts = [_length(n, parts) for n in parts]
        if any(n < 0 for n in parts) or sum(parts) != rows:
            raise TensorError(f"'parts' must be lengths of 0 or more, {rows} rows in all, but is {parts}")
        return [n for n in parts if n] or [0]


def _alike(rows, parts):
    if not 1 <= parts <= max(rows, 1):
        raise TensorError(f"'parts' must be 1 to {max(rows, 1)}, for {rows} rows, but is {parts}")
    size, more = divmod(rows, parts)
    return [size + (i < more) for i in range(parts)]


def _length(n, parts):
    try:
        return index(n)
    except TypeError:
        raise TensorError("'parts' must be an int, or a list of ints, which are lengths, but is "
                          f"{parts!r}") from None


class _OverSegments(torch.autograd.Function):
    """All of this process's segments. `exchange` takes their vectors, and gives those of all."""

    @staticmethod
    def forward(ctx, plan, initial_state, *values):
        names, spans, segments, exchange, constants, delta, differentiable = plan
        jobs = []
        for segment, (start, end) in spans:
            own = {n: t[:, start:end].contiguous() if n in OVER_TIME else t
                   for n, t in zip(names, values)}
            jobs.append(Job(segment, own, initial_state, constants, delta))
        vectors = exchange([job.summary() for job in jobs])
        results = [job.run(vectors, segments, differentiable) for job in jobs]
        ctx.jobs, ctx.plan, ctx.has_state = jobs, plan, initial_state is not None
        # torch keeps the operands as well, to see whether they change in place.
        ctx.save_for_backward(initial_state, *values, *(t for job in jobs for t in job.kept))
        ctx.counts = [len(job.kept) for job in jobs]
        for job in jobs:
            job.kept.clear()
        o = torch.cat([o for o, _ in results], 1) if len(results) > 1 else results[0][0]
        return o, sum(ht for _, ht in results[1:]) + results[0][1]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, do, dht):
        names, spans, segments, exchange, *_ = ctx.plan
        kept = list(ctx.saved_tensors)  # raises where an operand was changed in place since
        for job, count in zip(reversed(ctx.jobs), reversed(ctx.counts)):
            kept, job.kept[:] = kept[:len(kept) - count], kept[len(kept) - count:]
        vectors = exchange([job.adjoint_summary(do[:, start:end], dht)
                            for job, (_, (start, end)) in zip(ctx.jobs, spans)])
        found = [job.gradients(vectors, segments) for job in ctx.jobs]
        joined = []
        for name in names:
            parts = [gradients[name] for gradients, _ in found]
            if len(parts) > 1:  # torch.cat copies one, too
                parts = [torch.cat(parts, 1) if name in OVER_TIME else sum(parts)]
            joined += parts
        dh0 = sum(d for _, d in found[1:]) + found[0][1] if ctx.has_state else None
        return None, dh0, *joined


# A caller that torch.compile compiles has its graph around this. What segments exchange depends on lengths.
@torch._disable_dynamo
def _run(group, tensors, initial_state, cu_seqlens, delta, **constants):
    if torch._C._functorch.peek_interpreter_stack() is not None:
        raise EjkError("a sequence in segments has no transformation of torch.func, such as grad or vmap; "
                       "torch.autograd.grad gives its gradients, and batch entries are in its tensors")
    tensors = {n: t for n, t in tensors.items() if t is not None}
    k = tensors["k"]
    rows = k.shape[1]
    offsets = None if cu_seqlens is None else [int(n) for n in cu_seqlens]
    if offsets is not None and k.shape[0] != 1:
        raise TensorError(f"packed sequences have a batch of 1, but 'k' has {k.shape[0]}")
    # By the names of Mamba-2's own operands, too.
    own = {"q": "C", "k": "B", "v": "x"} if "dt" in tensors else {}
    exact = check_exact([own.get(n, n) for n in tensors], [describe(t) for t in tensors.values()])
    if initial_state is not None:
        initial_state = initial_state.to(torch.float64 if exact else torch.float32)
    if isinstance(group, Local):
        cuts = _used(boundaries(group.lengths(rows)), offsets)
        if not cuts:
            raise TensorError("'cu_seqlens' ends at 0: no sequence has a row")
        own = range(len(cuts))

        def exchange(vectors):
            return vectors
    else:
        from torch import distributed
        count, rank = distributed.get_world_size(group), distributed.get_rank(group)
        own = [rank]
        if offsets is None:  # Nobody asks how many rows others have: a call waits for no kernel.
            cuts = [(0, rows)] * count
        else:
            lengths = torch.zeros(count, dtype=torch.int64, device=k.device)
            distributed.all_gather_into_tensor(lengths, torch.tensor([rows], device=k.device),
                                               group=group)
            cuts = boundaries(lengths.tolist())
            if len(_used(cuts, offsets)) < count:
                raise TensorError(f"'cu_seqlens' ends at {offsets[-1]}, so that a process has no "
                                  "row of any sequence; divide the rows of sequences among all")
            cuts = _used(cuts, offsets)

        def exchange(vectors):
            vector, = vectors
            all_ = vector.new_empty(count * vector.numel())
            distributed.all_gather_into_tensor(all_, vector.contiguous(), group=group)
            return all_.view(count, -1)
    total = cuts[-1][1]
    segments = [Segment(i, len(cuts), start, end, total, offsets)
                for i, (start, end) in enumerate(cuts)]
    base = cuts[own[0]][0]
    spans = [(segments[i], (cuts[i][0] - base, cuts[i][1] - base)) for i in own]
    differentiable = torch.is_grad_enabled() and any(
        t is not None and t.requires_grad for t in (initial_state, *tensors.values()))
    plan = (tuple(tensors), spans, segments, exchange, constants, delta, differentiable)
    kept = cuts[own[-1]][1] - base
    o, state = _OverSegments.apply(plan, initial_state,
                                   *(t[:, :kept] if n in OVER_TIME and kept < rows else t
                                     for n, t in tensors.items()))
    if kept < rows:
        o = torch.cat([o, o.new_zeros(o.shape[0], rows - kept, *o.shape[2:])], 1)
    return o, state


def _used(cuts, offsets):
    """The segments without the rows after the last offset, which are in no sequence."""
    if offsets is None or offsets[-1] >= cuts[-1][1]:
        return cuts
    return [(start, min(end, offsets[-1])) for start, end in cuts if start < offsets[-1]]


def recurrent(q, k, v, g=None, g_gamma=None, gk=None, gv=None, *, scale=None, initial_state=None,
              cu_seqlens=None, group=None):
    """`ejk.ops.recurrent` of this process's rows. k and v have as many heads as q."""
    if k.shape[2] != q.shape[2] or v.shape[2] != q.shape[2]:
        raise TensorError(f"'k' and 'v' must have q's {q.shape[2]} heads, but have {k.shape[2]} "
                          f"and {v.shape[2]}; repeat them before")
    if g is not None and g.dim() == 4:
        g, gk = None, g if gk is None else g + gk
    if g_gamma is not None and g_gamma.dim() != 1:
        raise TensorError(f"'g_gamma' must be [H], but is {list(g_gamma.shape)}")
    return _run(group, dict(q=q, k=k, v=v, g=g, g_gamma=g_gamma, gk=gk, gv=gv),
                initial_state, cu_seqlens, False, scale=number("scale", scale))


def gla(q, k, v, g, *, scale=None, initial_state=None, cu_seqlens=None, group=None):
    """`recurrent` with a gate for each key channel, g [B, T, H, K]."""
    return recurrent(q, k, v, g, scale=scale, initial_state=initial_state, cu_seqlens=cu_seqlens, group=group)


def simple_gla(q, k, v, g=None, g_gamma=None, *, scale=None, initial_state=None, cu_seqlens=None, group=None):
    """`recurrent` with a gate for each head: g [B, T, H], or g_gamma [H]."""
    return recurrent(q, k, v, g, g_gamma, scale=scale, initial_state=initial_state, cu_seqlens=cu_seqlens,
                     group=group)


def _head_numbers(q):
    """0, 1, 2, … of the heads, in the type of a gate of theirs."""
    dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
    return torch.arange(q.shape[2], device=q.device, dtype=dtype)


def lightning_attn(q, k, v, layer_idx, num_layers, *, scale=None, initial_state=None, cu_seqlens=None, group=None):
    """`recurrent` with lightning attention's decays."""
    rate = -(8 / q.shape[2]) * (1 - layer_idx / num_layers)
    return recurrent(q, k, v, g_gamma=rate * _head_numbers(q), scale=scale, initial_state=initial_state,
                     cu_seqlens=cu_seqlens, group=group)


def retention(q, k, v, *, scale=None, initial_state=None, cu_seqlens=None, group=None):
    """`recurrent` with RetNet's decays."""
    return recurrent(q, k, v, g_gamma=torch.log1p(-torch.exp2(-5 - _head_numbers(q))), scale=scale,
                     initial_state=initial_state, cu_seqlens=cu_seqlens, group=group)


def linear_attn(q, k, v, *, scale=None, initial_state=None, cu_seqlens=None, group=None):
    """`recurrent` without a gate."""
    return recurrent(q, k, v, scale=scale, initial_state=initial_state, cu_seqlens=cu_seqlens, group=group)


def mamba2_ssd(x, dt, A, B, C, D=None, dt_bias=None, *, dt_softplus=False, initial_state=None,
               cu_seqlens=None, group=None):
    """`ejk.ops.mamba2_ssd` of this process's rows."""
    return _run(group, dict(q=C, k=B, v=x, dt=dt, A=A, dt_bias=dt_bias, D=D), initial_state,
                cu_seqlens, False, dt_softplus=bool(dt_softplus))


def _delta(q, k, v, g, beta, scale, initial_state, cu_seqlens, group, **bound):
    if not k.shape[2] == q.shape[2] > 0 or v.shape[2] % k.shape[2]:
        raise TensorError(f"'q' and 'k' must have as many heads, which divide v's {v.shape[2]}, but have "
                          f"{q.shape[2]} and {k.shape[2]}")
    return _run(group, dict(q=q, k=k, v=v, g=g, beta=beta), initial_state, cu_seqlens, True,
                scale=number("scale", scale), **bound)


def delta_rule(q, k, v, beta, *, scale=None, initial_state=None, cu_seqlens=None, group=None):
    """`ejk.ops.delta_rule` of this process's rows."""
    return _delta(q, k, v, None, beta, scale, initial_state, cu_seqlens, group)


def gated_delta_rule(q, k, v, g, beta, *, scale=None, initial_state=None, cu_seqlens=None,
                     group=None):
    """`ejk.ops.gated_delta_rule` of this process's rows."""
    return _delta(q, k, v, g, beta, scale, initial_state, cu_seqlens, group)


def kda(q, k, v, g, beta, *, scale=None, initial_state=None, cu_seqlens=None, group=None,
        lower_bound=None):
    """`ejk.ops.kda` of this process's rows."""
    return _delta(q, k, v, g, beta, scale, initial_state, cu_seqlens, group,
                  **bound_by_name(lower_bound))
