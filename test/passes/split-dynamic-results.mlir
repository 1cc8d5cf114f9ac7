// RUN: ejk-opt %s --ejk-split-reads | FileCheck %s --check-prefix=READS
// RUN: ejk-opt %s --ejk-split-sums | FileCheck %s --check-prefix=SUMS
// RUN: ejk-opt %s --ejk-split-states | FileCheck %s --check-prefix=STATES
// RUN: ejk-opt %s --ejk-split-rotations | FileCheck %s --check-prefix=ROTATIONS
// RUN: ejk-opt %s --ejk-interpret
// RUN: ejk-opt %s --ejk-split-reads --ejk-interpret
// RUN: ejk-opt %s --ejk-split-sums --ejk-interpret
// RUN: ejk-opt %s --ejk-split-states --ejk-interpret
// RUN: ejk-opt %s --ejk-split-rotations --ejk-interpret

// A scan's results may have dynamic sizes where its sequences have static ones, and the other way
// round. The scans that it is cut into have the sizes of the first sequence. Casts lead to the
// types that the users have.

// READS-LABEL: func.func @reads(
// READS:         %[[FIRST:.*]], %{{.*}} = ejk.scan
// READS:         tensor.cast %[[FIRST]] : tensor<2x5x3x4xf32> to tensor<?x5x?x4xf32>
// READS:         %[[SECOND:.*]], %{{.*}} = ejk.scan
// READS:         tensor.cast %[[SECOND]] : tensor<2x5x3x4xf32> to tensor<?x?x?x4xf32>
func.func @reads(%q: tensor<2x5x3x4xf32>, %k: tensor<2x5x3x4xf32>)
    -> (tensor<?x?x?x4xf32>, tensor<?x5x?x4xf32>, tensor<?x3x4x4xf32>) {
  %o, %p, %ht = ejk.scan
      sequences(%qt = %q : tensor<2x5x3x4xf32>, %kt = %k : tensor<2x5x3x4xf32>)
      states(%S = zero : tensor<?x3x4x4xf32>) -> (tensor<?x?x?x4xf32>, tensor<?x5x?x4xf32>) {
    %S1 = ejk.outer_add %S, %kt, %qt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %ot = ejk.read %S1, %qt along key : vector<4x4xf32>, vector<4xf32>
    %pt = ejk.read %S1, %qt along value : vector<4x4xf32>, vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>) outputs(%ot, %pt : vector<4xf32>, vector<4xf32>)
  }
  return %o, %p, %ht : tensor<?x?x?x4xf32>, tensor<?x5x?x4xf32>, tensor<?x3x4x4xf32>
}

// SUMS-LABEL: func.func @sums(
// SUMS:         ejk.scan
// SUMS:         linalg.generic
// SUMS:         %[[SECOND:.*]] = ejk.scan
// SUMS:         tensor.cast %[[SECOND]] : tensor<?x?x?x4xf32> to tensor<2x5x3x4xf32>
func.func @sums(%q: tensor<?x?x?x4xf32>, %k: tensor<2x5x3x4xf32>) -> tensor<2x5x3x4xf32> {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x4xf32>, %kt = %k : tensor<2x5x3x4xf32>)
      states(%S = zero : tensor<2x3x4x4xf32>) -> (tensor<2x5x3x4xf32>) {
    %S1 = ejk.outer_add %S, %kt, %kt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %r = ejk.read %S1, %qt along key : vector<4x4xf32>, vector<4xf32>
    %rr = arith.mulf %r, %r : vector<4xf32>
    %square = ejk.sum %rr : vector<4xf32>
    %factor = math.rsqrt %square : f32
    %f = vector.broadcast %factor : f32 to vector<4xf32>
    %ot = arith.mulf %r, %f : vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>) outputs(%ot : vector<4xf32>)
  }
  return %o : tensor<2x5x3x4xf32>
}

