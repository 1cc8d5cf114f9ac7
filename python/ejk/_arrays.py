"""Which library a call's tensors are of: each has a door, a module with the same functions.

A door has `describe(array)` → (element type, shape) and `call(program, arrays)` → results."""

import importlib
import sys
from operator import index

from ._errors import EjkError, TensorError

# torch's door, where it is open, puts here what makes an eager call fast: see `quick` of _torch.py.
quick = None
# The same of calls with pools.
quick_in_pools = None
# Whether torch is in a region of autocast, and what it makes of a call's rows there: see _torch_tensors.py.
in_autocast = autocast = None

# The name of the module that defines a library's arrays, and of its door.
_DOORS = {"torch": "ejk._torch", "jax": "ejk._jax", "jaxlib": "ejk._jax", "numpy": "ejk._numpy",
          "ml_dtypes": "ejk._numpy"}


def is_tensor(value):
    return door_of(value) is not None


def door_of(value):
    """The module that takes arrays of this type; None for what is no array."""
    name = _door_name(type(value))
    if type(value).__module__ == "torch.fx.proxy":
        raise TensorError("torch.fx.symbolic_trace knows no shapes or types, by which a kernel is chosen; "
                          "torch.export.export and torch.compile do")
    try:
        is_array = name and hasattr(value, "dtype") and hasattr(value, "shape")
    except RuntimeError:  # some of torch's tensors have no shape, which their door says
        is_array = True
    if not is_array:
        return None
    _note(type(value))
    return _load(name)


_names = {}  # of doors, by the type of their arrays


def _door_name(kind):
    name = _names.get(kind)
    if name is None:
        roots = (parent.__module__.partition(".")[0] for parent in kind.__mro__)
        name = next((_DOORS[root] for root in roots if root in _DOORS), None)
        if name:
            _names[kind] = name
    return name


_known = set()


def _note(kind):
    _known.add(kind)


def is_known(kind):
    """Whether a call met arrays of this type."""
    return kind in _known


def _is_scalar(kind):
    return any(parent.__module__ == "numpy" and parent.__name__ == "generic" for parent in kind.__mro__)


# torch.compile, which cannot follow a Parameter's classes, takes the results as constants.
for _constant in (_door_name, _note, is_known, _is_scalar):
    _constant._dynamo_marked_constant = True


_opened = {}
# Why a door does not open, by its module's name. A second attempt would meet what the first left
# behind, such as torch's operators, and hide the cause.
_failures = {}
_CAUSES = (EjkError, ImportError, OSError, AttributeError, RuntimeError)


def _load(name):
    module = _opened.get(name)
    return _open(name) if module is None else module


def _open(name):
    if name not in _failures:
        try:
            # Where another thread imports it now, this waits until that is done.
            module = _opened[name] = importlib.import_module(name)
            return module
        except _CAUSES as error:
            _failures.setdefault(name, error)
    raise _failures[name].with_traceback(None)


def load_doors():
    """Opens the doors of libraries that are imported already: when ejk is imported, since a graph
    that torch or JAX exported calls ejk's operator by its name, and when a recurrence is made, since
    torch.compile cannot follow an import that happens in a call. A library that ejk does not work
    with is an error only where it is used."""
    for library in ("torch", "jax"):
        if library in sys.modules:
            try:
                _load(_DOORS[library])
            except _CAUSES:
                pass


def unboxed(value):
    """A scalar of NumPy's as the Python number that it is; anything else as it is."""
    if not _is_scalar(type(value)):
        return value
    number = value.item()
    return number if isinstance(number, (bool, int, float, str)) else value


def constant(value):
    """A Python number or another constant of a program. torch.compile holds a number that changes
    from call to call as a symbol; its text, or its index, is a constant of the graph."""
    if type(value) is float:
        return float(f"{value!r}")
    return index(value) if type(value) is int else value


def read(door, names, arrays):
    """(the arrays as a door's kernels take them, the (element type, shape) of each). An error names its
    array."""
    if hasattr(door, "prepare"):
        arrays = [_of(name, door.prepare, [array])[0] for name, array in zip(names, arrays)]
    described = [_of(name, door.describe, array) for name, array in zip(names, arrays)]
    if hasattr(door, "check_devices"):
        door.check_devices(arrays, names)
    return arrays, described


def _of(name, function, array):
    try:
        return function(array)
    except TensorError as error:
        raise TensorError(f"'{name}': {error}") from None


def common_door(named):
    """The one door of all arrays in [(name, array)]. NumPy's go with any other library's."""
    found = None
    for name, array in named:
        door = door_of(array)
        if door is None:
            raise TensorError(f"'{name}' must be a tensor of torch, JAX or NumPy, but is "
                              f"{type(array).__module__}.{type(array).__qualname__}")
        if found is None or found.__name__ == _DOORS["numpy"]:
            found, first = door, name
        elif door is not found and door.__name__ != _DOORS["numpy"]:
            raise TensorError(f"'{name}' and '{first}' are tensors of two libraries; convert one")
    return found


_INDICES = ("cu_seqlens", "read_slots", "write_slots", "accepted")


def check_exact(names, described):
    """Whether the call is one in f64; all its floats are then."""
    types = [dtype for name, (dtype, _) in zip(names, described) if name not in _INDICES]
    names = [name for name in names if name not in _INDICES]
    if "f64" not in types:
        return False
    for name, dtype in zip(names, types):
        if dtype not in ("f64", "i32", "i64"):
            raise TensorError(f"'{names[types.index('f64')]}' is float64, which runs in the f64 "
                              f"interpreter, but '{name}' is {dtype}; give all in float64 or none")
    return True
