// What ejk-expand-queries makes of a state per key/value head, and that numbers stay.
// RUN: ejk-opt %s --ejk-specialize --ejk-expand-queries --canonicalize --split-input-file | FileCheck %s
// RUN: ejk-opt %s --ejk-specialize --ejk-expand-queries=for-steps --split-input-file | FileCheck %s --check-prefix=STEPS

// CHECK-LABEL: func.func @gla(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<?x?x?x64xf32>
// CHECK-SAME: %[[K:[a-z0-9]+]]: tensor<?x?x?x64xf32>
// CHECK-SAME: %[[V:[a-z0-9]+]]: tensor<?x?x?x32xf32>
// CHECK: %[[EACH:.*]] = ejk.repeat_heads %{{.*}} like %[[Q]] at 2 : tensor<?x?x64x32xf32>
// CHECK: %[[O:.*]], %[[LAST:.*]] = ejk.scan
// CHECK-NEXT: sequences(%{{.*}} = %[[Q]] : tensor<?x?x?x64xf32>, %{{.*}} = %[[V]] : tensor<?x?x?x32xf32>, %{{.*}} = %[[K]]
// CHECK-NEXT: states(%{{.*}} = %[[EACH]] : tensor<?x?x64x32xf32>)
// CHECK: %[[HT:.*]] = ejk.first_heads %[[LAST]] like %[[V]] at 2
// CHECK: return %[[O]], %[[HT]]

// The step-by-step kernel takes it as it is.
// STEPS-LABEL: func.func @gla(
// STEPS-NOT: ejk.repeat_heads
// STEPS: queries(
func.func @gla(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x32xf32>,
               %h0: tensor<?x?x64x32xf32>) -> (tensor<?x?x?x32xf32>, tensor<?x?x64x32xf32>) {
  %o, %ht = ejk.gla shared_state %q, %k, %v initial_state(%h0 : tensor<?x?x64x32xf32>)
      : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x32xf32>
      -> tensor<?x?x?x32xf32>, tensor<?x?x64x32xf32>
  return %o, %ht : tensor<?x?x?x32xf32>, tensor<?x?x64x32xf32>
}

// -----

// An output and saves that do not depend on a query have a scan of their own.
// CHECK-LABEL: func.func @shared(
// CHECK: ejk.scan save_every 4
// CHECK-NOT: queries
// CHECK: ejk.yield {{.*}}saves(
// CHECK: ejk.scan
// CHECK-NOT: save_every
// CHECK: ejk.read
func.func @shared(%q: tensor<?x?x?x8xf32>, %k: tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x?x8x8xf16>) {
  %o, %r, %ht, %kept = ejk.scan save_every 4 sequences(%kt = %k : tensor<?x?x?x8xf32>)
      queries(%qt = %q : tensor<?x?x?x8xf32>) states(%S = zero : tensor<?x?x8x8xf32>)
      -> (tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>) saves(tensor<?x?x8x8xf16>) {
    %rt = ejk.read %S, %kt along key : vector<8x8xf32>, vector<8xf32>
    %S1 = ejk.outer_add %S, %kt, %rt : vector<8x8xf32>, vector<8xf32>, vector<8xf32>
    %ot = ejk.read %S1, %qt along key : vector<8x8xf32>, vector<8xf32>
    ejk.yield states(%S1 : vector<8x8xf32>) outputs(%ot, %rt : vector<8xf32>, vector<8xf32>)
        saves(%S1 : vector<8x8xf32>)
  }
  return %o, %r, %kept : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x?x8x8xf16>
}
