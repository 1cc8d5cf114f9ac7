// What a branch takes of an item, factors, sums and the check, is made in the branch before.
// Gates are weak in some chunks and not in others, so both sides make it.
// RUN: ejk-opt %s --ejk-specialize --ejk-interpret
// RUN: ejk-opt %s --ejk-specialize --ejk-chunk --canonicalize --ejk-slice-rows-early \
// RUN:   --canonicalize --cse --ejk-sink-into-branches --ejk-defer-state-scaling \
// RUN:   --ejk-hoist-from-branches --ejk-assign-tile-layouts=arch=sm_90a \
// RUN:   --ejk-schedule-matmuls --ejk-multistage-loads='stages=2 apart' -o %t.mlir
// RUN: FileCheck %s --check-prefix=BEFORE < %t.mlir
// RUN: ejk-opt %t.mlir --ejk-interpret=precision=native
// RUN: ejk-opt %t.mlir --ejk-pipeline-branch-operands -o %t.ahead.mlir
// RUN: FileCheck %s < %t.ahead.mlir
// RUN: ejk-opt %t.ahead.mlir --ejk-interpret=precision=native
// RUN: ejk-opt %t.ahead.mlir --ejk-specialize-warps --ejk-interpret='precision=native partition-seed=5'

// BEFORE-LABEL: func.func @keys
// BEFORE-DAG:     %[[A:.*]] = tile.make_ring : <2 of vector<64x128xbf16>, vector<64x128xbf16>, vector<64x128xbf16>>
// BEFORE-DAG:     %[[V:.*]] = tile.make_ring : <2 of vector<64x128xbf16>>
// BEFORE:         scf.for
// BEFORE:           tile.take %[[A]]
// BEFORE:           tile.cumsum
// BEFORE:           tile.range_guard
// BEFORE:           tile.take %[[V]]
// BEFORE:           tile.guarded
// BEFORE:           tile.release %[[V]]
// BEFORE:           tile.release %[[A]]

// CHECK-LABEL: func.func @keys
// CHECK:         %[[A:.*]] = tile.make_ring : <2 of vector<64x128xbf16>, vector<64x128xbf16>, vector<64x128xbf16>>
// CHECK:         %[[V:.*]] = tile.make_ring
// CHECK:         tile.take %[[A]]
// CHECK:         tile.cumsum
// CHECK:         %[[Q0:.*]] = tile.convert %{{.*}} to <transposed_swizzled>
// CHECK:         %[[K0:.*]] = tile.convert %{{.*}} to <transposed_swizzled>
// CHECK:         %[[WEAK0:.*]] = tile.range_guard
// CHECK:         scf.for %[[C:.*]] = {{.*}} iter_args({{.*}}%[[Q:.*]] = %[[Q0]], %[[K:.*]] = %[[K0]], %[[WEAK:.*]] = %[[WEAK0]])
// CHECK-NOT:       tile.take %[[A]]
// CHECK:           %[[NEXT:.*]]:{{.*}} = tile.guarded %[[WEAK]]
// CHECK:             tile.broadcast
// CHECK:             tile.dot %[[Q]], %[[K]] transposed
// CHECK-NEXT:        tile.release %[[A]][%[[C]]]
// CHECK:             %[[TWO:.*]] = arith.constant 2 : index
// CHECK:             %[[BEHIND:.*]] = arith.addi %[[C]], %[[TWO]]
// CHECK:             tile.fill %[[A]][%[[BEHIND]]]
// CHECK:             tile.mask lower
// CHECK:             tile.convert %{{.*}} to <swizzled>
// CHECK-NEXT:        tile.dot %[[Q]]
// CHECK:             tile.take %[[A]]
// CHECK:             tile.cumsum
// CHECK:             tile.dot %[[K]] transposed
// CHECK:             math.exp
// CHECK:             %[[Q1:.*]] = tile.convert %{{.*}} to <transposed_swizzled>
// CHECK-NEXT:        %[[K1:.*]] = tile.convert %{{.*}} to <transposed_swizzled>
// CHECK:             tile.convert %{{.*}} to <swizzled>
// CHECK:             %[[WEAK1:.*]] = tile.range_guard
// CHECK-NEXT:        tile.store
// CHECK:             tile.yield {{.*}}%[[Q1]], %[[K1]], %[[WEAK1]]
// CHECK:           } exact {
// CHECK:             tile.take held %[[A]][%[[C]]]
// CHECK:             tile.release %[[A]][%[[C]]]
// CHECK:             tile.fill %[[A]]
// CHECK:             tile.take %[[A]]
// CHECK:             tile.range_guard
// CHECK:           tile.release %[[V]][%[[C]]]
// CHECK-NOT:       tile.release
// CHECK:         return

