"""Scans with gates that their step bounds, and the same scans of f32 sequences, which are computed step by step.

    bounded_gates.py TOLERANCE > cases.mlir

A gate of a channel is -5 sigmoid(x), with x of every size. Or a comparison of the key chooses between a gate of -4 and
one that only zero bounds, and that is near -40 at times. Or a gate is at one of its bounds, the strong one of which
its kind names, in nearly every row. Each function compares the results of one scan."""
import itertools
import sys

T, K, V = 150, 16, 32
# Of a chunk of 64 rows one block, two and four.
DELTA = ("delta", "at2.4", "at5.0", "at7.5")


def gate(kind, size):
    """-5 sigmoid(x), by the formula or by one that keeps its digits on both sides, or x within bounds."""
    vector, mask = f"vector<{size}xf32>", f"vector<{size}xi1>"
    lines = [f"%one = arith.constant dense<1.0> : {vector}", f"%five = arith.constant dense<-5.0> : {vector}",
             f"%zero = arith.constant dense<0.0> : {vector}", f"%minus = arith.negf %x : {vector}"]
    if kind in ("flag", "flag_else"):
        test, sides = ("oge", "%m, %four") if kind == "flag" else ("olt", "%four, %m")
        return lines + [f"%four = arith.constant dense<-4.0> : {vector}",
                        f"%many = arith.constant dense<40.0> : {vector}",
                        f"%y = arith.mulf %x, %many : {vector}", f"%m = arith.minimumf %y, %zero : {vector}",
                        f"%b = arith.cmpf {test}, %k, %zero : {vector}",
                        f"%g = arith.select %b, {sides} : {mask}, {vector}"]
    if kind.startswith("at"):
        return lines + [f"%many = arith.constant dense<40.0> : {vector}", f"%y = arith.mulf %x, %many : {vector}",
                        f"%low = arith.constant dense<-{kind[2:]}> : {vector}",
                        f"%g = math.clampf %y to [%low, %zero] : {vector}"]
    if kind == "clip":
        return lines + [f"%g = math.clampf %x to [%five, %zero] : {vector}"]
    if kind == "sides":
        return lines + [f"%b = arith.cmpf olt, %x, %zero : {vector}",
                        f"%y = arith.select %b, %x, %minus : {mask}, {vector}", f"%e = math.exp %y : {vector}",
                        f"%n = arith.select %b, %e, %one : {mask}, {vector}",
                        f"%d = arith.addf %one, %e : {vector}", f"%s = arith.divf %n, %d : {vector}",
                        f"%g = arith.mulf %five, %s : {vector}"]
    return lines + [f"%e = math.exp %minus : {vector}", f"%d = arith.addf %one, %e : {vector}",
                    f"%g = arith.divf %five, %d : {vector}"]


def step(kind, axis):
    size = K if axis == "key" else V
    vector = f"vector<{size}xf32>"
    lines = gate(kind, size)
    S, k, v = f"vector<{K}x{V}xf32>", f"vector<{K}xf32>", f"vector<{V}xf32>"
    lines.append(f"%S1 = ejk.decay %S by %g along {axis} : {S}, {vector}")
    added = "%v"
    if kind in DELTA:
        lines += [f"%r = ejk.read %S1, %k along key : {S}, {k}", f"%u = arith.subf %v, %r : {v}",
                  f"%c = arith.constant dense<{0.5 if kind == 'delta' else 0.05}> : {v}",
                  f"%w = arith.mulf %u, %c : {v}"]
        added = "%w"
    lines += [f"%S2 = ejk.outer_add %S1, %k, {added} : {S}, {k}, {v}",
              f"%o = ejk.read %S2, %q along key : {S}, {k}"]
    return lines


def scan(name, kind, axis, reverse, narrow):
    gate = K if axis == "key" else V
    sizes = {"q": K, "k": K, "v": V, "x": gate}
    tensor = lambda size, kind: f"tensor<1x{T}x2x{size}x{kind}>"
    rows = "" if narrow == "f32" else "t"
    arguments = ", ".join(f"%{n}s: {tensor(s, narrow)}" for n, s in sizes.items())
    sequences = ", ".join(f"%{n}{rows} = %{n}s : {tensor(s, narrow)}" for n, s in sizes.items())
    widen = [f"%{n} = arith.extf %{n}t : vector<{s}x{narrow}> to vector<{s}xf32>" for n, s in sizes.items()]
    text = "\n      ".join(widen * bool(rows) + step(kind, axis))
    flag = " reverse" * reverse
    return f"""func.func @{name}({arguments}) -> {tensor(V, "f32")} {{
  %all:2 = ejk.scan{flag} sequences({sequences})
      states(%S = zero : tensor<1x2x{K}x{V}xf32>) -> ({tensor(V, "f32")}) {{
      {text}
      ejk.yield states(%S2 : vector<{K}x{V}xf32>) outputs(%o : vector<{V}xf32>)
  }}
  return %all#0 : {tensor(V, "f32")}
}}
"""


print("// cases")
cases = [*itertools.product(["gated", "delta"], ["key", "value"], [False, True]),
         *itertools.product(DELTA[1:], ["key"], [False, True]),
         ("sides", "key", False), ("clip", "key", False), ("flag", "key", False), ("flag_else", "key", True)]
for kind, axis, reverse in cases:
    name = f"{kind}_{axis}".replace(".", "_") + "_reverse" * reverse
    print(scan(name, kind, axis, reverse, "bf16"))
    print(scan(f"{name}_wide", kind, axis, reverse, "f32"))
    sizes = {"q": K, "k": K, "v": V, "x": K if axis == "key" else V}
    made, wide = [], []
    for seed, (n, s) in enumerate(sizes.items(), 1):
        narrow, f32 = f"tensor<1x{T}x2x{s}xbf16>", f"tensor<1x{T}x2x{s}xf32>"
        made.append(f"%{n} = check.random normal seed {seed} : {narrow}")
        wide.append(f"%{n}w = arith.extf %{n} : {narrow} to {f32}")
    types = ", ".join(f"tensor<1x{T}x2x{s}xbf16>" for s in sizes.values())
    names = ", ".join(f"%{n}" for n in sizes)
    out = f"tensor<1x{T}x2x{V}xf32>"
    print(f"func.func @check_{name}() {{\n  " + "\n  ".join(made + wide) + f"""
  %o = call @{name}({names}) : ({types}) -> {out}
  %e = call @{name}_wide({names.replace(",", "w,")}w) : ({types.replace("bf16", "f32")}) -> {out}
  check.expect_close %o, %e max_relative {sys.argv[1]} : {out}
  return
}}
""")
