"""Prints, for each profile of ejk-measure, what its gates of [2, 64, 8, 32] are."""
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))
from measure import profiles

torch.manual_seed(0)
for name in profiles.DESCRIPTIONS:
    for shape in ((2, 64, 8), (2, 64, 8, 32)):
        gates = profiles.draw(torch, name, shape, device="cpu")
        assert tuple(gates.shape) == shape and gates.dtype == torch.float32 and gates.max() <= 0, name
    still = int((gates.abs().amax(dim=(0, 1, 3)) == 0).sum())
    print(f"{name}: mean {float(gates.mean()):.2f}, least {float(gates.min()):.1f}, heads without decay {still}")
try:
    profiles.draw(torch, "strong", (2, 64, 8), device="cpu")
except ValueError as error:
    print(error)
