#!/usr/bin/env python3
"""Writes the numeric tests recurrence-*.mlir and vjp-*.mlir, and their data/*.npy.

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


# Gradients: file, and the ways that add something to what others show. What has
# no initial state returns no final state either, and so has no dht.
GRADIENTS = {
    "none": list(WAYS), "gk": list(WAYS), "lightning": list(WAYS),
    **{test: ["plain", "gqa_with_state", "packed_backwards_gqa_with_state"]
       for test in ("g", "g-gamma", "g-gamma-per-sequence", "gv", "gk-gv", "all-gates")},
    **{test: ["packed_backwards_gqa_with_state"]
       for test in ("g-rank4", "g-rank4-gk", "forget", "gla-bf16", "gv-f16")},
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


class Case:
    """A recurrence and its operands: what a test of it has in common with others."""

    def __init__(self, test, way):
        self.op, gates, self.attributes, self.kind = TESTS[test]
        layout_name, kv_heads, self.with_state, self.reverse = WAYS[way]
        layout = LAYOUTS[layout_name]
        drawn = {n: draw(layout_name, n, s) for n, s in shapes(layout).items()}
        self.layout_name, self.operands, self.clauses = layout_name, [], []
        self.files, self.lines = {}, []

        def operand(name, key, array, kind, clause=None):
            type_ = mlir_type(array.shape, kind)
            self.operands.append((name, f"{layout_name}_{key}", array, kind))
            if clause:
                self.clauses.append(f"{clause}(%{name} : {type_})")

        for name, key in (("q", "q"), ("k", f"k{kv_heads}"), ("v", f"v{kv_heads}")):
            operand(name, key, drawn[key], self.kind)
        options = {"reverse": self.reverse}
        for name, key in gates.items():
            # Gates may be narrow too; gamma never is.
            operand(name, key, drawn[key], "f32" if name == "g_gamma" else self.kind, name)
            options[name] = drawn[key]
        if self.with_state:
            operand("h0", "h0", drawn["h0"], "f32", "initial_state")
            options["h0"] = drawn["h0"]
        if layout["cu"] is not None:
            operand("cu", "cu", np.array(layout["cu"], np.int32), "i32", "cu_seqlens")
            options["cu_seqlens"] = layout["cu"]
        options["scale"] = self.attributes.get("softmax_scale")
        if self.op == "lightning_attn":
            options["g_gamma"] = oracle.lightning_gamma(H, self.attributes["layer_idx"],
                                                        self.attributes["num_layers"])
        self.options, self.qkv = options, [array for _, _, array, _ in self.operands[:3]]
        self.o, self.ht = oracle.forward(*self.qkv, **options)
        self.results = [mlir_type(self.o.shape, self.kind), mlir_type(self.ht.shape, "f32")]

    def recurrence(self):
        """The op's lines."""
        spelled = ", ".join(f"{name} = {value} : {'i64' if isinstance(value, int) else 'f64'}"
                            for name, value in self.attributes.items())
        types = [mlir_type(array.shape, self.kind) for array in self.qkv]
        return [f"%o, %ht = ejk.{self.op} {'reverse ' if self.reverse else ''}%q, %k, %v",
                *(f"    {clause}" for clause in self.clauses),
                *([f"    {{{spelled}}}"] if spelled else []),
                f"    : {', '.join(types)}", f"    -> {', '.join(self.results)}"]

    def load(self, name, file, array, kind):
        self.files[file] = array
        type_ = mlir_type(array.shape, kind)
        self.lines.append(f'%{name} = check.load "data/{file}.npy" : {type_}')
        return type_

    def expect(self, name, file, array, type_):
        wide = self.load(f"{name}_expected", file, array, "f64")
        found = f"%{name}"
        if type_ != wide:
            found = f"%{name}_wide"
            self.lines.append(f"{found} = arith.extf %{name} : {type_} to {wide}")
        self.lines.append(f"check.expect_close {found}, %{name}_expected "
                          f"max_relative 1.0e-12 : {wide}")

    @staticmethod
    def function(signature, lines, end="return"):
        body = "".join(f"  {line}\n" for line in lines)
        return f"func.func {signature} {{\n{body}  {end}\n}}\n"


