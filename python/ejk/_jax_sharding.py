"""How a call whose arrays are sharded over devices is divided: by batch entries and by heads.

Batch entries never meet, and heads meet only where they share a key, a value or a parameter. So
each device computes its own, and a gradient of what several have read is summed over them."""

import inspect
import math

import jax
from jax.experimental.custom_partitioning import (ArrayMapping, CompoundFactor, SdyShardingRule,
                                                  custom_partitioning)
from jax.sharding import NamedSharding, PartitionSpec

from ._sharding import divides, head_symbols, is_by_entry, sizes_of

# JAX before 0.8 cannot be told which dimensions stay whole; it then moves data where they do not.
_SAYS_REPLICATION = "need_replication_factors" in inspect.signature(SdyShardingRule).parameters


def _splits(count, axes):
    """Whether a part of a mesh's axis divides `count` heads, or what other axes leave of them, where the whole axis
    does not. `axes` are sizes."""
    products = {1}
    for size in axes:
        products |= {product * size for product in products}
    left = [count // product for product in products if count % product == 0]
    return any(n % size and math.gcd(n, size) > 1 for n in left for size in axes)


def _rule(entry, shapes, result_shapes, axes):
    """Which dimensions of the arrays are divided alike. `axes` are the sizes of the mesh's."""
    sizes, heads = sizes_of(entry, shapes), head_symbols(entry)
    by_batch, by_heads = divides(entry, shapes)
    # Heads that share keys are divided with them: H is (h, r) where the others have h.
    shared = {sizes[s] for s in heads} - {1, sizes.get("H")}
    by_heads = by_heads and "H" in sizes and len(shared) <= 1
    extra, fixed = {}, []  # `fixed` in the order of their first use
    # JAX has no name for a part of an axis. Heads and those that they share are then divided as each of them
    # is, and `_partition` makes them alike.
    apart = bool(shared) and _splits(min(shared), axes)
    if by_heads and shared and not apart:
        extra = {"r": sizes["H"] // min(shared)}

    def factor(e, size):
        if e == "B" and by_batch:
            return "b"
        if by_batch and is_by_entry(entry, shapes, e):  # saved states, as many for each entry
            extra["s"] = size // sizes["B"]
            if "s" not in fixed:
                fixed.append("s")
            return CompoundFactor("b", "s")
        if isinstance(e, str) and e in heads and by_heads and sizes[e] != 1:
            if apart and sizes[e] == sizes["H"]:
                return "q"
            if "r" not in extra or sizes[e] != sizes["H"]:
                return "h"
            if "r" not in fixed:
                fixed.append("r")
            return CompoundFactor("h", "r")
        name = f"x{len(fixed)}"
        fixed.append(name)
        return name

    def mappings(tensors, shapes):
        return tuple(ArrayMapping(*(factor(e, n) for e, n in zip(t["shape"], shape)))
                     for t, shape in zip(tensors, shapes))
    operands, results = mappings(entry.inputs, shapes), mappings(entry.outputs, result_shapes)
    if _SAYS_REPLICATION:
        extra["need_replication_factors"] = tuple(fixed)
    return SdyShardingRule(operands, results, **extra)


def _axes_of(array, dimension):
    """The axes of the mesh that a dimension is divided by, a tuple."""
    spec = getattr(array.sharding, "spec", ())
    axes = spec[dimension] if dimension < len(spec) else None
    return () if axes is None else axes if isinstance(axes, tuple) else (axes,)


def _partition(entry, run, mesh, arrays):
    """(the function of one device's parts, the results' shardings, the inputs')."""
    shapes = [a.shape for a in arrays]
    sizes, heads = sizes_of(entry, shapes), head_symbols(entry)
    axes = {"B": (), "H": ()}
    for allowed, symbol in zip(divides(entry, shapes), axes):
        for tensor, array in zip(entry.inputs, arrays):
            if allowed and symbol in tensor["shape"] and not axes[symbol]:
                axes[symbol] = _axes_of(array, tensor["shape"].index(symbol))
    axes["H"] = tuple(a for a in axes["H"] if a not in axes["B"])
    for symbol, counted in (("B", {"B"}), ("H", heads)):
        parts = 1
        for axis in axes[symbol]:
            parts *= mesh.shape[axis]
        if any(sizes[s] % parts for s in counted if s in sizes and sizes[s] != 1):
            axes[symbol] = ()

    def of(e):
        if is_by_entry(entry, shapes, e):
            return axes["B"]
        return axes["H"] if isinstance(e, str) and e in heads and sizes[e] != 1 else ()

    def sharding(tensor):
        return NamedSharding(mesh, PartitionSpec(*(of(e) or None for e in tensor["shape"])))

    def on_one_device(*parts):
        results = []
        for tensor, result in zip(entry.outputs, run(*parts)):
            own = {axis for e in tensor["shape"] for axis in of(e)}
            others = tuple(a for a in axes["B"] + axes["H"] if a not in own)
            results.append(jax.lax.psum(result, others) if others else result)
        return tuple(results)

    return (on_one_device, tuple(map(sharding, entry.outputs)), tuple(map(sharding, entry.inputs)))


def divided(find, run):
    """`run` for arrays that may be sharded; `find()` is its entry."""
    function = custom_partitioning(run)

    def partition(mesh, arrays, results):
        lowered, result_shardings, shardings = _partition(find(), run, mesh, arrays)
        return mesh, lowered, result_shardings, shardings

    def infer(mesh, arrays, results):
        return _partition(find(), run, mesh, arrays)[1]

    def rule(mesh, values, results):
        return _rule(find(), [v.shape for v in values], [r.shape for r in results], tuple(mesh.shape.values()))

    function.def_partition(partition=partition, infer_sharding_from_operands=infer,
                           sharding_rule=rule)
    return function


def _explicit(arrays):
    """A mesh, and those of its axes that arrays are sharded over by their types."""
    for array in arrays:
        mesh = getattr(getattr(jax.typeof(array), "sharding", None), "mesh", None)
        axes = getattr(mesh, "explicit_axes", ())
        if axes:
            return mesh, axes
    return None, ()


def typed(find, run, arrays):
    """`run`, where types may say how arrays are sharded: results are sharded by their batch entries
    and heads as the inputs are. What is inside is sharded as XLA finds best."""
    mesh, axes = _explicit(arrays)
    if not axes:
        return run(*arrays)
    shardings = _partition(find(), run, mesh, [jax.typeof(a) for a in arrays])[1]
    return jax.sharding.auto_axes(run, axes=axes, out_sharding=shardings)(*arrays)


def alike(gradient, array):
    """A gradient with the sharding of its array's type, as JAX demands."""
    if not _explicit([array])[1] or jax.typeof(gradient).sharding == jax.typeof(array).sharding:
        return gradient
    return jax.sharding.reshard(gradient, jax.typeof(array).sharding)
