"""The recurrences of the engines' layers, a row at a time in f64, and their short convolutions."""

import torch


def _unit(x):
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)


def _softplus(x):
    return torch.nn.functional.softplus(x, threshold=80)


def gdn_gates(a, b, A_log, dt_bias):
    """The log decay and beta of each row and head."""
    gate = -A_log.double().exp() * _softplus(a.double() + dt_bias.double())
    return gate, b.double().sigmoid()


def kda_gates(g, beta, A_log, dt_bias, lower_bound):
    H, K = g.shape[-2:]
    raw = g.double() + (0 if dt_bias is None else dt_bias.double().reshape(H, K))
    rate = A_log.double().reshape(H, 1).exp()
    gate = -rate * _softplus(raw) if lower_bound is None else lower_bound * torch.sigmoid(rate * raw)
    return gate, beta.double().sigmoid()


def delta_rule(q, k, v, gate, beta, S, scale, normalise=True):
    """q, k [T, H, K], v [T, HV, V], gate [T, HV] or [T, HV, K], S [HV, V, K]. Returns o and the state
    after each row."""
    q, k, v, S = q.double(), k.double(), v.double(), S.double()
    if normalise:
        q, k = _unit(q), _unit(k)
    groups = v.shape[1] // k.shape[1]
    q, k = (x.repeat_interleave(groups, 1) for x in (q, k))
    outputs, states = [], []
    for t in range(v.shape[0]):
        decay = gate[t].double().exp()
        S = S * (decay[:, None, None] if decay.ndim == 1 else decay[:, None, :])
        read = torch.einsum("hvk,hk->hv", S, k[t])
        S = S + (beta[t].double()[:, None] * (v[t] - read))[:, :, None] * k[t][:, None, :]
        outputs.append(torch.einsum("hvk,hk->hv", S, q[t]) * scale)
        states.append(S)
    return (torch.stack(outputs) if outputs else torch.zeros_like(v)), states or [S]


def mamba2(x, dt, A, B, C, D, dt_bias, S):
    """x [T, H, P], dt [T, H], B, C [T, G, N], S [H, P, N]."""
    x, B, C, S = x.double(), B.double(), C.double(), S.double()
    groups = x.shape[1] // B.shape[1]
    B, C = (t.repeat_interleave(groups, 1) for t in (B, C))
    step = _softplus(dt.double() + dt_bias.double())
    outputs, states = [], []
    for t in range(x.shape[0]):
        S = S * (A.double() * step[t]).exp()[:, None, None]
        S = S + (step[t][:, None] * x[t])[:, :, None] * B[t][:, None, :]
        outputs.append(torch.einsum("hpn,hn->hp", S, C[t]) + D.double()[:, None] * x[t])
        states.append(S)
    return torch.stack(outputs), states


def lightning(q, k, v, slope, S, scale=1.0):
    """q, k, v [T, H, D], slope [H], S [H, K, V]."""
    q, k, v, S = q.double(), k.double(), v.double(), S.double()
    decay = (-slope.double()).exp()[:, None, None]
    outputs, states = [], []
    for t in range(q.shape[0]):
        S = S * decay + k[t][:, :, None] * v[t][:, None, :]
        outputs.append(torch.einsum("hkv,hk->hv", S, q[t]) * scale)
        states.append(S)
    return torch.stack(outputs), states


def convolved(x, weight, bias, past):
    """SiLU of a causal convolution. x [C, T], weight [C, W], past [C, W-1]; also the last W-1 inputs."""
    rows = torch.cat([past.to(x.dtype), x], 1)
    y = torch.nn.functional.conv1d(rows[None].float(), weight[:, None].float(),
                                   None if bias is None else bias.float(), groups=x.shape[0])[0]
    return torch.nn.functional.silu(y).to(x.dtype), rows[:, rows.shape[1] - (weight.shape[1] - 1):]


def error(found, expected):
    found, expected = found.double(), expected.double()
    norm = expected.norm()
    return ((found - expected).norm() / norm).item() if norm else found.norm().item()
