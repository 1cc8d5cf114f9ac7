// A scan and a block program in one place: T decides which of the two is launched, and both
// write the same result.
// RUN: ejk-compile --arch=sm_90 %s --schedule=chunk --by-gates=never --emit=gpu | FileCheck %s
// RUN: ejk-compile --schedule=step --arch=sm_90 %s --emit=gpu | FileCheck %s --check-prefix=STEP
// RUN: ejk-compile --arch=sm_90 %s --schedule=chunk --by-gates=never --cubin=never -o %t.ejk
// RUN: ejk-launch %t.ejk --info | FileCheck %s --check-prefix=INFO
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --schedule=auto --device=cuda --random B=2,T=1,H=2,Hkv=1 --check --in-place
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --schedule=auto --device=cuda --random B=2,T=70,H=2,Hkv=1 --check --in-place

// CHECK-LABEL: func.func @gla
// CHECK: %[[T:.*]] = memref.dim %arg0, %c1
// CHECK: %[[ONE:.*]] = arith.cmpi eq, %[[T]], %c1
// CHECK: scf.if %[[ONE]] {
// CHECK-NEXT: gpu.launch_func @kernels::@gla_scan0_one blocks in
// CHECK: arith.cmpi ne, %[[T]], %c1
// CHECK: gpu.launch_func @kernels::@gla_blocks0 blocks in
// CHECK-NOT: gpu.launch_func

// STEP: gpu.launch_func @kernels::@gla_scan0_one
// STEP: gpu.launch_func @kernels::@gla_scan0 blocks

// INFO: output ht: f32 [B, H, 64, 32], aligned to 16, may replace h0
// INFO: kernel gla_scan0_one: if T = 1, grid H * B,
// INFO: kernel gla_blocks0: if T != 1, grid H * B,

// As alternatives, T decides by itself, and the state's place may still be taken.
// RUN: ejk-compile --arch=sm_90 %s --cubin=never -o %t.auto.ejk
// RUN: ejk-launch %t.auto.ejk --info | FileCheck %s --check-prefix=AUTO
// AUTO: output ht: f32 [B, H, 64, 32], aligned to 16, may replace h0
// AUTO: schedule chunk-by-gates, if (T >= 16) and (((B * T) * H) >= 524288)
// AUTO: schedule chunk, if T >= 16{{$}}
// AUTO-NEXT: kernel gla_split2_blocks3: grid H * B,
// AUTO: schedule step
// AUTO-NEXT: kernel gla_step_scan0_one: if T = 1,
// AUTO-NEXT: kernel gla_step_scan0: if T != 1,
// AUTO-NOT: kernel
func.func @gla(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x32xbf16>,
               %g: tensor<?x?x?x64xf32>, %h0: tensor<?x?x64x32xf32>)
    -> (tensor<?x?x?x32xbf16> {ejk.name = "o"}, tensor<?x?x64x32xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x?x64xf32>)
      initial_state(%h0 : tensor<?x?x64x32xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x32xbf16>
      -> tensor<?x?x?x32xbf16>, tensor<?x?x64x32xf32>
  return %o, %ht : tensor<?x?x?x32xbf16>, tensor<?x?x64x32xf32>
}
