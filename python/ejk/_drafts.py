"""Drafted rows in a tree, and drafted rows without the states after them: which sequences a call in pools makes of
them, and what it takes of these sequences' outputs."""

from . import _arrays
from ._errors import TensorError


def _door(name, tensor, spelt):
    """The door of a tensor of integers."""
    door = _arrays.door_of(tensor)
    dtype, shape = door.describe(tensor) if door else (type(tensor).__name__, "")
    if dtype not in ("i32", "i64") or len(shape) != spelt.count(",") + 1:
        raise TensorError(f"'{name}' must be int32 or int64 of shape {spelt}, but is {dtype} {list(shape)}")
    return door


def _check_sizes(name, tensor, sizes, other):
    if tuple(tensor.shape) != tuple(sizes):
        raise TensorError(f"'{name}' must be {list(sizes)}, as {other} says, but has shape {list(tensor.shape)}")


def _count(like, axis):
    """0, 1, 2, … along an axis of a tensor of integers."""
    return (like * 0 + 1).cumsum(axis) - 1


def _limit(xp, x, least, most):
    x = xp.where(x < least, least, x)
    return xp.where(x > most, most, x)


def _pick(x, index):
    """x[n, index[n, j]] of [N, T, …] and [N, J], as [N, J, …]."""
    N, T = x.shape[:2]
    flat = index + _count(index, 0) * T
    return x.reshape(N * T, *x.shape[2:])[flat.reshape(-1)].reshape(*index.shape, *x.shape[2:])


class Plan:
    """A call on sequences of its own. `read`, `accepted` and `write` are their slots; `rows(name, x)` makes their
    rows of a call's, `halo(name, x)` the rows before their first ones, `outputs` a call's outputs of theirs, and
    `finish` is done when the call is."""

    def __init__(self, door, read, write, rows, halo, outputs, accepted=None, finish=lambda: None):
        self.read, self.accepted, self.write, self.outputs, self.finish = read, accepted, write, outputs, finish
        self._door, self._rows, self._halo = door, rows, halo

    def values(self, names, values, halos):
        """A call's arguments with rows of the sequences. `halos` are the names of those that are rows before the
        first."""
        return [self._of_sequences(n, x, self._halo if n in halos else self._rows)
                if _arrays.is_tensor(x) and len(x.shape) >= 3 else x for n, x in zip(names, values)]

    def _of_sequences(self, name, x, function):
        if _arrays.door_of(x) is not self._door and hasattr(self._door, "prepare"):
            x, = self._door.prepare([x])
        return function(name, x)


