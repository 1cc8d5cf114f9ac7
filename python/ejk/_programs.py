"""The programs that are installed with the package."""

import ctypes
import os
import pathlib
import signal
import sys

_HERE = pathlib.Path(__file__).parent


def _start(name):
    program = str(_HERE / "bin" / name)
    os.execv(program, [program, *sys.argv[1:]])


def launch():
    """`ejk-launch`, which runs kernel packages."""
    _start("ejk-launch")


def run():
    """`ejk-run`, which compiles MLIR, runs it, checks the results and times it. In a wheel for many
    systems it is a function of the compiler's library."""
    if (_HERE / "bin" / "ejk-run").exists():
        _start("ejk-run")
    library = ctypes.CDLL(str(_HERE / "lib" / "libejk-compiler.so"))
    arguments = [b"ejk-run", *map(os.fsencode, sys.argv[1:])]
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python would wait for the function to return
    sys.exit(library.ejk_run(len(arguments), (ctypes.c_char_p * (len(arguments) + 1))(*arguments)))
