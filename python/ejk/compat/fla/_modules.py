"""The parts around a recurrence in a model of fla, in torch's own operations, for tensors on a CPU.

fla computes them with Triton, which has no CPU. Each function here has its namesake's signature,
and refuses what it does not compute. A function of several operations computes in float32 and
rounds its result once, as fla's kernels do. Tensors on other devices go to fla's own function."""

import torch
import torch.nn.functional as F

from ._common import refuse, with_unused


def _normalise(x, weight, bias, eps, rms, groups=1):
    own = x.float().unflatten(-1, (groups, -1))
    if not rms:
        own = own - own.mean(-1, keepdim=True)
    own = (own * torch.rsqrt(own.square().mean(-1, keepdim=True) + eps)).flatten(-2)
    if weight is not None:
        own = own * weight.float()
    return own if bias is None else own + bias.float()


def _added(x, residual, residual_in_fp32):
    """What is normalised, in float32, and the sum as it is given on, in its type."""
    if residual is None:
        return x, x.float() if residual_in_fp32 else x
    total = x.float() + residual.float()
    return total, total.to(residual.dtype)


def _norm(x, weight, bias, residual, eps, prenorm, residual_in_fp32, rms, groups=1):
    total, given = _added(x, residual, residual_in_fp32)
    y = _normalise(total, weight, bias, eps, rms, groups).to(x.dtype)
    return (y, given) if prenorm else y


def layer_norm(x, weight, bias, residual=None, eps=1e-5, prenorm=False, residual_in_fp32=False,
               is_rms_norm=False):
    return _norm(x, weight, bias, residual, eps, prenorm, residual_in_fp32, is_rms_norm)


def group_norm(x, weight, bias, residual=None, eps=1e-5, prenorm=False, residual_in_fp32=False,
               is_rms_norm=False, num_groups=1):
    return _norm(x, weight, bias, residual, eps, prenorm, residual_in_fp32, is_rms_norm, num_groups)


def rms_norm(x, weight, bias, residual=None, eps=1e-5, prenorm=False, residual_in_fp32=False):
    return _norm(x, weight, bias, residual, eps, prenorm, residual_in_fp32, True)


def layer_norm_linear(x, norm_weight, norm_bias, linear_weight, linear_bias, residual=None,
                      eps=1e-5, prenorm=False, residual_in_fp32=False, is_rms_norm=False,
                      num_groups=1):
    y, x = _norm(x, norm_weight, norm_bias, residual, eps, True, residual_in_fp32, is_rms_norm,
                 num_groups)
    y = F.linear(y.to(linear_weight.dtype), linear_weight, linear_bias)
    return (y, x) if prenorm else y


def _gated(x, g, weight, bias, activation, residual, prenorm, residual_in_fp32, eps, rms):
    total, given = _added(x, residual, residual_in_fp32)
    if activation not in ("swish", "silu", "sigmoid"):
        raise NotImplementedError(f"ejk's norm on a CPU does not support activation={activation!r}")
    gate = torch.sigmoid(g.float()) if activation == "sigmoid" else F.silu(g.float())
    y = (_normalise(total, weight, bias, eps, rms) * gate).to(x.dtype)
    return (y, given) if prenorm else y


def layer_norm_gated(x, g, weight, bias, activation="swish", residual=None, prenorm=False,
                     residual_in_fp32=False, eps=1e-6):
    return _gated(x, g, weight, bias, activation, residual, prenorm, residual_in_fp32, eps, False)


def rms_norm_gated(x, g, weight, bias, activation="swish", residual=None, prenorm=False,
                   residual_in_fp32=False, eps=1e-6):
    return _gated(x, g, weight, bias, activation, residual, prenorm, residual_in_fp32, eps, True)


def _gated_linear(x, g, norm_weight, norm_bias, linear_weight, linear_bias, residual, prenorm,
                  residual_in_fp32, eps, rms):
    y, x = _gated(x, g, norm_weight, norm_bias, "swish", residual, True, residual_in_fp32, eps, rms)
    y = F.linear(y.to(linear_weight.dtype), linear_weight, linear_bias)
    return (y, x) if prenorm else y


def layer_norm_swish_gate_linear(x, g, norm_weight, norm_bias, linear_weight, linear_bias,
                                 residual=None, prenorm=False, residual_in_fp32=False, eps=1e-6):
    return _gated_linear(x, g, norm_weight, norm_bias, linear_weight, linear_bias, residual,
                         prenorm, residual_in_fp32, eps, False)


