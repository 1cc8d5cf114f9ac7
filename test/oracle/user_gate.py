"""Mamba-2's recurrence, whose gate is computed in the step: its gradients in NumPy,
and the test vjp-mamba2.mlir, made by generate.py.

    s_t = softplus(dt_t + bias)   g_t = -exp(A)·s_t   v_t = s_t·x_t

With the gradients of the plain recurrence by g and v as oracle.py has them, the
rest is the chain rule, written out here once more.
"""
import numpy as np
import oracle

STEP = """    %zero = arith.constant 0.0 : f32
    %y = arith.addf %dtt, %bi : f32
    %top = arith.maximumf %y, %zero : f32
    %abs = math.absf %y : f32
    %low = arith.negf %abs : f32
    %e = math.exp %low : f32
    %l = math.log1p %e : f32
    %step = arith.addf %top, %l : f32
    %ea = math.exp %a : f32
    %rate = arith.mulf %ea, %step : f32
    %g = arith.negf %rate : f32
    %S1 = ejk.decay %S by %g along head : vector<4x3xf32>, f32
    %sv = vector.broadcast %step : f32 to vector<3xf32>
    %xs = arith.mulf %xt, %sv : vector<3xf32>
    %S2 = ejk.outer_add %S1, %bt, %xs : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    %ot = ejk.read %S2, %ct along key : vector<4x3xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x3xf32>) outputs(%ot : vector<3xf32>)"""


