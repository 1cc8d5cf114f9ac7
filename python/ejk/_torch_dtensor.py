"""Calls on DTensors of torch: each process computes its own batch entries and heads.

What is sharded along another dimension, or unevenly, is gathered first. A gradient of what several
processes have read is a partial one, which torch sums."""

from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

from . import _sharding
from ._errors import TensorError


def _placed(tensors):
    """The mesh, and each tensor's placements; None for integers that are no DTensor."""
    mesh, placements = None, []
    for tensor in tensors:
        if isinstance(tensor, DTensor):
            if mesh is not None and tensor.device_mesh != mesh:
                raise TensorError("a call's DTensors are on one mesh, but these are on two")
            mesh = tensor.device_mesh
            placements.append(tensor.placements)
        elif tensor.is_floating_point():
            raise TensorError("a call takes DTensors and plain tensors; distribute all "
                              "(torch.distributed.tensor.distribute_tensor)")
        else:
            placements.append(None)
    return mesh, placements


def divide(entry, tensors):
    """(the mesh, by what each of its dimensions is divided: "B", "H" or None)"""
    mesh, placements = _placed(tensors)
    shapes = [tuple(t.shape) for t in tensors]
    sizes, heads = _sharding.sizes_of(entry, shapes), _sharding.head_symbols(entry)
    allowed = dict(zip("BH", _sharding.divides(entry, shapes)))
    counted = {"B": ["B"], "H": [h for h in heads if sizes[h] != 1]}
    parts, found = {"B": 1, "H": 1}, []
    for dimension in range(mesh.ndim):
        size = mesh.size(dimension)
        by = next((_symbol(entry, i, p[dimension]) for i, p in enumerate(placements)
                   if p and _symbol(entry, i, p[dimension])), None)
        if by and allowed[by] and all(sizes[s] % (parts[by] * size) == 0 for s in counted[by]):
            parts[by] *= size
            found.append(by)
        else:
            found.append(None)
    return mesh, tuple(found)


def _symbol(entry, number, placement):
    """Whether a tensor is sharded by batch entries or by heads."""
    if type(placement) is not Shard:
        return None
    size = entry.inputs[number]["shape"][placement.dim]
    return size[0] if isinstance(size, str) and (size == "B" or size[0] == "H") else None


def placements(tensor, shape, divided):
    """A tensor's placements; `tensor` is its description in the entry."""
    found = []
    for by in divided:
        at = next((i for i, (e, n) in enumerate(zip(tensor["shape"], shape))
                   if isinstance(e, str) and (e == by or by == "H" == e[0] and n != 1)), None)
        found.append(Replicate() if at is None else Shard(at))
    return found


def local(tensor, mesh, placed, divided):
    """This process's part of a tensor."""
    if not isinstance(tensor, DTensor):
        return tensor
    gradients = [Partial() if by and p.is_replicate() else p for by, p in zip(divided, placed)]
    return tensor.redistribute(mesh, placed).to_local(grad_placements=gradients)


def call(entry, tensors, run):
    """`run`, a function of plain tensors, on this process's parts; its results as DTensors."""
    mesh, divided = divide(entry, tensors)
    own = [local(t, mesh, placements(i, t.shape, divided), divided)
           for t, i in zip(tensors, entry.inputs)]
    shapes = entry.output_shapes(tuple(tuple(t.shape) for t in tensors))
    return [DTensor.from_local(r, mesh, placements(o, s, divided), run_check=False)
            for r, o, s in zip(run(own), entry.outputs, shapes)]
