"""Puts ejk under the gated DeltaNet and Kimi delta attention layers of SGLang.

SGLang finds `register` by its entry point `sglang.srt.plugins` and calls it in each of its processes. Then
`--linear-attn-backend ejk` is a choice, for decode, prefill and verification alike or one by one
(`--linear-attn-decode-backend` and so on). Nothing changes without it.
"""

__all__ = ["register"]

_DISPATCHERS = {"gdn": "GDNKernelDispatcher", "kda": "KDAKernelDispatcher"}


class Unsupported(RuntimeError):
    """This SGLang lacks what the plug-in extends."""


def _kernels():
    from importlib import metadata
    try:
        from . import kernels
        return kernels
    except (ImportError, AttributeError) as error:
        raise Unsupported(f"sglang {metadata.version('sglang')} lacks what ejk-sglang extends ({error}); "
                          "ejk-sglang knows 0.5.23") from error


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


def register():
    """Makes `ejk` a linear-attention backend. Calls after the first change nothing."""
    from sglang.srt.arg_groups.choices import (LINEAR_ATTN_KERNEL_BACKEND_CHOICES,
                                               add_linear_attn_kernel_backend_choices)
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType
    if "ejk" in LINEAR_ATTN_KERNEL_BACKEND_CHOICES:
        return
    kernels = _kernels()
    for family, dispatcher in _DISPATCHERS.items():
        HookRegistry.register(
            f"sglang.srt.layers.attention.linear.{family}_backend.{dispatcher}.__init__",
            _made(kernels.KERNELS[family]), HookType.AROUND)
    HookRegistry.register(
        "sglang.srt.layers.attention.linear.kda_backend.KDAAttnBackend.supports_prefill_graph_extend",
        _without_prefill_graph, HookType.AROUND)
    add_linear_attn_kernel_backend_choices(["ejk"])