class Tree:
    """Drafted rows in a tree, for `parents` of several layers: which rows each one comes after is found once.

    `parents` [N, T], int32 or int64: row t of sequence n comes after row `parents[n, t]`, a smaller number than t;
    any other number makes it a first row, which comes after what the sequence has read. `depth` says how many rows a
    branch has at most: T if left out. A call computes N·T·depth rows."""

    def __init__(self, parents, depth=None):
        door = _door("parents", parents, "[N, T]")
        N, T = self.shape = tuple(parents.shape)
        self.depth = T if depth is None else min(int(depth), T)
        if self.depth < 1:
            raise TensorError(f"'depth' must be at least 1, but is {self.depth}, for 'parents' of shape {[N, T]}")
        xp, own = door.namespace, _count(parents, 1)
        known = xp.where((parents >= 0) & (parents < own), parents, -1)
        # The row, what it comes after, what that one comes after, …; then -1.
        above = [own]
        while len(above) < self.depth:
            last = above[-1]
            above.append(xp.where(last < 0, -1, door.take_along(known, xp.where(last < 0, 0, last), 1)))
        above = xp.stack(above, 2)
        count = (above >= 0).sum(-1)
        self._last = count - 1
        back = self._last[:, :, None] - _count(above, 2)
        # Rows behind the last one are in the sequence, but nothing of them is kept.
        self._path = door.take_along(above, xp.where(back < 0, 0, back), 2).reshape(N, T * self.depth)

    def plan(self, given, door):
        (N, T), depth = self.shape, self.depth
        path, last_row, xp = _of(door, "parents", self._path), _of(door, "parents", self._last), door.namespace

        def rows(name, x):
            _check_sizes(name, x, (N, T, *x.shape[2:]), "'parents'")
            return _pick(x, path).reshape(N * T, depth, *x.shape[2:])

        def halo(name, x):
            _check_sizes(name, x, (N, *x.shape[1:]), "'parents'")
            return x[_count(last_row, 0).reshape(-1)]

        def outputs(o):
            return _pick(o, last_row.reshape(N * T, 1)).reshape(N, T, *o.shape[2:])

        start, write, accepted = given.read, given.write, None
        if start is not None and given.accepted is not None:
            _door("read_slots", start, "[N, D]")
            _door("accepted", given.accepted, "[N]")
            _check_sizes("accepted", given.accepted, (N,), "'parents'")
            _check_sizes("read_slots", start, (N, start.shape[1]), "'parents'")
            at = _limit(xp, given.accepted, 1, start.shape[1]) - 1
            start = door.take_along(start, at[:, None], 1)[:, 0]
        if start is not None:
            _door("read_slots", start, "[N]")
            _check_sizes("read_slots", start, (N,), "'parents'")
        if write is not None:
            _door("write_slots", write, "[N, T]")
            _check_sizes("write_slots", write, (N, T), "'parents'")
            if given.same:
                raise TensorError("'write_slots' is 'read_slots', but several rows of a tree start from the slot "
                                  "that is read: give slots of their own")
        # A branch without slots is computed where its sequence has some. It has one of these as a second slot to
        # read, which it does not start from.
        slots = [x for x in (given.read, write) if x is not None and len(x.shape) == 2]
        some = [xp.amax(xp.where(x < given.pools[0].shape[0], x, -1), 1) for x in slots]
        if some:
            other = some[0] if len(some) == 1 else xp.maximum(*some)
            column = _count(xp.stack([other, other], 1), 1)
            start = xp.where(column == 0, (other * 0 - 1 if start is None else start)[:, None], other[:, None])
            accepted = last_row.reshape(N * T) * 0 + 1
        read = start[_count(last_row, 0).reshape(N * T)]
        if write is not None:
            place = _count(path.reshape(N, T, depth), 2)
            write = xp.where(place == last_row[:, :, None], write[:, :, None], -1).reshape(N * T, depth)
        return Plan(door, read, write, rows, halo, outputs, accepted)


