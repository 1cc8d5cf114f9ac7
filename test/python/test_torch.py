"""Recurrences on PyTorch's CPU tensors: values, gradients, and what torch does with operators."""

import copy
import io
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
import warnings

import numpy as np
import reference
import torch

import ejk
from reference import error


@ejk.recurrence
def gated(S, q, k, v, g):
    S = S.decay(g).add(k, v)
    return S, S.read(q)


def tensors(B=2, T=5, H=2, K=4, V=3, seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    q, k = torch.randn(2, B, T, H, K)
    v, g, gk = torch.randn(B, T, H, V), -torch.rand(B, T, H), -torch.rand(B, T, H, K)
    return {n: x.to(dtype) for n, x in dict(q=q, k=k, v=v, g=g, gk=gk).items()}


def eager(q, k, v, g=None, g_gamma=None, gk=None, gv=None, scale=None, initial_state=None,
          cu_seqlens=None, reverse=False):
    """The reference in torch's own ops, in f64, so that torch differentiates it."""
    def double(x):
        return None if x is None else x.double()
    q, k, v, g, g_gamma, gk, gv, h0 = map(double, (q, k, v, g, g_gamma, gk, gv, initial_state))
    B, T, H, K = q.shape
    group = H // k.shape[2]
    k, v = (x.repeat_interleave(group, 2) for x in (k, v))
    spans = reference.sequences(T, cu_seqlens, B)
    outputs, states = [[None] * T for _ in range(B)], []
    for n, (b, first, end) in enumerate(spans):
        S = torch.zeros(H, K, v.shape[3], dtype=torch.float64) if h0 is None else h0[n]
        rows = range(first, end)
        for t in reversed(rows) if reverse else rows:
            decay = torch.zeros(H, 1, 1, dtype=torch.float64)
            if g is not None:
                decay = decay + g[b, t, :, None, None]
            if g_gamma is not None:
                decay = decay + g_gamma[:, None, None]
            if gk is not None:
                decay = decay + gk[b, t, :, :, None]
            if gv is not None:
                decay = decay + gv[b, t, :, None, :]
            S = torch.exp(decay) * S + k[b, t, :, :, None] * v[b, t, :, None, :]
            outputs[b][t] = torch.einsum("hkv,hk->hv", S, q[b, t])
        states.append(S)
    o = torch.stack([torch.stack(rows) for rows in outputs])
    return (K ** -0.5 if scale is None else scale) * o, torch.stack(states)


class Values(unittest.TestCase):
    def test_gradients_of_random_cases(self):
        rng = np.random.default_rng(int(os.environ.get("EJK_TEST_SEED", 0)))
        for number in range(int(os.environ.get("EJK_TEST_CASES", 8))):
            case = {n: torch.from_numpy(x) if isinstance(x, np.ndarray) else x
                    for n, x in reference.random_case(rng).items()}
            floats = [n for n, x in case.items()
                      if isinstance(x, torch.Tensor) and x.is_floating_point()]
            found, wanted = [], []
            for function, results in ((ejk.ops.recurrent, found), (eager, wanted)):
                own = {n: x.clone().requires_grad_() if n in floats else x
                       for n, x in case.items()}
                o, state = function(**own)
                results += [o.detach(), state.detach()]
                torch.manual_seed(number)
                do, dht = torch.randn(o.shape), torch.randn(state.shape)
                ((o * do).sum() + (state * dht).sum()).backward()
                results += [own[n].grad for n in floats]
            for name, a, b in zip(["o", "state", *floats], found, wanted):
                self.assertLess(error(a, b), 5e-5, f"case {number}, {name} of {list(case)}")

    def test_numbers_with_sixteen_bits(self):
        t = tensors(dtype=torch.bfloat16)
        o, state = ejk.ops.gla(t["q"], t["k"], t["v"], t["gk"].float())
        expected, _ = eager(t["q"], t["k"], t["v"], gk=t["gk"].float())
        self.assertEqual((o.dtype, state.dtype), (torch.bfloat16, torch.float32))
        self.assertLess(error(o.double(), expected), 3e-3)

    def test_views_are_taken(self):
        t = tensors()
        q = t["q"].transpose(1, 2).contiguous().transpose(1, 2)
        v = t["v"][:, :1].expand(-1, 5, -1, -1)
        self.assertFalse(q.is_contiguous() or v.is_contiguous())
        torch.testing.assert_close(gated(q, t["k"], v, t["g"]),
                                   gated(q.contiguous(), t["k"], v.contiguous(), t["g"]),
                                   rtol=0, atol=0)

    def test_an_export_is_called_by_another_process(self):
        class Model(torch.nn.Module):
            def forward(self, *a):
                return gated(*a)[0]
        t = tensors()
        arguments = tuple(t[n] for n in ("q", "k", "v", "g"))
        with tempfile.TemporaryDirectory() as folder:
            torch.export.save(torch.export.export(Model(), arguments), folder + "/model.pt2")
            torch.save(arguments, folder + "/arguments.pt")
            done = subprocess.run(
                [sys.executable, "-c", "import sys, torch, ejk\n"
                 "model = torch.export.load(sys.argv[1] + '/model.pt2').module()\n"
                 "torch.save(model(*torch.load(sys.argv[1] + '/arguments.pt')),"
                 " sys.argv[1] + '/o.pt')", folder], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr[-2000:])
            torch.testing.assert_close(torch.load(folder + "/o.pt"), gated(*arguments)[0], rtol=0,
                                       atol=0)

    def test_vmap_over_any_axis(self):
        t = tensors()
        k, v, g = (t[n] for n in ("k", "v", "g"))
        qs = torch.stack([t["q"], 2 * t["q"], t["q"] - 1])
        wanted = torch.stack([gated(q, k, v, g)[0] for q in qs])
        for axis in range(-1, 4):
            found = torch.func.vmap(lambda q: gated(q, k, v, g)[0], in_dims=axis)(qs.movedim(0, axis))
            torch.testing.assert_close(found, wanted)

    def test_transformations_of_torch_func(self):
        t = tensors()
        k, v, g = (t[n] for n in ("k", "v", "g"))
        qs = torch.stack([t["q"], 2 * t["q"], t["q"] - 1])

        def loss(function):
            return lambda q: function(q, k, v, g)[0].square().sum()

        def plain(*a):
            return eager(*a, scale=1)
        own, wanted = (torch.func.vmap(torch.func.grad(loss(f)))(qs) for f in (gated, plain))
        torch.testing.assert_close(own, wanted, rtol=1e-4, atol=1e-4)
        twice = torch.func.grad(lambda q: torch.func.grad(loss(gated))(q).square().sum())(t["q"])
        exact = torch.func.grad(lambda q: torch.func.grad(loss(plain))(q).square().sum())(t["q"])
        torch.testing.assert_close(twice, exact, rtol=1e-3, atol=1e-3)

    def test_derivatives_of_batches(self):
        # Transformations around vmap: of batches that are one longer batch, and of those that are not.
        t = tensors()
        k, v, g = (t[n] for n in ("k", "v", "g"))
        bonus = torch.randn(3, *k.shape[2:])
        grad, vmap = torch.func.grad, torch.func.vmap

        def of_rows(q):
            return gated(q, k, v, g)[0].square().sum()

        def of_parameters(u):
            return ejk.ops.rwkv6(k, k, v, t["gk"], u)[0].square().sum()
        for f, x in ((of_rows, torch.stack([t["q"], 2 * t["q"], t["q"] - 1])), (of_parameters, bonus)):
            def batch(x):
                return vmap(f)(x).sum()

            def alone(x):
                return torch.stack([f(row) for row in x]).sum()
            leaf = x.clone().requires_grad_()
            torch.testing.assert_close(grad(batch)(x), torch.autograd.grad(alone(leaf), leaf)[0])
            torch.testing.assert_close(torch.autograd.grad(batch(leaf), leaf), torch.autograd.grad(alone(leaf), leaf))
            torch.testing.assert_close(vmap(grad(batch))(x[None])[0], grad(alone)(x))
            if f is of_rows:  # a parameter's gradient has no derivative
                twice, exact = (grad(lambda x: grad(loss)(x).square().sum())(x) for loss in (batch, alone))
                torch.testing.assert_close(twice, exact, rtol=1e-4, atol=1e-4)

    def test_amp(self):
        t = tensors()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            q = t["q"] @ torch.eye(4)
            self.assertEqual(q.dtype, torch.bfloat16)
            self.assertEqual(ejk.ops.gla(q, t["k"], t["v"], t["gk"])[0].dtype, torch.bfloat16)

    def test_amp_rounds_rows_and_no_gates(self):
        t = tensors()
        q, k, v = (t[n].bfloat16() for n in ("q", "k", "v"))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = ejk.ops.gla(q, t["k"], t["v"], t["gk"])
        wanted = ejk.ops.gla(q, k, v, t["gk"])
        rounded = ejk.ops.gla(q, k, v, t["gk"].bfloat16())
        self.assertFalse(torch.equal(wanted[1], rounded[1]))
        for a, b in zip(found, wanted):
            self.assertTrue(torch.equal(a, b))

    def test_amp_of_two_types(self):
        # A region's type decides which program runs, so a call inside is not one from outside.
        t = tensors()
        b = t["q"].bfloat16()

        def call():
            return ejk.ops.gla(t["q"], t["k"], t["v"], t["gk"])[0].dtype
        self.assertEqual(call(), torch.float32)
        self.assertEqual(call(), torch.float32)
        for dtype in (torch.bfloat16, torch.float16):
            with torch.autocast("cpu", dtype=dtype):
                for _ in range(2):
                    self.assertEqual(ejk.ops.gla(b, t["k"], t["v"], t["gk"])[0].dtype, dtype)
                    self.assertEqual(call(), torch.float32)
        with self.assertRaisesRegex(ejk.TensorError, "'k' must be bf16, as q is"):
            ejk.ops.gla(b, t["k"], t["v"], t["gk"])


class Derivatives(unittest.TestCase):
    def test_gradcheck_in_f64(self):
        t = tensors(B=1, T=3, dtype=torch.float64)
        inputs = [t[n].requires_grad_() for n in ("q", "k", "v", "gk")]
        self.assertTrue(torch.autograd.gradcheck(lambda *a: ejk.ops.gla(*a), inputs))
        self.assertTrue(torch.autograd.gradgradcheck(lambda *a: ejk.ops.gla(*a)[0], inputs))

    def test_a_second_derivative_of_the_gated_delta_rule(self):
        """It takes many kernels, which share the workspace between them."""
        torch.manual_seed(0)
        q, k, v = torch.randn(3, 1, 70, 2, 16)
        tensors = [q, torch.nn.functional.normalize(k, dim=-1), v, -torch.rand(1, 70, 2),
                   torch.rand(1, 70, 2)]

        def of(*own):
            first = torch.autograd.grad(ejk.ops.gated_delta_rule(*own)[0].square().sum(), own,
                                        create_graph=True)
            return torch.autograd.grad(sum(g.square().sum() for g in first), own)
        for dtype, limit in ((torch.float32, 1e-5), (torch.bfloat16, 3e-2)):
            own = [t.to(dtype).requires_grad_() for t in tensors]
            exact = [t.detach().double().requires_grad_() for t in own]
            for a, b in zip(of(*own), of(*exact)):
                self.assertLess(error(a.double(), b), limit)

    def test_gradcheck_of_named_functions(self):
        t = tensors(B=1, T=3, dtype=torch.float64)
        q, k, v, g, gk = (t[n].requires_grad_() for n in ("q", "k", "v", "g", "gk"))
        beta = torch.rand(1, 3, 2, dtype=torch.float64, requires_grad=True)
        u = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
        A = -torch.rand(2, dtype=torch.float64)
        u_t = torch.nn.functional.normalize(torch.randn(1, 3, 2, 4, dtype=torch.float64), dim=-1)
        D = torch.rand(2, dtype=torch.float64, requires_grad=True)
        for name, arguments in {
                "retention": (q, k, v), "rwkv6": (q, k, v, gk, u), "hgrn2": (q, gk, v),
                "mamba2_ssd": (v, beta, A.requires_grad_(), k, q, D), "mlstm": (q, k, v, g, beta),
                "delta_rule": (q, k, v, beta), "gated_delta_rule": (q, k, v, g, beta),
                "kda": (q, k, v, gk, beta), "rwkv7": (q, gk, k, v, -u_t, u_t * beta[..., None]),
                "recurrent": (q, k, v, g, None, gk), "simple_gla": (q, k, v, g),
                "linear_attn": (q, k, v)}.items():
            function = getattr(ejk.ops, name)
            with self.subTest(name):
                self.assertTrue(torch.autograd.gradcheck(lambda *a: function(*a)[0], arguments))

    def test_gradcheck_of_options(self):
        t = tensors(B=1, T=4, dtype=torch.float64)
        q, k, v, g, gk = (t[n].requires_grad_() for n in ("q", "k", "v", "g", "gk"))
        h0 = torch.randn(2, 2, 4, 3, dtype=torch.float64, requires_grad=True)
        cu = torch.tensor([0, 1, 4])

        def function(q, k, v, g, gk, h0, reverse):
            o, state = ejk.ops.recurrent(q, k, v, g, None, gk, initial_state=h0, cu_seqlens=cu,
                                         reverse=reverse)
            return o, state
        for reverse in (False, True):
            self.assertTrue(torch.autograd.gradcheck(
                lambda *a: function(*a, reverse), (q, k, v, g, gk, h0)))

    def test_a_third_derivative_is_an_error(self):
        t = tensors(B=1, T=2)
        q = t["q"].requires_grad_()
        value = ejk.ops.gla(q, t["k"], t["v"], t["gk"].requires_grad_())[0].pow(2).sum()
        for _ in range(2):
            value, = torch.autograd.grad(value, q, create_graph=True)
            value = value.pow(2).sum()
        with self.assertRaisesRegex(ejk.EjkError, "second derivative"):
            torch.autograd.grad(value, q)

    def test_a_second_derivative_beside_a_parameter(self):
        """Its own gradient, a sum over all steps, has no derivative, and is not asked for."""
        @ejk.recurrence
        def biased(S, q, k, v, g, bias):
            S = S.decay(ejk.log_sigmoid(g + bias)).add(k, v)
            return S, S.read(q)
        t = tensors(T=6)
        own = [t[n].requires_grad_() for n in ("q", "k", "v", "g")]
        bias = torch.randn(t["g"].shape[2], requires_grad=True)

        def penalty(own, bias):
            first = torch.autograd.grad(biased(*own, bias)[0].square().sum(), own[:2],
                                        create_graph=True)
            return torch.autograd.grad(sum(g.square().sum() for g in first), [*own, bias])
        exact = penalty([x.detach().double().requires_grad_() for x in own],
                        bias.detach().double().requires_grad_())
        for found, expected in zip(penalty(own, bias), exact):
            self.assertLess(error(found.double(), expected), 1e-5)
        with self.assertRaisesRegex(ejk.CompileError, "parameter"):
            first, = torch.autograd.grad(biased(*own, bias)[0].square().sum(), bias,
                                         create_graph=True)
            torch.autograd.grad(first.sum(), own)

    def test_only_what_is_asked_for(self):
        t = tensors()
        v = t["v"].requires_grad_()
        o, _ = gated(t["q"], t["k"], v, t["g"])
        o.sum().backward()
        self.assertIsNone(t["q"].grad)
        self.assertEqual(v.grad.shape, v.shape)


class Operators(unittest.TestCase):
    def test_opcheck(self):
        t = tensors()
        arguments = [t[n].requires_grad_() for n in ("q", "k", "v", "g")]
        key = gated.program(*arguments).key
        torch.library.opcheck(torch.ops.ejk.call.default, (key, "0", arguments))

    def test_compile_with_a_parameter_of_a_module(self):
        @ejk.recurrence
        def biased(S, q, k, v, g, bias):
            S = S.decay(ejk.log_sigmoid(g + bias)).add(k, v)
            return S, S.read(q)

        class Layer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.bias = torch.nn.Parameter(torch.randn(2))

            def forward(self, q, k, v, g):
                return biased(q, k, v, g, self.bias)[0]
        torch._dynamo.reset()
        t, layer = tensors(), Layer()
        arguments = [t[n] for n in ("q", "k", "v", "g")]
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        found, expected = (torch.autograd.grad(f(*arguments).square().sum(), layer.bias)[0]
                           for f in (compiled, layer))
        self.assertTrue(torch.equal(found, expected))

    def test_compile(self):
        def layer(q, k, v, g, gk):
            o, _ = gated(q * 2, k, v, g)
            return o + ejk.ops.gla(q, k, v, gk)[0]
        t = tensors()
        names = ("q", "k", "v", "g", "gk")
        for dynamic in (None, True):
            torch._dynamo.reset()
            compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=dynamic)
            for T in (5, 3, 4):
                found, wanted = [], []
                for function, results in ((compiled, found), (layer, wanted)):
                    own = [t[n][:, :T].clone().requires_grad_() for n in names]
                    o = function(*own)
                    o.square().sum().backward()
                    results += [o.detach(), *(x.grad for x in own)]
                torch.testing.assert_close(found, wanted)

    def test_export(self):
        class Model(torch.nn.Module):
            def forward(self, q, k, v, g):
                return gated(q, k, v, g)[0]
        t = tensors()
        arguments = tuple(t[n] for n in ("q", "k", "v", "g"))
        T = torch.export.Dim("T", min=2, max=1000)
        exported = torch.export.export(Model(), arguments, dynamic_shapes=({1: T},) * 4)
        file = io.BytesIO()
        torch.export.save(exported, file)
        file.seek(0)
        module = torch.export.load(file).module()
        short = tuple(x[:, :3] for x in arguments)
        torch.testing.assert_close(module(*short), gated(*short)[0])

    @unittest.skipUnless(hasattr(torch.jit, "trace"), "this torch has no torch.jit.trace")
    def test_a_trace_is_called_by_another_process(self):
        # What it records means the same there, however often this process has called it before.
        t = tensors()
        arguments = tuple(t[n] for n in ("q", "k", "v", "g"))
        for _ in range(2):
            gated(*arguments)
        with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
            warnings.simplefilter("ignore")  # that torch.jit is old
            torch.jit.trace(lambda *x: gated(*x)[0], arguments).save(folder + "/trace.pt")
            torch.save((arguments, gated(*arguments)[0]), folder + "/wanted.pt")
            code = f"""if True:
                import torch, ejk
                arguments, wanted = torch.load({folder + "/wanted.pt"!r})
                other = ejk.recurrence(lambda S, q, k, v, g: (S.decay(g).add(k, v), S.read(q) * 100))
                for _ in range(2):
                    other(*arguments)
                torch.testing.assert_close(torch.jit.load({folder + "/trace.pt"!r})(*arguments), wanted)"""
            done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_vmap(self):
        t = tensors()
        q = torch.randn(3, *t["q"].shape)
        found = torch.vmap(lambda q: ejk.ops.gla(q, t["k"], t["v"], t["gk"])[0])(q)
        wanted = torch.stack([ejk.ops.gla(x, t["k"], t["v"], t["gk"])[0] for x in q])
        torch.testing.assert_close(found, wanted)
        g_gamma = -torch.rand(3, 2)
        found = torch.vmap(
            lambda g: ejk.ops.simple_gla(t["q"], t["k"], t["v"], g_gamma=g)[0])(g_gamma)
        wanted = torch.stack([ejk.ops.simple_gla(t["q"], t["k"], t["v"], g_gamma=x)[0]
                              for x in g_gamma])
        torch.testing.assert_close(found, wanted)

    def test_vmap_of_none(self):
        t = tensors()
        rows = torch.zeros(0, *t["q"].shape)
        gradient = torch.func.grad(lambda q: gated(q, t["k"], t["v"], t["g"])[0].sum())
        self.assertEqual(torch.vmap(gradient)(rows).shape, rows.shape)
        found = torch.vmap(lambda q: gated(q, t["k"], t["v"], t["g"])[0])(rows)
        self.assertEqual(found.shape, (0, *t["v"].shape))
        decays = torch.zeros(0, 2)  # of a parameter, no entries of the batch
        o, state = torch.vmap(lambda g: ejk.ops.simple_gla(t["q"], t["k"], t["v"], g_gamma=g))(decays)
        wanted = ejk.ops.simple_gla(t["q"], t["k"], t["v"], g_gamma=torch.zeros(2))
        self.assertEqual([o.shape[1:], state.shape[1:]], [x.shape for x in wanted])

    def test_modules_are_pickled_and_copied(self):
        class Layer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.recurrence = gated
        self.assertIs(copy.deepcopy(Layer()).recurrence, gated)
        self.assertIs(pickle.loads(pickle.dumps(gated)), gated)

    def test_threads(self):
        t = tensors(seed=2)
        arguments = [t[n] for n in ("q", "k", "v", "g")]
        expected, results = [gated(*arguments)[0]], []

        def gradients():
            own = [x.clone().requires_grad_() for x in arguments]
            gated(*own)[0].sum().backward()
            return [x.grad for x in own]
        expected += gradients()

        def work():
            results.append([gated(*arguments)[0], *gradients()])
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(results), 3)
        for found in results:
            self.assertTrue(all(map(torch.equal, found, expected)))


