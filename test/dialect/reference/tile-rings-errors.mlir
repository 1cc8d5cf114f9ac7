// RUN: ejk-opt %s --split-input-file --verify-diagnostics --ejk-interpret
// RUN: ejk-opt %s --split-input-file --verify-diagnostics --ejk-interpret=partition-seed=3
// Planted faults in the use of rings, whatever the order in which partitions run.

// A read before the fill: the copies of the first chunk start behind its use.
func.func @too_early() {
  %q = check.random normal seed 1 : tensor<1x64x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x64x1xf32>) outputs(tensor<1x64x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %ring = tile.make_ring : !tile.ring<2 of vector<16xf32>>
    tile.acquire %ring[%c0] : !tile.ring<2 of vector<16xf32>>
    // expected-error @below {{takes item 0 before it is filled}}
    %x = tile.take %ring[%c0] : !tile.ring<2 of vector<16xf32>> -> vector<16xf32>
    tile.fill %ring[%c0] from (%qr) at (%c0) channels (%c0) : !tile.ring<2 of vector<16xf32>>, !tile.rows<f32>
    tile.end
  }
  check.expect_equal %o, %q : tensor<1x64x1xf32>
  return
}

// -----

// A race: a tile is read when its stage may be filled again.
func.func @released() {
  %q = check.random normal seed 1 : tensor<1x64x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x64x1xf32>) outputs(tensor<1x64x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %ring = tile.make_ring : !tile.ring<2 of vector<16xf32>>
    tile.acquire %ring[%c0] : !tile.ring<2 of vector<16xf32>>
    tile.fill %ring[%c0] from (%qr) at (%c0) channels (%c0) : !tile.ring<2 of vector<16xf32>>, !tile.rows<f32>
    %x = tile.take %ring[%c0] : !tile.ring<2 of vector<16xf32>> -> vector<16xf32>
    tile.release %ring[%c0] : !tile.ring<2 of vector<16xf32>>
    // expected-error @below {{reads a tile of item 0, which was released}}
    tile.store %x, %or[%c0, %c0] : vector<16xf32>, !tile.rows<f32>
    tile.end
  }
  check.expect_equal %o, %q : tensor<1x64x1xf32>
  return
}

// -----

// An item that is held must have been taken.
func.func @not_held() {
  %q = check.random normal seed 1 : tensor<1x64x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x64x1xf32>) outputs(tensor<1x64x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %ring = tile.make_ring : !tile.ring<2 of vector<16xf32>>
    tile.acquire %ring[%c0] : !tile.ring<2 of vector<16xf32>>
    tile.fill %ring[%c0] from (%qr) at (%c0) channels (%c0) : !tile.ring<2 of vector<16xf32>>, !tile.rows<f32>
    // expected-error @below {{item 0 is not held: it is not taken, or released}}
    %x = tile.take held %ring[%c0] : !tile.ring<2 of vector<16xf32>> -> vector<16xf32>
    tile.end
  }
  check.expect_equal %o, %q : tensor<1x64x1xf32>
  return
}

// -----

// … or is handed on then.
func.func @yielded() {
  %q = check.random normal seed 1 : tensor<1x64x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x64x1xf32>) outputs(tensor<1x64x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %ring = tile.make_ring : !tile.ring<2 of vector<16xf32>>
    tile.acquire %ring[%c0] : !tile.ring<2 of vector<16xf32>>
    tile.fill %ring[%c0] from (%qr) at (%c0) channels (%c0) : !tile.ring<2 of vector<16xf32>>, !tile.rows<f32>
    %x = tile.take %ring[%c0] : !tile.ring<2 of vector<16xf32>> -> vector<16xf32>
    %z = arith.constant dense<0.0> : vector<16xf32>
    %y = scf.for %i = %c0 to %c2 step %c1 iter_args(%a = %z) -> vector<16xf32> {
      %first = arith.cmpi eq, %i, %c0 : index
      scf.if %first {
        tile.release %ring[%c0] : !tile.ring<2 of vector<16xf32>>
      }
      // expected-error @below {{reads a tile of item 0, which was released}}
      scf.yield %x : vector<16xf32>
    }
    tile.end
  }
  check.expect_equal %o, %q : tensor<1x64x1xf32>
  return
}

