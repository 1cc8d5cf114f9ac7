"""Compiles a function for each architecture, by steps and by chunks, and has ptxas assemble it.

    compile.py EJK_COMPILE INPUT.mlir FOLDER [PTXAS]
"""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
from rows import assemble, rows  # noqa: E402


def main(ejk_compile, source, folder, ptxas=None):
    os.makedirs(folder, exist_ok=True)
    compiled = assembled = 0
    for row in rows(ejk_compile):
        arch = row["--arch"]
        for schedule in ("step", "chunk"):
            path = os.path.join(folder, f"{arch}-{schedule}.ptx")
            done = subprocess.run([ejk_compile, source, f"--arch={arch}", f"--schedule={schedule}",
                                   "--emit=ptx", "-o", path], text=True, stderr=subprocess.PIPE)
            if done.returncode:
                print(f"{arch} {schedule}: {done.stderr}")
                continue
            with open(path) as file:
                text = file.read()
            matmul = "wgmma" if row["wgmma"] == "yes" else "mma.sync"
            for wanted in (f".version {row['PTX']}\n", f".target {arch}\n",
                           *([f"{matmul}."] if schedule == "chunk" else [])):
                if wanted not in text:
                    print(f"{arch} {schedule}: there is no '{wanted.strip()}'")
            compiled += 1
            problem = assemble(ptxas, arch, path, path + ".cubin") if ptxas else None
            if problem:
                print(f"{arch} {schedule}: {problem}")
            assembled += problem == ""
    print(f"{compiled} compiled")
    if ptxas:
        print(f"{assembled} assembled")


main(*sys.argv[1:])
