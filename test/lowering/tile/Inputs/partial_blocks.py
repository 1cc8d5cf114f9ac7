"""Head sizes that are no multiple of 64, by TMA: what kernels in the emulator compute beside the f64 interpreter.

    partial_blocks.py EJK_COMPILE EJK_RUN

Each size runs forward and backward, dense and packed: several heads, a ragged last chunk, sequences that start inside a chunk of others.
A line says what copies rows and whether all results pass.
"""
import re
import subprocess
import sys

# Multiples of 8 channels, as TMA needs, and one that is not. The last is cut into slices, of which one goes beyond its head.
SIZES = [(72, 72), (80, 80), (96, 96), (112, 112), (128, 96), (100, 100), (160, 160)]
# Those with gates per channel in f32, whose blocks have 32 columns.
SIZES_F32 = [(80, 80), (96, 96), (112, 112), (64, 160), (100, 64)]


def source(gate, K, V, packed):
    row = lambda n, dtype="bf16": f"tensor<?x?x?x{n}x{dtype}>"
    kind = {"gk": row(K), "gk_f32": row(K, "f32"), "g": "tensor<?x?x?xf32>"}[gate]
    gate = gate.split("_")[0]
    given, clause = (", %cu: tensor<?xi32>", " cu_seqlens(%cu : tensor<?xi32>)") if packed else ("", "")
    return (f"func.func @f(%q: {row(K)}, %k: {row(K)}, %v: {row(V)}, %{gate}: {kind}{given}) -> {row(V)} {{\n"
            f"  %o, %ht = ejk.recurrent %q, %k, %v {gate}(%{gate} : {kind}){clause} : {row(K)}, {row(K)}, {row(V)}\n"
            f"      -> {row(V)}, tensor<?x?x{K}x{V}xf32>\n  return %o : {row(V)}\n}}\n")


def loads(compiler, text, *flags):
    done = subprocess.run([compiler, "-", *flags, "--emit=plan", "--print-cost-model"], input=text, capture_output=True,
                          text=True)
    return " and ".join(dict.fromkeys(re.findall(r"\] loads \| .* chosen=(\w+)", done.stderr))) or done.stderr


def passes(runner, text, packed, *flags):
    sizes = "B=1,T=150,H=3,Hkv=3,N=3" if packed else "B=2,T=70,H=2,Hkv=2"
    done = subprocess.run([runner, "-", *flags, "--device=cuda", "--check", "--random", sizes], input=text,
                          capture_output=True, text=True)
    checks = re.findall(r"check \w+: (\w+)", done.stdout)
    return "pass" if done.returncode == 0 and checks and set(checks) == {"pass"} else done.stdout + done.stderr


def main(compiler, runner):
    cases = [("g" if K in (72, 96) else "gk", K, V) for K, V in SIZES] + [("gk_f32", *size) for size in SIZES_F32]
    for gate, K, V in cases:
        for direction, flags in (("forward", []), ("derivative", ["--vjp", "--save-states"])):
            if direction == "derivative" and (K, V) in ((100, 100), (160, 160), (100, 64)):
                continue
            flags = [*flags, "--schedule=chunk", "--by-gates=never", "--arch=sm_90a"]
            for packed in (False, True):
                text = source(gate, K, V, packed)
                print(f"{gate} {K}x{V} {direction}{', packed' * packed}: {loads(compiler, text, *flags)}, "
                      f"{passes(runner, text, packed, *flags)}", flush=True)


main(*sys.argv[1:])
