"""Values and derivatives of a step's functions over the whole range of float32, in a CPU's kernels,
against float64: powers of two of both signs, zeros, infinities, NaN and ties."""
import math
import unittest

import ejk
import torch
from ejk import serving
from ejk.compat.fla import chunk_kda

INF, NAN = math.inf, math.nan
# What a kernel may be off: some ulp of the result, and results below 2^-126 may be zero. An
# exponential's argument of up to 88 has 88 times its own error.
RELATIVE, TINY = 1e-5, 2.0 ** -126


def powers(low, high):
    """Numbers of each second binade from 2^low to 2^high."""
    return [m * 2.0 ** e for e in range(low, high + 1, 2) for m in (1.0, 1.37)]


def both(numbers):
    return [s * x for x in numbers for s in (1.0, -1.0)]


EDGES = [0.0, -0.0, INF, -INF, NAN]
REAL = both(powers(-120, 126)) + EDGES                    # of any size
SMALL = both(powers(-120, 6)) + EDGES                     # an exponential's
POSITIVE = powers(-120, 126) + [0.0, INF, NAN]
UNIT = both(powers(-60, -1) + [1 - 2.0 ** -e for e in range(1, 24)]) + [0.0, NAN]
TRIGONOMETRIC = both(powers(-60, 12)) + [0.0, -0.0, NAN]
ABOVE_ONE = [1 + 2.0 ** -e for e in range(1, 23)] + powers(2, 126) + [INF, NAN]
ABOVE_MINUS_ONE = [-1 + 2.0 ** -e for e in range(1, 24)] + powers(-60, 126) + [0.0, INF, NAN]


def logistic(x):
    e = torch.exp(-x.abs())
    return torch.where(x < 0, e, torch.ones_like(e)) / (1 + e)


def logistic_slope(x):
    e = torch.exp(-x.abs())
    return e / (1 + e) ** 2


def silu_slope(x):
    return logistic(x) + x * logistic_slope(x)


# Function: its numbers, its value in float64 and its slope. A third one, where it stands, is the
# size of the terms that the slope, and of those that the value is a sum of.
CASES = {
    "exp": (SMALL, torch.exp, torch.exp), "exp2": (SMALL, torch.exp2, lambda x: math.log(2) * torch.exp2(x)),
    "expm1": (SMALL, torch.expm1, torch.exp),
    "log": (POSITIVE, torch.log, lambda x: 1 / x),
    "log2": (POSITIVE, torch.log2, lambda x: 1 / x / math.log(2)),
    "log10": (POSITIVE, torch.log10, lambda x: 1 / x / math.log(10)),
    "log1p": (ABOVE_MINUS_ONE, torch.log1p, lambda x: 1 / (1 + x)),
    "sqrt": (POSITIVE, torch.sqrt, lambda x: 0.5 / torch.sqrt(x)),
    "rsqrt": (POSITIVE, torch.rsqrt, lambda x: -0.5 * torch.rsqrt(x) / x),
    "cbrt": (both(powers(-120, 126)) + [INF, -INF, NAN],
             lambda x: x.sign() * x.abs() ** (1 / 3), lambda x: x.abs() ** (-2 / 3) / 3),
    "sin": (TRIGONOMETRIC, torch.sin, torch.cos, torch.ones_like),
    "cos": (TRIGONOMETRIC, torch.cos, lambda x: -torch.sin(x), torch.ones_like),
    "tan": (both(powers(-60, 0)) + [0.0, NAN], torch.tan, lambda x: 1 / torch.cos(x) ** 2),
    "arcsin": (UNIT, torch.asin, lambda x: ((1 - x) * (1 + x)) ** -0.5),
    "arccos": (UNIT, torch.acos, lambda x: -((1 - x) * (1 + x)) ** -0.5),
    "arctan": (REAL, torch.atan, lambda x: 1 / (1 + x * x)),
    "sinh": (SMALL, torch.sinh, torch.cosh), "cosh": (SMALL, torch.cosh, torch.sinh),
    "tanh": (SMALL, torch.tanh, lambda x: torch.cosh(x) ** -2),
    "arcsinh": (REAL, torch.asinh, lambda x: 1 / torch.hypot(torch.ones_like(x), x)),
    "arccosh": (ABOVE_ONE, torch.acosh, lambda x: 1 / (torch.sqrt(x - 1) * torch.sqrt(x + 1))),
    "arctanh": (UNIT, torch.atanh, lambda x: 1 / ((1 - x) * (1 + x))),
    "erf": (SMALL, torch.erf, lambda x: 2 / math.sqrt(math.pi) * torch.exp(-x * x)),
    "erfc": (SMALL, torch.erfc, lambda x: -2 / math.sqrt(math.pi) * torch.exp(-x * x)),
    "abs": (REAL, torch.abs, torch.sgn),
    "negative": (REAL, torch.neg, lambda x: -torch.ones_like(x)),
    "floor": (REAL, torch.floor, torch.zeros_like), "ceil": (REAL, torch.ceil, torch.zeros_like),
    "trunc": (REAL, torch.trunc, torch.zeros_like), "rint": (REAL, torch.round, torch.zeros_like),
    "square": (both(powers(-60, 62)) + EDGES, torch.square, lambda x: 2 * x),
    "reciprocal": (both(powers(-62, 62)) + [INF, -INF, NAN], torch.reciprocal, lambda x: -1 / (x * x)),
    "sigmoid": (SMALL, logistic, logistic_slope),
    "softplus": (SMALL, lambda x: torch.clamp(x, min=0) + torch.log1p(torch.exp(-x.abs())), logistic),
    "log_sigmoid": (SMALL, lambda x: torch.clamp(x, max=0) - torch.log1p(torch.exp(-x.abs())),
                    lambda x: logistic(-x)),
    # At infinity x·sigmoid(x) has no slope, and at −∞ no value, as in PyTorch and JAX.
    "silu": (both(powers(-120, 6)) + [0.0, NAN], lambda x: x * logistic(x), silu_slope,
             lambda x: logistic(x) + (x * logistic_slope(x)).abs()),
    "relu": (REAL, lambda x: torch.where(x <= 0, 0.0, x), lambda x: torch.where(x > 0, 1.0, 0.0).double()),
}


