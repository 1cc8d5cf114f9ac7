// RUN: ejk-opt %s --split-input-file --verify-diagnostics
// Bad rings and partitions, for each numbered constraint.

// ring C1: no stage.
// expected-error @below {{a ring must have 1 to 1024 stages (C1), but has 0}}
func.func private @no_stage(!tile.ring<0 of vector<16xf32>>)

// -----

// expected-error @below {{a ring must have 1 to 1024 stages (C1), but has 9223372036854775807}}
func.func private @no_stage(!tile.ring<9223372036854775807 of vector<16xf32>>)

// -----

// ring C1: an element that tiles do not have.
// expected-error @below {{a ring holds vectors of rank 1 or 2 of f32, f16 or bf16 (C1), not 'vector<16xi32>'}}
func.func private @no_tile(!tile.ring<2 of vector<16xi32>>)

// -----

// acquire C1: a ring from elsewhere.
func.func @foreign_acquire(%ring: !tile.ring<2 of vector<16xf32>>, %i: index) {
  // expected-error @below {{the ring must be a tile.make_ring's (C1)}}
  tile.acquire %ring[%i] : !tile.ring<2 of vector<16xf32>>
  return
}

// -----

// release C1: a ring from elsewhere.
func.func @foreign_release(%ring: !tile.ring<2 of vector<16xf32>>, %i: index) {
  // expected-error @below {{the ring must be a tile.make_ring's (C1)}}
  tile.release %ring[%i] : !tile.ring<2 of vector<16xf32>>
  return
}

// -----

// fill C1: rows for one tile of two.
func.func @fill_count(%q: tensor<?x?x?xf32>) {
  tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %length: index, %slice: index, %head: index, %heads: index):
    %ring = tile.make_ring : !tile.ring<2 of vector<16xf32>, vector<16xf32>>
    // expected-error @below {{rows, a first row and a first channel are needed for each of the 2 tiles of an item (C1), but there are 1}}
    tile.fill %ring[%head] from (%qr) at (%head) channels (%head) : !tile.ring<2 of vector<16xf32>, vector<16xf32>>, !tile.rows<f32>
    tile.end
  }
  return
}

// -----

// fill C2: rows of another type.
func.func @fill_rows(%q: tensor<?x?x?xf32>) {
  tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %length: index, %slice: index, %head: index, %heads: index):
    %ring = tile.make_ring : !tile.ring<2 of vector<16x16xf32>>
    // expected-error @below {{the tile of rows of 'f32' must be of rank 1 with their element type (C2), but is 'vector<16x16xf32>'}}
    tile.fill %ring[%head] from (%qr) at (%head) channels (%head) : !tile.ring<2 of vector<16x16xf32>>, !tile.rows<f32>
    tile.end
  }
  return
}

// -----

// fill C3: a ring from elsewhere.
func.func @foreign_fill(%ring: !tile.ring<2 of vector<16xf32>>, %rows: !tile.rows<f32>, %i: index) {
  // expected-error @below {{the ring must be a tile.make_ring's (C3)}}
  tile.fill %ring[%i] from (%rows) at (%i) channels (%i) : !tile.ring<2 of vector<16xf32>>, !tile.rows<f32>
  return
}

// -----

// take C1: another tile.
func.func @take_type(%q: tensor<?x?x?xf32>) {
  tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %length: index, %slice: index, %head: index, %heads: index):
    %ring = tile.make_ring : !tile.ring<2 of vector<16xf32>>
    // expected-error @below {{the results must be the tiles of '!tile.ring<2 of vector<16xf32>>' (C1), but are 'vector<32xf32>'}}
    %x = tile.take %ring[%head] : !tile.ring<2 of vector<16xf32>> -> vector<32xf32>
    tile.end
  }
  return
}

// -----

// take C2: a ring from elsewhere.
func.func @foreign_take(%ring: !tile.ring<2 of vector<16xf32>>, %i: index) {
  // expected-error @below {{the ring must be a tile.make_ring's (C2)}}
  %x = tile.take %ring[%i] : !tile.ring<2 of vector<16xf32>> -> vector<16xf32>
  return
}

// -----

// partition C1: no warps.
func.func @no_warps(%q: tensor<?x?x?xf32>) {
  tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %length: index, %slice: index, %head: index, %heads: index):
    tile.warp_specialize {
      // expected-error @below {{'warps' must be positive (C1), but is 0}}
      tile.partition "a" warps 0 {
      }
    }
    tile.end
  }
  return
}

// -----

// partition C2: a number of registers that there is not.
func.func @odd_registers(%q: tensor<?x?x?xf32>) {
  tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %length: index, %slice: index, %head: index, %heads: index):
    tile.warp_specialize {
      // expected-error @below {{'registers' must be a multiple of 8 from 24 to 256 (C2), but is 30}}
      tile.partition "a" warps 4 registers 30 {
      }
    }
    tile.end
  }
  return
}

