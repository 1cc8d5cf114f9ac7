// Forward and fused derivative with gates per key channel by chunks, MLIR text to PTX, in seconds of processor time: the longest
// of the kernels that the performance page lists. The bound is for a slower machine.
// RUN: %python %S/Inputs/timed.py 20 ejk-compile %s --vjp --schedule=chunk --arch=sm_90a --cubin=never -o %t.ejk
// RUN: ejk-launch %t.ejk --info | FileCheck %s
// CHECK: architecture: sm_90a only
// CHECK: entry gla
// CHECK-DAG: entry gla_fwd
// CHECK-DAG: entry gla_vjp
func.func @gla(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>,
               %gk: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x?x128xbf16>)
      : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>
      -> tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
  return %o : tensor<?x?x?x128xbf16>
}
