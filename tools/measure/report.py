"""Rows of measurements, kept in a file from the first one on."""
import json
from pathlib import Path


def report(args, rows, row):
    rows.append(row)
    print(" ".join(f"{key}={value}" for key, value in row.items()), flush=True)
    Path(args.output).write_text(json.dumps(rows, ensure_ascii=False, indent=1), encoding="utf-8")