// -----

// A stage is filled while the item in it is in use.
func.func @overwritten() {
  %q = check.random normal seed 1 : tensor<1x64x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x64x1xf32>) outputs(tensor<1x64x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %ring = tile.make_ring : !tile.ring<2 of vector<16xf32>>
    tile.acquire %ring[%c0] : !tile.ring<2 of vector<16xf32>>
    tile.fill %ring[%c0] from (%qr) at (%c0) channels (%c0) : !tile.ring<2 of vector<16xf32>>, !tile.rows<f32>
    %x = tile.take %ring[%c0] : !tile.ring<2 of vector<16xf32>> -> vector<16xf32>
    // expected-error @below {{fills item 2, which was not acquired; its stage has item 0, which is in use}}
    tile.fill %ring[%c2] from (%qr) at (%c0) channels (%c0) : !tile.ring<2 of vector<16xf32>>, !tile.rows<f32>
    tile.store %x, %or[%c0, %c0] : vector<16xf32>, !tile.rows<f32>
    tile.release %ring[%c0] : !tile.ring<2 of vector<16xf32>>
    tile.end
  }
  check.expect_equal %o, %q : tensor<1x64x1xf32>
  return
}

// -----

// A stage is filled that happens to be free.
func.func @not_acquired() {
  %q = check.random normal seed 1 : tensor<1x64x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x64x1xf32>) outputs(tensor<1x64x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %ring = tile.make_ring : !tile.ring<2 of vector<16xf32>>
    // expected-error @below {{fills item 1, which was not acquired}}
    tile.fill %ring[%c1] from (%qr) at (%c0) channels (%c0) : !tile.ring<2 of vector<16xf32>>, !tile.rows<f32>
    tile.end
  }
  check.expect_equal %o, %q : tensor<1x64x1xf32>
  return
}

// -----

// A stage is asked for before the item in it is released, in one program.
func.func @in_use() {
  %q = check.random normal seed 1 : tensor<1x64x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x64x1xf32>) outputs(tensor<1x64x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %ring = tile.make_ring : !tile.ring<2 of vector<16xf32>>
    tile.acquire %ring[%c0] : !tile.ring<2 of vector<16xf32>>
    tile.fill %ring[%c0] from (%qr) at (%c0) channels (%c0) : !tile.ring<2 of vector<16xf32>>, !tile.rows<f32>
    %x = tile.take %ring[%c0] : !tile.ring<2 of vector<16xf32>> -> vector<16xf32>
    // expected-error @below {{would wait for the release of item 0, which comes later: its stage is in use}}
    tile.acquire %ring[%c2] : !tile.ring<2 of vector<16xf32>>
    tile.fill %ring[%c2] from (%qr) at (%c0) channels (%c0) : !tile.ring<2 of vector<16xf32>>, !tile.rows<f32>
    tile.store %x, %or[%c0, %c0] : vector<16xf32>, !tile.rows<f32>
    tile.release %ring[%c0] : !tile.ring<2 of vector<16xf32>>
    tile.end
  }
  check.expect_equal %o, %q : tensor<1x64x1xf32>
  return
}

// -----

// An item is taken twice.
func.func @twice() {
  %q = check.random normal seed 1 : tensor<1x64x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x64x1xf32>) outputs(tensor<1x64x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %ring = tile.make_ring : !tile.ring<2 of vector<16xf32>>
    tile.acquire %ring[%c0] : !tile.ring<2 of vector<16xf32>>
    tile.fill %ring[%c0] from (%qr) at (%c0) channels (%c0) : !tile.ring<2 of vector<16xf32>>, !tile.rows<f32>
    %x = tile.take %ring[%c0] : !tile.ring<2 of vector<16xf32>> -> vector<16xf32>
    // expected-error @below {{item 0 was taken before}}
    %y = tile.take %ring[%c0] : !tile.ring<2 of vector<16xf32>> -> vector<16xf32>
    tile.end
  }
  check.expect_equal %o, %q : tensor<1x64x1xf32>
  return
}

