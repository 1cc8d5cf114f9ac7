"""Files that are written whole or not at all."""

import os
import stat


def write_whole(path, data):
    """Writes `data` to `path`. Who reads the path sees the old contents or the new ones: the data
    goes to another file of the same folder, is flushed, and then takes the old one's place. A link
    stays, and what it leads to is replaced. A pipe or a device is written as it is."""
    target = os.path.realpath(os.fspath(path))
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        with open(target, "wb") as file:
            file.write(data)
        return
    if mode is not None and not os.access(target, os.W_OK):
        raise PermissionError(13, "the file is read-only", os.fspath(path))
    folder = os.path.dirname(target)
    temporary = os.path.join(folder, f".ejk-{os.urandom(8).hex()}.tmp")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from None
    try:
        with open(handle, "wb") as file:
            if mode is not None:
                os.fchmod(handle, stat.S_IMODE(mode) & 0o777)
            file.write(data)
            file.flush()
            os.fsync(handle)
        os.replace(temporary, target)
    except BaseException as error:
        os.unlink(temporary)
        if isinstance(error, OSError):
            error.filename = os.fspath(path)
        raise
