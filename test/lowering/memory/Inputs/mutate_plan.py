"""Plants faults into the ordering ops of plans, and counts those that ejk-check-races finds.

    mutate_plan.py EJK_OPT [-v] [--run EJK_RUN] PLAN...

Each `tile.barrier`, `tile.fence` and `tile.wait_*` of a plan is deleted, moved past the op before it or the op after it,
and each wait is weakened by one group. All mutants of a plan are checked by one run of ejk-opt. -v lists those
that are not found; a move past an op that accesses nothing is none to find. --run compiles each deletion and each weaker
wait that is not found, and runs it in the emulator with gates of several kinds: it is harmless where
that finds no race and the results are right.
"""
import os
import re
import subprocess
import sys
import tempfile

ORDERING = re.compile(r"^\s*tile\.(barrier|fence|wait_\w+)( \d+)?$")


def mutants(lines):
    """(kind, op, line's number, text) of each mutant."""
    for i, line in enumerate(lines):
        match = ORDERING.match(line)
        if not match:
            continue
        op = match[1]
        yield "deleted", op, i, lines[:i] + lines[i + 1:]
        if match[2]:
            weaker = line.replace(match[2], f" {int(match[2]) + 1}")
            yield "weakened", op, i, lines[:i] + [weaker] + lines[i + 1:]
        # Lines that open or close a region are no ops to move past.
        if not lines[i - 1].rstrip().endswith(("{", "}", ":")) and not lines[i - 1].startswith("  ^"):
            yield "moved up", op, i, lines[:i - 1] + [line, lines[i - 1]] + lines[i + 1:]
        if not lines[i + 1].rstrip().endswith(("{", "}")) and "yield" not in lines[i + 1]:
            yield "moved down", op, i, lines[:i] + [lines[i + 1], line] + lines[i + 2:]


GATES = ["mid", "lb5", "resets", "saturated"]


def is_harmless(run, mutant):
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as plan:
        plan.write("\n".join(mutant))
        plan.flush()
        for gates in GATES:
            done = subprocess.run([run, plan.name, "--device=cuda", "--arch=sm_90a", "--check",
                                   "--random=B=1,T=150,H=2", f"--gates={gates}"], capture_output=True, text=True,
                                  env={**os.environ, "EJK_EMULATOR_MULTIPROCESSORS": "2"})
            if done.returncode or "check o: pass" not in done.stdout:
                print(done.stdout + done.stderr)
                return False
    return True


def main():
    arguments = sys.argv[1:]
    run = None
    if "--run" in arguments:
        at = arguments.index("--run")
        run = arguments[at + 1]
        del arguments[at:at + 2]
    opt, *files = [arg for arg in arguments if arg != "-v"]
    totals, harmless = {}, {}
    for file in files:
        with open(file, encoding="utf-8") as plan:
            lines = plan.read().splitlines()
        made = list(mutants(lines))
        text = "\n// -----\n".join("\n".join(mutant) for *_, mutant in made)
        done = subprocess.run([opt, "-", "--split-input-file", "--ejk-check-races", "-o", "/dev/null"], input=text,
                              capture_output=True, text=True)
        # A chunk begins one line after the mark that divides it from the one before.
        starts, line = [], 1
        for *_, mutant in made:
            starts.append(line)
            line += len(mutant) + 1
        found = {int(n) for n in re.findall(r"^\S*?:(\d+):\d+: error: ", done.stderr, re.MULTILINE)}
        for number, (kind, op, at, mutant) in enumerate(made):
            wrong = any(starts[number] <= n < starts[number] + len(mutant) + 1 for n in found)
            key = (kind, op)
            all_, caught = totals.get(key, (0, 0))
            totals[key] = (all_ + 1, caught + wrong)
            if run and not wrong and not kind.startswith("moved"):
                harmless[key] = harmless.get(key, 0) + is_harmless(run, mutant)
            if not wrong and "-v" in sys.argv:
                print(f"{file}:{at + 1}: {op} {kind}: not found")
    for (kind, op), (all_, caught) in sorted(totals.items()):
        others = f", {harmless[kind, op]} harmless" if (kind, op) in harmless else ""
        print(f"{op} {kind}: {caught} of {all_} found{others}")
    print(f"{sum(all_ for all_, _ in totals.values())} mutants, {sum(c for _, c in totals.values())} found")


if __name__ == "__main__":
    main()
