"""PyTorch's door: one operator, `ejk::call`, for all programs.

It names a program by the hash of its content, since torch keeps graphs with these names in caches
and exports. Its kernel is libejk_torch's; here are its fake kernel, its derivative and its
batches."""

import collections
import ctypes
import itertools

import torch
from torch.autograd import forward_ad

from . import _arrays, _doors, _program, _torch_flops, _torch_onnx
from ._errors import EjkError, TensorError
from ._torch_tensors import OWN, check_devices, check_no_tangent, describe, has_gradient, prepare, to_numpy

__all__ = ["beside", "call", "call_in_pools", "check_devices", "concatenate", "copy", "describe", "has_gradient",
           "kept_zeros", "namespace", "prepare", "quick", "quick_in_pools", "remember", "remember_in_pools", "take_along",
           "to_numpy", "zeros_like"]

#===------------------------------------------------------------------------===#
# The operators
#===------------------------------------------------------------------------===#

_library = torch.library.Library("ejk", "DEF")
_library.define("call(str program, str entry, Tensor[] inputs) -> Tensor[]",
                tags=(torch.Tag.pt2_compliant_tag,))
# It writes results, and then states in pools, which are inputs of the program too. torch
# functionalises no operator that writes and also gives a list. It has no derivative.
_library.define("call_in_pools(str program, str entry, Tensor[] inputs, Tensor(a!)[] written) -> ()",
                tags=(torch.Tag.pt2_compliant_tag,))
# The same for eager calls, which does not need to be told the program: libejk_torch finds it by the
# tensors' types and channels among those that this site has called. No result: there is none.
_library.define("at_site(int site, Tensor[] inputs) -> Tensor[]")
# Python calls it where no derivative is recorded. torch's own kernels then come before it, such as
# those that make tensors whose values are kept negated into others.
for _key in ("AutogradCPU", "AutogradCUDA"):
    _library.impl("at_site", torch.library.fallthrough_kernel, _key)


def _complete(device):
    """A device with a GPU's capability, as Program.entry takes it."""
    if device[0] == 1:
        return device
    major, minor = torch.cuda.get_device_capability(device[1])
    return (*device, 10 * major + minor)


_table = _doors.Table("libejk_torch.so", _complete)
_table.library.ejk_torch_register.restype = ctypes.c_char_p
_problem = _table.library.ejk_torch_register()
if _problem:
    raise EjkError(f"ejk does not work with torch {torch.__version__}: {_problem.decode()}; "
                   "it needs torch 2.10 or newer")


def _device(tensor):
    return (2, tensor.device.index) if tensor.is_cuda else (1, 0)


def _entry(program, entry, device):
    return _table.known(program, entry, device) or _table.add(program, entry, device)


def _results(entry, inputs):
    exact = torch.float64 in [t.dtype for t in inputs]
    shapes = entry.output_shapes(tuple(t.shape for t in inputs))
    for tensor, shape in zip(entry.outputs, shapes):
        dtype = torch.float64 if exact and tensor["dtype"][0] != "i" else OWN[tensor["dtype"]]
        yield inputs[0].new_empty(shape, dtype=dtype)


@torch.library.register_fake("ejk::call", lib=_library)
def _fake(program, entry, inputs):
    check_devices(inputs)  # one tensor on the meta device brings a call with others here
    return list(_results(_entry(program, entry, _device(inputs[0])), inputs))


_at_site = torch.ops.ejk.at_site.default
# The operator's function in C++: calls of an overload go through one in Python.
_at_site = getattr(_at_site, "_op", _at_site)
_call = torch.ops.ejk.call.default
_numbers = itertools.count(1)
_sites = {}  # the site of each (program, entry), which has that entry alone


def _run(program, entry, inputs):
    """Runs an entry; no derivative is recorded."""
    inputs = list(inputs)
    site = _sites.get((program, entry))
    watched = _tell_modes()
    try:
        if site and not watched:
            results = _at_site(site, inputs)
            if results:
                return results
        with torch._C._AutoDispatchBelowAutograd():
            results = _call(program, entry, inputs)
    except RuntimeError as error:
        raise _why(error, program, entry, inputs) from None
    if not site:
        site = _sites[program, entry] = next(_numbers)
    _table.add_to_site(site, program, entry, _device(inputs[0]))
    return results


def _tell_modes():
    """Whether modes of torch's watch what is called; they know `call`, and no sites."""
    watched = _len_torch_dispatch_stack() > 0
    if watched:
        _torch_flops.register(lambda program, entry: _entry(program, entry, (1, 0)))
    return watched


def _why(error, program, entry, inputs):
    device = _device(inputs[0])
    return _doors.explain_failure(_table, error, _table.known(program, entry, device),
                                  [t.shape for t in inputs])


