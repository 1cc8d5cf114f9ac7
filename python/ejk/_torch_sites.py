"""Calls of PyTorch's tensors like earlier ones, whose program libejk_torch finds by the tensors' forms."""

import torch

from . import _arrays, _torch
from ._torch_tensors import CONSTANTS, OWN

_TENSORS = _torch._TENSORS
# A call with small tensors takes some microseconds, so names are looked up once.
_at_site, _is_watched, _is_grad_enabled = _torch._at_site, _torch._is_watched, _torch._is_grad_enabled


class Site:
    """A place in a program, such as a recurrence that is called with three tensors."""

    def __init__(self, num_results, save_states):
        self.number = next(_torch._numbers)
        self.num_results = num_results  # without states that are saved
        self._save_states = save_states
        self._programs = []  # (program, what its inputs look like)

    def add(self, program, tensors, needed):
        device = _torch._device(tensors[0])
        entry = _torch._entry(program, "0", device)
        if all(t.dtype == OWN[i["dtype"]] for t, i in zip(tensors, entry.inputs)):
            self._programs.append((program, entry))
            name = _torch._forward_name(program, device, needed) if self._save_states else "0"
            _torch._table.add_to_site(self.number, program, name, device)

    def program_for(self, tensors):
        """The program that the site calls on tensors like these."""
        if len(self._programs) == 1:
            return self._programs[0][0]
        return next(program for program, entry in self._programs
                    if len(entry.inputs) == len(tensors) and all(
                        t.dtype == OWN[i["dtype"]] and t.dim() == len(i["shape"]) and all(
                            not isinstance(e, int) or e == n for e, n in zip(i["shape"], t.shape))
                        for t, i in zip(tensors, entry.inputs)))


def _needed(tensors):
    """Which of these need a gradient; () where none does, or where nothing is saved for it."""
    if not tensors[0].is_cuda or not _is_grad_enabled():
        return ()
    needed = tuple([t.requires_grad for t in tensors])
    return needed if True in needed else ()


def place_of(arguments, initial_state, cu_seqlens):
    """(what tells calls of one function apart without their tensors, the tensors); None where only the long
    way can."""
    tensors = [a for a in arguments if type(a) in _TENSORS]
    place = len(arguments)
    if len(tensors) < place or initial_state is not None or cu_seqlens is not None:
        # 1, 1.0 and True are equal, and their types are not.
        constants = [(type(a), repr(a)) if type(a) in CONSTANTS else type(a) in _TENSORS for a in arguments]
        if False in constants:
            return None, ()
        place = (initial_state is None, cu_seqlens is None, *constants)
        tensors += [t for t in (initial_state, cu_seqlens) if t is not None]
    return place, tensors


def quick(sites, arguments, initial_state, cu_seqlens):
    """The results of a call like an earlier one, without looking at its tensors in Python; or None.
    `sites` is a dictionary that belongs to what is called."""
    # torch.compile, which is told first, would trace again whatever it meets in `sites`.
    if _is_watched() or not sites:
        return None
    try:
        if type(arguments[0]) not in _TENSORS:
            return None
        # `place_of`, for what most calls are given.
        place, tensors = len(arguments), arguments
        for argument in arguments:
            if type(argument) is not torch.Tensor:
                place = None
                break
        if place is None or initial_state is not None or cu_seqlens is not None:
            place, tensors = place_of(arguments, initial_state, cu_seqlens)
            if place is None:
                return None
        if _is_grad_enabled():
            for tensor in tensors:
                if tensor.requires_grad:
                    site = sites.get((place, _needed(tensors)))
                    return site and _torch._EagerAtSite.apply(site, *tensors)
        site = sites.get((place, ()))
        return site and tuple(_at_site(site.number, tensors)) or None
    except torch.OutOfMemoryError:
        raise
    except (_torch._Unknown, RuntimeError, TypeError, AttributeError, IndexError):
        _torch._table.raise_interrupt()
        return None  # the long way finds out what is wrong, and says it


def remember(sites, arguments, initial_state, cu_seqlens, program, tensors, results, save_states):
    """Makes later calls like this one quick. `tensors` are those that the program takes; calls with
    and without `save_states` have `sites` of their own."""
    if _torch._is_traced(tensors) or type(arguments[0]) not in _TENSORS:
        return
    place, own = place_of(arguments, initial_state, cu_seqlens)
    if place is None or len(own) != len(tensors) or any(a is not b for a, b in zip(own, tensors)):
        return  # some were NumPy's
    needed = _needed(tensors)
    if (place, needed) not in sites:
        sites[place, needed] = Site(len(results), save_states)
    sites[place, needed].add(program, tensors, needed)


_arrays.quick = quick
