// RUN: ejk-opt %s --split-input-file --ejk-specialize --ejk-to-gpu | FileCheck %s

// A chain of elementwise ops is one kernel, however T and B are given.
// CHECK-LABEL: gpu.func @chain_map0(
// CHECK-SAME: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>, %{{.*}}: i64) kernel
// CHECK: math.erf
// CHECK: math.log
// CHECK: arith.maximumf
// CHECK-NOT: gpu.func
// CHECK-LABEL: func.func @chain(
// CHECK: arith.ceildivui %{{.*}}, %c256
// CHECK: gpu.launch_func @kernels::@chain_map0 {{.*}} threads in (%c256
// CHECK-NOT: gpu.launch_func
func.func @chain(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %a = math.erf %x : tensor<?x3xf32>
  %b = math.log %a : tensor<?x3xf32>
  %g = arith.maximumf %b, %x : tensor<?x3xf32>
  return %g : tensor<?x3xf32>
}

// -----

// A sum over channels: one thread walks a row, from the number it starts with.
// CHECK-LABEL: gpu.func @row_sums_map0(
// CHECK: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[SUM:.*]] = scf.for %{{.*}} iter_args(%[[ACC:.*]] = %[[ZERO]]) -> (f32)
// CHECK: %[[X:.*]] = llvm.load
// CHECK: arith.addf %[[X]], %[[ACC]] : f32
// CHECK: llvm.store %[[SUM]]
func.func @row_sums(%x: tensor<?x?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
                       iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<?x?xf32>) outs(%f : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %t = arith.addf %in, %out : f32
    linalg.yield %t : f32
  } -> tensor<?xf32>
  return %s : tensor<?xf32>
}

// -----

// Everything to one number: a grid of one block, for any sizes.
// CHECK-LABEL: func.func @total(
// CHECK: gpu.launch_func @kernels::@total_map0 blocks in (%c1, %c1, %c1)
func.func @total(%x: tensor<?xf32>) -> tensor<f32> {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %s = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>],
                       iterator_types = ["reduction"]}
      ins(%x : tensor<?xf32>) outs(%zero : tensor<f32>) {
  ^bb0(%in: f32, %out: f32):
    %t = arith.addf %in, %out : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  return %s : tensor<f32>
}

// -----

// A constant that a scan reads is memory first: a kernel fills it.
// CHECK-LABEL: gpu.func @gate_of_one_number_map0(
// CHECK: %[[HALF:.*]] = arith.constant -5.000000e-01 : f32
// CHECK: llvm.insertelement %[[HALF]]
// CHECK: llvm.store %{{.*}} : vector<4xf32>
// CHECK-LABEL: func.func @gate_of_one_number(
// CHECK: %[[GAMMA:.*]] = memref.alloc() : memref<4xf32>
// CHECK: gpu.launch_func @kernels::@gate_of_one_number_map0
// CHECK: gpu.launch_func @kernels::@gate_of_one_number_scan0
func.func @gate_of_one_number(%q: tensor<2x9x4x8xf32>, %k: tensor<2x9x4x8xf32>,
                              %v: tensor<2x9x4x8xf32>) -> tensor<2x9x4x8xf32> {
  %gamma = arith.constant dense<-0.5> : tensor<4xf32>
  %o, %ht = ejk.recurrent %q, %k, %v g_gamma(%gamma : tensor<4xf32>)
      : tensor<2x9x4x8xf32>, tensor<2x9x4x8xf32>, tensor<2x9x4x8xf32>
      -> tensor<2x9x4x8xf32>, tensor<2x4x8x8xf32>
  return %o : tensor<2x9x4x8xf32>
}

// -----

// A value returned twice, and an argument returned, are copied: two results
// never are the same memory.
// CHECK-LABEL: func.func @copies(
// CHECK-SAME: %[[X:[^ ]*]]: memref<?xf32> {{.*}} %[[Y0:[^ ]*]]: memref<?xf32> {{.*}} %[[Y1:[^ ]*]]: memref<?xf32> {{.*}} %[[SAME:[^ ]*]]: memref<?xf32>
// CHECK: %[[N:.*]] = memref.dim %[[X]], %c0
// CHECK: %[[GRID:.*]] = arith.ceildivui %[[N]], %c256
// CHECK: gpu.launch_func @kernels::@copies_map0 blocks in (%[[GRID]],
// CHECK: gpu.launch_func @kernels::@copies_map1 blocks in (%[[GRID]],
// CHECK: gpu.launch_func @kernels::@copies_map1 blocks in (%[[GRID]],
// CHECK-NOT: gpu.launch_func
func.func @copies(%x: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %y = math.exp %x : tensor<?xf32>
  return %y, %y, %x : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}
