// RUN: ejk-opt %s --ejk-split-over-time='least=4 most=8 count=2 packed=4' --verify-diagnostics | FileCheck %s
// RUN: ejk-opt %s --ejk-interpret
// RUN: ejk-opt %s --ejk-split-over-time='least=4 most=8 count=2 packed=4' --ejk-interpret
// RUN: ejk-opt %s --ejk-split-over-time='least=4 most=8 count=2 packed=4' --canonicalize --cse --ejk-interpret
// RUN: ejk-opt %s --ejk-split-over-time='least=1 most=3 count=9 packed=1' --ejk-interpret
// RUN: ejk-opt %s --ejk-split-over-time=whole | FileCheck %s --check-prefix=WHOLE
// RUN: ejk-opt %s --ejk-split-over-time=whole --ejk-interpret
// RUN: ejk-opt %s --ejk-split-over-time=whole --canonicalize --cse --ejk-interpret

// Each segment from zero, with the sums of its gates; the states that segments start from, one
// row of the state a head; the segments from there. The final state is the second scan's.
// The queries are not passed to the first: the gates have as many heads.
// CHECK-LABEL: func.func @gated(
// CHECK-SAME:    %[[Q:[a-z0-9]+]]: tensor
// CHECK:         %[[TOTALS:.*]]:2 = ejk.scan segments<4 to 8, at_least 2>
// CHECK-NOT:       = %[[Q]]
// CHECK:           states(%[[X:.*]] = zero : tensor<?x?x4x3xf32>, %[[SUM:.*]] = zero : tensor<?x?x4xf32>)
// CHECK-NOT:       ejk.read
// CHECK:           arith.addf %[[SUM]]
// CHECK:         %[[STARTS:.*]], %[[HT:.*]] = ejk.scan
// CHECK-NOT:       segments
// CHECK:           math.exp
// CHECK:         %[[FROM:.*]] = tensor.expand_shape
// CHECK:         %[[FINAL:.*]] = tensor.expand_shape %[[HT]]
// CHECK:         %[[O:.*]], %{{.*}} = ejk.scan segments<4 to 8, at_least 2>
// CHECK:           = %[[FROM]] : tensor<?x?x4x3xf32>
// CHECK:           ejk.read
// CHECK:         return %[[O]], %[[FINAL]]
// Whole sequences start from what they are given, and nothing is combined.
// WHOLE-LABEL: func.func @gated(
// WHOLE-SAME:    %[[H0:[a-z0-9]+]]: tensor<?x?x4x3xf32>)
// WHOLE-NOT:     ejk.scan
// WHOLE:         %[[O:.*]], %[[HT:.*]] = ejk.scan segments<whole>
// WHOLE:           states(%{{.*}} = %[[H0]] :
// WHOLE-NOT:     ejk.scan
// WHOLE:         return %[[O]], %[[HT]]
func.func @gated(%q: tensor<?x?x?x4xf32> {ejk.shape = ["B", "T", "H", "4"]},
                 %k: tensor<?x?x?x4xf32>, %v: tensor<?x?x?x3xf32>,
                 %g: tensor<?x?x?x4xf32> {ejk.shape = ["B", "T", "H", "4"]}, %h0: tensor<?x?x4x3xf32>)
    -> (tensor<?x?x?x3xf32>, tensor<?x?x4x3xf32>) {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x4xf32>, %kt = %k : tensor<?x?x?x4xf32>,
                %vt = %v : tensor<?x?x?x3xf32>, %gt = %g : tensor<?x?x?x4xf32>)
      states(%S = %h0 : tensor<?x?x4x3xf32>) -> (tensor<?x?x?x3xf32>) {
    %S1 = ejk.decay %S by %gt along key : vector<4x3xf32>, vector<4xf32>
    %S2 = ejk.outer_add %S1, %kt, %vt : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    %ot = ejk.read %S2, %qt along key : vector<4x3xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x3xf32>) outputs(%ot : vector<3xf32>)
  }
  return %o, %ht : tensor<?x?x?x3xf32>, tensor<?x?x4x3xf32>
}

