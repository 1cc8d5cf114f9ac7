"""Compiled packages on disk, found again by the next process.

A file's name is a hash of all that its content depends on: the program, the options, the target
and the compiler. The cache is a convenience: whatever is wrong with it, a call compiles instead.
The folder is $EJK_CACHE_DIR, or ejk in $XDG_CACHE_HOME or ~/.cache.
"""

import hashlib
import os
import pathlib
import tempfile


def folder():
    """The folder of the cache, which need not exist; None where there is no home."""
    if os.environ.get("EJK_CACHE_DIR"):
        return pathlib.Path(os.environ["EJK_CACHE_DIR"])
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return pathlib.Path(base) / "ejk" if base else pathlib.Path.home() / ".cache" / "ejk"
    except RuntimeError:
        return None


def key_of(*parts):
    """A hash of texts; no two lists of texts are joined to the same bytes."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:40]


def read(name):
    """The bytes of a file of the cache, or None."""
    place = folder()
    try:
        return (place / name).read_bytes() if place else None
    except OSError:
        return None


def write(name, data):
    """Keeps `data` under `name`, whole or not at all; whether it did."""
    place = folder()
    if not place:
        return False
    temporary = None
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Another process that writes the same name writes the same bytes, to a file of its own.
        handle, temporary = tempfile.mkstemp(dir=place, prefix=".writing-")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, place / name)
        return True
    except OSError:
        if temporary:
            try:
                os.unlink(temporary)
            except OSError:
                pass
        return False


def forget(name):
    """Removes a file that turned out to be damaged."""
    place = folder()
    try:
        if place:
            (place / name).unlink()
    except OSError:
        pass


def clear():
    """Removes every package and program of the cache."""
    place = folder()
    if place and place.is_dir():
        for file in place.iterdir():
            if file.suffix in (".ejk", ".mlir") or file.name.startswith(".writing-"):
                forget(file.name)