// STATES-LABEL: func.func @states(
// STATES:         ejk.scan
// STATES:         ejk.scan
// STATES:         tensor.cast %{{.*}} : tensor<2x5x3x4xf32> to tensor<?x?x?x4xf32>
func.func @states(%q: tensor<2x5x3x4xf32>, %v: tensor<2x5x3x1xf32>) -> tensor<?x?x?x4xf32> {
  %o, %ht, %nt = ejk.scan
      sequences(%qt = %q : tensor<2x5x3x4xf32>, %vt = %v : tensor<2x5x3x1xf32>)
      states(%S = zero : tensor<2x3x4x4xf32>, %n = zero : tensor<2x3x4x1xf32>)
      -> (tensor<?x?x?x4xf32>) {
    %S1 = ejk.outer_add %S, %qt, %qt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %n1 = ejk.outer_add %n, %qt, %vt : vector<4x1xf32>, vector<4xf32>, vector<1xf32>
    %r = ejk.read %S1, %qt along key : vector<4x4xf32>, vector<4xf32>
    %d = ejk.read %n1, %qt along key : vector<4x1xf32>, vector<4xf32>
    %one = ejk.sum %d : vector<1xf32>
    %f = vector.broadcast %one : f32 to vector<4xf32>
    %ot = arith.mulf %r, %f : vector<4xf32>
    ejk.yield states(%S1, %n1 : vector<4x4xf32>, vector<4x1xf32>) outputs(%ot : vector<4xf32>)
  }
  return %o : tensor<?x?x?x4xf32>
}

// ROTATIONS-LABEL: func.func @rotations(
// ROTATIONS:         ejk.scan
// ROTATIONS:         %[[SECOND:.*]] = ejk.scan
// ROTATIONS:         ejk.rotate_half
// ROTATIONS:         tensor.cast %[[SECOND]] : tensor<2x5x3x4xf32> to tensor<?x?x?x4xf32>
func.func @rotations(%q: tensor<2x5x3x4xf32>, %k: tensor<2x5x3x4xf32>) -> tensor<?x?x?x4xf32> {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<2x5x3x4xf32>, %kt = %k : tensor<2x5x3x4xf32>)
      states(%S = zero : tensor<2x3x4x4xf32>) -> (tensor<?x?x?x4xf32>) {
    %S1 = ejk.outer_add %S, %kt, %qt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %r = ejk.read %S1, %qt along key : vector<4x4xf32>, vector<4xf32>
    %ot = ejk.rotate_half %r : vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>) outputs(%ot : vector<4xf32>)
  }
  return %o : tensor<?x?x?x4xf32>
}

// The same scans with static sizes everywhere.
func.func @reads_static(%q: tensor<2x5x3x4xf32>, %k: tensor<2x5x3x4xf32>)
    -> (tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>, tensor<2x3x4x4xf32>) {
  %o, %p, %ht = ejk.scan
      sequences(%qt = %q : tensor<2x5x3x4xf32>, %kt = %k : tensor<2x5x3x4xf32>)
      states(%S = zero : tensor<2x3x4x4xf32>) -> (tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>) {
    %S1 = ejk.outer_add %S, %kt, %qt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %ot = ejk.read %S1, %qt along key : vector<4x4xf32>, vector<4xf32>
    %pt = ejk.read %S1, %qt along value : vector<4x4xf32>, vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>) outputs(%ot, %pt : vector<4xf32>, vector<4xf32>)
  }
  return %o, %p, %ht : tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>, tensor<2x3x4x4xf32>
}

func.func @sums_static(%q: tensor<2x5x3x4xf32>, %k: tensor<2x5x3x4xf32>) -> tensor<2x5x3x4xf32> {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<2x5x3x4xf32>, %kt = %k : tensor<2x5x3x4xf32>)
      states(%S = zero : tensor<2x3x4x4xf32>) -> (tensor<2x5x3x4xf32>) {
    %S1 = ejk.outer_add %S, %kt, %kt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %r = ejk.read %S1, %qt along key : vector<4x4xf32>, vector<4xf32>
    %rr = arith.mulf %r, %r : vector<4xf32>
    %square = ejk.sum %rr : vector<4xf32>
    %factor = math.rsqrt %square : f32
    %f = vector.broadcast %factor : f32 to vector<4xf32>
    %ot = arith.mulf %r, %f : vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>) outputs(%ot : vector<4xf32>)
  }
  return %o : tensor<2x5x3x4xf32>
}

