"""ejk under Hugging Face's layers, for type checkers."""

from ._patch import Patch

def install() -> Patch: ...