class Libraries(unittest.TestCase):
    def test_functions_of_torch_in_a_step(self):
        @ejk.recurrence
        def own(S, q, k, v, g):
            S = S.decay(torch.nn.functional.logsigmoid(g) - torch.exp(g)).add(k, torch.tanh(v))
            return S, S.read(q)

        @ejk.recurrence
        def wrong(S, q, k, v, g):
            return S.add(k, v), torch.outer(k, v)
        t = tensors()
        q, k, v, g = (t[n] for n in ("q", "k", "v", "g"))
        gate = torch.nn.functional.logsigmoid(g) - torch.exp(g)
        self.assertLess(error(own(q, k, v, g)[0].double(),
                              eager(q, k, torch.tanh(v), g=gate, scale=1)[0]), 1e-5)
        with self.assertRaisesRegex(ejk.TraceError, "test_torch.py.*torch's outer"):
            wrong(q, k, v, g)

    def test_numpy_arrays_go_with_tensors(self):
        t = tensors(B=1)
        q, k, v, g = (t[n] for n in ("q", "k", "v", "g"))
        expected = gated(q, k, v, g, cu_seqlens=torch.tensor([0, 2, 5]))
        for found in (gated(q, k, v, g, cu_seqlens=np.array([0, 2, 5])),
                      gated(q.numpy(), k, v, g, cu_seqlens=torch.tensor([0, 2, 5]))):
            torch.testing.assert_close(found, expected)


if __name__ == "__main__":
    unittest.main()
