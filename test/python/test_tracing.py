"""A step's function as it is traced: its operators, the names of its parameters, the numbers that
become constants, and errors, which name the user's line."""
import builtins
import copy
import functools
import math
import operator
import pickle
import unittest
import warnings

import ejk
import numpy as np

try:
    import torch
except ImportError:
    torch = None

from kinds_of_numbers import NUMBERS, told_apart
from test_numpy import arrays, error

TOLERANCE = 1e-6


def rows():
    a = arrays()
    reset = np.array([0, 0, 1, 0, 0, 1], np.float32).reshape(1, 6, 1)
    return a["q"][:1], a["k"][:1], a["v"][:1], np.repeat(reset, 2, 2)


def where_equal(S, q, k, v, reset):
    S = S.decay(ejk.where(ejk.equal(reset, 1.0), -100.0, 0.0)).add(k, v)
    return S, S.read(q)


class Operators(unittest.TestCase):
    def same(self, step, wanted=where_equal):
        found, expected = (ejk.recurrence(f)(*rows())[0] for f in (step, wanted))
        np.testing.assert_array_equal(found, expected)

    def test_equality_is_a_comparison(self):
        def equal(S, q, k, v, reset):
            S = S.decay(ejk.where(reset == 1, -100.0, 0.0)).add(k, v)
            return S, S.read(q)

        def unequal(S, q, k, v, reset):
            S = S.decay(ejk.where(1.0 != reset, 0.0, -100.0)).add(k, v)
            return S, S.read(q)

        def product(S, q, k, v, reset):
            S = S.decay(-100.0 * (reset == 1)).add(k, v)
            return S, S.read(q)
        for step in (equal, unequal, product):
            self.same(step)

    def test_comparisons_combine(self):
        def combined(S, q, k, v, reset):
            inside = (reset > 0.5) & ~(reset >= 2) | np.logical_and(reset > 2, reset < 1)
            odd = ejk.logical_not((reset > 0) ^ (reset > -1))
            S = S.decay(ejk.where(inside & odd, -100.0, 0.0)).add(k, v)
            return S, S.read(q)
        self.same(combined)

    def test_a_comparison_is_a_number_where_one_is_wanted(self):
        def masked(S, q, k, v, reset):
            S = S.add(k * (k > 0), v)
            return S, S.read(q), ejk.sum(q > 0), q > k, (q > 0) * (k > 0)

        def chosen(S, q, k, v, reset):
            def number(condition):
                return ejk.where(condition, 1.0, 0.0)
            S = S.add(ejk.where(k > 0, k, 0.0), v)
            return S, S.read(q), ejk.sum(number(q > 0)), number(q > k), number(q > 0) * number(k > 0)
        found, expected = (ejk.recurrence(f)(*rows()) for f in (masked, chosen))
        for x, y in zip(found, expected):
            np.testing.assert_array_equal(x, y)

    def test_values_do_not_change(self):
        def step(S, q, k, v, reset):
            x = y = q
            x += 1
            x -= k
            x *= 2
            x /= 4
            x **= 2
            S = S.add(k, v)
            return S, x + 0 * y, y + 0, copy.deepcopy(q) + copy.copy(k), +q
        q, k, v, reset = rows()
        x, y, both, own, _ = ejk.recurrence(step)(q, k, v, reset)
        self.assertLess(error(x, ((q + 1 - k) * 2 / 4) ** 2), TOLERANCE)
        np.testing.assert_array_equal(y, q)
        np.testing.assert_array_equal(own, q)
        np.testing.assert_array_equal(both, q + k)

    def test_numbers_of_python_and_numpy(self):
        def step(S, q, k, v, reset):
            S = S.add(k, v)
            return (S, np.float32(2) * q + np.int64(1), q * True + np.sum(q, axis=-1),
                    ejk.where(np.bool_(False), k, q) + q.sum(0))
        q, k, v, reset = rows()
        a, b, c, _ = ejk.recurrence(step)(q, k, v, reset)
        self.assertLess(error(a, 2 * q + 1), TOLERANCE)
        self.assertLess(error(b, q + q.sum(-1, keepdims=True)), TOLERANCE)
        np.testing.assert_array_equal(b, c)

    def test_what_a_step_has_not_is_refused_at_its_line(self):
        refused = {name: getattr(builtins, name) for name in
                   ("bool", "hash", "len", "float", "int", "complex", "iter", "reversed", "round")}
        refused.update({
            "index": operator.index, "math.floor": math.floor, "math.ceil": math.ceil,
            "math.trunc": math.trunc, "math.exp": math.exp, "not": lambda x: ~x,
            "format": lambda x: f"{x:.2f}", "item": lambda x: x[0], "call": lambda x: x(),
            "set": lambda x: operator.setitem(x, 0, 1), "del": lambda x: operator.delitem(x, 0),
            "in": lambda x: 1 in x, "in a tuple": lambda x: x in (1, 2), "//": lambda x: x // 2,
            "r//": lambda x: 2 // x, "%": lambda x: x % 2, "divmod": lambda x: divmod(x, 2),
            "@": lambda x: x @ x, "r@": lambda x: np.ones(4) @ x, "<<": lambda x: x << 1,
            "pow": lambda x: pow(x, 2, 3), "and": lambda x: (x == 1) & x, "None": lambda x: x == None,
            "str": lambda x: x != "a", "array": lambda x: x * np.ones(4, np.float32),
            "rarray": lambda x: np.ones(4, np.float32) - x, "asarray": np.asarray,
            "dot": lambda x: np.dot(x, x), "out": lambda x: np.add(x, 1, out=x),
            "np.add.reduce": np.add.reduce, "isnan": np.isnan, "two": lambda x: (x == 1) + (x == 2),
            "minus": lambda x: -(x == 1), "axis": lambda x: x.sum(1), "shape": lambda x: x.shape,
            "mean": lambda x: x.mean(), "huge": lambda x: x * 10 ** 400,
            "where": lambda x: ejk.where(x, x, x)})
        for name, operation in refused.items():
            for place in ("vector", "number", "state"):
                def step(S, q, k, reset):
                    operation({"vector": q, "number": reset, "state": S}[place])  # the refused one
                    return S.add(k, k), q
                q, k, _, reset = rows()
                with self.subTest(operation=name, place=place):
                    with self.assertRaises(ejk.TraceError) as caught:
                        ejk.recurrence(step)(q, k, reset)
                    self.assertIn("test_tracing.py:", str(caught.exception))
                    self.assertNotRegex(str(caught.exception), "Undecided|_values|apply")

    def test_a_matrix_of_state_takes_nothing_else(self):
        for name, operation in {"==": lambda S: S == 1, "+=": lambda S: operator.iadd(S, 1),
                                "@": lambda S: S @ S, "bool": bool, "-": lambda S: -S,
                                "exp": np.exp, "where": lambda S: np.where(S, 0, 1), "&": lambda S: S & S, "mean": lambda S: S.mean(),
                                "<": lambda S: S < S, "in": lambda S: S in (1, 2)}.items():
            def step(S, q, k):
                S = S.add(k, k)
                operation(S)
                return S, S.read(q)
            with self.subTest(operation=name), self.assertRaisesRegex(ejk.TraceError,
                                                                      "test_tracing.py:"):
                ejk.recurrence(step)(*rows()[:2])

    def test_absent_attributes_are_absent(self):
        def step(S, q, k):
            assert not hasattr(q, "shape") and not hasattr(q, "__array_interface__")
            return S.add(k, k), q
        ejk.recurrence(step)(*rows()[:2])


