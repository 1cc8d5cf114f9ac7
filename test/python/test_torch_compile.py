"""Every function of ejk.ops and ejk.compat.fla under torch.compile, on its first call, and on
tensors without memory."""

import functools
import inspect
import unittest
import warnings

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import ejk
import ejk.compat.fla as fla

H, K, V = 2, 8, 4


def operands():
    torch.manual_seed(0)

    def normal(*shape):
        return torch.randn(1, 8, *shape)
    t = dict(q=normal(H, K), k=torch.nn.functional.normalize(normal(H, K), dim=-1), v=normal(H, V),
             g=-torch.rand(1, 8, H), gk=-torch.rand(1, 8, H, K), beta=torch.rand(1, 8, H),
             u=torch.randn(H, K), A=-torch.rand(H), s=normal(H, 4), gv=-torch.rand(1, 8, H, V),
             gs=-torch.rand(1, 8, H, 4), w=torch.randn(H * (2 * K + V), 4) / 2, n=torch.rand(V),
             wm=torch.randn(H * V + 2 * K, 4) / 2, nm=torch.rand(H * V),
             vm=torch.randn(H, V), h0=torch.randn(1, H, K, V), cu=torch.tensor([0, 3, 8]))
    t.update(a=-t["k"], b=t["k"] * t["beta"][..., None], i=t["v"])
    return t


