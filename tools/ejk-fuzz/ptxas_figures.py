"""What ptxas says of kernels: registers, shared memory, and what spilled."""
import collections
import os
import re
import subprocess
import tempfile

Figures = collections.namedtuple("Figures", "kernel registers shared stack spilled")


def of_file(mlir, ejk_compile, ptxas, arch, options=()):
    """The Figures of each kernel of an MLIR file, compiled with more `options` where some are
    given, or RuntimeError with what went wrong."""
    with tempfile.TemporaryDirectory(prefix="ejk-ptxas-") as folder:
        ptx = os.path.join(folder, "kernels.ptx")
        said(ejk_compile, mlir, *options, "--emit=ptx", f"--arch={arch}", "-o", ptx)
        return parse(said(ptxas, "-v", f"-arch={arch}", ptx, "-o", os.path.join(folder, "cubin")))


def said(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = done.stdout.decode(errors="replace")
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{text[-2000:]}")
    return text


def parse(text):
    kernels = []
    for block in re.split(r"Compiling entry function ", text)[1:]:
        number = lambda pattern: int((re.search(pattern, block) or [0, 0])[1])
        kernels.append(Figures(re.match(r"'(\w+)'", block)[1], number(r"Used (\d+) registers"),
                               number(r"(\d+) bytes smem"), number(r"(\d+) bytes stack frame"),
                               number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads")))
    return kernels