class Names(unittest.TestCase):
    # Names that the traced program had itself once, and those of results and cotangents.
    NAMES = ["v0", "v1", "x0", "s0", "o0", "x1f", "o_out", "ht_out", "out", "o", "ht", "do", "dht", "arg0", "arg1",
             "arg", "q", "dq", "beta", "β", "γ2", "é", "_", "__x", "func", "initial_state0", "v0_i", "名"]

    def test_any_name(self):
        q, k, v, reset = rows()
        expected, _ = ejk.recurrence(where_equal)(q, k, v, reset)
        for first in range(0, len(self.NAMES), 4):
            a, b, c, d = names = (self.NAMES + self.NAMES)[first:first + 4]
            scope = {"ejk": ejk}
            exec(f"def step(S, {', '.join(names)}):\n"
                 f"    S = S.decay(ejk.where({d} == 1, -100.0, 0.0)).add({b}, {c})\n"
                 f"    return S, S.read({a})\n", scope)
            with self.subTest(names=names):
                found, _ = ejk.recurrence(scope["step"])(**dict(zip(
                    map(self.normal, names), (q, k, v, reset))))
                np.testing.assert_array_equal(found, expected)

    @staticmethod
    def normal(name):
        import unicodedata
        return unicodedata.normalize("NFKC", name)

    def test_names_of_a_package(self):
        def step(S, q, β, beta, arg0, v):
            S = S.add(q, v)
            return S, S.read(q) * β * beta * arg0
        q, _, v, reset = rows()
        made = ejk.compile(ejk.recurrence(step).mlir(q, reset, reset, reset, v))
        self.assertEqual(made.names, ("q", "beta", "beta_2", "arg0", "v"))

    def test_names_of_a_calls_own(self):
        for name in ("initial_state", "cu_seqlens", "save_states"):
            scope = {}
            exec(f"def step(S, q, {name}):\n    return S, q\n", scope)
            with self.assertRaisesRegex(ejk.TraceError, f":1: 'step' has a parameter '{name}'"):
                ejk.recurrence(scope["step"])
        with self.assertRaisesRegex(ejk.TraceError, "test_tracing.py:.*plain ones"):
            ejk.recurrence(lambda S, q, *rest: (S, q))


