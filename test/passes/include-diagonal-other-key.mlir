// A term that looks like the diagonal term (q . k) v of a read, but multiplies another vector than the key of the
// step's outer product. The read stays before the outer product.
// RUN: ejk-opt %s --ejk-include-diagonal | FileCheck %s
// RUN: ejk-opt %s --ejk-include-diagonal --ejk-interpret -o /dev/null

// CHECK-LABEL: func.func @other_key
// CHECK:         ejk.scan
// CHECK:           states(%[[S:.*]] = zero
// CHECK-NEXT:      ejk.read %[[S]],
// CHECK-NOT:       ejk.read
// CHECK:         ejk.scan
func.func @other_key() {
  %q = check.random normal seed 1 : tensor<2x9x2x4xf32>
  %k = check.random normal seed 2 : tensor<2x9x2x4xf32>
  %z = check.random normal seed 3 : tensor<2x9x2x4xf32>
  %v = check.random normal seed 4 : tensor<2x9x2x3xf32>
  %a, %sum, %St = ejk.scan
      sequences(%qt = %q : tensor<2x9x2x4xf32>, %kt = %k : tensor<2x9x2x4xf32>, %zt = %z : tensor<2x9x2x4xf32>,
                %vt = %v : tensor<2x9x2x3xf32>)
      states(%S = zero : tensor<2x2x4x3xf32>) -> (tensor<2x9x2x3xf32>, tensor<2x9x2xf32>) {
    %r = ejk.read %S, %qt along key : vector<4x3xf32>, vector<4xf32>
    %S1 = ejk.outer_add %S, %kt, %vt : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    %pair = ejk.cancelling_pair %vt, %r : vector<3xf32>
    %s = ejk.sum %pair : vector<3xf32>
    %p = arith.mulf %qt, %zt : vector<4xf32>
    %d = ejk.sum %p : vector<4xf32>
    %wide = vector.broadcast %d : f32 to vector<3xf32>
    %own = arith.mulf %wide, %vt : vector<3xf32>
    %o = arith.addf %r, %own : vector<3xf32>
    ejk.yield states(%S1 : vector<4x3xf32>) outputs(%o, %s : vector<3xf32>, f32)
  }
  // The two terms from two scans.
  %b, %Rt = ejk.scan
      sequences(%qt = %q : tensor<2x9x2x4xf32>, %kt = %k : tensor<2x9x2x4xf32>, %vt = %v : tensor<2x9x2x3xf32>)
      states(%S = zero : tensor<2x2x4x3xf32>) -> (tensor<2x9x2x3xf32>) {
    %r = ejk.read %S, %qt along key : vector<4x3xf32>, vector<4xf32>
    %S1 = ejk.outer_add %S, %kt, %vt : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    ejk.yield states(%S1 : vector<4x3xf32>) outputs(%r : vector<3xf32>)
  }
  %c = ejk.scan
      sequences(%rt = %b : tensor<2x9x2x3xf32>, %qt = %q : tensor<2x9x2x4xf32>, %zt = %z : tensor<2x9x2x4xf32>,
                %vt = %v : tensor<2x9x2x3xf32>) -> (tensor<2x9x2x3xf32>) {
    %p = arith.mulf %qt, %zt : vector<4xf32>
    %d = ejk.sum %p : vector<4xf32>
    %wide = vector.broadcast %d : f32 to vector<3xf32>
    %own = arith.mulf %wide, %vt : vector<3xf32>
    %o = arith.addf %rt, %own : vector<3xf32>
    ejk.yield outputs(%o : vector<3xf32>)
  }
  check.expect_close %a, %c max_relative 1.0e-13 : tensor<2x9x2x3xf32>
  return
}
