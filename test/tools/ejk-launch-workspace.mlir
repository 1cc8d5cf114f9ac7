// What passes between two kernels is workspace, some of whose sizes only another
// tensor's type tells: B is 2, since the final state's is.
// RUN: ejk-compile %s --cubin=never -o %t.ejk
// RUN: ejk-launch %t.ejk --info | FileCheck %s
// CHECK: output ht: f32 [2, H, 4, 4]
// CHECK: workspace tmp0: {{.*}}T{{.*}} bytes
// CHECK: kernel layers_scan0: {{.*}} arguments ({{.*}}, v, tmp0,
// CHECK: kernel layers_scan1: {{.*}} arguments ({{.*}}, tmp0, ht,
func.func @layers(%q: tensor<?x?x?x4xf32>, %k: tensor<?x?x?x4xf32>, %v: tensor<?x?x?x4xf32>)
    -> tensor<2x?x4x4xf32> {
  %o, %state = ejk.recurrent %q, %k, %v
      : tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>
      -> tensor<?x?x?x4xf32>, tensor<?x?x4x4xf32>
  %o2, %ht = ejk.recurrent %q, %k, %o
      : tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>
      -> tensor<?x?x?x4xf32>, tensor<2x?x4x4xf32>
  return %ht : tensor<2x?x4x4xf32>
}
