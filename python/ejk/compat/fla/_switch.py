"""Puts ejk under fla itself."""

import functools
import importlib

import torch

from .._patch import Patch
from . import _modules

# Where fla keeps the functions.
_FOLDERS = ("delta_rule", "gated_delta_rule", "gla", "kda", "lightning_attn", "linear_attn",
            "retention", "rwkv6", "rwkv7", "simple_gla")


def install(modules=True):
    """Puts ejk's functions in the place of fla's, so that fla's layers and models call them.

    With `modules`, norms, short convolutions, activations and losses of fla, which are Triton's,
    too, are computed by torch where their tensors are on a CPU. So a model of fla runs and trains
    there. Import order does not matter. Returns a patch: its `remove()` undoes all, and so does the
    end of a `with` block."""
    import fla.layers
    import fla.ops

    from . import __all__ as names
    import ejk.compat.fla as own
    patch = Patch()
    try:
        _replace(patch, names, own, modules)
    except BaseException:
        patch.remove()
        raise
    return patch


def _replace(patch, names, own, modules):
    for folder in _FOLDERS:
        home = importlib.import_module(f"fla.ops.{folder}")
        for name in names:
            old, new = getattr(home, name, None), getattr(own, name)
            if callable(old) and old is not new:
                patch.replace("fla", old, new)
    if modules:
        for home, members in _modules.HOMES.items():
            home = importlib.import_module(home)
            for name in members:
                old = getattr(home, name)
                patch.replace("fla", old, _by_device(old, getattr(_modules, name)))
        loss = importlib.import_module("fla.modules.fused_cross_entropy").FusedCrossEntropyLoss
        patch.set(loss, "forward", _method_by_device(loss.forward))


def _by_device(other, on_cpu):
    @functools.wraps(on_cpu)
    def function(*arguments, **named):
        first = next((x for x in (*arguments, *named.values()) if isinstance(x, torch.Tensor)),
                     None)
        own = first is not None and first.is_cpu
        return (on_cpu if own else other)(*arguments, **named)
    return function


def _method_by_device(other):
    @functools.wraps(other)
    def forward(self, input, target):
        return (_modules.cross_entropy_forward if input.is_cpu else other)(self, input, target)
    return forward