// -----

// An item is acquired twice.
func.func @acquired_twice() {
  %q = check.random normal seed 1 : tensor<1x64x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x64x1xf32>) outputs(tensor<1x64x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %ring = tile.make_ring : !tile.ring<2 of vector<16xf32>>
    tile.acquire %ring[%c0] : !tile.ring<2 of vector<16xf32>>
    // expected-error @below {{item 0 was acquired before}}
    tile.acquire %ring[%c0] : !tile.ring<2 of vector<16xf32>>
    tile.end
  }
  check.expect_equal %o, %q : tensor<1x64x1xf32>
  return
}

// -----

// A release of what was not taken.
func.func @not_taken() {
  %q = check.random normal seed 1 : tensor<1x64x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x64x1xf32>) outputs(tensor<1x64x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %ring = tile.make_ring : !tile.ring<2 of vector<16xf32>>
    tile.acquire %ring[%c0] : !tile.ring<2 of vector<16xf32>>
    tile.fill %ring[%c0] from (%qr) at (%c0) channels (%c0) : !tile.ring<2 of vector<16xf32>>, !tile.rows<f32>
    // expected-error @below {{releases item 0, which is not taken}}
    tile.release %ring[%c0] : !tile.ring<2 of vector<16xf32>>
    tile.end
  }
  check.expect_equal %o, %q : tensor<1x64x1xf32>
  return
}

// -----

// There is no such item.
func.func @negative() {
  %q = check.random normal seed 1 : tensor<1x64x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x64x1xf32>) outputs(tensor<1x64x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %ring = tile.make_ring : !tile.ring<2 of vector<16xf32>>
    %m = arith.constant -1 : index
    // expected-error @below {{item -1 is asked for; the first is item 0}}
    tile.acquire %ring[%m] : !tile.ring<2 of vector<16xf32>>
    tile.end
  }
  check.expect_equal %o, %q : tensor<1x64x1xf32>
  return
}

// -----

// As for a load.
func.func @negative_channel() {
  %q = check.random normal seed 1 : tensor<1x64x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x64x1xf32>) outputs(tensor<1x64x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %ring = tile.make_ring : !tile.ring<2 of vector<16xf32>>
    %m = arith.constant -1 : index
    tile.acquire %ring[%c0] : !tile.ring<2 of vector<16xf32>>
    // expected-error @below {{the first channel must not be negative, but is -1}}
    tile.fill %ring[%c0] from (%qr) at (%c0) channels (%m) : !tile.ring<2 of vector<16xf32>>, !tile.rows<f32>
    tile.end
  }
  check.expect_equal %o, %q : tensor<1x64x1xf32>
  return
}

// -----

// As for a load.
func.func @fills_output() {
  %q = check.random normal seed 1 : tensor<1x64x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x64x1xf32>) outputs(tensor<1x64x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %ring = tile.make_ring : !tile.ring<2 of vector<16xf32>>
    // expected-error @below {{loads what the program stores}}
    tile.fill %ring[%c0] from (%or) at (%c0) channels (%c0) : !tile.ring<2 of vector<16xf32>>, !tile.rows<f32>
    tile.end
  }
  check.expect_equal %o, %q : tensor<1x64x1xf32>
  return
}

// -----

