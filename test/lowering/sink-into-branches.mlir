// RUN: ejk-opt %s --ejk-specialize --ejk-to-tile --ejk-sink-into-branches | FileCheck %s
// RUN: ejk-opt %s --ejk-specialize --ejk-to-tile --ejk-sink-into-branches --ejk-interpret
// RUN: ejk-opt %s --ejk-specialize --ejk-to-tile --ejk-interpret

// What was read leaves in both branches, and only the state is handed on.
// CHECK-LABEL: func.func @key_gate
// CHECK: tile.guarded %{{.*}} -> (vector<16x16xf32>) fast {
// CHECK: tile.dot
// CHECK: tile.store
// CHECK: } exact {
// CHECK: tile.store
// CHECK: }
// CHECK-NOT: tile.store
// CHECK: scf.yield
func.func @key_gate(%q: tensor<1x5x1x16xbf16>, %k: tensor<1x5x1x16xbf16>,
                    %v: tensor<1x5x1x16xbf16>, %gk: tensor<1x5x1x16xf32>)
    -> tensor<1x5x1x16xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<1x5x1x16xf32>)
      : tensor<1x5x1x16xbf16>, tensor<1x5x1x16xbf16>, tensor<1x5x1x16xbf16>
      -> tensor<1x5x1x16xbf16>, tensor<1x1x16x16xf32>
  return %o : tensor<1x5x1x16xbf16>
}

// With gates of -1, inputs of 1 and a scale of 1/4: o_t = 4 Σ_{s≤t} e^(s-t).
func.func @numbers() {
  %one = arith.constant dense<1.0> : tensor<1x5x1x16xbf16>
  %gk = arith.constant dense<-1.0> : tensor<1x5x1x16xf32>
  %o = func.call @key_gate(%one, %one, %one, %gk)
      : (tensor<1x5x1x16xbf16>, tensor<1x5x1x16xbf16>, tensor<1x5x1x16xbf16>,
         tensor<1x5x1x16xf32>) -> tensor<1x5x1x16xbf16>
  %first = tensor.extract_slice %o[0, 0, 0, 0] [1, 1, 1, 1] [1, 1, 1, 1]
      : tensor<1x5x1x16xbf16> to tensor<1x1x1x1xbf16>
  %last = tensor.extract_slice %o[0, 4, 0, 0] [1, 1, 1, 1] [1, 1, 1, 1]
      : tensor<1x5x1x16xbf16> to tensor<1x1x1x1xbf16>
  %e0 = arith.constant dense<4.0> : tensor<1x1x1x1xbf16>
  %e4 = arith.constant dense<6.2852> : tensor<1x1x1x1xbf16>
  check.expect_close %first, %e0 max_relative 0.01 : tensor<1x1x1x1xbf16>
  check.expect_close %last, %e4 max_relative 0.01 : tensor<1x1x1x1xbf16>
  return
}
