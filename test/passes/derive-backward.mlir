// RUN: ejk-opt %s --split-input-file --ejk-backward | FileCheck %s
// RUN: ejk-opt %s --split-input-file --ejk-backward=gate-gradients=suffix | FileCheck %s --check-prefix=SUFFIX
// RUN: ejk-opt %s --split-input-file --ejk-backward="wrt=q cotangents=o" | FileCheck %s --check-prefix=WANTED

// A read gives its query's gradient by the other axis of the same state; the adjoint
// walks the other way, read along both axes. The default scale is on either path
// (trap 2), and the adjoint starts from dht even where there is no gate (trap 3).
// CHECK-LABEL: func.func @no_gate_vjp(
// CHECK-SAME:    ejk.name = "do"
// CHECK-SAME:    %[[DHT:arg[0-9]+]]: tensor<?x?x16x8xf32> {ejk.cotangent_of = "ht", ejk.name = "dht"
// CHECK-SAME:    ejk.name = "dq"
// CHECK:         ejk.scan
// CHECK-NOT:     reverse
// CHECK:           %[[SCALE:.*]] = arith.constant dense<2.500000e-01>
// CHECK:           %[[Q:.*]] = ejk.read %{{.*}} along value
// CHECK-NEXT:      arith.mulf %[[Q]], %[[SCALE]]
// CHECK:         ejk.scan reverse
// CHECK:           states(%[[A:.*]] = %[[DHT]] : tensor<?x?x16x8xf32>)
// CHECK:           %[[SCALE:.*]] = arith.constant dense<2.500000e-01>
// CHECK:           %[[SQ:.*]] = arith.mulf %{{.*}}, %[[SCALE]]
// CHECK:           %[[A1:.*]] = ejk.outer_add %[[A]], %[[SQ]], %{{.*}}
// CHECK:           ejk.read %[[A1]], %{{.*}} along value
// CHECK:           ejk.read %[[A1]], %{{.*}} along key
// CHECK-NOT:       ejk.decay
// CHECK:           ejk.yield states(%[[A1]]

// What is not asked for leaves no trace: one scan, no adjoint.
// WANTED-LABEL: func.func @no_gate_vjp(
// WANTED-NOT:     "dht"
// WANTED-NOT:     "dk"
// WANTED:         ejk.scan
// WANTED-NOT:     ejk.scan
// WANTED:         return
func.func @no_gate(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>, tensor<?x?x16x8xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>, tensor<?x?x?x8xf32>
      -> tensor<?x?x?x8xf32>, tensor<?x?x16x8xf32>
  return %o, %ht : tensor<?x?x?x8xf32>, tensor<?x?x16x8xf32>
}

// -----

// A gate's gradient is a sum over the rest of the walk, carried from Σ ht ⊙ dht of
// its own sequence (trap 4) and turned with the boundaries (trap 5).
// CHECK-LABEL: func.func @gate_vjp(
// CHECK:         %[[F:.*]]:2, %{{.*}}, %[[SAVED:.*]] = ejk.scan reverse save_every 64 cu_seqlens(
// CHECK:           %[[D:.*]] = ejk.decay
// CHECK:           %[[Q:.*]] = ejk.read %[[D]], %{{.*}} along value
// CHECK:           ejk.cancelling_pair %{{.*}}, %[[Q]]
// CHECK:           ejk.sum
// CHECK:           saves(%[[D]] :
// CHECK:         ejk.scan save_every 64 cu_seqlens(
// CHECK-SAME:    {{$}}
// CHECK:           %[[QQ:arg[0-9]+]] = %[[F]]#0
// CHECK:           saved(%[[CELL:arg[0-9]+]] = %[[SAVED]]
// CHECK:           states(%[[A:arg[0-9]+]] = {{.*}}, %[[M:arg[0-9]+]] = zero
// CHECK:           %[[KBAR:.*]] = ejk.read %[[A]], %{{.*}} along value
// CHECK:           %[[KK:.*]] = ejk.cancelling_pair %{{.*}}, %[[KBAR]]
// CHECK:           %[[M0:.*]] = arith.subf %[[M]], %[[KK]]
// CHECK:           %[[M1:.*]] = ejk.checkpoint %[[M0]], %[[A]] with %[[CELL]] along value
// CHECK:           %[[M2:.*]] = arith.addf %[[M1]], %[[QQ]]
// CHECK:           ejk.decay %{{.*}} along key
// CHECK:           ejk.yield states(%{{.*}}, %[[M2]] :

// The plain suffix sum starts from what the sequence ends with, and saves nothing.
// SUFFIX-LABEL: func.func @gate_vjp(
// SUFFIX:         ejk.scan reverse cu_seqlens(
// SUFFIX:         %[[END:.*]] = linalg.generic
// SUFFIX:         ejk.scan cu_seqlens(
// SUFFIX:           %[[M:arg[0-9]+]] = %[[END]] : tensor<?x?x16xf32>
// SUFFIX-NOT:       ejk.checkpoint
// SUFFIX:           ejk.yield
// Shared heads are summed in f32 and rounded once (trap 6, trap 7).
// CHECK:         ejk.sum_heads {{.*}} along 2 {{.*}} tensor<?x?x?x16xf32>, tensor<?x?x?x16xbf16> -> tensor<?x?x?x16xbf16>

// WANTED-LABEL: func.func @gate_vjp(
func.func @gate(%q: tensor<?x?x?x16xbf16>, %k: tensor<?x?x?x16xbf16>, %v: tensor<?x?x?x8xbf16>,
                %gk: tensor<?x?x?x16xf32>, %cu: tensor<?xi32>)
    -> (tensor<?x?x?x8xbf16> {ejk.name = "o"}, tensor<?x?x16x8xf32>) {
  %o, %ht = ejk.recurrent reverse %q, %k, %v gk(%gk : tensor<?x?x?x16xf32>)
      cu_seqlens(%cu : tensor<?xi32>)
      : tensor<?x?x?x16xbf16>, tensor<?x?x?x16xbf16>, tensor<?x?x?x8xbf16>
      -> tensor<?x?x?x8xbf16>, tensor<?x?x16x8xf32>
  return %o, %ht : tensor<?x?x?x8xbf16>, tensor<?x?x16x8xf32>
}

// -----

// A parameter's gradient adds up in a state of its own (trap 9), per channel as long
// as it can.
// CHECK-LABEL: func.func @gamma_vjp(
// CHECK:         ejk.scan reverse save_every 16
// CHECK:           %[[TOTAL:arg[0-9]+]] = zero : tensor<?x?x16xf32>) ->
// CHECK:           %[[NEXT:.*]] = arith.addf %[[TOTAL]], %{{.*}} : vector<16xf32>
// CHECK:           ejk.yield states({{.*}}%[[NEXT]]
// CHECK-NOT:     ejk.scan
// CHECK:         ejk.sum_heads {{.*}} along 0

// WANTED-LABEL: func.func @gamma_vjp(
func.func @gamma(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x8xf32>,
                 %gamma: tensor<?xf32>) -> (tensor<?x?x?x8xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v g_gamma(%gamma : tensor<?xf32>)
      : tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>, tensor<?x?x?x8xf32>
      -> tensor<?x?x?x8xf32>, tensor<?x?x16x8xf32>
  return %o : tensor<?x?x?x8xf32>
}
