// RUN: ejk-opt %s --ejk-split-reads --canonicalize | FileCheck %s

// An output that reads along both axes: the second scan takes the first's read.
// CHECK-LABEL: func.func @mixed(
// CHECK:         %[[FIRST:.*]], %{{.*}} = ejk.scan
// CHECK:           ejk.read {{.*}} along value
// CHECK-NOT:       along key
// CHECK:         ejk.scan
// CHECK:           %[[READ:arg[0-9]+]] = %[[FIRST]] :
// CHECK:           %[[R:.*]] = ejk.read {{.*}} along key
// CHECK-NOT:       along value
// CHECK:           arith.addf %[[R]], %[[READ]]
func.func @mixed(%q: tensor<?x?x?x4xf32>, %k: tensor<?x?x?x4xf32>) -> tensor<?x?x?x4xf32> {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x4xf32>, %kt = %k : tensor<?x?x?x4xf32>)
      states(%S = zero : tensor<?x?x4x4xf32>) -> (tensor<?x?x?x4xf32>) {
    %S1 = ejk.outer_add %S, %kt, %qt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %a = ejk.read %S1, %qt along key : vector<4x4xf32>, vector<4xf32>
    %b = ejk.read %S1, %qt along value : vector<4x4xf32>, vector<4xf32>
    %ot = arith.addf %a, %b : vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>) outputs(%ot : vector<4xf32>)
  }
  return %o : tensor<?x?x?x4xf32>
}

// A state that takes up reads along value stays with them.
// CHECK-LABEL: func.func @carried(
// CHECK:         ejk.scan
// CHECK:           states(%{{.*}} = zero : tensor<?x?x4x4xf32>, %{{.*}} = zero : tensor<?x?x4xf32>)
// CHECK:           ejk.read {{.*}} along value
// CHECK:         ejk.scan
// CHECK:           states(%{{.*}} = zero : tensor<?x?x4x4xf32>) ->
// CHECK:           ejk.read {{.*}} along key
func.func @carried(%q: tensor<?x?x?x4xf32>) -> (tensor<?x?x?x4xf32>, tensor<?x?x4xf32>) {
  %o, %ht:2 = ejk.scan sequences(%qt = %q : tensor<?x?x?x4xf32>)
      states(%S = zero : tensor<?x?x4x4xf32>, %w = zero : tensor<?x?x4xf32>)
      -> (tensor<?x?x?x4xf32>) {
    %S1 = ejk.outer_add %S, %qt, %qt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %a = ejk.read %S1, %qt along key : vector<4x4xf32>, vector<4xf32>
    %b = ejk.read %S1, %qt along value : vector<4x4xf32>, vector<4xf32>
    %w1 = arith.addf %w, %b : vector<4xf32>
    ejk.yield states(%S1, %w1 : vector<4x4xf32>, vector<4xf32>) outputs(%a : vector<4xf32>)
  }
  return %o, %ht#1 : tensor<?x?x?x4xf32>, tensor<?x?x4xf32>
}
