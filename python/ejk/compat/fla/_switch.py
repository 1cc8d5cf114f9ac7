"""Puts ejk under fla itself."""

import functools
import importlib
import re
import sys

import torch

from ..._errors import EjkError
from .._patch import Patch
from . import _mixing, _modules

# Where fla keeps the functions.
FOLDERS = ("comba", "delta_rule", "gated_delta_product", "gated_delta_rule", "gated_oja_rule", "gdn2",
           "gla", "gsa", "kda", "lightning_attn", "linear_attn", "retention", "rwkv6", "rwkv7", "simple_gla")


# What takes 'cu_seqlens' and lets packed sequences run into each other all the same.
MIXING = (("fla.layers.mamba", "Mamba"), ("fla.layers.mamba2", "Mamba2"),
          ("fla.models.linear_attn.modeling_linear_attn", "LinearAttentionForCausalLM"),
          ("fla.models.mom.modeling_mom", "MomForCausalLM"))

# The first release whose signatures these functions have.
OLDEST = (0, 6)


def _check_release():
    """Older releases have other signatures and defaults, with which results would be wrong."""
    import fla
    release = tuple(int(n) for n in re.findall(r"\d+", fla.__version__)[:2])
    if release < OLDEST:
        raise EjkError(f"ejk.compat.fla.install() needs flash-linear-attention "
                       f"{'.'.join(map(str, OLDEST))} or newer, whose signatures it has, but "
                       f"{fla.__version__} is installed")


def install(modules=True):
    """Puts ejk's functions in the place of fla's, so that fla's layers and models call them. fla is
    of release 0.6 or newer; an older one is an error.

    With `modules`, norms, short convolutions, activations and losses of fla, which are Triton's,
    too, are computed by torch where their tensors are on a CPU. So a model of fla runs and trains
    there. What is left to Triton raises an EjkError there, which names fla's function. Import order
    does not matter. Returns a patch: its `remove()` undoes all, and so does the end of a `with`
    block."""
    _check_release()
    import fla.layers
    import fla.ops

    from . import __all__ as names
    import ejk.compat.fla as own
    patch = Patch()
    try:
        _replace(patch, names, own, modules)
    except BaseException as error:
        patch.remove()
        if isinstance(error, (ImportError, AttributeError)):
            raise EjkError(f"flash-linear-attention {fla.__version__} lacks what "
                           f"ejk.compat.fla.install() replaces in release 0.6: {error}") from error
        raise
    return patch


def _replace(patch, names, own, modules):
    for folder in FOLDERS:
        home = importlib.import_module(f"fla.ops.{folder}")
        for name in names:
            old, new = getattr(home, name, None), getattr(own, name)
            if callable(old) and old is not new:
                patch.replace("fla", old, new)
    for home, name in MIXING:
        kind = getattr(importlib.import_module(home), name)
        patch.set(kind, "forward", _without_packing(kind.forward, name))
    if modules:
        for home, members in {**_modules.HOMES, **_mixing.HOMES}.items():
            home = importlib.import_module(home)
            for own in members:
                old = getattr(home, own.__name__)
                patch.replace("fla", old, _by_device(old, own))
        _explain_what_is_left(patch)
        loss = importlib.import_module("fla.modules.fused_cross_entropy").FusedCrossEntropyLoss
        patch.set(loss, "forward", _method_by_device(loss.forward))


def _without_packing(forward, name):
    @functools.wraps(forward)
    def call(self, *arguments, **named):
        if named.get("cu_seqlens") is not None:
            raise NotImplementedError(f"fla's {name} takes 'cu_seqlens', but does not keep packed "
                                      "sequences apart; give each sequence a batch entry")
        return forward(self, *arguments, **named)
    return call


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


def _explain_what_is_left(patch):
    """Lets a kernel of Triton's that is launched on a CPU's tensors say whose it is."""
    from triton.runtime.jit import KernelInterface
    of_grid = KernelInterface.__getitem__

    def getitem(kernel, grid):
        launch = of_grid(kernel, grid)

        def call(*arguments, **named):
            try:
                return launch(*arguments, **named)
            except Exception as error:
                function = _calling_function(sys._getframe(1))
                if function is None or not any(isinstance(x, torch.Tensor) and x.is_cpu
                                               for x in (*arguments, *named.values())):
                    raise
                raise EjkError(
                    f"{function} is computed by Triton, which has no CPU, and ejk has no function "
                    "in its place; use a GPU, or a model whose functions "
                    "docs/moving-from-fla.md lists") from error
        return call
    patch.set(KernelInterface, "__getitem__", getitem)


def _calling_function(frame):
    """fla's function that leads to this frame, as "fla.ops.hgrn.chunk.chunk_hgrn": the outermost
    one with a name of its own. None where no function of fla's does."""
    found = None
    while frame is not None:
        module, name = frame.f_globals.get("__name__", ""), frame.f_code.co_name
        if module.startswith(("fla.ops.", "fla.modules.")) and name not in (
                "forward", "backward", "wrapper", "run", "call", "<lambda>"):
            found = f"{module}.{name}"
        frame = frame.f_back
    return found