class Ring:
    """The last drafted rows of each slot's request, in the place of the states after them.

    A call with `ring` and `accepted` [N] has `read_slots` [N] and no `write_slots`. The states in the pool are those
    before the ring's rows. The call computes the first `accepted[n]` of the ring's rows (0: none) and puts the state
    after them into the slot, then computes its own rows, returns their outputs, and leaves them in the ring. So a
    state is read once and written once, however many rows are drafted. A call of no rows, [N, 0, …], does the first
    part alone; requests have no rows in the ring then, and `accepted` is 0 for them next time, as after a prefill.

    `rows` says how many rows a call has at most. The ring takes memory at its first call: `rows` rows of each
    tensor over time, for each slot of the pool. One ring serves one layer."""

    def __init__(self, rows):
        self.rows, self._kept = int(rows), {}
        if self.rows < 1:
            raise TensorError(f"a ring keeps at least 1 row, not {self.rows}")

    def plan(self, given, door):
        pool, read, accepted = given.pools[0], given.read, given.accepted
        if accepted is None or read is None or given.write is not None:
            raise TensorError("'ring' needs 'read_slots' and 'accepted', and writes to no other slots: leave out "
                              "'write_slots'")
        _door("read_slots", read, "[N]")
        _door("accepted", accepted, "[N]")
        _check_sizes("accepted", accepted, read.shape, "'read_slots'")
        if not hasattr(door, "zeros_like"):
            raise TensorError("a ring is changed in its place, which JAX's arrays are not; use torch or NumPy")
        xp, slots, R = door.namespace, pool.shape[0], self.rows
        count = _limit(xp, accepted, 0, R)
        # Rows of sequences without a slot go to a row of the ring that no slot has.
        place = xp.where((read >= given.first_slot) & (read < slots), read, slots)
        column = _count(read[:, None] + door.zeros_like(read, (read.shape[0], R)), 1)
        write = xp.where(column == count[:, None] - 1, read[:, None], -1)
        found, new = {}, []

        def picked(D):
            """Where sequences' rows and outputs are, for D own rows."""
            if D not in found:
                at = _count(read[:, None] + door.zeros_like(read, (read.shape[0], R + D)), 1)
                own = at - count[:, None] + R
                index = xp.where(at < count[:, None], at, _limit(xp, own, 0, R + D - 1))
                found[D] = index, at[:, :D] + count[:, None]
            return found[D]

        def rows(name, x):
            N, D = x.shape[:2]
            if D > R or N != read.shape[0]:
                raise TensorError(f"'{name}' must be [{read.shape[0]}, at most {R}, …], as 'read_slots' and the "
                                  f"ring's rows are, but has shape {list(x.shape)}")
            kept = self._kept.get(name)
            if kept is None:
                kept = self._kept[name] = door.kept_zeros(x, (slots + 1, R, *x.shape[2:]))
            if kept.shape[0] != slots + 1 or kept.shape[2:] != x.shape[2:] or str(kept.dtype) != str(x.dtype):
                raise TensorError(f"the ring keeps rows of '{name}' as {kept.dtype} {list(kept.shape[2:])} of "
                                  f"{kept.shape[0] - 1} slots, but got {x.dtype} {list(x.shape[2:])} and a pool of "
                                  f"{slots}; one ring serves one layer")
            new.append((kept, x))
            return _pick(door.concatenate([kept[place], x], 1), picked(D)[0])

        def halo(name, x):
            raise TensorError(f"'{name}' has the rows before the first, which a ring does not keep for the next call; "
                              "give 'read_slots' and 'write_slots' [N, D] instead of 'ring'")

        def outputs(o):
            D = o.shape[1] - R
            return _pick(o, picked(D)[1])

        def finish():
            for kept, x in new:
                kept[place, :x.shape[1]] = x

        return Plan(door, read, write, rows, halo, outputs, finish=finish)


def _of(door, name, tensor):
    """A tensor of another library, NumPy's, as one of the door's; what is none stays."""
    if not hasattr(door, "prepare") or _arrays.door_of(tensor) in (None, door):
        return tensor
    try:
        return door.prepare([tensor])[0]
    except TensorError as error:
        raise TensorError(f"'{name}': {error}") from None


def plan_of(given, names, values):
    """The Plan of what a call says of its drafts. `values` are its arguments, of these `names`."""
    if given.parents is not None and given.ring is not None:
        raise TensorError("'parents' and 'ring' are two ways to verify drafts; give one")
    parents = given.parents._path if isinstance(given.parents, Tree) else given.parents
    door = _arrays.common_door([(n, x) for n, x in (*zip(names, values), *zip(given.names(), given.pools),
                                                    *given.indices(), ("parents", parents)) if _arrays.is_tensor(x)])
    # All are arrays of one library from here on.
    given.read, given.write, given.accepted = (
        _of(door, n, x) for n, x in (("read_slots", given.read), ("write_slots", given.write),
                                     ("accepted", given.accepted)))
    if given.ring is not None:
        return given.ring.plan(given, door)
    tree = given.parents if isinstance(given.parents, Tree) else Tree(_of(door, "parents", parents))
    return tree.plan(given, door)
