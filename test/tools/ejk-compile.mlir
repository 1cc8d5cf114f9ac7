// RUN: ejk-compile %s --emit=scan | FileCheck %s --check-prefix=SCAN
// RUN: ejk-compile %s --emit=tile --schedule=chunk | FileCheck %s --check-prefix=TILE
// RUN: ejk-compile %s --emit=plan --schedule=chunk | FileCheck %s --check-prefix=PLAN
// RUN: ejk-compile %s --schedule=step --arch=sm_90 --emit=gpu | FileCheck %s --check-prefix=GPU
// RUN: ejk-compile %s --schedule=step --arch=sm_90 --emit=nvvm | FileCheck %s --check-prefix=NVVM
// RUN: ejk-compile %s --schedule=step --arch=sm_90 --emit=llvm | FileCheck %s --check-prefix=LLVM
// RUN: ejk-compile %s --schedule=step --emit=ptx --arch=sm_80 | FileCheck %s --check-prefix=PTX
// RUN: ejk-compile %s --schedule=step --emit=ptx | FileCheck %s --check-prefix=LATEST
// RUN: ejk-compile %s --schedule=step --arch=sm_90 --cubin=never -o %t.ejk
// RUN: ejk-launch %t.ejk --info | FileCheck %s --check-prefix=INFO
// RUN: ejk-compile - --cubin=never --arch=sm_90a < %s --schedule=step -o %t.a.ejk
// RUN: ejk-launch %t.a.ejk --info | FileCheck %s --check-prefix=ONLY

// SCAN: ejk.scan
// TILE-NOT: tile.layouts
// TILE: tile.program
// TILE-NOT: tile.layouts
// PLAN: tile.program
// PLAN: tile.make_ring
// PLAN: tile.dot {{.*}} {tile.layouts = [#tile.layout<fragments
// GPU: gpu.launch_func @kernels::@gla_scan0_one
// NVVM: llvm.func @gla_scan0_one({{.*}}nvvm.kernel
// LLVM: target triple = "nvptx64-nvidia-cuda"
// LLVM: define {{.*}}ptx_kernel void @gla_scan0_one(
// What is printed without an architecture is for the last one that a package has.
// LATEST: .target sm_90a
// PTX: .target sm_80
// PTX: .entry gla_scan0_one(

// INFO: architecture: sm_90 or later
// INFO-NEXT: image: ptx,
// INFO-NOT: image:
// INFO: entry gla
// INFO-NEXT: input q: bf16 [B, T, H, 64], aligned to 16
// INFO-NEXT: input k: bf16 [B, T, Hkv, 64], aligned to 16, key
// INFO-NEXT: input v: bf16 [B, T, Hkv, 32], aligned to 16
// INFO-NEXT: input g: f32 [B, T, H, 64], aligned to 16, log_decay
// INFO-NEXT: input h0: f32 [B, H, 64, 32], aligned to 16
// INFO-NEXT: output o: bf16 [B, T, H, 32], aligned to 16
// INFO-NEXT: output ht: f32 [B, H, 64, 32], aligned to 16, may replace h0
// INFO: requires mod(H, (Hkv + ((H + 1) * max((1 - Hkv), 0)))) = 0
// INFO: kernel gla_scan0_one: if T = 1, grid
// INFO: kernel gla_scan0: if T != 1, grid
// ONLY: architecture: sm_90a only
func.func @gla(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x32xbf16>,
               %g: tensor<?x?x?x64xf32>, %h0: tensor<?x?x64x32xf32>)
    -> (tensor<?x?x?x32xbf16>, tensor<?x?x64x32xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x?x64xf32>)
      initial_state(%h0 : tensor<?x?x64x32xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x32xbf16>
      -> tensor<?x?x?x32xbf16>, tensor<?x?x64x32xf32>
  return %o, %ht : tensor<?x?x?x32xbf16>, tensor<?x?x64x32xf32>
}
