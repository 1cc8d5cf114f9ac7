// RUN: ejk-opt %s --ejk-narrow-operands | FileCheck %s
// RUN: ejk-opt %s --ejk-narrow-operands=round-computed-operands=false | FileCheck %s --check-prefix=EXACT

// Widened rows are taken as they were before, with either option.
// CHECK-LABEL: func.func @widened(
// CHECK-SAME:    %[[Q:[a-z0-9]+]]: tensor<1x3x1x4xf16>)
// CHECK:         ejk.scan
// CHECK:           sequences(%[[QT:.*]] = %[[Q]] : tensor<1x3x1x4xf16>)
// CHECK:           %[[W:.*]] = arith.extf %[[QT]] : vector<4xf16> to vector<4xf32>
// CHECK:           ejk.outer_add %{{.*}}, %[[W]], %[[W]]
// CHECK:           ejk.yield {{.*}} outputs(%[[W]] :
// EXACT-LABEL: func.func @widened(
// EXACT:         sequences(%{{.*}} = %{{.*}} : tensor<1x3x1x4xf16>)
func.func @widened(%q: tensor<1x3x1x4xf16>) -> (tensor<1x3x1x4xf32>, tensor<1x1x4x4xf32>) {
  %w = arith.extf %q : tensor<1x3x1x4xf16> to tensor<1x3x1x4xf32>
  %o, %ht = ejk.scan sequences(%qt = %w : tensor<1x3x1x4xf32>)
      states(%S = zero : tensor<1x1x4x4xf32>) -> (tensor<1x3x1x4xf32>) {
    %S1 = ejk.outer_add %S, %qt, %qt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>) outputs(%qt : vector<4xf32>)
  }
  return %o, %ht : tensor<1x3x1x4xf32>, tensor<1x1x4x4xf32>
}

// What was computed is rounded to bf16, once for all scans.
// CHECK-LABEL: func.func @computed(
// CHECK:         %[[X:.*]] = arith.mulf
// CHECK-NEXT:    %[[N:.*]] = arith.truncf %[[X]] : tensor<?x?x?x4xf32> to tensor<?x?x?x4xbf16>
// CHECK:         sequences(%{{.*}} = %[[N]] : tensor<?x?x?x4xbf16>)
// CHECK:         sequences(%{{.*}} = %[[N]] : tensor<?x?x?x4xbf16>)
// EXACT-LABEL: func.func @computed(
// EXACT-NOT:     arith.truncf
// EXACT:         return
func.func @computed(%q: tensor<?x?x?x4xf16>) -> (tensor<?x?x4x4xf32>, tensor<?x?x4x4xf32>) {
  %w = arith.extf %q : tensor<?x?x?x4xf16> to tensor<?x?x?x4xf32>
  %x = arith.mulf %w, %w : tensor<?x?x?x4xf32>
  %ht = ejk.scan sequences(%qt = %x : tensor<?x?x?x4xf32>) states(%S = zero : tensor<?x?x4x4xf32>) {
    %S1 = ejk.outer_add %S, %qt, %qt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>)
  }
  %hr = ejk.scan reverse sequences(%qt = %x : tensor<?x?x?x4xf32>) states(%S = zero : tensor<?x?x4x4xf32>) {
    %S1 = ejk.outer_add %S, %qt, %qt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>)
  }
  return %ht, %hr : tensor<?x?x4x4xf32>, tensor<?x?x4x4xf32>
}

