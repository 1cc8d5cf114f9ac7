"""Steps of ONNX's Scan: what computes a linear recurrence, beside ONNX's own evaluator, and what is refused."""

import unittest

import numpy as np
from test_onnx import LIMITS, MISSING, attention, expanded, helper, off, onnx, tuple_of

import ejk
import ejk.onnx

# There are as many heads as keys and values, so that no mistake is found by sizes.
MODEL = """<ir_version: 10, opset_import: ["" : 21]>
g (float[1,2,2,2] S0, float[1,2,2] Z0, float[T,1,2,2] Q, float[T,1,2,2] K, float[T,1,2,2] V, float[T,1,2] G) =>
  (float[1,2,2,2] SN, float[1,2,2] ZN, float[T,1,2,2] O)
{
  SN, ZN, O = Scan <num_scan_inputs = 4, body = step
    (float[1,2,2,2] S, float[1,2,2] z, float[1,2,2] q, float[1,2,2] k, float[1,2,2] v, float[1,2] g) =>
    (float[1,2,2,2] S1, float[1,2,2] z1, float[1,2,2] o) {
      STEP
    }> (S0, Z0, Q, K, V, G)
}
"""
STEP = {"first": "first = Constant <value_ints = [0]> ()", "row": "row = Constant <value_ints = [2]> ()",
        "column": "column = Constant <value_ints = [3]> ()", "both": "both = Constant <value_ints = [2, 3]> ()",
        "e": "e = Exp (g)", "decay": "decay = Unsqueeze (e, both)", "D": "D = Mul (S, decay)",
        "kc": "kc = Unsqueeze (k, column)", "vr": "vr = Unsqueeze (v, row)", "kv": "kv = Mul (kc, vr)",
        "S1": "S1 = Add (D, kv)", "z1": "z1 = Add (z, k)", "qr": "qr = Unsqueeze (q, row)", "r": "r = MatMul (qr, S1)",
        "o": "o = Squeeze (r, row)"}
READS_BEFORE = {"r": "r = MatMul (qr, D)"}


def scan(**changed):
    """The model, with other lines in the place of those that have these results."""
    assert changed.keys() <= STEP.keys()
    return onnx.parser.parse_model(MODEL.replace("STEP", "\n".join({**STEP, **changed}.values())))


def directed(inputs, outputs):
    """The model, whose Scan takes its four inputs and gives its output in these directions: 1 is from the last step."""
    model = scan()
    model.graph.node[0].attribute.extend([helper.make_attribute("scan_input_directions", inputs),
                                          helper.make_attribute("scan_output_directions", outputs)])
    return model


def values_of(model):
    rng = np.random.default_rng(0)
    return {i.name: rng.normal(size=[d.dim_value or 5 for d in i.type.tensor_type.shape.dim]).astype("f4") / 2
            for i in model.graph.input}