func.func @keys() {
  %q = check.random normal seed 1 : tensor<1x200x1x128xbf16>
  %k = check.random normal seed 2 : tensor<1x200x1x128xbf16>
  %v = check.random normal seed 3 : tensor<1x200x1x128xbf16>
  %weak = check.random log_gate seed 4 : tensor<1x200x1x128xbf16>
  %size = check.random normal seed 5 : tensor<1x200x1x128xbf16>
  %strong = arith.constant dense<-60.0> : tensor<1x200x1x128xbf16>
  %most = arith.constant dense<3.8> : tensor<1x200x1x128xbf16>
  %isStrong = arith.cmpf ogt, %size, %most : tensor<1x200x1x128xbf16>
  %g = arith.select %isStrong, %strong, %weak : tensor<1x200x1x128xi1>, tensor<1x200x1x128xbf16>
  %o, %ht = ejk.recurrent %q, %k, %v gk(%g : tensor<1x200x1x128xbf16>)
      : tensor<1x200x1x128xbf16>, tensor<1x200x1x128xbf16>, tensor<1x200x1x128xbf16>
      -> tensor<1x200x1x128xbf16>, tensor<1x1x128x128xf32>
  %qw = arith.extf %q : tensor<1x200x1x128xbf16> to tensor<1x200x1x128xf32>
  %kw = arith.extf %k : tensor<1x200x1x128xbf16> to tensor<1x200x1x128xf32>
  %vw = arith.extf %v : tensor<1x200x1x128xbf16> to tensor<1x200x1x128xf32>
  %gw = arith.extf %g : tensor<1x200x1x128xbf16> to tensor<1x200x1x128xf32>
  %e, %et = ejk.recurrent %qw, %kw, %vw gk(%gw : tensor<1x200x1x128xf32>)
      : tensor<1x200x1x128xf32>, tensor<1x200x1x128xf32>, tensor<1x200x1x128xf32>
      -> tensor<1x200x1x128xf32>, tensor<1x1x128x128xf32>
  %ow = arith.extf %o : tensor<1x200x1x128xbf16> to tensor<1x200x1x128xf32>
  check.expect_close %ow, %e max_relative 4.0e-3 : tensor<1x200x1x128xf32>
  check.expect_close %ht, %et max_relative 4.0e-3 : tensor<1x1x128x128xf32>
  return
}