class Constants(unittest.TestCase):
    def test_equal_numbers_that_a_step_tells_apart(self):
        q, k, v, _ = rows()
        for give in (np.asarray, *([torch.from_numpy] if torch else [])):
            for _ in range(2):  # a call like an earlier one takes a shorter way
                for kind, code in NUMBERS:
                    o, _ = told_apart(*map(give, (q, k, v)), kind)
                    self.assertEqual(set(np.asarray(o).ravel().tolist()), {code}, repr(kind))


class Infinities(unittest.TestCase):
    def test_constants(self):
        q, k, v, _ = rows()

        @ejk.recurrence
        def bounds(S, q, k, v):
            above, below = ejk.where(q > np.inf, 1.0, 0.0), ejk.where(q < -math.inf, 1.0, 0.0)
            unknown = ejk.where(q < math.nan, 1.0, 0.0)
            S = S.decay(-np.inf).add(k, v)
            return S, S.read(q), above + below + unknown, ejk.where(q < 0, -math.inf, math.inf)
        o, outside, signed, _ = bounds(q, k, v)
        np.testing.assert_allclose(o, np.sum(q * k, -1, keepdims=True) * v, rtol=1e-5, atol=1e-6)
        self.assertFalse(outside.any())
        np.testing.assert_array_equal(signed, np.where(q < 0, -np.inf, np.inf))


class Backwards:
    def __init__(self):
        self.run = ejk.recurrence(self.step, reverse=True, queries=("q",), f32_matmuls="bf16x3")

    def step(self, S, q, k, v):
        return (S := S.add(k, v)), S.read(q)


