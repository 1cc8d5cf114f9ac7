"""The calls of other packages, with their signatures, computed by ejk.

`ejk.compat.fla` has flash-linear-attention's functions for PyTorch, `ejk.compat.ejkernel` has
ejkernel's for JAX, and `ejk.compat.transformers` puts ejk under Hugging Face's layers."""
