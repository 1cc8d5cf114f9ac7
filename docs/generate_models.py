"""The table and the picture of models' recurrences in docs/performance.md, from docs/models.json:
ejk's rows as `ejk-measure models` writes them, and peers' rows with who, versions and GPU."""
import html
import json
import math
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
DATA = json.loads((FOLDER / "models.json").read_text(encoding="utf-8"))
BOUND = ", bound given"  # at the end of a shape whose step bounds the gate
DRAWN = "H200"  # where the fastest peers were timed
BAR, GAP, LEFT, WIDTH = 12, 8, 330, 420  # pixels; WIDTH is the longest bar's
OURS, PEER, FLOOR, GRID = "#2a6fb0", "#b9b9b9", "#d04040", "#999999"


def peer_of(row, key):
    """The fastest peer's (time, name) at a row's shape and gate on its GPU, or None. A star says that
    it ran beside ejk; other peers' times were measured before, or are their authors'."""
    same = row | {"shape": row["shape"].removesuffix(BOUND)}
    times = [(peer[key], peer["who"] + " ★" * peer.get("same_run", False)) for peer in DATA["peers"] if peer.get(key) and
             all(peer[k] == same[k] for k in ("shape", "gate", "gpu"))]
    return min(times, default=None)


def cell(row, key):
    if key not in row:
        return "–"
    return f"{row[key]:.3g}" + (f" ({row[key] / row['floor_ms']:.1f} ×)" if key == "ms" else "")


def beside(row, key):
    peer = peer_of(row, key) if key in row else None
    if not peer:
        return "–"
    text, ratio = f"{peer[0]:.3g} {peer[1]}", peer[0] / row[key]
    return f"**{text}**, {ratio:.2f}" if ratio < 1 else f"{text}, {ratio:.2f}"


def table():
    """A Markdown table, a row for each shape, gate and GPU."""
    lines = [f"`{DATA['command']}`", "",
             "| recurrence and shape | gate | GPU | forward, ms (× floor) | best peer, peer / ejk "
             "| forward and all gradients, ms | best peer, peer / ejk | error of o |", "|---" * 8 + "|"]
    for row in DATA["rows"]:
        lines.append(f"| {row['shape']} | {row['gate']} | {row['gpu']} | {cell(row, 'ms')} | {beside(row, 'ms')} "
                     f"| {cell(row, 'both_ms')} | {beside(row, 'both_ms')} | {row['error']:.1e} |")
    return "\n".join(lines)


def plot():
    """Bars of a forward's time over the floor, ejk's and the best peer's, a pair a row. The scale is
    logarithmic, and a bar of no length is the floor."""
    rows = [row for row in DATA["rows"] if row["gpu"] == DRAWN and peer_of(row, "ms")]
    longest = max(max(row["ms"], peer_of(row, "ms")[0]) / row["floor_ms"] for row in rows)
    scale, y, body = WIDTH / math.log2(longest), 34, []
    for row in rows:
        body.append(f'<text x="{LEFT - 8}" y="{y + 16}" text-anchor="end">'
                    f'{html.escape(row["shape"])}, {row["gate"]}</text>')
        peer, who = peer_of(row, "ms")
        for ms, colour, name in ((row["ms"], OURS, "ejk"), (peer, PEER, who)):
            ratio = ms / row["floor_ms"]
            width = max(math.log2(ratio) * scale, 1)
            body.append(f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{colour}"/>'
                        f'<text x="{LEFT + width + 5:.1f}" y="{y + 10}">{name} {ratio:.1f}</text>')
            y += BAR + 1
        y += GAP
    for power in range(int(math.log2(longest)) + 1):
        x, colour = LEFT + power * scale, FLOOR if power == 0 else GRID
        body.append(f'<line x1="{x:.1f}" y1="28" x2="{x:.1f}" y2="{y}" stroke="{colour}" stroke-dasharray="4 3"/>'
                    f'<text x="{x:.1f}" y="{y + 14}" text-anchor="middle" fill="{colour}">{2 ** power} ×</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 130}" height="{y + 22}" '
            f'font-family="sans-serif" font-size="11">\n<rect width="100%" height="100%" fill="white"/>\n'
            f'<text x="8" y="18" font-weight="bold">Forward of models\' recurrences on an {DRAWN}, time over the floor (logarithmic)</text>\n'
            + "\n".join(body) + "\n</svg>\n")