class Functions(unittest.TestCase):
    """What a recurrence is made of."""

    def test_a_method_of_a_copied_object_is_the_copys(self):
        class Layer:
            def __init__(self, rate):
                self.rate, self.run = rate, ejk.recurrence(self.step)

            def step(self, S, q, k, v):
                return (S := S.decay(-self.rate).add(k, v)), S.read(q)
        q, k, v, _ = rows()
        layer = Layer(0.5)
        copied = copy.deepcopy(layer)
        copied.rate = 2.0
        for _ in range(2):
            np.testing.assert_array_equal(layer.run(q, k, v)[0], Layer(0.5).run(q, k, v)[0])
            np.testing.assert_array_equal(copied.run(q, k, v)[0], Layer(2.0).run(q, k, v)[0])

    def test_a_copied_method_is_made_as_the_first_one_was(self):
        q, k, v, _ = rows()
        layer = Backwards()
        for copied in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            self.assertIsNot(copied.run, layer.run)
            # A program's key says its text and how its float32 rows are multiplied.
            programs = [x.run.program(q, k[:, :, :1], v[:, :, :1]) for x in (layer, copied)]
            self.assertEqual(programs[0].f32_matmuls, "bf16x3")
            self.assertEqual(programs[0].key, programs[1].key)

    def test_a_parameter_named_self(self):
        q, k, v, reset = rows()

        def step(S, q, k, v, self):
            S = S.decay(-0.1).add(k, v)
            return S, S.read(q) * self
        fn = ejk.recurrence(step)
        np.testing.assert_array_equal(fn(q, k, v, self=reset)[0], fn(q, k, v, reset)[0])
        compiled = ejk.compile(fn.mlir(q, k, v, self=reset))
        np.testing.assert_array_equal(compiled(q, k, v, self=reset)[0], fn(q, k, v, reset)[0])
        for of in (fn, compiled):
            self.assertLess(builtins.max(of.check(q, k, v, self=reset).values()), 1e-5)

    def test_scalars_of_numpy_are_numbers(self):
        q, k, v, _ = rows()

        def step(S, q, k, v, number):
            self.assertIn(type(number), (bool, int, float))
            S = S.add(k, v)
            return S, S.read(q) * number
        for number in (np.int64(2), np.uint8(2), np.float32(0.5), np.float64(0.5), np.float16(0.5), np.bool_(True)):
            fn = ejk.recurrence(step)
            np.testing.assert_array_equal(fn(q, k, v, number)[0], fn(q, k, v, number.item())[0])
            self.assertEqual(len(fn._programs), 1)
        g = np.repeat(-np.abs(k[..., :1]), k.shape[-1], -1)
        found, wanted = (ejk.ops.kda(q, k, v, g, g[..., 0], scale=scale, lower_bound=bound)[0] for scale, bound in
                         ((np.float32(0.5), np.float32(-5)), (0.5, -5.0)))
        np.testing.assert_array_equal(found, wanted)

    def test_numbers_and_names_that_are_none(self):
        def step(S, q): return S.add(q, q), S.read(q)
        for states, error in ((-1, ValueError), (1.5, TypeError), ("2", TypeError), (None, TypeError)):
            message = f"'states' must be .* but is {states!r}"
            with self.subTest(states=states), self.assertRaisesRegex(error, message):
                ejk.recurrence(step, states=states)
        self.assertEqual(ejk.recurrence(step, states=np.int64(1))._states, 1)
        for queries in (1, [1], None):
            with self.subTest(queries=queries), self.assertRaisesRegex(TypeError, "'queries' must be .* but is"):
                ejk.recurrence(step, queries=queries)

    def test_what_is_none(self):
        class Callable:
            def __call__(self, S, q, k, v):
                return S.add(k, v), S.read(q)
        for given in (Callable(), functools.partial(where_equal, reset=1.0)):
            with self.assertRaisesRegex(ejk.TraceError, "made of a function, but got a .*; write a def"):
                ejk.recurrence(given)
        with self.assertRaisesRegex(ejk.TraceError, "test_tracing.py.*'step' is a method.*self.step"):
            class Layer:
                @ejk.recurrence
                def step(self, S, q, k, v):
                    return S.add(k, v), S.read(q)


class Returned(unittest.TestCase):
    def test_what_cannot_be_returned_is_refused_at_the_steps_line(self):
        def swapped(S, q, k, v): return S.read(q), S.add(k, v)
        def named(S, q, k, v): return S.add(k, v), {"o": S.read(q)}
        def listed(S, q, k, v): return S.add(k, v), [S.read(q)]
        def nothing(S, q, k, v): return S.add(k, v), None
        def an_array(S, q, k, v): return S.add(k, v), np.ones(4)
        for step in (swapped, named, listed, nothing, an_array):
            q, k, v, _ = rows()
            with self.subTest(step.__name__), self.assertRaises(ejk.TraceError) as caught:
                ejk.recurrence(step)(q, k, v)
            self.assertIn(f"test_tracing.py:{step.__code__.co_firstlineno}: ", str(caught.exception))


