#!/usr/bin/python3
"""Writes docs/plots/training.svg from the losses that examples/python/train_text.py gave.

    examples/python/train_text.py --csv build/ejk.csv
    examples/python/train_text.py --csv build/eager.csv --eager
    docs/generate_training.py build/ejk.csv build/eager.csv
"""
import pathlib
import sys

WIDTH, HEIGHT, LEFT, TOP = 640, 300, 46, 16
COLOURS = ["#1f6fb4", "#d9822b"]


def read(path):
    return [float(line.split(",")[1]) for line in pathlib.Path(path).read_text().splitlines()]


def main():
    runs = [("ejk", read(sys.argv[1])), ("a loop in PyTorch", read(sys.argv[2]))]
    steps = max(len(losses) for _, losses in runs)
    top = max(max(losses) for _, losses in runs)
    right, bottom = WIDTH - 12, HEIGHT - 34

    def x(step):
        return LEFT + (right - LEFT) * step / (steps - 1)

    def y(loss):
        return bottom - (bottom - TOP) * loss / top
    body = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for tick in range(int(top) + 1):
        body.append(f'<line x1="{LEFT}" x2="{right}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" '
                    f'stroke="#ddd"/><text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" '
                    f'text-anchor="end">{tick}</text>')
    for tick in range(0, steps + 1, 50):
        if tick < steps:
            body.append(f'<text x="{x(tick):.1f}" y="{bottom + 16}" '
                        f'text-anchor="middle">{tick}</text>')
    body.append(f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 4}" text-anchor="middle">step</text>')
    body.append(f'<text x="12" y="{(TOP + bottom) / 2}" text-anchor="middle" '
                f'transform="rotate(-90 12 {(TOP + bottom) / 2})">loss, nats a character</text>')
    for number, (name, losses) in enumerate(runs):
        points = " ".join(f"{x(i):.1f},{y(loss):.1f}" for i, loss in enumerate(losses))
        dash = ' stroke-dasharray="6 5"' if number else ""
        body.append(f'<polyline fill="none" stroke="{COLOURS[number]}" stroke-width="2"{dash} '
                    f'points="{points}"/>')
        body.append(f'<text x="{right - 8}" y="{TOP + 18 + 18 * number}" text-anchor="end" '
                    f'fill="{COLOURS[number]}">{name}</text>')
    target = pathlib.Path(__file__).resolve().parent / "plots" / "training.svg"
    target.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
                      'font-family="sans-serif" font-size="12">\n' + "\n".join(body) + "\n</svg>\n")


main()
