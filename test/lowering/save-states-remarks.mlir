// Gates per channel in f32, of 128 channels: one program for all gradients needs more shared memory
// than there is, and the remark says how much, and what helps. In bf16 it fits.
// RUN: ejk-compile %s --vjp --save-states --schedule=chunk --arch=sm_90a --emit=gpu -o /dev/null 2>&1 | FileCheck %s
// RUN: sed 's/%g\( \?\): tensor<?x?x?x128xf32>/%g\1: tensor<?x?x?x128xbf16>/g' %s > %t.mlir
// RUN: ejk-compile %t.mlir --vjp --save-states --schedule=chunk --arch=sm_90a --emit=gpu | FileCheck %s --check-prefix=NARROW
// CHECK: remark: 'f_vjp' takes no saved states: one program for all of its gradients does not fit: it needs {{[0-9]+}} bytes of shared memory, of 232448 that a thread block of sm_90a has; gates per channel in bf16 or f16 take half of the bytes of f32 ones
// NARROW: func.func @f_fwd(
func.func @f(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>, %g: tensor<?x?x?x128xf32>) -> tensor<?x?x?x128xbf16> {
  %o, %ht = ejk.gla %q, %k, %v g(%g : tensor<?x?x?x128xf32>) : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16> -> tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
  return %o : tensor<?x?x?x128xbf16>
}
