// RUN: ejk-opt %s --ejk-restart-scans=rows=4 | FileCheck %s
// RUN: ejk-opt %s --ejk-restart-scans=rows=4 --ejk-split-over-time='halves least=2' | FileCheck %s --check-prefix=HALVES
// RUN: not ejk-opt %s --ejk-restart-scans=rows=0 2>&1 | FileCheck %s --check-prefix=ROWS
// ROWS: 'rows' must be from 1 to 1073741824, but is 0

// The first reverse scan corrects its state with what it reads, and the last one goes through the same states with
// that as rows: it starts anew every four rows, from what the other one saves. The scan in the other direction stays.
// CHECK-LABEL: func.func @adjoint(
// CHECK:         ejk.scan{{ *$}}
// CHECK:         %[[U:.*]], %[[END:.*]], %[[SAVES:.*]] = ejk.scan reverse save_every 4
// CHECK:           %[[NEXT:.*]] = ejk.outer_add
// CHECK:           %[[LAST:.*]] = ejk.outer_add %[[NEXT]]
// CHECK:           ejk.yield states(%[[LAST]] : vector<4x3xf32>) outputs({{.*}}) saves(%[[LAST]] : vector<4x3xf32>)
// CHECK:         ejk.scan{{ *$}}
// CHECK:         %[[STARTS:.*]] = ejk.segment_starts reverse %[[SAVES]] every 4 from %[[D:[a-z0-9]+]] : tensor<?x?x4x3xf32> like %{{.*}} :
// CHECK:         %[[DK:.*]], %{{.*}} = ejk.scan reverse segments<4 to 4, at_least 1>
// CHECK:           = %[[U]] :
// CHECK:           states(%{{.*}} = %[[STARTS]] :
// CHECK:         return %{{.*}}, %[[DK]], %[[END]]

// One half of the rows first, and then both from there; the scan that restarts is as before.
// HALVES-LABEL: func.func @adjoint(
// HALVES:         %[[FIRST:.*]] = ejk.scan segments<2, exactly 2, only 0>
// HALVES:           states(%{{.*}} = %[[ZERO:[a-z0-9]+]] :
// HALVES:         %[[STARTS:.*]] = linalg.generic {{.*}} ins(%[[FIRST]] : tensor<?x?x4x3xf32>)
// HALVES:           linalg.index 1
// HALVES:         ejk.scan segments<2, exactly 2>
// HALVES:         ejk.scan reverse segments<4, exactly 2, only 1>
// HALVES:           states(%{{.*}} = %[[D:[a-z0-9]+]] : tensor<?x?x4x3xf32>)
// HALVES:         linalg.generic {{.*}} ins(%{{.*}}, %[[D]] : tensor<?x?x4x3xf32>, tensor<?x?x4x3xf32>)
// HALVES:         %{{.*}}, %[[ENDS:.*]], %{{.*}} = ejk.scan reverse save_every 4 segments<4, exactly 2>
// HALVES:         %[[EACH:.*]] = tensor.expand_shape %[[ENDS]]
// HALVES:         %[[END:.*]] = linalg.generic {{.*}} ins(%[[EACH]] :
// HALVES:         ejk.scan reverse segments<4 to 4, at_least 1>
// HALVES:         return %{{.*}}, %{{.*}}, %[[END]]
func.func @adjoint(%k: tensor<?x?x?x4xf32> {ejk.shape = ["B", "T", "Hk", "4"]},
                   %v: tensor<?x?x?x3xf32> {ejk.shape = ["B", "T", "Hv", "3"]}, %d: tensor<?x?x4x3xf32>)
    -> (tensor<?x?x?x3xf32>, tensor<?x?x?x4xf32>, tensor<?x?x4x3xf32>) {
  %r, %ht = ejk.scan sequences(%vt = %v : tensor<?x?x?x3xf32>, %kt = %k : tensor<?x?x?x4xf32>)
      states(%S = zero : tensor<?x?x4x3xf32>) -> (tensor<?x?x?x3xf32>) {
    %seen = ejk.read %S, %kt along key : vector<4x3xf32>, vector<4xf32>
    %u = arith.subf %vt, %seen : vector<3xf32>
    %S1 = ejk.outer_add %S, %kt, %u : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    ejk.yield states(%S1 : vector<4x3xf32>) outputs(%seen : vector<3xf32>)
  }
  %u, %end = ejk.scan reverse sequences(%vt = %v : tensor<?x?x?x3xf32>, %kt = %k : tensor<?x?x?x4xf32>)
      states(%S = %d : tensor<?x?x4x3xf32>) -> (tensor<?x?x?x3xf32>) {
    %S1 = ejk.outer_add %S, %kt, %vt : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    %seen = ejk.read %S1, %kt along key : vector<4x3xf32>, vector<4xf32>
    %minus = arith.negf %seen : vector<3xf32>
    %S2 = ejk.outer_add %S1, %kt, %minus : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    ejk.yield states(%S2 : vector<4x3xf32>) outputs(%seen : vector<3xf32>)
  }
  // The states of the first scan, in its direction.
  %o, %again = ejk.scan sequences(%vt = %v : tensor<?x?x?x3xf32>, %kt = %k : tensor<?x?x?x4xf32>, %rt = %r : tensor<?x?x?x3xf32>)
      states(%S = zero : tensor<?x?x4x3xf32>) -> (tensor<?x?x?x3xf32>) {
    %w = arith.subf %vt, %rt : vector<3xf32>
    %S1 = ejk.outer_add %S, %kt, %w : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    %seen = ejk.read %S1, %kt along key : vector<4x3xf32>, vector<4xf32>
    ejk.yield states(%S1 : vector<4x3xf32>) outputs(%seen : vector<3xf32>)
  }
  %dk, %last = ejk.scan reverse sequences(%vt = %v : tensor<?x?x?x3xf32>, %kt = %k : tensor<?x?x?x4xf32>, %ut = %u : tensor<?x?x?x3xf32>)
      states(%S = %d : tensor<?x?x4x3xf32>) -> (tensor<?x?x?x4xf32>) {
    %S1 = ejk.outer_add %S, %kt, %vt : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    %minus = arith.negf %ut : vector<3xf32>
    %S2 = ejk.outer_add %S1, %kt, %minus : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    %seen = ejk.read %S2, %vt along value : vector<4x3xf32>, vector<3xf32>
    ejk.yield states(%S2 : vector<4x3xf32>) outputs(%seen : vector<4xf32>)
  }
  return %o, %dk, %last : tensor<?x?x?x3xf32>, tensor<?x?x?x4xf32>, tensor<?x?x4x3xf32>
}

