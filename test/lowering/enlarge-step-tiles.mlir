// A copy with large tiles stands before a function that goes step by step, and takes launches of many heads.
// RUN: ejk-opt %s --ejk-describe-interface --ejk-to-scan --ejk-enlarge-step-tiles --split-input-file | FileCheck %s

// Of K = 128 and V = 96 in columns of 4, 3 warps of 8 lanes each. A multiprocessor has 3.75 of them or more.
// CHECK-LABEL: func.func @f_large_tiles(
// CHECK-SAME: ejk.alternative_of = "f"
// CHECK-SAME: ejk.schedule = "step"
// CHECK-SAME: ejk.when = ["and", [">=", "T", 2], [">=", ["*", "B", ["*", "H", 12]], ["*", "device.multiprocessors", 15]]]
// CHECK: ejk.large_tiles
// CHECK-LABEL: func.func @f(
// CHECK-SAME: ejk.schedule = "step"
// CHECK-NOT: ejk.large_tiles
func.func @f(%k: tensor<?x?x?x128xf32>, %v: tensor<?x?x?x96xf32>) -> tensor<?x?x?x96xf32> {
  %o, %ht = ejk.recurrent %k, %k, %v : tensor<?x?x?x128xf32>, tensor<?x?x?x128xf32>, tensor<?x?x?x96xf32> -> tensor<?x?x?x96xf32>, tensor<?x?x128x96xf32>
  return %o : tensor<?x?x?x96xf32>
}

// -----

// Packed sequences, whose lengths a launch does not know.
// CHECK-LABEL: func.func @packed_large_tiles(
// CHECK-SAME: ejk.when = [">=", ["*", "N", ["*", "H", 8]], ["*", "device.multiprocessors", 15]]
// CHECK-LABEL: func.func @packed(
func.func @packed(%k: tensor<1x?x?x64xf32>, %v: tensor<1x?x?x128xf32>, %cu: tensor<?xi32>) -> tensor<1x?x?x128xf32> {
  %o, %ht = ejk.recurrent %k, %k, %v cu_seqlens(%cu : tensor<?xi32>) : tensor<1x?x?x64xf32>, tensor<1x?x?x64xf32>, tensor<1x?x?x128xf32> -> tensor<1x?x?x128xf32>, tensor<?x?x64x128xf32>
  return %o : tensor<1x?x?x128xf32>
}

// -----

// A single step has a kernel of its own, and 64×64 would be one warp's.
// CHECK-NOT: large_tiles
func.func @one(%k: tensor<?x1x?x128xf32>, %v: tensor<?x1x?x128xf32>) -> tensor<?x1x?x128xf32> {
  %o, %ht = ejk.recurrent %k, %k, %v : tensor<?x1x?x128xf32>, tensor<?x1x?x128xf32>, tensor<?x1x?x128xf32> -> tensor<?x1x?x128xf32>, tensor<?x?x128x128xf32>
  return %o : tensor<?x1x?x128xf32>
}
func.func @narrow(%k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o, %ht = ejk.recurrent %k, %k, %v : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32> -> tensor<?x?x?x64xf32>, tensor<?x?x64x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
