"""flash-linear-attention's functions, computed by ejk.

They have fla's signatures, defaults, layouts and types, and run on CPUs, too. An argument that ejk
does not support raises an error with its name. `install()` puts them under fla itself."""

from ._corrected import (chunk_comba, chunk_gated_oja_rule, chunk_gdn2, fused_recurrent_comba,
                         fused_recurrent_gated_oja_rule, fused_recurrent_gdn2)
from ._delta import (chunk_delta_rule, chunk_gated_delta_rule, chunk_kda, chunk_rwkv7,
                     fused_chunk_delta_rule, fused_mul_recurrent_rwkv7, fused_recurrent_delta_rule,
                     fused_recurrent_gated_delta_rule, fused_recurrent_kda, fused_recurrent_rwkv7)
from ._gated import (chunk_gla, chunk_hgrn2, chunk_lightning_attn, chunk_linear_attn,
                     chunk_retention, chunk_rwkv6, chunk_simple_gla, fused_chunk_gla,
                     fused_chunk_linear_attn, fused_chunk_retention, fused_chunk_simple_gla,
                     fused_recurrent_gla, fused_recurrent_hgrn2, fused_recurrent_lightning_attn,
                     fused_recurrent_linear_attn, fused_recurrent_retention, fused_recurrent_rwkv6,
                     fused_recurrent_simple_gla, parallel_retention, parallel_simple_gla)
from ._slots import chunk_gated_delta_product, chunk_gsa, fused_recurrent_gsa

chunk_gdn, fused_recurrent_gdn = chunk_gated_delta_rule, fused_recurrent_gated_delta_rule

__all__ = [name for name in globals() if name.startswith(("chunk_", "fused_", "parallel_"))]


def install(modules=True):
    """Puts these functions under fla itself, of release 0.6 or newer; see docs/moving-from-fla.md.
    Returns a patch, whose `remove()` undoes it."""
    from ._switch import install as _install
    return _install(modules)
