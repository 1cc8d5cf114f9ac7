#!/usr/bin/python3
"""Writes docs/python-api.md from the docstrings of python/ejk.

    docs/generate_python.py [FILE]
"""
import argparse
import inspect
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))
sys.dont_write_bytecode = True
import ejk  # noqa: E402
from ejk import _cache, _errors, _functions, _inspect, ops, serving  # noqa: E402
from ejk._values import State  # noqa: E402

HEAD = """# The Python API

For those who call ejk from Python. What is written here stands in the docstrings, too; [python.md](python.md) is the introduction.
Made by `docs/generate_python.py`.
"""


def entry(name, thing, level="###"):
    text = inspect.getdoc(thing) or ""
    try:
        signature = str(inspect.signature(thing))
    except (TypeError, ValueError):
        signature = ""
    kind = "class " if inspect.isclass(thing) else ""
    heading = f"{level} `{kind}{name}{'' if kind else signature}`"
    return f"{heading}\n\n{text.replace('::' + chr(10), ':' + chr(10))}\n"


def methods(owner, thing):
    return "\n".join(entry(f"{owner}.{name}", method, "####")
                     for name, method in vars(thing).items()
                     if not name.startswith("_") and inspect.isfunction(method)
                     and inspect.getdoc(method))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="?", type=pathlib.Path, default=ROOT / "docs" / "python-api.md",
                        help="where to write (docs/python-api.md)")
    args = parser.parse_args()
    plain = [*_functions._UNARY, *_functions._BINARY]
    parts = [HEAD, "## Recurrences\n", entry("ejk.recurrence", ejk.recurrence),
             "What it gives has these methods:\n", methods("fn", ejk.Recurrence),
             "## In a step\n", "### The state\n", methods("S", State),
             "### Functions\n\nElementwise, of traced values and Python numbers. NumPy's functions on traced values "
             "are these: `np.exp(g)` is `ejk.exp(g)`.\n",
             "As NumPy has them: " + ", ".join(f"`{n}`" for n in plain) + ".\n",
             "\n".join(f"- `ejk.{n}{inspect.signature(f)}`: {inspect.getdoc(f)}"
                       for n in _functions.NAMES if n not in plain
                       for f in [getattr(_functions, n)]) + "\n",
             "## ejk.ops\n", inspect.getdoc(ops) + "\n",
             "\n".join(entry(f"ejk.ops.{n}", getattr(ops, n)) for n in ops.__all__),
             "## ejk.serving\n", inspect.getdoc(serving) + "\n",
             "\n".join(entry(f"ejk.serving.{n}", getattr(serving, n)) for n in serving.__all__),
             "## MLIR and packages\n", entry("ejk.compile", _inspect.compile),
             methods("fn", _inspect.CompiledFunction), entry("ejk.Explanation", ejk.Explanation),
             entry("ejk.targets", ejk.targets),
             "## The cache\n", inspect.getdoc(_cache) + "\n",
             entry("ejk.cache_info", _cache.info), entry("ejk.clear_cache", _cache.clear),
             entry("ejk.cache.folder", _cache.folder),
             "## Errors\n",
             "\n".join(f"- `ejk.{n}`: {inspect.getdoc(getattr(_errors, n))}" for n in
                       ("EjkError", "TraceError", "TensorError", "CompileError", "RuntimeFailure",
                        "Diagnostic")) + "\n"]
    text = "\n".join(parts)
    args.target.write_text(text)


main()
