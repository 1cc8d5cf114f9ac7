// RUN: ejk-opt %s --ejk-backward=wrt=q,k,v --ejk-to-tile | FileCheck %s

// Where no gate's gradient is asked for nothing is added up over the sequence: the
// forward and both scans of its derivative become programs.
// CHECK-LABEL: func.func @gla(
// CHECK:         tile.program
// CHECK-LABEL: func.func @gla_vjp(
// CHECK:         tile.program
// CHECK:         tile.program
// CHECK-NOT:     ejk.scan
// CHECK:         return
func.func @gla(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
               %gk: tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x?x64xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o, %ht : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
}
