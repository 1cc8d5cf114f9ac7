"""Puts ejk under the gated delta rule of Hugging Face's transformers: Qwen3-Next and its kin."""

import functools
import inspect
import sys

from . import fla
from ._patch import Patch

# What models call the functions: those that fall back to torch, and, before version 5, fla's own.
_CHUNKED = ("torch_chunk_gated_delta_rule", "chunk_gated_delta_rule")
_STEPWISE = ("torch_recurrent_gated_delta_rule", "fused_recurrent_gated_delta_rule")


def _filtered(function):
    """transformers passes a model's keywords on to each kernel, which takes what it knows; so these
    alone are dropped."""
    own = inspect.signature(function).parameters
    names = {n for n, p in own.items() if p.kind is not p.VAR_KEYWORD}

    @functools.wraps(function)
    def call(query, key, value, g=None, beta=None, **named):  # what follows stands in another order
        return function(query, key, value, g=g, beta=beta,
                        **{n: x for n, x in named.items() if n in names})
    return call


def install():
    """Puts ejk's gated delta rule into the models of transformers that are imported already.

    Returns a patch: its `remove()` undoes all, and so does the end of a `with` block. Call it
    before a model is made: layers of some versions store the function when they are made."""
    chunked, stepwise = (_filtered(f) for f in (fla.chunk_gated_delta_rule,
                                                fla.fused_recurrent_gated_delta_rule))
    patch, found = Patch(), 0
    for name, module in list(sys.modules.items()):
        if not name.startswith("transformers.models.") or ".modeling_" not in name:
            continue
        for names, new in ((_CHUNKED, chunked), (_STEPWISE, stepwise)):
            for own in names:
                if own in vars(module):
                    patch.set(module, own, new)
                    found += 1
    if not found:
        raise RuntimeError("no model of transformers with a gated delta rule is imported; import "
                           "it first, such as transformers.models.qwen3_next.modeling_qwen3_next")
    return patch


__all__ = ["install"]
