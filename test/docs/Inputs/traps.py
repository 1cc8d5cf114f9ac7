"""docs/testing.md's table of known traps against the tests: each test that it names says
its trap's number, and each trap that a test names has that test in its row.

    traps.py ROOT
"""
import pathlib
import re
import sys


def main():
    root = pathlib.Path(sys.argv[1])
    table = re.findall(r"^\| (\d+) \| .* \| (`.*`) \|$", (root / "docs/testing.md").read_text(), re.M)
    listed = {(int(number), path) for number, cell in table for path in re.findall("`([^`]*)`", cell)}
    said = set()
    for path in sorted((root / "test").rglob("*")):
        if path.suffix in (".mlir", ".test", ".cpp"):
            name = str(path.relative_to(root / "test"))
            said |= {(int(n), name) for n in re.findall(r"\b[Tt]rap (\d+)", path.read_text())}
    for number, path in sorted(listed - said):
        print(f"{path} does not say 'trap {number}', as docs/testing.md has it")
    for number, path in sorted(said - listed):
        print(f"docs/testing.md does not have {path}, which says 'trap {number}'")
    print(f"{len({number for number, _ in listed})} traps, {len(listed)} tests")
    return listed != said


sys.exit(main())