// What is only summed over channels is summed in each segment, so that ejk-hoist-reductions finds it;
// numbers are added up over the segments. Sizes come from those, and no vector is added up.
// CHECK-LABEL: func.func @summed(
// CHECK:         %[[SUMS:.*]] = ejk.scan segments<4 to 8, at_least 2>
// CHECK:         %[[NUMBERS:.*]] = linalg.generic {{.*}} ins(%[[SUMS]] : tensor<?x?x4xf32>)
// CHECK:         %[[ROWS:.*]] = tensor.expand_shape %[[NUMBERS]]
// CHECK:         %[[TOTAL:.*]] = ejk.scan
// CHECK-NEXT:      sequences(%{{.*}} = %[[ROWS]] : tensor<?x?x?xf32>)
// CHECK-NOT:     ejk.scan
// CHECK:         tensor.dim %[[TOTAL]]
// CHECK:         return
func.func @summed(%k: tensor<?x?x?x4xf32>) -> (tensor<?x?xf32>) {
  %final = ejk.scan sequences(%kt = %k : tensor<?x?x?x4xf32>)
      states(%s = zero : tensor<?x?x4xf32>) {
    %s1 = arith.addf %s, %kt : vector<4xf32>
    ejk.yield states(%s1 : vector<4xf32>)
  }
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %final, %c0 : tensor<?x?x4xf32>
  %heads = tensor.dim %final, %c1 : tensor<?x?x4xf32>
  %empty = tensor.empty(%n, %heads) : tensor<?x?xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x?xf32>) -> tensor<?x?xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b)>],
                         iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%final : tensor<?x?x4xf32>) outs(%init : tensor<?x?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %added = arith.addf %out, %in : f32
    linalg.yield %added : f32
  } -> tensor<?x?xf32>
  return %sum : tensor<?x?xf32>
}

// Ones, so that the sums are exact: 21 rows of 4 channels.
func.func @check_summed() {
  %ones = arith.constant dense<1.0> : tensor<2x21x3x4xf32>
  %k = tensor.cast %ones : tensor<2x21x3x4xf32> to tensor<?x?x?x4xf32>
  %sum = func.call @summed(%k) : (tensor<?x?x?x4xf32>) -> tensor<?x?xf32>
  %static = tensor.cast %sum : tensor<?x?xf32> to tensor<2x3xf32>
  %expected = arith.constant dense<84.0> : tensor<2x3xf32>
  check.expect_equal %static, %expected : tensor<2x3xf32>
  return
}

// A state that starts from given vectors has their sum over channels, too.
func.func @check_summed_from_given() {
  %k = arith.constant dense<1.0> : tensor<2x21x3x4xf32>
  %n0 = arith.constant dense<5.0> : tensor<2x3x4xf32>
  %final = ejk.scan sequences(%kt = %k : tensor<2x21x3x4xf32>)
      states(%s = %n0 : tensor<2x3x4xf32>) {
    %s1 = arith.addf %s, %kt : vector<4xf32>
    ejk.yield states(%s1 : vector<4xf32>)
  }
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<2x3xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x3xf32>) -> tensor<2x3xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b)>],
                         iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%final : tensor<2x3x4xf32>) outs(%init : tensor<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %added = arith.addf %out, %in : f32
    linalg.yield %added : f32
  } -> tensor<2x3xf32>
  %expected = arith.constant dense<104.0> : tensor<2x3xf32>
  check.expect_equal %sum, %expected : tensor<2x3xf32>
  return
}

