#!/usr/bin/env python3
"""Writes the numeric tests recurrence-*.mlir and their data/*.npy.

    python3 test/oracle/generate.py

Every gate class meets every flag: a test is one gate class, its functions are
ways to run it, and what it expects is oracle.py's. Numbers are drawn from fixed
seeds, so a second run changes no file. Sizes are small, odd and all different,
K ≠ V throughout. K is 4, for then the default scale ½ is exact in f32, and the
tolerance need not make room for a rounded constant after specialisation; so
are other scales and lightning's layer fractions.
"""
import pathlib
import zlib

import numpy as np
import oracle
import tensors

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE / "data"
H, HKV, K, V = 4, 2, 4, 3

# Batched, and packed with an empty sequence and one of length 1.
LAYOUTS = {"batch": dict(B=2, T=5, N=2, cu=None),
           "packed": dict(B=1, T=9, N=5, cu=[0, 4, 4, 5, 9, 9])}

# name: layout, key/value heads, initial state, reverse
WAYS = {"plain": ("batch", H, False, False), "backwards": ("batch", H, False, True),
        "gqa_with_state": ("batch", HKV, True, False), "packed": ("packed", H, False, False),
        "packed_backwards_gqa_with_state": ("packed", HKV, True, True)}

# file: op, its gates as (operand, key of the drawn tensor), attributes, element type
TESTS = {
    "none": ("recurrent", {}, {}, "f32"),
    "g": ("recurrent", {"g": "g"}, {}, "f32"),
    "g-rank4": ("recurrent", {"g": "gk"}, {}, "f32"),
    "g-gamma": ("recurrent", {"g_gamma": "gamma"}, {}, "f32"),
    "g-gamma-per-sequence": ("recurrent", {"g_gamma": "gamma_n"}, {}, "f32"),
    "gk": ("recurrent", {"gk": "gk"}, {}, "f32"),
    "gv": ("recurrent", {"gv": "gv"}, {}, "f32"),
    "gk-gv": ("recurrent", {"gk": "gk", "gv": "gv"}, {"softmax_scale": 0.375}, "f32"),
    "g-rank4-gk": ("recurrent", {"g": "gk", "gk": "gk_forget"}, {}, "f32"),
    "all-gates": ("recurrent", {"g": "g", "g_gamma": "gamma_n", "gk": "gk", "gv": "gv"}, {}, "f32"),
    "forget": ("recurrent", {"g": "g_forget", "gk": "gk_forget", "gv": "gv_forget"}, {}, "f32"),
    "gla": ("gla", {"g": "g", "g_gamma": "gamma"}, {"softmax_scale": -1.5}, "f32"),
    "gla-bf16": ("gla", {"g": "gk"}, {}, "bf16"),
    "gv-f16": ("recurrent", {"gv": "gv"}, {}, "f16"),
    "lightning": ("lightning_attn", {}, {"layer_idx": 1, "num_layers": 4}, "f32"),
}


def shapes(layout):
    B, T, N = layout["B"], layout["T"], layout["N"]
    return {"q": (B, T, H, K), f"k{H}": (B, T, H, K), f"v{H}": (B, T, H, V),
            f"k{HKV}": (B, T, HKV, K), f"v{HKV}": (B, T, HKV, V), "h0": (N, H, K, V),
            "g": (B, T, H), "gamma": (H,), "gamma_n": (N, H), "gk": (B, T, H, K),
            "gv": (B, T, H, V), "g_forget": (B, T, H), "gk_forget": (B, T, H, K),
            "gv_forget": (B, T, H, V)}


def draw(layout_name, name, shape):
    """An input, the same whatever else is drawn. It fits f16 and bf16 alike."""
    rng = np.random.default_rng(zlib.crc32(f"{layout_name} {name}".encode()))
    if name[0] != "g":
        x = rng.standard_normal(shape)
    else:
        x = -rng.exponential(0.4, shape)
        if name.endswith("forget"):
            special = rng.choice([-np.inf, 0.0, -200.0], shape)
            x = np.where(rng.random(shape) < 0.25, special, x)
    return tensors.round_to(tensors.round_to(x, "bf16"), "f16").astype(np.float32)


def mlir_type(shape, kind):
    return f"tensor<{'x'.join(str(size) for size in shape)}x{kind}>"


