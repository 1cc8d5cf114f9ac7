// Recurrences of f32 rows by chunks: only where matmuls of bf16 terms are allowed.
// RUN: ejk-opt %s --ejk-specialize --ejk-select-schedule='f32-matmuls=bf16x6 fuse=false' | FileCheck %s
// RUN: ejk-opt %s --ejk-specialize --ejk-select-schedule='f32-matmuls=bf16x3 fuse=false' | FileCheck %s --check-prefix=THREE
// RUN: ejk-opt %s --ejk-specialize --ejk-select-schedule 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: remark: not chunked: {{.*}} which is f32, {{.*}} or allow f32 matmuls ('f32-matmuls=bf16x6')
// NONE-NOT: tile.program

// Nothing is rounded to 16 bits, and where steps are many, rows enter matmuls as they were loaded.
// CHECK-LABEL: func.func @gamma
// CHECK: tile.program chunk 64
// CHECK-NOT: arith.truncf
// CHECK: tile.dot {{.*}} in bf16x6 : vector<64x64xf32>
// THREE-LABEL: func.func @gamma
// THREE: tile.dot {{.*}} in bf16x3 : vector<64x64xf32>

// Single warps multiply, also where there are matmuls of warpgroups; operands lie in f32 in shared memory.
// RUN: ejk-opt %s --ejk-specialize --ejk-select-schedule='f32-matmuls=bf16x6 arch=sm_90a' --ejk-assign-tile-layouts=arch=sm_90a | FileCheck %s --check-prefix=LAYOUT
// LAYOUT-LABEL: func.func @gamma
// LAYOUT-NOT: warpgroups
// LAYOUT: tile.load {{.*}}#tile.layout<shared>

// Six products of terms for each 16×8×16 block, in loops over blocks of the sum: of two blocks of 16×16
// that q kᵀ, q S, P v and kᵀ v each give a warp, 4 · 2 · 2 · 6.
// RUN: ejk-compile %s --schedule=chunk --arch=sm_90a --emit=ptx --f32-matmuls=bf16x6 | FileCheck %s --check-prefix=PTX
// RUN: ejk-compile %s --schedule=chunk --arch=sm_90a --emit=ptx --f32-matmuls=bf16x3 | FileCheck %s --check-prefix=PTX3
// PTX-LABEL: .entry gamma_blocks0(
// PTX-COUNT-96: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// PTX-NOT: mma.sync
// PTX-NOT: wgmma
// PTX3-LABEL: .entry gamma_blocks0(
// PTX3-COUNT-48: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// PTX3-NOT: mma.sync
func.func @gamma(%q: tensor<?x100x?x64xf32>, %k: tensor<?x100x?x64xf32>, %v: tensor<?x100x?x64xf32>,
                 %g: tensor<?xf32>) -> (tensor<?x100x?x64xf32>, tensor<?x?x64x64xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v g_gamma(%g : tensor<?xf32>)
      : tensor<?x100x?x64xf32>, tensor<?x100x?x64xf32>, tensor<?x100x?x64xf32>
      -> tensor<?x100x?x64xf32>, tensor<?x?x64x64xf32>
  return %o, %ht : tensor<?x100x?x64xf32>, tensor<?x?x64x64xf32>
}