OPS = {
    "recurrent": lambda f, t: f(t["q"], t["k"], t["v"], t["g"], None, t["gk"]),
    "gla": lambda f, t: f(t["q"], t["k"], t["v"], t["gk"], cu_seqlens=t["cu"]),
    "simple_gla": lambda f, t: f(t["q"], t["k"], t["v"], t["g"], reverse=True),
    "lightning_attn": lambda f, t: f(t["q"], t["k"], t["v"], 0, 2),
    "retention": lambda f, t: f(t["q"], t["k"], t["v"], reverse=True),
    "linear_attn": lambda f, t: f(t["q"], t["k"], t["v"], initial_state=t["h0"]),
    "mamba2_ssd": lambda f, t: f(t["v"], t["beta"], t["A"], t["k"][:, :, :1], t["q"][:, :, :1],
                                 t["A"], dt_softplus=True),
    "rwkv6": lambda f, t: f(t["q"], t["k"], t["v"], t["gk"], t["u"]),
    "hgrn2": lambda f, t: f(t["q"], t["gk"], t["v"], initial_state=t["h0"]),
    "mlstm": lambda f, t: f(t["q"], t["k"], t["v"], t["g"], t["beta"]),
    "delta_rule": lambda f, t: f(t["q"], t["k"], t["v"], t["beta"], shared_state=True),
    "gated_delta_rule": lambda f, t: f(t["q"], t["k"], t["v"], t["g"], t["beta"], reverse=True),
    "kda": lambda f, t: f(t["q"], t["k"], t["v"], t["gk"], t["beta"]),
    "rwkv7": lambda f, t: f(t["q"], t["gk"], t["k"], t["v"], t["a"], t["b"]),
    "gated_delta_product": lambda f, t: f(t["q"], *(torch.stack((t[n], t[n]), 2) for n in ("k", "v", "beta")),
                                          t["g"], cu_seqlens=t["cu"]),
    "gdn2": lambda f, t: f(t["q"], t["k"], t["v"], t["gk"], t["gk"].exp(), t["gv"].exp()),
    "comba": lambda f, t: f(t["q"], t["k"], t["v"], t["k"] / 2, t["g"], t["beta"], reverse=True),
    "oja": lambda f, t: f(t["q"], t["k"], t["v"], t["beta"], t["gv"]),
    "mamba3": lambda f, t: f(t["v"], t["beta"], t["A"], t["beta"], t["k"], t["q"], cu_seqlens=t["cu"],
                             previous=(t["k"][0, :2], t["v"][0, :2])),
    "mamba3_mimo": lambda f, t: f(t["v"], t["beta"], t["A"], t["beta"], *(torch.stack((t[n], t["u"].expand_as(t[n])), 2)
                                                                         for n in "kq"),
                                  torch.stack((t["vm"], t["vm"]), 1), t["A"], cu_seqlens=t["cu"]),
    "gated_slot_attention": lambda f, t: f(t["q"], t["k"], t["v"], t["s"], t["gs"]),
    "gated_delta_net": lambda f, t: f(t["q"], t["k"], t["v"], t["v"], t["g"], t["beta"], t["w"], t["A"], t["A"], t["n"]),
    "mamba2_block": lambda f, t: f(t["v"], t["k"][:, :, :1], t["q"][:, :, :1], t["i"], t["beta"], t["wm"], t["A"], t["A"],
                                   t["A"], t["nm"]),
    "rwkv7_block": lambda f, t: f(t["q"], t["gk"], t["k"], t["v"], t["k"], t["i"], t["u"], t["u"], t["u"], t["nm"],
                                  t["nm"]),
    "rwkv7_shift": lambda f, t: f(t["q"].flatten(2), *[t["u"]] * 6),
    "kda_block": lambda f, t: f(t["q"], t["k"], t["v"], t["gk"], t["beta"], t["v"], t["w"], t["A"], t["u"], t["n"]),
}
FLA = {
    "chunk_delta_rule": lambda f, t: f(t["q"], t["k"], t["v"], t["beta"]),
    "chunk_gated_delta_rule": lambda f, t: f(t["q"], t["k"], t["v"], t["g"], t["beta"],
                                             use_qk_l2norm_in_kernel=True),
    "chunk_kda": lambda f, t: f(t["q"], t["k"], t["v"], t["gk"], t["beta"]),
    "chunk_rwkv7": lambda f, t: f(t["q"], t["gk"], t["k"], t["v"], t["a"], t["b"]),
    "fused_mul_recurrent_rwkv7": lambda f, t: f(t["q"], t["gk"], t["k"], t["v"], t["k"], t["b"]),
    "chunk_gla": lambda f, t: f(t["q"], t["k"], t["v"], t["gk"]),
    "chunk_simple_gla": lambda f, t: f(t["q"], t["k"], t["v"], t["g"]),
    "chunk_lightning_attn": lambda f, t: f(t["q"], t["k"], t["v"], 0, 2),
    "chunk_retention": lambda f, t: f(t["q"], t["k"], t["v"], output_final_state=True),
    "chunk_linear_attn": lambda f, t: f(t["q"], t["k"], t["v"], normalize=True),
    "chunk_hgrn2": lambda f, t: f(t["q"], t["gk"], t["v"]),
    "chunk_rwkv6": lambda f, t: f(t["q"], t["k"], t["v"], t["gk"], t["u"]),
    "chunk_gsa": lambda f, t: f(t["q"], t["k"], t["v"], t["s"], -t["s"].square()),
    "chunk_gated_delta_product": lambda f, t: f(
        t["q"], *(t[n].repeat(1, 2, 1, 1) for n in ("k", "v")), t["g"],
        t["beta"].repeat(1, 2, 1), 2),
}


def first(results):
    return results[0] if isinstance(results, (tuple, list)) else results


class FirstCalls(unittest.TestCase):
    """No test before has called these: what a call makes of a recurrence is made in the graph."""

    def check(self, module, calls):
        def all_of_them(t):
            return [first(call(getattr(module, name), t)) for name, call in calls.items()]
        torch._dynamo.reset()
        compiled = torch.compile(all_of_them, fullgraph=True, backend="aot_eager")
        found, wanted = [], []
        for f, results in ((compiled, found), (all_of_them, wanted)):
            t = {n: x.requires_grad_(x.is_floating_point()) for n, x in operands().items()}
            o = f(t)
            sum(x.square().sum() for x in o).backward()
            results += [*(x.detach() for x in o),
                        *(x.grad for x in t.values() if x.grad is not None)]
        torch.testing.assert_close(found, wanted)

    def test_ops(self):
        self.assertEqual(set(OPS), set(ejk.ops.__all__))
        self.check(ejk.ops, OPS)

    def test_fla(self):
        self.check(fla, FLA)


