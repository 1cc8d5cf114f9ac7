"""A typed user's file, with no error."""
from collections.abc import Callable

import ejk
import ejk.compat.fla
import ejk.onnx
import ejk.parallel.torch
import ejk.serving


class Array:
    shape: tuple[int, ...]
    dtype: object

    def __add__(self, other: "Array") -> "Array":
        return other


@ejk.recurrence(reverse=True)
def typed(S: ejk.State, q: ejk.Value, k: ejk.Value, v: ejk.Value) -> tuple[ejk.State, ejk.Value]:
    S = S.decay(-0.1).add(k * ejk.sigmoid(ejk.sum(k)), v)
    mask = (q > 0) & ~(q == 1.0)
    return S, S.read(ejk.where(mask, q, 2.0 * q))


@ejk.recurrence(states=2)
def two(S: ejk.State, n: ejk.Value, k: ejk.Value) -> tuple[ejk.State, ejk.Value, ejk.Value]:
    return S.add(k, k), n + k, S.read(k)


@ejk.recurrence(states=0)
def rows(x: ejk.Value, z: ejk.Value) -> ejk.Value:
    return x * ejk.silu(z)


def several(function: Callable[..., object], states: int) -> ejk.Recurrence:
    return ejk.recurrence(function, states=states)


def use(q: Array, k: Array, v: Array, g: Array) -> Array:
    o, state = typed(q, k, v, cu_seqlens=g)
    o2, _ = ejk.ops.gla(q, k, v, g, initial_state=state)
    o3, (S, n) = two(k)
    print(typed.explain(q, k, v).seconds, typed.check(q, k, v)["o"], ejk.targets(),
          several(rows, 2)(q, k), rows(x=q, z=k),
          ejk.cache_info().bytes, ejk.compile("…").names, ejk.split(ejk.ops.gla, q, k, v, g, parts=2))
    o4, _ = ejk.parallel.torch.kda(q, k, v, g, g, group=ejk.parallel.torch.Local(2))
    with ejk.compat.fla.install() as patch:
        o5, _ = ejk.compat.fla.chunk_gla(q, k, v, g, output_final_state=True)
        patch.remove()
    o6 = ejk.serving.lightning(q, k, v, g, pool=k, parents=ejk.serving.Tree(k), ring=ejk.serving.Ring(4))
    print(ejk.onnx.compile("model.onnx").weights)
    return o + o2 + o4 + o5 + o6


def wrong(q: Array) -> None:
    ejk.ops.gla(q, q)  # E: call-arg
    ejk.ops.gla(q, q, q, "g")  # E: arg-type
    ejk.exp("x")  # E: arg-type
    ejk.absent  # E: attr-defined
    ejk.Tensor  # E: attr-defined
    ejk.compat.fla.chunk_gla(q, q, q)  # E: call-arg
    ejk.parallel.torch.kda(q, q, q, q)  # E: call-arg
