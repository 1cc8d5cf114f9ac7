"""Compares the barriers of plans with those of the PTX that is emitted for them.

    plan_barriers.py EJK_COMPILE FILE...

A plan has `tile.barrier`, and a barrier in each `tile.range_guard`. Kernels of other schedules do not count. Says for each
file and architecture how many there are in both, and ends with how many differ.
"""
import re
import subprocess
import sys
from pathlib import Path

compiler, *files = sys.argv[1:]
differ = 0
for file in files:
    for arch in ("sm_80", "sm_90a"):
        def emit(level):
            flags = ["--schedule=chunk", "--by-gates=always", f"--arch={arch}", f"--emit={level}", "-o", "-"]
            return subprocess.run([compiler, file, *flags], capture_output=True, text=True, check=True).stdout
        text = emit("plan")
        plan = len(re.findall(r"\btile\.(?:barrier|range_guard)\b", text))
        kernels = re.split(r"\.entry (\w+)", emit("ptx"))
        blocks = "".join(text for name, text in zip(kernels[1::2], kernels[2::2]) if "_blocks" in name)
        ptx = len(re.findall(r"^\s*(?:bar|barrier)\.(?:cta\.)?(?:sync|red)", blocks, re.MULTILINE))
        print(f"{Path(file).name} {arch}: {plan} barriers in the plan, {ptx} in the PTX")
        differ += plan != ptx
print(f"{differ} differ")
