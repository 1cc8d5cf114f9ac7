"""restart.py NAME: a delta rule of small heads: batch, from an initial state; reverse; or packed."""
import sys

ROWS = "tensor<{batch}x?x?x48xbf16>"
STATE = "tensor<?x?x48x48xf32>"


def function(name, batch="?", reverse="", initial=False, packed=False):
    rows, rates = ROWS.format(batch=batch), f"tensor<{batch}x?x?xf32>"
    arguments = [f"%{row}: {rows}" for row in "qkv"] + [f"%beta: {rates}"]
    operands = f"beta(%beta : {rates})"
    if initial:
        arguments.append(f"%h0: {STATE}")
        operands += f" initial_state(%h0 : {STATE})"
    if packed:
        arguments.append("%cu: tensor<?xi32>")
        operands += " cu_seqlens(%cu : tensor<?xi32>)"
    print(f"""func.func @{name}({", ".join(arguments)}) -> ({rows}, {STATE}) {{
  %o, %ht = ejk.delta_rule{reverse} %q, %k, %v {operands}
      : {rows}, {rows}, {rows} -> {rows}, {STATE}
  return %o, %ht : {rows}, {STATE}
}}""")


options = {"batch": {"initial": True}, "reverse": {"reverse": " reverse"}, "packed": {"batch": "1", "packed": True}}
function(sys.argv[1], **options[sys.argv[1]])
