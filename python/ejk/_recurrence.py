"""`@ejk.recurrence`: a step written as a formula, called on whole tensors."""

import copy
import functools
import importlib
import weakref
from operator import index  # of a size that torch holds symbolic, the number

from . import _arrays, _channels, _drafts, _pools, _scan_text, _trace
from ._errors import TensorError, TraceError, name_of_call
from ._library import F32_MATMULS
from ._numbers import ChangingNumbers, NamesAround
from ._trace import Argument, Specialisation
from ._values import is_number

_FLOATS = ("f32", "f16", "bf16", "f64")
_KEYWORDS = ("initial_state", "cu_seqlens", "save_states", *_pools.KEYWORDS)
_DEFAULTS = {"save_states": True, "first_slot": 0, "value_major": False}
# Stands for a tensor where others are constants.
_TENSOR = object()
# What to do about a factor of the output.
SCALE_REMEDY = "give scale=1.0 and multiply the output by the number"


def recurrence(function=None, *, states=1, reverse=False, queries=(), f32_matmuls=None):
    """Makes a gated linear recurrence of a function that is one step of it.

    The function takes the state and then one argument for each tensor: what this step sees of it.
    It returns the new state and the step's output (or several outputs)::

        @ejk.recurrence
        def gated_delta(S, q, k, v, g, beta):
            S = S.decay(g)
            S = S.add(k, beta * (v - S.read(k)))
            return S, S.read(q)

        o, state = gated_delta(q, k, v, g, beta)

    Shapes, with B entries, T steps, H heads:

    - A tensor over time is [B, T, H', C], of which a step sees a vector of C channels, or
      [B, T, H'], of which it sees a number. H' divides H, that of the first that is no query.
    - A parameter is [H', C] (a vector a head), [H'] (a number a head) or [] (one number). A Python
      number becomes a constant of the program.
    - A state is a matrix, [N, H, K, V], where the function calls its decay, add or read; else a
      vector, [N, H, C], or a number, [N, H]. N is B, or the number of packed sequences.

    Element types are float32, float16 and bfloat16 (states: float32). A step computes in float32,
    and outputs have the first tensor's type. With float64, everything runs in the f64 interpreter:
    slow, for checks.

    `states` is the number of states, the function's first arguments. With `reverse`, steps are
    taken from the last to the first. With 0 it is a function of rows, whose steps need nothing of each
    other but rows that are shifted; a call returns its value, or a tuple of them, and no state::

        @ejk.recurrence(states=0)
        def gated_norm(x, z, weight):
            return weight * x * ejk.rsqrt(ejk.sum(x * x) / 128 + 1e-6) * ejk.silu(z)

    `queries` names tensors over time that have more heads, Hq = G·H: the G query heads of a group
    share a head and its state, which is kept and moved once. What depends on a query goes to
    outputs, which have Hq heads then, and not to states::

        @ejk.recurrence(queries=("q",))
        def gla(S, q, k, v, g):
            S = S.decay(g).add(k, v)
            return S, S.read(q)

    `f32_matmuls` lets float32 rows go chunk by chunk on a GPU, in matmuls of bfloat16 terms: two of an operand
    with "bf16x3", an error below 1e-5, or three with "bf16x6", below 1e-6. Else they go step by step.

    A call also takes

    - `initial_state`: the state before the first step, or a tuple of them, None for zero;
    - `cu_seqlens`: [N+1], int32 or int64. B is 1 and sequence n is rows cu[n] to cu[n+1]−1.
      Rows after the last offset are in no sequence; results are zero there.
    - `save_states`: whether a forward on a GPU keeps states for its derivative. They take the
      memory of H·K·V numbers of 16 bits for every 64 steps; with False the derivative computes
      them again.

    and returns the outputs and the final state (with several states, a tuple of them).

    A server keeps the states of its sequences in a `pool`, and a call starts and ends in slots of it.
    docs/serving.md has examples. The call then takes

    - `pool`: [P, H, K, V], [P, H, C] or [P, H], float32, float16 or bfloat16; for several states a tuple of them. A
      slot is dense, and slots may lie at any distance. With `value_major` a matrix lies in its slot as [V, K];
    - `read_slots`: [N], int32 or int64, the slot that each sequence starts from; from zero without;
    - `write_slots`: [N], the slot that each sequence ends in; nothing is written without. [N, D] are
      slots for the states after each of the first D rows, as drafted tokens have them;
    - `accepted`: [N], from 1 to D: `read_slots` is [N, D], and sequence n starts from the slot of its
      row accepted[n];
    - `parents`, `ring`: for trees of drafts, and for drafts whose states are not kept (docs/serving.md);
    - `first_slot`: indices below it stand for no slot (0, or 1 where slot 0 stands for none), as do
      those of P and more. A sequence with no slot to read starts from zero. One with no slot at all is
      skipped, and its outputs are zero.

    and returns the outputs and the pool. NumPy's and torch's is changed in its place; JAX's is a new
    array, in the old one's memory where that is donated. There are no derivatives.
    """
    if function is None:
        return functools.partial(recurrence, states=states, reverse=reverse, queries=queries, f32_matmuls=f32_matmuls)
    if f32_matmuls not in F32_MATMULS:
        raise ValueError(f"'f32_matmuls' must be None, 'bf16x3' or 'bf16x6', but is {f32_matmuls!r}")
    return Recurrence(function, states, reverse, queries, f32_matmuls=f32_matmuls)


