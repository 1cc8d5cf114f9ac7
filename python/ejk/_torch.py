"""PyTorch's door: one operator, `ejk::call`, for all programs.

It names a program by the hash of its content, since torch keeps graphs with these names in caches
and exports. The operator allocates its results by torch, runs on the caller's stream, and copies
only inputs that are not contiguous."""

import torch

from . import _program
from ._errors import EjkError, TensorError
from ._library import Buffer

_DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16",
           torch.float64: "f64", torch.int32: "i32", torch.int64: "i64"}
_OWN = {name: dtype for dtype, name in _DTYPES.items()}


def describe(tensor):
    dtype = _DTYPES.get(tensor.dtype)
    if not dtype:
        raise TensorError(f"element type {tensor.dtype} is none of "
                          + ", ".join(str(d) for d in _DTYPES))
    return dtype, tuple(tensor.shape)


def to_numpy(tensor):
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def prepare(tensors):
    """NumPy arrays and torch tensors, as torch tensors."""
    return [t if isinstance(t, torch.Tensor) else torch.as_tensor(t) for t in tensors]


def autocast(names, tensors):
    """Under autocast, q, k and v that differ in type get the type of the region."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return tensors
    main = [t.dtype for n, t in zip(names, tensors) if n in ("q", "k", "v")]
    if all(d == main[0] for d in main):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return [t.to(dtype) if n in ("q", "k", "v") else t for n, t in zip(names, tensors)]


#===------------------------------------------------------------------------===#
# The operator
#===------------------------------------------------------------------------===#

_library = torch.library.Library("ejk", "DEF")
_library.define("call(str program, str entry, Tensor[] inputs) -> Tensor[]",
                tags=(torch.Tag.pt2_compliant_tag,))


def _device(tensor):
    """As Program.entry takes it."""
    if tensor.is_cuda:
        major, minor = torch.cuda.get_device_capability(tensor.device)
        return (2, tensor.device.index, 10 * major + minor)
    return (1, 0)


_entries = {}


def _entry(program, entry, device):
    """`entry` is how often it is differentiated, and by which inputs: "1:q,k"."""
    known = _entries.get((program, entry, device))
    if not known:
        order, _, wrt = entry.partition(":")
        known = _program.by_key(program).entry(int(order), tuple(wrt.split(",")) if wrt else (),
                                               device)
        _entries[program, entry, device] = known
    return known


def _results(entry, inputs):
    exact = torch.float64 in [t.dtype for t in inputs]
    shapes = entry.output_shapes(tuple(t.shape for t in inputs))
    for tensor, shape in zip(entry.outputs, shapes):
        dtype = torch.float64 if exact and tensor["dtype"][0] != "i" else _OWN[tensor["dtype"]]
        yield inputs[0].new_empty(shape, dtype=dtype)


def _run(program, entry, inputs):
    device = _device(inputs[0])
    for tensor in inputs:
        if tensor.is_cpu != (device[0] == 1) or device[0] == 2 and tensor.device != inputs[0].device:
            raise TensorError(f"tensors are on {inputs[0].device} and on {tensor.device}; a call's "
                              "tensors are on one device")
    found = _entry(program, entry, device)
    # A slice may be contiguous and start anywhere.
    inputs = [t if t.is_contiguous() and t.data_ptr() % align == 0
              else t.clone(memory_format=torch.contiguous_format)
              for t, align in zip(inputs, found.alignments)]
    results = list(_results(found, inputs))
    buffers = [Buffer(t.data_ptr(), _DTYPES[t.dtype], t.shape, t, device[:2])
               for t in (*inputs, *results)]
    stream = torch.cuda.current_stream(inputs[0].device).cuda_stream if device[0] == 2 else None
    found.run(buffers[:len(inputs)], buffers[len(inputs):], stream,
              lambda size: _workspace(size, inputs[0], device))
    return results


def _workspace(size, like, device):
    memory = torch.empty(size + 256, dtype=torch.uint8, device=like.device)
    address = -(-memory.data_ptr() // 256) * 256
    return Buffer(address, "i32", (size,), memory, device[:2])


for _key in ("CPU", "CUDA"):
    _library.impl("call", _run, _key)


@torch.library.register_fake("ejk::call", lib=_library)
def _fake(program, entry, inputs):
    return list(_results(_entry(program, entry, _device(inputs[0])), inputs))


#===------------------------------------------------------------------------===#
# Derivatives
#===------------------------------------------------------------------------===#


def _setup(ctx, inputs, output):
    program, entry, tensors = inputs
    ctx.program, ctx.entry = program, entry
    # What a cotangent that is not given has the shape of.
    ctx.like = [(t.shape, t.dtype, t.device) for t in output]
    ctx.save_for_backward(*tensors)


def _gradients(ctx, needed, cotangents, apply):
    """The inputs' gradients, None where none is needed; `apply` calls an entry."""
    tensors = list(ctx.saved_tensors)
    forward = _entry(ctx.program, ctx.entry, _device(tensors[0]))
    if forward.order == 2:
        raise EjkError(f"'{forward.name}' is a second derivative, and ejk has no third")
    floats = [_program.is_float(t) for t in forward.inputs]
    cotangents = [torch.zeros(shape, dtype=dtype, device=device) if c is None else c
                  for c, (shape, dtype, device) in zip(cotangents, ctx.like)]
    if forward.order == 0:
        wrt = [t["name"] for t, need, f in zip(forward.inputs, needed, floats) if need and f]
        entry = "1:" + ",".join(wrt)
        given = [need and f for need, f in zip(needed, floats)]
    else:
        # The gradients of a gradient come for all of its inputs.
        entry, given = "2:" + ",".join(forward.wrt), floats
    gradients = iter(apply(ctx.program, entry, tensors + cotangents))
    found = [next(gradients) if there else None for there in given]
    return [g if need else None for g, need in zip(found, needed)]


