"""Gives names that are no architecture to every tool and pass that takes one: each is an error that
lists the known ones, and no more.

    unknown.py INPUT.mlir
"""
import subprocess
import sys

NAMES = ["sm_", "sm_70", "sm_79", "sm_9", "sm_90A", "sm_90x", "sm_90aa", "sm_100b", "sm_1000",
         "sm_900", "sm_99999999999", "sm_-90", "90", "90a", "compute_90", "gfx90a", "native", "help"]
COMMANDS = [
    ["ejk-compile", "--emit=ptx", "--arch={}"],
    ["ejk-compile", "--schedule=chunk", "--warp-specialize", "--arch={}"],
    ["ejk-run", "--random=B=1,T=2,H=1", "--arch={}"],
    ["ejk-opt", "--ejk-specialize", "--ejk-to-gpu=arch={}"],
    ["ejk-opt", "--ejk-specialize", "--ejk-to-gpu=arch={} schedule=chunk warp-specialize=true"],
    ["ejk-opt", "--ejk-specialize", "--ejk-select-schedule=arch={} schedule=chunk"],
    ["ejk-opt", "--ejk-assign-tile-layouts=arch={}"],
    ["ejk-opt", "--ejk-select-stages=arch={}"],
    ["ejk-opt", "--ejk-specialize-warps=arch={}"],
    ["ejk-opt", "--ejk-specialize", "--ejk-lower-to-gpu=arch={}"],
]
wrong = 0
for command in COMMANDS:
    for name in NAMES if command[0] != "ejk-opt" else NAMES[:6]:
        line = [part.format(name) for part in command] + [sys.argv[1]]
        done = subprocess.run(line, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said = f"unknown architecture '{name}'; the known ones are sm_80, "
        if done.returncode != 1 or done.stderr.count(said) != 1 or "PLEASE" in done.stderr:
            wrong += 1
            print(f"{' '.join(line)}: {done.returncode}: {done.stderr}")
print(f"{wrong} wrong")