class Recurrence:
    """What `ejk.recurrence` makes of a function."""

    def __init__(self, function, states, reverse, queries=(), remedies=None, f32_matmuls=None):
        import inspect  # here, because ejk is to be imported fast
        if not hasattr(function, "__code__") and not hasattr(function, "__func__"):
            raise TraceError("a recurrence is made of a function, but got a "
                             f"{type(function).__module__}.{type(function).__qualname__}; write a def or a "
                             "lambda that calls it")
        functools.update_wrapper(self, function)
        states, queries = _trace.checked_states(states), _trace.checked_names("queries", queries)
        self._function, self._states, self._reverse = function, states, reverse
        parameters = list(inspect.signature(function).parameters.values())
        for p in parameters:
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.KEYWORD_ONLY):
                _trace.fail_at(function, f"takes '{p.name}', but a step's parameters are plain ones: "
                               "no *, and none after it")
            if p.name in _KEYWORDS:
                _trace.fail_at(function, f"has a parameter '{p.name}', which a call of every "
                               "recurrence takes already; choose another name")
        if parameters and parameters[0].name == "self" and "." in function.__qualname__:
            _trace.fail_at(function, "is a method, and a step's first parameter is its state: make it with "
                           f"ejk.recurrence(self.{function.__name__}) in the object's __init__, or of a "
                           "function outside of the class")
        if len(parameters) <= states:
            _trace.fail_at(function, f"must take {states} state{'s' * (states > 1)} and at least "
                           "one tensor" if states else "must take at least one tensor")
        self._names = [p.name for p in parameters[states:]]
        own = [p.replace(kind=p.POSITIONAL_OR_KEYWORD) for p in parameters[states:]]
        own += [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS.get(n))
                for n in _KEYWORDS]
        self.__signature__ = inspect.Signature(own)
        self._defaults = {p.name: p.default for p in parameters[states:]
                          if p.default is not inspect.Parameter.empty}
        self._queries = queries
        for name in self._queries:
            if name not in self._names:
                raise TraceError(f"{_trace.place_of(function)}'queries' names '{name}', which "
                                 f"'{function.__name__}' does not take")
        self._programs, self._sites, self._sites_without_states, self._sites_in_pools = {}, {}, {}, {}
        self._halos = {}
        self._numbers, self._around, self._has_around = ChangingNumbers(), NamesAround(function), False
        self._remedies = remedies or {}  # for parameters that take no tensor
        self._f32_matmuls = f32_matmuls
        self._identity = f"{function.__module__}.{function.__qualname__}:{id(self):x}"
        _recurrences[self._identity] = self
        _arrays.load_doors()

    def __reduce__(self):
        # By its name where that says this one. Else its function is pickled, which says what is
        # wrong with one that has no name in its module.
        try:
            if _find(self.__module__, self.__qualname__) is self:
                return _find, (self.__module__, self.__qualname__)
        except (AttributeError, ImportError):
            pass
        return Recurrence, (self._function, self._states, self._reverse, self._queries,
                            self._remedies, self._f32_matmuls)

    # It does not change, so a copy is the same; but a copied object's method is of that object.

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        if not hasattr(self._function, "__func__"):
            return self
        return Recurrence(copy.deepcopy(self._function, memo), self._states, self._reverse, self._queries,
                          self._remedies, self._f32_matmuls)

    def __repr__(self):
        return f"<ejk.recurrence {self.__qualname__}({', '.join(self._names)})>"

    def __call__(self, /, *arguments, initial_state=None, cu_seqlens=None, save_states=True, pool=None,
                 **named):
        if self._has_around:
            _refresh(self._identity)
        if pool is not None:
            return self._call_in_pools(arguments, named, initial_state, cu_seqlens, pool)
        sites = self._sites if save_states else self._sites_without_states
        if _arrays.quick is not None and not named:
            results = _arrays.quick(sites, arguments, initial_state, cu_seqlens)
            if results is not None:
                return results
        (key, outputs, _), tensors, door = self._prepare(arguments, named, initial_state, cu_seqlens)
        results = door.call(key, tensors, save_states)
        if hasattr(door, "remember") and not named and self._states == 1:
            door.remember(sites, arguments, initial_state, cu_seqlens, key, tensors, results,
                          save_states)
        if not self._states:
            return results[0] if outputs == 1 else tuple(results)
        states = tuple(results[outputs:])
        return (*results[:outputs], states[0] if self._states == 1 else states)

    def _call_in_pools(self, arguments, named, initial_state, cu_seqlens, pool):
        several = isinstance(pool, (tuple, list))
        if _arrays.quick_in_pools is not None and initial_state is None:
            shown = _arrays.quick_in_pools(self._sites_in_pools, arguments, named, cu_seqlens, pool)
            if shown is not None:
                return (*shown, tuple(pool) if several else pool)
        values, own, given, plan = self._take_pools(arguments, named, initial_state, cu_seqlens, pool)
        (key, outputs, _), tensors, door = self._prepare(values, own, None, cu_seqlens, given)
        count = len(given.pools)
        results = door.call_in_pools(key, tensors[:-count], tensors[-count:], given.write is not None)
        if hasattr(door, "remember_in_pools") and not plan:
            door.remember_in_pools(self._sites_in_pools, arguments, named, cu_seqlens, key,
                                   tensors[:-count], tensors[-count:], outputs)
        shown, pools = results[:outputs], tuple(results[outputs:])
        if plan:
            shown = [plan.outputs(o) for o in shown]
            plan.finish()
        return (*shown, pools if several else pools[0])

    def _take_pools(self, arguments, named, initial_state, cu_seqlens, pool):
        """A call's arguments and keywords without those of its pools, these, and the plan of its drafts."""
        if initial_state is not None:
            raise TensorError("'initial_state' and 'pool' both say where sequences start; give one")
        named = dict(named)
        own = {n: named.pop(n) for n in _pools.KEYWORDS if n in named}
        given = _pools.Given(self._states, pool, **own)
        if given.parents is None and given.ring is None:
            return arguments, named, given, None
        bound = self._bind(arguments, named)
        plan = _drafts.plan_of(given, self._names, bound)
        if cu_seqlens is not None or self._reverse:
            raise TensorError("'parents' and 'ring' take rows [N, T, …] from the first to the last, "
                              + ("in reverse" if self._reverse else "packed by 'cu_seqlens'") + " they are not")
        given = given.planned(plan)
        # What a trace sees of the arguments, which says which of them are rows before the first.
        seen = tuple([(x.dtype, x.shape[2:] if len(x.shape) > 2 else len(x.shape)) if _arrays.is_tensor(x)
                      else (type(x), x) for x in bound])
        if seen not in self._halos:
            (_, _, self._halos[seen]), _, _ = self._prepare(bound, {}, None, None, given)
        return plan.values(self._names, bound, self._halos[seen]), {}, given, plan

    def program(self, /, *arguments, initial_state=None, cu_seqlens=None, pool=None, **named):
        """The program for tensors like these; nothing is run."""
        from ._program import by_key
        _refresh(self._identity)
        given = None
        if pool is not None:
            arguments, named, given, _ = self._take_pools(arguments, named, initial_state, cu_seqlens, pool)
            initial_state = None
        return by_key(self._prepare(arguments, named, initial_state, cu_seqlens, given)[0][0])

    def mlir(self, /, *arguments, **named):
        """The MLIR that tensors like these are compiled from, as text."""
        return self.program(*arguments, **named).text

    def package(self, /, path, *arguments, target=None, derivatives=0, **named):
        """Writes a kernel package for tensors like these, for the C API.

        `target` is one of `ejk.targets()`; `derivatives` 1 adds the vector-Jacobian product."""
        from ._inspect import write_package
        write_package(self.program(*arguments, **named), path, target, derivatives)

    def explain(self, /, *arguments, target=None, derivatives=0, **named):
        """How tensors like these are computed: kernels, remarks, bytes. An `ejk.Explanation`."""
        from ._inspect import explain
        _, tensors, door = self._prepare(*self._split(arguments, named))
        return explain(self.program(*arguments, **named), tensors, door, target, derivatives)

    def check(self, /, *arguments, **named):
        """Compares a call with the f64 interpreter: the relative error of each result."""
        from ._inspect import check
        _, tensors, door = self._prepare(*self._split(arguments, named))
        return check(self.program(*arguments, **named), tensors, door)

    def _split(self, arguments, named):
        """The arguments, the tensors by name, initial_state, cu_seqlens and the pools of a call."""
        named = dict(named)
        initial_state, offsets = named.pop("initial_state", None), named.pop("cu_seqlens", None)
        pool, given = named.pop("pool", None), None
        if pool is not None:
            arguments, named, given, _ = self._take_pools(arguments, named, initial_state, offsets, pool)
        return arguments, named, initial_state, offsets, given

    def _prepare(self, arguments, named, initial_state, cu_seqlens, pooled=None):
        """What `trace` gives for a call, the tensors of the call in the program's order, and their door."""
        tensors, kinds, given = [], [], []
        for name, value in zip(self._names, [_arrays.unboxed(x) for x in self._bind(arguments, named)]):
            if value is None or isinstance(value, (bool, int, float, str)):
                kinds.append(_arrays.constant(value))
            else:
                tensors.append(value)
                given.append(name)
                kinds.append(_TENSOR)
        initial = self._initial(initial_state)
        for state in initial:
            if state is not None:
                tensors.append(state)
                given.append("initial_state")
        if cu_seqlens is not None:
            tensors.append(cu_seqlens)
            given.append("cu_seqlens")
        if pooled:
            for name, tensor in [*pooled.indices(), *zip(pooled.names(), pooled.pools)]:
                tensors.append(tensor)
                given.append(name)
        door = _arrays.common_door(zip(given, tensors))
        tensors, described = _arrays.read(door, given, tensors)
        exact = _arrays.check_exact(given, described)
        arguments, at = [], 0
        for name, kind in zip(self._names, kinds):
            if kind is _TENSOR:
                arguments.append(_argument(name, *described[at], name in self._queries))
                at += 1
            else:
                arguments.append(("constant", kind))
        shapes = []
        for state in initial:
            if state is None:
                shapes.append(())
                continue
            dtype, shape = described[at]
            at += 1
            if dtype != ("f64" if exact else "f32") or not 2 <= len(shape) <= 4:
                raise TensorError("'initial_state' must be float32 of shape [N, H, K, V], [N, H, "
                                  f"C] or [N, H], but is {dtype} {list(shape)}")
            shapes.append(tuple(index(n) for n in shape[2:]))
        offsets = ""
        if cu_seqlens is not None:
            offsets, shape = described[given.index("cu_seqlens")]
            if offsets not in ("i32", "i64") or len(shape) != 1 or shape[0] == 0:
                raise TensorError("'cu_seqlens' must be int32 or int64 of shape [N+1], but is "
                                  f"{offsets} {list(shape)}")
        if not self._states:
            arguments = _share_heads(arguments, [shape for _, shape in described])
        known, pools = tuple(s is not None for s in initial), None
        if pooled:
            first = next((s for (_, s), n in zip(described, given)
                          if len(s) > 2 and n not in self._queries), (0, 0))
            pools, shapes = pooled.describe(dict(zip(given, described)), exact, offsets, first[1])
            known = (True,) * self._states
        key = (tuple(arguments), known, tuple(shapes), offsets, pools)
        return _resolve(self._identity, key), tensors, door

    def _bind(self, arguments, named):
        """A value for each parameter, as Python would bind them."""
        if len(arguments) > len(self._names):
            raise TypeError(f"{self._called()}() takes {len(self._names)} tensors, "
                            f"but got {len(arguments)}")
        values = list(arguments)
        for name in self._names[:len(arguments)]:
            if name in named:
                raise TypeError(f"{self._called()}() got two values for '{name}'")
        for name in self._names[len(arguments):]:
            if name in named:
                values.append(named[name])
            elif name in self._defaults:
                values.append(self._defaults[name])
            else:
                raise TypeError(f"{self._called()}() misses the argument '{name}'")
        for name in named:
            if name in _pools.KEYWORDS:
                raise TensorError(f"'{name}' needs a 'pool'")
            if name not in self._names:
                takes = f"; it takes {', '.join(self._names)}" if self._is_users() else ""
                raise TypeError(f"{self._called()}() has no argument '{name}'{takes}")
        return values

    def _initial(self, initial_state):
        if self._states == 1:
            return (initial_state,)
        if initial_state is None:
            return (None,) * self._states
        if not isinstance(initial_state, (tuple, list)) or len(initial_state) != self._states:
            raise TensorError(f"'initial_state' must be a tuple of {self._states} states")
        return tuple(initial_state)

    def _is_users(self):
        return str(self.__module__).split(".")[0] != "ejk"

    def _called(self):
        """What a user calls it: one of this package's by the function around it."""
        return self.__name__ if self._is_users() else name_of_call() or self.__name__.strip("_")

    def _note_constants(self, arguments):
        function = self._called()
        rest = tuple(a for a in arguments if a[0] != "constant")
        for name, argument in zip(self._names, arguments):
            if argument[0] == "constant" and type(argument[1]) in (int, float):
                self._numbers.note(function, name, argument[1], rest, self._remedies.get(
                    name, "give a tensor of no dimensions, as torch.tensor({})"))

    def trace(self, spec):
        """(program key, number of outputs, names of halos) for a Specialisation."""
        from ._program import Program, register
        name = "".join(c if c.isalnum() else "_"
                       for c in _scan_text.ascii_name(self._function.__name__)).strip("_")
        name = name if name and not name[0].isdigit() else "recurrence_" + name
        try:
            text, outputs, halos = _scan_text.text_of(self._function, spec, name)
        except TraceError as error:
            if self._is_users():
                raise
            raise _channels.error_of(self._called(), error, self._names, spec) from None
        program = Program(text, name,
                          lambda: _scan_text.text_of(self._function, spec, name, places=True)[0],
                          self._f32_matmuls)
        return register(program).key, outputs, halos


