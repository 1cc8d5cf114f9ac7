"""Tensors that are not plain: each kind is computed right, in any place of a call, or refused."""

import copy
import io
import itertools
import pickle
import unittest

import numpy as np
import torch
from torch.autograd import forward_ad
from torch.utils._pytree import tree_map

import ejk
import ejk.compat.fla
from ejk import serving
from test_torch import gated, tensors

NAMES = ("q", "k", "v", "g")


class Kind(torch.Tensor):
    """A subclass without behaviour of its own."""


class Wrapper(torch.Tensor):
    """A subclass that has no memory of its own."""

    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), named=None):
        def inner(x):
            return x.inner if isinstance(x, Wrapper) else x
        return function(*tree_map(inner, arguments), **tree_map(inner, named or {}))


def negated(t):
    return torch._neg_view(-t)


def swapped(t):
    return t.numpy().astype(t.numpy().dtype.newbyteorder("S"))


def backwards(t):
    return np.ascontiguousarray(t.numpy()[:, ::-1])[:, ::-1]


def masked(t):
    return np.ma.masked_array(t.numpy(), t.numpy() != 0)


RIGHT = {"negated": negated, "an imaginary part": lambda t: torch.complex(t, -t).conj().imag,
         "a real part": lambda t: torch.complex(t, t).real, "a parameter": torch.nn.Parameter,
         "a subclass": lambda t: t.as_subclass(Kind), "a wrapper": Wrapper,
         "NumPy's": lambda t: t.numpy(), "of another byte order": swapped,
         "of negative strides": backwards, "zeros": lambda t: t,
         "unmasked": lambda t: np.ma.masked_array(t.numpy(), False)}
REFUSED = {"sparse": (lambda t: t.to_sparse(), "layout torch.sparse_coo"),
           "rows": (lambda t: t.flatten(1).to_sparse_csr(), "layout torch.sparse_csr"),
           "mkldnn": (lambda t: t.to_mkldnn(), "layout torch._mkldnn"),
           "nested": (lambda t: torch.nested.nested_tensor(list(t)), "nested"),
           "jagged": (lambda t: torch.nested.nested_tensor(list(t), layout=torch.jagged), "nested"),
           "masked": (lambda t: torch.masked.masked_tensor(t, t > 0), "MaskedTensor does not run"),
           "a masked array": (masked, "masked elements"),
           "complex": (lambda t: t.to(torch.complex64), "torch.complex64 is none of"),
           "quantised": (lambda t: torch.quantize_per_tensor(t, 0.1, 0, torch.qint8),
                         "torch.qint8 is none of"),
           "of no shape": (lambda t: torch.nn.UninitializedParameter(), "has no shape"),
           "objects": (lambda t: t.numpy().astype(object), "element type object"),
           "meta": (lambda t: t.to("meta"), "on one device")}