@unittest.skipIf(MISSING, MISSING)
class Computed(unittest.TestCase):
    def check(self, **changed):
        model = scan(**changed)
        onnx.checker.check_model(model)
        given = values_of(model)
        wanted = onnx.reference.ReferenceEvaluator(model).run(None, given)
        for output, a, b in zip(model.graph.output, tuple_of(ejk.onnx.compile(model)(**given)), wanted, strict=True):
            with self.subTest(output=output.name, **changed):
                self.assertLessEqual(off(a, b), LIMITS["f32"])

    def test_what_is_added_to_a_state(self):
        self.check()
        for text in ("S1 = Add (kv, D)", "S1 = Sub (D, kv)", "n = Neg (kc)\nnv = Mul (n, vr)\nS1 = Add (nv, D)"):
            self.check(S1=text)
        for text in ("kv = Mul (vr, kc)", "kv = MatMul (kc, vr)",
                     "b = Unsqueeze (g, both)\np = Mul (kc, vr)\nkv = Mul (p, b)",
                     "b = Unsqueeze (g, both)\np = MatMul (kc, vr)\nkv = Mul (b, p)"):
            self.check(kv=text)

    def test_a_decay(self):
        self.check(D="D = Mul (decay, S)")
        self.check(D="D = Identity (S)")
        for place in ("row", "column"):
            self.check(e="e = Exp (k)", decay=f"decay = Unsqueeze (e, {place})")

    def test_a_state_that_is_turned(self):
        self.check(S1="t = Transpose <perm = [0, 1, 3, 2]> (D)\nkr = Unsqueeze (k, row)\nvc = Unsqueeze (v, column)\n"
                      "vk = Mul (vc, kr)\nu = Sub (t, vk)\nS1 = Transpose <perm = [0, 1, 3, 2]> (u)")
        self.check(D="t = Transpose <perm = [0, 1, 3, 2]> (S)\nx = Exp (k)\ny = Unsqueeze (x, row)\nu = Mul (t, y)\n"
                     "D = Transpose <perm = [0, 1, 3, 2]> (u)")
        self.check(r="t = Transpose <perm = [0, 1, 3, 2]> (S1)\nr = MatMul (qr, t)")

    def test_a_read_along_values(self):
        self.check(r="qc = Unsqueeze (q, column)\nr = MatMul (S1, qc)", o="o = Squeeze (r, column)")

    def test_from_the_last_step_to_the_first(self):
        """ONNX's evaluator knows no directions: it gets the rows in the other order."""
        model, whole = directed([1] * 4, [1]), scan()
        given = values_of(model)
        turned = {n: x if n in ("S0", "Z0") else x[::-1] for n, x in given.items()}
        *states, o = onnx.reference.ReferenceEvaluator(whole).run(None, turned)
        for a, b in zip(ejk.onnx.compile(model)(**given), (*states, o[::-1]), strict=True):
            self.assertLessEqual(off(a, b), LIMITS["f32"])

    def test_where_time_is(self):
        """Axes are counted from the front, or from the end. ONNX's evaluator knows the first alone."""
        whole = scan()
        given = values_of(whole)
        *states, o = onnx.reference.ReferenceEvaluator(whole).run(None, given)
        for axis in (0, 1, 3, -1, -2, -4):
            model = scan()
            model.graph.node[0].attribute.extend([helper.make_attribute("scan_input_axes", [axis, axis, axis, -3]),
                                                  helper.make_attribute("scan_output_axes", [axis])])
            for tensor in (*model.graph.input[2:5], *model.graph.output[2:]):
                sizes = tensor.type.tensor_type.shape.dim
                names = [d.dim_param or d.dim_value for d in sizes]
                names.insert(axis % 4, names.pop(0))
                tensor.CopyFrom(helper.make_tensor_value_info(tensor.name, onnx.TensorProto.FLOAT, names))
            moved = {n: np.moveaxis(x, 0, axis) if n in ("Q", "K", "V") else x for n, x in given.items()}
            found = ejk.onnx.compile(model)(**moved)
            for a, b in zip(found, (*states, np.moveaxis(o, 0, axis)), strict=True):
                with self.subTest(axis=axis):
                    self.assertEqual(a.shape, b.shape)
                    self.assertLessEqual(off(a, b), LIMITS["f32"])

    def test_numbers_of_a_head(self):
        self.check(qr="p = Unsqueeze (q, row)\nn = MatMul (p, kc)\nqr = Mul (p, n)")
        self.check(z1="h = Constant <value_float = 0.5> ()\nc = Mul (z, h)\nz1 = Add (c, k)")
        self.check(z1="t = Tanh (z)\nz1 = Mul (t, k)")


