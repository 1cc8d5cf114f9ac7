"""Which of a kernel's choices ejk-measure has Triton try, and how its rows look as text."""
import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))
from measure.models import as_table
from measure.tuning import few

choices = [SimpleNamespace(kwargs={"BK": block}, num_warps=warps, num_stages=stages)
           for block in (32, 64) for warps in (2, 4, 8) for stages in (2, 3, 4)]
for count in (0, 1, 4, 100):
    picked = few(choices, count)
    assert len({id(choice) for choice in picked}) == len(picked)
    print(count, len(picked), *(f"{choice.num_warps}:{choice.kwargs['BK']}:{choice.num_stages}" for choice in picked[:4]))
peers = [{"who": "fla", "ms": 2.0, "error": 0.003, "eager": True}, {"who": "cuDNN", "failed": "no such heads"}]
print(as_table([{"shape": "GDN B=1", "gate": "mixed", "ms": 0.5, "floor_ms": 0.25, "both_ms": 2.0, "error": 0.002,
                 "gradient_error": 0.003, "of": "dg", "peers": peers}, {"shape": "KDA B=1", "gate": "mid", "failed": "no memory"}]))
