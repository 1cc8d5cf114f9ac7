"""JAX's door: a call of XLA's foreign function interface, with a derivative and batches of its own.

It names a program by the hash of its content, since JAX keeps compiled functions by what they
name."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from . import _doors, _jax_sharding, _numpy, _pools, _program, _sharding
from ._errors import EjkError, TensorError

_DTYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64",
           "int32": "i32", "int64": "i64"}


def describe(array):
    # The name of a NumPy dtype; keys of random numbers have a dtype of JAX's.
    dtype = _DTYPES.get(getattr(array.dtype, "name", None))
    if not dtype:
        raise TensorError(f"element type {array.dtype} is none of {', '.join(_DTYPES)}")
    return dtype, tuple(array.shape)


def to_numpy(array):
    return np.asarray(array)


def has_gradient(array):
    """Whether JAX traces this array, whose value is then not known."""
    return isinstance(array, jax.core.Tracer)


#: What arithmetic of indices takes.
namespace, take_along = jnp, jnp.take_along_axis


def prepare(arrays):
    """NumPy arrays and JAX's, as JAX's."""
    return [a if isinstance(a, jax.Array) else _of_numpy(a) for a in arrays]


def _of_numpy(array):
    if not isinstance(array, (np.ndarray, np.generic)):
        raise TensorError(f"a tensor is a {type(array).__module__}.{type(array).__qualname__}; "
                          "convert it to a jax.Array")
    return jnp.asarray(_numpy.plain(array))


#: What calls are named in programs of XLA's. An export of one needs
#: `jax.export.DisabledSafetyCheck.custom_call("ejk_call")`.
TARGET = "ejk_call"


def _complete(device):
    """A device with a GPU's capability, as Program.entry takes it."""
    if device[0] == 1:
        return device
    own = next(d for d in jax.local_devices(backend="gpu") if d.local_hardware_id == device[1])
    return (*device, int(own.compute_capability.replace(".", "")))


_table = _doors.Table("libejk_jax.so", _complete)
for _platform, _handler in (("cpu", "ejk_jax_call_cpu"), ("CUDA", "ejk_jax_call_cuda")):
    jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(getattr(_table.library, _handler)),
                                platform=_platform)


def _device():
    """The device that calls are traced for: what a program takes and gives is the same on all."""
    if jax.default_backend() != "gpu":
        return (1, 0)
    return (2, jax.local_devices(backend="gpu")[0].local_hardware_id)


def _entry(program, entry):
    """`entry` is how often it is differentiated, and by which inputs: "1:q,k"."""
    device = _device()
    return _table.known(program, entry, device) or _table.add(program, entry, device)


def _result_types(entry, arrays):
    exact = any(describe(a)[0] == "f64" for a in arrays)
    shapes = entry.output_shapes(tuple(a.shape for a in arrays))
    for tensor, shape in zip(entry.outputs, shapes):
        dtype = "f64" if exact and tensor["dtype"][0] != "i" else tensor["dtype"]
        yield jax.ShapeDtypeStruct(tuple(shape), _numpy._own_dtype(dtype))


def _fold(entry, sizes, batched, arrays):
    """Batched entries of a batch as one longer batch; None where the program does not allow it."""
    shapes = [a.shape[1:] if b else a.shape for a, b in zip(arrays, batched)]

    def by_entry(tensor):
        return _sharding.is_by_entry(entry, shapes, *tensor["shape"][:1])
    if not all(by_entry(t) for t in entry.outputs) or not all(
            by_entry(t) for t, b in zip(entry.inputs, batched) if b):
        return None
    folded = []
    for tensor, array, b in zip(entry.inputs, arrays, batched):
        if by_entry(tensor):
            if not b:
                array = jnp.broadcast_to(array, (sizes, *array.shape))
            array = array.reshape(sizes * array.shape[1], *array.shape[2:])
        folded.append(array)
    return folded


def _axes(array):
    """The axes of a shard_map's mesh along which an array varies. JAX has renamed them once."""
    kind = jax.typeof(array)
    kind = getattr(kind, "manual_axis_type", kind)
    return getattr(kind, "varying", None) or getattr(kind, "vma", None) or frozenset()


def axes_of(arrays):
    """The axes along which any of these arrays varies."""
    return frozenset().union(*map(_axes, arrays))


def vary(array, axes):
    """An array that varies along these axes, too. JAX sums its gradient over those that it did not vary along."""
    missing = tuple(axes - _axes(array))
    if not missing:
        return array
    if hasattr(jax.lax, "pcast"):
        return jax.lax.pcast(array, missing, to="varying")
    return jax.lax.pvary(array, missing)


def _saves_states(program, arrays):
    """Whether a forward saves states on the device that calls are traced for. It does not where
    batch entries have different numbers of them, as some steps are left over: such a batch could
    not be divided over devices, nor be a part of a longer one."""
    found = _program.by_key(program).saving((), _complete(_device()))
    if not found or any(describe(a)[0] == "f64" for a in arrays):
        return False
    forward, shapes = found[0], [a.shape for a in arrays]
    return "B" not in forward.symbols(shapes) or all(
        _sharding.is_by_entry(forward, shapes, t["shape"][0]) for t in forward.outputs)


# What JAX gives for a result's cotangent where nothing uses the result.
_Zero = jax.custom_derivatives.SymbolicZero


def _used(program, entry, cotangents):
    """The first derivative by those inputs whose gradients something uses, and the cotangents of these
    gradients. It may have a derivative where that of all gradients has none."""
    names = entry.wrt or [t["name"] for t in _entry(program, "0").inputs if _program.is_float(t)]
    used = {n: c for n, c in zip(names, cotangents) if not isinstance(c, _Zero)}
    if not used:
        return entry, cotangents
    return _entry(program, "1:" + ",".join(used)), [*used.values()]


