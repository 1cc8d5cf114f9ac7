"""Puts ejk under the linear-attention layers of SGLang: gated DeltaNet, Kimi delta attention, Mamba-2 and
lightning attention.

SGLang finds `register` by its entry point `sglang.srt.plugins` and calls it in each of its processes. Then
`--linear-attn-backend ejk` is a choice, for decode, prefill and verification alike or one by one
(`--linear-attn-decode-backend` and so on). Nothing changes without it.
"""

import inspect
import pkgutil

__all__ = ["register"]

_LINEAR = "sglang.srt.layers.attention.linear"
_DISPATCHERS = {"gdn": "GDNKernelDispatcher", "kda": "KDAKernelDispatcher"}


class Unsupported(RuntimeError):
    """This SGLang lacks what the plug-in extends."""


def _lack(what):
    from importlib import metadata
    return Unsupported(f"sglang {metadata.version('sglang')} lacks what ejk-sglang extends ({what}); "
                       "ejk-sglang knows 0.5.23")


def _check(target, parameters):
    """A function of SGLang's must be there and have `parameters`."""
    owner, _, name = target.rpartition(".")
    try:
        function = getattr(pkgutil.resolve_name(owner), name)
    except (ImportError, AttributeError) as error:
        raise _lack(error) from error
    missing = [p for p in parameters if p not in inspect.signature(function).parameters]
    if missing:
        raise _lack(f"{target} has no parameter {', '.join(map(repr, missing))}")


def _made(kernel_of):
    """What runs instead of a dispatcher's `__init__`: with SGLang's own backend in the place of ejk's, and
    ejk's kernels in theirs afterwards."""
    def init(original, self, decode_backend, prefill_backend, verify_backend=None):
        from sglang.srt.layers.attention.linear.utils import LinearAttnKernelBackend
        own = LinearAttnKernelBackend("triton")
        chosen = [decode_backend, prefill_backend, verify_backend]
        is_ejk = [b is not None and b.is_custom() for b in chosen]
        original(self, *(own if ejk else b for ejk, b in zip(is_ejk, chosen)))
        kernel = kernel_of()
        if is_ejk[0]:
            self.decode_kernel = kernel
            self.supports_packed_decode = kernel.supports_packed_decode
            self.supports_packed_decode_safe_gate = True
        if is_ejk[1]:
            self.extend_kernel = kernel
        if is_ejk[2] or (verify_backend is None and is_ejk[0]):
            self.verify_kernel = kernel
    return init


def _without_prefill_graph(original, self):
    """A prefill by ejk is not captured: which of its schedules runs depends on the batch."""
    from .kernels import EjkKDAKernel
    return original(self) and not isinstance(self.kernel_dispatcher.extend_kernel, EjkKDAKernel)


def _verify_as_decode(original, *arguments, **named):
    """Verification that nobody has chosen is by ejk where decode is. SGLang would take Triton."""
    import msgspec
    from sglang.srt.runtime_context import get_exec
    backends = original(*arguments, **named)
    if get_exec().mamba.linear_attn_verify_backend is None and backends.decode.is_custom():
        backends = msgspec.structs.replace(backends, verify=backends.decode)
    return backends


class _WithTriton:
    """A view of SGLang's arguments that names Triton where they name ejk."""

    def __init__(self, view):
        self._view = view

    def __getattr__(self, name):
        return "triton" if name == "linear_attn_backend" else getattr(self._view, name)


def _keeps_prefixes(original, view, hf_config):
    """SGLang's prefix cache asks for states inside of a prefill with Triton alone; ejk gives them too."""
    return original(_WithTriton(view) if view.linear_attn_backend == "ejk" else view, hf_config)


def _hooks():
    """What runs around functions of SGLang's, and the parameters that these must have."""
    try:
        from . import kernels, lightning, mamba2
    except (ImportError, AttributeError) as error:
        raise _lack(error) from error
    hooks = {
        "sglang.srt.arg_groups.overrides.supports_mamba_cache_extra_buffer": (_keeps_prefixes, ["view", "hf_config"]),
        f"{_LINEAR}.utils.resolve_linear_attn_backends": (_verify_as_decode, []),
        f"{_LINEAR}.kda_backend.KDAAttnBackend.supports_prefill_graph_extend": (_without_prefill_graph, []),
        **mamba2.HOOKS, **lightning.HOOKS}
    for family, dispatcher in _DISPATCHERS.items():
        hooks[f"{_LINEAR}.{family}_backend.{dispatcher}.__init__"] = (
            _made(kernels.KERNELS[family]), ["decode_backend", "prefill_backend", "verify_backend"])
    for target, (_, parameters) in hooks.items():
        _check(target, parameters)
    return hooks


def register():
    """Makes `ejk` a linear-attention backend. Calls after the first change nothing."""
    from sglang.srt.arg_groups.choices import (LINEAR_ATTN_KERNEL_BACKEND_CHOICES,
                                               add_linear_attn_kernel_backend_choices)
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType
    if "ejk" in LINEAR_ATTN_KERNEL_BACKEND_CHOICES:
        return
    for target, (hook, _) in _hooks().items():
        HookRegistry.register(target, hook, HookType.AROUND)
    add_linear_attn_kernel_backend_choices(["ejk"])
