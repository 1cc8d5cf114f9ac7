"""Whether passes count what they do: statistics.py SOURCES REPORT.

Each pass of SOURCES/docs/passes.md must declare a statistic. REPORT is what `ejk-opt --mlir-pass-statistics`
printed. An LLVM without statistics (NDEBUG, and no LLVM_FORCE_ENABLE_STATS, as Debian's) prints an empty one.
"""
import re
import sys
from pathlib import Path

page = (Path(sys.argv[1]) / "docs/passes.md").read_text(encoding="utf-8")
sections = re.split(r"^### `(--[\w-]+)`$", page, flags=re.MULTILINE)[1:]
passes = dict(zip(sections[::2], sections[1::2]))
silent = [name for name, text in passes.items() if "##### Statistics" not in text]
print(f"{len(passes)} passes, {len(silent)} without a statistic", *silent)

report = Path(sys.argv[2]).read_text(encoding="utf-8")
counts = re.findall(r"\(S\)\s+(\d+) (\w+)", report)
print("statistics:", ", ".join(f"{count} {name}" for count, name in counts) if counts else "none in this LLVM")