@functools.lru_cache(maxsize=None)
def _function(program, entry, save_states=False):
    """The program's entry as a function of arrays, with its derivative and its batches. With
    `save_states` a derivative reads the states that the forward saves, on devices that save any."""

    def on_device(*arrays):
        types = tuple(_result_types(_entry(program, entry), arrays))
        return tuple(jax.ffi.ffi_call(TARGET, types)(*arrays, program=program, entry=entry))

    divided = _jax_sharding.divided(lambda: _entry(program, entry), on_device)

    @jax.custom_batching.custom_vmap
    def plain(*arrays):
        return divided(*arrays)

    @plain.def_vmap
    def batches(size, batched, *arrays):
        if not size:  # no call, and results that only have a shape
            one = [jax.ShapeDtypeStruct(a.shape[b:], a.dtype) for a, b in zip(arrays, batched)]
            types = tuple(_result_types(_entry(program, entry), one))
            return tuple(jnp.zeros((0, *t.shape), t.dtype) for t in types), (True,) * len(types)
        folded = _fold(_entry(program, entry), size, batched, arrays)
        if folded is not None:
            results = tuple(r.reshape(size, r.shape[0] // size, *r.shape[1:])
                            for r in plain(*folded))
        else:
            def one(i):
                return plain(*[a[i] if b else a for a, b in zip(arrays, batched)])
            results = jax.lax.map(one, jnp.arange(size))
        return results, (True,) * len(results)

    @jax.custom_vjp
    def function(*arrays):
        # A foreign call does not say along which axes its results vary.
        axes = axes_of(arrays)
        results = _jax_sharding.typed(lambda: _entry(program, entry), plain, arrays)
        return tuple(vary(r, axes) for r in results)

    # What these two call may be differentiated as well, so it is no `plain` function. Saved states
    # have no gradient: a derivative that reads them has one by its other inputs, as if it computed
    # the states itself.

    def forward(*given):
        arrays = tuple(g.value for g in given)
        if not (save_states and _saves_states(program, arrays)):
            return function(*arrays), (arrays, ())
        results = _function(program, "forward:")(*arrays)
        count = len(_entry(program, entry).outputs)
        return results[:count], (arrays, results[count:])

    def backward(kept, cotangents):
        arrays, states = kept
        here = _entry(program, entry)
        if here.order == 2:
            raise EjkError(f"'{here.name}' is a second derivative, and ejk has no third")
        read = ()  # saved states among this function's own inputs
        if entry == "forward:":
            cotangents = cotangents[:len(_entry(program, "0").outputs)]
        elif entry == "backward:":
            here = _entry(program, "1:")
            arrays, read = arrays[:len(here.inputs)], arrays[len(here.inputs):]
        if here.order == 1:
            here, cotangents = _used(program, here, cotangents)
        cotangents = [jnp.zeros(c.shape, c.dtype) if isinstance(c, _Zero) else c for c in cotangents]
        derivative = "backward:" if states else f"{here.order + 1}:" + ",".join(here.wrt)
        gradients = iter(_function(program, derivative)(*arrays, *cotangents, *states))
        return tuple(_jax_sharding.alike(next(gradients), a)
                     if _program.is_float(t) else
                     np.zeros(a.shape, jax.dtypes.float0)
                     for t, a in zip(here.inputs, arrays)) + (None,) * len(read)

    function.defvjp(forward, backward, symbolic_zeros=True)

    def of_alike(*arrays):
        # A gradient must vary along the axes that its input varies along, and no others. It varies
        # along those of all inputs, so all are made to vary along the same ones first.
        axes = axes_of(arrays)
        return function(*[vary(a, axes) for a in arrays])

    return jax.jit(of_alike, inline=True)


def call(key, arrays, save_states=True):
    return _function(key, "0", save_states)(*arrays)


@functools.lru_cache(maxsize=None)
def _function_in_pools(program):
    """The program as a function of arrays, of which pools are replaced in their memory where XLA may,
    as where they are donated."""

    @jax.custom_batching.custom_vmap
    def plain(*arrays):
        entry = _entry(program, "0")
        types = tuple(_result_types(entry, arrays))
        aliases = {place: number for number, place in entry.replaced.items()}
        results = jax.ffi.ffi_call(TARGET, types, input_output_aliases=aliases)(
            *arrays, program=program, entry="0")
        return tuple(vary(r, axes_of(arrays)) for r in results)

    @plain.def_vmap
    def batches(size, batched, *arrays):
        raise EjkError(_pools.NO_VMAP)

    run = jax.custom_jvp(plain)

    @run.defjvp
    def derivative(arrays, tangents):
        raise EjkError("a call with a pool has no derivative, and an array needs one; give the call "
                       "jax.lax.stop_gradient of its arrays")

    return jax.jit(run, inline=True)


def call_in_pools(key, arrays, pools, writes):
    """The results, and then the pools, as new arrays."""
    run = _function_in_pools(key)
    if not writes:
        return (*run(*arrays, *pools), *pools)
    entry = _entry(key, "0")
    results = run(*_pools.placed(entry, arrays, pools))
    own = [r for o, r in enumerate(results) if o not in entry.replaced]
    written = {place: results[o] for o, place in entry.replaced.items()}
    return (*own, *[written[place] for place in sorted(written)])


def copy(array):
    """An array that a call may change; a call changes none."""
    return array
