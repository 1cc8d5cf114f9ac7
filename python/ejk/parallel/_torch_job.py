"""One segment of a recurrence over torch's tensors: its summaries, and its rows."""

import torch
import torch.nn.functional as F

from .. import ops
from .._errors import EjkError
from . import _entries

OVER_TIME = ("q", "k", "v", "g", "gk", "gv", "beta", "dt")
# A part of a process's rows has as many at least. From this length on, kernels divide a sequence, too
# (kFewestRowsToSplit in lowering/target/CostModel.h).
_FEWEST_ROWS = 1024
# Gates are summed up over so many rows first. For 65,536 rows of 16 × 128 in float32 the two sums take
# 0.14 ms on an H200, and their bytes 0.13.
_ROWS_OF_SUM = 64


class _Input(torch.autograd.Function):
    """A tensor as an input of a graph of its own, which does not keep it as a leaf would."""

    @staticmethod
    def forward(ctx, anchor, tensor):
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx, gradient):
        return None, None


def _units(device):
    """How many states a GPU computes at a time. A CPU's threads divide a state among them, and their
    number must not decide bits."""
    return (torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda"
            else 1)


class Job:
    """One segment: its summaries, and its rows.

    Where a GPU has more multiprocessors than the segment has heads, the rows are cut into equal parts that
    are entries of a batch: [B, T, …] becomes [B · parts, T / parts, …]. The summary of a part is used twice,
    for the segment's summary and for the state that the next part starts from."""

    def __init__(self, segment, tensors, initial_state, constants, delta):
        self.segment, self.delta = segment, delta
        self.constants = constants  # by name: numbers that the function takes
        self.initial_state = initial_state
        k, v = tensors["k"], tensors["v"]
        self.device = k.device
        # States, and what they are multiplied by, are in float32, or in float64 where everything is.
        self.dtype = torch.float64 if k.dtype == torch.float64 else torch.float32
        self.heads, self.K, self.V = max(tensors["q"].shape[2], v.shape[2]), k.shape[3], v.shape[3]
        packed = segment.offsets is not None
        self.rows = 1 if packed else k.shape[0]
        self.parts = 1 if packed or segment.count == 1 else self._parts(k.shape[1])
        self.tensors = {n: self._cut(t) if n in OVER_TIME else t for n, t in tensors.items()}
        self.cu = (torch.tensor(segment.local, dtype=torch.int32, device=k.device) if packed
                   else None)
        count = len(segment.offsets) - 1 if packed else k.shape[0]
        self.state_shape = (count, self.heads, self.K, self.V)

    def _parts(self, rows):
        states = max(self.rows * self.heads, 1)
        most = min(_units(self.device) // states, rows // _FEWEST_ROWS)
        return next((n for n in range(most, 1, -1) if rows % n == 0), 1)

    def _cut(self, tensor):
        """[B, T, …] as the parts' batch."""
        if self.parts == 1:
            return tensor
        return tensor.reshape(self.rows * self.parts, -1, *tensor.shape[2:])

    def _uncut(self, tensor):
        if self.parts == 1:
            return tensor
        return tensor.reshape(self.rows, -1, *tensor.shape[2:])

    def _of_parts(self, tensor):
        """[B · parts, …] as a list of the parts' [B, …]."""
        return list(tensor.view(self.rows, self.parts, *tensor.shape[1:]).unbind(1))

    def _joined_parts(self, tensors):
        """What `_of_parts` took apart."""
        return torch.stack(tensors, 1).flatten(0, 1)

    def _mask(self, flags):
        if self.segment.offsets is None:
            return flags
        return torch.tensor(flags, device=self.device)[:, None, None, None]

    def begin(self):
        """The initial states of the sequences that begin here; zero for others."""
        zero = self._zero()
        segment = self.segment
        if self.initial_state is None or segment.offsets is None and segment.from_left:
            return zero
        if segment.offsets is None:
            return self.initial_state
        return torch.where(self._mask(segment.begins), self.initial_state, zero)

    def _zero(self):
        return torch.zeros(self.state_shape, dtype=self.dtype, device=self.device)

    def transition(self):
        """What each part multiplies a state by, where a state passes through it: [rows, H, K +
        V'] for decays, [rows, H, K, K] for a delta rule."""
        k, segment = self.tensors["k"], self.segment
        if self.delta:
            rows = self.rows * self.parts
            if not segment.whole or not (segment.from_left or segment.to_right):
                return k.new_zeros(rows, self.heads, self.K, self.K, dtype=self.dtype)
            identity = torch.eye(self.K, dtype=self.dtype, device=k.device).expand(rows, self.heads, -1, -1)
            return _entries.delta_transition(self.tensors, self.constants, identity.contiguous())

        def total(name):
            gate = self.tensors.get(name)
            if gate is None:
                return 0
            # In two steps, of which the first has work for a whole device.
            whole = gate.shape[1] // _ROWS_OF_SUM * _ROWS_OF_SUM
            sums = gate[:, :whole].unflatten(1, (-1, _ROWS_OF_SUM)).sum(2, dtype=self.dtype).sum(1)
            return sums if whole == gate.shape[1] else sums + gate[:, whole:].sum(1, dtype=self.dtype)
        keys = k.new_zeros(self.rows * self.parts, self.heads, self.K, dtype=self.dtype) + total("gk")
        g, gamma = total("g"), self.tensors.get("g_gamma")
        if "dt" in self.tensors:
            step = self.tensors["dt"].to(self.dtype) + self.tensors.get("dt_bias", 0)
            step = F.softplus(step) if self.constants["dt_softplus"] else step
            g = self.tensors["A"] * step.sum(1)
        if gamma is not None:
            g = g + gamma * k.shape[1]
        keys = keys + (g if isinstance(g, int) else g[..., None])
        values = total("gv")
        return (keys if isinstance(values, int) else torch.cat([keys, values], -1)).exp()

    def through(self, transition, state, adjoint):
        """A state, or an adjoint, passed through a segment of this transition."""
        if self.delta:
            return (transition.transpose(-1, -2) if adjoint else transition) @ state
        state = state * transition[..., :self.K, None]
        return state * transition[..., None, self.K:] if transition.shape[-1] > self.K else state

    def sent(self, state, row):
        """A summary as one vector: the state of the sequence at a cut, and the transition."""
        if self.segment.offsets is not None:
            state = state[row:row + 1]
        return torch.cat([state.reshape(-1), self.passing.reshape(-1)])

    def received(self, vector):
        size = self.rows * self.heads * self.K * self.V
        return (vector[:size].view(self.rows, self.heads, self.K, self.V),
                vector[size:].view(self.passing.shape))

    def summary(self):
        self.passing = self.transition()
        states = _entries.final_state(self.tensors, self.constants, self._first(self.begin()), self.cu)
        if self.parts > 1:
            self.passings, self.states = self._of_parts(self.passing), self._of_parts(states)
            states, self.passing = self.states[0], self.passings[0]
            if self.segment.to_right:  # who need the state
                ends = [states]
                for state, passing in zip(self.states[1:], self.passings[1:]):
                    ends.append(state + self.through(passing, ends[-1], False))
                states = ends[-1]
                if not self.segment.from_left:
                    self.states = ends
            if self.segment.from_left and self.segment.to_right:  # through which a state passes
                for passing in self.passings[1:]:
                    self.passing = passing @ self.passing if self.delta else passing * self.passing
        return self.sent(states, getattr(self.segment, "last", 0))

    def _first(self, state):
        """A state for the first part, zero for others."""
        return self._joined_parts([state] + [self._zero()] * (self.parts - 1)) if self.parts > 1 else state

    def _starts(self, state):
        """The states that parts start from, of the first one's."""
        if self.parts == 1:
            return state
        starts = [state]
        if self.segment.from_left:
            for passing, own in zip(self.passings[:-1], self.states[:-1]):
                starts.append(own + self.through(passing, starts[-1], False))
        else:  # from which the summary started
            starts += self.states[:-1]
        del self.states
        return self._joined_parts(starts)

    def carried(self, vectors, segments, adjoint):
        """What comes in from the segments on the left, or of an adjoint from those on the right."""
        carry = None
        order = (range(self.segment.count - 1, self.segment.index, -1) if adjoint else
                 range(self.segment.index))
        for s in order:
            state, passing = self.received(vectors[s])
            other = segments[s]
            if (carry is not None and other.whole
                    and (other.to_right if adjoint else other.from_left)):
                state = state + self.through(passing, carry, adjoint)
            carry = state
        return carry

    def joined(self, states, carry, row, add):
        if self.segment.offsets is None:
            return states + carry if add else carry
        states = states.clone()
        states[row] = states[row] + carry[0] if add else carry[0]
        return states

    def run(self, vectors, segments, differentiable):
        state = self.begin()
        if self.segment.from_left:
            state = self.joined(state, self.carried(vectors, segments, False),
                                getattr(self.segment, "first", 0), False)
        state = self._starts(state)
        self.kept = []
        o, ht = self._with_graph(state) if differentiable else self._call(self.tensors, state)
        del self.tensors, self.initial_state
        return self._uncut(o), self.ended(self._of_parts(ht)[-1] if self.parts > 1 else ht)

    def _call(self, tensors, state):
        named = dict(tensors, initial_state=state, cu_seqlens=self.cu, **self.constants)
        if self.delta:
            g = named.pop("g", None)
            if g is None:
                return ops.delta_rule(**named)
            return (ops.kda if g.dim() == 4 else ops.gated_delta_rule)(g=g, **named)
        return _mamba2(**named) if "dt" in named else ops.recurrent(**named)

    def _with_graph(self, state):
        """The call's results, with a graph from them to the operands."""
        # What the rows' graph saves goes to this list, and from there to the graph around it.
        kept = self.kept

        def keep(tensor):
            kept.append(tensor)
            return len(kept) - 1
        self.names = list(self.tensors)
        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, kept.__getitem__):
            anchor = torch.empty(0, requires_grad=True)
            own = {n: _Input.apply(anchor, t.detach()) for n, t in self.tensors.items()}
            h0 = _Input.apply(anchor, state.detach())
            results = self._call(own, h0)
        edge = torch.autograd.graph.get_gradient_edge
        self.inputs, self.results = [*map(edge, own.values()), edge(h0)], [*map(edge, results)]
        return [r.detach() for r in results]

    def ended(self, state):
        """States of the sequences that end here, zero for others."""
        segment = self.segment
        if segment.offsets is None:
            return torch.zeros_like(state) if segment.to_right else state
        return torch.where(self._mask(segment.ends), state, torch.zeros_like(state))

    def adjoint_summary(self, do, dht):
        if not hasattr(self, "results"):
            raise EjkError("a recurrence over segments was differentiated before: its backward "
                           "pass frees what it saved, so call the recurrence again")
        self.cotangents = [self._cut(do.contiguous()), self.ended(dht)]
        adjoint, = torch.autograd.grad(self.results, self.inputs[-1:],
                                       [self.cotangents[0], self._last(self.cotangents[1])],
                                       retain_graph=True)
        if self.parts > 1:
            self.adjoints = self._of_parts(adjoint)
            adjoint = self.adjoints[-1]
            if self.segment.from_left:  # who need the adjoint
                starts = [adjoint]
                for own, passing in zip(self.adjoints[-2::-1], self.passings[-2::-1]):
                    starts.append(own + self.through(passing, starts[-1], True))
                adjoint = starts[-1]
                if not self.segment.to_right:
                    self.adjoints = starts[::-1]
        return self.sent(adjoint, getattr(self.segment, "first", 0))

    def _last(self, adjoint):
        """An adjoint for the last part, zero for others."""
        return self._joined_parts([self._zero()] * (self.parts - 1) + [adjoint]) if self.parts > 1 else adjoint

    def _ends(self, adjoint, carry):
        """The adjoints at the parts' ends, of the last one's and of what other segments add to that."""
        if self.parts == 1:
            return adjoint
        ends = [adjoint]
        if self.segment.to_right:
            for own, passing in zip(self.adjoints[:0:-1], self.passings[:0:-1]):
                carry = own + self.through(passing, carry, True)
                ends.append(carry)
        else:  # to which nothing is added
            ends += self.adjoints[:0:-1]
        del self.adjoints, self.passings
        return self._joined_parts(ends[::-1])

    def gradients(self, vectors, segments):
        do, dht = self.cotangents
        carry = self.carried(vectors, segments, True) if self.segment.to_right else None
        if carry is not None:
            dht = self.joined(dht, carry, getattr(self.segment, "last", 0), True)
        *found, dh0 = torch.autograd.grad(self.results, self.inputs, [do, self._ends(dht, carry)])
        found = [self._uncut(x) if n in OVER_TIME else x for n, x in zip(self.names, found)]
        if self.parts > 1:
            dh0 = self._of_parts(dh0)[0]
        self.kept.clear()
        del self.results, self.inputs
        if self.segment.offsets is None:
            dh0 = torch.zeros_like(dh0) if self.segment.from_left else dh0
        else:
            dh0 = torch.where(self._mask(self.segment.begins), dh0, torch.zeros_like(dh0))
        return dict(zip(self.names, found)), dh0


def _mamba2(q, k, v, **named):
    """`ejk.ops.mamba2_ssd` of operands that are named as other recurrences' are."""
    return ops.mamba2_ssd(v, B=k, C=q, **named)