def agree(found, expected, size):
    """Where both are NaN, or as far apart as the type allows."""
    found, expected = found.double(), expected.float().double()
    allowed = RELATIVE * size + TINY
    return ((found - expected).abs() <= allowed) | (found == expected) | (
        found.isnan() & expected.isnan())


class OneOperand(unittest.TestCase):
    def test_each(self):
        names = list(CASES)
        for first in range(0, len(names), 14):
            self.compare(names[first:first + 14])

    def compare(self, names):
        count = max(len(CASES[n][0]) for n in names)
        points = [torch.tensor((CASES[n][0] * count)[:count]) for n in names]
        inputs = [p.view(1, count, 1).requires_grad_() for p in points]

        @ejk.recurrence
        def step(s, a, b, c, d, e, f, g, h, i, j, k, l, m, n):
            values = (a, b, c, d, e, f, g, h, i, j, k, l, m, n)
            return s, *[getattr(ejk, name)(x) for name, x in zip(names, values)]

        padding = [torch.zeros(1, count, 1)] * (14 - len(names))
        *outputs, _ = step(*inputs, *padding)
        slopes = torch.autograd.grad(outputs, inputs, [torch.ones_like(o) for o in outputs])
        for name, x, y, slope in zip(names, points, outputs, slopes):
            x = x.double().clone()
            value, derivative, *size = [f(x) for f in CASES[name][1:]]
            for what, found, expected in (("", y, value), ("'", slope, derivative)):
                found = found.detach().view(-1)
                defined = ~x.isnan() if what else torch.ones_like(x, dtype=torch.bool)
                good = agree(found, expected, size[0] if size else expected.abs()) | ~defined
                with self.subTest(function=name + what):
                    worst = (~good).nonzero()[:4, 0]
                    self.assertTrue(good.all(), [
                        (x[w].item(), found[w].item(), expected[w].item()) for w in worst])


