"""The order of rooms, held over every #include "..." of the sources.

    rooms.py ROOT

A room is a folder, or a file that stands for one. A file may include its own room and those before
it in ORDER; rooms of OTHERS may include what their row says. Prints each include that goes against
this, then how many were read. Generated headers (*.inc) belong to the folder they are made from.
"""
import pathlib
import re
import sys

# Where several rooms match a path, the longest name is meant. A hall's Passes.h declares the passes
# of all its rooms and includes none of them; so it comes before them.
ORDER = [
    "dialect/ejk", "dialect/tile", "dialect/shapes", "dialect/reference", "dialect/check",
    "passes",
    "passes/scan", "passes/autodiff", "passes/chunk", "passes/program",
    "passes/Pipelines",
    "lowering",
    "lowering/target", "lowering/kernels", "lowering/layout", "lowering/pipeline",
    "lowering/memory", "lowering/draw", "lowering/emit", "lowering/step", "lowering/select", "lowering/host",
    "lowering/ptx", "lowering/cpu", "lowering/driver",
]
# What else rooms may include. The runtime and the tools that run where no compiler is installed
# know nothing of the compiler.
RUNTIME = ["runtime", "ejk/"]
OTHERS = {
    "lowering/host": ["ejk/package_format.h", "runtime/package"],
    "lowering/cpu": ["ejk/package_format.h"],
    "lowering/driver": ["runtime/package", "ejk/compiler.h"],
    "runtime": RUNTIME,
    "tools/io": RUNTIME + ["tools/io"],
    "tools/harness": RUNTIME + ["tools/io", "tools/harness"],
    "tools/ejk-launch": RUNTIME + ["tools/io", "tools/harness", "tools/ejk-launch"],
    "tools/interpret": ORDER + ["tools/io", "tools/interpret"],
    "examples": ["ejk/"],
    "python/native": ["ejk/", "python/native"],
}
FREE = ["tools", "test"]  # what stands after all rooms includes what it likes
FOLDERS = ["dialect", "passes", "lowering", "runtime", "tools", "examples", "python"]
PUBLIC = ["runtime/include/", "lowering/driver/include/"]


def room(path, names):
    """The longest of `names` that `path` lies in, or None."""
    found = [name for name in names if path == name or path.startswith(name.rstrip("/") + "/") or
             re.fullmatch(re.escape(name) + r"\.\w+", path)]
    return max(found, key=len, default=None)


def included(root, path, name):
    """A path from the root; None for a header of MLIR, LLVM or another library."""
    if name.startswith("ejk/") and any((root / folder / name).exists() for folder in PUBLIC):
        return name
    for folder in (path.parent, root, root / "tools", root / "runtime"):
        if (folder / name).exists():
            return str((folder / name).resolve().relative_to(root.resolve()))
    return name if name.split("/")[0] in FOLDERS else None


def allowed(own, target):
    may = list(OTHERS.get(own, []))
    if own in ORDER:
        may += ORDER[:ORDER.index(own) + 1]
        theirs = room(target, ORDER)
        if theirs:
            return theirs in may
    return any(target == name or target.startswith(name.rstrip("/") + "/") for name in may)


def main():
    root = pathlib.Path(sys.argv[1])
    read = wrong = 0
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".h", ".cpp", ".c", ".td"):
                continue
            name = str(path.relative_to(root))
            own = room(name, ORDER + list(OTHERS) + FREE)
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = re.match(r'\s*(?:#\s*)?include "([^"]+)"', line)
                target = match and included(root, path, match[1])
                if not target:
                    continue
                read += 1
                if own not in FREE and not allowed(own, target):
                    wrong += 1
                    print(f"{name}:{number}: '{own}' must not include {target}")
    print(f"{read} includes, {wrong} against the order of rooms")


main()
