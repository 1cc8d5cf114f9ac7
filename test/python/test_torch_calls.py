"""Calls from PyTorch after the first one, and wrong tensors."""

import contextlib
import gc
import os
import unittest
import warnings
from unittest import mock

import numpy as np
import reference
import torch
from reference import error
from test_torch import eager, gated, tensors

import ejk
from ejk import _torch
from ejk._library import compiler
from ejk._program import Entry


class QuickCalls(unittest.TestCase):
    """A place that has been called before looks at no tensor in Python."""

    def test_types_and_channels_that_take_turns(self):
        cases = [tensors(seed=1), tensors(K=6, V=5, seed=2), tensors(dtype=torch.bfloat16, seed=3),
                 tensors(dtype=torch.float64, seed=4), tensors(B=1, T=9, H=3, seed=5)]
        for case in cases * 3:
            for needs in (False, True):
                own = [case[n].clone().requires_grad_(needs) for n in ("q", "k", "v", "g")]
                o, state = gated(*own)
                expected, last = eager(*own, scale=1)
                limit = {torch.bfloat16: 4e-3, torch.float64: 1e-12}.get(case["q"].dtype, 1e-5)
                self.assertEqual(o.dtype, case["q"].dtype)
                self.assertLess(error(o.detach().double(), expected.detach()), limit)
                self.assertEqual(o.requires_grad, needs)
                if needs:
                    found = torch.autograd.grad(o.double().sum() + state.sum(), own)
                    wanted = torch.autograd.grad(expected.sum() + last.sum(), own)
                    for a, b in zip(found, wanted):
                        self.assertLess(error(a.double(), b.double()), 2 * limit)

    def test_saving_of_states_is_a_choice(self):
        # Whether a GPU's forward saves states is asked for where it may, by first calls and later
        # ones, and never with save_states=False.
        def step(S, q, k, v, g):
            S = S.decay(g).add(k, v)
            return S, S.read(q)
        own = ejk.recurrence(step)
        t = tensors(seed=6)
        inputs = [t[n].requires_grad_() for n in ("q", "k", "v", "g")]
        for call in (own, lambda *a, **more: ejk.ops.simple_gla(*a, scale=0.3, **more)):
            results = []
            for choice in (False, True, False, True):
                with unittest.mock.patch.object(_torch, "_forward_name", return_value="0") as asked:
                    o, _ = call(*inputs, save_states=choice)
                self.assertEqual(asked.called, choice and len(results) == 1)
                results.append([o, *torch.autograd.grad(o.sum(), inputs)])
            for other in results[1:]:
                for a, b in zip(results[0], other):
                    torch.testing.assert_close(a, b, rtol=0, atol=0)

    def test_the_gradient_of_a_state_is_computed_alone_where_it_is_asked_for_alone(self):
        # Segments of a sequence ask for it; all gradients took them twice the time.
        t = tensors(B=1, T=9, H=2, seed=7)
        inputs = [t[n].requires_grad_() for n in ("q", "k", "v", "g")]
        leaf = torch.randn(1, 2, 4, 3, generator=torch.Generator().manual_seed(1), requires_grad=True)
        apply, asked = _torch._apply, []

        def recorded(program, entry, tensors):
            asked.append(entry)
            return apply(program, entry, tensors)
        for state in (leaf, leaf * 1):
            for _ in range(2):  # a place's first call, and a later one
                o, last = ejk.ops.simple_gla(*inputs, scale=1, initial_state=state)
                results, cotangents = (o, last), (torch.ones_like(o), torch.full_like(last, 0.5))

                def gradients(of, **named):
                    asked.clear()
                    with unittest.mock.patch.object(_torch, "_apply", recorded):
                        return torch.autograd.grad(results, of, cotangents, retain_graph=True, **named)
                alone, = gradients([state])
                self.assertEqual(asked, ["1:initial_state"])
                *others, whole = gradients([*inputs, state])
                self.assertEqual(asked, ["1:q,k,v,g,initial_state"])
                torch.testing.assert_close(alone, whole)
                # Other subsets, and derivatives that are recorded, come with all.
                query, = gradients([inputs[0]])
                self.assertEqual(asked, ["1:q,k,v,g,initial_state"])
                torch.testing.assert_close(query, others[0], rtol=0, atol=0)
                recorded_one, = gradients([state], create_graph=True)
                self.assertEqual(asked, ["1:q,k,v,g,initial_state"])
                torch.testing.assert_close(recorded_one, whole)
        for x in (*inputs, leaf):
            x.grad = None
        torch.autograd.backward(results, cotangents)
        torch.testing.assert_close(leaf.grad, whole)

    def test_gates_of_two_ranks_that_take_turns(self):
        t, first = tensors(), {}
        for _ in range(3):
            for name in ("g", "gk"):
                own = [t[n].clone().requires_grad_() for n in ("q", "k", "v", name)]
                o, state = gated(*own)
                found = torch.autograd.grad(o.sum() + state.sum(), own)
                for a, b in zip(found, first.setdefault(name, found)):
                    torch.testing.assert_close(a, b, rtol=0, atol=0)

    def test_numbers_around_a_step_that_change(self):
        around = None

        @ejk.recurrence
        def f(S, q, k, v):
            S = (S if around is None else S.decay(around)).add(k, v)
            return S, S.read(q)
        t = tensors(B=1, T=2)
        q, k, v = (t[n] for n in ("q", "k", "v"))
        slots = torch.tensor([0])
        for around in (-0.5, np.float64(-1.0), np.float64(-2.0), None, -0.5):
            wanted = gated(q, k, v, torch.full(q.shape[:3], around or 0.0))[0]
            for options in (dict(), dict(save_states=False), dict(pool=torch.zeros(1, 2, 4, 3), write_slots=slots)):
                for _ in range(2):
                    torch.testing.assert_close(f(q, k, v, **options)[0], wanted)

    def test_shared_states_and_own_ones_take_turns(self):
        t = tensors()
        q, k, v = t["q"], t["k"][:, :, :1], t["v"][:, :, :1]
        for _ in range(2):
            for shared, heads in ((False, 2), (True, 1)):
                state = ejk.ops.linear_attn(q, k, v, shared_state=shared)[1]
                self.assertEqual(state.shape, (2, heads, 4, 3))

    def test_a_state_goes_in_and_out(self):
        t = tensors(T=6)
        whole, last = gated(*(t[n] for n in ("q", "k", "v", "g")))
        state, parts = None, []
        for i in range(6):
            o, state = gated(*(t[n][:, i:i + 1] for n in ("q", "k", "v", "g")), initial_state=state)
            parts.append(o)
        torch.testing.assert_close(torch.cat(parts, 1), whole)
        torch.testing.assert_close(state, last)

    def test_addresses_that_no_kernel_reads(self):
        t = tensors()
        arguments = [t[n] for n in ("q", "k", "v", "g")]
        for _ in range(2):
            shifted = torch.empty(t["q"].numel() + 1)[1:].view(t["q"].shape).copy_(t["q"])
            self.assertNotEqual(shifted.data_ptr() % 16, 0)
            torch.testing.assert_close(gated(shifted, *arguments[1:]), gated(*arguments), rtol=0,
                                       atol=0)

    def test_errors_are_those_of_a_first_call(self):
        t = tensors()
        q, k, v, g = (t[n] for n in ("q", "k", "v", "g"))
        gated(q, k, v, g)
        for wrong, message in (((q, k[:, :2], v, g), "'k'.*T = 5"),
                               ((q.double(), k, v, g), "float64"),
                               ((q, k, v, g.to("meta")), "one device"), ((q, k, v, "g"), "")):
            with self.assertRaisesRegex((ejk.EjkError, TypeError), message):
                gated(*wrong)

    def test_an_interrupt_goes_up(self):
        """Ctrl-C while a program runs in the interpreter ends the call, which is not tried in another way."""
        from torch.utils.flop_counter import FlopCounterMode
        step = ejk.recurrence(lambda S, q, k, v: ((S := S.add(k, v)), S.read(q) * 0.171875))
        x, pool, slots = torch.ones(1, 3, 1, 4), torch.zeros(2, 1, 4, 4), torch.tensor([1])
        calls = {"call": lambda: step(x, x, x), "pool": lambda: step(x, x, x, pool=pool, read_slots=slots,
                                                                     write_slots=slots),
                 "gradient": lambda: step(x.clone().requires_grad_(), x, x),
                 "number": lambda: ejk.ops.linear_attn(x, x, x, scale=0.171875)}
        forms = {"": contextlib.nullcontext, "watched": lambda: FlopCounterMode(display=False)}
        with mock.patch.object(compiler(), "native", ""), warnings.catch_warnings():  # a CPU without kernels
            warnings.simplefilter("ignore")
            for name, call in calls.items():
                for form, around in forms.items():
                    with self.subTest(name, form=form), around():
                        call()
                        for error in (KeyboardInterrupt, MemoryError):
                            for _ in range(2):
                                with mock.patch.object(Entry, "run", side_effect=error) as run:
                                    with self.assertRaises(error):
                                        call()
                                self.assertEqual(run.call_count, 1)
                        call()

    def test_numbers_among_the_tensors(self):
        t = tensors()
        arguments = [t[n] for n in ("q", "k", "v", "g")]
        beta = torch.rand(2, 5, 2)
        for _ in range(2):
            for scale in (0.5, 2.0):
                o, _ = ejk.ops.gated_delta_rule(*arguments, beta, scale=scale)
                expected = reference.recurrent(*arguments[:3], g=t["g"], beta=beta, scale=scale)[0]
                self.assertLess(error(o, expected), 1e-5)

    def test_a_forked_process(self):
        t = tensors()
        arguments = [t[n].requires_grad_() for n in ("q", "k", "v", "g")]
        expected = gated(*arguments)[0].detach()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                found = gated(*arguments)[0].detach()
                with torch.no_grad():
                    new = gated(*(x[..., :2] if x.dim() == 4 else x for x in arguments))[0]
                status = not (torch.equal(found, expected) and new.shape[-1] == 2)
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_no_memory_is_kept(self):
        t = tensors()
        q = t["q"].requires_grad_()
        def step():
            gated(q, t["k"], t["v"], t["g"])[0].sum().backward()
            return len([x for x in gc.get_objects() if issubclass(type(x), torch.Tensor)])
        before = [step() for _ in range(3)][-1]
        self.assertEqual([step() for _ in range(5)][-1], before)