class Function:
    """One function of a test: its text, and what it loads."""

    def __init__(self, test, way):
        op, gates, attributes, kind = TESTS[test]
        layout_name, kv_heads, with_state, reverse = WAYS[way]
        layout, self.files, self.lines = LAYOUTS[layout_name], {}, []
        drawn = {n: draw(layout_name, n, s) for n, s in shapes(layout).items()}

        def load(name, file, array, kind):
            self.files[file] = array
            self.lines.append(f'%{name} = check.load "data/{file}.npy" : '
                              f"{mlir_type(array.shape, kind)}")
            return mlir_type(array.shape, kind)

        types = [load(name, f"{layout_name}_{key}", drawn[key], kind)
                 for name, key in (("q", "q"), ("k", f"k{kv_heads}"), ("v", f"v{kv_heads}"))]
        operands = [drawn["q"], drawn[f"k{kv_heads}"], drawn[f"v{kv_heads}"]]
        options, clauses = {"reverse": reverse}, []
        for name, key in gates.items():
            options[name] = drawn[key]
            # Gates may be narrow too; gamma never is.
            gate_kind = "f32" if name == "g_gamma" else kind
            type_ = load(name, f"{layout_name}_{key}", drawn[key], gate_kind)
            clauses.append(f"{name}(%{name} : {type_})")
        if with_state:
            options["h0"] = drawn["h0"]
            type_ = load("h0", f"{layout_name}_h0", drawn["h0"], "f32")
            clauses.append(f"initial_state(%h0 : {type_})")
        if layout["cu"] is not None:
            options["cu_seqlens"] = layout["cu"]
            cu = np.array(layout["cu"], np.int32)
            clauses.append(f"cu_seqlens(%cu : {load('cu', f'{layout_name}_cu', cu, 'i32')})")
        options["scale"] = attributes.get("softmax_scale")
        if op == "lightning_attn":
            options["g_gamma"] = oracle.lightning_gamma(H, attributes["layer_idx"],
                                                        attributes["num_layers"])
        o, ht = oracle.forward(*operands, **options)
        results = [mlir_type(o.shape, kind), mlir_type(ht.shape, "f32")]
        spelled = ", ".join(f"{name} = {value} : {'i64' if isinstance(value, int) else 'f64'}"
                            for name, value in attributes.items())
        self.lines += [f"%o, %ht = ejk.{op} {'reverse ' if reverse else ''}%q, %k, %v",
                       *(f"    {clause}" for clause in clauses),
                       *([f"    {{{spelled}}}"] if spelled else []),
                       f"    : {', '.join(types)}", f"    -> {', '.join(results)}"]
        for name, array, result in (("o", o, results[0]), ("ht", ht, results[1])):
            wide = load(f"{name}_expected", f"{test}_{way}_{name}", array, "f64")
            self.lines += [f"%{name}_wide = arith.extf %{name} : {result} to {wide}",
                           f"check.expect_close %{name}_wide, %{name}_expected "
                           f"max_relative 1.0e-12 : {wide}"]
        body = "".join(f"  {line}\n" for line in self.lines)
        self.text = f"func.func @{way}() {{\n{body}  return\n}}\n"


def save(path, array):
    """Leaves a file that says the same: NumPy's exp may differ in a last bit
    from one version to the next."""
    if path.exists():
        old = np.load(path)
        same = array.dtype == old.dtype and array.shape == old.shape
        if same and (np.array_equal(old, array) or np.allclose(old, array, rtol=1e-14, atol=1e-14)):
            return
    np.save(path, array)


def main():
    DATA.mkdir(exist_ok=True)
    files = {}
    for test in TESTS:
        functions = [Function(test, way) for way in WAYS]
        for function in functions:
            files.update(function.files)
        header = ("// Generated by test/oracle/generate.py; run it again rather than edit this.\n"
                  "// RUN: ejk-opt %s --ejk-interpret\n"
                  "// RUN: ejk-opt %s --ejk-specialize --ejk-interpret\n"
                  "// f64 on both sides: rounding at 1e-16 a step is all that 1e-12 has to cover.\n\n")
        text = header + "\n".join(function.text for function in functions)
        (HERE / f"recurrence-{test}.mlir").write_text(text)
    kept = {f"{name}.npy" for name in files}
    for old in DATA.glob("*.npy"):
        if old.name not in kept:
            old.unlink()
    for name, array in files.items():
        save(DATA / f"{name}.npy", array)
    size = sum(path.stat().st_size for path in DATA.glob("*.npy"))
    print(f"{len(TESTS)} tests of {len(WAYS)} functions, {len(files)} files, {size // 1000} kB")


if __name__ == "__main__":
    main()
