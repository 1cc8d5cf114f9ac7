// Rows that threads scale come as TMA tiles where warpgroups compute matmuls: one lane issues the copies.
// RUN: ejk-opt %s --ejk-specialize "--ejk-to-gpu=arch=sm_90a schedule=chunk by-gates=never" | FileCheck %s
// RUN: ejk-opt %s --ejk-specialize "--ejk-to-gpu=arch=sm_90a schedule=chunk warp-specialize" | FileCheck %s --check-prefix=COPIES
// RUN: ejk-opt %s --ejk-specialize "--ejk-to-gpu=arch=sm_90 schedule=chunk by-gates=never" | FileCheck %s --check-prefix=COPIES
// RUN: ejk-compile %s --schedule=chunk --by-gates=never --arch=sm_90a --cubin=never -o %t.ejk
// RUN: ejk-launch %t.ejk --info | FileCheck %s --check-prefix=INFO
// RUN: ejk-compile %s --schedule=chunk --by-gates=never --arch=sm_90a --emit=ptx -o - | FileCheck %s --check-prefix=PTX
//
// Sequences of whole chunks, with a ragged end, and of less than a chunk; and no rows of another
// sequence in those that are packed.
// DEFINE: %{run} = env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --schedule=chunk --arch=sm_90a --device=cuda --check
// RUN: %{run} --random B=2,T=128
// RUN: %{run} --random B=2,T=135
// RUN: %{run} --random B=3,T=5
// RUN: %{run} --random B=0,T=5
// RUN: %{run} --random B=1,T=70 --vjp --save-states
// RUN: sed -e 's/recurrent %q/recurrent reverse %q/' %s >%t.reverse.mlir
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %t.reverse.mlir --schedule=chunk --arch=sm_90a --device=cuda --check --random B=2,T=135
// RUN: sed -e 's/tensor<?x?x2/tensor<1x?x2/g' -e 's/%gk: tensor<1x?x2x64xbf16>/&, %cu_seqlens: tensor<?xi32>/' -e 's/gk(%gk : tensor<1x?x2x64xbf16>)/& cu_seqlens(%cu_seqlens : tensor<?xi32>)/' %s >%t.packed.mlir
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %t.packed.mlir --schedule=chunk --arch=sm_90a --device=cuda --check --random T=300,N=4

// One mbarrier for what has come and one for what may come, of each stage.
// CHECK-LABEL: gpu.func @f_blocks0(
// CHECK-SAME: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<128 x i8>}
// CHECK-NOT: cp.async.shared
// CHECK: nvvm.mbarrier.init
// CHECK: nvvm.fence.mbarrier.init
// CHECK: scf.for
// CHECK: nvvm.mbarrier.try_wait
// CHECK: nvvm.elect.sync
// CHECK: nvvm.mbarrier.arrive.expect_tx
// CHECK-COUNT-4: nvvm.cp.async.bulk.tensor.shared.cluster.global{{.*}}box[%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}]
// CHECK-NOT: nvvm.cp.async.bulk.tensor.shared
// CHECK: nvvm.mbarrier.arrive
// CHECK: gpu.return
// CHECK-LABEL: func.func @f(
// CHECK: memref.reinterpret_cast %{{.*}} to offset: [0], sizes: [%{{.*}}, 2, %{{.*}}, 64], strides: [%{{.*}}, 64, 128, 1]
// CHECK: nvgpu.tma.create.descriptor {{.*}} -> <tensor = memref<1x1x64x64xbf16, 3>, swizzle = swizzle_128b, l2promo = l2promo_256b, oob = zero, interleave = none

// Where some of a packed sequence's rows are the next one's, all threads copy.
// RUN: ejk-opt %t.packed.mlir --ejk-specialize "--ejk-to-gpu=arch=sm_90a schedule=chunk by-gates=never" | FileCheck %s --check-prefix=PACKED
// PACKED-LABEL: gpu.func @f_blocks0(
// PACKED: scf.if
// PACKED: nvvm.cp.async.shared.global
// PACKED: gpu.barrier
// PACKED: nvvm.elect.sync
// PACKED: nvvm.cp.async.bulk.tensor.shared.cluster.global

// COPIES-NOT: cp.async.bulk
// COPIES-NOT: tma.create.descriptor

// INFO: kernel f_blocks0: {{.*}} map of gk as bf16 [B, 2, T, 64] by [{{.*}}, 64, 128] in boxes of [1, 1, 64, 64]

// PTX: .param .align 64 .b8 f_blocks0_param_{{[0-9]+}}[128]
// PTX: cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
func.func @f(%q: tensor<?x?x2x64xbf16>, %k: tensor<?x?x2x64xbf16>, %v: tensor<?x?x2x64xbf16>,
             %gk: tensor<?x?x2x64xbf16>)
    -> (tensor<?x?x2x64xbf16> {ejk.name = "o"}, tensor<?x2x64x64xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x2x64xbf16>)
      : tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>
      -> tensor<?x?x2x64xbf16>, tensor<?x2x64x64xf32>
  return %o, %ht : tensor<?x?x2x64xbf16>, tensor<?x2x64x64xf32>
}