# By identity, so that a name says which one is meant.
_recurrences = weakref.WeakValueDictionary()


def _resolve(identity, key):
    """Traces a recurrence for what `key` says of a call's arguments; the same key is traced
    once."""
    recurrence = _recurrences[identity]
    arguments, initial, shapes, offsets, pools = key
    # 1, 1.0 and True are equal, as 0.0 and -0.0 are, and a step may tell them apart.
    key = (key, tuple([(type(a[1]), repr(a[1])) for a in arguments if a[0] == "constant"]))
    found = recurrence._programs.get(key)
    if found:
        return found
    recurrence._note_constants(arguments)
    arguments = tuple(a[1] if a[0] == "constant" else Argument(*a) for a in arguments)
    recurrence._has_around = recurrence._around.look()
    found = recurrence.trace(Specialisation(arguments, initial, shapes, offsets,
                                            recurrence._reverse, pools))
    recurrence._programs[key] = found
    return found


def _refresh(identity):
    """Forgets what was traced with names around the step that have other values since."""
    recurrence = _recurrences[identity]
    for name, value in recurrence._around.changed():
        for known in (recurrence._programs, recurrence._sites, recurrence._sites_without_states,
                      recurrence._sites_in_pools, recurrence._halos):
            known.clear()
        if is_number(value) and not isinstance(value, bool):
            recurrence._numbers.note(recurrence._called(), name, value, "around it",
                                     "give it to the step as an argument, a tensor of no dimensions: torch.tensor({})")


