"""ptxas's figures for the block programs of a folder: none may spill or use local memory."""
import argparse
import glob
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.append(os.path.join(HERE, "..", "..", "..", "tools", "ejk-fuzz"))

import ptxas_figures  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ejk-compile", required=True)
    parser.add_argument("--ptxas", required=True)
    parser.add_argument("folder")
    args = parser.parse_args()
    troubled = count = 0
    print(f"{'':22}{'':8}registers")
    for path in sorted(glob.glob(os.path.join(args.folder, "*.mlir"))):
        if ".entry" not in open(path, encoding="utf-8").read():
            continue
        for arch in ("sm_80", "sm_90"):
            for f in ptxas_figures.of_file(path, args.ejk_compile, args.ptxas, arch):
                trouble = f.stack or f.spilled
                troubled, count = troubled + bool(trouble), count + 1
                words = f"  {f.stack} bytes of local memory, {f.spilled} spilled" if trouble else ""
                print(f"{os.path.basename(path):22}{arch:8}{f.registers:9}{words}", flush=True)
    print(f"{count} kernels, {troubled} with trouble")
    return 1 if troubled else 0


if __name__ == "__main__":
    sys.exit(main())