def rms_norm_swish_gate_linear(x, g, norm_weight, norm_bias, linear_weight, linear_bias,
                               residual=None, prenorm=False, residual_in_fp32=False, eps=1e-6):
    return _gated_linear(x, g, norm_weight, norm_bias, linear_weight, linear_bias, residual,
                         prenorm, residual_in_fp32, eps, True)


def layernorm_fn(x, weight, bias, z=None, eps=1e-6, group_size=None, norm_before_gate=True,
                 is_rms_norm=False):
    """Mamba-2's norm, with a gate z before or after it."""
    own = x.float()
    if z is not None and not norm_before_gate:
        own = own * F.silu(z.float())
    groups = 1 if group_size is None else x.shape[-1] // group_size
    own = _normalise(own, weight, bias, eps, is_rms_norm, groups)
    if z is not None and norm_before_gate:
        own = own * F.silu(z.float())
    return own.to(x.dtype)


def rmsnorm_fn(x, weight, bias, z=None, eps=1e-6, group_size=None, norm_before_gate=True):
    return layernorm_fn(x, weight, bias, z, eps, group_size, norm_before_gate, True)


def l2norm(x, eps=1e-6, output_dtype=None):
    own = x.float()
    own = own * torch.rsqrt(own.square().sum(-1, keepdim=True) + eps)
    return own.to(output_dtype or x.dtype)


def sigmoid(x):
    return torch.sigmoid(x)


def swish(x):
    return F.silu(x)


def logsigmoid(x, temperature=1.0):
    return (F.logsigmoid(x.float()) / temperature).to(x.dtype)


def swiglu(x, y):
    return (F.silu(x.float()) * y.float()).to(x.dtype)


def swiglu_linear(x, y, weight, bias):
    return F.linear(swiglu(x, y), weight, bias)


def _convolve(x, weight, bias, before):
    """[B, T, D] with weight [D, W]; `before` [B, D, W] are the inputs before, or None."""
    width = weight.shape[1]
    rows = x.transpose(1, 2).float()
    past = rows.new_zeros(*rows.shape[:2], width) if before is None else before.float()
    rows = torch.cat([past, rows], -1)
    y = F.conv1d(rows[..., 1:], weight.float().unsqueeze(1),
                 None if bias is None else bias.float(), groups=weight.shape[0])
    return y.transpose(1, 2), rows[..., -width:]


def causal_conv1d(x, weight=None, bias=None, residual=None, initial_state=None,
                  output_final_state=False, activation=None, backend="triton", cu_seqlens=None,
                  cu_seqlens_cpu=None, chunk_indices=None, cp_context=None, **kwargs):
    refuse("causal_conv1d on a CPU", cp_context=cp_context, chunk_indices=chunk_indices, **kwargs)
    if activation not in (None, "swish", "silu"):
        raise NotImplementedError(f"causal_conv1d on a CPU does not support {activation=}")
    if weight is None:
        raise NotImplementedError("causal_conv1d on a CPU needs 'weight'")
    shape = x.shape
    x = x.flatten(2)
    if cu_seqlens is None:
        y, state = _convolve(x, weight, bias, initial_state)
    else:
        parts, states = [], []
        for n, (first, end) in enumerate(zip(cu_seqlens.tolist(), cu_seqlens.tolist()[1:])):
            before = None if initial_state is None else initial_state[n:n + 1]
            part, state = _convolve(x[:, first:end], weight, bias, before) if end > first else (
                x[:, :0].float(), x.new_zeros(1, x.shape[2], weight.shape[1]).float()
                if before is None else before)
            parts.append(part)
            states.append(state)
        y, state = with_unused(torch.cat(parts, 1), x.shape[1]), torch.cat(states)
    if activation:
        y = F.silu(y)
    y = y.reshape(shape)
    if residual is not None:
        y = y + residual.float()
    return y.to(x.dtype), state.to(x.dtype) if output_final_state else None


def causal_conv1d_update(x, cache, residual=None, weight=None, bias=None, activation=None):
    rows = x.reshape(-1, 1, weight.shape[0])
    residual = None if residual is None else residual.reshape(rows.shape)
    y, state = causal_conv1d(rows, weight, bias, residual, cache, True, activation)
    cache.copy_(state)
    return y.reshape(x.shape), cache


