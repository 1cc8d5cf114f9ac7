"""Words that the project does not use, looked for in pages, descriptions of ops and passes, and file names.

    words.py WORDS ROOT

WORDS has a regular expression and what to say instead on each line. Prints each place, then how many lines were read. What
is quoted from another name space is not prose: code blocks of pages, and lines of CHANGELOG.md that name what was renamed.
"""
import pathlib
import re
import sys

FOLDERS = ["dialect", "passes", "lowering", "docs", "examples", "python", "runtime", "tools", "test", "cmake"]
SKIPPED = {"__pycache__", "Output", "build", "lib"}


def rows(path):
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            pattern, instead = line.split("\t")
            yield re.compile(pattern, re.IGNORECASE), instead


def files(root):
    yield from (path for path in sorted(root.glob("*.md")) if path.is_file())
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and not SKIPPED & set(path.relative_to(root).parts):
                yield path


def prose(path):
    """(number, text) of each line that is read."""
    isCode = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if path.suffix == ".md" and line.startswith("```"):
            isCode = not isCode
        elif not isCode and not (path.name == "CHANGELOG.md" and "`--ejk-" in line):
            yield number, line


def main():
    words, root = list(rows(pathlib.Path(sys.argv[1]))), pathlib.Path(sys.argv[2])
    count = found = 0
    for path in files(root):
        name = path.relative_to(root)
        count += 1
        # Names of files have hyphens or capitals between words.
        spaced = re.sub(r"[-_./]|(?<=[a-z])(?=[A-Z])", " ", str(name.with_suffix("")))
        places = [(0, spaced)]
        if path.suffix in (".md", ".td"):
            places += prose(path)
        for number, text in places:
            count += number > 0
            for pattern, instead in words:
                if match := pattern.search(text):
                    place = f"{name}:{number}" if number else f"the name {name}"
                    print(f"{place}: '{match[0]}'; say: {instead}")
                    found += 1
    print(f"{count} lines and names, {found} words to replace")


main()
