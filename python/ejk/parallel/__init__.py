"""Recurrences over a sequence that is cut into segments, on several processes or devices, or on
one.

A segment is summed up by what it makes of the state before it: S_after = P · S_before + S, where P
is a decay for each channel (a K×K matrix for delta rules) and S the state that the segment makes
from zero. Each segment's S and P go to all others in one all-gather; then each knows the state that
it begins with, and computes its rows. The backward pass does the same from the right, with the
adjoint of the state. What is exchanged does not depend on the length.

`ejk.parallel.torch` does so over torch.distributed, `ejk.parallel.jax` inside a shard_map, and
`ejk.split` on one device. The collectives are torch's and JAX's own."""

from ._segments import exchanged_bytes, split

__all__ = ["exchanged_bytes", "split"]
