"""Multiplies with wgmma on the emulator and compares with NumPy: numbers are small
integers, so every sum is exact.

    warpgroups.py products      A and B of all layouts that descriptors describe
    warpgroups.py mistakes      kernels with one mistake each, which must be found
    warpgroups.py ptx FOLDER    writes the kernels of `products`

EJK_CUDA_DRIVER names the emulator.
"""
import itertools
import os
import sys

import numpy as np

sys.dont_write_bytecode = True
sys.path.append(os.path.dirname(os.path.realpath(__file__)))

import driver as cuda  # noqa: E402
import warpgroup_kernels as kernels  # noqa: E402

# Type, columns, A, B and its rows' bytes, signs; "K" and "MN" are what is contiguous.
PRODUCTS = [
    *itertools.product(["bf16"], [32, 64, 128], ["K", "MN", "registers"], ["K", "MN"], [128],
                       [(1, 1)]),
    *itertools.product(["f16"], [64], ["K", "MN"], ["K", "MN"], [64, 32, 16], [(1, 1)]),
    *itertools.product(["bf16"], [16, 24, 256], ["K"], ["K"], [128], [(1, 1)]),
    ("f16", 128, "registers", "K", 128, (-1, 1)),
    ("bf16", 64, "K", "MN", 128, (1, -1)),
    *itertools.product(["tf32"], [32, 64, 128], ["K", "registers"], ["K"], [128], [(1, 1)]),
    ("tf32", 64, "K", "K", 64, (-1, 1)),
]


def bits(matrix, kind):
    """In words of 16 bits, of which a number of tf32 has two."""
    if kind == "f16":
        return matrix.astype(np.float16).view(np.uint16)
    if kind == "tf32":
        return matrix.astype(np.float32).view(np.uint16)
    return (matrix.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def prepare(kind, columns, left, right, pitch, signs, mistake=None, off=0):
    """The kernel, its inputs, A being `off` by so much, and what it gives."""
    random = np.random.default_rng(columns)
    a = random.integers(-8, 9, (64, kernels.K)) + off
    b = random.integers(-8, 9, (columns, kernels.K))
    a_bits = bits(a, kind)
    operand_a = None
    if left != "registers":
        operand_a = kernels.Operand(a_bits, left == "K", pitch, 0)
    # A box is as wide as the swizzle, and no wider than the matrix.
    operand_b = kernels.Operand(bits(b, kind), right == "K",
                                pitch if right == "K" else min(pitch, 2 * columns),
                                operand_a.bytes if operand_a else 0)
    ptx = kernels.gemm(kind, columns, operand_a, operand_b, signs, mistake)
    inputs = [operand_a.image if operand_a else a_bits, operand_b.image]
    return ptx, inputs, (signs[0] * signs[1] * (a @ b.T)).astype(np.float32)


def run(driver, ptx, inputs, output):
    return cuda.run(driver, ptx, "gemm", 128, inputs, np.zeros_like(output))


def check_products(driver):
    failed = 0
    for case in PRODUCTS:
        ptx, inputs, expected = prepare(*case)
        try:
            wrong = np.count_nonzero(run(driver, ptx, inputs, expected) != expected)
        except cuda.DriverError as error:
            wrong = error
        failed += bool(wrong)
        print("FAIL" if wrong else "pass", *case, wrong or "")
    print(f"{len(PRODUCTS)} products, {failed} failed")
    return failed


def check_mistakes(driver):
    def attempt(mistake):
        of_registers = ("fence after A", "writes A in flight", "accumulates into A")
        left = "registers" if mistake in of_registers else "K"
        ptx, inputs, expected = prepare("bf16", 32, left, "K", 128, (1, 1), mistake)
        run(driver, ptx, inputs, expected)

    def multiply_f32(left):
        ptx, inputs, expected = prepare("tf32", 32, left, "K", 128, (1, 1), off=2.0 ** -12)
        run(driver, ptx, inputs, expected)
    return cuda.count_mistakes([*((m, lambda m=m: attempt(m)) for m in kernels.MISTAKES),
                                *((f"f32 from {left}", lambda left=left: multiply_f32(left))
                                  for left in ("K", "registers"))])


if __name__ == "__main__":
    cuda.main([("-".join(map(str, [*case[:5], *case[5]])), prepare(*case)[0]) for case in PRODUCTS],
              {"products": check_products, "mistakes": check_mistakes})
