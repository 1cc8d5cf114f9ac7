// RUN: ejk-opt %s --ejk-interpret
// RUN: ejk-opt %s --ejk-interpret=partition-seed=1
// RUN: ejk-opt %s --ejk-interpret=partition-seed=2
// Rows pass through rings unharmed, in one program and between partitions.

// One chunk ahead, in two stages; what lies beyond the end is filled and not taken.
func.func @ahead() {
  %q = check.random normal seed 1 : tensor<2x70x2x3xf32>
  %g = check.random normal seed 2 : tensor<2x70x2xf32>
  %o:2 = tile.program chunk 16 slices 1
      sequences(%q, %g : tensor<2x70x2x3xf32>, tensor<2x70x2xf32>)
      outputs(tensor<2x70x2x3xf32>, tensor<2x70x2xf32>) {
  ^bb0(%qr: !tile.rows<vector<3xf32>>, %gr: !tile.rows<f32>, %or: !tile.rows<vector<3xf32>>,
       %pr: !tile.rows<f32>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %n = arith.ceildivui %length, %c16 : index
    %ring = tile.make_ring : !tile.ring<2 of vector<16x3xf32>, vector<16xf32>>
    tile.acquire %ring[%c0] : !tile.ring<2 of vector<16x3xf32>, vector<16xf32>>
    tile.fill %ring[%c0] from (%qr, %gr) at (%c0, %c0) channels (%c0, %c0)
        : !tile.ring<2 of vector<16x3xf32>, vector<16xf32>>, !tile.rows<vector<3xf32>>, !tile.rows<f32>
    scf.for %c = %c0 to %n step %c1 {
      %first = arith.muli %c, %c16 : index
      %qt, %gt = tile.take %ring[%c] : !tile.ring<2 of vector<16x3xf32>, vector<16xf32>>
          -> vector<16x3xf32>, vector<16xf32>
      %next = arith.addi %c, %c1 : index
      %nextFirst = arith.muli %next, %c16 : index
      tile.acquire %ring[%next] : !tile.ring<2 of vector<16x3xf32>, vector<16xf32>>
      tile.fill %ring[%next] from (%qr, %gr) at (%nextFirst, %nextFirst) channels (%c0, %c0)
          : !tile.ring<2 of vector<16x3xf32>, vector<16xf32>>, !tile.rows<vector<3xf32>>, !tile.rows<f32>
      tile.store %qt, %or[%first, %c0] : vector<16x3xf32>, !tile.rows<vector<3xf32>>
      tile.store %gt, %pr[%first, %c0] : vector<16xf32>, !tile.rows<f32>
      tile.release %ring[%c] : !tile.ring<2 of vector<16x3xf32>, vector<16xf32>>
    }
    tile.end
  }
  check.expect_equal %o#0, %q : tensor<2x70x2x3xf32>
  check.expect_equal %o#1, %g : tensor<2x70x2xf32>
  return
}

// Two producers and a consumer, on rings of different depth; one item is held while
// the next ones are taken.
func.func @partitions() {
  %q = check.random normal seed 1 : tensor<2x70x2x3xf32>
  %g = check.random normal seed 2 : tensor<2x70x2xf32>
  %o:2 = tile.program chunk 16 slices 1
      sequences(%q, %g : tensor<2x70x2x3xf32>, tensor<2x70x2xf32>)
      outputs(tensor<2x70x2x3xf32>, tensor<2x70x2xf32>) {
  ^bb0(%qr: !tile.rows<vector<3xf32>>, %gr: !tile.rows<f32>, %or: !tile.rows<vector<3xf32>>,
       %pr: !tile.rows<f32>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %n = arith.ceildivui %length, %c16 : index
    %rows = tile.make_ring : !tile.ring<3 of vector<16x3xf32>>
    %gates = tile.make_ring : !tile.ring<1 of vector<16xf32>>
    tile.warp_specialize {
      tile.partition "consumer" warps 4 {
        %kept = tile.take %rows[%c0] : !tile.ring<3 of vector<16x3xf32>> -> vector<16x3xf32>
        scf.for %c = %c1 to %n step %c1 {
          %first = arith.muli %c, %c16 : index
          %qt = tile.take %rows[%c] : !tile.ring<3 of vector<16x3xf32>> -> vector<16x3xf32>
          tile.store %qt, %or[%first, %c0] : vector<16x3xf32>, !tile.rows<vector<3xf32>>
          %last = arith.cmpi eq, %c, %c1 : index
          scf.if %last {
            tile.store %kept, %or[%c0, %c0] : vector<16x3xf32>, !tile.rows<vector<3xf32>>
            tile.release %rows[%c0] : !tile.ring<3 of vector<16x3xf32>>
          }
          tile.release %rows[%c] : !tile.ring<3 of vector<16x3xf32>>
        }
        scf.for %c = %c0 to %n step %c1 {
          %first = arith.muli %c, %c16 : index
          %gt = tile.take %gates[%c] : !tile.ring<1 of vector<16xf32>> -> vector<16xf32>
          tile.store %gt, %pr[%first, %c0] : vector<16xf32>, !tile.rows<f32>
          tile.release %gates[%c] : !tile.ring<1 of vector<16xf32>>
        }
      }
      tile.partition "rows" warps 1 {
        scf.for %c = %c0 to %n step %c1 {
          %first = arith.muli %c, %c16 : index
          tile.acquire %rows[%c] : !tile.ring<3 of vector<16x3xf32>>
          tile.fill %rows[%c] from (%qr) at (%first) channels (%c0)
              : !tile.ring<3 of vector<16x3xf32>>, !tile.rows<vector<3xf32>>
        }
      }
      tile.partition "gates" warps 1 {
        scf.for %c = %c0 to %n step %c1 {
          %first = arith.muli %c, %c16 : index
          tile.acquire %gates[%c] : !tile.ring<1 of vector<16xf32>>
          tile.fill %gates[%c] from (%gr) at (%first) channels (%c0)
              : !tile.ring<1 of vector<16xf32>>, !tile.rows<f32>
        }
      }
    }
    tile.end
  }
  check.expect_equal %o#0, %q : tensor<2x70x2x3xf32>
  check.expect_equal %o#1, %g : tensor<2x70x2xf32>
  return
}

// Two partitions take what a third one puts, in its order.
func.func @put() {
  %q = check.random normal seed 1 : tensor<1x64x1xf32>
  %twice = arith.addf %q, %q : tensor<1x64x1xf32>
  %o:2 = tile.program chunk 16 slices 1 sequences(%q : tensor<1x64x1xf32>)
      outputs(tensor<1x64x1xf32>, tensor<1x64x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>, %pr: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %ring = tile.make_ring : !tile.ring<2 of vector<16xf32>, vector<16xf32>>
    tile.warp_specialize {
      tile.partition "front" warps 1 {
        scf.for %i = %c0 to %c4 step %c1 {
          %first = arith.muli %i, %c16 : index
          %x = tile.load %qr[%first, %c0] : !tile.rows<f32> -> vector<16xf32>
          %y = arith.addf %x, %x : vector<16xf32>
          tile.acquire %ring[%i] : !tile.ring<2 of vector<16xf32>, vector<16xf32>>
          tile.put %ring[%i] of (%x, %y) : !tile.ring<2 of vector<16xf32>, vector<16xf32>>, vector<16xf32>, vector<16xf32>
        }
      }
      tile.partition "one" warps 1 {
        scf.for %i = %c0 to %c4 step %c1 {
          %first = arith.muli %i, %c16 : index
          %x:2 = tile.take %ring[%i] : !tile.ring<2 of vector<16xf32>, vector<16xf32>> -> vector<16xf32>, vector<16xf32>
          tile.store %x#0, %or[%first, %c0] : vector<16xf32>, !tile.rows<f32>
          tile.release %ring[%i] : !tile.ring<2 of vector<16xf32>, vector<16xf32>>
        }
      }
      tile.partition "two" warps 1 {
        scf.for %i = %c0 to %c4 step %c1 {
          %first = arith.muli %i, %c16 : index
          %x:2 = tile.take %ring[%i] : !tile.ring<2 of vector<16xf32>, vector<16xf32>> -> vector<16xf32>, vector<16xf32>
          tile.store %x#1, %pr[%first, %c0] : vector<16xf32>, !tile.rows<f32>
          tile.release %ring[%i] : !tile.ring<2 of vector<16xf32>, vector<16xf32>>
        }
      }
    }
    tile.end
  }
  check.expect_equal %o#0, %q : tensor<1x64x1xf32>
  check.expect_equal %o#1, %twice : tensor<1x64x1xf32>
  return
}
