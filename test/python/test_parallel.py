"""Recurrences over segments, on one device."""

import functools
import os
import unittest
from unittest import mock

import numpy
import torch

import ejk
import ejk.parallel
import ejk.parallel._torch_job as jobs
import ejk.parallel.torch as parallel
from ejk.parallel._segments import Segment

# Outputs and gradients in float32, of the norm; sums over time are in another order.
LIMIT = float(os.environ.get("EJK_TEST_LIMIT", 1e-6))  # NCCL: kernels of GPUs multiply in 16 bits
PACKED = [0, 5, 5, 21, 40]  # the third sequence goes on over cuts, the second is empty
FUNCTIONS = ("gla", "simple_gla", "mamba2_ssd", "gated_delta_rule", "recurrent", "kda", "retention")


def case(name, packed, T=40, H=2, K=8, V=4):
    """(operands, what each is by time) of a function of ejk.ops."""
    torch.manual_seed(3)
    B = 1 if packed else 2

    def normal(*shape):
        return torch.randn(B, T, *shape)

    def gate(*shape):
        return -torch.rand(B, T, *shape) * 0.3
    q, k, v = normal(H, K), torch.nn.functional.normalize(normal(H, K), dim=-1), normal(H, V)
    N = len(PACKED) - 1 if packed else B
    tensors = {"gla": lambda: dict(q=q, k=k, v=v, g=gate(H, K)),
               "simple_gla": lambda: dict(q=q, k=k, v=v, g=gate(H)),
               "recurrent": lambda: dict(q=q, k=k, v=v, g=gate(H), gk=gate(H, K), gv=gate(H, V),
                                         g_gamma=torch.tensor([-0.1, -0.3])),
               "retention": lambda: dict(q=q, k=k, v=v),
               "gated_delta_rule": lambda: dict(q=q, k=k, v=v, g=gate(H), beta=torch.rand(B, T, H)),
               "kda": lambda: dict(q=q, k=k, v=v, g=gate(H, K), beta=torch.rand(B, T, H)),
               "mamba2_ssd": lambda: dict(x=v, dt=torch.rand(B, T, H), A=-torch.rand(H),
                                          B=k[:, :, :1], C=q[:, :, :1], D=torch.rand(H))}[name]()
    tensors["initial_state"] = torch.randn(N, H, K, V)
    return tensors, ({"cu_seqlens": torch.tensor(PACKED, dtype=torch.int32)} if packed else {})


SHARED = ("initial_state", "g_gamma", "A", "D")


def terms_of_skip(name, packed):
    """The norm of the terms that D's gradient sums up: of each row and head, x · do."""
    x = case(name, packed)[0]["x"]
    do = torch.randn(x.shape, generator=torch.Generator().manual_seed(5))
    return (x * do).sum(-1).norm()


def losses(o, state, rows=slice(None)):
    """A number that all results have a part in; the same for each split."""
    generator = torch.Generator().manual_seed(5)
    do = torch.randn(o.shape[0], 40, *o.shape[2:], generator=generator)[:, rows]
    return (o * do).sum() + (state * torch.randn(state.shape, generator=generator)).sum()


def single(name, packed):
    tensors, options = case(name, packed)
    own = {n: t.clone().requires_grad_() for n, t in tensors.items()}
    o, state = getattr(ejk.ops, name)(**own, **options)
    losses(o, state).backward()
    return o.detach(), state.detach(), {n: t.grad for n, t in own.items()}


def error(a, b):
    return float((a - b).norm() / b.norm().clamp(min=1e-3))


