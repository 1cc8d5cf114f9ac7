"""Runs kernels whose blocks run in clusters on the emulator and compares with NumPy.

    clusters.py results      the kernels as they are
    clusters.py mistakes     with one mistake each, which must be found
    clusters.py ptx FOLDER   writes the kernels

EJK_CUDA_DRIVER names the emulator, EJK_EMULATOR_SEED its order of blocks and warps.
"""
import ctypes
import os
import sys

import numpy as np

sys.dont_write_bytecode = True
sys.path.append(os.path.dirname(os.path.realpath(__file__)))

import cluster_kernels as kernels  # noqa: E402
import driver as cuda  # noqa: E402

STEPS, CLUSTERS = 7, 3


def differences(found, expected):
    wrong = np.count_nonzero(found != expected)
    return wrong and f"{wrong} numbers are wrong"


def run_ring(driver, blocks, mistake=None, grid=None):
    """Says what is wrong; None where nothing is."""
    random = np.random.default_rng(1)
    rows = STEPS * blocks * kernels.ROWS
    a = random.integers(0, 1000, (rows, CLUSTERS, 64), np.uint16)
    tensor = driver.upload(a)
    out = driver.upload(np.zeros((CLUSTERS, blocks, 64), np.uint32))
    tensor_map = cuda.tensor_map(driver, tensor, (64, CLUSTERS, rows, 1),
                                 (128, 128 * CLUSTERS, 128 * CLUSTERS * rows),
                                 (64, 1, kernels.ROWS, 1), swizzle=0)
    driver.launch(kernels.ring(blocks, mistake), "ring", 128,
                  [tensor_map, ctypes.c_uint32(STEPS), out], blocks=grid or CLUSTERS * blocks)
    sums = np.zeros((CLUSTERS, blocks, 64), np.uint32)
    for row in a:
        sums = sums * np.uint32(3) + row[:, None] * np.arange(1, blocks + 1, dtype=np.uint32)[:, None]
    return differences(driver.download(out, sums), sums)


def run_signal(driver, blocks, mistake=None):
    out = driver.upload(np.zeros((CLUSTERS, blocks, 64), np.uint32))
    driver.launch(kernels.signal(blocks, mistake), "signal", 64, [out], blocks=CLUSTERS * blocks)
    numbers = np.arange(CLUSTERS * blocks * 64, dtype=np.uint32).reshape(CLUSTERS, blocks, 64)
    return differences(driver.download(out, numbers), np.roll(numbers, -1, axis=1))


def run_exchange(driver, blocks, mistake=None):
    out = driver.upload(np.zeros((CLUSTERS, blocks, 64), np.uint32))
    driver.launch(kernels.exchange(blocks, mistake), "exchange", 64, [out], blocks=CLUSTERS * blocks)
    numbers = np.arange(CLUSTERS * blocks * 64, dtype=np.uint32).reshape(CLUSTERS, blocks, 64)
    written = np.roll(numbers, 1, axis=1)
    return differences(driver.download(out, numbers), written + written[:, :1])


def run_turns(driver, blocks, mistake=None):
    out = driver.upload(np.zeros(2, np.float32))
    count = 5 * blocks
    driver.launch(kernels.turns(blocks, mistake), "turns", 32, [out], blocks=count)
    found = driver.download(out, np.zeros(2, np.float32))
    return differences(found[0], count * (count - 1) / 2)


def check_results(driver):
    failed = 0
    for run in (run_ring, run_signal, run_exchange, run_turns):
        for blocks in (1, 2, 4):
            try:
                wrong = run(driver, blocks)
            except cuda.DriverError as error:
                wrong = error
            failed += bool(wrong)
            print("FAIL" if wrong else "pass", run.__name__, blocks, wrong or "")
    print(f"12 kernels, {failed} failed")
    return failed


def check_mistakes(driver):
    cases = [(f"{run.__name__[4:]} of {blocks}, {m}",
              lambda run=run, blocks=blocks, m=m: run(driver, blocks, m))
             for blocks in (2, 4)
             for run, mistakes in ((run_ring, kernels.RING_MISTAKES),
                                   (run_signal, kernels.SIGNAL_MISTAKES),
                                   (run_exchange, kernels.EXCHANGE_MISTAKES)) for m in mistakes]
    cases.append(("a grid of no whole clusters", lambda: run_ring(driver, 2, grid=5)))
    return cuda.count_mistakes(cases)


if __name__ == "__main__":
    cuda.main([(f"{k.__name__}{blocks}", k(blocks))
               for k in (kernels.ring, kernels.signal, kernels.exchange, kernels.turns) for blocks in (2, 4)],
              {"results": check_results, "mistakes": check_mistakes})
