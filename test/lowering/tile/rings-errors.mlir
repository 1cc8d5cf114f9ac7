// RUN: ejk-opt %s --split-input-file --verify-diagnostics --ejk-specialize --ejk-assign-tile-layouts --ejk-plan-memory --ejk-lower-to-gpu
// Rings that kernels cannot have.

func.func @not_laid_out(%g: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%g : tensor<?x?x?xf32>) outputs(tensor<?x?x?xf32>) {
  ^bb0(%gr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    // expected-error @below {{tiles are laid out before rows pass through rings}}
    %ring = tile.make_ring : !tile.ring<2 of vector<64xf32>>
    tile.end
  }
  return %o : tensor<?x?x?xf32>
}

// -----

func.func @without_layout(%g: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%g : tensor<?x?x?xf32>) outputs(tensor<?x?x?xf32>)
      attributes {tile.warps = 4} {
  ^bb0(%gr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    // expected-error @below {{makes a tile that has no layout}}
    %gt = tile.load %gr[%head, %head] : !tile.rows<f32> -> vector<64xf32>
    tile.store %gt, %or[%head, %head] : vector<64xf32>, !tile.rows<f32>
    tile.end
  }
  return %o : tensor<?x?x?xf32>
}

// -----

func.func @ring_in_registers(%g: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%g : tensor<?x?x?xf32>) outputs(tensor<?x?x?xf32>)
      attributes {tile.warps = 4} {
  ^bb0(%gr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %ring = tile.make_ring : !tile.ring<2 of vector<64xf32>>
    // expected-error @below {{the tiles of a ring must have one layout each, in shared memory}}
    %gt = tile.take %ring[%head] {tile.layouts = [#tile.layout<lanes>]} : !tile.ring<2 of vector<64xf32>> -> vector<64xf32>
    tile.end
  }
  return %o : tensor<?x?x?xf32>
}

// -----

func.func @narrow(%g: tensor<?x?x?xbf16>) -> tensor<?x?x?xbf16> {
  %o = tile.program chunk 64 slices 1 sequences(%g : tensor<?x?x?xbf16>) outputs(tensor<?x?x?xbf16>)
      attributes {tile.warps = 4} {
  ^bb0(%gr: !tile.rows<bf16>, %or: !tile.rows<bf16>,
       %length: index, %slice: index, %head: index, %heads: index):
    %ring = tile.make_ring : !tile.ring<2 of vector<64xbf16>>
    // expected-error @below {{rows are too narrow, or not aligned, to be copied asynchronously}}
    tile.fill %ring[%head] from (%gr) at (%head) channels (%head) : !tile.ring<2 of vector<64xbf16>>, !tile.rows<bf16>
    tile.end
  }
  return %o : tensor<?x?x?xbf16>
}
