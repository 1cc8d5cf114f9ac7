"""Steps around a gate of each key channel that they bound, from bf16 sequences and from the same numbers in f32.

    bounded_steps.py steps|bounds TOLERANCE > cases.mlir

A scan of f32 sequences is computed step by step. Each check compares the results of the two scans.

With `steps`, the gate is 0.04 x between -3 and 0. So states of earlier chunks count. What differs is the order of the
step's decay, adds and read, and what else decays the state: a gate of the value channels, or of the head.
With `bounds`, the gate is strong in nearly every row. Its bounds follow from those of two vectors or of two decays, or
it has none. Blocks of 16 rows hold none of these gates.
"""
import itertools
import sys

T, K, V = 150, 16, 32
MATRIX, KEY, VALUE = f"vector<{K}x{V}xf32>", f"vector<{K}xf32>", f"vector<{V}xf32>"
SIZES = {"q": K, "k": K, "v": V, "x": K}

ADD, READ = f"ejk.outer_add %S, %k, %v : {MATRIX}, {KEY}, {VALUE}", f"ejk.read %S, %q along key : {MATRIX}, {KEY}"
DECAY = f"ejk.decay %S by %g along key : {MATRIX}, {KEY}"
OF_VALUES = f"ejk.decay %S by %gv along value : {MATRIX}, {VALUE}"
OF_HEAD = f"ejk.decay %S by %head along head : {MATRIX}, f32"
RISES = f"ejk.decay %S by %up along key : {MATRIX}, {KEY}"
ORDERS = {
    "adds_first": [ADD, READ, DECAY], "reads_first": [READ, DECAY, ADD], "between": [ADD, DECAY, READ, ADD],
    "two_decays": [DECAY, ADD, DECAY, READ], "both_axes": [OF_VALUES, DECAY, ADD, READ],
    "values_last": [DECAY, ADD, READ, OF_VALUES], "of_head": [OF_HEAD, DECAY, ADD, READ],
}


def constant(name, number, kind=KEY):
    return f"{name} = arith.constant dense<{number}> : {kind}"


def clamped(result, x, factor, low, high, kind=KEY):
    """`factor` times `x`, from `low` to `high`."""
    name = result[1:]
    return [constant(f"%{name}f", factor, kind), constant(f"%{name}l", low, kind), constant(f"%{name}h", high, kind),
            f"%{name}x = arith.mulf {x}, %{name}f : {kind}",
            f"{result} = math.clampf %{name}x to [%{name}l, %{name}h] : {kind}"]


WEAK = clamped("%g", "%x", 0.04, -3.0, 0.0) + clamped("%gv", "%v", 0.04, -3.0, 0.0, VALUE)
HEAD = [f"%sum = ejk.sum %gx : {KEY}", "%size = math.absf %sum : f32", "%head = arith.negf %size : f32"]
DOWN = [f"%size = math.absf %x : {KEY}", f"%down = arith.negf %size : {KEY}"]
STRONG = DOWN + clamped("%g", "%down", 40.0, -5.0, 0.0)
BOUNDS = {
    # From -20 to 0.
    "product": (clamped("%a", "%x", 40.0, 0.5, 4.0) + clamped("%b", "%k", 40.0, -5.0, 0.0)
                + [f"%g = arith.mulf %a, %b : {KEY}"], [DECAY, ADD, READ]),
    # From -15 to -3.
    "difference": (clamped("%a", "%x", 40.0, -5.0, -3.0) + clamped("%b", "%k", 40.0, 0.0, 10.0)
                   + [f"%g = arith.subf %a, %b : {KEY}"], [DECAY, ADD, READ]),
    # At most -5, as |x| is not below zero.
    "steep": ([constant("%zero", 0.0), constant("%five", -5.0), f"%minus = arith.negf %x : {KEY}",
               f"%above = arith.cmpf ogt, %x, %zero : {KEY}",
               f"%abs = arith.select %above, %x, %minus : vector<{K}xi1>, {KEY}",
               f"%e = math.exp %abs : {KEY}", f"%g = arith.mulf %five, %e : {KEY}"], [DECAY, ADD, READ]),
    # Two decays of a step, from -10 to 0 together.
    "two_decays": (STRONG, [DECAY, ADD, DECAY, READ]),
    # The same where the second one is never below zero, though what it is made of is.
    "rises": (STRONG + clamped("%up", "%down", 40.0, 0.125, 0.25), [DECAY, ADD, RISES, READ]),
    # Keys from -20 to 0, and values from -5 to 0.
    "both_axes": (DOWN + clamped("%g", "%down", 40.0, -20.0, 0.0) + clamped("%gv", "%v", 40.0, -5.0, 0.0, VALUE),
                  [DECAY, OF_VALUES, ADD, READ]),
}


def tensor(size, element):
    return f"tensor<1x{T}x2x{size}x{element}>"


def scan(name, lines, order, reverse, element):
    lines, state = list(lines), "%S"
    for i, op in enumerate(order):
        result = "%o" if op == READ else f"%S{i}"
        lines.append(f"{result} = {op.replace('%S', state)}")
        state = state if op == READ else result
    narrow = element != "f32"
    sequences = ", ".join(f"%{n}{'t' * narrow} = %{n}s : {tensor(s, element)}" for n, s in SIZES.items())
    widen = [f"%{n} = arith.extf %{n}t : vector<{s}x{element}> to vector<{s}xf32>" for n, s in SIZES.items()]
    text = "\n      ".join(widen * narrow + lines)
    out, end = tensor(V, "f32"), f"tensor<1x2x{K}x{V}xf32>"
    arguments = ", ".join(f"%{n}s: {tensor(s, element)}" for n, s in SIZES.items())
    return f"""func.func @{name}({arguments}) -> ({out}, {end}) {{
  %all:2 = ejk.scan{" reverse" * reverse} sequences({sequences})
      states(%S = zero : {end}) -> ({out}) {{
      {text}
      ejk.yield states({state} : {MATRIX}) outputs(%o : {VALUE})
  }}
  return %all#0, %all#1 : {out}, {end}
}}
"""


def check(name, tolerance):
    narrow, wide = ([tensor(s, e) for s in SIZES.values()] for e in ("bf16", "f32"))
    lines = []
    for seed, (n, a, b) in enumerate(zip(SIZES, narrow, wide), 1):
        lines += [f"%{n} = check.random normal seed {seed} : {a}", f"%{n}w = arith.extf %{n} : {a} to {b}"]
    kinds = [tensor(V, "f32"), f"tensor<1x2x{K}x{V}xf32>"]
    for made, function, w, types in (("%o", name, "", narrow), ("%e", f"{name}_wide", "w", wide)):
        lines.append(f"{made}:2 = call @{function}({', '.join(f'%{n}{w}' for n in SIZES)}) : "
                     f"({', '.join(types)}) -> ({', '.join(kinds)})")
    lines += [f"check.expect_close %o#{i}, %e#{i} max_relative {tolerance} : {kind}" for i, kind in enumerate(kinds)]
    return f"func.func @check_{name}() {{\n  " + "\n  ".join(lines) + "\n  return\n}\n"


which, tolerance = sys.argv[1:]
cases = {name: (WEAK + HEAD * (name == "of_head"), order) for name, order in ORDERS.items()}
chosen = cases if which == "steps" else BOUNDS
for (name, (lines, order)), reverse in itertools.product(chosen.items(), [False, True]):
    name += "_reverse" * reverse
    print(scan(name, lines, order, reverse, "bf16"))
    print(scan(f"{name}_wide", lines, order, reverse, "f32"))
    print(check(name, tolerance))