class InSegments(unittest.TestCase):
    """`ejk.split` in a compiled function, whose graph is around it."""

    def test_gradients(self):
        torch._dynamo.reset()
        for name, operand_names in (("gla", "q k v gk"), ("gated_delta_rule", "q k v g beta")):
            for parts in (3, [5, 3]):
                def scaled(*tensors):
                    o, state = ejk.split(getattr(ejk.ops, name), *tensors, parts=parts)
                    return (2 * o).sin().sum() + state.sum()
                results = []
                for function in (scaled, torch.compile(scaled, backend="aot_eager")):
                    tensors = [operands()[n].requires_grad_() for n in operand_names.split()]
                    results.append([function(*tensors).detach(), *torch.autograd.grad(function(*tensors), tensors)])
                with self.subTest(name, parts=parts):
                    torch.testing.assert_close(*results, rtol=0, atol=0)


class Autocast(unittest.TestCase):
    """Rows that differ in type get the region's, and nothing else does."""

    ROWS = {"mamba2_ssd": "xBC", "mamba2_block": "xBC", "mamba3": "xBC", "mamba3_mimo": "xBC", "rwkv6": "rkv",
            "rwkv7": "rkv", "rwkv7_block": "rkv", "rwkv7_shift": "x", "hgrn2": "qi"}

    def rounding(self, name, which):
        """The function, with the rows `which` of a call in bfloat16."""
        function = getattr(ejk.ops, name)
        names = list(inspect.signature(function).parameters)

        def call(*arguments, **named):
            return function(*[x.bfloat16() if n in which else x for n, x in zip(names, arguments)], **named)
        return call

    def test_ops(self):
        t = {n: x.requires_grad_(x.is_floating_point()) for n, x in operands().items()}
        for name, call in OPS.items():
            rows = self.ROWS.get(name, "qkv")
            wanted = call(self.rounding(name, rows), t)
            for one in rows:
                with self.subTest(name, row=one), torch.autocast("cpu", torch.bfloat16):
                    found = call(self.rounding(name, one), t)
                    self.assertEqual(first(found).dtype, first(wanted).dtype)
                    for a, b in zip(*map(torch.utils._pytree.tree_leaves, (found, wanted))):
                        self.assertTrue(torch.equal(a, b))
                    first(found).sum().backward()

    def test_compiled(self):
        def all_of_them(t):
            with torch.autocast("cpu", torch.bfloat16):
                return [first(call(self.rounding(name, self.ROWS.get(name, "qkv")[0]), t))
                        for name, call in OPS.items()]
        torch._dynamo.reset()
        found = torch.compile(all_of_them, fullgraph=True, backend="aot_eager")(operands())
        torch.testing.assert_close(found, all_of_them(operands()))

    def test_rows_of_one_type(self):
        t = operands()
        for name, call in OPS.items():
            wanted = call(getattr(ejk.ops, name), t)
            with self.subTest(name), torch.autocast("cpu", torch.bfloat16):
                found = call(getattr(ejk.ops, name), t)
                for a, b in zip(*map(torch.utils._pytree.tree_leaves, (found, wanted))):
                    self.assertTrue(torch.equal(a, b))

    def test_other_places_of_rows(self):
        t = operands()
        q, k, v, beta = t["q"].bfloat16(), t["k"], t["v"], t["beta"]
        wanted = ejk.ops.delta_rule(q, k.bfloat16(), v.bfloat16(), beta)
        product = [x[:, :, None] for x in (k, v, beta)]
        rows = [torch.randn(1, 3, H, n) for n in (K, K, V)]
        block = [t["v"], t["g"], beta, t["w"], t["A"], t["A"], t["n"]]
        after = ejk.ops.gated_delta_net(*(x.bfloat16() for x in (q, k, v)), *block,
                                        conv_state=[x.bfloat16() for x in rows])
        with torch.autocast("cpu", torch.bfloat16):
            for found in (ejk.ops.delta_rule(beta=beta, v=v, k=k, q=q), ejk.ops.delta_rule(q, k.numpy(), v, beta),
                          ejk.ops.gated_delta_product(q, *product), ejk.ops.gated_delta_product(q, [k], (v,), [beta]),
                          ejk.ops.delta_rule(q, k, v, beta)):
                self.assertTrue(torch.equal(found[0], wanted[0]))
            found = ejk.ops.gated_delta_net(q, k, v, *block, conv_state=rows)
            self.assertTrue(torch.equal(found[0], after[0]))
            with torch.autocast("cpu", enabled=False):
                self.assertEqual(ejk.ops.gdn2(k, q, v, t["gk"], t["gk"].exp(), t["gv"].exp())[0].dtype, torch.float32)
            with self.assertRaisesRegex(TypeError, "takes .* positional arguments"):
                ejk.ops.delta_rule(*[q] * 9)
        with self.assertRaisesRegex(ejk.TensorError, "^delta_rule: .* 'q' has 8 channels, 'k' has 4"):
            ejk.ops.delta_rule(q, v, v, beta)


