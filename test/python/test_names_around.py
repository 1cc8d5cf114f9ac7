"""The names that a step reads from the functions around it and from its module: each call has their values of then."""

import decimal
import enum
import fractions
import functools
import textwrap
import unittest
import warnings

import numpy as np
from test_tracing import rows, torch

import ejk

IN_MODULE = -0.25


# How a step may come by the value of a name.
WAYS = {"plainly": "factor = NAME",
        "a function": "def inside(): return NAME\nfactor = inside()",
        "a lambda": "factor = (lambda: NAME)()",
        "a function of a function": "def inside(): return lambda: [(lambda: NAME)() for _ in range(1)]\n"
                                    "factor = inside()()[0]",
        "a default": "factor = (lambda x=NAME: x)()",
        "a default of a keyword": "def inside(*, x=NAME): return x\nfactor = inside()",
        "a decorator": "@(lambda f: f() * NAME)\ndef factor(): return 1.0",
        "a list": "factor, = [NAME for _ in range(1)]",
        "a set": "factor, = {NAME for _ in range(1)}",
        "a dictionary": "factor, = {NAME: 0 for _ in range(1)}",
        "what a list is made of": "factor, = [x for x in (NAME,)]",
        "a condition": "factor = max([2.0 * (1.0 < NAME), *(3.0 for _ in range(1) if NAME < 1.0), 1.0])",
        "a generator": "factor = next(NAME for _ in range(1))",
        "a function that yields": "def inside(): yield NAME\nfactor = next(inside())",
        "a class": "class Inside: factor = NAME\nfactor = Inside.factor",
        "a method of a class": "class Inside:\n    def factor(self): return NAME\nfactor = Inside().factor()",
        "a partial function": "factor = partial(lambda x, y: x * y, NAME)(1.0)",
        "a value that is formatted": "factor = float(f'{NAME}')"}
STEP = """def step({}S, q, k, v):
{}
    S = S.add(k, v)
    return S, S.read(q * factor)
"""


def made(text, of_function):
    """(what `text` defines as `step`, a function that sets NAME), which is in the module, or in the function around."""
    scope = {"partial": functools.partial, "NAME": None}
    if of_function:
        text = "def make():\n    NAME = None\n" + textwrap.indent(
            text + "def assign(value):\n    nonlocal NAME\n    NAME = value\nreturn step, assign\n", "    ")
        exec(text, scope)
        return scope["make"]()
    exec(text, scope)
    return scope["step"], lambda value: scope.__setitem__("NAME", value)


class Places(unittest.TestCase):
    def check(self, step, assign, factor):
        fn, q = ejk.recurrence(step), np.ones((1, 1, 1, 2), np.float32)
        for give in (np.asarray, *([torch.from_numpy] if torch else [])):
            for value in (1.0, 3.0, 0.5, 1.0):
                assign(value)
                for _ in range(2):  # a call like an earlier one takes a shorter way
                    o, _ = fn(*map(give, (q, q, q)))
                    self.assertEqual(np.asarray(o).ravel().tolist(), [2 * factor(value)] * 2, value)

    def test_each_way_to_read_a_name(self):
        for way, lines in WAYS.items():
            factor = (lambda x: {0.5: 3, 3.0: 2}.get(x, 1)) if way == "a condition" else lambda x: x
            for of_function in (False, True):
                with self.subTest(way, of_function=of_function):
                    text = STEP.format("", textwrap.indent(lines, "    "))
                    self.check(*made(text, of_function), factor)
                    method = "class Layer:\n" + textwrap.indent(STEP.format(
                        "self, ", textwrap.indent(lines, "    ")), "    ") + "step = Layer().step\n"
                    self.check(*made(method, of_function), factor)

    def test_a_name_that_two_functions_inside_read(self):
        # One has a name of its own beside the module's.
        text = STEP.format("", "    def one(NAME): return NAME\n    def two(): return NAME\n"
                               "    factor = one(2.0) * two()")
        self.check(*made(text, False), lambda x: 2 * x)

    def test_functions_that_are_replaced(self):
        scope = {}
        exec(STEP.format("", "    factor = (lambda: NAME(2.0))()"), scope)
        values = iter((lambda x: x, functools.partial(pow, 3.0), (5.0).__mul__, float, lambda x: 2 * x))
        fn, q = ejk.recurrence(scope["step"]), np.ones((1, 1, 1, 2), np.float32)
        for value, factor in zip(values, (2, 9, 10, 2, 4)):
            scope["NAME"] = value
            for _ in range(2):
                self.assertEqual(fn(q, q, q)[0].ravel().tolist(), [2 * factor] * 2)


    def test_decorated_steps(self):
        # The decorator has a name of the step's, with a value of its own.
        decorator = """def decorate(f):
    @wraps(f)
    def outer(*rows):
        S, o = f(*rows)
        return S, o * NAME
    return outer
"""
        scope = {"wraps": functools.wraps}
        exec(decorator, scope)
        for of_function in (False, True):
            for times in (1, 2):
                step, assign = made(STEP.format("", "    factor = NAME"), of_function)
                for _ in range(times):
                    step = scope["decorate"](step)
                for scope["NAME"] in (1.0, 0.5):
                    with self.subTest(of_function=of_function, times=times, decorators=scope["NAME"]):
                        self.check(step, assign, lambda x: x * scope["NAME"] ** times)
        step, q = ejk.recurrence(step), np.ones((1, 1, 1, 2), np.float32)
        assign(1.0)
        for scope["NAME"] in (1.0, 2.0, 3.0, 1.0):
            self.assertEqual(step(q, q, q)[0].ravel().tolist(), [2 * scope["NAME"] ** 2] * 2)


