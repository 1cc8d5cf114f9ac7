"""prefix.py EJK-RUN GATES DEVICE SCHEDULE FILE [SIZES] [EXACT] [FLAGS...]: which rows of a prefix have other bits than in a
longer sequence. EXACT 'chunks' looks only at rows whose chunk of 64 rows is whole in the prefix."""

import json
import subprocess
import sys
import tempfile

LONG = 100


def outputs(path):
    """Of each tensor of a safetensors file of one sequence: its bytes, row by row."""
    with open(path, "rb") as file:
        data = file.read()
    size = int.from_bytes(data[:8], "little")
    found = json.loads(data[8:8 + size])
    begin, end = found["o"]["data_offsets"]
    rows = found["o"]["shape"][1]
    step = (end - begin) // rows
    return [data[8 + size + begin + step * r:8 + size + begin + step * (r + 1)] for r in range(rows)]


def run(command, sizes, rows, folder):
    path = f"{folder}/{rows}.safetensors"
    # With one sequence, each row has the same numbers whatever the length is.
    subprocess.run([*command, "--random", f"B=1,T={rows},{sizes}", "--outputs", path], check=True,
                   stdout=subprocess.DEVNULL)
    return outputs(path)


def main():
    ejk_run, gates, device, schedule, source = sys.argv[1:6]
    sizes = sys.argv[6] if len(sys.argv) > 6 else "H=2"
    whole = sys.argv[7:8] == ["chunks"]
    command = [ejk_run, source, f"--gates={gates}", f"--device={device}", f"--schedule={schedule}", *sys.argv[8:]]
    with tempfile.TemporaryDirectory() as folder:
        long = run(command, sizes, LONG, folder)
        different = compared = 0
        for rows in (40, 64, 81):
            count = rows // 64 * 64 if whole else rows
            own = run(command, sizes, rows, folder)[:count]
            different += sum(a != b for a, b in zip(own, long))
            compared += len(own)
    name = source.rpartition("/")[2].partition(".")[0]
    print(f"{name} {device} {schedule}: {different} of {compared} rows differ")


main()