def operands(c, b, x, dt, A, bias):
    """What the plain recurrence is called with, and what else the chain rule needs."""
    heads = c.shape[2]
    spread = lambda p: np.repeat(p, heads // p.shape[0])
    y = dt + spread(bias)
    step = np.logaddexp(0, y)
    g = -np.exp(spread(A)) * step
    x_heads = np.repeat(x, heads // x.shape[2], axis=2)
    return g, step, x_heads, x_heads * step[..., None], 1 / (1 + np.exp(-y))


def forward(c, b, x, dt, A, bias, **options):
    g, _, _, v, _ = operands(c, b, x, dt, A, bias)
    k = np.repeat(b, c.shape[2] // b.shape[2], axis=2)
    return oracle.forward(c, k, v, g=g, scale=1.0, **options)


def backward(c, b, x, dt, A, bias, do, dht, **options):
    g, step, x_heads, v, slope = operands(c, b, x, dt, A, bias)
    heads = c.shape[2]
    k = np.repeat(b, heads // b.shape[2], axis=2)
    plain = oracle.backward(c, k, v, do, dht, g=g, scale=1.0, **options)
    fold = lambda z, to: z.reshape(z.shape[:2] + (to, heads // to) + z.shape[3:]).sum(axis=3)
    folded = lambda z, to: z.reshape(to, heads // to).sum(axis=1)
    dstep = (plain["v"] * x_heads).sum(axis=3) + plain["g"] * g / step
    dy = dstep * slope
    return {"c": plain["q"], "b": fold(plain["k"], b.shape[2]),
            "x": fold(plain["v"] * step[..., None], x.shape[2]), "dt": dy,
            "A": folded((plain["g"] * g).sum(axis=(0, 1)), A.shape[0]),
            "bias": folded(dy.sum(axis=(0, 1)), bias.shape[0])}


def check_gradients(inputs, do, dht, grads, **options):
    """Against central differences."""
    def loss():
        o, ht = forward(**inputs, **options)
        return (do * o).sum() + (dht * ht).sum()
    for name, grad in grads.items():
        x, numeric = inputs[name], np.zeros(grad.shape)
        for index in np.ndindex(*x.shape):
            kept, sides = x[index], []
            for sign in (1, -1):
                x[index] = kept + sign * 1e-5
                sides.append(loss())
            x[index] = kept
            numeric[index] = (sides[0] - sides[1]) / 2e-5
        error = np.abs(grad - numeric).max() / max(1.0, np.abs(numeric).max())
        if not error < 1e-8:  # the step's square, plus rounding over the step
            raise SystemExit(f"mamba2: d{name} is wrong by {error:.2e}")


def test(layouts, draw, mlir_type):
    """The test's functions, and the arrays that they load."""
    text, files = [], {}
    for name, layout_name, reverse in (("batch", "batch", False), ("packed_reverse", "packed", True)):
        layout = layouts[layout_name]
        B, T, N = layout["B"], layout["T"], layout["N"]
        shapes = {"c": (B, T, 4, 4), "b": (B, T, 2, 4), "x": (B, T, 4, 3), "dt": (B, T, 4),
                  "A": (4,), "bias": (2,), "do": (B, T, 4, 3), "dht": (N, 4, 4, 3)}
        drawn = {n: draw(layout_name, f"mamba_{n}", s).astype(np.float64) for n, s in shapes.items()}
        inputs = {n: drawn[n] for n in ("c", "b", "x", "dt", "A", "bias")}
        options = {"reverse": reverse, "cu_seqlens": layout["cu"]}
        grads = backward(**inputs, do=drawn["do"], dht=drawn["dht"], **options)
        check_gradients(inputs, drawn["do"], drawn["dht"], grads, **options)

        type_of = {n: mlir_type(s, "f32") for n, s in shapes.items()}
        arguments = {n: type_of[n] for n in inputs}
        clause = ""
        if layout["cu"] is not None:
            arguments["cu"] = mlir_type((len(layout["cu"]),), "i32")
            clause = f" cu_seqlens(%cu : {arguments['cu']})"
            files[f"{layout_name}_cu"] = np.array(layout["cu"], np.int32)
        o, ht = type_of["do"], type_of["dht"]
        listed = lambda pairs: ", ".join(f"%{n}: {t}" for n, t in pairs)
        types = ", ".join([*arguments.values(), o, ht])
        results = ", ".join(type_of[n] for n in inputs)
        lines = [f"func.func @{name}({listed(arguments.items())}) -> ({o}, {ht}) {{",
                 f"  %o, %ht = ejk.scan{' reverse' if reverse else ''}{clause}",
                 f"      sequences(%ct = %c : {type_of['c']}, %bt = %b : {type_of['b']},",
                 f"                %xt = %x : {type_of['x']}, %dtt = %dt : {type_of['dt']})",
                 f"      parameters(%a = %A : {type_of['A']} as f32, %bi = %bias : {type_of['bias']} as f32)",
                 f"      states(%S = zero : {ht}) -> ({o}) {{", STEP, "  }",
                 f"  return %o, %ht : {o}, {ht}", "}", "",
                 f"func.func private @{name}_vjp({types})", f"    -> ({results})", "",
                 f"func.func @check_{name}() {{"]
        for n, t in [*arguments.items(), ("do", o), ("dht", ht)]:
            file = f"{layout_name}_cu" if n == "cu" else f"{layout_name}_mamba_{n}"
            if n != "cu":
                files[file] = drawn[n].astype(np.float32)
            lines.append(f'  %{n} = check.load "{file}.npy" : {t}')
        values = ", ".join(f"%{n}" for n in [*arguments, "do", "dht"])
        lines += [f"  {', '.join(f'%g_{n}' for n in inputs)} = func.call @{name}_vjp({values})",
                  f"      : ({types})", f"      -> ({results})"]
        for n, grad in grads.items():
            files[f"vjp-mamba2_{name}_{n}"] = grad
            wide = mlir_type(grad.shape, "f64")
            lines += [f'  %e_{n} = check.load "vjp-mamba2_{name}_{n}.npy" : {wide}',
                      f"  %w_{n} = arith.extf %g_{n} : {type_of[n]} to {wide}",
                      f"  check.expect_close %w_{n}, %e_{n} max_relative 1.0e-12 : {wide}"]
        text.append("\n".join(lines + ["  return", "}", ""]))
    return "\n".join(text), files
