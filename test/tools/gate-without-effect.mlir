// A gate's gradient that is zero must be zero exactly, however small what is found is beside the other gradients.
// RUN: %python %S/Inputs/cancelling_gate.py %t.safetensors
// RUN: not ejk-run %s --vjp --inputs %t.safetensors --device=interpreter --check | FileCheck %s
// CHECK: check dq: pass
// CHECK: check dk: pass
// CHECK: check dv: pass
// CHECK: check dg: FAIL, relative L2 error {{[0-9.]+}}e-08, {{.*}}, element 2 is -5.96e-08 where the gate has no effect
func.func @f(%q: tensor<?x?x?x1xf32>, %k: tensor<?x?x?x1xf32>, %v: tensor<?x?x?x3xf32>, %g: tensor<?x?x?xf32>)
    -> tensor<?x?x?x3xf32> {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x?xf32>) {softmax_scale = 1.0 : f64}
      : tensor<?x?x?x1xf32>, tensor<?x?x?x1xf32>, tensor<?x?x?x3xf32>
      -> tensor<?x?x?x3xf32>, tensor<?x?x1x3xf32>
  return %o : tensor<?x?x?x3xf32>
}
