// RUN: ejk-opt %s --split-input-file --ejk-check-races --verify-diagnostics
// What the checker of plans finds.

// A barrier orders what one thread stores and another loads.
func.func @barrier(%k: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  %o = tile.program chunk 64 slices 1 sequences(%k : tensor<?x?x?x64xbf16>) outputs(tensor<?x?x?x64xbf16>)
      attributes {tile.shared_bytes = 18432 : i64, tile.warps = 4 : i64} {
  ^bb0(%kr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xbf16>>, %length: index, %slice: index, %head: index,
       %heads: index):
    %c0 = arith.constant 0 : index
    %x = tile.load %kr[%c0, %c0] {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    // expected-note @below {{'tile.convert' writes there}}
    %a = tile.convert %x to <shared at 0> : vector<64x64xbf16>
    // expected-error @below {{races in shared memory: a barrier is missing between 'tile.convert' and an earlier access, at bytes 0 to 9216}}
    %y = tile.convert %a to <fragments over 4 by 1> : vector<64x64xbf16>
    tile.store %y, %or[%c0, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
    tile.end
  }
  return %o : tensor<?x?x?x64xbf16>
}

// -----

// The loads of an iteration, and the stores of the next.
func.func @iteration(%k: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  %o = tile.program chunk 64 slices 1 sequences(%k : tensor<?x?x?x64xbf16>) outputs(tensor<?x?x?x64xbf16>)
      attributes {tile.shared_bytes = 18432 : i64, tile.warps = 4 : i64} {
  ^bb0(%kr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xbf16>>, %length: index, %slice: index, %head: index,
       %heads: index):
    %c0 = arith.constant 0 : index
    %n = arith.constant 4 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %n step %c1 {
      %x = tile.load %kr[%i, %c0] {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      // expected-error @below {{races in shared memory: a barrier is missing between 'tile.convert' and an earlier access, at bytes 0 to 9216}}
      %a = tile.convert %x to <shared at 0> : vector<64x64xbf16>
      tile.barrier
      // expected-note @below {{'tile.convert' reads there}}
      %y = tile.convert %a to <fragments over 4 by 1> : vector<64x64xbf16>
      tile.store %y, %or[%i, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
    }
    tile.end
  }
  return %o : tensor<?x?x?x64xbf16>
}

// -----

// A barrier does not end a copy.
func.func @copies(%k: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  %o = tile.program chunk 64 slices 1 sequences(%k : tensor<?x?x?x64xbf16>) outputs(tensor<?x?x?x64xbf16>)
      attributes {tile.shared_bytes = 18432 : i64, tile.warps = 4 : i64} {
  ^bb0(%kr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xbf16>>, %length: index, %slice: index, %head: index,
       %heads: index):
    %c0 = arith.constant 0 : index
    // expected-note @below {{'tile.load' writes there}}
    %a = tile.load %kr[%c0, %c0] {tile.layouts = [#tile.layout<shared at 0>]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    tile.barrier
    // expected-error @below {{races in shared memory: a wait is missing between 'tile.convert' and an earlier access, at bytes 0 to 9216}}
    %y = tile.convert %a to <fragments over 4 by 1> : vector<64x64xbf16>
    tile.store %y, %or[%c0, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
    tile.end
  }
  return %o : tensor<?x?x?x64xbf16>
}

// -----

// Where paths join, the path with the fewest later groups counts: without the branch's copy, the wait
// ends none.
func.func @copies_of_one_path(%k: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  %o = tile.program chunk 64 slices 1 sequences(%k : tensor<?x?x?x64xbf16>) outputs(tensor<?x?x?x64xbf16>)
      attributes {tile.shared_bytes = 18432 : i64, tile.warps = 4 : i64} {
  ^bb0(%kr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xbf16>>, %length: index, %slice: index, %head: index,
       %heads: index):
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %more = arith.cmpi slt, %c64, %length : index
    // expected-note @below {{'tile.load' writes there}}
    %a = tile.load %kr[%c0, %c0] {tile.layouts = [#tile.layout<shared at 0>]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    scf.if %more {
      %b = tile.load %kr[%c64, %c0] {tile.layouts = [#tile.layout<shared at 9216>]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    }
    tile.wait_copies 1
    tile.barrier
    // expected-error @below {{races in shared memory: a wait is missing between 'tile.convert' and an earlier access, at bytes 0 to 9216}}
    %y = tile.convert %a to <fragments over 4 by 1> : vector<64x64xbf16>
    tile.store %y, %or[%c0, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
    tile.wait_copies 0
    tile.end
  }
  return %o : tensor<?x?x?x64xbf16>
}

// -----

// A copy on each path makes one later group.
func.func @copies_of_both_paths(%k: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  %o = tile.program chunk 64 slices 1 sequences(%k : tensor<?x?x?x64xbf16>) outputs(tensor<?x?x?x64xbf16>)
      attributes {tile.shared_bytes = 18432 : i64, tile.warps = 4 : i64} {
  ^bb0(%kr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xbf16>>, %length: index, %slice: index, %head: index,
       %heads: index):
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %more = arith.cmpi slt, %c64, %length : index
    %a = tile.load %kr[%c0, %c0] {tile.layouts = [#tile.layout<shared at 0>]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    scf.if %more {
      %b = tile.load %kr[%c64, %c0] {tile.layouts = [#tile.layout<shared at 9216>]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    } else {
      %b = tile.load %kr[%c0, %c0] {tile.layouts = [#tile.layout<shared at 9216>]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    }
    tile.wait_copies 1
    tile.barrier
    %y = tile.convert %a to <fragments over 4 by 1> : vector<64x64xbf16>
    tile.store %y, %or[%c0, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
    tile.wait_copies 0
    tile.end
  }
  return %o : tensor<?x?x?x64xbf16>
}

// -----

// wgmma sees what threads stored after a fence.
func.func @fence(%k: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%k : tensor<?x?x?x64xbf16>) outputs(tensor<?x?x?x64xf32>)
      attributes {tile.shared_bytes = 16384 : i64, tile.warpgroups, tile.warps = 4 : i64} {
  ^bb0(%kr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xf32>>, %length: index, %slice: index, %head: index,
       %heads: index):
    %c0 = arith.constant 0 : index
    %zero = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<0.0> : vector<64x64xf32>
    %x = tile.load %kr[%c0, %c0] {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    // expected-note @below {{'tile.convert' writes there}}
    %a = tile.convert %x to <swizzled at 0> : vector<64x64xbf16>
    tile.barrier
    // expected-error @below {{races in shared memory: a fence before the barrier is missing between 'tile.dot' and an earlier access, at bytes 0 to 8192}}
    %d = tile.dot %a, %a transposed, %zero {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
    tile.wait_matmuls 0
    tile.store %d, %or[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x64xf32>
}

// -----

// A fence in front of the store is none of it.
func.func @early_fence(%k: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%k : tensor<?x?x?x64xbf16>) outputs(tensor<?x?x?x64xf32>)
      attributes {tile.shared_bytes = 16384 : i64, tile.warpgroups, tile.warps = 4 : i64} {
  ^bb0(%kr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xf32>>, %length: index, %slice: index, %head: index,
       %heads: index):
    %c0 = arith.constant 0 : index
    %zero = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<0.0> : vector<64x64xf32>
    %x = tile.load %kr[%c0, %c0] {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    tile.fence
    // expected-note @below {{'tile.convert' writes there}}
    %a = tile.convert %x to <swizzled at 0> : vector<64x64xbf16>
    tile.barrier
    // expected-error @below {{races in shared memory: a fence before the barrier is missing}}
    %d = tile.dot %a, %a transposed, %zero {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
    tile.wait_matmuls 0
    tile.store %d, %or[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x64xf32>
}

// -----

// A barrier does not end a matmul that reads the place.
func.func @matmul(%k: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%k : tensor<?x?x?x64xbf16>) outputs(tensor<?x?x?x64xf32>)
      attributes {tile.shared_bytes = 16384 : i64, tile.warpgroups, tile.warps = 4 : i64} {
  ^bb0(%kr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xf32>>, %length: index, %slice: index, %head: index,
       %heads: index):
    %c0 = arith.constant 0 : index
    %zero = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<0.0> : vector<64x64xf32>
    %x = tile.load %kr[%c0, %c0] {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    %a = tile.convert %x to <swizzled at 0> : vector<64x64xbf16>
    tile.fence
    tile.barrier
    // expected-note @below {{'tile.dot' reads there}}
    %d = tile.dot %a, %a transposed, %zero {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
    tile.barrier
    // expected-error @below {{races in shared memory: a wait is missing between 'tile.convert' and an earlier access, at bytes 0 to 8192}}
    %b = tile.convert %x to <swizzled at 0> : vector<64x64xbf16>
    tile.wait_matmuls 0
    tile.store %d, %or[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x64xf32>
}

// -----

// Matmuls are waited for before a branch, so that each path has issued the same ones.
func.func @matmul_before_branch(%k: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%k : tensor<?x?x?x64xbf16>) outputs(tensor<?x?x?x64xf32>)
      attributes {tile.shared_bytes = 16384 : i64, tile.warpgroups, tile.warps = 4 : i64} {
  ^bb0(%kr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xf32>>, %length: index, %slice: index, %head: index,
       %heads: index):
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %more = arith.cmpi slt, %c64, %length : index
    %zero = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<0.0> : vector<64x64xf32>
    %x = tile.load %kr[%c0, %c0] {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    %a = tile.convert %x to <swizzled at 0> : vector<64x64xbf16>
    tile.fence
    tile.barrier
    %d = tile.dot %a, %a transposed, %zero {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
    // expected-error @below {{is not planned: matmuls are outstanding where it begins}}
    scf.if %more {
      %e = tile.dot %a, %a transposed, %zero {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      tile.wait_matmuls 1
    }
    tile.wait_matmuls 0
    tile.store %d, %or[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x64xf32>
}

// -----

// Nor does a matmul of one path stay outstanding where the paths join.
func.func @matmul_in_branch(%k: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  %o = tile.program chunk 64 slices 1 sequences(%k : tensor<?x?x?x64xbf16>) outputs(tensor<?x?x?x64xbf16>)
      attributes {tile.shared_bytes = 16384 : i64, tile.warpgroups, tile.warps = 4 : i64} {
  ^bb0(%kr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xbf16>>, %length: index, %slice: index, %head: index,
       %heads: index):
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %more = arith.cmpi slt, %c64, %length : index
    %zero = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<0.0> : vector<64x64xf32>
    %x = tile.load %kr[%c0, %c0] {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    %a = tile.convert %x to <swizzled at 0> : vector<64x64xbf16>
    tile.fence
    tile.barrier
    scf.if %more {
      // expected-error @below {{is not planned: a matmul is waited for in its own block}}
      %d = tile.dot %a, %a transposed, %zero {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
    }
    tile.wait_matmuls 0
    tile.store %x, %or[%c0, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
    tile.end
  }
  return %o : tensor<?x?x?x64xbf16>
}

// -----

// A matmul's result is there when it has been waited for.
func.func @result(%k: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%k : tensor<?x?x?x64xbf16>) outputs(tensor<?x?x?x64xf32>)
      attributes {tile.shared_bytes = 16384 : i64, tile.warpgroups, tile.warps = 4 : i64} {
  ^bb0(%kr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xf32>>, %length: index, %slice: index, %head: index,
       %heads: index):
    %c0 = arith.constant 0 : index
    %zero = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<0.0> : vector<64x64xf32>
    %x = tile.load %kr[%c0, %c0] {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    %a = tile.convert %x to <swizzled at 0> : vector<64x64xbf16>
    tile.fence
    tile.barrier
    %d = tile.dot %a, %a transposed, %zero {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
    // expected-error @below {{is not planned: uses a matmul that is not waited for}}
    tile.store %d, %or[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.wait_matmuls 0
    tile.end
  }
  return %o : tensor<?x?x?x64xf32>
}

// -----

// A place outside of the block's memory.
func.func @outside(%k: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  %o = tile.program chunk 64 slices 1 sequences(%k : tensor<?x?x?x64xbf16>) outputs(tensor<?x?x?x64xbf16>)
      attributes {tile.shared_bytes = 18432 : i64, tile.warps = 4 : i64} {
  ^bb0(%kr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xbf16>>, %length: index, %slice: index, %head: index,
       %heads: index):
    %c0 = arith.constant 0 : index
    %x = tile.load %kr[%c0, %c0] {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    // expected-error @below {{is not planned: a place is aligned and lies in the block's shared memory}}
    %a = tile.convert %x to <shared at 9344> : vector<64x64xbf16>
    tile.barrier
    %y = tile.convert %a to <fragments over 4 by 1> : vector<64x64xbf16>
    tile.store %y, %or[%c0, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
    tile.end
  }
  return %o : tensor<?x?x?x64xbf16>
}

// -----

// No place.
func.func @no_place(%k: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  %o = tile.program chunk 64 slices 1 sequences(%k : tensor<?x?x?x64xbf16>) outputs(tensor<?x?x?x64xbf16>)
      attributes {tile.shared_bytes = 18432 : i64, tile.warps = 4 : i64} {
  ^bb0(%kr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xbf16>>, %length: index, %slice: index, %head: index,
       %heads: index):
    %c0 = arith.constant 0 : index
    %x = tile.load %kr[%c0, %c0] {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    // expected-error @below {{is not planned: a place is aligned and lies in the block's shared memory}}
    %a = tile.convert %x to <shared> : vector<64x64xbf16>
    tile.barrier
    %y = tile.convert %a to <fragments over 4 by 1> : vector<64x64xbf16>
    tile.store %y, %or[%c0, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
    tile.end
  }
  return %o : tensor<?x?x?x64xbf16>
}

// -----

// Threads exchange elements through shared memory.
func.func @between_threads(%k: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  %o = tile.program chunk 64 slices 1 sequences(%k : tensor<?x?x?x64xbf16>) outputs(tensor<?x?x?x64xbf16>)
      attributes {tile.shared_bytes = 18432 : i64, tile.warps = 4 : i64} {
  ^bb0(%kr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xbf16>>, %length: index, %slice: index, %head: index,
       %heads: index):
    %c0 = arith.constant 0 : index
    %x = tile.load %kr[%c0, %c0] {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    // expected-error @below {{is not planned: a conversion between threads goes through shared memory}}
    %y = tile.convert %x to <fragments over 2 by 2> : vector<64x64xbf16>
    tile.store %y, %or[%c0, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
    tile.end
  }
  return %o : tensor<?x?x?x64xbf16>
}

// -----

// Partitions may read what was stored before them. What one of them writes has no order to another's read.
func.func @partitions(%k: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  %o = tile.program chunk 64 slices 1 sequences(%k : tensor<?x?x?x64xbf16>) outputs(tensor<?x?x?x64xbf16>)
      attributes {tile.shared_bytes = 18432 : i64, tile.warps = 4 : i64, tile.warpgroups} {
  ^bb0(%kr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xbf16>>, %length: index, %slice: index, %head: index,
       %heads: index):
    %c0 = arith.constant 0 : index
    %a = tile.triangle {tile.layouts = [#tile.layout<swizzled at 0>]} : vector<64x64xbf16>
    tile.warp_specialize {
      tile.partition "first" warps 4 {
        %y = tile.convert %a to <fragments over 4 by 1> : vector<64x64xbf16>
        tile.store %y, %or[%c0, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
        // expected-note @below {{'tile.convert' writes there}}
        %b = tile.convert %y to <shared at 9216> : vector<64x64xbf16>
      }
      tile.partition "second" warps 4 {
        %y = tile.convert %a to <fragments over 4 by 1> : vector<64x64xbf16>
        tile.store %y, %or[%c0, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
        // expected-error @below {{races in shared memory: two partitions share memory; an order between 'tile.convert' and an earlier access, at bytes 9216 to 18432}}
        %c = tile.convert %y to <shared at 9216> : vector<64x64xbf16>
      }
    }
    tile.end
  }
  return %o : tensor<?x?x?x64xbf16>
}

// -----

// What a matmul takes from registers has arrived there where that matmul has ended, and a wait for copies ends none.
func.func @matmul_of_loaded(%k: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%k : tensor<?x?x?x64xbf16>) outputs(tensor<?x?x?x64xf32>)
      attributes {tile.shared_bytes = 25600 : i64, tile.warpgroups, tile.warps = 4 : i64} {
  ^bb0(%kr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xf32>>, %length: index, %slice: index, %head: index,
       %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %n = arith.ceildivui %length, %c64 : index
    %zero = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<0.0> : vector<64x64xf32>
    %ring = tile.make_ring tma at 0 mbarriers 16384 : <2 of vector<64x64xbf16>>
    %x = tile.load %kr[%c0, %c0] {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    %a = tile.convert %x to <swizzled at 17408> : vector<64x64xbf16>
    tile.fence
    tile.barrier
    tile.acquire %ring[%c0] : <2 of vector<64x64xbf16>>
    tile.fill %ring[%c0] from(%kr) at(%c0) channels(%c0) : <2 of vector<64x64xbf16>>, !tile.rows<vector<64xbf16>>
    scf.for %i = %c0 to %n step %c1 {
      %first = arith.muli %i, %c64 : index
      %kt = tile.take %ring[%i] {tile.layouts = [#tile.layout<swizzled>]} : <2 of vector<64x64xbf16>> -> vector<64x64xbf16>
      %next = arith.addi %i, %c1 : index
      %ahead = arith.muli %next, %c64 : index
      tile.acquire %ring[%next] : <2 of vector<64x64xbf16>>
      tile.fill %ring[%next] from(%kr) at(%ahead) channels(%c0) : <2 of vector<64x64xbf16>>, !tile.rows<vector<64xbf16>>
      // expected-note @below {{'tile.convert' reads there}}
      %kf = tile.convert %kt to <fragments over 4 by 1> : vector<64x64xbf16>
      %d = tile.dot %kf, %a transposed, %zero {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      tile.wait_copies 0
      // expected-error @below {{races in shared memory: a fence is missing between 'tile.release' and an earlier access, at bytes 0 to 16384}}
      tile.release %ring[%i] : <2 of vector<64x64xbf16>>
      tile.wait_matmuls 0
      tile.store %d, %or[%first, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    }
    tile.wait_copies 0
    tile.end
  }
  return %o : tensor<?x?x?x64xf32>
}
