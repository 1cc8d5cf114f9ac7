// RUN: ejk-opt %s --ejk-chunk=chunk=16 | FileCheck %s

// Where a derivative takes r of u = b (v - r), a chunk solves for r - v, and r needs no product after the solve: what
// remains are the parts of o and of the state's update.

// CHECK-LABEL: func.func @given
// CHECK-COUNT-2: tile.dot
// CHECK: %[[Z:.*]] = tile.solve
// CHECK: arith.addf %[[Z]], %
// CHECK-COUNT-7: tile.dot
// CHECK-NOT: tile.dot
// CHECK: tile.end
func.func @given(%q: tensor<1x32x1x16xbf16>, %v: tensor<1x32x1x16xbf16>, %k: tensor<1x32x1x16xbf16>, %b: tensor<1x32x1xf32>)
    -> (tensor<1x32x1x16xbf16>, tensor<1x32x1x16xf32>) {
  %o, %r, %ht = ejk.scan
      sequences(%q_t = %q : tensor<1x32x1x16xbf16>, %v_t = %v : tensor<1x32x1x16xbf16>, %k_t = %k : tensor<1x32x1x16xbf16>,
                %b_t = %b : tensor<1x32x1xf32>)
      states(%S = zero : tensor<1x1x16x16xf32>)
      -> (tensor<1x32x1x16xbf16>, tensor<1x32x1x16xf32>) attributes {ejk.given_reads = 1 : i64} {
    %q_w = arith.extf %q_t : vector<16xbf16> to vector<16xf32>
    %v_w = arith.extf %v_t : vector<16xbf16> to vector<16xf32>
    %k_w = arith.extf %k_t : vector<16xbf16> to vector<16xf32>
    %r_t = ejk.read %S, %k_w along key : vector<16x16xf32>, vector<16xf32>
    %left = arith.subf %v_w, %r_t : vector<16xf32>
    %rate = vector.broadcast %b_t : f32 to vector<16xf32>
    %u = arith.mulf %rate, %left : vector<16xf32>
    %S1 = ejk.outer_add %S, %k_w, %u : vector<16x16xf32>, vector<16xf32>, vector<16xf32>
    %o_w = ejk.read %S1, %q_w along key : vector<16x16xf32>, vector<16xf32>
    %o_t = arith.truncf %o_w : vector<16xf32> to vector<16xbf16>
    ejk.yield states(%S1 : vector<16x16xf32>) outputs(%o_t, %r_t : vector<16xbf16>, vector<16xf32>)
  }
  return %o, %r : tensor<1x32x1x16xbf16>, tensor<1x32x1x16xf32>
}

// Where a derivative takes the sum itself, that is the solution, or less it: no row of v is added.

// CHECK-LABEL: func.func @gives_sum
// CHECK: %[[Z:.*]] = tile.solve
// CHECK: %[[SUM:.*]] = arith.negf %[[Z]]
// CHECK-NOT: arith.addf %[[Z]]
// CHECK: tile.store %[[SUM]]
func.func @gives_sum(%q: tensor<1x32x1x16xbf16>, %v: tensor<1x32x1x16xbf16>, %k: tensor<1x32x1x16xbf16>, %b: tensor<1x32x1xf32>)
    -> (tensor<1x32x1x16xbf16>, tensor<1x32x1x16xf32>) {
  %o, %r, %ht = ejk.scan
      sequences(%q_t = %q : tensor<1x32x1x16xbf16>, %v_t = %v : tensor<1x32x1x16xbf16>, %k_t = %k : tensor<1x32x1x16xbf16>,
                %b_t = %b : tensor<1x32x1xf32>)
      states(%S = zero : tensor<1x1x16x16xf32>)
      -> (tensor<1x32x1x16xbf16>, tensor<1x32x1x16xf32>) attributes {ejk.given_reads = 1 : i64} {
    %q_w = arith.extf %q_t : vector<16xbf16> to vector<16xf32>
    %v_w = arith.extf %v_t : vector<16xbf16> to vector<16xf32>
    %k_w = arith.extf %k_t : vector<16xbf16> to vector<16xf32>
    %r_t = ejk.read %S, %k_w along key : vector<16x16xf32>, vector<16xf32>
    %left = arith.subf %v_w, %r_t : vector<16xf32>
    %rate = vector.broadcast %b_t : f32 to vector<16xf32>
    %u = arith.mulf %rate, %left : vector<16xf32>
    %S1 = ejk.outer_add %S, %k_w, %u : vector<16x16xf32>, vector<16xf32>, vector<16xf32>
    %o_w = ejk.read %S1, %q_w along key : vector<16x16xf32>, vector<16xf32>
    %o_t = arith.truncf %o_w : vector<16xf32> to vector<16xbf16>
    ejk.yield states(%S1 : vector<16x16xf32>) outputs(%o_t, %left : vector<16xbf16>, vector<16xf32>)
  }
  return %o, %r : tensor<1x32x1x16xbf16>, tensor<1x32x1x16xf32>
}

// A caller's r may be far smaller than v: it is no difference of two that are not.

// CHECK-LABEL: func.func @asked
// CHECK: tile.solve
// CHECK-COUNT-10: tile.dot
// CHECK-NOT: tile.dot
// CHECK: tile.end
func.func @asked(%q: tensor<1x32x1x16xbf16>, %v: tensor<1x32x1x16xbf16>, %k: tensor<1x32x1x16xbf16>, %b: tensor<1x32x1xf32>)
    -> (tensor<1x32x1x16xbf16>, tensor<1x32x1x16xf32>) {
  %o, %r, %ht = ejk.scan
      sequences(%q_t = %q : tensor<1x32x1x16xbf16>, %v_t = %v : tensor<1x32x1x16xbf16>, %k_t = %k : tensor<1x32x1x16xbf16>,
                %b_t = %b : tensor<1x32x1xf32>)
      states(%S = zero : tensor<1x1x16x16xf32>)
      -> (tensor<1x32x1x16xbf16>, tensor<1x32x1x16xf32>) {
    %q_w = arith.extf %q_t : vector<16xbf16> to vector<16xf32>
    %v_w = arith.extf %v_t : vector<16xbf16> to vector<16xf32>
    %k_w = arith.extf %k_t : vector<16xbf16> to vector<16xf32>
    %r_t = ejk.read %S, %k_w along key : vector<16x16xf32>, vector<16xf32>
    %left = arith.subf %v_w, %r_t : vector<16xf32>
    %rate = vector.broadcast %b_t : f32 to vector<16xf32>
    %u = arith.mulf %rate, %left : vector<16xf32>
    %S1 = ejk.outer_add %S, %k_w, %u : vector<16x16xf32>, vector<16xf32>, vector<16xf32>
    %o_w = ejk.read %S1, %q_w along key : vector<16x16xf32>, vector<16xf32>
    %o_t = arith.truncf %o_w : vector<16xf32> to vector<16xbf16>
    ejk.yield states(%S1 : vector<16x16xf32>) outputs(%o_t, %r_t : vector<16xbf16>, vector<16xf32>)
  }
  return %o, %r : tensor<1x32x1x16xbf16>, tensor<1x32x1x16xf32>
}