func.func @back() {
  %q = check.random normal seed 1 : tensor<1x130x1x128xbf16>
  %k = check.random normal seed 2 : tensor<1x130x1x128xbf16>
  %v = check.random normal seed 3 : tensor<1x130x1x128xbf16>
  %weak = check.random log_gate seed 4 : tensor<1x130x1x128xbf16>
  %size = check.random normal seed 5 : tensor<1x130x1x128xbf16>
  %strong = arith.constant dense<-60.0> : tensor<1x130x1x128xbf16>
  %most = arith.constant dense<3.8> : tensor<1x130x1x128xbf16>
  %isStrong = arith.cmpf ogt, %size, %most : tensor<1x130x1x128xbf16>
  %g = arith.select %isStrong, %strong, %weak : tensor<1x130x1x128xi1>, tensor<1x130x1x128xbf16>
  %o, %ht = ejk.recurrent reverse %q, %k, %v gk(%g : tensor<1x130x1x128xbf16>)
      : tensor<1x130x1x128xbf16>, tensor<1x130x1x128xbf16>, tensor<1x130x1x128xbf16>
      -> tensor<1x130x1x128xbf16>, tensor<1x1x128x128xf32>
  %qw = arith.extf %q : tensor<1x130x1x128xbf16> to tensor<1x130x1x128xf32>
  %kw = arith.extf %k : tensor<1x130x1x128xbf16> to tensor<1x130x1x128xf32>
  %vw = arith.extf %v : tensor<1x130x1x128xbf16> to tensor<1x130x1x128xf32>
  %gw = arith.extf %g : tensor<1x130x1x128xbf16> to tensor<1x130x1x128xf32>
  %e, %et = ejk.recurrent reverse %qw, %kw, %vw gk(%gw : tensor<1x130x1x128xf32>)
      : tensor<1x130x1x128xf32>, tensor<1x130x1x128xf32>, tensor<1x130x1x128xf32>
      -> tensor<1x130x1x128xf32>, tensor<1x1x128x128xf32>
  %ow = arith.extf %o : tensor<1x130x1x128xbf16> to tensor<1x130x1x128xf32>
  check.expect_close %ow, %e max_relative 4.0e-3 : tensor<1x130x1x128xf32>
  check.expect_close %ht, %et max_relative 4.0e-3 : tensor<1x1x128x128xf32>
  return
}

// CHECK-LABEL: func.func @back

// Its sums are used in the branch, in registers that would be held all through.
// CHECK-LABEL: func.func @values
// CHECK:         scf.for
// CHECK:           tile.take
// CHECK:           tile.range_guard
// CHECK:           tile.guarded
func.func @values() {
  %q = check.random normal seed 1 : tensor<1x130x1x128xbf16>
  %k = check.random normal seed 2 : tensor<1x130x1x128xbf16>
  %v = check.random normal seed 3 : tensor<1x130x1x128xbf16>
  %weak = check.random log_gate seed 4 : tensor<1x130x1x128xbf16>
  %size = check.random normal seed 5 : tensor<1x130x1x128xbf16>
  %strong = arith.constant dense<-60.0> : tensor<1x130x1x128xbf16>
  %most = arith.constant dense<3.8> : tensor<1x130x1x128xbf16>
  %isStrong = arith.cmpf ogt, %size, %most : tensor<1x130x1x128xbf16>
  %g = arith.select %isStrong, %strong, %weak : tensor<1x130x1x128xi1>, tensor<1x130x1x128xbf16>
  %o, %ht = ejk.recurrent %q, %k, %v gv(%g : tensor<1x130x1x128xbf16>)
      : tensor<1x130x1x128xbf16>, tensor<1x130x1x128xbf16>, tensor<1x130x1x128xbf16>
      -> tensor<1x130x1x128xbf16>, tensor<1x1x128x128xf32>
  %qw = arith.extf %q : tensor<1x130x1x128xbf16> to tensor<1x130x1x128xf32>
  %kw = arith.extf %k : tensor<1x130x1x128xbf16> to tensor<1x130x1x128xf32>
  %vw = arith.extf %v : tensor<1x130x1x128xbf16> to tensor<1x130x1x128xf32>
  %gw = arith.extf %g : tensor<1x130x1x128xbf16> to tensor<1x130x1x128xf32>
  %e, %et = ejk.recurrent %qw, %kw, %vw gv(%gw : tensor<1x130x1x128xf32>)
      : tensor<1x130x1x128xf32>, tensor<1x130x1x128xf32>, tensor<1x130x1x128xf32>
      -> tensor<1x130x1x128xf32>, tensor<1x1x128x128xf32>
  %ow = arith.extf %o : tensor<1x130x1x128xbf16> to tensor<1x130x1x128xf32>
  check.expect_close %ow, %e max_relative 4.0e-3 : tensor<1x130x1x128xf32>
  check.expect_close %ht, %et max_relative 4.0e-3 : tensor<1x1x128x128xf32>
  return
}
