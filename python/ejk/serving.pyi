"""The recurrences of an inference engine's layers, for type checkers.

Results are those of torch and NumPy. With JAX's arrays a function returns (outputs, new pool); a checker cannot tell
its arrays from the others', so cast the result."""

from typing import Literal, TypeVar

from . import _Tensor as Tensor

_T = TypeVar("_T", bound=Tensor)

__all__: list[str]

class Tree:
    shape: tuple[int, int]
    depth: int
    def __init__(self, parents: Tensor, depth: int | None = None) -> None: ...

class Ring:
    rows: int
    def __init__(self, rows: int) -> None: ...

def gated_delta_rule(q: _T, k: Tensor, v: Tensor, a: Tensor, b: Tensor, A_log: Tensor, dt_bias: Tensor, *,
                     scale: float | None = None,
                     pool: Tensor, read_slots: Tensor | None = None, write_slots: Tensor | None = None,
                     accepted: Tensor | None = None, parents: Tensor | Tree | None = None, ring: Ring | None = None,
                     first_slot: int = 0, value_major: bool = True, cu_seqlens: Tensor | None = None) -> _T: ...
def kimi_delta_attention(q: _T, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, A_log: Tensor,
                         dt_bias: Tensor | None = None, *, lower_bound: float | None = None, scale: float | None = None,
                         pool: Tensor, read_slots: Tensor | None = None, write_slots: Tensor | None = None,
                         accepted: Tensor | None = None, parents: Tensor | Tree | None = None, ring: Ring | None = None,
                         first_slot: int = 0, value_major: bool = True, cu_seqlens: Tensor | None = None) -> _T: ...
def mamba2(x: _T, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None = None,
           dt_bias: Tensor | None = None, *, softplus: bool = True,
           pool: Tensor, read_slots: Tensor | None = None, write_slots: Tensor | None = None,
           accepted: Tensor | None = None, parents: Tensor | Tree | None = None, ring: Ring | None = None,
           first_slot: int = 0, value_major: bool = True, cu_seqlens: Tensor | None = None) -> _T: ...
def lightning(q: _T, k: Tensor, v: Tensor, slope: Tensor, *, scale: float = 1.0,
              f32_matmuls: Literal["bf16x3", "bf16x6"] | None = None, value_major: bool = False,
              pool: Tensor, read_slots: Tensor | None = None, write_slots: Tensor | None = None,
              accepted: Tensor | None = None, parents: Tensor | Tree | None = None, ring: Ring | None = None,
              first_slot: int = 0, cu_seqlens: Tensor | None = None) -> _T: ...
