"""Compiled packages on disk, found again by the next process.

A file's name is a hash of all that its content depends on: the program, the options, the target
and the compiler. The file holds that hash and one of its content. A file is used where it is a
regular one of the user's own, nobody else may write it, and both hashes are right. The cache is a
convenience: whatever is wrong with it, a call compiles instead, and says so in the log "ejk".

The folder is $EJK_CACHE_DIR, or ejk in $XDG_CACHE_HOME or ~/.cache. It holds at most
$EJK_CACHE_SIZE bytes (K, M or G may follow the number), 1G where that is not set; the files that
were not used for longest are removed first. With EJK_CACHE_SIZE=0 nothing is kept.
"""

import collections
import errno
import hashlib
import os
import pathlib
import re
import stat
import time

from ._errors import EjkError

_MAGIC = b"ejk cache 1\n"
_HEADER = len(_MAGIC) + 41 + 65  # the key and the hash of the content, each with a newline
_NAMES = re.compile(r"[0-9a-f]{40}\.(ejk|mlir)")
_TEMPORARY = ".writing-"
_HOUR = 3600  # seconds: a file's time of last use is as exact as that

CacheInfo = collections.namedtuple("CacheInfo", "folder files bytes limit")


def folder():
    """The folder of the cache, which need not exist; None where there is no home."""
    if os.environ.get("EJK_CACHE_DIR"):
        return pathlib.Path(os.environ["EJK_CACHE_DIR"])
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return pathlib.Path(base) / "ejk" if base else pathlib.Path.home() / ".cache" / "ejk"
    except RuntimeError:
        return None


def limit():
    """How many bytes the folder may hold."""
    text = os.environ.get("EJK_CACHE_SIZE") or "1G"
    found = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not found:
        raise EjkError("EJK_CACHE_SIZE must be a number of bytes, such as 500M or 0, but is "
                       f"{text!r}")
    return int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2]]


def key_of(*parts):
    """A hash of texts; no two lists of texts are joined to the same bytes."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:40]


def read(key, suffix):
    """The bytes that are kept under a key, or None."""
    place, name = folder(), key + suffix
    if not place or not limit():
        return None
    try:
        # A pipe is not waited for, and a link is not followed.
        handle = os.open(place / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR):
            _say(place / name, "is a link" if error.errno == errno.ELOOP else error.strerror)
        return None
    try:
        return _take(handle, key)
    except (OSError, ValueError) as problem:
        _say(place / name, getattr(problem, "strerror", None) or problem)
        return None
    finally:
        os.close(handle)


def _take(handle, key):
    """What an open file holds; a ValueError where it is not what was kept under the key."""
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("is no regular file")
    if status.st_uid != os.geteuid():
        raise ValueError(f"belongs to the user {status.st_uid}")
    if status.st_mode & 0o022:
        raise ValueError("may be written by other users")
    if status.st_size > max(limit(), _HEADER):
        raise ValueError("is larger than the whole cache may be")
    with open(handle, "rb", closefd=False) as file:
        data = file.read(status.st_size)
    if data[:_HEADER] != _header(key, data[_HEADER:]):
        raise ValueError("is damaged, or was kept for another program")
    if time.time() - status.st_mtime > _HOUR:
        os.utime(handle)  # so that it is not taken for one that nobody uses
    return data[_HEADER:]


def _header(key, data):
    return _MAGIC + f"{key}\n{hashlib.sha256(data).hexdigest()}\n".encode()


def _say(path, problem):
    import logging  # here, because ejk is to be imported fast
    logging.getLogger("ejk").warning("ejk: %s of the cache is not used: it %s", path, problem)


def write(key, suffix, data):
    """Keeps `data` under a key, whole or not at all; why not, or None."""
    place, name = folder(), key + suffix
    if not place:
        return "there is no home folder; EJK_CACHE_DIR may name one"
    data = _header(key, data) + data
    if len(data) > limit():
        return f"it takes {len(data)} bytes and EJK_CACHE_SIZE is {limit()}"
    temporary = place / (_TEMPORARY + os.urandom(8).hex())
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Another process that writes the same name writes the same bytes, to a file of its own.
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return f"{place}: {error.strerror}"
    try:
        with open(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, place / name)
    except OSError as error:
        _remove(temporary)
        return f"{place}: {error.strerror}"
    except BaseException:  # Ctrl-C
        _remove(temporary)
        raise
    _evict(place, name)
    return None


def keep(key, suffix, data):
    """As `write`, where it is not kept already; else it counts as used now."""
    return None if read(key, suffix) == data else write(key, suffix, data)


def _remove(path):
    try:
        os.unlink(path)
    except OSError:
        pass


def _kept(place):
    """[(time of last use, bytes, path)] of the cache's files, temporary ones among them."""
    found = []
    try:
        with os.scandir(place) as files:
            for file in files:
                if _NAMES.fullmatch(file.name) or file.name.startswith(_TEMPORARY):
                    try:
                        status = file.stat(follow_symlinks=False)
                    except OSError:
                        continue  # another process has removed it
                    found.append((status.st_mtime, status.st_size, file.path))
    except OSError:
        pass  # there is none
    return found


def _evict(place, name):
    """Removes what was not used for longest, but not `name`, until a fifth of the room is free. What another process
    writes now stays."""
    files, most = _kept(place), limit()
    writing = [f for f in files if os.path.basename(f[2]).startswith(_TEMPORARY)]
    # What a process left behind that ended while it wrote.
    left = [f for f in writing if time.time() - f[0] > _HOUR]
    for _, _, path in left:
        _remove(path)
    total = sum(size for _, size, _ in files) - sum(size for _, size, _ in left)
    if total <= most:
        return
    for _, size, path in sorted(f for f in files if f not in writing):
        if total <= most * 4 // 5:
            break
        if os.path.basename(path) != name:
            _remove(path)
            total -= size


def info():
    """The folder, how many files it has, their bytes, and how many bytes it may hold."""
    place = folder()
    files = _kept(place) if place else []
    return CacheInfo(place, len(files), sum(size for _, size, _ in files), limit())


def clear():
    """Removes every package and program of the cache."""
    for _, _, path in _kept(folder()) if folder() else ():
        _remove(path)
