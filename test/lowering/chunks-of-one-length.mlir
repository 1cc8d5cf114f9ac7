// The sums of cancelling pairs that one scan computes and another adds cancel where both round their terms in
// chunks of the same rows, so that they have one length. A scan that shares nothing with them has its own: with wide
// states, 64 rows fit the three and not this one.
// RUN: ejk-opt %s --ejk-backward --ejk-split-reads=above=16384 --ejk-split-sums=above=16384 --ejk-select-schedule=arch=sm_90 2>/dev/null | FileCheck %s

// CHECK-LABEL: func.func @wide_vjp(
// CHECK-COUNT-2: tile.program chunk 64
// CHECK:         tile.program chunk 32
// CHECK:         tile.program chunk 64
// CHECK-NOT: tile.program
func.func @wide(%q: tensor<1x?x8x128xbf16>, %k: tensor<1x?x8x128xbf16>, %v: tensor<1x?x8x256xbf16>,
                %gv: tensor<1x?x8x256xf32>) -> tensor<1x?x8x256xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v gv(%gv : tensor<1x?x8x256xf32>)
      : tensor<1x?x8x128xbf16>, tensor<1x?x8x128xbf16>, tensor<1x?x8x256xbf16>
      -> tensor<1x?x8x256xbf16>, tensor<1x8x128x256xf32>
  return %o : tensor<1x?x8x256xbf16>
}