class TwoOperands(unittest.TestCase):
    # Operands, the result, and the gradient of each. PyTorch says so, and JAX where it agrees.
    POINTS = {
        "maximum": [(1, 1, 1, .5, .5), (2, 1, 2, 1, 0), (-1, 1, 1, 0, 1), (INF, INF, INF, .5, .5),
                    (-INF, 0, 0, 0, 1), (NAN, 1, NAN, None, None), (1, NAN, NAN, None, None)],
        "minimum": [(1, 1, 1, .5, .5), (2, 1, 1, 0, 1), (-1, 1, -1, 1, 0),
                    (-INF, -INF, -INF, .5, .5), (1, NAN, NAN, None, None)],
        "fmax": [(1, 1, 1, .5, .5), (2, 1, 2, 1, 0), (1, 2, 2, 0, 1), (NAN, 1, 1, 0, 1),
                 (1, NAN, 1, 1, 0), (INF, INF, INF, .5, .5), (NAN, -INF, -INF, 0, 1), (NAN, NAN, NAN, None, None)],
        "fmin": [(1, 1, 1, .5, .5), (2, 1, 1, 0, 1), (1, 2, 1, 1, 0), (NAN, 1, 1, 0, 1),
                 (1, NAN, 1, 1, 0), (-INF, -INF, -INF, .5, .5), (NAN, INF, INF, 0, 1), (NAN, NAN, NAN, None, None)],
        "logaddexp": [(0, 0, math.log(2), .5, .5), (INF, INF, INF, None, None),
                      (-INF, -INF, -INF, None, None), (INF, -INF, INF, 1, 0), (-INF, 3, 3, 0, 1),
                      (100, -100, 100, 1, 0), (-1e4, -1e4, -1e4 + math.log(2), .5, .5),
                      (3e38, 1, 3e38, 1, 0), (NAN, 1, NAN, None, None), (INF, NAN, NAN, None, None),
                      (-20, 0, math.log1p(math.exp(-20)), math.exp(-20) / (1 + math.exp(-20)),
                       1 / (1 + math.exp(-20)))],
        "copysign": [(2, -3, -2, -1, 0), (0, 1, 0, 0, 0), (-2, 3, 2, -1, 0), (INF, -1, -INF, -1, 0)],
        "divide": [(1, 3, 1 / 3, 1 / 3, -1 / 9), (1, INF, 0, 0, 0), (INF, 2, INF, .5, -INF)],
        "power": [(0, 2, 0, 0, 0), (0, 1, 0, 1, 0), (0, .5, 0, INF, 0), (2, 0, 1, 0, math.log(2)),
                  (-2, 3, -8, 12, None), (4, .5, 2, .25, 2 * math.log(4))],
        "arctan2": [(0, -1, math.pi, -1, 0), (1e-30, 1e-30, math.pi / 4, 5e29, -5e29),
                    (INF, 1, math.pi / 2, None, None), (0, 0, 0, 0, 0), (-0.0, 0, -0.0, 0, 0),
                    (0, -0.0, math.pi, 0, 0), (-0.0, -0.0, -math.pi, 0, 0), (0, 2, 0, .5, 0),
                    (3, 0, math.pi / 2, 0, -1 / 3), (NAN, 0, NAN, None, None), (0, NAN, NAN, None, None)],
    }

    def test_points(self):
        for name, points in self.POINTS.items():
            a, b, value, *slopes = (torch.tensor([NAN if p is None else float(p) for p in column])
                                    for column in zip(*points))
            a, b = (x.view(1, -1, 1).requires_grad_() for x in (a, b))
            out, _ = self.call(name, a, b)
            found = torch.autograd.grad(out.sum(), (a, b))
            for what, x, expected in (("", out, value), ("/da", found[0], slopes[0]),
                                      ("/db", found[1], slopes[1])):
                x, expected = x.detach().view(-1), expected.double()
                skipped = expected.isnan() if what else torch.zeros_like(expected, dtype=bool)
                with self.subTest(function=name + what):
                    good = agree(x, expected, expected.abs()) | skipped
                    self.assertTrue(good.all(), (x, expected))

    def test_a_number_of_python(self):
        x = torch.tensor([-1., 0., 1., NAN]).view(1, -1, 1).requires_grad_()
        for name in ("fmax", "fmin", "arctan2"):
            for number in (0.0, 1, math.nan):
                fill = torch.full_like(x, number)
                for step, of_two in ((lambda s, x, n: (s, getattr(ejk, name)(x, n)), (x, fill)),
                                     (lambda s, x, n: (s, getattr(ejk, name)(n, x)), (fill, x))):
                    found, wanted = ejk.recurrence(step)(x, number)[0], self.call(name, *of_two)[0]
                    with self.subTest(name, number=number):
                        torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)
                        slopes = [torch.autograd.grad(o.sum(), x)[0] for o in (found, wanted)]
                        torch.testing.assert_close(*slopes, rtol=0, atol=0, equal_nan=True)

    def call(self, name, a, b):
        @ejk.recurrence
        def step(s, a, b):
            return s, getattr(ejk, name)(a, b)
        return step(a, b)

    def test_a_clipped_number(self):
        x = torch.tensor([-2., -1., 0., 1., 2., NAN]).view(1, -1, 1).requires_grad_()

        @ejk.recurrence
        def step(s, x):
            return s, ejk.clip(x, -1.0, 1.0)
        out, _ = step(x)
        torch.testing.assert_close(out.view(-1), x.clamp(-1, 1).view(-1), rtol=0, atol=0,
                                   equal_nan=True)
        slope, = torch.autograd.grad(out[:, :5].sum(), x)
        self.assertEqual(slope.view(-1)[:5].tolist(), [0, 1, 1, 1, 0])