// No item is released: after two, both partitions wait.
func.func @deadlock() {
  %q = check.random normal seed 1 : tensor<1x64x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x64x1xf32>) outputs(tensor<1x64x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %ring = tile.make_ring : !tile.ring<2 of vector<16xf32>>
    // expected-error @below {{deadlock: no partition can go on}}
    tile.warp_specialize {
      tile.partition "consumer" warps 4 {
        scf.for %c = %c0 to %c4 step %c1 {
          %first = arith.muli %c, %c16 : index
          // expected-note @below {{partition 'consumer' waits here for item 2 to be filled}}
          %x = tile.take %ring[%c] : !tile.ring<2 of vector<16xf32>> -> vector<16xf32>
          tile.store %x, %or[%first, %c0] : vector<16xf32>, !tile.rows<f32>
        }
      }
      tile.partition "producer" warps 1 {
        scf.for %c = %c0 to %c4 step %c1 {
          %first = arith.muli %c, %c16 : index
          // expected-note @below {{partition 'producer' waits here for the release of item 0}}
          tile.acquire %ring[%c] : !tile.ring<2 of vector<16xf32>>
          tile.fill %ring[%c] from (%qr) at (%first) channels (%c0) : !tile.ring<2 of vector<16xf32>>, !tile.rows<f32>
        }
      }
    }
    tile.end
  }
  check.expect_equal %o, %q : tensor<1x64x1xf32>
  return
}

// -----

// The producer ends before the consumer has all.
func.func @producer_ended() {
  %q = check.random normal seed 1 : tensor<1x64x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x64x1xf32>) outputs(tensor<1x64x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %ring = tile.make_ring : !tile.ring<2 of vector<16xf32>>
    // expected-error @below {{deadlock: no partition can go on}}
    tile.warp_specialize {
      tile.partition "producer" warps 1 {
        tile.acquire %ring[%c0] : !tile.ring<2 of vector<16xf32>>
        tile.fill %ring[%c0] from (%qr) at (%c0) channels (%c0) : !tile.ring<2 of vector<16xf32>>, !tile.rows<f32>
      }
      tile.partition "consumer" warps 4 {
        scf.for %c = %c0 to %c4 step %c1 {
          %first = arith.muli %c, %c16 : index
          // expected-note @below {{partition 'consumer' waits here for item 1 to be filled}}
          %x = tile.take %ring[%c] : !tile.ring<2 of vector<16xf32>> -> vector<16xf32>
          tile.store %x, %or[%first, %c0] : vector<16xf32>, !tile.rows<f32>
          tile.release %ring[%c] : !tile.ring<2 of vector<16xf32>>
        }
      }
    }
    tile.end
  }
  check.expect_equal %o, %q : tensor<1x64x1xf32>
  return
}

// -----

// Whether the producer has refilled the stage by then or not.
func.func @race_of_roles() {
  %q = check.random normal seed 1 : tensor<1x64x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x64x1xf32>) outputs(tensor<1x64x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %ring = tile.make_ring : !tile.ring<2 of vector<16xf32>>
    tile.warp_specialize {
      tile.partition "consumer" warps 4 {
        scf.for %c = %c0 to %c4 step %c1 {
          %first = arith.muli %c, %c16 : index
          %x = tile.take %ring[%c] : !tile.ring<2 of vector<16xf32>> -> vector<16xf32>
          tile.release %ring[%c] : !tile.ring<2 of vector<16xf32>>
          // expected-error @below {{reads a tile of item 0, which was released}}
          tile.store %x, %or[%first, %c0] : vector<16xf32>, !tile.rows<f32>
        }
      }
      tile.partition "producer" warps 1 {
        scf.for %c = %c0 to %c4 step %c1 {
          %first = arith.muli %c, %c16 : index
          tile.acquire %ring[%c] : !tile.ring<2 of vector<16xf32>>
          tile.fill %ring[%c] from (%qr) at (%first) channels (%c0) : !tile.ring<2 of vector<16xf32>>, !tile.rows<f32>
        }
      }
    }
    tile.end
  }
  check.expect_equal %o, %q : tensor<1x64x1xf32>
  return
}

// -----

