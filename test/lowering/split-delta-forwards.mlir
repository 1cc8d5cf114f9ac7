// RUN: ejk-compile %s --vjp --save-states --arch=sm_90a --emit=gpu -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir

// A delta rule with a gate per key channel: the forward for its derivative saves no states, and still gives
// what the steps read, over segments as in one piece.
// CHECK-DAG: func.func @f_split({{.*}}ejk.alternative_of = "f"
// CHECK-DAG: func.func @f_fwd_split({{.*}}ejk.alternative_of = "f_fwd"
// CHECK-DAG: func.func @f_fwd_fine_split({{.*}}ejk.alternative_of = "f_fwd"
// CHECK-DAG: func.func @f_vjp_split({{.*}}ejk.alternative_of = "f_vjp"
func.func @f(%q: tensor<?x?x?x16xbf16>, %k: tensor<?x?x?x16xbf16>, %v: tensor<?x?x?x16xbf16>,
             %beta: tensor<?x?x?xf32>, %gk: tensor<?x?x?x16xf32>)
    -> (tensor<?x?x?x16xbf16>, tensor<?x?x16x16xf32>) {
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<?x?x?xf32>) gk(%gk : tensor<?x?x?x16xf32>)
      : tensor<?x?x?x16xbf16>, tensor<?x?x?x16xbf16>, tensor<?x?x?x16xbf16>
      -> tensor<?x?x?x16xbf16>, tensor<?x?x16x16xf32>
  return %o, %ht : tensor<?x?x?x16xbf16>, tensor<?x?x16x16xf32>
}
