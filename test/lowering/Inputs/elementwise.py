"""Compiles a step of each elementwise op from floats to a float that the interpreter has,
and prints what its PTX would have from a device library, or why it has no form in a kernel."""
import re
import subprocess
import sys

ONE = """absf ceil floor round roundeven trunc sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos
    tan tanh sinh cosh asin acos atan asinh acosh atanh erf erfc cbrt""".split()
OPS = [f"math.{op} %a" for op in ONE]
OPS += [f"math.{op} %a, %b" for op in ("powf", "atan2", "copysign")] + [
    "math.fma %a, %b, %a", "math.clampf %a to [%a, %b]"]
OPS += ["arith.negf %a"] + [f"arith.{op} %a, %b" for op in (
    "addf subf mulf divf remf maximumf minimumf maxnumf minnumf".split())]
FUNCTION = """func.func @f(%x: tensor<?x?x?x8x{0}>, %y: tensor<?x?x?x8x{0}>) -> tensor<?x?x?x8x{0}> {{
  %o = ejk.scan sequences(%a = %x : tensor<?x?x?x8x{0}>, %b = %y : tensor<?x?x?x8x{0}>) -> (tensor<?x?x?x8x{0}>) {{
    %r = {1} : vector<8x{0}>
    ejk.yield outputs(%r : vector<8x{0}>)
  }}
  return %o : tensor<?x?x?x8x{0}>
}}
"""

compiled = 0
for op in OPS:
    for kind in ("f32", "bf16"):
        done = subprocess.run([sys.argv[1], "-", "--emit=ptx", "-o", "-"], text=True,
                              capture_output=True, input=FUNCTION.format(kind, op), check=False)
        needs = sorted(set(re.findall(r"\b__nv_\w+", done.stdout)))
        error = re.search("error: (.*)", done.stderr)
        compiled += not done.returncode and not needs
        if done.returncode or needs:
            print(op, kind, *needs, error[1] if error else done.returncode)
print(compiled, "of", 2 * len(OPS), "compiled")
