"""Fails where a pass of the compiler's is not among the pipelines that mutants go through."""
import re
import sys
from pathlib import Path

root = Path(sys.argv[1])
corpus = (root / "tools/ejk-fuzz-mlir/Corpus.cpp").read_text()
passes = set()
for file in [*root.glob("passes/**/*.td"), *root.glob("lowering/**/*.td")]:
    passes |= set(re.findall(r'Pass<"(ejk-[a-z0-9-]+)"', file.read_text()))
assert len(passes) > 30, passes
missing = sorted(name for name in passes if not re.search(rf'["(,]{name}["){{,]', corpus))
if missing:
    sys.exit(f"not among the pipelines of Corpus.cpp: {', '.join(missing)}")
