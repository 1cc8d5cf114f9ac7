"""A simulated engine on states in a pool: each request's outputs are those of its whole sequence at once.

EJK_TEST_CASES=1000 python3 -m unittest test_pools_engine     # so many schedules, from EJK_TEST_FIRST on
EJK_CUDA_DRIVER=build/lib/libejk-emulated-cuda.so EJK_TEST_DEVICE=emulator python3 -m unittest test_pools_engine"""

import contextlib
import os
import unittest

import numpy as np
from emulator import emulated
from simulated_engine import Engine

CASES, FIRST = int(os.environ.get("EJK_TEST_CASES", 30)), int(os.environ.get("EJK_TEST_FIRST", 0))
IS_EMULATED = os.environ.get("EJK_TEST_DEVICE") == "emulator"


class Schedules(unittest.TestCase):
    def test_schedules(self):
        with emulated() if IS_EMULATED else contextlib.nullcontext() as device:
            for seed in range(FIRST, FIRST + CASES):
                with self.subTest(seed=seed):
                    Engine(np.random.default_rng(seed), device=device).run()
            if device:
                self.assertGreater(device.calls, 0)


if __name__ == "__main__":
    unittest.main()
