#!/usr/bin/python3
"""Fills the tables of docs/cpu.md from docs/cpu.json, which tools/ejk-measure-cpu writes.

    docs/generate_cpu.py            writes them
    docs/generate_cpu.py --check    says whether they are what it would write
"""
import json
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PAGE = FOLDER / "cpu.md"
DATA = json.loads((FOLDER / "cpu.json").read_text(encoding="utf-8"))
GATES = {"gk": "per key channel and step", "g": "per head and step", "gamma": "γ"}


def find(**wanted):
    return next(row for row in DATA["rows"] if all(row[key] == value for key, value in wanted.items()))


def number(value):
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def times():
    """Each case beside its peers."""
    names = list(dict.fromkeys(name for row in DATA["rows"] for name in row["peers"]))
    lines = [f"| gates | | K = V | T, H | ejk, ms | {' | '.join(name + ', ms' for name in names)} |",
             "|---" * (5 + len(names)) + "|"]
    for row in DATA["rows"]:
        kind = {"backward": "all gradients", "decode": "one step, from a state"}.get(row["kind"], row["kind"])
        peers = " | ".join(number(row["peers"][name]) if name in row["peers"] else "–" for name in names)
        lines.append(f"| {GATES[row['gate']]} | {kind} | {row['D']} | {row['T']}, {row['H']} | {number(row['ms'])} | {peers} |")
    return lines


def ratios():
    """What follows from the times, each beside what it is measured against."""
    forward = find(kind="forward", gate="gk", T=1024, D=128)
    decode = find(kind="decode")
    flops, copy = DATA["gflops"] * 1e9, DATA["copy_gb_s"] * 1e9
    elements = forward["T"] * forward["H"] * forward["D"] ** 2
    lines = ["| | measured | of |", "|---|---|---|"]

    def add(what, value, of):
        lines.append(f"| {what} | {value:.2f} × | {of} |")
    # 3 operations on each element of the state; a core's multiply-adds count as 2.
    floor = 3 * elements / (flops / 2) * 1e3
    add("forward", forward["ms"] / floor, f"{number(floor)} ms: three multiply-adds for each element of the state and step, "
        f"at the measured {DATA['gflops']:.0f} GFLOP/s")
    if "ggml" in forward["peers"]:
        add("forward", forward["ms"] / forward["peers"]["ggml"], "ggml's time")
    for gate in ("g", "gamma"):
        add(f"forward, gates {GATES[gate]}", find(kind="forward", gate=gate)["ms"] / forward["ms"],
            "the forward's time with gates per key channel")
    add("all gradients", find(kind="backward")["ms"] / forward["ms"], "the forward's time")
    state = 2 * 4 * decode["H"] * decode["D"] ** 2 / copy * 1e3
    add("one step", decode["ms"] / state, f"{number(state)} ms: the state read and written at the measured "
        f"{DATA['copy_gb_s']:.0f} GB/s")
    for size in (64, 96, 256):
        row = find(kind="forward", gate="gk", T=1024, D=size)
        add(f"forward, K = V = {size}", row["ms"] / (forward["ms"] * (size / 128) ** 2), "the time at 128, for each element")
    for row in DATA["rows"]:
        if row["T"] not in (1, 1024):
            add(f"forward, T = {row['T']}", row["ms"] / (forward["ms"] * row["T"] / 1024), "the time at 1024, for each step")
    # Wall times say something only where both cores were free.
    if "two_threads_wall_ms" in forward and DATA["load"][0] < 0.5:
        lines.append(f"| forward on two threads | {forward['wall_ms'] / forward['two_threads_wall_ms']:.2f} × as fast "
                     f"| one thread's wall time |")
    return lines


def about():
    versions = ", ".join(f"{name} {version}" for name, version in DATA["versions"].items() if name not in ("numpy", "onnx"))
    return [f"{DATA['cpu']}, one pinned thread, processor time, the median of {DATA['rounds']} rounds; peers from PyPI: {versions}. "
            f"The load average was {DATA['load'][0]:.1f} before and {DATA['load'][1]:.1f} after."]


def page(text):
    def fill(match):
        lines = {"about": about, "times": times, "ratios": ratios}[match[1]]()
        return "\n".join([f"<!-- table {match[1]} -->", *lines, "<!-- end -->"])
    return re.sub(r"<!-- table (\w+) -->\n.*?<!-- end -->", fill, text, flags=re.DOTALL)


def main(arguments):
    if arguments not in ([], ["--check"]):
        raise SystemExit(__doc__)
    text = PAGE.read_text(encoding="utf-8")
    if not arguments:
        PAGE.write_text(page(text), encoding="utf-8")
    elif page(text) != text:
        print("cpu.md is behind docs/cpu.json: run docs/generate_cpu.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