# torch.compile calls these when it traces the caller, and takes their results as constants.
_resolve._dynamo_marked_constant = _refresh._dynamo_marked_constant = True


def _argument(name, dtype, shape, is_query):
    if dtype not in _FLOATS:
        raise TensorError(f"'{name}' must be float32, float16 or bfloat16, but is {dtype}")
    rank = len(shape)
    if rank > 4:
        raise TensorError(f"'{name}' must have rank 0 to 4, but has shape {list(shape)}")
    if is_query and rank < 3:
        raise TensorError(f"'{name}' is a query, of rank 3 or 4, but has shape {list(shape)}")
    kind = "query" if is_query else "sequence" if rank >= 3 else "parameter"
    channels = index(shape[-1]) if rank in (2, 4) else 0
    if rank in (2, 4) and not 1 <= channels <= 512:
        raise TensorError(f"'{name}' has {channels} channels; ejk takes 1 to 512")
    return (name, kind, "f32" if dtype == "f64" else dtype, rank, channels)


def _share_heads(arguments, shapes):
    """`arguments` of a function of rows, which say in addition which of them have equally many heads,
    so that their gradients are no sums over heads of which each is alone."""
    counts, shared, at = [], [], 0
    for argument in arguments:
        if argument[0] == "constant":
            shared.append(argument)
            continue
        shape, at = shapes[at], at + 1
        if not shape:
            shared.append(argument)
            continue
        heads = shape[2] if len(shape) > 2 else shape[0]
        number = next((n for n, count in enumerate(counts) if count == heads), len(counts))
        if number == len(counts):
            counts.append(heads)
        shared.append((*argument, f"H{number + 1}" if number else "H"))
    return shared


def _find(module, name):
    """What a name says in its module."""
    value = importlib.import_module(module)
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            raise AttributeError(f"module '{module}' has no recurrence '{name}'; it was pickled by this name") from None
    return value