func.func @states_static(%q: tensor<2x5x3x4xf32>, %v: tensor<2x5x3x1xf32>) -> tensor<2x5x3x4xf32> {
  %o, %ht, %nt = ejk.scan
      sequences(%qt = %q : tensor<2x5x3x4xf32>, %vt = %v : tensor<2x5x3x1xf32>)
      states(%S = zero : tensor<2x3x4x4xf32>, %n = zero : tensor<2x3x4x1xf32>)
      -> (tensor<2x5x3x4xf32>) {
    %S1 = ejk.outer_add %S, %qt, %qt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %n1 = ejk.outer_add %n, %qt, %vt : vector<4x1xf32>, vector<4xf32>, vector<1xf32>
    %r = ejk.read %S1, %qt along key : vector<4x4xf32>, vector<4xf32>
    %d = ejk.read %n1, %qt along key : vector<4x1xf32>, vector<4xf32>
    %one = ejk.sum %d : vector<1xf32>
    %f = vector.broadcast %one : f32 to vector<4xf32>
    %ot = arith.mulf %r, %f : vector<4xf32>
    ejk.yield states(%S1, %n1 : vector<4x4xf32>, vector<4x1xf32>) outputs(%ot : vector<4xf32>)
  }
  return %o : tensor<2x5x3x4xf32>
}

func.func @rotations_static(%q: tensor<2x5x3x4xf32>, %k: tensor<2x5x3x4xf32>) -> tensor<2x5x3x4xf32> {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<2x5x3x4xf32>, %kt = %k : tensor<2x5x3x4xf32>)
      states(%S = zero : tensor<2x3x4x4xf32>) -> (tensor<2x5x3x4xf32>) {
    %S1 = ejk.outer_add %S, %kt, %qt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %r = ejk.read %S1, %qt along key : vector<4x4xf32>, vector<4xf32>
    %ot = ejk.rotate_half %r : vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>) outputs(%ot : vector<4xf32>)
  }
  return %o : tensor<2x5x3x4xf32>
}

// The numbers are the same.
func.func @check() {
  %q = check.random normal seed 1 : tensor<2x5x3x4xf32>
  %k = check.random normal seed 2 : tensor<2x5x3x4xf32>
  %v = check.random normal seed 3 : tensor<2x5x3x1xf32>
  %qd = tensor.cast %q : tensor<2x5x3x4xf32> to tensor<?x?x?x4xf32>

  %o, %p, %h = func.call @reads(%q, %k) : (tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>) -> (tensor<?x?x?x4xf32>, tensor<?x5x?x4xf32>, tensor<?x3x4x4xf32>)
  %o1, %p1, %h1 = func.call @reads_static(%q, %k) : (tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>) -> (tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>, tensor<2x3x4x4xf32>)
  %o0 = tensor.cast %o : tensor<?x?x?x4xf32> to tensor<2x5x3x4xf32>
  %p0 = tensor.cast %p : tensor<?x5x?x4xf32> to tensor<2x5x3x4xf32>
  %h0 = tensor.cast %h : tensor<?x3x4x4xf32> to tensor<2x3x4x4xf32>
  check.expect_close %o0, %o1 max_relative 0.0 : tensor<2x5x3x4xf32>
  check.expect_close %p0, %p1 max_relative 0.0 : tensor<2x5x3x4xf32>
  check.expect_close %h0, %h1 max_relative 0.0 : tensor<2x3x4x4xf32>

  %s = func.call @sums(%qd, %k) : (tensor<?x?x?x4xf32>, tensor<2x5x3x4xf32>) -> tensor<2x5x3x4xf32>
  %s1 = func.call @sums_static(%q, %k) : (tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>) -> tensor<2x5x3x4xf32>
  check.expect_close %s, %s1 max_relative 0.0 : tensor<2x5x3x4xf32>

  %n = func.call @states(%q, %v) : (tensor<2x5x3x4xf32>, tensor<2x5x3x1xf32>) -> tensor<?x?x?x4xf32>
  %n1 = func.call @states_static(%q, %v) : (tensor<2x5x3x4xf32>, tensor<2x5x3x1xf32>) -> tensor<2x5x3x4xf32>
  %n0 = tensor.cast %n : tensor<?x?x?x4xf32> to tensor<2x5x3x4xf32>
  check.expect_close %n0, %n1 max_relative 0.0 : tensor<2x5x3x4xf32>

  %r = func.call @rotations(%q, %k) : (tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>) -> tensor<?x?x?x4xf32>
  %r1 = func.call @rotations_static(%q, %k) : (tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>) -> tensor<2x5x3x4xf32>
  %r0 = tensor.cast %r : tensor<?x?x?x4xf32> to tensor<2x5x3x4xf32>
  check.expect_close %r0, %r1 max_relative 0.0 : tensor<2x5x3x4xf32>
  return
}
