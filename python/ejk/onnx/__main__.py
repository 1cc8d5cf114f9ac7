"""Compiles an ONNX model to a kernel package.

    python3 -m ejk.onnx model.onnx -o model.ejk [--target=sm_90a] [--mlir] [--weights=FILE.npz]
"""

import argparse
import sys

from .._errors import EjkError
from . import compile


def main():
    parser = argparse.ArgumentParser(prog="python3 -m ejk.onnx",
                                     description="Compiles an ONNX model "
                                     "with linear attention to a kernel package.")
    parser.add_argument("model")
    parser.add_argument("-o", dest="output", help="the package's file")
    parser.add_argument("--target", help="one of ejk.targets(); this machine's CPU by default")
    parser.add_argument("--entry", default="model", help="the entry's name in the package")
    parser.add_argument("--mlir", action="store_true", help="print the MLIR")
    parser.add_argument("--weights",
                        help="write the initializers that the package takes as inputs, "
                                          "as an .npz file")
    options = parser.parse_args()
    if not options.output and not options.mlir:
        parser.error("nothing to do: give -o or --mlir")
    try:
        model = compile(options.model, options.entry)
        if options.mlir:
            print(model.mlir(), end="")
        if options.output:
            model.package(options.output, options.target)
            print(f"{options.output}: ({', '.join([*model.inputs, *model.weights])}) -> "
                  f"({', '.join(model.outputs)})")
        if options.weights:
            import numpy
            numpy.savez(options.weights, **model.weights)
    except (EjkError, OSError) as error:
        print(f"{options.model}: error: {error}", file=sys.stderr)
        return 1
    return 0


sys.exit(main())
