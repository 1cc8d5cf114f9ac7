// Where a step-by-step kernel cannot take queries, a remark says so.
// RUN: ejk-opt %s --ejk-expand-queries=for-steps --verify-diagnostics | FileCheck %s

// Reads along both axes have a kernel with the whole state, which has no loop over queries.
// CHECK-LABEL: func.func @both(
// CHECK: ejk.first_heads
func.func @both(%q: tensor<?x?x?x8xf32>, %k: tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>, tensor<?x?x8x8xf32>) {
  // expected-remark@+1 {{keeps a state for each query head while it runs: a kernel computes the queries of a group in turn only where a step's reads and sums are along one axis of the state}}
  %o, %ht = ejk.scan sequences(%kt = %k : tensor<?x?x?x8xf32>)
      queries(%qt = %q : tensor<?x?x?x8xf32>) states(%S = zero : tensor<?x?x8x8xf32>)
      -> (tensor<?x?x?x8xf32>) {
    %S1 = ejk.outer_add %S, %kt, %kt : vector<8x8xf32>, vector<8xf32>, vector<8xf32>
    %a = ejk.read %S1, %qt along key : vector<8x8xf32>, vector<8xf32>
    %b = ejk.read %S1, %a along value : vector<8x8xf32>, vector<8xf32>
    ejk.yield states(%S1 : vector<8x8xf32>) outputs(%b : vector<8xf32>)
  }
  return %o, %ht : tensor<?x?x?x8xf32>, tensor<?x?x8x8xf32>
}