#===------------------------------------------------------------------------===#
# Derivatives
#===------------------------------------------------------------------------===#


def _names(entry, needed):
    """The names of the float inputs that need a gradient, with commas between them."""
    return ",".join(t["name"] for t, need in zip(entry.inputs, needed)
                    if need and _program.is_float(t))


# What `call` asks for where the forward may save states; no entry's name.
_SAVING = "saving"


def _forward_name(program, device, needed):
    """The entry to run where these inputs need a gradient: the function, or where it can save
    states for its derivative, the one that does."""
    if device[0] == 1 or not any(needed):
        return "0"
    names = _names(_entry(program, "0", device), needed)
    wrt = tuple(names.split(",")) if names else ()
    return "forward:" + names if _program.by_key(program).saving(wrt, _complete(device)) else "0"


# torch.compile calls this when it traces the caller, and takes its result as a constant.
_forward_name._dynamo_marked_constant = True


def _keep(ctx, tensors, results, count):
    """Keeps what the derivative reads: the inputs, and the states behind the first `count`
    results."""
    ctx.save_for_backward(*tensors, *results[count:])
    ctx.num_inputs = len(tensors)


def _gradients(ctx, needed, cotangents, apply, asked=None):
    """The inputs' gradients, None where none is needed; `apply` calls an entry. `asked` says which of them
    are asked for; others may be None."""
    # Asked for once: a checkpoint computes them at that time, and gives them once.
    kept = list(ctx.saved_tensors)
    tensors, states = kept[:ctx.num_inputs], kept[ctx.num_inputs:]
    if ctx.program is None:
        ctx.program = ctx.site.program_for(tensors)
    device = _device(tensors[0])
    order = ctx.entry.partition(":")[0]
    forward = _entry(ctx.program, "0" if order == "forward" else ctx.entry, device)
    if order == "2":
        raise EjkError(f"'{forward.name}' is a second derivative, and ejk has no third")
    cotangents = list(cotangents[:len(forward.outputs)])
    # Results of the derivative that nothing uses are left out: such as the gradients of tensors that
    # autograd.grad was not asked for.
    wrt = [n for n, c in zip(forward.wrt, cotangents) if c is not None] if order == "1" else []
    if 0 < len(wrt) < len(cotangents):
        forward = _entry(ctx.program, "1:" + ",".join(wrt), device)
        cotangents = [c for c in cotangents if c is not None]
    if None in cotangents:
        cotangents = [like.zero_() if c is None else c
                      for c, like in zip(cotangents, _results(forward, tensors))]
    if order == "1":
        # The gradients of a gradient come for all of its inputs.
        entry = "2:" + ",".join(forward.wrt)
        given = [_program.is_float(t) for t in forward.inputs]
    else:
        # Where a derivative of this one is recorded, it is by the inputs alone.
        saved = states and not torch.is_grad_enabled()
        # The gradient by an initial state needs no saved states, and a part of the work: segments of a
        # sequence ask for it alone. For others the saved states are worth more.
        only = asked(ctx, needed) if asked and not torch.is_grad_enabled() else needed
        if set(_names(forward, only).split(",")) <= forward.initial_states:
            needed, saved = only, False
        names = _names(forward, needed)
        entry = ("backward:" if saved else "1:") + names
        cotangents += states if saved else []
        given = [need and _program.is_float(t) for t, need in zip(forward.inputs, needed)]
    gradients = iter(apply(ctx.program, entry, [*tensors, *cotangents]))
    found = [next(gradients) if there else None for there in given]
    return [g if need else None for g, need in zip(found, needed)]


def _setup(ctx, inputs, output):
    ctx.program, ctx.entry, tensors = inputs
    count = len(output)
    if ctx.entry[0] == "f":
        count = len(_entry(ctx.program, "0", _device(tensors[0])).outputs)
    _keep(ctx, tensors, output, count)


def _backward(ctx, cotangents):
    needed = list(ctx.needs_input_grad[2])
    return None, None, _gradients(ctx, needed, cotangents, torch.ops.ejk.call)


torch.library.register_autograd("ejk::call", _backward, setup_context=_setup, lib=_library)


#===------------------------------------------------------------------------===#
# vmap
#===------------------------------------------------------------------------===#


