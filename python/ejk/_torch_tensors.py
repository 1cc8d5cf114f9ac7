"""Which tensors of torch's a call takes, and as what."""

import torch
from torch.autograd import forward_ad

from . import _arrays, _numpy
from ._errors import EjkError, TensorError

_DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16",
           torch.float64: "f64", torch.int32: "i32", torch.int64: "i64"}
OWN = {name: dtype for dtype, name in _DTYPES.items()}
_DEVICES = ("cpu", "cuda", "meta")
#: Types of what is a constant of a program.
CONSTANTS = frozenset((type(None), bool, int, float, str))


def describe(tensor):
    dtype = _DTYPES.get(tensor.dtype)
    if not dtype:
        raise TensorError(f"element type {tensor.dtype} is none of "
                          + ", ".join(str(d) for d in _DTYPES))
    if tensor.is_nested or tensor.layout != torch.strided:
        kind = "nested" if tensor.is_nested else f"of layout {tensor.layout}"
        raise TensorError(f"a tensor is {kind}; ejk takes strided ones")
    if tensor.device.type not in _DEVICES:
        raise TensorError(f"a tensor is on {tensor.device}; ejk takes those on "
                          + ", ".join(_DEVICES))
    try:
        return dtype, tuple(tensor.shape)
    except RuntimeError as error:
        raise TensorError(f"a tensor has no shape: {error}") from None


def to_numpy(tensor):
    tensor = tensor.detach().cpu().resolve_neg()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def prepare(tensors):
    """NumPy arrays and torch tensors, as torch tensors."""
    return [t if isinstance(t, torch.Tensor) else _of_numpy(t) for t in tensors]


def _of_numpy(array):
    array = _numpy.plain(array)
    if array.dtype.name == "bfloat16":
        return torch.as_tensor(array.view("i2")).view(torch.bfloat16)
    return torch.as_tensor(array)


def autocast(rows):
    """The rows of a call, {name: a tensor, several or None}, in the type of the region of autocast, where any differ
    in type; else {}."""
    tensors = prepare([t for row in rows.values() for t in (row if isinstance(row, (tuple, list)) else (row,))
                       if _arrays.is_tensor(t)])
    device = tensors[0].device.type if tensors else "meta"
    if device == "meta" or not torch.is_autocast_enabled(device) or len({t.dtype for t in tensors}) == 1:
        return {}
    dtype = torch.get_autocast_dtype(device)

    def cast(row):
        if isinstance(row, (tuple, list)):
            return type(row)(map(cast, row))
        return prepare([row])[0].to(dtype) if _arrays.is_tensor(row) else row
    return {name: cast(row) for name, row in rows.items()}


_arrays.autocast, _arrays.in_autocast = autocast, torch._C._is_any_autocast_enabled


def has_gradient(tensor):
    """Whether torch records what gradient this tensor has."""
    return tensor.requires_grad and torch.is_grad_enabled()


def check_devices(tensors, names=None):
    device = tensors[0].device
    for i, tensor in enumerate(tensors):
        if tensor.device != device:
            found = (f"'{names[0]}' is on {device} and '{names[i]}' on {tensor.device}" if names else
                     f"tensors are on {device} and on {tensor.device}")
            raise TensorError(f"{found}; a call's tensors are on one device")


def check_no_tangent(tensors):
    """torch asks no operator whose derivative is registered in Python for tangents, and would drop
    them."""
    for tensor in tensors:
        try:
            tangent = forward_ad.unpack_dual(tensor).tangent
        except RuntimeError:  # torch does not unpack a batch of vmap's
            tangent = tensor
        if tangent is not None:
            raise EjkError("a tensor has a tangent, and ejk has no derivative in forward mode; "
                           "torch.autograd.grad gives those in reverse mode")