class Function(Case):
    """One function of a test: its text, and what it loads."""

    def __init__(self, test, way):
        super().__init__(test, way)
        for operand in self.operands:
            self.load(*operand)
        self.lines += self.recurrence()
        for name, array, type_ in (("o", self.o, self.results[0]), ("ht", self.ht, self.results[1])):
            self.expect(name, f"{test}_{way}_{name}", array, type_)
        self.text = self.function(f"@{way}()", self.lines)


class Gradient(Case):
    """A function of a recurrence, and one that checks its derivative."""

    def __init__(self, test, way):
        super().__init__(test, way)
        count = 2 if self.with_state else 1
        returned = list(zip(("o", "ht"), self.results))[:count]
        arguments = [(name, mlir_type(array.shape, kind)) for name, _, array, kind in self.operands]
        function = self.function(
            f"@{way}({', '.join(f'%{name}: {type_}' for name, type_ in arguments)})\n    -> "
            f"({', '.join(type_ for _, type_ in returned)})", self.recurrence(),
            f"return {', '.join(f'%{name}' for name, _ in returned)} : "
            f"{', '.join(type_ for _, type_ in returned)}")
        for operand in self.operands:
            self.load(*operand)
        cotangents = {}
        for (name, type_), shape in zip(returned, (self.o.shape, self.ht.shape)):
            cotangents[f"d{name}"] = draw(self.layout_name, f"d{name}", shape)
            kind = self.kind if name == "o" else "f32"
            arguments.append((f"d{name}", self.load(f"d{name}", f"{self.layout_name}_d{name}",
                                                    cotangents[f"d{name}"], kind)))
        grads = oracle.backward(*self.qkv, **cotangents, **self.options)
        given = [(name, kind) for name, _, _, kind in self.operands if name != "cu"]
        types = [mlir_type(grads[name].shape, kind) for name, kind in given]
        signature = f"({', '.join(type_ for _, type_ in arguments)})\n    -> ({', '.join(types)})"
        self.lines += [f"{', '.join(f'%d{name}' for name, _ in given)} = func.call @{way}_vjp("
                       f"{', '.join(f'%{name}' for name, _ in arguments)})",
                       f"    : {signature}"]
        for (name, _), type_ in zip(given, types):
            self.expect(f"d{name}", f"vjp-{test}_{way}_d{name}", grads[name], type_)
        self.text = "\n".join([function, f"func.func private @{way}_vjp{signature}\n",
                               self.function(f"@check_{way}()", self.lines)])


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
    for test, ways in GRADIENTS.items():
        functions = [Gradient(test, way) for way in ways]
        for function in functions:
            files.update(function.files)
        header = ("// Generated by test/oracle/generate.py; run it again rather than edit this.\n"
                  "// RUN: ejk-opt %s --ejk-backward --ejk-interpret\n"
                  "// f64 on both sides: rounding at 1e-16 a step is all that 1e-12 has to cover,\n"
                  "// a gate's gradient being a sum over a few steps.\n\n")
        text = header + "\n".join(function.text for function in functions)
        (HERE / f"vjp-{test}.mlir").write_text(text)
    kept = {f"{name}.npy" for name in files}
    for old in DATA.glob("*.npy"):
        if old.name not in kept:
            old.unlink()
    for name, array in files.items():
        save(DATA / f"{name}.npy", array)
    size = sum(path.stat().st_size for path in DATA.glob("*.npy"))
    print(f"{len(TESTS) + len(GRADIENTS)} tests, {len(files)} files, {size // 1000} kB")


if __name__ == "__main__":
    main()
