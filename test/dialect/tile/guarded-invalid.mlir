// RUN: ejk-opt %s --split-input-file --verify-diagnostics
// Bad fast and exact paths, for each numbered constraint.

// guarded C1: another condition.
func.func @condition(%x: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%x : tensor<?x?x?xf32>) outputs(tensor<?x?x?xf32>) {
  ^bb0(%xr: !tile.rows<f32>, %or: !tile.rows<f32>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %one = arith.cmpi eq, %length, %c0 : index
    // expected-error @below {{the guard must be the result of a 'tile.range_guard' (C1); a branch on another condition is an 'scf.if'}}
    tile.guarded %one fast {
    } exact {
    }
    tile.end
  }
  return %o : tensor<?x?x?xf32>
}

// -----

// guarded C1: a loop that starts with a range guard's result, and goes on with another condition.
func.func @carried(%x: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%x : tensor<?x?x?xf32>) outputs(tensor<?x?x?xf32>) {
  ^bb0(%xr: !tile.rows<f32>, %or: !tile.rows<f32>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %t = tile.load %xr[%c0, %c0] : !tile.rows<f32> -> vector<16xf32>
    %ok = tile.range_guard 1.0 of %t : vector<16xf32>
    scf.for %c = %c0 to %length step %c1 iter_args(%w = %ok) -> (i1) {
      // expected-error @below {{the guard must be the result of a 'tile.range_guard' (C1)}}
      tile.guarded %w fast {
      } exact {
      }
      %next = arith.cmpi eq, %c, %c0 : index
      scf.yield %next : i1
    }
    tile.end
  }
  return %o : tensor<?x?x?xf32>
}

// -----

// guarded C1: one side of a branch gives another condition, and the loop starts from the induction variable's.
func.func @branch(%x: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%x : tensor<?x?x?xf32>) outputs(tensor<?x?x?xf32>) {
  ^bb0(%xr: !tile.rows<f32>, %or: !tile.rows<f32>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %t = tile.load %xr[%c0, %c0] : !tile.rows<f32> -> vector<16xf32>
    %ok = tile.range_guard 1.0 of %t : vector<16xf32>
    %one = arith.cmpi eq, %length, %c0 : index
    %either = scf.if %one -> (i1) {
      scf.yield %ok : i1
    } else {
      scf.yield %one : i1
    }
    // expected-error @below {{the guard must be the result of a 'tile.range_guard' (C1)}}
    tile.guarded %either fast {
    } exact {
    }
    tile.end
  }
  return %o : tensor<?x?x?xf32>
}

// -----

// guarded C2: the exact path yields another type.
func.func @types(%x: vector<16xf32>, %y: vector<32xf32>) {
  %ok = tile.range_guard 1.0 of %x : vector<16xf32>
  %z = tile.guarded %ok -> (vector<16xf32>) fast {
    tile.yield %x : vector<16xf32>
  } exact {
    // expected-error @below {{ends the exact path, which must yield ('vector<16xf32>') (C2), but yields ('vector<32xf32>')}}
    tile.yield %y : vector<32xf32>
  }
  return
}

// -----

// guarded C2: the fast path yields nothing.
func.func @nothing(%x: vector<16xf32>) {
  %ok = tile.range_guard 1.0 of %x : vector<16xf32>
  %z = tile.guarded %ok -> (vector<16xf32>) fast {
    // expected-error @below {{ends the fast path, which must yield ('vector<16xf32>') (C2), but yields ()}}
    tile.yield
  } exact {
    tile.yield %x : vector<16xf32>
  }
  return
}

// -----

// guarded C3: the exact path uses a polynomial.
func.func @approximate(%x: vector<16xf32>) {
  %ok = tile.range_guard 1.0 of %x : vector<16xf32>
  %e = math.exp %x {tile.polynomial = 3 : i64} : vector<16xf32>
  %z = tile.guarded %ok -> (vector<16xf32>) fast {
    tile.yield %e : vector<16xf32>
  } exact {
    // expected-error @below {{is on the exact path of a 'tile.guarded', where no exponential may be computed by a polynomial (C3)}}
    tile.yield %e : vector<16xf32>
  }
  return
}

// -----

// yield: elsewhere.
func.func @elsewhere() {
  // expected-error @below {{'tile.yield' op expects parent op 'tile.guarded'}}
  tile.yield
}