// What was read is scaled on its way: the states are others.
// CHECK-LABEL: func.func @others(
// CHECK-NOT:     ejk.segment_starts
// CHECK:         return
func.func @others(%k: tensor<2x9x3x4xf32>, %v: tensor<2x9x3x3xf32>) -> (tensor<2x9x3x4xf32>) {
  %r, %ht = ejk.scan sequences(%vt = %v : tensor<2x9x3x3xf32>, %kt = %k : tensor<2x9x3x4xf32>)
      states(%S = zero : tensor<2x3x4x3xf32>) -> (tensor<2x9x3x3xf32>) {
    %seen = ejk.read %S, %kt along key : vector<4x3xf32>, vector<4xf32>
    %S1 = ejk.outer_add %S, %kt, %vt : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    ejk.yield states(%S1 : vector<4x3xf32>) outputs(%seen : vector<3xf32>)
  }
  %u, %end = ejk.scan reverse sequences(%vt = %v : tensor<2x9x3x3xf32>, %kt = %k : tensor<2x9x3x4xf32>)
      states(%S = zero : tensor<2x3x4x3xf32>) -> (tensor<2x9x3x3xf32>) {
    %seen = ejk.read %S, %kt along key : vector<4x3xf32>, vector<4xf32>
    %minus = arith.negf %seen : vector<3xf32>
    %S1 = ejk.outer_add %S, %kt, %minus : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    ejk.yield states(%S1 : vector<4x3xf32>) outputs(%seen : vector<3xf32>)
  }
  %dk, %last = ejk.scan reverse sequences(%vt = %v : tensor<2x9x3x3xf32>, %kt = %k : tensor<2x9x3x4xf32>, %ut = %u : tensor<2x9x3x3xf32>)
      states(%S = zero : tensor<2x3x4x3xf32>) -> (tensor<2x9x3x4xf32>) {
    %S1 = ejk.outer_add %S, %kt, %ut : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    %seen = ejk.read %S1, %vt along value : vector<4x3xf32>, vector<3xf32>
    ejk.yield states(%S1 : vector<4x3xf32>) outputs(%seen : vector<4xf32>)
  }
  return %dk : tensor<2x9x3x4xf32>
}
