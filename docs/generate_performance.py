#!/usr/bin/python3
"""Fills the tables and draws the plots of docs/performance.md from docs/performance.json, and those of
models' recurrences from docs/models.json.

    docs/generate_performance.py            writes them
    docs/generate_performance.py --check    says whether they are what it would write
"""
import json
import re
import sys
from pathlib import Path

import generate_models

FOLDER = Path(__file__).resolve().parent
PAGE = FOLDER / "performance.md"
DATA = json.loads((FOLDER / "performance.json").read_text(encoding="utf-8"))
PLOTS = {"forward.svg": ("chunk-forward", "Forward, B=4, T=4096, H=64"),
         "backward.svg": ("chunk-backward", "All gradients, B=4, T=4096, H=64")}
GATES = ["none", "γ", "g", "gk", "gv", "gk, gv"]
BAR, GAP, LEFT, SCALE = 16, 6, 90, 52  # pixels; SCALE is the length of 1 × the floor
OURS, PEER = "#2a6fb0", "#b9b9b9"


def rows_of(table):
    return [row for row in DATA["rows"] if row["table"] == table]


def number(value, digits="{:.4g}"):
    return "–" if value is None else digits.format(value)


def cell(row, value):
    """× floor, or milliseconds and how many times longer the peer takes."""
    return f"{row['floor']:.2f}" if value == "floor" else f"{row['ms']:.4g} ({row['peer_ms'] / row['ms']:.2f})"


def table(name):
    """A Markdown table: a row per measurement, or, where that is by gate, a column per gate."""
    about = DATA["tables"][name]
    rows = rows_of(about.get("rows_of", name))
    lines = [f"`{about['command']}`", ""]
    if about.get("by_gate"):
        value = "peer_ms" if about.get("beside_peer") else "floor"
        head = "shape, ms (peer / ejk)" if about.get("beside_peer") else "shape, × floor"
        rows = [row for row in rows if row.get(value) is not None]
        gates = sorted({row["gate"] for row in rows}, key=GATES.index)
        lines += [f"| {head} | {' | '.join(gates)} |", "|---" * (len(gates) + 1) + "|"]
        for shape in dict.fromkeys(row["shape"] for row in rows):
            found = {row["gate"]: cell(row, value) for row in rows if row["shape"] == shape}
            values = " | ".join(found.get(gate, "–") for gate in gates)
            lines.append(f"| {shape} | {values} |")
        return "\n".join(lines)
    lines += ["| shape | gate | ms | × floor | peer, ms | peer / ejk |", "|---|---|---|---|---|---|"]
    for row in rows:
        peer = row.get("peer_ms")
        ratio = None if peer is None else peer / row["ms"]
        lines.append(f"| {row['shape']} | {row['gate']} | {number(row['ms'])} "
                     f"| {number(row['floor'], '{:.2f}')} | {number(peer)} "
                     f"| {number(ratio, '{:.2f}')} |")
    return "\n".join(lines)


def plot(name, title):
    """Bars of time over the floor, ejk's and the peer's, one pair a gate."""
    body, y = [], 34
    widest = 0.0
    for row in rows_of(name):
        per_floor = row["floor"] / row["ms"]
        bars = [(row["floor"], OURS, "ejk")]
        if row.get("peer_ms"):
            bars.append((row["peer_ms"] * per_floor, PEER, "peer"))
        body.append(f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end">{row["gate"]}</text>')
        for ratio, colour, who in bars:
            width = ratio * SCALE
            widest = max(widest, width)
            body.append(f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" '
                        f'fill="{colour}"/><text x="{LEFT + width + 5:.1f}" y="{y + 12}">'
                        f"{who} {ratio:.2f}</text>")
            y += BAR + 2
        y += GAP
    floor = LEFT + SCALE
    width = int(LEFT + widest + 90)
    body.append(f'<line x1="{floor}" y1="28" x2="{floor}" y2="{y}" stroke="#d04040" '
                f'stroke-dasharray="4 3"/><text x="{floor}" y="{y + 14}" text-anchor="middle" '
                f'fill="#d04040">the floor</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y + 22}" '
            f'font-family="sans-serif" font-size="12">\n'
            f'<rect width="100%" height="100%" fill="white"/>\n'
            f'<text x="8" y="18" font-weight="bold">{title}, time over the floor</text>\n'
            + "\n".join(body) + "\n</svg>\n")


def page(text):
    def fill(match):
        rows = generate_models.table() if match[1] == "models" else table(match[1])
        return f"<!-- table {match[1]} -->\n{rows}\n<!-- end -->"
    return re.sub(r"<!-- table ([\w-]+) -->\n.*?<!-- end -->", fill, text, flags=re.DOTALL)


def main(arguments):
    if arguments not in ([], ["--check"]):
        raise SystemExit(__doc__)
    text = PAGE.read_text(encoding="utf-8")
    wanted = {PAGE: page(text)}
    for file, (name, title) in PLOTS.items():
        wanted[FOLDER / "plots" / file] = plot(name, title)
    wanted[FOLDER / "plots" / "models.svg"] = generate_models.plot()
    stale = [path for path, content in wanted.items()
             if not path.exists() or path.read_text(encoding="utf-8") != content]
    if not arguments:
        (FOLDER / "plots").mkdir(exist_ok=True)
        for path, content in wanted.items():
            path.write_text(content, encoding="utf-8")
        return 0
    for path in stale:
        print(f"{path.name} is behind docs/performance.json: run docs/generate_performance.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
