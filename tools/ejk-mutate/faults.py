"""Faults that ejk-mutate plants: one changed place of one source file each.

Faults come from a list of rewrites of a line's text: comparisons, bounds, signs, guards, and
statements that order memory. Comments, strings, includes and assertions stay as they are.
"""

import dataclasses
import random
import re
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Fault:
    path: str  # from the source's root
    line: int  # from 1
    kind: str
    before: str
    after: str

    def __str__(self):
        return (f"{self.path}:{self.line}: {self.kind}: {self.before.strip()}"
                f"  ->  {self.after.strip()}")


# The kind, what it looks for in a line, and what it puts there.
REWRITES = [
    ("comparison", r" < ", " <= "),
    ("comparison", r" <= ", " < "),
    ("comparison", r" > ", " >= "),
    ("comparison", r" >= ", " > "),
    ("comparison", r" == ", " != "),
    ("comparison", r" != ", " == "),
    ("logic", r" && ", " || "),
    ("logic", r" \|\| ", " && "),
    ("logic", r"(?<=[( ])!(?=[a-zA-Z(])", ""),
    ("bound", r" \+ 1\b(?![.\d])", ""),
    ("bound", r" - 1\b(?![.\d])", ""),
    ("bound", r"\bstd::min\(", "std::max("),
    ("bound", r"\bstd::max\(", "std::min("),
    ("bound", r"\bb\.min\(", "b.max("),
    ("bound", r"\bb\.max\(", "b.min("),
    ("sign", r"(?<=[\w)\]]) \+ (?=[\w(])", " - "),
    ("sign", r"(?<=[\w)\]]) - (?=[\w(])", " + "),
    ("sign", r"\bb\.add\(", "b.sub("),
    ("sign", r"\bb\.sub\(", "b.add("),
    ("guard", r"^(\s*(?:} else )?if) \((?!.*;)(?!failed)(.*)\)( \{)?$", r"\1 (false && (\2))\3"),
    ("answer", r"\breturn true;", "return false;"),
    ("answer", r"\breturn false;", "return true;"),
    ("fence", r"^(\s*)(?:this->)?(?:barrier|fenceForMatmuls|awaitAll|awaitBulkStores|waitForEmpty"
              r"|waitForCopies)\([^;]*\);$", r"\1;"),
    ("fence", r"^(\s*)b\.make<(?:gpu::BarrierOp|NVVM::\w*(?:Fence|Wait|Barrier|Commit)\w*)>"
              r"\([^;]*\);$", r"\1;"),
    ("statement", r"^(\s*)[a-z]\w*(?:(?:\.|->)\w+)*\([^;{}]*\);$", r"\1;"),
]


def _code_of(line):
    """`line` without its comment, and with its strings blanked, at the same length."""
    blank = re.sub(r'"(?:\\.|[^"\\])*"', lambda m: '"' + "_" * (len(m.group()) - 2) + '"', line)
    blank = re.sub(r"'(?:\\.|[^'\\])'", "'_'", blank)
    comment = blank.find("//")
    return blank if comment < 0 else blank[:comment].rstrip()


def faults_of(root, path):
    """All faults of one file, in the order of its lines."""
    faults = []
    in_comment = False
    for number, line in enumerate((root / path).read_text().splitlines(), 1):
        if "/*" in line or in_comment:
            in_comment = "*/" not in line
            continue
        code = _code_of(line)
        stripped = code.strip()
        if not stripped or stripped.startswith(("#", "assert", "static_assert", "EJK_STATIC_ASSERT",
                                                "template", "llvm_unreachable", "using ")):
            continue
        for kind, pattern, text in REWRITES:
            for match in re.finditer(pattern, code):
                # What it matched is put back from the line itself, where strings are whole.
                found = re.compile(pattern).match(line, match.start())
                if not found:
                    continue
                after = line[:found.start()] + found.expand(text) + line[found.end():]
                faults.append(Fault(str(path), number, kind, line, after))
    return faults


def sources_under(root, folders):
    files = []
    for folder in folders:
        place = root / folder
        files += [place] if place.is_file() else sorted(place.rglob("*.cpp"))
    return [file.relative_to(root) for file in files]


def _without_lines(places):
    """Files and folders of `places`, and for each file that is given as FILE:LINE its lines."""
    folders, lines = [], {}
    for place in places:
        folder, colon, line = place.partition(":")
        if folder not in folders:
            folders.append(folder)
        if colon:
            lines.setdefault(folder, set()).add(int(line))
    return folders, lines


def choose(root, places, seed, count):
    """`count` faults of what lies in `places`, the same ones for the same seed and sources. A place
    is a folder, a file, or one line of a file as FILE:LINE.

    Kinds take turns, and of a kind each fault is as likely as another, so that `statement`, which
    matches most lines, is not most of them.
    """
    kinds = {}
    folders, lines = _without_lines(places)
    for path in sources_under(Path(root), folders):
        for fault in faults_of(Path(root), path):
            if fault.line not in lines.get(str(path), {fault.line}):
                continue
            kinds.setdefault(fault.kind, []).append(fault)
    numbers = random.Random(seed)
    for faults in kinds.values():
        numbers.shuffle(faults)
    chosen = []
    while len(chosen) < count and any(kinds.values()):
        for kind in sorted(kinds):
            if kinds[kind] and len(chosen) < count:
                chosen.append(kinds[kind].pop())
    return chosen
