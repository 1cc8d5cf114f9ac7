// RUN: ejk-opt %s --ejk-specialize --ejk-plan-memory --ejk-lower-to-gpu | FileCheck %s
// How far a take waits: copies are done in the order in which they were started.

// The item behind the one taken may be under way.
// CHECK-LABEL: gpu.func @in_order_blocks0
// CHECK: nvvm.cp.async.wait.group 1
// CHECK-NEXT: gpu.barrier
func.func @in_order(%g: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%g : tensor<?x?x?xf32>) outputs(tensor<?x?x?xf32>)
      attributes {tile.warps = 4} {
  ^bb0(%gr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %r0 = arith.constant 0 : index
    %r1 = arith.constant 64 : index
    %n = arith.ceildivui %length, %r1 : index
    %ring = tile.make_ring : !tile.ring<3 of vector<64xf32>>
    tile.acquire %ring[%c0] : !tile.ring<3 of vector<64xf32>>
    tile.fill %ring[%c0] from (%gr) at (%r0) channels (%c0) : !tile.ring<3 of vector<64xf32>>, !tile.rows<f32>
    tile.acquire %ring[%c1] : !tile.ring<3 of vector<64xf32>>
    tile.fill %ring[%c1] from (%gr) at (%r1) channels (%c0) : !tile.ring<3 of vector<64xf32>>, !tile.rows<f32>
    scf.for %c = %c0 to %n step %c1 {
      %gt = tile.take %ring[%c] {tile.layouts = [#tile.layout<shared>]} : !tile.ring<3 of vector<64xf32>> -> vector<64xf32>
      %next = arith.addi %c, %c2 : index
      %nextFirst = arith.muli %next, %r1 : index
      tile.acquire %ring[%next] : !tile.ring<3 of vector<64xf32>>
      tile.fill %ring[%next] from (%gr) at (%nextFirst) channels (%c0) : !tile.ring<3 of vector<64xf32>>, !tile.rows<f32>
      %gl = tile.convert %gt to <lanes> : vector<64xf32>
      %first = arith.muli %c, %r1 : index
      tile.store %gl, %or[%first, %c0] : vector<64xf32>, !tile.rows<f32>
      tile.release %ring[%c] : !tile.ring<3 of vector<64xf32>>
    }
    tile.end
  }
  return %o : tensor<?x?x?xf32>
}

// The one taken was started last.
// CHECK-LABEL: gpu.func @out_of_order_blocks0
// CHECK: nvvm.cp.async.wait.group 0
// CHECK-NEXT: gpu.barrier
func.func @out_of_order(%g: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%g : tensor<?x?x?xf32>) outputs(tensor<?x?x?xf32>)
      attributes {tile.warps = 4} {
  ^bb0(%gr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %r0 = arith.constant 0 : index
    %r1 = arith.constant 64 : index
    %n = arith.ceildivui %length, %r1 : index
    %ring = tile.make_ring : !tile.ring<3 of vector<64xf32>>
    tile.acquire %ring[%c1] : !tile.ring<3 of vector<64xf32>>
    tile.fill %ring[%c1] from (%gr) at (%r1) channels (%c0) : !tile.ring<3 of vector<64xf32>>, !tile.rows<f32>
    tile.acquire %ring[%c0] : !tile.ring<3 of vector<64xf32>>
    tile.fill %ring[%c0] from (%gr) at (%r0) channels (%c0) : !tile.ring<3 of vector<64xf32>>, !tile.rows<f32>
    scf.for %c = %c0 to %n step %c1 {
      %gt = tile.take %ring[%c] {tile.layouts = [#tile.layout<shared>]} : !tile.ring<3 of vector<64xf32>> -> vector<64xf32>
      %next = arith.addi %c, %c2 : index
      %nextFirst = arith.muli %next, %r1 : index
      tile.acquire %ring[%next] : !tile.ring<3 of vector<64xf32>>
      tile.fill %ring[%next] from (%gr) at (%nextFirst) channels (%c0) : !tile.ring<3 of vector<64xf32>>, !tile.rows<f32>
      %gl = tile.convert %gt to <lanes> : vector<64xf32>
      %first = arith.muli %c, %r1 : index
      tile.store %gl, %or[%first, %c0] : vector<64xf32>, !tile.rows<f32>
      tile.release %ring[%c] : !tile.ring<3 of vector<64xf32>>
    }
    tile.end
  }
  return %o : tensor<?x?x?xf32>
}
