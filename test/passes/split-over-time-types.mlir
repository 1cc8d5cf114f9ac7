// RUN: ejk-opt %s --ejk-split-over-time='least=4 most=8 count=2 packed=4' | FileCheck %s
// RUN: ejk-opt %s --ejk-interpret
// RUN: ejk-opt %s --ejk-split-over-time='least=4 most=8 count=2 packed=4' --ejk-interpret
// RUN: ejk-opt %s --ejk-split-over-time='least=4 most=8 count=2 packed=4' --canonicalize --cse --ejk-interpret

// A scan's states may have dynamic sizes where its first sequence has static ones, and the other way
// round. Those of segments have the sizes of the states, and casts lead there.

// CHECK-LABEL: func.func @dynamic_states(
// CHECK:         ejk.scan segments
// CHECK:         %[[STARTS:.*]] = tensor.cast %{{.*}} : tensor<?x2x4x3xf32> to tensor<?x?x4x3xf32>
// CHECK:         ejk.scan segments
// CHECK:           states(%{{.*}} = %[[STARTS]] : tensor<?x?x4x3xf32>)
func.func @dynamic_states(%q: tensor<?x?x2x4xf32>, %v: tensor<?x?x?x3xf32>,
                          %g: tensor<?x?x?x4xf32>, %h0: tensor<?x?x4x3xf32>)
    -> (tensor<?x?x?x3xf32>, tensor<?x?x4x3xf32>) {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x2x4xf32>, %vt = %v : tensor<?x?x?x3xf32>,
                %gt = %g : tensor<?x?x?x4xf32>)
      states(%S = %h0 : tensor<?x?x4x3xf32>) -> (tensor<?x?x?x3xf32>) {
    %S1 = ejk.decay %S by %gt along key : vector<4x3xf32>, vector<4xf32>
    %S2 = ejk.outer_add %S1, %qt, %vt : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    %ot = ejk.read %S2, %qt along key : vector<4x3xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x3xf32>) outputs(%ot : vector<3xf32>)
  }
  return %o, %ht : tensor<?x?x?x3xf32>, tensor<?x?x4x3xf32>
}

// CHECK-LABEL: func.func @static_states(
// CHECK:         ejk.scan segments
// CHECK:         ejk.scan segments
// CHECK:           tensor<?x2x4x3xf32>)
func.func @static_states(%q: tensor<?x?x?x4xf32>, %v: tensor<2x21x2x3xf32>,
                         %g: tensor<?x?x?x4xf32>, %h0: tensor<2x2x4x3xf32>)
    -> (tensor<2x21x2x3xf32>, tensor<2x2x4x3xf32>) {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x4xf32>, %vt = %v : tensor<2x21x2x3xf32>,
                %gt = %g : tensor<?x?x?x4xf32>)
      states(%S = %h0 : tensor<2x2x4x3xf32>) -> (tensor<2x21x2x3xf32>) {
    %S1 = ejk.decay %S by %gt along key : vector<4x3xf32>, vector<4xf32>
    %S2 = ejk.outer_add %S1, %qt, %vt : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    %ot = ejk.read %S2, %qt along key : vector<4x3xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x3xf32>) outputs(%ot : vector<3xf32>)
  }
  return %o, %ht : tensor<2x21x2x3xf32>, tensor<2x2x4x3xf32>
}

// States that are vectors, and are added up or carried.
// CHECK-LABEL: func.func @vectors(
// CHECK:         ejk.scan segments
// CHECK:         ejk.scan segments
func.func @vectors(%x: tensor<2x21x2x3xf32>) -> (tensor<?x?x?x3xf32>, tensor<?x?x3xf32>, tensor<?x2x3xf32>) {
  %o, %at, %bt = ejk.scan sequences(%xt = %x : tensor<2x21x2x3xf32>)
      states(%a = zero : tensor<?x?x3xf32>, %b = zero : tensor<?x2x3xf32>) -> (tensor<?x?x?x3xf32>) {
    %a1 = arith.addf %a, %xt : vector<3xf32>
    %b1 = arith.addf %b, %xt : vector<3xf32>
    ejk.yield states(%a1, %b1 : vector<3xf32>, vector<3xf32>) outputs(%a1 : vector<3xf32>)
  }
  return %o, %at, %bt : tensor<?x?x?x3xf32>, tensor<?x?x3xf32>, tensor<?x2x3xf32>
}

