// One kernel of the largest common head by chunks, MLIR text to package, on one core:
// some 3 s of processor time, most of it ptxas's. The bound is for a slower and busier machine.
// REQUIRES: ptxas
// RUN: env EJK_PTXAS=%ptxas %python %S/Inputs/timed.py 5 ejk-compile %s --schedule=chunk --cubin=always -o %t.ejk
// RUN: ejk-launch %t.ejk --info | FileCheck %s
// CHECK: image: ptx
// CHECK: image: cubin
// CHECK: entry gla
func.func @gla(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>,
               %gk: tensor<?x?x?x128xf32>, %h0: tensor<?x?x128x128xf32>)
    -> (tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x?x128xf32>)
      initial_state(%h0 : tensor<?x?x128x128xf32>)
      : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>
      -> tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
  return %o, %ht : tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
}
