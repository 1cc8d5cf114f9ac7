"""Runs the oracle's tests, or others like them, with their scans divided into segments.

    split_oracle.py --ejk-opt EJK_OPT --data DIR FILE...

Prints for each file how many scans or block programs of segments there are, how many scans could
not be divided, how many restart from saved states, and whether the checks hold: in segments of two rows, step by
step and, of recurrences, chunk by chunk; in halves; and where scans of derivatives restart, with the others
whole and in halves.
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
          f"{ran.stdout.count('ejk.segment_starts')} restart, {'FAILED' if ran.returncode else 'ok'}")
    failed += ran.returncode != 0
    if ran.returncode:
        print(ran.stderr)


def split(rows):
    return [f"--ejk-split-over-time=least={rows} most={rows} count=9 packed={rows}",
            "--canonicalize", "--cse"]


halves = ["--ejk-split-over-time=halves least=2", "--canonicalize", "--cse"]
restart = ["--ejk-restart-scans=rows=2"]

for file in options.files:
    name = os.path.basename(file)
    derived = ["--ejk-specialize"] if name.startswith("recurrence") else [
        "--ejk-backward=checkpoint-every=2"]
    run(name, file, derived + split(2))
    # Gradients have saved states, of chunks that these sequences are shorter than.
    if name.startswith("recurrence"):
        run(name + " chunked", file, derived + split(2) + ["--ejk-chunk=force chunk=16"])
    run(name + " in halves", file, derived + halves)
    if not name.startswith("recurrence"):
        derived += ["--canonicalize", "--ejk-separate-states"]
        run(name + " restarting", file, derived + restart)
        run(name + " restarting, in halves", file, derived + restart + halves)
print(f"{len(options.files)} files, {failed} failed")