// Where rows serve more than matmuls, the rest gets them unrounded: a skip, and a sum. The product
// of a step's own rows, (q · q) q, is a matmul's.
// CHECK-LABEL: func.func @both(
// CHECK:         sequences(%[[QT:.*]] = %[[X:.*]] : tensor<?x?x?x4xf32>, %[[NT:.*]] = %{{.*}} : tensor<?x?x?x4xbf16>)
// CHECK:           %[[W:.*]] = arith.extf %[[NT]]
// CHECK:           %[[S:.*]] = ejk.outer_add %{{.*}}, %[[W]], %[[W]]
// CHECK:           %[[R:.*]] = ejk.read %[[S]], %[[W]]
// CHECK:           %[[SKIP:.*]] = arith.addf %[[R]], %[[QT]]
// CHECK:           %[[P:.*]] = arith.mulf %[[W]], %[[W]]
// CHECK:           %[[N:.*]] = ejk.sum %[[P]]
// CHECK:           %[[B:.*]] = vector.broadcast %[[N]]
// CHECK:           arith.mulf %[[W]], %[[B]]
// CHECK:           %[[D:.*]] = arith.mulf %[[QT]], %[[R]]
// CHECK:           ejk.sum %[[D]]
func.func @both(%q: tensor<?x?x?x4xbf16>)
    -> (tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>, tensor<?x?x?xf32>) {
  %w = arith.extf %q : tensor<?x?x?x4xbf16> to tensor<?x?x?x4xf32>
  %x = arith.mulf %w, %w : tensor<?x?x?x4xf32>
  %o, %p, %n, %ht = ejk.scan sequences(%qt = %x : tensor<?x?x?x4xf32>)
      states(%S = zero : tensor<?x?x4x4xf32>)
      -> (tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>, tensor<?x?x?xf32>) {
    %S1 = ejk.outer_add %S, %qt, %qt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %r = ejk.read %S1, %qt along key : vector<4x4xf32>, vector<4xf32>
    %skip = arith.addf %r, %qt : vector<4xf32>
    %qq = arith.mulf %qt, %qt : vector<4xf32>
    %qn = ejk.sum %qq : vector<4xf32>
    %qb = vector.broadcast %qn : f32 to vector<4xf32>
    %own = arith.mulf %qt, %qb : vector<4xf32>
    %d = arith.mulf %qt, %r : vector<4xf32>
    %dn = ejk.sum %d : vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>) outputs(%skip, %own, %dn : vector<4xf32>, vector<4xf32>, f32)
  }
  return %o, %p, %n : tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>, tensor<?x?x?xf32>
}

// A gate in f32 stays; the key that is computed from it does not.
// CHECK-LABEL: func.func @gate(
// CHECK:         sequences(%{{.*}} = %{{.*}} : tensor<?x?x?x4xbf16>, %{{.*}} = %{{.*}} : tensor<?x?x?x4xf32>, %{{.*}} = %{{.*}} : tensor<?x?x?x4xbf16>)
func.func @gate(%v: tensor<?x?x?x4xbf16>, %g: tensor<?x?x?x4xf32>) -> tensor<?x?x4x4xf32> {
  %k = math.exp %g : tensor<?x?x?x4xf32>
  %ht = ejk.scan sequences(%vt = %v : tensor<?x?x?x4xbf16>, %gt = %g : tensor<?x?x?x4xf32>,
                           %kt = %k : tensor<?x?x?x4xf32>)
      states(%S = zero : tensor<?x?x4x4xf32>) {
    %vw = arith.extf %vt : vector<4xbf16> to vector<4xf32>
    %S1 = ejk.decay %S by %gt along key : vector<4x4xf32>, vector<4xf32>
    %S2 = ejk.outer_add %S1, %kt, %vw : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x4xf32>)
  }
  return %ht : tensor<?x?x4x4xf32>
}

// The caller's f32 rows forbid it, wherever they come in.
// CHECK-LABEL: func.func @wide(
// CHECK-NOT:     arith.truncf
// CHECK:         return
func.func @wide(%q: tensor<?x?x?x4xbf16>, %x: tensor<?x?x?x4xf32>) -> tensor<?x?x4x4xf32> {
  %w = arith.extf %q : tensor<?x?x?x4xbf16> to tensor<?x?x?x4xf32>
  %p = arith.mulf %w, %x : tensor<?x?x?x4xf32>
  %ht = ejk.scan sequences(%qt = %w : tensor<?x?x?x4xf32>, %pt = %p : tensor<?x?x?x4xf32>)
      states(%S = zero : tensor<?x?x4x4xf32>) {
    %S1 = ejk.outer_add %S, %qt, %pt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>)
  }
  return %ht : tensor<?x?x4x4xf32>
}

