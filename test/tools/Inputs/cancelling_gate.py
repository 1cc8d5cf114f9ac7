"""Inputs of a derivative, in the safetensors file that is named, of two heads and two steps.

The gradient of the second step's gate is a product of two rows. In the first head its terms cancel: they are exact in
f64, and their sum is zero; f32 rounds the first one.
"""
import os
import sys

import numpy as np

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "oracle"))

import tensors  # noqa: E402

small = 2.0 ** -12
inputs = {name: np.ones((1, 2, 2, channels)) for name, channels in (("q", 1), ("k", 1), ("v", 3), ("do", 3))}
inputs["g"] = np.zeros((1, 2, 2))
inputs["v"][0, 0, 0] = 1 + small, 1 + 2 * small, small * small
inputs["do"][0, 1, 0] = 1 + small, -1, -1
tensors.write_safetensors(sys.argv[1], {name: ("f32", array) for name, array in inputs.items()})
