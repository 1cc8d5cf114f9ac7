"""States in pools, of PyTorch's tensors: what calls `ejk::call_in_pools`."""

import torch
from torch.autograd import forward_ad

from . import _pools, _torch
from ._errors import EjkError
from ._torch_tensors import OWN, check_devices, check_no_tangent


@torch.library.register_fake("ejk::call_in_pools", lib=_torch._library)
def _fake_in_pools(program, entry, inputs, written):
    check_devices([*inputs, *written])


_in_pools = torch.ops.ejk.call_in_pools.default


_known_forms = {}  # by the program


def _forms(key):
    """Of each result of a program that is no pool: its type, and each of its sizes, a number or (which
    of a call's tensors has it, in which dimension)."""
    found = _known_forms.get(key)
    if found is None:
        found = _known_forms[key] = _make_forms(key)
    return found


def _make_forms(key):
    entry = _torch._entry(key, "0", (1, 0))
    written = set(entry.replaced.values())
    order = [*[i for i in range(len(entry.inputs)) if i not in written], *sorted(written)]
    sources = {}
    for place, i in enumerate(order):
        for d, size in enumerate(entry.inputs[i]["shape"]):
            if isinstance(size, str):
                sources.setdefault(size, (place, d))
    forms = []
    for number, tensor in enumerate(entry.outputs):
        if number in entry.replaced:
            continue
        if not all(isinstance(e, int) or e in sources for e in tensor["shape"]
                   if not isinstance(e, list)) or any(isinstance(e, list) for e in tensor["shape"]):
            raise EjkError(f"'{tensor['name']}' has a size that no tensor of the call has, which a "
                           "program that writes pools may not")
        forms.append((OWN[tensor["dtype"]], tuple([e if isinstance(e, int) else sources[e]
                                                   for e in tensor["shape"]])))
    return tuple(forms)


# torch.compile calls this when it traces the caller, and takes its result as a constant.
_forms._dynamo_marked_constant = True


def call_in_pools(key, tensors, pools, writes):
    """The results, and then the pools, which are the same tensors."""
    given = [*tensors, *pools]
    check_devices(given)
    if _torch._is_grad_enabled() and any([t.requires_grad for t in given]):
        raise EjkError("a call with a pool has no derivative, and a tensor needs one; call it under "
                       "torch.no_grad() or torch.inference_mode()")
    if forward_ad._current_level >= 0:
        check_no_tangent(given)
    if not writes:
        return [*_torch.call(key, given, save_states=False), *pools]
    exact = pools[0].dtype == torch.float64
    results = []
    for dtype, sizes in _forms(key):
        shape = [e if isinstance(e, int) else given[e[0]].shape[e[1]] for e in sizes]
        results.append(torch.empty(shape, dtype=torch.float64 if exact and dtype.is_floating_point
                                   else dtype, device=pools[0].device))
    written = [*results, *pools]
    if _torch._is_traced(given):
        torch.ops.ejk.call_in_pools(key, "0", list(tensors), written)
        return written
    try:
        with torch._C._AutoDispatchBelowAutograd():
            _in_pools(key, "0", list(tensors), written)
    except RuntimeError as error:
        found = _torch._table.known(key, "0", _torch._device(given[0]))
        raise _torch._why(error, key, "0", _pools.placed(found, tensors, pools) if found else given) from None
    return written


def copy(tensor):
    """A copy that a call may change."""
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def take_along(tensor, index, axis):
    return torch.take_along_dim(tensor, index.long(), axis)


def zeros_like(tensor, shape):
    return tensor.new_zeros(shape)
