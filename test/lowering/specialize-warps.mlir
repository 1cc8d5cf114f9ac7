// RUN: ejk-opt %s --ejk-specialize-warps=producer-warps=2 -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: ejk-opt %s --ejk-interpret -o /dev/null
// RUN: ejk-opt %t.mlir --ejk-interpret -o /dev/null
// RUN: not ejk-opt %s --ejk-specialize-warps=producer-warps=0 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: 'producer-warps' must be positive, but is 0

// Numbers stay in front, fills and what only they need go to the producer; state,
// stores and what is loaded otherwise to the consumer.
// CHECK-LABEL: func.func @separated
func.func @separated() {
  %g = check.random normal seed 2 : tensor<2x70x2xf32>
  %h = check.random zero seed 2 : tensor<2x2xf32>
  %o:2 = tile.program chunk 16 slices 1 sequences(%g : tensor<2x70x2xf32>)
      initial(%h : tensor<2x2xf32>) outputs(tensor<2x70x2xf32>) finals(tensor<2x2xf32>) {
  ^bb0(%gr: !tile.rows<f32>, %hr: !tile.slots<f32>, %pr: !tile.rows<f32>, %fr: !tile.slots<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    // CHECK: %[[N:.*]] = arith.ceildivui
    // CHECK-NEXT: %[[RING:.*]] = tile.make_ring
    // CHECK-NOT: tile.load_slot
    // CHECK: tile.warp_specialize {
    // CHECK: tile.partition "consumer" warps 4 {
    // CHECK-NEXT: %[[S:.*]] = tile.load_slot
    // CHECK-NEXT: scf.for %{{.*}} to %[[N]] step %{{.*}} iter_args(%{{.*}} = %[[S]])
    // CHECK-NOT: arith.addi
    // CHECK-NOT: tile.fill
    // CHECK: tile.take
    // CHECK: tile.release
    // CHECK: tile.store_slot
    // CHECK: tile.partition "producer" warps 2 {
    // CHECK: tile.acquire %[[RING]]
    // CHECK: tile.fill %[[RING]]
    // CHECK: scf.for %[[C:.*]] = %{{.*}} to %[[N]] step %{{[^ ]*}} {
    // CHECK-NEXT: %[[NEXT:.*]] = arith.addi %[[C]]
    // CHECK-NEXT: tile.acquire %[[RING]][%[[NEXT]]]
    // CHECK-NEXT: %[[FIRST:.*]] = arith.muli %[[NEXT]]
    // CHECK-NEXT: tile.fill %[[RING]][%[[NEXT]]] from(%{{.*}}) at(%[[FIRST]])
    // CHECK-NOT: tile.store
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %n = arith.ceildivui %length, %c16 : index
    %s0 = tile.load_slot %hr[%c0] at () : !tile.slots<f32> -> f32
    %ring = tile.make_ring : !tile.ring<2 of vector<16xf32>>
    tile.acquire %ring[%c0] : !tile.ring<2 of vector<16xf32>>
    tile.fill %ring[%c0] from (%gr) at (%c0) channels (%c0) : !tile.ring<2 of vector<16xf32>>, !tile.rows<f32>
    %s = scf.for %c = %c0 to %n step %c1 iter_args(%a = %s0) -> f32 {
      %gt = tile.take %ring[%c] : !tile.ring<2 of vector<16xf32>> -> vector<16xf32>
      %next = arith.addi %c, %c1 : index
      tile.acquire %ring[%next] : !tile.ring<2 of vector<16xf32>>
      %nextFirst = arith.muli %next, %c16 : index
      tile.fill %ring[%next] from (%gr) at (%nextFirst) channels (%c0) : !tile.ring<2 of vector<16xf32>>, !tile.rows<f32>
      %first = arith.muli %c, %c16 : index
      tile.store %gt, %pr[%first, %c0] : vector<16xf32>, !tile.rows<f32>
      tile.release %ring[%c] : !tile.ring<2 of vector<16xf32>>
      scf.yield %a : f32
    }
    tile.store_slot %s, %fr[%c0] at () : f32, !tile.slots<f32>
    tile.end
  }
  check.expect_equal %o#0, %g : tensor<2x70x2xf32>
  check.expect_equal %o#1, %h : tensor<2x2xf32>
  return
}