class Values(unittest.TestCase):
    def test_numbers_around_a_step(self):
        global IN_MODULE
        around, unset = -0.5, None

        @ejk.recurrence
        def f(S, q, k, v):
            S = S.decay(around + IN_MODULE).add(k, v)
            return S, S.read(q * (1.0 if unset is None else unset))
        q, k, v, _ = rows()

        def exact():
            S, o = 0.0, []
            for row in zip(*(np.moveaxis(x.astype("f8"), 1, 0) for x in (q, k, v))):
                S = np.exp(around + IN_MODULE) * S + row[1][..., None] * row[2][..., None, :]
                o.append(np.einsum("bhk,bhkv->bhv", row[0] * (unset or 1.0), S))
            return np.stack(o, 1)
        for around, IN_MODULE, unset in ((-0.5, -0.25, None), (-1.0, -0.25, None), (-0.5, -0.25, None),
                                         (-0.5, 0.0, 2.0), (-0.5, -0.5, 2.0), (np.log(0.5), -0.5, None),
                                         (np.log(0.1), -0.5, None), (np.log(0.1), np.float32(-0.25), np.int64(3))):
            for _ in range(2):
                np.testing.assert_allclose(f(q, k, v)[0], exact(), rtol=1e-4, atol=1e-5)
            self.assertIn(f"{around + IN_MODULE:.17e}", f.mlir(q, k, v))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for i in range(8):
                around = -i / 8
                f(q, k, v)
        (warning,) = caught
        self.assertRegex(str(warning.message), "'f' is compiled for each value of 'around'.*argument, a tensor")
        self.assertTrue(warning.filename.endswith("test_names_around.py"))

    def test_values_around_a_step(self):
        around, seen = None, []

        @ejk.recurrence
        def f(S, q, k, v):
            seen.append(around)
            return (S := S.add(k, v)), S.read(q)
        Kind = enum.Enum("Kind", "ADDED READ")
        values = [None, -1.0, None, np.float32(0.5), np.float64(0.5), 0.5, np.float64(np.nan), np.longdouble(0.5),
                  np.int64(1), 1, True, np.bool_(True), np.bool_(False), 0.0, -0.0, np.float32(0), np.float32(-0.0), 1j,
                  "keys", "values", b"keys", (), (1, 2), (1, 2.0), (1, (np.float32(2), "a")),
                  (1, (np.float32(3), "a")), fractions.Fraction(1, 3), decimal.Decimal("0.1"), Kind.ADDED, Kind.READ,
                  max, len, np.array(0.5), np.array(0.5), [1], [1]]
        values += [torch.tensor(0.5), torch.tensor(0.5)] if torch else []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # there are more than four numbers
            for around in values:
                f(*rows()[:3])
                self.assertIs(seen[-1], around)
        # What is equal and does not change is the same, though it is another object.
        for make in (lambda: np.log(0.5), lambda: float("nan"), lambda: np.float64("nan"), lambda: "".join(["a", "b"]),
                     lambda: tuple([1, 1.5])):
            around = make()
            f(*rows()[:3])
            count, around = len(seen), make()
            self.assertIsNot(seen[-1], around)
            f(*rows()[:3])
            self.assertEqual(len(seen), count)

    def test_a_bool_around_a_step(self):
        inclusive = True

        @ejk.recurrence
        def f(S, q, k, v):
            before, S = S.read(q), S.add(k, v)
            return S, S.read(q) if inclusive else before
        x = np.ones((1, 1, 1, 2), np.float32)
        self.assertEqual(f(x, x, x)[0].tolist(), [[[[2, 2]]]])
        inclusive = False
        self.assertEqual(f(x, x, x)[0].tolist(), [[[[0, 0]]]])


if __name__ == "__main__":
    unittest.main()
