"""Functions with the signatures of other libraries, which these give types or not."""

from typing import Any

def __getattr__(name: str) -> Any: ...
