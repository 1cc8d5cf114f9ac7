// Buffers between kernels share a workspace. The second of four kernels reads the first buffer and
// writes the second, so these stay apart; the third buffer lies where the first was.
// RUN: ejk-compile %s --schedule=step --arch=sm_80 -o %t.ejk
// RUN: ejk-launch %t.ejk --info | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --schedule=step --arch=sm_80 --device cuda --random= --check | FileCheck %s --check-prefix=VALUES

// CHECK: workspace tmp0:
// CHECK-NEXT: workspace tmp1:
// CHECK-NEXT: kernel {{.*}} v, tmp0
// CHECK-NEXT: kernel {{.*}} tmp0, tmp1
// CHECK-NEXT: kernel {{.*}} tmp1, tmp0
// CHECK-NEXT: kernel {{.*}} tmp0, o,
// VALUES: check {{.*}}: pass
func.func @chain(%q: tensor<2x9x4x16xf32>, %k: tensor<2x9x4x16xf32>, %v: tensor<2x9x4x16xf32>) -> tensor<2x9x4x16xf32> {
  %a, %ha = ejk.recurrent %q, %k, %v
      : tensor<2x9x4x16xf32>, tensor<2x9x4x16xf32>, tensor<2x9x4x16xf32>
      -> tensor<2x9x4x16xf32>, tensor<2x4x16x16xf32>
  %b, %hb = ejk.recurrent %q, %k, %a
      : tensor<2x9x4x16xf32>, tensor<2x9x4x16xf32>, tensor<2x9x4x16xf32>
      -> tensor<2x9x4x16xf32>, tensor<2x4x16x16xf32>
  %c, %hc = ejk.recurrent %q, %k, %b
      : tensor<2x9x4x16xf32>, tensor<2x9x4x16xf32>, tensor<2x9x4x16xf32>
      -> tensor<2x9x4x16xf32>, tensor<2x4x16x16xf32>
  %d, %hd = ejk.recurrent %q, %k, %c
      : tensor<2x9x4x16xf32>, tensor<2x9x4x16xf32>, tensor<2x9x4x16xf32>
      -> tensor<2x9x4x16xf32>, tensor<2x4x16x16xf32>
  return %d : tensor<2x9x4x16xf32>
}