class KindsOfStates(unittest.TestCase):
    """A state is a vector where the step makes it one, however it is used before."""

    def check(self, step, *states):
        fn = ejk.recurrence(step, states=len(states))
        q, k, v, _ = rows()
        zeros = tuple(np.zeros(shape, np.float32) for shape in states)
        for found, given in zip(fn(q, k, v)[:-1], fn(q, k, v, initial_state=zeros)[:-1]):
            np.testing.assert_array_equal(found, given)

    def test_a_vector(self):
        matrix, vector = (1, 2, *(rows()[i].shape[3] for i in (1, 2))), (1, 2, rows()[1].shape[3])

        def summed(S, z, q, k, v):
            S = S.decay(-ejk.sum(z * z) * 0.01).add(k, v)
            return S, z * 0.5 + k, S.read(q)
        self.check(summed, matrix, vector)

        def by_methods(S, z, q, k, v):
            S = S.decay(-z.max() * 0.01).decay(-0.1 * z, axis="key").add(z.rotate_half(), v)
            return S, z * 0.5 + k, S.read(q)
        self.check(by_methods, matrix, vector)

        def of_another(S, z, y, q, k, v):
            S = S.decay(-0.1 * ejk.sum(y * y)).add(k, v)
            return S, z * 0.5 + k, y * 0.5 + z, S.read(q)
        self.check(of_another, matrix, vector, vector)

    def test_a_number(self):
        q, k, v, _ = rows()

        def summed(S, z, q, k, v):
            S = S.decay(-ejk.sum(z)).add(k, v)
            return S, z * 0.5 + ejk.sum(k), S.read(q)

        def turned(S, z, q, k, v):
            return S.add(z.rotate_half(), v), z + 1.0, S.read(q)

        def with_axis(S, z, q, k, v):
            return S.decay(z, axis="key").add(k, v), z + 1.0, S.read(q)
        for step, message in ((summed, "sum takes a vector, but got a number"),
                              (turned, "rotate_half takes a vector, but got a number"),
                              (with_axis, "the gate is one number a head, so it has no axis")):
            line = step.__code__.co_firstlineno + 1
            for given in (None, (None, np.zeros((1, 2), np.float32))):
                with self.assertRaisesRegex(ejk.TraceError, f"test_tracing.py:{line}: {message}"):
                    ejk.recurrence(step, states=2)(q, k, v, initial_state=given)


class ChangingNumbers(unittest.TestCase):
    def test_one_warning_with_the_remedy(self):
        @ejk.recurrence
        def cooled(S, q, k, v, temperature, count):
            S = S.add(k, v)
            return S, S.read(q * temperature) + count
        q, k, v, _ = rows()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for i in range(8):
                cooled(q, k, v, 1.0 - i / 64, 3)
        self.assertEqual(len(caught), 1)
        self.assertRegex(str(caught[0].message), "'temperature'.*tensor of no dimensions")
        self.assertTrue(caught[0].filename.endswith("test_tracing.py"))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for i in range(8):
                cooled(q, k, v, np.array(1.0 - i / 64, np.float32), 3)

    def warned(self, call, count=8):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for i in range(count):
                call(1.0 - i / 64)
        self.assertTrue(all(w.filename.endswith("test_tracing.py") for w in caught))
        return [str(w.message) for w in caught]

    def test_a_scale_that_changes_has_a_remedy_that_compiles_once(self):
        q, k, v, _ = (x[:, :2] for x in rows())
        gate = -np.abs(q)
        calls = {
            "gla": lambda s: ejk.ops.gla(q, k, v, gate, scale=s),
            "lightning_attn": lambda s: ejk.ops.lightning_attn(q, k, v, 0, 2, scale=s),
            "delta_rule": lambda s: ejk.ops.delta_rule(q, k, v, gate[..., 0] + 1, scale=s)}
        for name, call in calls.items():
            (message,) = self.warned(call)
            self.assertRegex(message, f"^'{name}' is compiled for each value of 'scale'.* give scale=1.0 "
                                      "and multiply the output by the number$")
            o = call(0.625)[0]
            self.assertEqual(self.warned(lambda s: call(1.0)[0] * s), [])
            np.testing.assert_allclose(call(1.0)[0] * np.float32(0.625), o, rtol=1e-5)

    def test_sizes_that_change_are_no_changing_scale(self):
        def of_width(scale):
            x = np.ones((1, 2, 1, round(65 - 64 * scale) + 8), np.float32)
            ejk.ops.linear_attn(x, x, x, scale=x.shape[-1] ** -0.5)
            ejk.ops.retention(x, x, x)
        self.assertEqual(self.warned(of_width, 6), [])


class Warnings(unittest.TestCase):
    def test_the_interpreters_names_the_users_line(self):
        @ejk.recurrence
        def both_axes(S, q, k, v):
            S = S.decay(ejk.log(ejk.max(S.read(k)))).add(k, v)
            return S, S.read(S.read(v, axis="value"))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            both_axes(*rows()[:3])
        self.assertIn("interpreter", str(caught[0].message))
        self.assertTrue(caught[0].filename.endswith("test_tracing.py"))


if __name__ == "__main__":
    unittest.main()
