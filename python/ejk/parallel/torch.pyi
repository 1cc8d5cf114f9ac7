"""Functions of ejk.ops over segments, with their arguments and a group or mesh."""

from typing import Any

def __getattr__(name: str) -> Any: ...