class BatchesOfAutograd(unittest.TestCase):
    """torch.autograd's own batches of cotangents, which are older than torch.vmap's."""

    def setUp(self):
        t = tensors(dtype=torch.float64)
        self.rows = [t[n] for n in ("q", "k", "v")]
        self.rate = torch.tensor([0.5, 0.2], dtype=torch.float64)

    def function(self, q, k, v, rate):
        return ejk.ops.simple_gla(q, k, v, g_gamma=-rate)[0]

    def test_batches_of_cotangents(self):
        needed = [x.requires_grad_() for x in (*self.rows, self.rate)]
        o = self.function(*needed)
        cotangents = torch.randn(4, *o.shape, dtype=o.dtype)
        found = torch.autograd.grad(o, needed, cotangents, retain_graph=True, is_grads_batched=True)
        each = [torch.autograd.grad(o, needed, c, retain_graph=True) for c in cotangents]
        torch.testing.assert_close(found, tuple(torch.stack(parts) for parts in zip(*each)))

    def test_derivatives_of_batches(self):
        def loss(q):
            return self.function(q, *self.rows[1:], self.rate).square().sum()
        functional = torch.autograd.functional
        torch.testing.assert_close(functional.hessian(loss, self.rows[0], vectorize=True),
                                   functional.hessian(loss, self.rows[0]))

        # The gradient of the parameter is no longer batch, and the cotangents of the inner derivative are batches.
        def gradient(v):
            q = self.rows[0].clone().requires_grad_()
            o = self.function(q, self.rows[1], v, self.rate)
            cotangents = torch.stack([o, 2 * o]).detach()
            return torch.autograd.grad(o, q, cotangents, is_grads_batched=True, create_graph=True)[0]
        torch.testing.assert_close(functional.jacobian(gradient, self.rows[2], vectorize=True),
                                   functional.jacobian(gradient, self.rows[2]))

    def test_gradcheck(self):
        needed = [x.requires_grad_() for x in (*self.rows, self.rate)]
        self.assertTrue(torch.autograd.gradcheck(self.function, needed, check_batched_grad=True, fast_mode=True))
        self.assertTrue(torch.autograd.gradgradcheck(lambda *rows: self.function(*rows, self.rate.detach()), needed[:3],
                                                     check_batched_grad=True, fast_mode=True))

    def test_a_batch_of_batches(self):
        from torch._vmap_internals import _vmap
        qs, ks = (torch.randn(n, *x.shape, dtype=x.dtype) for n, x in zip((2, 3), self.rows))
        found = _vmap(lambda k: _vmap(lambda q: self.function(q, k, self.rows[2], self.rate))(qs))(ks)
        wanted = [torch.stack([self.function(q, k, self.rows[2], self.rate) for q in qs]) for k in ks]
        torch.testing.assert_close(found, torch.stack(wanted))


