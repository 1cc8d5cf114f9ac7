"""Runs kernels with partitions and mbarriers on the emulator and compares with NumPy: numbers
are small integers, so every sum is exact.

    partitions.py results      the kernels as they are
    partitions.py mistakes     with one mistake each, which must be found
    partitions.py ptx FOLDER   writes the kernels

EJK_CUDA_DRIVER names the emulator, EJK_EMULATOR_SEED its order of warps.
"""
import ctypes
import os
import sys

import numpy as np

sys.dont_write_bytecode = True
sys.path.append(os.path.dirname(os.path.realpath(__file__)))

import driver as cuda  # noqa: E402
import partition_kernels as kernels  # noqa: E402

ROWS, HEADS = 300, 2  # four chunks of 64 and a rest


def to_bf16(matrix):
    return (matrix.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def run_partitions(driver, mistake=None):
    """Says what is wrong; None where nothing is."""
    random = np.random.default_rng(1)
    a, b = (random.integers(-1, 2, (ROWS, HEADS, 64)) for _ in "ab")
    out = np.zeros((HEADS, 64, 64), np.uint16)
    tensors = [driver.upload(to_bf16(a)), driver.upload(to_bf16(b)), driver.upload(out)]
    inner = 32 if mistake == "short box" else 64
    maps = [*(cuda.tensor_map(driver, t, (64, HEADS, ROWS, 1), (128, 128 * HEADS, 128 * HEADS * ROWS),
                              (inner, 1, 64, 1)) for t in tensors[:2]),
            cuda.tensor_map(driver, tensors[2], (64, 64, HEADS), (128, 128 * 64), (64, 64, 1))]
    driver.launch(kernels.partitions(mistake), "partitions", 256,
                  [*maps, ctypes.c_uint32((ROWS + 63) // 64)], blocks=HEADS)
    expected = np.zeros(out.shape)
    for row in range(0, ROWS, 64):
        left, right = (np.zeros((64, HEADS, 64)) for _ in "ab")
        left[:len(a[row:row + 64])], right[:len(b[row:row + 64])] = a[row:row + 64], b[row:row + 64]
        expected += np.einsum("ihk,jhk->hij", left, right)
    wrong = np.count_nonzero(from_bf16(driver.download(tensors[2], out)) != expected)
    return wrong and f"{wrong} numbers are wrong"


def run_reports(driver, mistake=None):
    random = np.random.default_rng(2)
    a, b = (random.integers(0, 1000, (128, 4), np.uint32) for _ in "ab")
    result = cuda.run(driver, kernels.reports(mistake), "reports", 128, [a, b], np.zeros_like(a))
    wrong = np.count_nonzero(result != a[::-1] + b)
    return wrong and f"{wrong} numbers are wrong"


def check_results(driver):
    failed = 0
    for run in (run_partitions, run_reports):
        try:
            wrong = run(driver)
        except cuda.DriverError as error:
            wrong = error
        failed += bool(wrong)
        print("FAIL" if wrong else "pass", run.__name__, wrong or "")
    print(f"2 kernels, {failed} failed")
    return failed


def check_mistakes(driver):
    cases = [(run_partitions, m) for m in kernels.MISTAKES] + \
        [(run_reports, m) for m in ("wait", "named barrier")]
    return cuda.count_mistakes([(m, lambda run=run, m=m: run(driver, m)) for run, m in cases])


if __name__ == "__main__":
    cuda.main([(k.__name__, k()) for k in (kernels.partitions, kernels.reports)],
              {"results": check_results, "mistakes": check_mistakes})
