"""Gates as models have them, by name. A profile draws log gates, in f32, with heads along dimension 2."""

# A head or channel whose gate is near the weak end keeps its state for thousands of rows; at the
# strong end of lb5 for less than one.
DESCRIPTIONS = {
    "weak": "uniform in [-1/16, 0]",
    "mixed": "logsigmoid(N(0,1)) / 16, a quarter of the heads without decay",
    "mid": "logsigmoid(N(0,1)) / 16",
    "lb5": "-5 sigmoid(exp(A) (N(0,1) + b)), A from N(0, 0.5) a head, b from N(0.5, 1) a channel: some -3 a row",
    "softplus": "-exp(A) softplus(N(0,1) + b) at initialisation: exp(A) from 1 to 16, softplus(b) from 1e-3 to 0.1",
}


def draw(torch, profile, shape, device="cuda"):
    """Log gates of `shape`: [H], [B, T, H] or [B, T, H, channels]."""
    random = lambda *size: torch.randn(*size, device=device)
    uniform = lambda low, high, *size: torch.rand(*size, device=device) * (high - low) + low
    heads, channels = shape[2 if len(shape) > 2 else 0], shape[3:]
    if profile == "weak":
        return uniform(-1 / 16, 0, *shape)
    if profile in ("mid", "mixed"):
        gates = torch.nn.functional.logsigmoid(random(*shape)) / 16
        if profile == "mixed":
            gates[:, :, : heads // 4] = 0
        return gates
    rate = lambda low, high: uniform(low, high, heads).view(heads, *[1] * len(channels))
    if profile == "lb5":
        steep = (random(heads) / 2).exp().view(heads, *[1] * len(channels))
        return -5 * torch.sigmoid(steep * (random(*shape) + 0.5 + random(heads, *channels)))
    if profile == "softplus":
        step = uniform(-6.9078, -2.3026, heads, *channels).exp()  # ln 1e-3 to ln 0.1
        return -rate(1, 16) * torch.nn.functional.softplus(random(*shape) + step.expm1().log())
    raise ValueError(f"there is no profile '{profile}'; there are {', '.join(DESCRIPTIONS)}")
