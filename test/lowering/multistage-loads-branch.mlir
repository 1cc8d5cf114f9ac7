// With one stage for all: what a branch alone uses, v, do and the saved state, is awaited in
// front of it, and the next chunk's copied when the last product that reads them is done. What only
// steps use in it, q, k and their gates, makes room where products are taken, and is copied for
// the next chunk meanwhile.
// RUN: ejk-opt %S/tile/Inputs/key-gate-128.mlir --ejk-backward \
// RUN:   --ejk-to-gpu='arch=sm_90a schedule=chunk save-states' \
// RUN:   --mlir-print-ir-after=ejk-select-stages -o /dev/null 2>&1 | FileCheck %s

// CHECK-LABEL: func.func @key_gate_vjp(
// CHECK:         %[[FIRST:.*]] = tile.make_ring : <1 of vector<64x128xbf16>, vector<64x128xbf16>, vector<64x128xbf16>>
// CHECK:         %[[LATE:.*]] = tile.make_ring : <1 of vector<64x128xbf16>, vector<64x128xbf16>, vector<128x128xbf16>>
// CHECK:         scf.for
// CHECK:           tile.take %[[FIRST]]
// CHECK:           tile.range_guard
// CHECK-NEXT:      tile.take %[[LATE]]
// CHECK-NEXT:      tile.guarded
// CHECK:             tile.release %[[FIRST]]
// CHECK:             tile.fill %[[FIRST]]
// CHECK:             %[[DV:.*]] = tile.dot %{{.*}} transposed, %{{.*}}, %{{.*}}<fragments over 4 by 2>{{.*}} : vector<64x64xbf16>, vector<64x128xbf16>, vector<64x128xf32>
// CHECK:             arith.mulf %[[DV]]
// CHECK:             tile.release %[[LATE]]
// CHECK:             tile.fill %[[LATE]]
// CHECK:           } exact {
// CHECK:             tile.release %[[FIRST]]
// CHECK:             tile.fill %[[FIRST]]
// CHECK:             tile.release %[[LATE]]
// CHECK:             tile.fill %[[LATE]]
// CHECK-NEXT:        tile.yield
