// REQUIRES: ptxas
// RUN: ejk-opt %s --ejk-backward | ejk-compile --schedule=step --arch=sm_90 --emit=ptx -o %t.ptx
// RUN: FileCheck %s < %t.ptx
// RUN: %ptxas -arch=sm_90 -v %t.ptx -o %t.cubin 2>&1 | FileCheck %s --check-prefix=PTXAS
// RUN: ejk-opt %examples/mamba2.mlir --ejk-backward | env EJK_PTXAS=%ptxas ejk-compile --schedule=step --arch=sm_90 --cubin=always -o %t.ejk
// RUN: ejk-opt %examples/gla.mlir --ejk-backward | env EJK_PTXAS=%ptxas ejk-compile --schedule=step --arch=sm_90 --cubin=always -o %t.ejk

// The walk forward reads along value; the walk back is a kernel for each axis, of
// which the first carries the gate's sum. Nothing spills.
// CHECK-DAG: .entry f_vjp_scan0(
// CHECK-DAG: .entry f_vjp_scan1(
// CHECK-DAG: .entry f_vjp_scan2(
// CHECK-NOT: .entry f_vjp_scan3(
// PTXAS-NOT: {{[1-9][0-9]*}} bytes spill
func.func @f(%q: tensor<?x?x4x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<2x?x?x32xbf16>,
             %gk: tensor<?x?x?x64xf32>, %h0: tensor<2x4x64x32xf32>)
    -> (tensor<?x?x?x32xbf16>, tensor<?x?x64x32xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x?x64xf32>)
      initial_state(%h0 : tensor<2x4x64x32xf32>)
      : tensor<?x?x4x64xbf16>, tensor<?x?x?x64xbf16>, tensor<2x?x?x32xbf16>
      -> tensor<?x?x?x32xbf16>, tensor<?x?x64x32xf32>
  return %o, %ht : tensor<?x?x?x32xbf16>, tensor<?x?x64x32xf32>
}
