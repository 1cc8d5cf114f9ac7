"""Runs the oracle's tests with their scans as block programs.

    chunk_oracle.py --ejk-opt EJK_OPT --data DIR [--then PASS]... FILE...

Prints for each file how many of its scans became programs and whether the checks
still hold, behind the passes `--then` as well.
"""
import argparse
import os
import re
import subprocess

parser = argparse.ArgumentParser()
parser.add_argument("--ejk-opt", required=True)
parser.add_argument("--data", required=True, help="the oracle's numbers")
parser.add_argument("--then", action="append", default=[])
parser.add_argument("files", nargs="+")
options = parser.parse_args()

failed = 0


def run(name, file, pipeline):
    global failed
    command = [options.ejk_opt, file] + pipeline + options.then + [
        f"--ejk-interpret=folder={options.data}"]
    ran = subprocess.run(command, capture_output=True, text=True)
    programs, scans = ran.stdout.count("tile.program"), ran.stdout.count(" ejk.scan ")
    failed += ran.returncode != 0
    print(f"{name}: {programs} programs, {scans} scans, {'ok' if not ran.returncode else 'FAILED'}")
    if ran.returncode:
        print(ran.stderr)


for file in options.files:
    name = os.path.basename(file)
    pipeline = ["--ejk-backward=gate-gradients=suffix"]
    if name.startswith("vjp2"):
        function = re.search(r"ejk-backward=\"function=(\w+)", open(file).read()).group(1)
        pipeline = [f"--ejk-backward=function={function} gate-gradients=suffix",
                    f"--ejk-derive-backward=function={function}_vjp"]
    elif name.startswith(("recurrence", "delta")):
        pipeline = ["--ejk-specialize"]
    elif name.startswith("vjp"):
        # With states saved, and all gradients in one pass.
        run(name + " fused", file, ["--ejk-backward=checkpoint-every=16", "--ejk-hoist-reductions",
                                    "--ejk-chunk=force chunk=16", "--ejk-fuse-programs"])
    run(name, file, pipeline + ["--ejk-chunk=force chunk=16"])
print(f"{len(options.files)} files, {failed} failed")