// Against the formula, which shares no code with the scan. 21 rows are segments of 8, 8 and 5; two
// query heads share a key head.
func.func @check_gated() {
  %q = check.random normal seed 1 : tensor<2x21x2x4xf32>
  %k = check.random normal seed 2 : tensor<2x21x1x4xf32>
  %v = check.random normal seed 3 : tensor<2x21x1x3xf32>
  %g = check.random log_gate seed 4 : tensor<2x21x2x4xf32>
  %h0 = check.random normal seed 5 : tensor<2x2x4x3xf32>
  %eo, %eht = ejk.recurrent %q, %k, %v gk(%g : tensor<2x21x2x4xf32>)
      initial_state(%h0 : tensor<2x2x4x3xf32>) {softmax_scale = 1.0}
      : tensor<2x21x2x4xf32>, tensor<2x21x1x4xf32>, tensor<2x21x1x3xf32>
      -> tensor<2x21x2x3xf32>, tensor<2x2x4x3xf32>
  %dq = tensor.cast %q : tensor<2x21x2x4xf32> to tensor<?x?x?x4xf32>
  %dk = tensor.cast %k : tensor<2x21x1x4xf32> to tensor<?x?x?x4xf32>
  %dv = tensor.cast %v : tensor<2x21x1x3xf32> to tensor<?x?x?x3xf32>
  %dg = tensor.cast %g : tensor<2x21x2x4xf32> to tensor<?x?x?x4xf32>
  %dh0 = tensor.cast %h0 : tensor<2x2x4x3xf32> to tensor<?x?x4x3xf32>
  %do, %dht = func.call @gated(%dq, %dk, %dv, %dg, %dh0)
      : (tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>, tensor<?x?x?x3xf32>, tensor<?x?x?x4xf32>,
         tensor<?x?x4x3xf32>) -> (tensor<?x?x?x3xf32>, tensor<?x?x4x3xf32>)
  %o = tensor.cast %do : tensor<?x?x?x3xf32> to tensor<2x21x2x3xf32>
  %ht = tensor.cast %dht : tensor<?x?x4x3xf32> to tensor<2x2x4x3xf32>
  // f64 on both sides, of a few dozen steps.
  check.expect_close %o, %eo max_relative 1.0e-12 : tensor<2x21x2x3xf32>
  check.expect_close %ht, %eht max_relative 1.0e-12 : tensor<2x2x4x3xf32>
  return
}

// No row, and no sequence: the final state is the initial one.
func.func @check_empty() {
  %q = arith.constant dense<1.0> : tensor<1x0x1x4xf32>
  %v = arith.constant dense<1.0> : tensor<1x0x1x3xf32>
  %h0 = check.random normal seed 5 : tensor<1x1x4x3xf32>
  %dq = tensor.cast %q : tensor<1x0x1x4xf32> to tensor<?x?x?x4xf32>
  %dv = tensor.cast %v : tensor<1x0x1x3xf32> to tensor<?x?x?x3xf32>
  %dh0 = tensor.cast %h0 : tensor<1x1x4x3xf32> to tensor<?x?x4x3xf32>
  %do, %dht = func.call @gated(%dq, %dq, %dv, %dq, %dh0)
      : (tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>, tensor<?x?x?x3xf32>, tensor<?x?x?x4xf32>,
         tensor<?x?x4x3xf32>) -> (tensor<?x?x?x3xf32>, tensor<?x?x4x3xf32>)
  %ht = tensor.cast %dht : tensor<?x?x4x3xf32> to tensor<1x1x4x3xf32>
  check.expect_equal %ht, %h0 : tensor<1x1x4x3xf32>
  return
}

// A gate of -inf in the second segment forgets a state that has grown infinite in the first.
func.func @check_forgets() {
  %one = arith.constant dense<1.0> : tensor<1x6x1x1xf32>
  %v = arith.constant dense<[[[[0x7F800000]], [[1.0]], [[1.0]], [[1.0]], [[1.0]], [[3.0]]]]>
      : tensor<1x6x1x1xf32>
  %g = arith.constant dense<[[[0.0], [0.0], [0.0], [0.0], [0.0], [0xFF800000]]]>
      : tensor<1x6x1xf32>
  %o, %ht = ejk.scan
      sequences(%qt = %one : tensor<1x6x1x1xf32>, %vt = %v : tensor<1x6x1x1xf32>,
                %gt = %g : tensor<1x6x1xf32>)
      states(%S = zero : tensor<1x1x1x1xf32>) -> (tensor<1x6x1x1xf32>) {
    %S1 = ejk.decay %S by %gt along head : vector<1x1xf32>, f32
    %S2 = ejk.outer_add %S1, %qt, %vt : vector<1x1xf32>, vector<1xf32>, vector<1xf32>
    %ot = ejk.read %S2, %qt along key : vector<1x1xf32>, vector<1xf32>
    ejk.yield states(%S2 : vector<1x1xf32>) outputs(%ot : vector<1xf32>)
  }
  %e = arith.constant dense<3.0> : tensor<1x1x1x1xf32>
  check.expect_equal %ht, %e : tensor<1x1x1x1xf32>
  return
}

