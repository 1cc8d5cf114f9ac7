// RUN: ejk-opt %s --split-input-file --verify-diagnostics --ejk-specialize --ejk-plan-memory=arch=sm_90 --ejk-lower-to-gpu=arch=sm_90
// RUN: not ejk-opt %s --split-input-file --ejk-specialize --ejk-plan-memory=arch=sm_80 --ejk-lower-to-gpu=arch=sm_80 2>&1 | FileCheck %s
// Roles that kernels cannot have.
// CHECK: error: partitions need sm_90 or newer, not sm_80

func.func @registers(%g: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%g : tensor<?x?x?xf32>) outputs(tensor<?x?x?xf32>)
      attributes {tile.warps = 4} {
  ^bb0(%gr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    tile.warp_specialize {
      // expected-error @below {{a partition's own registers need sm_90a or the like, not sm_90}}
      tile.partition "a" warps 4 registers 40 {
        %zero = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<0.0> : vector<64xf32>
        %x = tile.convert %zero to <lanes> : vector<64xf32>
        tile.store %x, %or[%head, %head] : vector<64xf32>, !tile.rows<f32>
      }
    }
    tile.end
  }
  return %o : tensor<?x?x?xf32>
}

// -----

func.func @other_warps(%g: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%g : tensor<?x?x?xf32>) outputs(tensor<?x?x?xf32>)
      attributes {tile.warps = 4} {
  ^bb0(%gr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    tile.warp_specialize {
      // expected-error @below {{works on tiles that are laid out for 4 warps, but has 8}}
      tile.partition "a" warps 8 {
        %zero = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<0.0> : vector<64xf32>
        %x = tile.convert %zero to <lanes> : vector<64xf32>
        tile.store %x, %or[%head, %head] : vector<64xf32>, !tile.rows<f32>
      }
    }
    tile.end
  }
  return %o : tensor<?x?x?xf32>
}

// -----

func.func @too_many(%g: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%g : tensor<?x?x?xf32>) outputs(tensor<?x?x?xf32>)
      attributes {tile.warps = 4} {
  ^bb0(%gr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %ring = tile.make_ring : !tile.ring<2 of vector<64xf32>>
    // expected-error @below {{a block has at most 15 partitions and 32 warps, but these are 2 and 34}}
    tile.warp_specialize {
      tile.partition "a" warps 17 {
        tile.acquire %ring[%head] : !tile.ring<2 of vector<64xf32>>
      }
      tile.partition "b" warps 17 {
        tile.release %ring[%head] : !tile.ring<2 of vector<64xf32>>
      }
    }
    tile.end
  }
  return %o : tensor<?x?x?xf32>
}