class Kinds(unittest.TestCase):
    def places(self):
        """Which of the tensors are of a kind: each alone, and all."""
        return [{n} for n in NAMES] + [set(NAMES)]

    def test_kinds_that_are_right(self):
        t = tensors(seed=7)
        wanted = gated(*(t[n] for n in NAMES))
        for kind, make in RIGHT.items():
            for place in self.places():
                with self.subTest(kind, place=sorted(place)):
                    for _ in range(2):
                        o, state = gated(*(make(t[n]) if n in place else t[n] for n in NAMES))
                        for a, b in zip((o, state), wanted):
                            self.assertTrue(np.array_equal(np.asarray(a.detach() if isinstance(
                                a, torch.Tensor) else a), b.numpy()))

    def test_kinds_of_zeros(self):
        t = tensors(seed=7)
        wanted = gated(t["q"], t["k"], torch.zeros_like(t["v"]), t["g"])
        for _ in range(2):
            found = gated(t["q"], t["k"], torch._efficientzerotensor(t["v"].shape), t["g"])
            torch.testing.assert_close(found, wanted)

    def test_sixteen_bits_of_numpy(self):
        import ml_dtypes
        t = tensors(dtype=torch.bfloat16)
        o, _ = gated(t["q"], t["k"].float().numpy().astype(ml_dtypes.bfloat16), t["v"], t["g"])
        self.assertTrue(torch.equal(o, gated(*(t[n] for n in NAMES))[0]))

    def test_kinds_that_are_refused(self):
        t = tensors(seed=7)
        for kind, (make, reason) in REFUSED.items():
            for place in self.places():
                if kind == "meta" and len(place) > 1:
                    continue
                with self.subTest(kind, place=sorted(place)):
                    for function in (gated, ejk.recurrence(gated.__wrapped__)):
                        with self.assertRaisesRegex(ejk.TensorError, reason) as caught:
                            function(*(make(t[n]) if n in place else t[n] for n in NAMES))
                        if kind != "masked":  # which torch itself finds, in a call of the operator
                            self.assertRegex(str(caught.exception), f"'[{''.join(place)}]'")

    def test_a_tensor_on_another_device(self):
        """By the first call as by later ones, with a derivative and without."""
        t = tensors(seed=8)
        for name in NAMES:
            for function in (ejk.recurrence(gated.__wrapped__), ejk.ops.simple_gla):
                for needs in (False, True):
                    own = {n: x.detach().to("meta" if n == name else "cpu").requires_grad_(needs)
                           for n, x in t.items() if n in NAMES}
                    with self.subTest(name, needs=needs), \
                            self.assertRaisesRegex(ejk.TensorError, f"'{name}'.* on one device"):
                        function(**own)

    def test_a_tangent_is_an_error(self):
        """torch would drop it."""
        t = tensors()
        arguments = [t[n] for n in NAMES]
        with forward_ad.dual_level():
            gated(*arguments)
            dual = forward_ad.make_dual(t["v"], torch.ones_like(t["v"]))
            for _ in range(2):
                with self.assertRaisesRegex(ejk.EjkError, "forward mode"):
                    gated(t["q"], t["k"], dual, t["g"])
        def function(v):
            return gated(t["q"], t["k"], v, t["g"])[0].square().sum()
        batches = torch.func.vmap(lambda v: function(v[None]))
        for f in (function, torch.func.grad(function), batches):
            # torch itself refuses a custom function without a jvp.
            with self.assertRaisesRegex((ejk.EjkError, RuntimeError), "forward mode|jvp"):
                torch.func.jvp(f, (t["v"],), (t["v"],))

    def test_a_check_of_a_negated_view(self):
        t = tensors(B=1)
        q = torch.complex(t["q"], t["q"]).conj().imag
        self.assertTrue(q.is_neg())
        found = gated.check(q, t["k"], t["v"], t["g"])
        self.assertEqual(str(found), str(gated.check(q.resolve_neg(), t["k"], t["v"], t["g"])))


class NumpyBesideTorch(unittest.TestCase):
    """What a call takes, `check` and `explain` of the same function take."""

    TEXT = """func.func @f(%q: tensor<?x?x?x4xf32>, %k: tensor<?x?x?x4xf32>, %v: tensor<?x?x?x4xf32>)
        -> (tensor<?x?x?x4xf32>, tensor<?x?x4x4xf32>) {
      %o, %ht = ejk.gla %q, %k, %v {} : tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>
          -> tensor<?x?x?x4xf32>, tensor<?x?x4x4xf32>
      return %o, %ht : tensor<?x?x?x4xf32>, tensor<?x?x4x4xf32>
    }"""

    def test_each(self):
        own = ejk.recurrence(lambda S, q, k, v: ((S := S.add(k, v)), S.read(q)))
        x = torch.rand(1, 3, 1, 4)
        for function in (ejk.compile(self.TEXT), own):
            expected, kernels = function(x, x, x), function.explain(x, x, x).kernels
            for numpys in itertools.product((False, True), repeat=3):
                given = [x.numpy() if n else x for n in numpys]
                for a, b in zip(function(*given), expected):
                    self.assertTrue(torch.equal(torch.as_tensor(a), b))
                self.assertLess(max(function.check(*given).values()), 1e-5)
                self.assertEqual(function.explain(*given).kernels, kernels)
        function = ejk.compile(self.TEXT)
        for what in (function, function.check, function.explain):
            with self.assertRaisesRegex(ejk.TensorError, "'v' must be f32, but is f16"):
                what(x, x, x.half())


class Shapes(unittest.TestCase):
    """Tensors without memory have results of the right shapes."""

    def check(self, wanted, *tensors_):
        found = ejk.ops.gla(*tensors_)
        self.assertEqual([x.shape for x in found], wanted)
        self.assertEqual(found[0].device, tensors_[0].device)
        return found

    def test_the_meta_device(self):
        t = tensors()
        real = [t[n] for n in ("q", "k", "v", "gk")]
        wanted = [x.shape for x in ejk.ops.gla(*real)]
        for _ in range(2):
            own = [x.to("meta").requires_grad_() for x in real]
            o, _ = self.check(wanted, *own)
            o.sum().backward()
            self.assertEqual([x.grad.shape for x in own], [x.shape for x in own])
            self.assertTrue(all(x.grad.is_meta for x in own))
        with torch.device("meta"):
            made = gated(*(torch.empty(2, 5, 2, n) for n in (4, 4, 3)), torch.empty(2, 5, 2))
        self.assertEqual([x.shape for x in made], [(2, 5, 2, 3), (2, 2, 4, 3)])

    def test_fake_tensors(self):
        from torch._subclasses.fake_tensor import FakeTensorMode
        t = tensors()
        real = [t[n] for n in ("q", "k", "v", "gk")]
        wanted = [x.shape for x in ejk.ops.gla(*real)]
        with FakeTensorMode() as mode:
            self.check(wanted, *map(mode.from_tensor, real))
            self.check(wanted, *(torch.empty(x.shape) for x in real))