// A value for matmuls and for others, e = v - r, is of f32 rows in each scan: the outer product is
// the same in both.
// CHECK-LABEL: func.func @mixed(
// CHECK-NOT:     arith.truncf
// CHECK:         return
func.func @mixed(%v: tensor<?x?x?x4xbf16>, %w: tensor<?x?x?x4xbf16>)
    -> (tensor<?x?x4x4xf32>, tensor<?x?x4x4xf32>, tensor<?x?x?x4xf32>) {
  %a = arith.extf %w : tensor<?x?x?x4xbf16> to tensor<?x?x?x4xf32>
  %r = arith.mulf %a, %a : tensor<?x?x?x4xf32>
  %ht = ejk.scan sequences(%vt = %v : tensor<?x?x?x4xbf16>, %rt = %r : tensor<?x?x?x4xf32>)
      states(%S = zero : tensor<?x?x4x4xf32>) {
    %vw = arith.extf %vt : vector<4xbf16> to vector<4xf32>
    %e = arith.subf %vw, %rt : vector<4xf32>
    %S1 = ejk.outer_add %S, %vw, %e : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>)
  }
  %o, %hr = ejk.scan reverse sequences(%vt = %v : tensor<?x?x?x4xbf16>, %rt = %r : tensor<?x?x?x4xf32>)
      states(%S = zero : tensor<?x?x4x4xf32>) -> (tensor<?x?x?x4xf32>) {
    %vw = arith.extf %vt : vector<4xbf16> to vector<4xf32>
    %e = arith.subf %vw, %rt : vector<4xf32>
    %S1 = ejk.outer_add %S, %vw, %e : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %d = arith.mulf %e, %vw : vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>) outputs(%d : vector<4xf32>)
  }
  return %ht, %hr, %o : tensor<?x?x4x4xf32>, tensor<?x?x4x4xf32>, tensor<?x?x?x4xf32>
}

// Rows that a scan makes of 16-bit rows, and others only multiply, are rounded for all uses: for a matmul in one scan,
// and for a gate's gradient in another.
// CHECK-LABEL: func.func @made(
// CHECK:         %[[K:.*]] = ejk.scan
// CHECK:         %[[ROUNDED:.*]] = arith.truncf %[[K]] : tensor<?x?x?x4xf32> to tensor<?x?x?x4xbf16>
// CHECK:         ejk.scan
// CHECK-NEXT:        sequences(%{{.*}} = %{{.*}} : tensor<?x?x?x4xbf16>, %{{.*}} = %[[ROUNDED]] : tensor<?x?x?x4xbf16>)
// CHECK:         ejk.scan reverse
// CHECK-NEXT:        sequences(%{{.*}} = %{{.*}} : tensor<?x?x?x4xbf16>, %{{.*}} = %[[ROUNDED]] : tensor<?x?x?x4xbf16>)
// CHECK:         ejk.sum_heads %{{.*}} along 2 like %[[ROUNDED]] :
func.func @made(%v: tensor<?x?x?x4xbf16>, %w: tensor<?x?x?x4xbf16>)
    -> (tensor<?x?x4x4xf32>, tensor<?x?x?xf32>, tensor<?x?x?x4xf32>) {
  %k = ejk.scan sequences(%wt = %w : tensor<?x?x?x4xbf16>) -> (tensor<?x?x?x4xf32>) {
    %a = arith.extf %wt : vector<4xbf16> to vector<4xf32>
    %e = math.exp %a : vector<4xf32>
    ejk.yield outputs(%e : vector<4xf32>)
  }
  %ht = ejk.scan sequences(%vt = %v : tensor<?x?x?x4xbf16>, %kt = %k : tensor<?x?x?x4xf32>)
      states(%S = zero : tensor<?x?x4x4xf32>) {
    %vw = arith.extf %vt : vector<4xbf16> to vector<4xf32>
    %S1 = ejk.outer_add %S, %kt, %vw : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>)
  }
  %g, %d, %hr = ejk.scan reverse sequences(%vt = %v : tensor<?x?x?x4xbf16>, %kt = %k : tensor<?x?x?x4xf32>)
      states(%S = zero : tensor<?x?x4x4xf32>) -> (tensor<?x?x?xf32>, tensor<?x?x?x4xf32>) {
    %vw = arith.extf %vt : vector<4xbf16> to vector<4xf32>
    %S1 = ejk.outer_add %S, %vw, %vw : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %r = ejk.read %S1, %vw along key : vector<4x4xf32>, vector<4xf32>
    %p = ejk.cancelling_pair %kt, %r : vector<4xf32>
    %s = ejk.sum %p : vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>) outputs(%s, %r : f32, vector<4xf32>)
  }
  %dk = ejk.sum_heads %d along 2 like %k : tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32> -> tensor<?x?x?x4xf32>
  return %ht, %g, %dk : tensor<?x?x4x4xf32>, tensor<?x?x?xf32>, tensor<?x?x?x4xf32>
}