class SecondDerivatives(unittest.TestCase):
    def test_where_two_formulas_meet(self):
        for name, expected in (("sigmoid", 0.0), ("softplus", 0.25), ("log_sigmoid", -0.25),
                               ("silu", 0.5), ("tanh", 0.0)):
            @ejk.recurrence
            def step(s, x):
                return s, getattr(ejk, name)(x)
            x = torch.zeros(1, 1, 1, requires_grad=True)
            slope, = torch.autograd.grad(step(x)[0].sum(), x, create_graph=True)
            bend, = torch.autograd.grad(slope.sum(), x)
            with self.subTest(function=name):
                self.assertAlmostEqual(bend.item(), expected, delta=1e-6)


    def test_normalisation_in_the_step(self):
        @ejk.recurrence
        def normalised(S, q, k, v, beta):
            q, k = (x * ejk.rsqrt(ejk.sum(x * x) + 1e-6) for x in (q, k))
            S = S.add(k, beta * (v - S.read(k)))
            return S, S.read(q)
        torch.manual_seed(0)
        rows = [*torch.randn(3, 1, 5, 1, 4), torch.rand(1, 5, 1)]
        found = []
        for dtype in (torch.float32, torch.float64):
            given = [x.to(dtype).requires_grad_() for x in rows]
            first = torch.autograd.grad(normalised(*given)[0].square().sum(), given, create_graph=True)
            found.append(torch.autograd.grad(sum(g.square().sum() for g in first), given))
        for single, exact in zip(*found):
            self.assertLess((single - exact).norm() / exact.norm(), 1e-5)


class NamedFunctions(unittest.TestCase):
    """Gates and rows at the ends of their ranges."""

    def test_hgrn2_forgets_slowly(self):
        torch.manual_seed(0)
        q, i = torch.randn(2, 1, 40, 2, 8)
        for size in (1.0, 1e-3, 1e-8):
            g = -size * torch.rand(1, 40, 2, 8)
            o, _ = ejk.ops.hgrn2(q, g, i)
            state, rows = torch.zeros(2, 8, 8, dtype=torch.float64), []
            for t in range(40):
                d = g[0, t].double()
                state = state * d.exp()[..., None] - torch.expm1(d)[..., None] * i[0, t].double()[:, None]
                rows.append(torch.einsum("hkv,hk->hv", state, q[0, t].double()))
            expected = torch.stack(rows)[None]
            self.assertLess((o - expected).norm() / expected.norm(), 1e-6)

    def mlstm(self, i, f, rows=slice(None), scale=1.0):
        torch.manual_seed(0)
        q, k, v = torch.randn(3, 1, i.shape[1], 1, 8).requires_grad_()
        i, f = i.clone().requires_grad_(), f.clone().requires_grad_()
        o, _ = ejk.ops.mlstm(q * scale, k, v, i, f)
        gradients = torch.autograd.grad(o[:, rows].square().sum(), (q, k, v, i, f))
        for tensor in (o, *gradients):
            self.assertTrue(tensor.isfinite().all())
        return o

    def test_mlstm_whose_first_rows_are_masked(self):
        f = torch.linspace(-3, 3, 220).view(1, -1, 1)
        i = torch.zeros(1, 220, 1)
        alone = self.mlstm(i[:, 200:], f[:, 200:])
        for mask in (-1e4, -1e30, -INF):
            i[:, :200] = mask
            o = self.mlstm(i, f, slice(200, None))
            self.assertTrue((o[:, :200].abs() < 1e-30).all())
            self.assertEqual(o[:, 200:].shape, alone.shape)

    def test_mlstm_that_forgets_all_or_adds_much(self):
        i, f = torch.zeros(1, 12, 1), torch.ones(1, 12, 1)
        f[:, 5] = -INF
        self.mlstm(i, f)
        i[:, 5] = -INF
        o = self.mlstm(i, f)
        self.assertTrue((o[:, 5] == 0).all())
        i[:, 2] = 300
        self.mlstm(i, f)
        self.mlstm(i, f, scale=0.0)  # where exp(-m) is 0 in float32, and n·q as well


