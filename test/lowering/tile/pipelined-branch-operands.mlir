// Operands of the next chunk's matmuls, and its range guard, are computed in a chunk's branch. The
// chunk's results are stored by TMA after the guard's barrier.
// RUN: ejk-opt %s --ejk-specialize "--ejk-to-gpu=arch=sm_90a schedule=chunk by-gates=never" | FileCheck %s
// RUN: ejk-opt %s --ejk-specialize "--ejk-to-gpu=arch=sm_90a schedule=chunk by-gates=never" -o /dev/null \
// RUN:   --mlir-print-ir-after=ejk-split-exponentials 2>&1 | FileCheck %s --check-prefix=SHARED
// RUN: ejk-compile %s --schedule=chunk --by-gates=never --arch=sm_90a --emit=ptx -o - | FileCheck %s --check-prefix=PTX
//
// Gates times e^x: some chunks take the fast path, and some the exact path. Sequences of whole
// chunks, with a ragged end, of less than a chunk, of none; several packed ones.
// DEFINE: %{run} = env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=chunk --arch=sm_90a --device=cuda --check --random
// RUN: %{run} B=2,T=320 %s
// RUN: %{run} B=1,T=135 %s
// RUN: %{run} B=2,T=5 %s
// RUN: %{run} B=1,T=64 %s --seed=3
// Few rows are taken by steps, so that nothing but results is rounded.
// RUN: %{run} B=3,T=1 %s --tolerance=2e-3
// RUN: %{run} B=3,T=4 %s --tolerance=2e-3
// RUN: %{run} B=0,T=5 %s
// RUN: %{run} B=2,T=0 %s
// RUN: %{run} B=1,T=200 %s --vjp --save-states
// RUN: sed -e 's/recurrent %q/recurrent reverse %q/' %s >%t.reverse.mlir
// RUN: %{run} B=1,T=335 %t.reverse.mlir
// RUN: sed -e 's/tensor<?x?x2/tensor<1x?x2/g' -e 's/ {ejk.name = "x"}/&, %cu_seqlens: tensor<?xi32>/' -e 's/gk(%g : tensor<1x?x2x128xbf16>)/& cu_seqlens(%cu_seqlens : tensor<?xi32>)/' %s >%t.packed.mlir
// RUN: %{run} T=500,N=4 %t.packed.mlir
// RUN: %{run} T=70,N=9 %t.packed.mlir
// RUN: %{run} T=0,N=3 %t.packed.mlir
// RUN: %{run} T=1,N=1 %t.packed.mlir

// A third of the factors' exponentials, which are made beside products, is of multiply-adds.
// SHARED-NOT: tile.polynomial
// SHARED: scf.for
// SHARED: tile.cumsum
// SHARED-COUNT-2: tile.polynomial = 3 : i64
// SHARED-NOT: tile.polynomial

// CHECK-LABEL: gpu.func @f_blocks0(
// What the last product of a chunk reads, the keys' factor, lies in two places by turns.
// CHECK: scf.for %[[I:[a-z0-9]*]] = %c0_i32
// CHECK-NEXT: arith.andi %[[I]], %c1_i32
// CHECK: scf.if
// CHECK: nvvm.barrier
// CHECK: nvvm.cp.async.bulk.tensor.global.shared.cta
// CHECK-NEXT: nvvm.cp.async.bulk.commit.group
// CHECK: nvvm.cp.async.bulk.wait_group 0 {read}

// PTX: bar.red.and.pred
// PTX: bar.red.and.pred
// PTX: cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group
// PTX: cp.async.bulk.wait_group.read
func.func @f(%q: tensor<?x?x2x128xbf16>, %k: tensor<?x?x2x128xbf16>, %v: tensor<?x?x2x128xbf16>,
             %gk: tensor<?x?x2x128xbf16> {ejk.log_decay, ejk.name = "gk"}, %x: tensor<?x?x2x128xbf16> {ejk.name = "x"})
    -> (tensor<?x?x2x128xbf16> {ejk.name = "o"}, tensor<?x2x128x128xf32> {ejk.name = "ht"}) {
  %e = math.exp %x : tensor<?x?x2x128xbf16>
  %g = arith.mulf %gk, %e : tensor<?x?x2x128xbf16>
  %o, %ht = ejk.recurrent %q, %k, %v gk(%g : tensor<?x?x2x128xbf16>)
      : tensor<?x?x2x128xbf16>, tensor<?x?x2x128xbf16>, tensor<?x?x2x128xbf16>
      -> tensor<?x?x2x128xbf16>, tensor<?x2x128x128xf32>
  return %o, %ht : tensor<?x?x2x128xbf16>, tensor<?x2x128x128xf32>
}