class Split(unittest.TestCase):
    def check(self, name, packed, parts, limit=LIMIT):
        wanted = single(name, packed)
        tensors, options = case(name, packed)
        own = {n: t.clone().requires_grad_() for n, t in tensors.items()}
        o, state = ejk.split(getattr(ejk.ops, name), **own, **options, parts=parts)
        losses(o, state).backward()
        self.assertLessEqual(error(o.detach(), wanted[0]), limit, (name, "o"))
        self.assertLessEqual(error(state.detach(), wanted[1]), limit, (name, "state"))
        for n, t in own.items():
            self.assertLessEqual(error(t.grad, wanted[2][n]), limit, (name, n))

    def test_batches(self):
        for name in FUNCTIONS:
            with self.subTest(name):
                self.check(name, False, 3)

    def test_packed_sequences_across_cuts(self):
        for name in FUNCTIONS:
            for parts in ([7, 6, 4, 23], [21, 19], [5, 35]):
                with self.subTest(name, parts=parts):
                    self.check(name, True, parts)

    def test_an_adjoint_summary_is_one_gradient(self):
        """Kernels compute a segment's gradients once: its adjoint alone before the exchange, all after it."""
        apply, entries = ejk._torch._apply, []

        def recorded(program, entry, tensors):
            entries.append(entry)
            return apply(program, entry, tensors)
        for name in FUNCTIONS:
            for packed in (False, True):
                with self.subTest(name, packed=packed), unittest.mock.patch.object(ejk._torch, "_apply", recorded):
                    tensors, options = case(name, packed)
                    own = {n: t.clone().requires_grad_() for n, t in tensors.items()}
                    o, state = ejk.split(getattr(ejk.ops, name), **own, **options, parts=3)
                    entries.clear()
                    losses(o, state).backward()
                    self.assertEqual(entries[:3], ["1:initial_state"] * 3)
                    self.assertEqual(len(entries), 6)
                    self.assertTrue(all(e.endswith(",initial_state") for e in entries[3:]), entries)

    def test_a_gradient_of_the_initial_state_alone(self):
        tensors, options = case("simple_gla", False)
        state = tensors.pop("initial_state").requires_grad_()
        found = [torch.autograd.grad(losses(*f(**tensors, **options, initial_state=state)), state)[0]
                 for f in (ejk.ops.simple_gla, functools.partial(ejk.split, ejk.ops.simple_gla, parts=3))]
        torch.testing.assert_close(*found)

    def test_types_of_a_model(self):
        """Activations in bfloat16, gates in float32: as the uncut call, up to a rounding."""
        for name in FUNCTIONS:
            tensors, options = case(name, False)
            wanted, found = ({n: (t.bfloat16() if n in ("q", "k", "v", "x", "B", "C") else t)
                              .clone().requires_grad_() for n, t in tensors.items()}
                             for _ in range(2))
            o, state = getattr(ejk.ops, name)(**wanted, **options)
            cut, last = ejk.split(getattr(ejk.ops, name), **found, **options, parts=3)
            losses(o.float(), state).backward()
            losses(cut.float(), last).backward()
            self.assertEqual((cut.dtype, last.dtype), (o.dtype, state.dtype), name)
            for what, a, b in [("o", cut, o), ("state", last, state),
                               *((n, found[n].grad, wanted[n].grad) for n in tensors)]:
                self.assertEqual(a.dtype, b.dtype, (name, what))
                self.assertLessEqual(error(a.detach().float(), b.detach().float()), 2 ** -8,
                                     (name, what))

    def test_gates_are_summed_up_in_two_steps(self):
        """Segments of a multiple of the rows that a first sum takes, and of some more."""
        with mock.patch.object(jobs, "_ROWS_OF_SUM", 5):
            for name in ("gla", "simple_gla"):
                for parts in ([10, 20, 10], [14, 13, 13]):
                    with self.subTest(name, parts=parts):
                        self.check(name, False, parts)

    def test_what_a_state_passes_through(self):
        """Gates of 16 bits, whose sum over a segment is not rounded to them, and Mamba-2's with a bias and
        a softplus: the last state of four segments has gone through three."""
        rates = dict(dt_bias=torch.tensor([0.3, -0.4]))
        for name, more, options in (("gla", {}, {}), ("simple_gla", {}, {}), ("kda", {}, {}), ("recurrent", {}, {}),
                                    ("mamba2_ssd", rates, {"dt_softplus": True}), ("mamba2_ssd", rates, {})):
            for packed in (False, True):
                tensors, own = case(name, packed)
                tensors = {n: t.bfloat16() if n in ("q", "k", "v", "g", "gk", "gv") else t
                           for n, t in {**tensors, **more}.items()}
                wanted, found = ({n: t.clone().requires_grad_() for n, t in tensors.items()} for _ in range(2))
                _, state = getattr(ejk.ops, name)(**wanted, **own, **options)
                _, last = ejk.split(getattr(ejk.ops, name), **found, **own, **options, parts=4)
                losses(torch.zeros(1), state).backward()
                losses(torch.zeros(1), last).backward()
                with self.subTest(name, packed=packed, **options):
                    self.assertLessEqual(error(last.detach(), state.detach()), LIMIT)
                    for n in ("initial_state", *more):
                        self.assertLessEqual(error(found[n].grad, wanted[n].grad), 4 * LIMIT, n)

    def test_fewer_query_and_key_heads(self):
        """As in Qwen3-Next: the same as with repeated heads, whole and in segments."""
        for name in ("delta_rule", "gated_delta_rule", "kda"):
            for packed in (False, True):
                tensors, own = case("kda" if name == "kda" else "gated_delta_rule", packed)
                if name == "delta_rule":
                    del tensors["g"]
                tensors |= {n: tensors[n][:, :, :1].contiguous() for n in "qk"}
                function = getattr(ejk.ops, name)
                wanted, whole, cut = ({n: t.clone().requires_grad_() for n, t in tensors.items()} for _ in range(3))
                repeated = {n: t.repeat_interleave(2, 2) if n in "qk" else t for n, t in wanted.items()}
                results = [function(**repeated, **own), function(**whole, **own),
                           ejk.split(function, **cut, **own, parts=4)]
                for o, state in results:
                    losses(o, state).backward()
                for found, (o, state) in ((whole, results[1]), (cut, results[2])):
                    for what, a, b in [("o", o, results[0][0]), ("state", state, results[0][1]),
                                       *((n, found[n].grad, wanted[n].grad) for n in tensors)]:
                        self.assertLessEqual(error(a.detach(), b.detach()), 4 * LIMIT, (name, packed, what))
        with self.assertRaisesRegex(
                ejk.TensorError, "'q' and 'k' must have as many heads, which divide v's 2, but have 1 and 2"):
            ejk.split(ejk.ops.kda, **(case("kda", False)[0] | {"q": torch.zeros(2, 40, 1, 8)}), parts=2)

    def test_transformations_of_torch_func_are_refused(self):
        tensors, _ = case("gla", False)
        for transform, q in ((torch.func.grad, tensors["q"]), (torch.func.vmap, tensors["q"][None])):
            with self.assertRaisesRegex(ejk.EjkError, "in segments has no transformation of torch.func"):
                transform(lambda q: ejk.split(ejk.ops.gla, **(tensors | {"q": q}), parts=2)[0].sum())(q)

    def test_a_bound_of_gates(self):
        """A third of the gates are clipped, and their gradients are zero."""
        for packed in (False, True):
            tensors, own = case("kda", packed)
            wanted, found = ({n: t.clone().requires_grad_() for n, t in tensors.items()} for _ in range(2))
            whole = ejk.ops.kda(**wanted, **own, lower_bound=-0.2)
            cut = ejk.split(ejk.ops.kda, **found, **own, lower_bound=-0.2, parts=4)
            losses(*whole).backward()
            losses(*cut).backward()
            self.assertEqual(int((wanted["g"].grad == 0).sum()), int((tensors["g"] < -0.2).sum()))
            for what, a, b in [("o", cut[0], whole[0]), ("state", cut[1], whole[1]),
                               *((n, found[n].grad, wanted[n].grad) for n in tensors)]:
                self.assertLessEqual(error(a.detach(), b.detach()), 4 * LIMIT, (packed, what))
        with self.assertRaisesRegex(ValueError, "'lower_bound' must be below 0, but is 0.5"):
            ejk.split(ejk.ops.kda, **tensors, **own, lower_bound=0.5, parts=4)

    def test_rows_after_the_last_offset(self):
        for name in FUNCTIONS:
            tensors, _ = case(name, True)
            cu = torch.tensor([0, 5, 5, 21, 30])
            for n, t in tensors.items():
                if n not in SHARED:
                    t[:, 30:] = torch.nan  # nobody reads them
            wanted, found = ({n: t.clone().requires_grad_() for n, t in tensors.items()}
                             for _ in range(2))
            results = [getattr(ejk.ops, name)(**wanted, cu_seqlens=cu)]
            for parts in (3, [7, 26, 7]):
                results.append(ejk.split(getattr(ejk.ops, name), **found, cu_seqlens=cu,
                                         parts=parts))
                losses(*results[-1]).backward()
            (2 * losses(*results[0])).backward()  # both splits' gradients are added
            for o, state in results[1:]:
                self.assertLessEqual(error(o, results[0][0]), LIMIT, (name, "o"))
                self.assertLessEqual(error(state, results[0][1]), LIMIT, (name, "state"))
                self.assertFalse(o[:, 30:].any(), name)
            for n in tensors:
                self.assertLessEqual(error(found[n].grad, wanted[n].grad), LIMIT, (name, n))

    def test_sequences_without_rows(self):
        """Their final state is the initial one, and so is its gradient: at the start, at the end and at a cut."""
        for cu in ([0, 0, 17, 40], [0, 17, 17, 40], [0, 17, 40, 40], [0, 0, 40, 40], [0, 0, 0, 17, 17, 17, 40, 40, 40],
                   [0, 0, 17, 17, 30, 30, 30]):  # the last rows of the last one are in no sequence
            for name in FUNCTIONS:
                tensors, _ = case(name, True)
                tensors["initial_state"] = torch.randn(len(cu) - 1, 2, 8, 4)
                calls = [functools.partial(ejk.split, getattr(ejk.ops, name), parts=parts)
                         for parts in (1, 2, 5, [17, 23], [16, 24], [18, 22])]
                results = []
                for call in (getattr(ejk.ops, name), *calls):
                    own = {n: t.clone().requires_grad_() for n, t in tensors.items()}
                    o, state = call(**own, cu_seqlens=torch.tensor(cu))
                    losses(o, state).backward()
                    results.append({"o": o.detach(), "state": state.detach(), **{n: t.grad for n, t in own.items()}})
                empty = [n for n, (a, b) in enumerate(zip(cu, cu[1:])) if a == b]
                for call, found in zip(calls, results[1:]):
                    with self.subTest(name, cu=cu, **call.keywords):
                        for n, wanted in results[0].items():
                            self.assertLessEqual(error(found[n], wanted), 4 * LIMIT, n)
                        self.assertTrue(torch.equal(found["state"][empty], tensors["initial_state"][empty]))
                        self.assertTrue(torch.equal(found["initial_state"][empty], results[0]["initial_state"][empty]))

    def test_each_sequence_begins_and_ends_in_one_segment(self):
        random = numpy.random.default_rng(0)
        for _ in range(500):
            total = int(random.integers(1, 12))
            offsets = [0, *sorted(random.integers(0, total + 1, size=random.integers(0, 8)).tolist()), total]
            cuts = sorted({0, total, *random.integers(0, total + 1, size=random.integers(0, 5)).tolist()})
            segments = [Segment(i, len(cuts) - 1, start, end, total, offsets)
                        for i, (start, end) in enumerate(zip(cuts, cuts[1:]))]
            for n, (first, end) in enumerate(zip(offsets, offsets[1:])):
                with self.subTest(offsets=offsets, cuts=cuts, sequence=n):
                    (begin,), (last,) = ([s for s in segments if where(s)[n]]
                                         for where in (lambda s: s.begins, lambda s: s.ends))
                    self.assertLessEqual(begin.index, last.index)
                    self.assertTrue(cuts[begin.index] <= first <= cuts[begin.index + 1])
                    self.assertTrue(cuts[last.index] <= end <= cuts[last.index + 1])
                    self.assertEqual(begin is last, all(s.local[n] == s.local[n + 1]
                                                        for s in segments if s is not begin))

    def test_errors(self):
        tensors, _ = case("gla", False)
        for parts, wrong in (([3, 4], "40 rows in all, but is \\[3, 4\\]"), ([25, -10, 25], "lengths of 0 or more"),
                             ([-1, 41], "lengths of 0 or more"), (2.5, "an int, or .* but is 2.5"),
                             ([20.0, 20.0], "an int, or .* but is \\[20.0"), (0, "1 to 40, for 40 rows"),
                             (41, "1 to 40, for 40 rows"), ("4", "an int, or"), (None, "an int, or .* but is None")):
            with self.subTest(parts=parts), self.assertRaisesRegex(ejk.TensorError, "'parts' must be .*" + wrong):
                ejk.split(ejk.ops.gla, **tensors, parts=parts)
        with self.assertRaisesRegex(ValueError, "among recurrent"):
            ejk.split(ejk.ops.mlstm, parts=2)

        def gla(q, k, v, g, **named):
            """A user's, with the name of another one."""
        for other in (gla, "gla", parallel.Local, functools.partial(gla, scale=1.0)):
            with self.subTest(other), self.assertRaisesRegex(ejk.TensorError, "among recurrent"):
                ejk.split(other, **tensors, parts=2)
        with self.assertRaisesRegex(ejk.TensorError, "takes tensors of torch, but got a numpy"):
            ejk.split(ejk.ops.gla, **{n: t.numpy() for n, t in tensors.items()}, parts=2)
        tensors["initial_state"] = torch.zeros(2, 2, 8, 4)
        with self.assertRaisesRegex(ejk.TensorError, "'cu_seqlens' ends at 0: no sequence has a row"):
            ejk.split(ejk.ops.gla, **{n: t[:1] if n != "initial_state" else t for n, t in tensors.items()},
                      cu_seqlens=[0, 0, 0], parts=2)
        with self.assertRaisesRegex(ValueError, "rise from 0 to the 40 rows"):
            packed, _ = case("gla", True)
            ejk.split(ejk.ops.gla, **packed, cu_seqlens=[0, 5, 5, 21, 41], parts=2)

    def test_keywords_that_split_has_not(self):
        tensors, options = case("gla", True)
        for wrong in ({"reverse": True}, {"shared_state": True}, {"save_states": False}, {"pool": None},
                      {"group": None}, {"scales": 1.0}):
            message = f"ejk.split takes no '{[*wrong][0]}' with 'gla'; it takes q, "
            with self.assertRaisesRegex(ejk.TensorError, message):
                ejk.split(ejk.ops.gla, **tensors, **options, **wrong, parts=2)
        # What asks for nothing is taken.
        function = functools.partial(ejk.ops.gla, reverse=False, save_states=True)
        found = ejk.split(function, **tensors, **options, parts=2)
        for a, b in zip(found, ejk.split(ejk.ops.gla, **tensors, **options, parts=2)):
            self.assertTrue(torch.equal(a, b))
        for name in ("gla", "simple_gla", "retention", "linear_attn", "lightning_attn"):
            with self.assertRaisesRegex(TypeError, name):
                getattr(parallel, name)(*[tensors["q"]] * 3, reverse=True)

    def test_float64(self):
        for name in (*FUNCTIONS, "linear_attn", "lightning_attn", "delta_rule"):
            for packed in (False, True):
                tensors, options = case({"linear_attn": "retention", "lightning_attn": "retention",
                                         "delta_rule": "gated_delta_rule"}.get(name, name), packed)
                tensors = {n: t.double() for n, t in tensors.items() if n != "g" or name != "delta_rule"}
                if name == "lightning_attn":
                    options |= {"layer_idx": 1, "num_layers": 4}
                for initial in (True, False):
                    if not initial:
                        del tensors["initial_state"]
                    results = []
                    for function in (getattr(ejk.ops, name),
                                     functools.partial(ejk.split, getattr(ejk.ops, name), parts=3)):
                        own = {n: t.clone().requires_grad_() for n, t in tensors.items()}
                        o, state = function(**own, **options)
                        self.assertEqual((o.dtype, state.dtype), (torch.float64,) * 2)
                        losses(o, state).backward()
                        results.append([o.detach(), state.detach(), *[t.grad for t in own.values()]])
                    # The scale of retention's step is a number of float32.
                    limit = 3e-8 if name == "retention" else 1e-12
                    for what, a, b in zip(["o", "state", *tensors], *results):
                        self.assertLessEqual(error(a, b.detach()), limit, (name, packed, what))
        tensors["k"] = tensors["k"].float()
        with self.assertRaisesRegex(ejk.TensorError, "'q' is float64, .* but 'k' is f32"):
            ejk.split(ejk.ops.delta_rule, **tensors, parts=2)

    def test_segments_without_rows(self):
        for name in FUNCTIONS:
            for packed in (False, True):
                tensors, options = case(name, packed)
                found, wanted = (ejk.split(getattr(ejk.ops, name), **tensors, **options, parts=parts)
                                 for parts in ([0, 7, 0, numpy.int64(33), 0], [7, 33]))
                for a, b in zip(found, wanted):
                    self.assertTrue(torch.equal(a, b), (name, packed))
            tensors, _ = case(name, False, T=0)
            for parts in (1, [], [0, 0]):
                o, state = ejk.split(getattr(ejk.ops, name), **tensors, parts=parts)
                self.assertEqual(o.shape, (2, 0, 2, 4))
                self.assertTrue(torch.equal(state, tensors["initial_state"]), name)

    def test_a_partial_function(self):
        tensors, _ = case("gla", False)
        q = tensors.pop("q")
        partial = functools.partial(ejk.ops.gla, q, scale=0.5)
        for more in ({}, {"scale": 2.0}):  # a keyword of the call is in the place of the partial function's
            for a, b in zip(ejk.split(partial, **tensors, **more, parts=3), partial(**tensors, **more)):
                self.assertLessEqual(error(a, b), LIMIT)

    def test_a_second_backward_says_what_to_do(self):
        tensors, options = case("simple_gla", False)
        own = {n: t.clone().requires_grad_() for n, t in tensors.items()}
        o, _ = ejk.split(ejk.ops.simple_gla, **own, **options, parts=2)
        loss = o.sum()
        loss.backward(retain_graph=True)
        with self.assertRaisesRegex(ejk.EjkError, "call the recurrence again"):
            loss.backward()

    def test_a_change_in_place_before_the_backward_pass_is_noticed(self):
        for name, packed in (("simple_gla", False), ("gated_delta_rule", True)):
            for changed in ("q", "k", "g", "initial_state"):
                tensors, options = case(name, packed)
                own = {n: (t.clone().requires_grad_() * 1.0) for n, t in tensors.items()}
                o, _ = ejk.split(getattr(ejk.ops, name), **own, **options, parts=2)
                own[changed].mul_(2.0)
                with self.subTest(name, changed=changed), \
                        self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                    o.sum().backward()

    def test_parts_side_by_side(self):
        """A device with more units than heads computes a segment in parts."""
        for units, parts in ((16, 2), (8, [20, 8, 12]), (40, [14, 1, 25]), (12, [6, 9, 25])):
            with mock.patch.object(jobs, "_units", lambda device, units=units: units), \
                    mock.patch.object(jobs, "_FEWEST_ROWS", 1):
                for name in FUNCTIONS:
                    with self.subTest(name, units=units):
                        self.check(name, False, parts, 2 * LIMIT)  # sums of sums

    def test_what_is_exchanged_does_not_depend_on_the_length(self):
        self.assertEqual(ejk.parallel.exchanged_bytes(2, 8, 4), 4 * 2 * (8 * 4 + 8))
        self.assertEqual(ejk.parallel.exchanged_bytes(2, 8, 4, delta=True), 4 * 2 * (8 * 4 + 64))
        for name, delta in (("gla", False), ("gated_delta_rule", True)):
            for T in (8, 40):
                tensors, _ = case(name, True, T=T)
                tensors.pop("initial_state")
                if name == "gla":
                    tensors["gk"] = tensors.pop("g")
                segment = ejk.parallel._segments.Segment(0, 2, 0, T, 2 * T, [0, 2 * T])
                job = jobs.Job(segment, tensors, None, {}, delta)
                self.assertEqual(4 * job.summary().numel(),
                                 ejk.parallel.exchanged_bytes(2, 8, 4, delta=delta))


if __name__ == "__main__":
    unittest.main()