class Rates(unittest.TestCase):
    """exp(A_log) beyond float32, beside gates that are saturated at either end: numbers, and no gradient of A_log."""

    def check(self, call, raw, A_log, *others):
        leaves = [x.clone().requires_grad_() for x in (raw, A_log, *others)]
        o = call(*leaves)[0]
        for x in (o, *torch.autograd.grad(o.square().sum(), leaves)):
            self.assertTrue(x.isfinite().all())

    def test_blocks_and_drop_ins(self):
        torch.manual_seed(0)
        q, k, v = torch.randn(3, 1, 6, 2, 8)
        b, weight, ones = torch.randn(1, 6, 2), torch.randn(3 * 2 * 8, 1, 4), torch.ones(8)
        head, row = torch.zeros(2), torch.zeros(2, 8)
        for log, raw in ((90.0, -200.0), (90.0, 0.0), (90.0, 200.0), (1000.0, -200.0), (INF, -200.0), (-INF, 200.0)):
            A, a, g = torch.full((2,), log), torch.full((1, 6, 2), raw), torch.full((1, 6, 2, 8), raw)
            with self.subTest(A_log=log, raw=raw):
                self.check(lambda *x: ejk.ops.gated_delta_net(q, k, v, v, x[0], b, weight, *x[1:], ones), a, A, head)
                self.check(lambda *x: ejk.ops.mamba2_block(v, k, q, v, x[0], weight, *x[1:], None, torch.ones(16)), a, A,
                           head)
                for bound in (None, -5.0):
                    self.check(lambda *x: ejk.ops.kda_block(q, k, v, x[0], b, v, weight, *x[1:], ones,
                                                            lower_bound=bound), g, A, row)
                    self.check(lambda *x: chunk_kda(q, k / 8, v, x[0], b.sigmoid(), A_log=x[1], dt_bias=x[2],
                                                    use_gate_in_kernel=True, lower_bound=bound), g, A, row)

    def test_serving(self):
        torch.manual_seed(0)
        q, b, slots = torch.randn(1, 3, 2, 8), torch.randn(1, 3, 2), torch.tensor([1])
        for raw in (-200.0, 0.0, 200.0):
            A, a, g = torch.full((2,), 90.0), torch.full((1, 3, 2), raw), torch.full((1, 3, 2, 8), raw)
            pools = torch.zeros(3, 2, 2, 8, 8)
            found = [serving.gated_delta_rule(q, q, q, a, b, A, torch.zeros(2), pool=pools[0], write_slots=slots)]
            for pool, bound in ((pools[1], None), (pools[2], -5.0)):
                found.append(serving.kimi_delta_attention(q, q, q, g, b, A, torch.zeros(2, 8), lower_bound=bound,
                                                          pool=pool, write_slots=slots))
            self.assertTrue(all(x.isfinite().all() for x in (*found, pools)), raw)


class BoundOfADropIn(unittest.TestCase):
    """chunk_kda's lower_bound is a promise about g: within it, nothing changes."""

    def test_gates_within_it(self):
        torch.manual_seed(0)
        q, k, v, x = torch.randn(4, 1, 20, 2, 8)
        inputs = (q, k / 8, v, -5 * torch.sigmoid(x), torch.rand(1, 20, 2))
        results = []
        for options in ({}, {"lower_bound": -5.0}):
            leaves = [t.clone().requires_grad_() for t in inputs]
            o, _ = chunk_kda(*leaves, **options)
            results.append((o.detach(), *torch.autograd.grad(o.square().sum(), leaves)))
        for plain, bounded in zip(*results):
            self.assertLess(float((plain - bounded).norm() / plain.norm()), 1e-6)

    def test_one_that_is_none(self):
        q = torch.randn(1, 4, 1, 8)
        for bound in (0.0, 5.0, float("nan")):
            with self.assertRaisesRegex(ValueError, "'lower_bound' must be below 0"):
                chunk_kda(q, q, q, -q.abs(), torch.rand(1, 4, 1), lower_bound=bound)


if __name__ == "__main__":
    unittest.main()