// The producer does not ask whether a stage is free.
func.func @overwrite_of_roles() {
  %q = check.random normal seed 1 : tensor<1x64x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x64x1xf32>) outputs(tensor<1x64x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %ring = tile.make_ring : !tile.ring<2 of vector<16xf32>>
    tile.warp_specialize {
      tile.partition "consumer" warps 4 {
        scf.for %c = %c0 to %c4 step %c1 {
          %first = arith.muli %c, %c16 : index
          %x = tile.take %ring[%c] : !tile.ring<2 of vector<16xf32>> -> vector<16xf32>
          tile.store %x, %or[%first, %c0] : vector<16xf32>, !tile.rows<f32>
          tile.release %ring[%c] : !tile.ring<2 of vector<16xf32>>
        }
      }
      tile.partition "producer" warps 1 {
        scf.for %c = %c0 to %c4 step %c1 {
          %first = arith.muli %c, %c16 : index
          // expected-error @below {{fills item 0, which was not acquired}}
          tile.fill %ring[%c] from (%qr) at (%first) channels (%c0) : !tile.ring<2 of vector<16xf32>>, !tile.rows<f32>
        }
      }
    }
    tile.end
  }
  check.expect_equal %o, %q : tensor<1x64x1xf32>
  return
}

// -----

// A put without an acquire, and one partition of two that does not release.
func.func @put_early() {
  %q = check.random normal seed 1 : tensor<1x64x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x64x1xf32>) outputs(tensor<1x64x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %x = tile.load %qr[%c0, %c0] : !tile.rows<f32> -> vector<16xf32>
    %ring = tile.make_ring : !tile.ring<1 of vector<16xf32>>
    // expected-error @below {{fills item 0, which was not acquired}}
    tile.put %ring[%c0] of (%x) : !tile.ring<1 of vector<16xf32>>, vector<16xf32>
    %y = tile.take %ring[%c0] : !tile.ring<1 of vector<16xf32>> -> vector<16xf32>
    tile.store %y, %or[%c0, %c0] : vector<16xf32>, !tile.rows<f32>
    tile.end
  }
  check.expect_equal %o, %q : tensor<1x64x1xf32>
  return
}

// -----

// Of two takers, one keeps the item: its stage is never free.
func.func @one_keeps() {
  %q = check.random normal seed 1 : tensor<1x32x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x32x1xf32>) outputs(tensor<1x32x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c16 = arith.constant 16 : index
    %ring = tile.make_ring : !tile.ring<1 of vector<16xf32>>
    // expected-error @below {{deadlock: no partition can go on}}
    tile.warp_specialize {
      tile.partition "front" warps 1 {
        scf.for %i = %c0 to %c2 step %c1 {
          %first = arith.muli %i, %c16 : index
          %x = tile.load %qr[%first, %c0] : !tile.rows<f32> -> vector<16xf32>
          // expected-note @below {{partition 'front' waits here for the release of item 0}}
          tile.acquire %ring[%i] : !tile.ring<1 of vector<16xf32>>
          tile.put %ring[%i] of (%x) : !tile.ring<1 of vector<16xf32>>, vector<16xf32>
        }
      }
      tile.partition "state" warps 1 {
        scf.for %i = %c0 to %c2 step %c1 {
          %first = arith.muli %i, %c16 : index
          // expected-note @below {{partition 'state' waits here for item 1 to be filled}}
          %y = tile.take %ring[%i] : !tile.ring<1 of vector<16xf32>> -> vector<16xf32>
          tile.store %y, %or[%first, %c0] : vector<16xf32>, !tile.rows<f32>
          tile.release %ring[%i] : !tile.ring<1 of vector<16xf32>>
        }
      }
      tile.partition "other" warps 1 {
        %z = tile.take %ring[%c0] : !tile.ring<1 of vector<16xf32>> -> vector<16xf32>
      }
    }
    tile.end
  }
  check.expect_equal %o, %q : tensor<1x32x1xf32>
  return
}
