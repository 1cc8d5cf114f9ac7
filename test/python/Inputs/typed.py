"""A typed user's file, with no error."""
import ejk


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


def use(q: Array, k: Array, v: Array, g: Array) -> Array:
    o, state = typed(q, k, v, cu_seqlens=g)
    o2, _ = ejk.ops.gla(q, k, v, g, initial_state=state)
    o3, (S, n) = two(k)
    print(typed.explain(q, k, v).seconds, typed.check(q, k, v)["o"], ejk.targets(),
          ejk.cache_info().bytes, ejk.compile("…").names, ejk.split(ejk.ops.gla, q, k, v, g, parts=2))
    return o + o2


def wrong(q: Array) -> None:
    ejk.ops.gla(q, q)  # E: call-arg
    ejk.ops.gla(q, q, q, "g")  # E: arg-type
    ejk.exp("x")  # E: arg-type
    ejk.absent  # E: attr-defined