class Flops(unittest.TestCase):
    """What torch's counter sees: 2·K·V for each addition to a state and each read of one."""

    B, T, H, K, V = 2, 8, 4, 16, 32

    def count(self, function, *arguments):
        """Of a forward and of its derivative, in units of 2·B·T·K·V."""
        from torch.utils.flop_counter import FlopCounterMode
        with FlopCounterMode(display=False) as forward:
            o = function(*arguments)[0]
        with FlopCounterMode(display=False) as backward:
            if o.requires_grad:
                o.sum().backward()
        unit = 2 * self.B * self.T * self.K * self.V
        return forward.get_total_flops() / unit, backward.get_total_flops() / unit

    def test_each(self):
        B, T, H, K, V = self.B, self.T, self.H, self.K, self.V
        q, k = torch.randn(B, T, H, K, requires_grad=True), torch.randn(B, T, 2, K)
        v, beta = torch.randn(B, T, 2, V), torch.rand(B, T, 2)
        # Additions and reads of states; a derivative has two for each, and adds once more.
        self.assertEqual(self.count(ejk.ops.linear_attn, q, k, v), (4 + 4, 2 * 8 + 4))
        self.assertEqual(self.count(lambda *a: ejk.ops.linear_attn(*a, shared_state=True), q, k, v),
                         (2 + 4, 2 * 6 + 2))
        self.assertEqual(self.count(lambda *a: ejk.ops.delta_rule(*a, shared_state=True), q, k, v,
                                    beta), (2 + 2 + 4, 2 * 8 + 2))
        o, _ = ejk.ops.linear_attn(q, k, v)  # outside of a counter, and its derivative inside
        self.assertEqual(self.count(lambda: (o,)), (0, 20))
        with torch.no_grad():
            self.assertEqual(self.count(ejk.ops.linear_attn, q, k, v), (8, 0))
        with torch.device("meta"):
            self.assertEqual(self.count(ejk.ops.linear_attn, *map(torch.empty_like, (q, k, v))),
                             (8, 0))

    def test_numbers_of_rows_that_a_program_knows(self):
        q, k, v = (torch.rand(self.B, self.T, 2, n) for n in (self.K, self.K, self.V))
        pool, slots = torch.zeros(3, 2, self.K, self.V), torch.tensor([1, 2])
        for written in ({}, {"write_slots": slots}, {"write_slots": torch.arange(16).reshape(2, 8) % 3}):
            for parts in (1, 2):  # eight rows, and sixteen
                rows = [torch.cat([x] * parts, 1) for x in (q, k, v)]
                with self.subTest(written=list(written), parts=parts):
                    own = {n: torch.cat([w] * parts, -1) if w.dim() > 1 else w for n, w in written.items()}
                    self.assertEqual(self.count(lambda *a, own=own: ejk.ops.linear_attn(
                        *a, pool=pool, read_slots=slots, **own), *rows)[0], 4 * parts)
        wide, narrow = "tensor<2x8x2x16xf32>", "tensor<2x8x2x32xf32>"
        state = "tensor<2x2x16x32xf32>"
        function = ejk.compile(f"""func.func @f(%q: {wide}, %k: {wide}, %v: {narrow}) -> ({narrow}, {state}) {{
          %o, %ht = ejk.gla %q, %k, %v {{}} : {wide}, {wide}, {narrow} -> {narrow}, {state}
          return %o, %ht : {narrow}, {state}
        }}""")
        self.assertEqual(self.count(function, q, k, v)[0], 4)
        with torch.no_grad():
            offsets = torch.tensor([0, 3, 16])
            rows = [x.reshape(1, 16, *x.shape[2:]) for x in (q, k, v)]
            gates = 2 * [rows[0][..., 0]]
            self.assertEqual(self.count(lambda *a: ejk.ops.mlstm(*a, *gates, cu_seqlens=offsets), *rows)[0], 4)

    def test_results_in_any_order(self):
        """What is counted is the scan's, not that of the first result."""
        x = torch.rand(self.B, self.T, 3, self.K)
        step = ejk.recurrence(lambda S, q, k: ((S := S.add(k, k)), q * ejk.sum(S.read(q)), S.read(q)))
        with torch.no_grad():
            self.assertEqual(self.count(step, x, x)[0], (3 + 2 * 3) * self.K / self.V)
            rows = ejk.recurrence(lambda x, y: (x.last_rows(2), x * y), states=0)
            self.assertEqual(self.count(rows, x, x)[0], 0)