@unittest.skipIf(MISSING, MISSING)
class Refused(unittest.TestCase):
    def refused(self, model, *words):
        with self.assertRaises(ejk.onnx.OnnxError) as caught:
            ejk.onnx.compile(model)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def step(self, op, words, **changed):
        with self.subTest(**changed):
            self.refused(scan(**changed), "node 0, Scan: ", *([f"its step's {op}: "] if op else []), words)

    def test_directions(self):
        for inputs, outputs in (([1] * 4, [0]), ([0] * 4, [1]), ([1, 1, 0, 1], [1]), ([0, 0, 0, 1], [0])):
            with self.subTest(inputs=inputs, outputs=outputs):
                self.refused(directed(inputs, outputs), "node 0, Scan: its inputs and outputs must go in one direction")

    def test_names(self):
        self.step("Squeeze", "its step's input 'nothing' is not known", o="o = Squeeze (nothing, row)")
        self.step("Unsqueeze", "its step reads 'Q' from around it", qr="qr = Unsqueeze (Q, row)")
        self.step("RandomNormal", "it has no input that changes with time, and is no constant",
                  kc="w = RandomNormal <shape = [1]> ()\nx = Mul (k, w)\nkc = Unsqueeze (x, column)")

    def test_types_and_constants(self):
        self.step("Cast", "it must cast to float, float16 or bfloat16",
                  kc="i = Cast <to = 7> (k)\nkc = Unsqueeze (i, column)")
        self.step("Cast", "a state is of float within its step", D="s = Cast <to = 10> (S)\nD = Mul (s, decay)")
        for to, dtype in ((10, "f16"), (16, "bf16")):
            self.step("Add", f"it computes in {dtype}; a step computes in float, so cast before",
                      kc=f"h = Cast <to = {to}> (k)\nt = Add (h, h)\nkc = Unsqueeze (t, column)")
        self.step("Mul", "a constant of a step must be one float",
                  kc="w = Constant <value_floats = [1.0, 2.0]> ()\nx = Mul (k, w)\nkc = Unsqueeze (x, column)")

    def test_functions_of_a_state(self):
        for op in ("Tanh", "Neg", "Exp", "Relu", "Reciprocal"):
            self.step(op, "it computes with a state", D=f"t = {op} (S)\nD = Mul (t, decay)")
            self.step(op, "it computes with a state", kv=f"p = Mul (kc, vr)\nkv = {op} (p)")
        for op in ("Gelu", "ReduceSum", "Softmax"):
            self.step(op, f"a step has no {op}", e=f"e = {op} (g)")

    def test_two_states(self):
        for op in ("Add", "Sub", "Mul", "Div", "Max"):
            for other in ("S", "D"):
                self.step(op, "it computes with two states", S1=f"S1 = {op} (D, {other})")

    def test_what_is_added_to_a_state(self):
        wrong = [f"S1 = {op} ({a}, {b})" for op in ("Mul", "Div", "Max", "Min", "Pow")
                 for a, b in (("D", "kv"), ("kv", "D"))]
        for text in ["S1 = Sub (kv, D)", *wrong[2:]]:
            self.step(text.split()[2], "it computes with a state", S1=text)
        for text in wrong[:2]:
            self.step("Mul", "a state is multiplied by what is no Exp", S1=text)
        # A vector or a number in the place of a column times a row.
        for other in ("kc", "vr", "decay"):
            for op, a, b in (("Add", "D", other), ("Add", other, "D"), ("Sub", "D", other), ("Sub", other, "D"),
                             ("Div", "D", other), ("Div", other, "D")):
                self.step(op, "it computes with a state", S1=f"S1 = {op} ({a}, {b})")

    def test_what_is_no_decay(self):
        for text in ("e = Sigmoid (g)", "e = Identity (g)", "x = Exp (g)\ne = Add (x, x)",
                     "x = Exp (g)\ne = Mul (x, x)", "x = Exp (g)\ne = Neg (x)",
                     "x = Exp (g)\nh = Cast <to = 10> (x)\ne = Cast <to = 1> (h)"):
            self.step("Mul", "a state is multiplied by what is no Exp", e=text)
        self.step("Mul", "a state is multiplied by what is no Exp",
                  D="h = Constant <value_float = 0.5> ()\nD = Mul (S, h)")
        self.step("Mul", "a state of sizes [1, 2, 2, 2] becomes [1, 1, 2, 2, 2]",
                  D="w = Unsqueeze (decay, first)\nD = Mul (S, w)")

    def test_columns_and_rows(self):
        for op in ("Add", "Sub", "Div", "Max", "Pow"):
            for a, b in (("kc", "vr"), ("vr", "kc")):
                self.step(op, f"it makes a matrix of a column and a row by {op}", kv=f"kv = {op} ({a}, {b})")
        for text in ("kv = Add (p, p)", "kv = Mul (p, p)", "kv = Mul (p, kc)", "kv = Mul (vr, p)",
                     "kv = Add (p, decay)", "kv = Sub (decay, p)", "kv = Div (p, decay)", "kv = Div (decay, p)"):
            self.step(text.split()[2], "it computes with a column times a row", kv="p = Mul (kc, vr)\n" + text)

    def test_matrices(self):
        wide = "w = Constant <value_ints = [1, 2, 2, 2]> ()\nx = Expand (kc, w)\n"
        for operands in ("(S1, S)", "(S1, kv)", "(kv, S1)", "(kv, kv)", "(kv, kc)", "(qr, kv)", "(S1, x)", "(x, S1)",
                         "(x, x)", "(qr, x)"):
            self.step("MatMul", "it multiplies matrices", r=wide + "r = MatMul " + operands)
        for a in ("D", "kv"):  # each element of one by each of the other
            for b in ("D", "kv"):
                self.step("MatMul", "it multiplies matrices", r="end = Constant <value_ints = [4]> ()\n"
                          f"x = Unsqueeze ({a}, end)\ny = Unsqueeze ({b}, column)\nr = MatMul (x, y)")
        self.step("MatMul", "its operands' sizes do not agree", r="r = MatMul (kc, S1)")
        self.step("MatMul", "its operands' sizes do not agree", r="r = MatMul (S1, qr)")
        self.step("MatMul", "its operands must be matrices",
                  r="w = Constant <value_floats = [1.0]> ()\nr = MatMul (qr, w)")

    def test_heads_and_channels(self):
        def reshaped(*sizes):
            return f"w = Constant <value_ints = {list(sizes)}> ()\nx = Reshape (k, w)\nkc = Unsqueeze (x, column)"
        self.step("Reshape", "sizes [1, 2, 2] are not known to be [1, 3, 2]", kc=reshaped(1, 3, 2))
        for sizes in ((1, 4), (4, 1), (1, 4, 1)):
            self.step("Reshape", f"sizes [1, 2, 2] as {list(sizes)} mix heads and channels", kc=reshaped(*sizes))
        self.step("Expand", "it repeats heads or channels of size 1",
                  kc="w = Constant <value_ints = [2, 2, 2]> ()\nx = Expand (k, w)\nkc = Unsqueeze (x, column)")
        self.step("Add", "it joins an axis of heads with one of channels",
                  kc="x = Add (k, g)\nkc = Unsqueeze (x, column)")
        self.step("Mul", "it joins an axis of heads with one of channels",
                  kc="t = Transpose <perm = [0, 2, 1]> (k)\nx = Mul (k, t)\nkc = Unsqueeze (x, column)")

    def test_a_state_after_a_step(self):
        four = "float[1,2,2,2] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}"
        self.step(None, "its state 'S1' is a constant after a step", S1=f"S1 = Constant <value = {four}> ()",
                  **READS_BEFORE)
        for text in ("S1 = Identity (kv)", "S1 = Identity (kc)",
                     "t = Add (D, kv)\nS1 = Transpose <perm = [0, 1, 3, 2]> (t)",
                     "t = Add (D, kv)\nS1 = Unsqueeze (t, first)"):
            self.step(None, "its state 'S1' is no state after a step", S1=text, **READS_BEFORE)
        for text in ("z1 = Identity (g)", "z1 = Unsqueeze (k, first)", "z1 = Transpose <perm = [0, 2, 1]> (k)",
                     "z1 = Cast <to = 10> (k)", "z1 = Identity (S)"):
            self.step(None, "its state 'z1' has other sizes after a step", z1=text)

    def test_an_output(self):
        for text in ("o = Identity (S1)", "o = Identity (kv)",
                     "o = Constant <value = float[1,2,2] {1.0, 2.0, 3.0, 4.0}> ()"):
            self.step(None, "its output 'o' must be a number or a vector a head", o=text)
        for text in ("o = Transpose <perm = [0, 2, 1]> (k)", "o = Unsqueeze (k, first)"):
            self.step(None, "its output 'o' must be [1, 2, channels]", o=text)

    def test_a_scan_that_is_no_linear_recurrence_is_refused_at_its_step(self):
        def scan():
            """A model and the nodes of its step."""
            model = expanded(attention(None, "f32", "gated", 2, 2, 4, 4, False, False, False))
            node = next(n for n in model.graph.node if n.op_type == "Scan")
            return model, next(a for a in node.attribute if a.name == "body").g.node

        def of_step(old, new):
            model, nodes = scan()
            next(n for n in nodes if n.op_type == old).op_type = new
            return model
        self.refused(of_step("Exp", "Sigmoid"), ", Scan", "its step's Mul", "is no Exp")
        self.refused(of_step("Add", "Div"), ", Scan", "its step's Div", "adds a column times a row")
        self.refused(of_step("MatMul", "Add"), ", Scan", "its step's Add")
        self.refused(of_step("Exp", "Gelu"), ", Scan", "its step's Gelu", "a step has no Gelu")
        for place in (0, 1):  # k vᵀ times the column k, or the row v; there are as many keys as values
            model, nodes = scan()
            at, outer = next((i, n) for i, n in enumerate(nodes) if n.output[0].endswith("_Outer"))
            nodes.insert(at + 1, helper.make_node("Mul", ["kv", outer.input[place]], [outer.output[0]]))
            outer.output[0] = "kv"
            self.refused(model, ", Scan", "its step's Mul", "it computes with a column times a row")


if __name__ == "__main__":
    unittest.main()
