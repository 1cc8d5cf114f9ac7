"""The errors that ejk raises, and its warnings."""

import os
import sys
import warnings
from collections import namedtuple

PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class EjkError(Exception):
    """The base of every error that is ejk's own."""


class TraceError(EjkError, TypeError):
    """A recurrence's function does what a step cannot. The message names the user's own line."""


class TensorError(EjkError, ValueError):
    """A tensor of a call has the wrong rank, shape, element type or device."""


class RuntimeFailure(EjkError, RuntimeError):
    """A package could not be loaded or launched."""


class Diagnostic(namedtuple("Diagnostic", "severity file line column text notes")):
    """What the compiler says about one place: `severity` is note, remark, warning or error."""

    __slots__ = ()

    def __str__(self):
        import linecache  # here, because ejk is to be imported fast
        place = f"{self.file}:{self.line}:{self.column}: " if self.line else ""
        lines = [f"{place}{self.severity}: {self.text}"]
        source = linecache.getline(self.file, self.line) if self.line else ""
        if source.strip():
            lines.append("  " + source.strip())
        return "\n".join(lines + [str(note) for note in self.notes])


class CompileError(EjkError):
    """The compiler refused a program; `diagnostics` has what it said, as data."""

    def __init__(self, diagnostics):
        self.diagnostics = tuple(diagnostics)
        shown = [d for d in self.diagnostics if d.severity == "error"] or self.diagnostics
        super().__init__("\n".join(str(d) for d in shown))

    def __reduce__(self):
        return CompileError, (self.diagnostics,)


def is_users(frame):
    """Whether a frame is neither this package's nor an array library's."""
    library = frame.f_globals.get("__name__", "").split(".")[0]
    return (library not in ("torch", "jax", "jaxlib", "numpy")
            and not frame.f_code.co_filename.startswith(PACKAGE))


def name_of_call():
    """The name of this package's function that the user called; empty where it has none of its own."""
    frame, name = sys._getframe(1), ""
    while frame and not is_users(frame):
        if frame.f_code.co_filename.startswith(PACKAGE):
            name = frame.f_code.co_name
        frame = frame.f_back
    return "" if name.startswith(("_", "<")) else name


def warn(message):
    """A UserWarning at the user's line that led here."""
    frame, level = sys._getframe(1), 2
    while frame and not is_users(frame):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
