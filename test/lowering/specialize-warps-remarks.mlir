// RUN: ejk-opt %s --ejk-specialize-warps --verify-diagnostics | FileCheck %s
// Programs whose fills cannot be a partition's of their own.

// CHECK-LABEL: func.func @under_a_branch
// CHECK-NOT: tile.warp_specialize
func.func @under_a_branch() {
  %g = check.random normal seed 2 : tensor<1x16x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%g : tensor<1x16x1xf32>) outputs(tensor<1x16x1xf32>) {
  ^bb0(%gr: !tile.rows<f32>, %pr: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %ring = tile.make_ring : !tile.ring<1 of vector<16xf32>>
    %some = arith.cmpi ne, %length, %c0 : index
    // expected-remark @below {{no partition of its own: a ring is filled under a branch}}
    scf.if %some {
      tile.acquire %ring[%c0] : !tile.ring<1 of vector<16xf32>>
      tile.fill %ring[%c0] from (%gr) at (%c0) channels (%c0) : !tile.ring<1 of vector<16xf32>>, !tile.rows<f32>
      %gt = tile.take %ring[%c0] : !tile.ring<1 of vector<16xf32>> -> vector<16xf32>
      tile.store %gt, %pr[%c0, %c0] : vector<16xf32>, !tile.rows<f32>
    }
    tile.end
  }
  check.expect_equal %o, %g : tensor<1x16x1xf32>
  return
}

// CHECK-LABEL: func.func @from_tiles
// CHECK-NOT: tile.warp_specialize
func.func @from_tiles() {
  %g = check.random zero seed 2 : tensor<1x16x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%g : tensor<1x16x1xf32>) outputs(tensor<1x16x1xf32>) {
  ^bb0(%gr: !tile.rows<f32>, %pr: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %ring = tile.make_ring : !tile.ring<1 of vector<16xf32>>
    %x = tile.load %gr[%c0, %c0] : !tile.rows<f32> -> vector<16xf32>
    %y = vector.extract %x[0] : f32 from vector<16xf32>
    %z = arith.fptosi %y : f32 to i32
    %first = arith.index_cast %z : i32 to index
    tile.acquire %ring[%c0] : !tile.ring<1 of vector<16xf32>>
    // expected-remark @below {{no partition of its own: it needs what is computed of tiles}}
    tile.fill %ring[%c0] from (%gr) at (%first) channels (%c0) : !tile.ring<1 of vector<16xf32>>, !tile.rows<f32>
    %gt = tile.take %ring[%c0] : !tile.ring<1 of vector<16xf32>> -> vector<16xf32>
    tile.store %gt, %pr[%c0, %c0] : vector<16xf32>, !tile.rows<f32>
    tile.end
  }
  check.expect_equal %o, %g : tensor<1x16x1xf32>
  return
}
