"""Runs the oracle's tests with their scans divided into segments.

    split_oracle.py --ejk-opt EJK_OPT --data DIR FILE...

Prints for each file how many scans or block programs of segments there are, how many scans could
not be divided, and whether the checks hold: step by step and, of recurrences, chunk by chunk.
"""
import argparse
import os
import subprocess

parser = argparse.ArgumentParser()
parser.add_argument("--ejk-opt", required=True)
parser.add_argument("--data", required=True, help="the oracle's numbers")
parser.add_argument("files", nargs="+")
options = parser.parse_args()

failed = 0


def run(name, file, pipeline):
    global failed
    ran = subprocess.run([options.ejk_opt, file] + pipeline +
                         [f"--ejk-interpret=folder={options.data}"], capture_output=True, text=True)
    segments = ran.stdout.count("segments<") + ran.stdout.count("segments <")
    segments += ran.stdout.count("segments #ejk.segments<")
    print(f"{name}: {segments} of segments, {ran.stderr.count('not split')} not split, "
          f"{'FAILED' if ran.returncode else 'ok'}")
    failed += ran.returncode != 0
    if ran.returncode:
        print(ran.stderr)


def split(rows):
    return [f"--ejk-split-over-time=least={rows} most={rows} count=9 packed={rows}",
            "--canonicalize", "--cse"]


for file in options.files:
    name = os.path.basename(file)
    derived = ["--ejk-specialize"] if name.startswith("recurrence") else [
        "--ejk-backward=checkpoint-every=2"]
    run(name, file, derived + split(2))
    # Gradients have saved states, of chunks that these sequences are shorter than.
    if name.startswith("recurrence"):
        run(name + " chunked", file, derived + split(2) + ["--ejk-chunk=force chunk=16"])
print(f"{len(options.files)} files, {failed} failed")
