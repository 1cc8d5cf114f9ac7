// Gates per channel in f32, of 128 channels: with a stage for them, one program for all gradients
// needs more shared memory than there is. They are loaded where they are used, and it fits.
// RUN: ejk-compile %s --vjp --save-states --schedule=chunk --arch=sm_90a --emit=gpu -o %t.gpu.mlir 2>&1 | FileCheck %s --check-prefix=QUIET --allow-empty
// RUN: FileCheck %s --check-prefix=FITS < %t.gpu.mlir
// QUIET-NOT: remark
// FITS: func.func @f_fwd(
//
// Where a thread block has less, the remark says how much it needs, and what helps.
// RUN: ejk-compile %s --vjp --save-states --schedule=chunk --arch=sm_80 --emit=gpu -o /dev/null 2>&1 | FileCheck %s
// CHECK: remark: 'f_vjp' takes no saved states: programs that take them have chunks of 64 steps, which do not fit: it needs {{[0-9]+}} bytes of shared memory, of 166912 that a thread block of sm_80 has; heads of fewer channels need less
func.func @f(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>, %g: tensor<?x?x?x128xf32>) -> tensor<?x?x?x128xbf16> {
  %o, %ht = ejk.gla %q, %k, %v g(%g : tensor<?x?x?x128xf32>) : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16> -> tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
  return %o : tensor<?x?x?x128xbf16>
}
