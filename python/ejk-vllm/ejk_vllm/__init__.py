"""Puts ejk under the linear-attention layers of vLLM: gated DeltaNet, Kimi delta attention, Mamba-2 and
lightning attention.

vLLM finds `register` by its entry point `vllm.general_plugins` and calls it in each of its processes.
The engine's own convolutions, norms, metadata and pools stay; the recurrences between them are ejk's.
EJK_VLLM names the layers to take over, such as "gdn,kda"; all of them by default, none with "".
"""

import importlib
import inspect
import os

from ejk.compat._patch import Patch

__all__ = ["register"]

FAMILIES = ("gdn", "kda", "mamba2", "lightning")
_installed = None
_used = set()


class Unsupported(RuntimeError):
    """This vLLM lacks what the plug-in puts itself in the place of."""


def find(module, name, parameters):
    """`name` of a module of vLLM's, whose parameters must be among those that ejk's form knows."""
    import vllm
    where = f"vllm {vllm.__version__}"
    remedy = "ejk-vllm knows 0.33; EJK_VLLM=\"\" leaves vLLM as it is"
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise Unsupported(f"{where} has no {module}.{name} ({error}); {remedy}") from error
    missing = [p for p in parameters if p not in inspect.signature(function).parameters]
    if missing:
        raise Unsupported(f"{module}.{name} of {where} has no parameter "
                          f"{', '.join(map(repr, missing))}; {remedy}")
    return function


def note_use(family):
    """Logs the first use of a family's recurrence in a process. vLLM sets its log up after plug-ins."""
    if family not in _used:
        _used.add(family)
        from vllm.logger import init_logger
        init_logger("vllm.ejk").info("ejk computes the recurrence of %s", family)


def families():
    chosen = os.environ.get("EJK_VLLM")
    if chosen is None:
        return FAMILIES
    names = tuple(n.strip() for n in chosen.split(",") if n.strip())
    unknown = [n for n in names if n not in FAMILIES]
    if unknown:
        raise ValueError(f"EJK_VLLM names {', '.join(map(repr, unknown))}; there are "
                         f"{', '.join(FAMILIES)}")
    return names


def register():
    """Takes over the layers that EJK_VLLM names. Calls after the first change nothing. Returns the
    patch, whose `remove()` undoes it."""
    global _installed
    if _installed is not None:
        return _installed
    patch, names = Patch(), families()
    try:
        for family in names:
            importlib.import_module(f"ejk_vllm.{family}").install(patch)
    except BaseException:
        patch.remove()
        raise
    _installed = patch
    return patch