class ChangingNumbers(unittest.TestCase):
    """torch.compile makes a symbol of a number that is another one in the second call."""

    def check(self, call, numbers):
        torch._dynamo.reset()
        compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that each number compiles
            for number in numbers:
                torch.testing.assert_close(compiled(number), call(number))

    def test_a_constant_of_a_step(self):
        t = operands()

        @ejk.recurrence
        def scaled(S, q, k, v, factor):
            S = S.add(k, v)
            return S, S.read(q) * factor
        self.check(lambda n: scaled(t["q"], t["k"], t["v"], n)[0], (1, 2, 3, 1.5, 2.5, 3.5, True))

    def test_a_scale(self):
        t = operands()
        for name in ("gla", "simple_gla", "delta_rule", "retention"):
            def call(scale):
                return OPS[name](functools.partial(getattr(ejk.ops, name), scale=scale), t)[0]
            with self.subTest(name):
                self.check(call, (0.5, 0.25, 0.125))
        self.check(lambda n: fla.chunk_gla(t["q"], t["k"], t["v"], t["gk"], scale=n)[0],
                   (0.5, 0.25, 0.125))


class WithoutMemory(unittest.TestCase):
    def check(self, module, calls):
        for name, call in calls.items():
            function, real = getattr(module, name), operands()
            wanted = first(call(function, real)).shape
            with self.subTest(name):
                meta = {n: x.to("meta").requires_grad_(x.is_floating_point())
                        for n, x in real.items()}
                o = first(call(function, meta))
                self.assertEqual((o.shape, o.device.type), (wanted, "meta"))
                o.sum().backward()
                with FakeTensorMode() as mode:
                    fake = {n: mode.from_tensor(x) for n, x in real.items()}
                    self.assertEqual(first(call(function, fake)).shape, wanted)

    def test_ops(self):
        self.check(ejk.ops, OPS)

    def test_fla(self):
        self.check(fla, FLA)

    def test_types(self):
        for dtype in (torch.float64, torch.bfloat16):
            real = {n: x.to(dtype) if n in ("q", "k", "v", "g") else x for n, x in operands().items()}
            wanted = ejk.ops.simple_gla(*(real[n] for n in ("q", "k", "v", "g")))
            with FakeTensorMode() as mode:
                fake = ejk.ops.simple_gla(*(mode.from_tensor(real[n]) for n in ("q", "k", "v", "g")))
            self.assertEqual([(x.dtype, x.shape) for x in fake], [(x.dtype, x.shape) for x in wanted])


if __name__ == "__main__":
    unittest.main()
