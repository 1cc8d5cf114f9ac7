"""The cache of packages, for type checkers."""

import pathlib
from typing import NamedTuple

class CacheInfo(NamedTuple):
    folder: pathlib.Path | None
    files: int
    bytes: int
    limit: int

def folder() -> pathlib.Path | None: ...
def limit() -> int: ...
def info() -> CacheInfo: ...
def clear() -> None: ...
