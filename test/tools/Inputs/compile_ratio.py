"""How the processor time of a compilation grows with the ops of a step:

    compile_ratio.py FOLDER CHAIN:OPS,... COMMAND...

COMMAND compiles a file to a package; the file, and '-o' with another, are put behind it. A chain of
LINKS is compiled with 4 ops, with OPS, and with four times as many. Without what 4 ops take, four times as
many may take ten times as long: four is linear, and sixteen a square."""
import pathlib
import resource
import subprocess
import sys

V, T = "vector<16xf32>", "tensor<?x?x?x16xf32>"
MOST = 10
# The ops that lead from {x} to the next {y}. Each takes {x} twice where it can: then there are 2ⁿ paths.
LINKS = {
    "product": ["{y} = arith.mulf {x}, %k : " + V],
    "square": ["{y} = arith.mulf {x}, {x} : " + V],
    "tanh": ["{y} = math.tanh {x} : " + V],
    "exp": ["{y}a = arith.mulf {x}, %k : " + V, "{y}b = math.exp {y}a : " + V,
            "{y} = arith.mulf {y}b, %half : " + V],
    "silu": ["{y}a = arith.negf {x} : " + V, "{y}b = math.exp {y}a : " + V,
             "{y}c = arith.addf {y}b, %one : " + V, "{y} = arith.divf {x}, {y}c : " + V],
}


def text(kind, count):
    link = LINKS[kind]
    lines, x = [], "%q"
    for i in range(count // len(link)):
        lines += ["    " + line.format(x=x, y=f"%x{i}") for line in link]
        x = f"%x{i}"
    body = "\n".join(lines)
    return f"""func.func @chain(%qs: {T}, %ks: {T}, %vs: {T}) -> ({T}, tensor<?x?x16x16xf32>) {{
  %o, %ht = ejk.scan
      sequences(%q = %qs : {T}, %k = %ks : {T}, %v = %vs : {T})
      states(%s = zero : tensor<?x?x16x16xf32>)
      -> ({T}) {{
    %half = arith.constant dense<0.5> : {V}
    %one = arith.constant dense<1.0> : {V}
    %decay = arith.constant -0.1 : f32
{body}
    %s1 = ejk.decay %s by %decay along head : vector<16x16xf32>, f32
    %s2 = ejk.outer_add %s1, %k, %v : vector<16x16xf32>, {V}, {V}
    %read = ejk.read %s2, {x} along key : vector<16x16xf32>, {V}
    ejk.yield states(%s2 : vector<16x16xf32>) outputs(%read : {V})
  }}
  return %o, %ht : {T}, tensor<?x?x16x16xf32>
}}
"""


def seconds(folder, command, kind, count):
    """Of the processor; the best of two, or of four where one takes less than a second."""
    path = folder / f"{kind}-{count}.mlir"
    path.write_text(text(kind, count))
    found = []
    while len(found) < (4 if min(found, default=0) < 1 else 2):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*command, path, "-o", folder / "x.ejk"], check=True, stderr=subprocess.DEVNULL,
                       timeout=600)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found)


def main():
    folder, kinds, command = pathlib.Path(sys.argv[1]), sys.argv[2].split(","), sys.argv[3:]
    folder.mkdir(parents=True, exist_ok=True)
    worst = 0
    for given in kinds:
        kind, count = given.split(":")
        few, some, many = (seconds(folder, command, kind, n) for n in (4, int(count), 4 * int(count)))
        ratio = (many - few) / max(some - few, 0.05)
        worst = max(worst, ratio)
        print(f"{kind}: {count} ops {some:.2f} s, {4 * int(count)} ops {many:.2f} s, ratio {ratio:.1f}", flush=True)
    return worst > MOST


if __name__ == "__main__":
    sys.exit(main())