def rotary_embedding(x, cos, sin, interleaved=False, inplace=False, seqlen_offsets=0,
                     cu_seqlens=None, chunk_indices=None):
    """[B, T, H, D] with cos and sin [positions, R]: the first 2R channels turn, in pairs."""
    refuse("rotary_embedding on a CPU", inplace=inplace, chunk_indices=chunk_indices)
    positions = torch.arange(x.shape[1], device=x.device)
    offsets = seqlen_offsets
    if cu_seqlens is not None:
        sequence = torch.searchsorted(cu_seqlens, positions, right=True) - 1
        # Rows after the last offset are in no sequence, and turn as a first row does.
        unused = sequence == len(cu_seqlens) - 1
        positions = torch.where(unused, 0, positions - cu_seqlens[sequence])
        sequence = torch.where(unused, 0, sequence)
        offsets = offsets[sequence] if isinstance(offsets, torch.Tensor) else offsets
    elif isinstance(offsets, torch.Tensor):
        offsets = offsets[:, None]
    cos, sin = (t[positions + offsets].float().unsqueeze(-2) for t in (cos, sin))
    turned, rest = x.split([2 * cos.shape[-1], x.shape[-1] - 2 * cos.shape[-1]], -1)
    turned = turned.float()
    a, b = (turned[..., ::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
    pairs = a * cos - b * sin, b * cos + a * sin
    turned = torch.stack(pairs, -1).flatten(-2) if interleaved else torch.cat(pairs, -1)
    return torch.cat([turned.to(x.dtype), rest], -1)


def cross_entropy_loss(logits, target, label_smoothing=0.0, logit_scale=1.0, lse_square_scale=0.0,
                       logit_softcapping=None, ignore_index=-100, inplace_backward=False,
                       process_group=None):
    refuse("cross_entropy_loss on a CPU", process_group=process_group)
    logits = logits.float() * logit_scale
    if logit_softcapping:
        logits = logit_softcapping * torch.tanh(logits / logit_softcapping)
    loss = F.cross_entropy(logits, target, ignore_index=ignore_index, reduction="none",
                           label_smoothing=label_smoothing)
    z = lse_square_scale * torch.logsumexp(logits, -1).square()
    z = torch.where(target == ignore_index, torch.zeros_like(z), z)
    return loss + z, z.detach()


def fused_linear_cross_entropy_loss(x, target, weight, bias=None, ignore_index=-100,
                                    label_smoothing=0.0, logit_scale=1.0, logit_softcapping=None,
                                    num_chunks=8, reduction="mean", use_l2warp=False,
                                    l2_penalty_factor=1e-4, accumulate_grad_in_fp32=True,
                                    process_group=None):
    refuse("fused_linear_cross_entropy_loss on a CPU", use_l2warp=use_l2warp,
           process_group=process_group)
    loss, _ = cross_entropy_loss(F.linear(x, weight, bias), target, label_smoothing, logit_scale,
                                 0.0, logit_softcapping, ignore_index)
    total = loss.sum()
    return total / (target != ignore_index).sum() if reduction == "mean" else total


def cross_entropy_forward(self, input, target):
    """FusedCrossEntropyLoss.forward, which asks for a GPU before it calls the function above."""
    loss, z = cross_entropy_loss(input, target, self.label_smoothing, self.logit_scale,
                                 self.lse_square_scale, self.logit_softcapping, self.ignore_index,
                                 False, self.process_group)
    if self.reduction != "none":
        loss, z = loss.sum(), z.sum()
        if self.reduction == "mean":
            count = (target != self.ignore_index).sum()
            loss, z = loss / count, z / count
    return (loss, z) if self.return_z_loss else loss


# fla's functions by module.
HOMES = {"fla.modules.norm.layernorm": (layer_norm, group_norm, rms_norm, layer_norm_linear),
         "fla.modules.norm.fused_norm_gate": (layer_norm_gated, rms_norm_gated,
                                              layer_norm_swish_gate_linear,
                                              rms_norm_swish_gate_linear),
         "fla.modules.norm.layernorm_gated": (layernorm_fn, rmsnorm_fn),
         "fla.modules.norm.l2norm": (l2norm,),
         "fla.modules.activations.ops": (sigmoid, swish, logsigmoid, swiglu, swiglu_linear),
         "fla.modules.causal_conv1d.ops": (causal_conv1d, causal_conv1d_update),
         "fla.modules.rotary.ops": (rotary_embedding,),
         "fla.modules.fused_cross_entropy.ops": (cross_entropy_loss,),
         "fla.modules.fused_linear_cross_entropy.ops": (fused_linear_cross_entropy_loss,)}