class Constants(unittest.TestCase):
    """Tensors in the place of a program's constants."""

    def calls(self):
        """Calls with a number in the place of a constant, by the constant's name."""
        q, gates = torch.rand(1, 4, 2, 16), -torch.rand(1, 4, 2, 16)
        beta, bonus, three = gates[..., 0].exp(), torch.rand(2, 16), (q,) * 3
        weight, block = torch.rand(96, 4), (q, q, q, gates, beta, q)
        pooled = dict(pool=torch.zeros(4, 2, 16, 16), read_slots=torch.tensor([1]))
        return {
            "scale": {
                "ops": lambda n: ejk.ops.linear_attn(*three, scale=n),
                "in a pool": lambda n: ejk.ops.linear_attn(*three, scale=n, **pooled),
                "named": lambda n: ejk.ops.kda(*three, gates, beta, scale=n),
                "rwkv6": lambda n: ejk.ops.rwkv6(*three, gates, bonus, scale=n),
                "rwkv7": lambda n: ejk.ops.rwkv7(q, gates, q, q, -q, q, scale=n),
                "composed": lambda n: ejk.ops.mlstm(*three, beta, beta, scale=n),
                "block": lambda n: ejk.ops.kda_block(*block, weight, bonus[:, 0], None, q[0, 0, 0], scale=n),
                "split": lambda n: ejk.split(ejk.ops.gla, *three, gates, scale=n, parts=2),
                "split delta": lambda n: ejk.split(ejk.ops.delta_rule, *three, beta, scale=n, parts=2),
                "serving": lambda n: serving.lightning(*three, bonus[:, 0], scale=n, **pooled),
                "serving delta": lambda n: serving.gated_delta_rule(*three, beta, beta, beta[0, 0], beta[0, 0],
                                                                    scale=n, **pooled),
                "fla": lambda n: ejk.compat.fla.chunk_gla(*three, gates, scale=n)},
            "lower_bound": {
                "block": lambda n: ejk.ops.kda_block(*block, weight, bonus[:, 0], None, q[0, 0, 0], lower_bound=n),
                "split": lambda n: ejk.split(ejk.ops.kda, *three, gates, beta, lower_bound=n, parts=2),
                "serving": lambda n: serving.kimi_delta_attention(*three, gates, beta, beta[0, 0],
                                                                  lower_bound=n, **pooled)}}

    def test_one_that_needs_a_gradient_is_refused(self):
        number = torch.tensor(-0.5)
        for name, calls in self.calls().items():
            for place, call in calls.items():
                with self.subTest(name, place=place):
                    with torch.no_grad():
                        torch.testing.assert_close(call(number.clone().requires_grad_())[0], call(-0.5)[0])
                    for refused in (lambda: call(number.clone().requires_grad_()),
                                    lambda: torch.func.grad(lambda n: call(n)[0].sum())(number)):
                        with self.assertRaisesRegex(ejk.TensorError, f"'{name}' .*needs a gradient.*(give|clip)"):
                            refused()


class Copies(unittest.TestCase):
    """Copies and pickles of what holds recurrences."""

    def test_a_recurrence_of_a_function_that_keeps_its_name(self):
        own = ejk.recurrence(plain_step, reverse=True)
        t = tensors()
        wanted = own(*(t[n] for n in NAMES))
        for made in (copy.copy(own), copy.deepcopy(own), pickle.loads(pickle.dumps(own)),
                     copy.deepcopy(torch.nn.ModuleDict({"a": Holder(own)}))["a"].op):
            self.assertIsInstance(made, ejk.Recurrence)
            torch.testing.assert_close(made(*(t[n] for n in NAMES)), wanted, rtol=0, atol=0)
        self.assertIs(pickle.loads(pickle.dumps(gated)), gated)
        file = io.BytesIO()
        torch.save(Holder(own), file)
        file.seek(0)
        loaded = torch.load(file, weights_only=False).op
        torch.testing.assert_close(loaded(*(t[n] for n in NAMES)), wanted, rtol=0, atol=0)

    def test_a_local_recurrence(self):
        def local(S, q, k, v):
            return S.add(k, v), S.read(q)
        own = ejk.recurrence(local)
        self.assertIs(copy.deepcopy(Holder(own)).op, own)
        with self.assertRaisesRegex((pickle.PicklingError, AttributeError), "local"):
            pickle.dumps(own)


class Holder(torch.nn.Module):
    def __init__(self, op):
        super().__init__()
        self.op = op


def plain_step(S, q, k, v, g):
    S = S.decay(g).add(k, v)
    return S, S.read(q)


if __name__ == "__main__":
    unittest.main()
