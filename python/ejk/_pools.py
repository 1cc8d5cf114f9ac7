"""States in a pool: where a call of a recurrence starts, and where it ends."""

from collections import namedtuple
from operator import index  # of a size that torch holds symbolic, the number

from ._errors import TensorError

_FLOATS = ("f32", "f16", "bf16")
_INTEGERS = ("i32", "i64")
# So many rows are a size that a program knows: those of a decoded token, and of drafts.
_FEW_ROWS = 8
#: The keywords of a call that has a pool.
KEYWORDS = ("pool", "read_slots", "write_slots", "accepted", "parents", "ring", "first_slot", "value_major")
#: Why a call that another library would repeat for a batch is refused.
NO_VMAP = ("a call with a pool is computed for no batch of vmap, whose entries would write the same slots; give "
           "the batch as more sequences, [N, T, …], with slots of their own")


class Pools(namedtuple("Pools", "types value_major first_slot read accepted write same per_row rows")):
    """What of a call's pools a program depends on.

    `types` are the pools' element types; `read`, `accepted` and `write` those of the indices, "" where
    there is none; `same` says that one tensor has the indices to read and to write, `per_row` that
    the state after each row is written; `rows` is T where that is a few, else None."""

    __slots__ = ()

    def indices(self):
        """(name, MLIR's type) of each tensor of indices, in the order of a program's arguments."""
        drafted = "?x?" if self.accepted or (self.same and self.per_row) else "?"
        found = [("read_slots", f"tensor<{drafted}x{self.read}>")] if self.read else []
        if self.accepted:
            found.append(("accepted", f"tensor<?x{self.accepted}>"))
        if self.write and not self.same:
            found.append(("write_slots", f"tensor<{'?x?' if self.per_row else '?'}x{self.write}>"))
        return found


def _checked_first(slot):
    """`first_slot` as an int. Below 0 it would make slots of indices that lie before the pool."""
    try:
        slot = index(slot)
    except TypeError:
        raise TensorError(f"'first_slot' must be an int, but is a {type(slot).__name__}") from None
    if not 0 <= slot < 2**31:
        raise TensorError(f"'first_slot' must be from 0 to 2**31 - 1, but is {slot}")
    return slot


class Given:
    """What a call says of its pools."""

    def __init__(self, states, pool, read_slots=None, write_slots=None, accepted=None, parents=None,
                 ring=None, first_slot=0, value_major=False):
        self.pools = pool if isinstance(pool, (tuple, list)) else (pool,)
        if len(self.pools) != states:
            raise TensorError(f"'pool' must be {'a tuple of ' * (states > 1)}{states} "
                              f"tensor{'s' * (states > 1)}, one for each state")
        if read_slots is None and write_slots is None:
            raise TensorError("a 'pool' needs 'read_slots', 'write_slots' or both")
        if accepted is not None and read_slots is None:
            raise TensorError("'accepted' says where in 'read_slots' a sequence starts, which is missing")
        self.read, self.write, self.accepted = read_slots, write_slots, accepted
        self.same = read_slots is write_slots
        self.first_slot, self.value_major = _checked_first(first_slot), bool(value_major)
        self.parents, self.ring = parents, ring

    def planned(self, plan):
        """The same for a plan's sequences."""
        return Given(len(self.pools), self.pools, plan.read, plan.write, plan.accepted, None, None, self.first_slot,
                     self.value_major)

    def indices(self):
        """[(name, tensor)], as `Pools.indices`."""
        found = [("read_slots", self.read), ("accepted", self.accepted),
                 ("write_slots", None if self.same else self.write)]
        return [(n, t) for n, t in found if t is not None]

    def names(self):
        return ["pool"] if len(self.pools) == 1 else [f"pool{i}" for i in range(len(self.pools))]

    def describe(self, described, exact, offsets, steps):
        """(Pools, the channels of each state) for what is known of the tensors, by their names."""
        ranks = {"accepted": (1,)}
        ranks["read_slots"] = (1,) if self.accepted is None else (2,)
        ranks["write_slots"] = (1, 2)
        types = {}
        for name, _ in self.indices():
            dtype, shape = described[name]
            allowed = (1, 2) if self.same and name == "read_slots" and self.accepted is None else ranks[name]
            if dtype not in _INTEGERS or len(shape) not in allowed:
                raise TensorError(f"'{name}' must be int32 or int64 of rank "
                                  f"{' or '.join(map(str, allowed))}, but is {dtype} {list(shape)}")
            types[name] = dtype
        if self.same and self.accepted is None and len(described["read_slots"][1]) == 2:
            raise TensorError("'read_slots' has a slot for each drafted row; give 'accepted', which says "
                              "where each sequence starts")
        rank = 0
        if self.write is not None:
            rank = len(described["read_slots" if self.same else "write_slots"][1])
        kinds, channels = [], []
        for name in self.names():
            dtype, shape = described[name]
            if dtype not in (("f64",) if exact else _FLOATS) or not 2 <= len(shape) <= 4:
                raise TensorError(f"'{name}' must be float32, float16 or bfloat16 of shape "
                                  f"[P, H, {'V, K' if self.value_major else 'K, V'}], [P, H, C] or [P, H], "
                                  f"but is {dtype} {list(shape)}")
            if len(shape) != 4 and (self.value_major or rank == 2):
                raise TensorError(f"'{name}' must have matrices as slots "
                                  + ("with 'value_major'" if self.value_major else
                                     "where the state after each row is kept")
                                  + f", but has shape {list(shape)}")
            own = tuple(index(n) for n in shape[2:])
            channels.append(own[::-1] if self.value_major else own)
            kinds.append("f32" if dtype == "f64" else dtype)
        few = steps <= _FEW_ROWS and not offsets
        pools = Pools(tuple(kinds), self.value_major, self.first_slot, types.get("read_slots", ""),
                      types.get("accepted", ""),
                      types.get("read_slots" if self.same else "write_slots", ""), self.same,
                      rank == 2, index(steps) if few else None)
        return pools, tuple(channels)


