"""Arrays that are not plain: each kind is computed right, in any place of a call, or refused."""

import os
import tempfile
import unittest

import numpy as np

import ejk

RNG = np.random.default_rng(0)
Q, K, V = RNG.normal(size=(3, 1, 6, 2, 4)).astype("f4")
ARRAYS = (Q, K, V, -RNG.random((1, 6, 2)).astype("f4"))


@ejk.recurrence
def gated(S, q, k, v, g):
    S = S.decay(g).add(k, v)
    return S, S.read(q)


class Kind(np.ndarray):
    """A subclass without behaviour of its own."""


def swapped(a):
    return a.astype(a.dtype.newbyteorder("S"))


def field(a, layout):
    """A field of a structure, which has others beside it."""
    whole = np.zeros(a.shape, np.dtype(layout))
    whole["a"] = a
    return whole["a"]


def mapped(a):
    with tempfile.TemporaryDirectory() as folder:
        found = np.memmap(os.path.join(folder, "file"), a.dtype, "w+", shape=a.shape)
        found[...] = a
        return found


def read_only(a):
    a = a.copy()
    a.setflags(write=False)
    return a


RIGHT = {"of another byte order": swapped, "a subclass": lambda a: a.view(Kind),
         "mapped": mapped, "a field": lambda a: field(a, [("a", "<f4"), ("b", "<f4")]),
         "a field at an odd address": lambda a: field(a, [("b", "u1"), ("a", ">f4")]),
         "of negative strides": lambda a: np.ascontiguousarray(a[:, ::-1])[:, ::-1],
         "column by column": np.asfortranarray, "read-only": read_only,
         "unmasked": lambda a: np.ma.masked_array(a, False),
         "at an odd address": lambda a: np.frombuffer(b"x" + a.tobytes(), "u1")[1:].view(
             "f4").reshape(a.shape)}
REFUSED = {"masked": (lambda a: np.ma.masked_array(a, a != 0), "masked elements"),
           "structures": (lambda a: field(a, [("a", "<f4")]).view([("a", "<f4")]), "element type"),
           "objects": (lambda a: a.astype(object), "element type object"),
           "long doubles": (lambda a: a.astype(np.longdouble), "element type"),
           "complex": (lambda a: a.astype("c8"), "element type complex64"),
           "booleans": (lambda a: a > 0, "element type bool"),
           "times": (lambda a: a.astype("M8[s]"), "element type datetime64"),
           "text": (lambda a: a.astype(str), "element type")}
PLACES = [{0}, {1}, {2}, {3}, {0, 1, 2, 3}]


class Kinds(unittest.TestCase):
    """With `own` given, arrays of another library stand beside those of a kind."""

    own = staticmethod(lambda a: a)

    def call(self, make, place, **named):
        return gated(*(make(a) if i in place else self.own(a) for i, a in enumerate(ARRAYS)),
                     **named)

    def test_kinds_that_are_right(self):
        wanted = gated(*ARRAYS)
        for kind, make in RIGHT.items():
            for place in PLACES:
                with self.subTest(kind, place=sorted(place)):
                    for a, b in zip(self.call(make, place), wanted):
                        np.testing.assert_array_equal(a, b)

    def test_kinds_that_are_refused(self):
        for kind, (make, reason) in REFUSED.items():
            for place in PLACES:
                with self.subTest(kind, place=sorted(place)), \
                        self.assertRaisesRegex(ejk.TensorError, reason):
                    self.call(make, place)

    def test_offsets_and_states(self):
        cu = np.array([0, 2, 6], "i4")
        state = RNG.normal(size=(2, 2, 4, 4)).astype("f4")
        wanted = gated(*ARRAYS, initial_state=state, cu_seqlens=cu)
        for offsets in (swapped(cu), swapped(cu.astype("i8")), mapped(cu)):
            found = self.call(swapped, {0}, initial_state=swapped(state), cu_seqlens=offsets)
            for a, b in zip(found, wanted):
                np.testing.assert_array_equal(a, b)
        for offsets in (cu.astype("u4"), np.ma.masked_array(cu, [0, 1, 0])):
            with self.assertRaises(ejk.TensorError):
                self.call(swapped, {0}, cu_seqlens=offsets)

    def test_a_check_against_the_interpreter(self):
        errors = gated.check(*map(swapped, ARRAYS), cu_seqlens=swapped(np.array([0, 2, 6])))
        self.assertLess(max(errors.values()), 1e-6)


if __name__ == "__main__":
    unittest.main()
