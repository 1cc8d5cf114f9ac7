#!/usr/bin/python3
"""Writes docs/dialect.md and docs/passes.md from the TableGen files.

    docs/generate.py            writes them
    docs/generate.py --check    says whether they are what it would write, with
                                the differences and exit status 1 if not
"""

import difflib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LLVM_TOOLS = "/usr/lib/llvm-22/bin"
NOTE = "<!-- Written by docs/generate.py from the .td files; edit those. -->\n"

# The last of several files includes those before it.
PAGES = {
    "dialect.md": ("Dialects", "For those who write ejk's MLIR or read it: what the ops mean, their syntax and their "
                               "constraints.", [
        (None, "dialect/ejk/Ejk.td dialect/ejk/EjkShifts.td", ["-gen-dialect-doc", "-dialect=ejk"]),
        (None, "dialect/tile/Tile.td", ["-gen-dialect-doc", "-dialect=tile"]),
        (None, "dialect/check/Check.td", ["-gen-dialect-doc", "-dialect=check"])]),
    "passes.md": ("Passes", "For those who read or change how ejk compiles: what each pass does, why, and what it "
                            "requires. `ejk-opt` runs each by its flag; `ejk-opt --help` also lists the "
                            "pipelines that string them together.", [
        ("On the recurrence (`passes/`)", "passes/Passes.td", ["-gen-pass-doc"]),
        ("Down to PTX (`lowering/`)", "lowering/Passes.td", ["-gen-pass-doc"]),
        ("For tests (`tools/interpret/`)", "tools/interpret/InterpretPass.td", ["-gen-pass-doc"])]),
}


def tablegen(*arguments):
    path = LLVM_TOOLS + os.pathsep + os.environ.get("PATH", "")
    command = shutil.which("mlir-tblgen", path=path)
    if not command:
        raise SystemExit(f"generate.py: there is no mlir-tblgen in {LLVM_TOOLS} or on PATH")
    include = Path(command).resolve().parent.parent / "include"
    done = subprocess.run([command, "-I", ".", "-I", str(include), *arguments], cwd=ROOT,
                          stdout=subprocess.PIPE, text=True, encoding="utf-8")
    if done.returncode:
        raise SystemExit("generate.py: mlir-tblgen failed")
    return done.stdout


def tidy(text, title):
    """What mlir-tblgen writes, one heading level down and without what only its own site needs."""
    text = re.sub(r"<!--.*?-->\n", "", text)
    text = text.replace('custom<EndOfOperands>("getOperandNames()") ', "")  # only for its errors
    text = re.sub(r"custom<(?:Operand|Result)Types>\((.*)\)(?= `|$)",
                  lambda types: types[1].replace(", ", " `,` "), text, flags=re.MULTILINE)
    text = re.sub(r"^(\[TOC\]|Effects: .*)\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^# '(\w+)' Dialect$", r"# The `\1` dialect", text, flags=re.MULTILINE)
    text = re.sub(r"^(#{3,4}) (`[\w.]+`) \(::.*\)$", r"\1 \2", text, flags=re.MULTILINE)
    text = re.sub(r"^### `-(ejk-[\w-]+)`$", r"## `--\1`", text, flags=re.MULTILINE)
    lines, fenced = [f"# {title}", ""] if title else [], False
    for line in text.splitlines():
        fenced ^= line.lstrip().startswith("```")
        lines.append("#" + line if line.startswith("#") and not fenced else line.rstrip())
    text = "\n".join(lines)
    if title:
        text = "#" + text
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def defined(sources):
    """The groups of ops and the ops that `sources` and what the first includes beside it define,
    in order, as their headings have them."""
    first, *others = [ROOT / source for source in sources]
    files = [first, *[ROOT / name for name in re.findall(
        r'^include "(dialect/.*)"', first.read_text(encoding="utf-8"), re.MULTILINE)], *others]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    found = re.findall(r'^def \w+ : (?:OpDocGroup \{\n  let summary = "(.+)"|\w+<"(\w+)")', text,
                       re.MULTILINE)
    return [group or op for group, op in found]


def in_order(text, order):
    """Sorts groups of ops, and the ops in them, by `order`: mlir-tblgen sorts them by letters."""
    if "\n## Operations\n" not in text:
        return text
    head, rest = text.split("\n## Operations\n")
    operations, *tail = re.split(r"^(?=## )", rest, maxsplit=1, flags=re.MULTILINE)

    def rearranged(text, heading):
        first, *sections = re.split(rf"^(?={heading})", text, flags=re.MULTILINE)
        name = lambda section: re.match(r"#+ (?:`\w+\.(\w+)`|(.*))", section).group(1, 2)
        return first + "".join(sorted(sections, key=lambda section: order.index(
            name(section)[0] or name(section)[1])))

    groups = re.split(r"^(?=### )", rearranged(operations, "### "), flags=re.MULTILINE)
    return head + "\n## Operations\n" + "".join(
        rearranged(group, "#### `") for group in groups) + "".join(tail)


def page(title, summary, parts):
    sections = [tidy(in_order(tablegen(*flags, sources.split()[-1]), defined(sources.split())), heading)
                for heading, sources, flags in parts]
    body = "\n".join(sections)
    entries = re.findall(r"^#{3,5} `((?:--ejk-|ejk\.|check\.)[\w.-]+)`$", body, re.MULTILINE)
    links = [f"[`{entry}`](#{entry.replace('.', '')})" for entry in entries]
    return f"{NOTE}# {title}\n\n{summary}\n\n{' · '.join(links)}\n\n{body}"


def main(arguments):
    if arguments not in ([], ["--check"]):
        raise SystemExit(__doc__)
    stale = False
    for name, description in PAGES.items():
        path, wanted = ROOT / "docs" / name, page(*description)
        if not arguments:
            path.write_text(wanted, encoding="utf-8")
            continue
        found = path.read_text(encoding="utf-8") if path.exists() else ""
        differences = difflib.unified_diff(found.splitlines(True), wanted.splitlines(True),
                                           f"docs/{name}", "what the .td files say")
        for line in differences:
            stale = True
            sys.stdout.write(line)
    if stale:
        print("The docs are behind the .td files: run docs/generate.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
