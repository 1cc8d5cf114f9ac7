"""`ejk.serving` in the emulator: prefills of lightning attention whose f32 rows go chunk by chunk, and offsets that
are none.

EJK_CUDA_DRIVER=build/lib/libejk-emulated-cuda.so python3 -m unittest test_serving_emulated"""

import unittest

import numpy as np
from emulator import emulated

from ejk import serving

H, D, ROWS = 2, 32, 140


class Lightning(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng(0)
        self.q, self.k, self.v = (self.rng.standard_normal((1, ROWS, H, D)).astype("f4") for _ in range(3))
        self.slope = (self.rng.random(H) / 2).astype("f4")

    def exact(self, own, S):
        outputs, decay = [], np.exp(-self.slope.astype("f8"))[:, None, None]
        for t in range(own.start, own.stop):
            S = S * decay + self.k[0, t, :, :, None].astype("f8") * self.v[0, t, :, None]
            outputs.append(np.einsum("hkv,hk->hv", S, self.q[0, t]))
        return np.array(outputs), S

    def assertClose(self, found, expected, limit):
        self.assertLess(np.linalg.norm(found - expected), limit * np.linalg.norm(expected))

    def test_prefills(self):
        ends, reads, writes = [0, 70, 75, ROWS, ROWS], [3, -1, 5, -1], [3, 2, 5, -1]
        # An error of f32's own rounding, and of two and three bf16 terms of each operand.
        for matmuls, limit in ((None, 3e-7), ("bf16x3", 1e-5), ("bf16x6", 1e-6)):
            with self.subTest(matmuls=matmuls), emulated() as device:
                pages = device.place(self.rng.standard_normal((8, H * D * D + 64)).astype("f4"))
                pool = np.lib.stride_tricks.as_strided(pages, (8, H, D, D), (pages.strides[0], 4 * D * D, 4 * D, 4))
                before = pages.copy()
                o = serving.lightning(
                    self.q, self.k, self.v, self.slope, f32_matmuls=matmuls, pool=pool, first_slot=1,
                    read_slots=np.array(reads, "i4"), write_slots=np.array(writes, "i4"),
                    cu_seqlens=np.array(ends, "i4"))
                self.assertEqual(device.calls, 1)
                for n in range(3):
                    start = before[reads[n], :H * D * D].reshape(H, D, D) if reads[n] > 0 else np.zeros((H, D, D))
                    own = slice(ends[n], ends[n + 1])
                    expected, state = self.exact(own, start)
                    self.assertClose(o[0, own], expected, limit)
                    self.assertClose(pool[writes[n]], state, limit)
                    before[writes[n], :H * D * D] = pages[writes[n], :H * D * D]
                np.testing.assert_array_equal(pages, before)

    def test_a_last_offset_outside_of_the_rows(self):
        """Nobody checks what lies in a GPU's memory: a sequence then ends where rows begin or end."""
        for dtype in ("i4", "i8"):
            for last, end in ((-5, 0), (-2**31, 0), (ROWS + 5, ROWS), (2**31 - 1, ROWS)):
                with self.subTest(dtype=dtype, last=last), emulated() as device:
                    pool = self.rng.standard_normal((3, H, D, D)).astype("f4")
                    expected, state = self.exact(slice(0, end), pool[1])
                    o = serving.lightning(self.q, self.k, self.v, self.slope, pool=pool, read_slots=np.array([1], "i4"),
                                          write_slots=np.array([2], "i4"), cu_seqlens=np.array([0, last], dtype))
                    self.assertEqual(device.calls, 1)
                    self.assertClose(pool[2], state, 3e-7)
                    if end:
                        self.assertClose(o[0], expected, 3e-7)
                    else:
                        self.assertFalse(o.any())


if __name__ == "__main__":
    unittest.main()