// Against the formula, which shares no code with the scan.
func.func @check() {
  %q = check.random normal seed 1 : tensor<2x21x2x4xf32>
  %v = check.random normal seed 3 : tensor<2x21x2x3xf32>
  %g = check.random log_gate seed 4 : tensor<2x21x2x4xf32>
  %h0 = check.random normal seed 5 : tensor<2x2x4x3xf32>
  %eo, %eht = ejk.recurrent %q, %q, %v gk(%g : tensor<2x21x2x4xf32>)
      initial_state(%h0 : tensor<2x2x4x3xf32>) {softmax_scale = 1.0}
      : tensor<2x21x2x4xf32>, tensor<2x21x2x4xf32>, tensor<2x21x2x3xf32>
      -> tensor<2x21x2x3xf32>, tensor<2x2x4x3xf32>

  %q1 = tensor.cast %q : tensor<2x21x2x4xf32> to tensor<?x?x2x4xf32>
  %qd = tensor.cast %q : tensor<2x21x2x4xf32> to tensor<?x?x?x4xf32>
  %vd = tensor.cast %v : tensor<2x21x2x3xf32> to tensor<?x?x?x3xf32>
  %gd = tensor.cast %g : tensor<2x21x2x4xf32> to tensor<?x?x?x4xf32>
  %hd = tensor.cast %h0 : tensor<2x2x4x3xf32> to tensor<?x?x4x3xf32>
  %o1, %ht1 = func.call @dynamic_states(%q1, %vd, %gd, %hd)
      : (tensor<?x?x2x4xf32>, tensor<?x?x?x3xf32>, tensor<?x?x?x4xf32>, tensor<?x?x4x3xf32>)
      -> (tensor<?x?x?x3xf32>, tensor<?x?x4x3xf32>)
  %o2 = tensor.cast %o1 : tensor<?x?x?x3xf32> to tensor<2x21x2x3xf32>
  %ht2 = tensor.cast %ht1 : tensor<?x?x4x3xf32> to tensor<2x2x4x3xf32>
  // Sums in another order, in f64.
  check.expect_close %o2, %eo max_relative 1.0e-12 : tensor<2x21x2x3xf32>
  check.expect_close %ht2, %eht max_relative 1.0e-12 : tensor<2x2x4x3xf32>

  %o3, %ht3 = func.call @static_states(%qd, %v, %gd, %h0)
      : (tensor<?x?x?x4xf32>, tensor<2x21x2x3xf32>, tensor<?x?x?x4xf32>, tensor<2x2x4x3xf32>)
      -> (tensor<2x21x2x3xf32>, tensor<2x2x4x3xf32>)
  check.expect_close %o3, %eo max_relative 1.0e-12 : tensor<2x21x2x3xf32>
  check.expect_close %ht3, %eht max_relative 1.0e-12 : tensor<2x2x4x3xf32>

  // The state that is read ends as the one that is only added up, and as the last output.
  %o4, %at, %bt = func.call @vectors(%v)
      : (tensor<2x21x2x3xf32>) -> (tensor<?x?x?x3xf32>, tensor<?x?x3xf32>, tensor<?x2x3xf32>)
  %a = tensor.cast %at : tensor<?x?x3xf32> to tensor<2x2x3xf32>
  %b = tensor.cast %bt : tensor<?x2x3xf32> to tensor<2x2x3xf32>
  check.expect_close %a, %b max_relative 1.0e-12 : tensor<2x2x3xf32>
  %s = tensor.cast %o4 : tensor<?x?x?x3xf32> to tensor<2x21x2x3xf32>
  %last = tensor.extract_slice %s[0, 20, 0, 0] [2, 1, 2, 3] [1, 1, 1, 1]
      : tensor<2x21x2x3xf32> to tensor<2x2x3xf32>
  check.expect_close %last, %a max_relative 1.0e-12 : tensor<2x2x3xf32>
  return
}