def _backward(ctx, cotangents):
    needed = list(ctx.needs_input_grad[2])
    return None, None, _gradients(ctx, needed, cotangents, torch.ops.ejk.call)


torch.library.register_autograd("ejk::call", _backward, setup_context=_setup, lib=_library)


#===------------------------------------------------------------------------===#
# vmap
#===------------------------------------------------------------------------===#


@torch.library.register_vmap("ejk::call", lib=_library)
def _vmap(info, in_dims, program, entry, inputs):
    dims, size = list(in_dims[2]), info.batch_size
    inputs = [t if d is None else t.movedim(d, 0) for t, d in zip(inputs, dims)]
    found = _entry(program, entry, _device(inputs[0]))

    def by_entry(tensor):
        return bool(tensor["shape"]) and tensor["shape"][0] == "B"
    # Entries of the batch do not meet, so a batch of batches is a batch.
    folds = all(by_entry(t) if d is not None else True for t, d in zip(found.inputs, dims))
    if folds and all(by_entry(t) for t in found.outputs):
        folded = []
        for tensor, t, d in zip(found.inputs, inputs, dims):
            if by_entry(tensor):
                if d is None:
                    t = t.expand(size, *t.shape)
                t = t.reshape(size * t.shape[1], *t.shape[2:])
            folded.append(t)
        results = torch.ops.ejk.call(program, entry, folded)
        results = [r.reshape(size, r.shape[0] // size, *r.shape[1:]) for r in results]
    else:
        each = [torch.ops.ejk.call(program, entry,
                                   [t if d is None else t[i] for t, d in zip(inputs, dims)])
                for i in range(size)]
        results = [torch.stack(parts) for parts in zip(*each)]
    return results, [0] * len(results)


#===------------------------------------------------------------------------===#
# Calls
#===------------------------------------------------------------------------===#


class _Eager(torch.autograd.Function):
    """The operator with its derivative, for calls that are not traced: the derivative that is
    registered with the operator takes three times as long to set up."""

    @staticmethod
    def forward(ctx, program, entry, *tensors):
        results = _run(program, entry, tensors)
        _setup(ctx, (program, entry, tensors), results)
        ctx.set_materialize_grads(False)
        return tuple(results)

    @staticmethod
    def backward(ctx, *cotangents):
        return None, None, *_gradients(ctx, ctx.needs_input_grad[2:], cotangents, _apply)


def _apply(program, entry, tensors):
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return _Eager.apply(program, entry, *tensors)
    return _run(program, entry, tensors)


def call(key, tensors):
    if (torch.compiler.is_compiling() or type(tensors[0]) not in _PLAIN
            or torch._C._functorch.peek_interpreter_stack() is not None
            or torch._C._len_torch_dispatch_stack()):
        return torch.ops.ejk.call(key, "0", tensors)
    return _apply(key, "0", tensors)


# Other kinds of tensors, such as those that export traces with, are for the dispatcher.
_PLAIN = (torch.Tensor, torch.nn.Parameter)
