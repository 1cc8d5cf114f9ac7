// A thread computes neighbours of the last loop, with loads and stores of 16 bytes, and loops that all operands walk
// alike are one.
// RUN: ejk-opt %s --ejk-specialize --ejk-to-gpu | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=scaled_residual --device=cuda --random B=2,T=5,H=3 --check
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=heads_first --device=cuda --random B=2,T=5,H=3 --check
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=channels_first --device=cuda --random T=300 --check
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=row_sums --device=cuda --random T=300 --check
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=column_sums --device=cuda --random T=300 --check

// Batch, time and heads are one loop, for the number of a head too. Nothing is divided but by 100.
// CHECK-LABEL: gpu.func @scaled_residual_map0(
// CHECK-SAME: i64, %{{[^:]*}}: i64, %{{[^:]*}}: i64) kernel
// CHECK: %[[FOUR:.*]] = arith.constant 4 : i64
// CHECK: arith.muli %{{.*}}, %[[FOUR]]
// CHECK-COUNT-1: arith.remui
// CHECK-NOT: arith.remui
// CHECK-COUNT-2: llvm.load %{{.*}} {alignment = 8 : i64} : !llvm.ptr<1> -> vector<4xbf16>
// CHECK: llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr<1> -> f32
// CHECK-COUNT-4: arith.truncf
// CHECK: llvm.store %{{.*}} {alignment = 8 : i64} : vector<4xbf16>
// CHECK: gpu.return
func.func @scaled_residual(%x: tensor<?x?x?x100xbf16> {ejk.shape = ["B", "T", "H", "100"]},
                           %y: tensor<?x?x?x100xbf16> {ejk.shape = ["B", "T", "H", "100"]},
                           %s: tensor<?x?x?xf32> {ejk.shape = ["B", "T", "H"]}) -> tensor<?x?x?x100xbf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %B = tensor.dim %x, %c0 : tensor<?x?x?x100xbf16>
  %T = tensor.dim %x, %c1 : tensor<?x?x?x100xbf16>
  %H = tensor.dim %x, %c2 : tensor<?x?x?x100xbf16>
  %e = tensor.empty(%B, %T, %H) : tensor<?x?x?x100xbf16>
  %r = linalg.generic {indexing_maps = [affine_map<(b, t, h, c) -> (b, t, h, c)>, affine_map<(b, t, h, c) -> (b, t, h, c)>,
                                        affine_map<(b, t, h, c) -> (b, t, h)>, affine_map<(b, t, h, c) -> (b, t, h, c)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x, %y, %s : tensor<?x?x?x100xbf16>, tensor<?x?x?x100xbf16>, tensor<?x?x?xf32>)
      outs(%e : tensor<?x?x?x100xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %c: f32, %o: bf16):
    %f = arith.extf %a : bf16 to f32
    %g = arith.extf %b : bf16 to f32
    %m = arith.mulf %g, %c : f32
    %p = arith.addf %f, %m : f32
    %q = arith.truncf %p : f32 to bf16
    linalg.yield %q : bf16
  } -> tensor<?x?x?x100xbf16>
  return %r : tensor<?x?x?x100xbf16>
}

// Heads before time: time and heads are two loops, channels still lie side by side.
// CHECK-LABEL: gpu.func @heads_first_map0(
// CHECK-COUNT-3: arith.remui
// CHECK-NOT: arith.remui
// CHECK: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK: llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xf32>
func.func @heads_first(%x: tensor<?x?x?x8xf32> {ejk.shape = ["B", "T", "H", "8"]}) -> tensor<?x?x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %B = tensor.dim %x, %c0 : tensor<?x?x?x8xf32>
  %T = tensor.dim %x, %c1 : tensor<?x?x?x8xf32>
  %H = tensor.dim %x, %c2 : tensor<?x?x?x8xf32>
  %e = tensor.empty(%B, %H, %T) : tensor<?x?x?x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(b, h, t, c) -> (b, t, h, c)>, affine_map<(b, h, t, c) -> (b, h, t, c)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<?x?x?x8xf32>) outs(%e : tensor<?x?x?x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %n = arith.negf %a : f32
    linalg.yield %n : f32
  } -> tensor<?x?x?x8xf32>
  return %r : tensor<?x?x?x8xf32>
}

// Channels that do not lie side by side in one operand are taken one by one.
// CHECK-LABEL: gpu.func @channels_first_map0(
// CHECK-NOT: vector<
// CHECK: gpu.return
func.func @channels_first(%x: tensor<?x8xf32> {ejk.shape = ["T", "8"]}) -> tensor<8x?xf32> {
  %c0 = arith.constant 0 : index
  %T = tensor.dim %x, %c0 : tensor<?x8xf32>
  %e = tensor.empty(%T) : tensor<8x?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(c, t) -> (t, c)>, affine_map<(c, t) -> (c, t)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x8xf32>) outs(%e : tensor<8x?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %n = arith.negf %a : f32
    linalg.yield %n : f32
  } -> tensor<8x?xf32>
  return %r : tensor<8x?xf32>
}

// A thread sums its row in order, 16 bytes at a time.
// CHECK-LABEL: gpu.func @row_sums_map0(
// CHECK: scf.for %{{.*}} = %{{.*}} to %{{.*}} step %[[FOUR:[^ ]*]] iter_args
// CHECK: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK-COUNT-4: arith.addf
// CHECK-NOT: arith.addf
// CHECK: scf.yield
func.func @row_sums(%x: tensor<?x12xf32> {ejk.shape = ["T", "12"]}) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x12xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
                       iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<?x12xf32>) outs(%f : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %t = arith.addf %in, %out : f32
    linalg.yield %t : f32
  } -> tensor<?xf32>
  return %s : tensor<?xf32>
}

// Sums of columns: neighbours have a sum each.
// CHECK-LABEL: gpu.func @column_sums_map0(
// CHECK: scf.for {{.*}} -> (f32, f32, f32, f32)
// CHECK: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK: llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xf32>
func.func @column_sums(%x: tensor<?x12xf32> {ejk.shape = ["T", "12"]}) -> tensor<12xf32> {
  %zero = arith.constant dense<0.0> : tensor<12xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(j, i) -> (i, j)>, affine_map<(j, i) -> (j)>],
                       iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<?x12xf32>) outs(%zero : tensor<12xf32>) {
  ^bb0(%in: f32, %out: f32):
    %t = arith.addf %in, %out : f32
    linalg.yield %t : f32
  } -> tensor<12xf32>
  return %s : tensor<12xf32>
}
