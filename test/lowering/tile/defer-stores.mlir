// A gate per head: rows come in boxes, gates beside them by one warp's copies, and the device stores
// what an iteration gives in the next one. Its place and that of P are two by turns: all threads meet
// once an iteration.
// RUN: ejk-opt %s --ejk-specialize "--ejk-to-gpu=arch=sm_90a schedule=chunk" | FileCheck %s
// RUN: ejk-opt %s --ejk-specialize "--ejk-to-gpu=arch=sm_90a schedule=chunk" -o /dev/null \
// RUN:   --mlir-print-ir-after=ejk-select-stages 2>&1 | FileCheck %s --check-prefix=TILES
// RUN: ejk-compile %s --schedule=chunk --arch=sm_90a --emit=ptx -o - | FileCheck %s --check-prefix=PTX
//
// Whole chunks, a ragged end, less than a chunk, none; odd and even numbers of chunks.
// DEFINE: %{run} = env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=chunk --arch=sm_90a --device=cuda --check --random
// RUN: %{run} B=2,T=320 %s
// RUN: %{run} B=1,T=135 %s
// RUN: %{run} B=2,T=200 %s
// RUN: %{run} B=3,T=5 %s
// RUN: %{run} B=2,T=64 %s --seed=3
// RUN: %{run} B=0,T=5 %s
// RUN: %{run} B=2,T=0 %s
// RUN: %{run} B=1,T=200 %s --vjp --save-states
// RUN: sed -e 's/recurrent %q/recurrent reverse %q/' %s >%t.reverse.mlir
// RUN: %{run} B=2,T=135 %t.reverse.mlir
// RUN: sed -e 's/tensor<?x?x2/tensor<1x?x2/g' -e 's/%g: tensor<1x?x2xf32>/&, %cu_seqlens: tensor<?xi32>/' -e 's/g(%g : tensor<1x?x2xf32>)/& cu_seqlens(%cu_seqlens : tensor<?xi32>)/' %s >%t.packed.mlir
// RUN: %{run} T=500,N=4 %t.packed.mlir
// RUN: %{run} T=70,N=9 %t.packed.mlir
// RUN: %{run} T=0,N=3 %t.packed.mlir
// RUN: sed -e 's/recurrent %q/recurrent reverse %q/' %t.packed.mlir >%t.both.mlir
// RUN: %{run} T=300,N=5 %t.both.mlir
// Gates of 16 bits are too narrow for copies: each thread loads its own.
// RUN: sed -e 's/tensor<?x?x2xf32>/tensor<?x?x2xbf16>/g' %s >%t.narrow.mlir
// RUN: %{run} B=1,T=135 %t.narrow.mlir
// A gate's parameter.
// RUN: sed -e 's/%g: tensor<?x?x2xf32>/%g_gamma: tensor<2xf32>/' -e 's/g(%g : tensor<?x?x2xf32>)/g_gamma(%g_gamma : tensor<2xf32>)/' %s >%t.gamma.mlir
// RUN: %{run} B=2,T=135 %t.gamma.mlir

// TILES: scf.for
// TILES: tile.dot
// TILES: tile.convert {{.*}} to <swizzled> : vector<64x64xbf16>
// TILES: tile.dot
// TILES-NEXT: tile.store
// TILES: tile.dot
// TILES: tile.take
// TILES-NEXT: tile.acquire
// TILES-NEXT: tile.fill
// TILES-NEXT: tile.dot
// TILES: tile.convert {{.*}} to <swizzled> : vector<64x128xbf16>
// TILES-NEXT: scf.yield
// TILES: tile.store

// One lane of the first warp and all of the last arrive where a stage is full; 8 warps where empty.
// CHECK-LABEL: gpu.func @f_blocks0(
// CHECK-DAG: %[[FULL:.*]] = arith.constant 33 : i32
// CHECK-DAG: %[[EMPTY:.*]] = arith.constant 8 : i32
// CHECK: nvvm.mbarrier.init %{{.*}}, %[[FULL]]
// CHECK: nvvm.mbarrier.init %{{.*}}, %[[EMPTY]]
// CHECK: scf.for %[[I:[a-z0-9]*]] =
// CHECK: %[[ODD:.*]] = arith.andi %[[I]], %c1_i32
// CHECK: arith.xori %[[ODD]], %c1_i32
// CHECK-NOT: gpu.barrier
// CHECK: nvvm.stmatrix
// CHECK-NOT: gpu.barrier
// CHECK: nvvm.cp.async.bulk.wait_group 0 {read}
// CHECK: gpu.barrier
// CHECK-NOT: gpu.barrier
// CHECK: nvvm.cp.async.bulk.tensor.global.shared.cta
// CHECK-NOT: gpu.barrier
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global
// CHECK-NOT: gpu.barrier
// CHECK: nvvm.cp.async.mbarrier.arrive {{.*}}noinc
// CHECK-NOT: gpu.barrier
// CHECK: nvvm.mbarrier.arrive
// CHECK: scf.yield
// Behind the loop the last one's place follows from how many iterations there were.
// CHECK: gpu.barrier
// CHECK: nvvm.cp.async.bulk.tensor.global.shared.cta
// CHECK: gpu.return

// PTX: cp.async.mbarrier.arrive.noinc.shared.b64
func.func @f(%q: tensor<?x?x2x128xbf16>, %k: tensor<?x?x2x128xbf16>, %v: tensor<?x?x2x128xbf16>,
             %g: tensor<?x?x2xf32>)
    -> (tensor<?x?x2x128xbf16> {ejk.name = "o"}, tensor<?x2x128x128xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x2xf32>)
      : tensor<?x?x2x128xbf16>, tensor<?x?x2x128xbf16>, tensor<?x?x2x128xbf16>
      -> tensor<?x?x2x128xbf16>, tensor<?x2x128x128xf32>
  return %o, %ht : tensor<?x?x2x128xbf16>, tensor<?x2x128x128xf32>
}