// Packed sequences are divided by their own rows, of 4: seven rows into two segments, none into an
// empty one, two into one. Each row's position stays that in its sequence, and a sum that is
// unused in the step is summed in each segment and then over them.
// CHECK-LABEL: func.func @packed(
// CHECK:         %[[OFFSETS:.*]] = linalg.generic
// CHECK:           arith.divsi
// CHECK:         ejk.scan reverse cu_seqlens(%[[OFFSETS]]
// CHECK:         ejk.scan reverse segments<4 to 4, at_least 1> cu_seqlens(%arg
// CHECK:         ejk.scan reverse cu_seqlens(%[[OFFSETS]]
func.func @packed(%x: tensor<1x9x1x1xf32>, %cu: tensor<4xi32>)
    -> (tensor<1x9x1x1xf32>, tensor<3x1x1x1xf32>, tensor<3x1xf32>) {
  %o, %ht, %sum = ejk.scan reverse cu_seqlens(%cu : tensor<4xi32>)
      sequences(%xt = %x : tensor<1x9x1x1xf32>)
      states(%S = zero : tensor<3x1x1x1xf32>, %total = zero : tensor<3x1xf32>)
      -> (tensor<1x9x1x1xf32>) {
    %t = ejk.step_index : index
    %ti = arith.index_cast %t : index to i32
    %tf = arith.sitofp %ti : i32 to f32
    %tv = vector.broadcast %tf : f32 to vector<1xf32>
    %S1 = ejk.outer_add %S, %xt, %tv : vector<1x1xf32>, vector<1xf32>, vector<1xf32>
    %ot = ejk.read %S1, %xt along key : vector<1x1xf32>, vector<1xf32>
    %r = ejk.sum %ot : vector<1xf32>
    %more = arith.addf %total, %r : f32
    ejk.yield states(%S1, %more : vector<1x1xf32>, f32) outputs(%ot : vector<1xf32>)
  }
  return %o, %ht, %sum : tensor<1x9x1x1xf32>, tensor<3x1x1x1xf32>, tensor<3x1xf32>
}

func.func @check_packed() {
  %x = arith.constant dense<1.0> : tensor<1x9x1x1xf32>
  %cu = arith.constant dense<[0, 7, 7, 9]> : tensor<4xi32>
  %o, %ht, %sum = func.call @packed(%x, %cu)
      : (tensor<1x9x1x1xf32>, tensor<4xi32>)
      -> (tensor<1x9x1x1xf32>, tensor<3x1x1x1xf32>, tensor<3x1xf32>)
  %eo = arith.constant dense<[[[[21.0]], [[21.0]], [[20.0]], [[18.0]], [[15.0]], [[11.0]],
                               [[6.0]], [[1.0]], [[1.0]]]]> : tensor<1x9x1x1xf32>
  %eht = arith.constant dense<[[[[21.0]]], [[[0.0]]], [[[1.0]]]]> : tensor<3x1x1x1xf32>
  %esum = arith.constant dense<[[112.0], [0.0], [2.0]]> : tensor<3x1xf32>
  check.expect_equal %o, %eo : tensor<1x9x1x1xf32>
  check.expect_equal %ht, %eht : tensor<3x1x1x1xf32>
  check.expect_equal %sum, %esum : tensor<3x1xf32>
  return
}
