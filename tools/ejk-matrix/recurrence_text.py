"""The MLIR of one recurrence of the matrix: gates, type, variant and head sizes.

B, T, N, H and Hkv are dynamic, as in a kernel that is made once and used for all.
"""

GATES = {"none": [], "gamma": ["g_gamma"], "g": ["g"], "gk": ["gk"], "gv": ["gv"],
         "gk+gv": ["gk", "gv"], "all": ["g", "g_gamma", "gk", "gv"]}
TYPES = ["f32", "bf16", "f16"]
VARIANTS = ["plain", "reverse", "packed", "gqa", "h0"]


def differentiable(gates, variant):
    """The arguments that have a gradient."""
    return ["q", "k", "v", *GATES[gates]] + (["h0"] if variant == "h0" else [])


def function(gates, kind, variant, K, V, name="recurrence", gate_kind="f32"):
    """A function of one `ejk.recurrent` that returns its output and final state.
    The type of q, k, v and o is `kind`, of g, gk and gv `gate_kind`, of states f32."""
    rows = lambda channels: f"tensor<?x?x?x{channels}x{kind}>"
    state, offsets = f"tensor<?x?x{K}x{V}xf32>", "tensor<?xi32>"
    types = {"g": f"tensor<?x?x?x{gate_kind}>", "g_gamma": "tensor<?xf32>",
             "gk": f"tensor<?x?x?x{K}x{gate_kind}>", "gv": f"tensor<?x?x?x{V}x{gate_kind}>"}
    operands = [(gate, gate, types[gate]) for gate in GATES[gates]]
    if variant == "h0":
        operands.append(("initial_state", "h0", state))
    if variant == "packed":
        operands.append(("cu_seqlens", "cu_seqlens", offsets))
    arguments = [("q", rows(K)), ("k", rows(K)), ("v", rows(V))]
    arguments += [(argument, type) for _, argument, type in operands]
    results = f"{rows(V)}, {state}"
    return "\n".join([
        f"func.func @{name}(" + ", ".join(f"%{a}: {t}" for a, t in arguments) + ")",
        f"    -> ({rows(V)} {{ejk.name = \"o\"}}, {state} {{ejk.name = \"ht\"}}) {{",
        f"  %o, %ht = ejk.recurrent {'reverse ' if variant == 'reverse' else ''}%q, %k, %v",
        "      " + " ".join(f"{clause}(%{a} : {t})" for clause, a, t in operands),
        f"      : {rows(K)}, {rows(K)}, {rows(V)} -> {results}",
        f"  return %o, %ht : {results}",
        "}", ""])