def _vmap(info, in_dims, program, entry, inputs, call=torch.ops.ejk.call):
    dims, size = list(in_dims[2]), info.batch_size
    inputs = [t if d is None else t.movedim(d, 0) for t, d in zip(inputs, dims)]
    found = _entry(program, entry, _device(inputs[0]))

    def by_entry(tensor):
        return bool(tensor["shape"]) and tensor["shape"][0] == "B"
    # Entries of the batch do not meet, so a batch of batches is a batch.
    folds = all(by_entry(t) if d is not None else True for t, d in zip(found.inputs, dims))
    if not size:  # no call, and results that only have a shape
        one = [t if d is None else t.new_empty(t.shape[1:]) for t, d in zip(inputs, dims)]
        results = [r.new_empty(0, *r.shape) for r in _results(found, one)]
        return results, [0] * len(results)
    if folds and all(by_entry(t) for t in found.outputs):
        folded = []
        for tensor, t, d in zip(found.inputs, inputs, dims):
            if by_entry(tensor):
                if d is None:
                    t = t.expand(size, *t.shape)
                t = t.reshape(size * t.shape[1], *t.shape[2:])
            folded.append(t)
        results = call(program, entry, folded)
        results = [r.reshape(size, r.shape[0] // size, *r.shape[1:]) for r in results]
    else:
        each = [call(program, entry, [t if d is None else t[i] for t, d in zip(inputs, dims)])
                for i in range(size)]
        results = [torch.stack(parts) for parts in zip(*each)]
    return results, [0] * len(results)


torch.library.register_vmap("ejk::call", _vmap, lib=_library)


# torch.autograd has batches of its own, older than torch.vmap's, for the cotangents of
# `torch.autograd.grad(…, is_grads_batched=True)`. A tensor may be batched at several levels, of
# which the innermost has the largest number.


def _older_vmap(program, entry, inputs):
    torch._C._vmapmode_increment_nesting()
    levels = torch._C._vmapmode_decrement_nesting()
    level = next(n for n in range(levels, 0, -1) if any(_is_batched(t, n) for t in inputs))
    batched = [_is_batched(t, level) for t in inputs]
    inputs = [torch._remove_batch_dim(t, level, 0, 0) if b else t for t, b in zip(inputs, batched)]
    size = next(t.shape[0] for t, b in zip(inputs, batched) if b)
    results, _ = _vmap(_Batch(size), (None, None, [0 if b else None for b in batched]), program, entry, inputs)
    return [torch._add_batch_dim(r, 0, level) for r in results]


_Batch = collections.namedtuple("_Batch", "batch_size")


def _is_batched(tensor, level):
    """Whether a tensor is batched at a level. torch expands one that is not to the size that is given."""
    return any(torch._remove_batch_dim(tensor, level, n, 0).shape[0] != n for n in (0, 1))


_library.impl("call", _older_vmap, "Batched")
# As where a site does not know the tensors: the program is then called by its name.
_library.impl("at_site", lambda site, inputs: [], "Batched")


#===------------------------------------------------------------------------===#
# Calls
#===------------------------------------------------------------------------===#

# The derivative that is registered with the operator takes three times as long to set up, so calls
# that are not traced have these.


def _asked(ctx, needed):
    """Which of the inputs that need a gradient autograd.grad asks for now, of the derivative's own."""
    def asks(node):
        try:
            return torch._C._will_engine_execute_node(node)
        except RuntimeError:  # torch tells of no leaf
            return True
    return [need and node is not None and asks(node)
            for need, (node, _) in zip(needed, ctx.next_functions)]


class _Eager(torch.autograd.Function):
    """An entry with its derivative."""

    @staticmethod
    def forward(ctx, program, entry, *tensors):
        count = None
        if entry == _SAVING:
            device = _device(tensors[0])
            count = len(_entry(program, "0", device).outputs)
            entry = _forward_name(program, device, ctx.needs_input_grad[2:])
        ctx.program, ctx.entry = program, entry
        results = _run(program, entry, tensors)
        _keep(ctx, tensors, results, count or len(results))
        ctx.set_materialize_grads(False)
        return tuple(results[:count])

    @staticmethod
    def backward(ctx, *cotangents):
        return None, None, *_gradients(ctx, ctx.needs_input_grad[2:], cotangents, _apply, _asked)


class _EagerAtSite(torch.autograd.Function):
    """What a site calls, with its derivative."""

    @staticmethod
    def forward(ctx, site, *tensors):
        results = _at_site(site.number, list(tensors))
        if not results:
            raise _Unknown
        ctx.site, ctx.program, ctx.entry = site, None, "0"
        _keep(ctx, tensors, results, site.num_results)
        ctx.set_materialize_grads(False)
        return tuple(results[:site.num_results])

    @staticmethod
    def backward(ctx, *cotangents):
        return None, *_gradients(ctx, ctx.needs_input_grad[1:], cotangents, _apply, _asked)


class _Transformed(torch.autograd.Function):
    """An entry with its derivative, for torch.func's transformations, which take derivatives of no
    operator whose derivative is registered in Python."""

    @staticmethod
    def forward(program, entry, *tensors):
        return tuple(torch.ops.ejk.call(program, entry, list(tensors)))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.program, ctx.entry, *tensors = inputs
        _keep(ctx, tensors, output, len(output))

    @staticmethod
    def backward(ctx, *cotangents):
        return None, None, *_gradients(ctx, ctx.needs_input_grad[2:], cotangents, _transformed)

    @staticmethod
    def vmap(info, in_dims, program, entry, *tensors):
        # A derivative may be taken of the batch: a transformation around this one.
        results, dims = _vmap(info, (None, None, list(in_dims[2:])), program, entry, list(tensors), _transformed)
        return tuple(results), tuple(dims)


def _transformed(program, entry, tensors):
    return _Transformed.apply(program, entry, *tensors)


class _Unknown(Exception):
    pass


def _apply(program, entry, tensors):
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return _Eager.apply(program, entry, *tensors)
    return _run(program, "0" if entry == _SAVING else entry, tensors)


# Other kinds of tensors, such as those that export traces with, are for the dispatcher.
_Tensor = torch.Tensor
_TENSORS = frozenset((torch.Tensor, torch.nn.Parameter))
# A call with small tensors takes some microseconds, so names are looked up once.
_is_compiling = torch.compiler.is_compiling
_is_grad_enabled = torch.is_grad_enabled
_peek_interpreter_stack = torch._C._functorch.peek_interpreter_stack
_len_torch_dispatch_stack = torch._C._len_torch_dispatch_stack
# What torch.jit.trace records may be saved, and a site is of this process.
_jit_state = torch._C._get_tracing_state


def _is_traced(tensors):
    if (_is_compiling() or _peek_interpreter_stack() is not None or _len_torch_dispatch_stack()
            or _jit_state() is not None or tensors[0].is_meta):
        return True
    for tensor in tensors:
        if type(tensor) not in _TENSORS:
            return True
    return False


def call(key, tensors, save_states=True):
    check_devices(tensors)
    if forward_ad._current_level >= 0:
        check_no_tangent(tensors)
    if not _is_traced(tensors):
        return _apply(key, _SAVING if save_states else "0", tensors)
    if any(type(t).__name__ == "DTensor" for t in tensors):
        from . import _torch_dtensor
        return _torch_dtensor.call(_entry(key, "0", _device(tensors[0])), tensors,
                                   lambda own: call(key, own, save_states))
    if _torch_onnx.is_exporting():
        return _torch_onnx.call(key, _entry(key, "0", _device(tensors[0])), tensors)
    if not torch.compiler.is_compiling() and _peek_interpreter_stack() is not None:
        return _Transformed.apply(key, "0", *tensors)
    if (save_states and torch.compiler.is_compiling() and torch.is_grad_enabled()
            and tensors[0].is_cuda):
        needed = tuple([t.requires_grad for t in tensors])
        entry = _forward_name(key, _device(tensors[0]), needed)
        if entry != "0":
            return torch.ops.ejk.call(key, entry, tensors)[:_num_results(key)]
    if torch.compiler.is_compiling():
        return torch.ops.ejk.call(key, "0", tensors)
    _tell_modes()
    try:
        return torch.ops.ejk.call(key, "0", tensors)
    except (NotImplementedError, TypeError) as error:
        kinds = {f"{type(t).__module__}.{type(t).__qualname__}" for t in tensors
                 if type(t) not in _TENSORS}
        if not kinds:
            raise
        raise TensorError(f"{', '.join(sorted(kinds))} does not run ejk's operator: "
                          f"{error}") from error
    except RuntimeError:
        _table.raise_interrupt()
        raise


def _num_results(program):
    return len(_entry(program, "0", (1, 0)).outputs)


_num_results._dynamo_marked_constant = True


def _is_watched():
    """Whether something follows a call that knows no sites."""
    return (_is_compiling() or _peek_interpreter_stack() is not None or _len_torch_dispatch_stack()
            or forward_ad._current_level >= 0 or _jit_state() is not None)


def beside(arrays, tensor, kept):
    """NumPy arrays as a call takes them beside `tensor`: on its device. Copies there stay in `kept`, a dictionary that
    belongs to the arrays, for later calls."""
    device = tensor.device
    if device.type == "cpu":
        return arrays
    if _is_traced([tensor]):
        return [t.to(device) for t in prepare(arrays)]
    with torch.inference_mode(False):  # a derivative would save no copy that was made under it
        for array in arrays:
            if (id(array), device) not in kept:  # with the array, so that no other one has its id
                kept[id(array), device] = array, prepare([array])[0].to(device)
    return [kept[id(array), device][1] for array in arrays]


#: What arithmetic of indices takes.
namespace, concatenate = torch, torch.cat

# These take the above.
from ._torch_sites import quick, remember  # noqa: E402
from ._torch_pools import (call_in_pools, copy, kept_zeros, quick_in_pools, remember_in_pools,  # noqa: E402
                           take_along, zeros_like)

_arrays.quick_in_pools = quick_in_pools
