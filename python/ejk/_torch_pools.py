"""States in pools, of PyTorch's tensors: what calls `ejk::call_in_pools`."""

import torch
from torch.autograd import forward_ad

from . import _pools, _torch, _torch_sites
from ._errors import EjkError
from ._torch_tensors import CONSTANTS, OWN, check_devices, check_no_tangent


@torch.library.register_fake("ejk::call_in_pools", lib=_torch._library)
def _fake_in_pools(program, entry, inputs, written):
    check_devices([*inputs, *written])


@torch.library.register_vmap("ejk::call_in_pools", lib=_torch._library)
def _no_vmap(info, in_dims, program, entry, inputs, written):
    raise EjkError(_pools.NO_VMAP)


_in_pools = torch.ops.ejk.call_in_pools.default


_increment_version = torch.autograd.graph.increment_version
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
    if _torch._jit_state() is not None:
        raise EjkError("torch.jit.trace drops calls that write pools; torch.export and torch.compile keep them")
    if _torch._is_traced(given):
        if torch.compiler.is_compiling():
            torch.ops.ejk.call_in_pools(key, "0", list(tensors), written)
            return written
        _torch._tell_modes()
        try:
            torch.ops.ejk.call_in_pools(key, "0", list(tensors), written)
        except RuntimeError:
            _torch._table.raise_interrupt()
            raise
        return written
    try:
        with torch._C._AutoDispatchBelowAutograd():
            _in_pools(key, "0", list(tensors), written)
    except RuntimeError as error:
        found = _torch._table.known(key, "0", _torch._device(given[0]))
        raise _torch._why(error, key, "0", _pools.placed(found, tensors, pools) if found else given) from None
    _note_writes(pools)
    return written


def _note_writes(pools):
    """Tells autograd, which may have saved a pool for a derivative."""
    for pool in pools:
        if not pool.is_inference():
            _increment_version((pool,))


#===------------------------------------------------------------------------===#
# Calls like earlier ones
#===------------------------------------------------------------------------===#

# As `at_site` of _torch.py. The pools, which it may write, are not among the results.
_torch._library.define("in_pools_at_site(int site, Tensor[] inputs, Tensor(a!)[] pools) -> Tensor[]")
for _key in ("AutogradCPU", "AutogradCUDA"):
    _torch._library.impl("in_pools_at_site", torch.library.fallthrough_kernel, _key)
_at_site = torch.ops.ejk.in_pools_at_site.default
_at_site = getattr(_at_site, "_op", _at_site)
_INDICES, _NUMBERS = ("read_slots", "write_slots", "accepted"), ("first_slot", "value_major")
_TENSORS = _torch._TENSORS


def _place(arguments, named, cu_seqlens):
    """(what tells calls of one recurrence apart without their tensors, the tensors but the pools); None
    where only the long way can."""
    tensors, place, rows = [], [cu_seqlens is None], 0
    for argument in arguments:
        if type(argument) in _TENSORS:
            if not rows and argument.dim() > 2:
                rows = argument.shape[1]
            tensors.append(argument)
            place.append(None)
        elif type(argument) in CONSTANTS:
            place.append((type(argument), repr(argument)))
        else:
            return None, ()
    if cu_seqlens is not None:
        tensors.append(cu_seqlens)
    # A few rows are a size of the program.
    place.append(rows if rows <= _pools._FEW_ROWS else 0)
    given = {}
    for name, value in named.items():
        if value is None:
            continue
        if name in _INDICES and type(value) in _TENSORS:
            given[name] = value
            place.append(name)
        elif name in _NUMBERS and type(value) in (int, bool):
            place.append((name, value))
        else:
            return None, ()
    read, written = given.get("read_slots"), given.get("write_slots")
    same = read is written
    place.append(same)
    tensors += [t for t in (read, given.get("accepted"), None if same else written) if t is not None]
    return tuple(place), tensors


def quick_in_pools(sites, arguments, named, cu_seqlens, pool):
    """The results of a call like an earlier one, as `quick`'s of _torch.py; the pools are changed. Or None."""
    # torch.compile, which is told first, would trace again whatever it meets in `sites`.
    if _torch._is_watched() or not sites:
        return None
    pools = pool if isinstance(pool, (tuple, list)) else (pool,)
    try:
        place, tensors = _place(arguments, named, cu_seqlens)
        site = sites.get(place)
        if site is None:
            return None
        for tensor in pools:
            if type(tensor) not in _TENSORS:
                return None
        if _torch._is_grad_enabled():
            for tensor in (*tensors, *pools):
                if tensor.requires_grad:
                    return None
        results = _at_site(site.number, tensors, pools)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, TypeError, AttributeError, IndexError):
        _torch._table.raise_interrupt()
        return None  # the long way finds out what is wrong, and says it
    if not results:
        return None
    if named.get("write_slots") is not None:
        _note_writes(pools)
    return results


def remember_in_pools(sites, arguments, named, cu_seqlens, program, tensors, pools, outputs):
    """Makes later calls like this one, which has `outputs` results beside its pools, quick."""
    if not outputs or _torch._is_traced([*tensors, *pools]):
        return
    place, own = _place(arguments, named, cu_seqlens)
    if place is None or len(own) != len(tensors) or any(a is not b for a, b in zip(own, tensors)):
        return  # some were NumPy's
    if place not in sites:
        sites[place] = _torch_sites.Site(outputs, False)
    entry = _torch._entry(program, "0", _torch._device(tensors[0]))
    given = _pools.placed(entry, tensors, pools) if entry.replaced else [*tensors, *pools]
    sites[place].add(program, given, ())


def copy(tensor):
    """A copy that a call may change."""
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def take_along(tensor, index, axis):
    return torch.take_along_dim(tensor, index.long(), axis)


def zeros_like(tensor, shape):
    return tensor.new_zeros(shape)


def kept_zeros(tensor, shape):
    """As `zeros_like`, of what later calls change. torch changes a tensor that was made under inference_mode there
    alone."""
    if not torch.is_inference_mode_enabled():
        return tensor.new_zeros(shape)
    with torch.inference_mode(False):
        return torch.zeros(shape, dtype=tensor.dtype, device=tensor.device)