// -----

// partition C2: registers of a warp alone.
func.func @registers_of_a_warp(%q: tensor<?x?x?xf32>) {
  tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %length: index, %slice: index, %head: index, %heads: index):
    tile.warp_specialize {
      // expected-error @below {{'registers' are those of four warps at a time, but there are 1 (C2)}}
      tile.partition "a" warps 1 registers 40 {
      }
    }
    tile.end
  }
  return
}

// -----

// partitions C1: something else among them.
func.func @no_role(%q: tensor<?x?x?xf32>) {
  tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %length: index, %slice: index, %head: index, %heads: index):
    tile.warp_specialize {
      // expected-error @below {{stands among partitions, which stand alone (C1)}}
      %c0 = arith.constant 0 : index
    }
    tile.end
  }
  return
}

// -----

// partitions C1: none.
func.func @no_roles(%q: tensor<?x?x?xf32>) {
  tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %length: index, %slice: index, %head: index, %heads: index):
    // expected-error @below {{must hold at least one partition (C1)}}
    tile.warp_specialize {
    }
    tile.end
  }
  return
}

// -----

// partitions C1: one name twice.
func.func @one_name(%q: tensor<?x?x?xf32>) {
  tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %length: index, %slice: index, %head: index, %heads: index):
    tile.warp_specialize {
      tile.partition "a" warps 1 {
      }
      // expected-error @below {{is the second of the name 'a' (C1)}}
      tile.partition "a" warps 1 {
      }
    }
    tile.end
  }
  return
}

// -----

// partitions C2: work beside them.
func.func @beside(%q: tensor<?x?x?xf32>) {
  tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %length: index, %slice: index, %head: index, %heads: index):
    // expected-error @below {{stands beside the program's partitions; its work must be one's (C2)}}
    %x = tile.load %qr[%head, %head] : !tile.rows<f32> -> vector<16xf32>
    tile.warp_specialize {
      tile.partition "a" warps 1 {
      }
    }
    tile.end
  }
  return
}

// -----

// partitions C2: something behind them.
func.func @behind(%q: tensor<?x?x?xf32>) {
  tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %length: index, %slice: index, %head: index, %heads: index):
    tile.warp_specialize {
      tile.partition "a" warps 1 {
      }
    }
    // expected-error @below {{comes after the program's partitions; its work must be one's (C2)}}
    %c0 = arith.constant 0 : index
    tile.end
  }
  return
}

// -----

// partitions C3: two that fill.
func.func @two_fill(%q: tensor<?x?x?xf32>) {
  tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %length: index, %slice: index, %head: index, %heads: index):
    // expected-note @below {{the ring is made here}}
    %ring = tile.make_ring : !tile.ring<2 of vector<16xf32>>
    tile.warp_specialize {
      tile.partition "a" warps 1 {
        tile.acquire %ring[%head] : !tile.ring<2 of vector<16xf32>>
      }
      tile.partition "b" warps 1 {
        // expected-error @below {{one partition alone acquires and fills items of a ring (C3), but 'a' and 'b' do}}
        tile.acquire %ring[%head] : !tile.ring<2 of vector<16xf32>>
      }
    }
    tile.end
  }
  return
}

// -----

// put C1: a tile of another type.
func.func @put_type(%q: tensor<?x?x?xf32>) {
  tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %length: index, %slice: index, %head: index, %heads: index):
    %x = arith.constant dense<0.0> : vector<32xf32>
    %ring = tile.make_ring : !tile.ring<2 of vector<16xf32>>
    // expected-error @below {{the tiles must be those of '!tile.ring<2 of vector<16xf32>>' (C1), but are 'vector<32xf32>'}}
    tile.put %ring[%head] of (%x) : !tile.ring<2 of vector<16xf32>>, vector<32xf32>
    tile.end
  }
  return
}

// -----

// put C2: a ring from elsewhere.
func.func @foreign_put(%ring: !tile.ring<2 of vector<16xf32>>, %i: index, %x: vector<16xf32>) {
  // expected-error @below {{the ring must be a tile.make_ring's (C2)}}
  tile.put %ring[%i] of (%x) : !tile.ring<2 of vector<16xf32>>, vector<16xf32>
  return
}

// -----

// put C3: a ring that rows are copied to.
func.func @put_and_fill(%q: tensor<?x?x?xf32>) {
  tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %length: index, %slice: index, %head: index, %heads: index):
    %x = arith.constant dense<0.0> : vector<16xf32>
    %ring = tile.make_ring : !tile.ring<2 of vector<16xf32>>
    tile.fill %ring[%head] from (%qr) at (%head) channels (%slice) : !tile.ring<2 of vector<16xf32>>, !tile.rows<f32>
    // expected-error @below {{the ring's items are filled with rows (C3)}}
    tile.put %ring[%head] of (%x) : !tile.ring<2 of vector<16xf32>>, vector<16xf32>
    tile.end
  }
  return
}