class Errors(unittest.TestCase):
    def test_wrong_tensors(self):
        t = tensors()
        with self.assertRaisesRegex(ejk.TensorError, "'k'.*T = 5"):
            gated(t["q"], t["k"][:, :2], t["v"], t["g"])
        with self.assertRaisesRegex(ejk.TensorError, "float64"):
            gated(t["q"].double(), t["k"], t["v"], t["g"])
        with self.assertRaisesRegex(ejk.TensorError,
                                    "'v' has 3 heads, which must divide the 2 of 'q'"):
            gated(t["q"], t["k"], t["v"][:, :, :1].expand(2, 5, 3, 3), t["g"])
        with self.assertRaisesRegex(ejk.TensorError, "the last entry is 9, expected at most T = 5"):
            gated(*(t[n][:1] for n in ("q", "k", "v", "g")), cu_seqlens=torch.tensor([0, 9]))
        with self.assertRaisesRegex(ejk.TensorError, "torch.int8"):
            gated(t["q"].to(torch.int8), t["k"], t["v"], t["g"])

    def test_each_error_is_of_its_own_call(self):
        # Errors of Python below PyTorch's operators, and wrong tensors, in turn; a right call between them says none.
        q, k, v = (tensors()[n] for n in ("q", "k", "v"))
        wrong = [(dict(EJK_CACHE_SIZE="much"), (q, k, v), "EJK_CACHE_SIZE must be .*'much'"),
                 ({}, (q, k[:, :2], v), "'k'.*T = 5"),
                 (dict(EJK_CACHE_SIZE="more"), (q[..., :2], k[..., :2], v), "EJK_CACHE_SIZE must be .*'more'"),
                 ({}, (q, k, v[:1]), "'v'.*B = 2"), ({}, (q.double(), k, v), "float64")]
        for between in (False, True):
            @ejk.recurrence
            def step(S, q, k, v):
                S = S.decay(0.25 * between).add(k, v)
                return S, S.read(q)
            for environment, arguments, message in wrong:
                with unittest.mock.patch.dict(os.environ, environment):
                    with self.subTest(message, between=between), self.assertRaisesRegex(ejk.EjkError, message):
                        step(*arguments)
                if between:
                    torch.testing.assert_close(step(q, k, v)[0], gated(q, k, v, torch.full((2, 5, 2), 0.25))[0])

    def test_symbolic_trace(self):
        with self.assertRaisesRegex(ejk.TensorError, "torch.export.export"):
            torch.fx.symbolic_trace(lambda q, k, v, g: gated(q, k, v, g))


if __name__ == "__main__":
    unittest.main()
