#!/usr/bin/env python3
"""Writes a function for each order in which a step may read, decay and add, with gates of
keys and of values, forward and reverse; named ORDER_AXIS_DIRECTION, as rda_key_forward."""
import itertools

C = 16
STATE, VECTOR, ROWS = f"vector<{C}x{C}xf32>", f"vector<{C}xf32>", f"tensor<?x?x1x{C}xbf16>"


def function(order, axis, direction):
    lines, state = [], "%S"
    for letter in order:
        if letter == "r":
            lines.append(f"%r = ejk.read {state}, %qf along key : {STATE}, {VECTOR}")
        elif letter == "d":
            lines.append(f"%D = ejk.decay {state} by %gt along {axis} : {STATE}, {VECTOR}")
            state = "%D"
        else:
            lines.append(f"%A = ejk.outer_add {state}, %kf, %vf : {STATE}, {VECTOR}, {VECTOR}")
            state = "%A"
    steps = "\n    ".join(lines)
    gates = f"tensor<?x?x1x{C}xf32>"
    return f"""func.func @{order}_{axis}_{direction}(%q: {ROWS}, %k: {ROWS}, %v: {ROWS},
    %g{axis[0]}: {gates}) -> {ROWS} {{
  %o, %ht = ejk.scan {"reverse " if direction == "reverse" else ""}sequences(%qt = %q : {ROWS}, %kt = %k : {ROWS},
      %vt = %v : {ROWS}, %gt = %g{axis[0]} : {gates})
      states(%S = zero : tensor<?x1x{C}x{C}xf32>) -> ({ROWS}) {{
    %qf = arith.extf %qt : vector<{C}xbf16> to {VECTOR}
    %kf = arith.extf %kt : vector<{C}xbf16> to {VECTOR}
    %vf = arith.extf %vt : vector<{C}xbf16> to {VECTOR}
    {steps}
    %ot = arith.truncf %r : {VECTOR} to vector<{C}xbf16>
    ejk.yield states({state} : {STATE}) outputs(%ot : vector<{C}xbf16>)
  }}
  return %o : {ROWS}
}}
"""


for order in map("".join, itertools.permutations("rda")):
    for axis in ("key", "value"):
        for direction in ("forward", "reverse"):
            print(function(order, axis, direction))