def pool_type(dtype, channels, value_major):
    """A pool's type in MLIR, for states of these channels."""
    own = channels[::-1] if value_major else channels
    return f"tensor<{'x'.join(['?', '?', *map(str, own), dtype])}>"


def placed(entry, tensors, pools):
    """All inputs of an entry in their order: `pools` are those that it writes."""
    places, others, own = set(entry.replaced.values()), iter(tensors), iter(pools)
    return [next(own if i in places else others) for i in range(len(entry.inputs))]


def call(door, program, tensors, in_place=True):
    """A program's results for all of its inputs. Pools that it writes are changed, or copies of
    them."""
    entry = program.entry()
    if not entry.replaced:
        return door.call(program.key, tensors)
    places = sorted(set(entry.replaced.values()))
    pools = [tensors[i] if in_place else door.copy(tensors[i]) for i in places]
    others = [t for i, t in enumerate(tensors) if i not in places]
    results = door.call_in_pools(program.key, others, pools, True)
    count = len(entry.outputs) - len(entry.replaced)
    own, written = iter(results[:count]), dict(zip(places, results[count:]))
    return [written[entry.replaced[o]] if o in entry.replaced else next(own)
            for o in range(len(entry.outputs))]


class PoolText:
    """The lines of a program that take states from pools and put them there."""

    def __init__(self, spec, state_types):
        self._pools, self._offsets, self._states = spec.pools, spec.offsets, state_types
        count = len(state_types)
        self._own = ["pool"] if count == 1 else [f"pool{i}" for i in range(count)]
        self._types = [pool_type(d, shape, spec.pools.value_major)
                       for d, shape in zip(spec.pools.types, spec.state_shapes)]
        self._indices = dict(spec.pools.indices())
        self.inputs = [f"%{n}: {t}" for n, t in [*self._indices.items(),
                                                 *zip(self._own, self._types)]]
        self.taken = [*self._indices, *self._own]  # the names of these inputs
        writes = bool(spec.pools.write)
        self.names, self.types = (self._own, self._types) if writes else ([], [])
        self._options = (" value_major" if spec.pools.value_major else "")
        self._first = f" {{first_slot = {spec.pools.first_slot} : i64}}"

    def start(self, i):
        return f"%start.{i}" if self._pools.read else "zero"

    def before(self):
        if not self._pools.read:
            return ""
        accepted = (f" accepted(%accepted : {self._indices['accepted']})"
                    if self._pools.accepted else "")
        return "".join(f"  %start.{i} = ejk.read_states %{n} at %read_slots{accepted}{self._options}"
                       f"{self._first}\n      : {t}, {self._indices['read_slots']} -> {s}\n"
                       for i, (n, t, s) in enumerate(zip(self._own, self._types, self._states)))

    def after(self, made, output_types):
        """The lines after the scan that gives `made`, and what the function returns."""
        written = "read_slots" if self._pools.same else "write_slots"
        offsets = (f" cu_seqlens(%cu_seqlens : tensor<?x{self._offsets}>)" if self._offsets else "")
        indices = [n for n in self._indices if n != "accepted"]
        text, returned, count = "", [], len(output_types)
        for i, (value, kind) in enumerate(zip(made, output_types)):
            returned.append(f"%shown.{i}")
            text += (f"  %shown.{i} = ejk.zero_skipped {value} of %{self._own[0]} at "
                     f"{', '.join('%' + n for n in indices)}{offsets}{self._first}\n      : {kind}, "
                     f"{self._types[0]}, {', '.join(self._indices[n] for n in indices)}\n")
        if not self._pools.write:
            return text, returned
        per_row = self._pools.per_row
        states = made[count + len(self._own):] if per_row else made[count:]
        for i, (n, t, s) in enumerate(zip(self._own, self._types, self._states)):
            returned.append(f"%kept.{i}")
            text += (f"  %kept.{i} = ejk.write_states {states[i]} to %{n} at %{written}"
                     f"{offsets if per_row else ''}{self._options}{self._first}\n"
                     f"      : {s}, {t}, {self._indices[written]}\n")
        return text, returned
