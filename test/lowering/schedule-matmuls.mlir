// RUN: ejk-opt %s --ejk-specialize --ejk-to-tile --ejk-assign-tile-layouts=arch=sm_90a --ejk-schedule-matmuls \
// RUN:   | FileCheck %s
// RUN: ejk-opt %s --ejk-specialize --ejk-to-tile --ejk-assign-tile-layouts --ejk-schedule-matmuls \
// RUN:   | FileCheck %s --check-prefix=PLAIN

// The state is rounded first, then q·kᵀ, on which most depends; the state's own
// product comes last, behind what the chunk's result is made of.
// CHECK-LABEL: func.func @head_gate
// CHECK: scf.for {{.*}} iter_args(%[[S:.*]] =
// CHECK: arith.truncf %[[S]] {{.*}}transposed_fragments over 8 by 1
// CHECK-NEXT: %[[P:.*]] = tile.dot %{{.*}}, %{{.*}} transposed, %{{.*}}fragments over 4 by 2
// CHECK: tile.dot %{{.*}}transposed_fragments over 8 by 1
// CHECK: %[[W:.*]] = tile.convert %{{.*}} to <swizzled> : vector<64x64xbf16>
// CHECK: tile.dot %[[W]],
// CHECK: tile.dot %{{.*}} transposed, %{{.*}}vector<128x128xf32>
// CHECK: tile.store

// Products that are taken where they stand keep their places: the gates' sums first.
// PLAIN-LABEL: func.func @head_gate
// PLAIN: tile.dot {{.*}}vector<128x128xbf16>
// PLAIN: tile.dot %{{.*}} transposed, %{{.*}}vector<64x64xf32>
func.func @head_gate(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                     %v: tensor<?x?x?x128xbf16>, %g: tensor<?x?x?xf32>) -> tensor<?x?x?x128xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x?xf32>)
      : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>
      -> tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
  return %o : tensor<?x?x?x128xbf16>
}

// The gate's gradient is made of vectors alone: behind the last product, of the sums there.
// RUN: ejk-opt %s --ejk-backward=function=head_gate --ejk-select-schedule=arch=sm_90a --canonicalize --cse --ejk-assign-tile-layouts=arch=sm_90a --ejk-schedule-matmuls \
// RUN:   | FileCheck %s --check-prefix=VECTORS
// VECTORS-LABEL: func.func @head_gate_vjp
// VECTORS: tile.program {{.*}} saved(
// VECTORS-COUNT-9: tile.dot
// VECTORS-NOT: tile.dot
// VECTORS: %[[M:.*]] = tile.cumsum reverse %{{.*}} {{.*}}lanes{{.*}} : vector<64xf32>
// VECTORS: %[[DG:.*]] = arith.addf %{{.*}}, %[[M]] {{.*}}lanes
// VECTORS-NEXT: %[[EFFECT:.*]] = arith.select %{{.*}}, %{{.*}}, %[[DG]]
// VECTORS-NEXT: %[[ROWS:.*]] = tile.window %[[EFFECT]]
// VECTORS-NEXT: tile.store %[[ROWS]],
// VECTORS-NEXT: tile.store {{.*}} vector<64x128xf32>
// VECTORS: scf.yield
