// RUN: ejk-opt %s --split-input-file --verify-diagnostics

// split_term C1: another shape.
func.func @split_term(%x: vector<16x4xf32>) {
  // expected-error @+1 {{the term must have the shape of 'vector<16x4xf32>' (C1), but is 'vector<4x16xbf16>'}}
  %t, %r = tile.split_term %x : vector<16x4xf32> -> vector<4x16xbf16>
  return
}

// -----

// triangle C1: not square.
func.func @triangle() {
  // expected-error @+1 {{must be square (C1), but is 'vector<4x16xbf16>'}}
  %t = tile.triangle : vector<4x16xbf16>
  return
}

// -----

// triangle C2: there is no row 4.
func.func @triangle() {
  // expected-error @+1 {{'from' must be the number of one of 4 rows (C2), but is 4}}
  %t = tile.triangle from 4 : vector<4x4xbf16>
  return
}

// -----

// add_cumsum C1: another shape.
func.func @add_cumsum(%x: vector<16x4xbf16>, %a: vector<4x4xf32>) {
  // expected-error @+1 {{the term must have the shape of 'vector<4x4xf32>' (C1), but is 'vector<16x4xbf16>'}}
  %s = tile.add_cumsum %x to %a : vector<16x4xbf16>, vector<4x4xf32>
  return
}

// -----

// add_cumsum C2: there is no row -1.
func.func @add_cumsum(%x: vector<4x4xbf16>, %a: vector<4x4xf32>) {
  // expected-error @+1 {{'from' must be the number of one of 4 rows (C2), but is -1}}
  %s = tile.add_cumsum %x to %a from -1 : vector<4x4xbf16>, vector<4x4xf32>
  return
}

// -----

// add_cumsum C3: a triangle of other sums.
func.func @add_cumsum(%x: vector<4x4xbf16>, %a: vector<4x4xf32>) {
  %t = tile.triangle reverse : vector<4x4xbf16>
  // expected-error @+1 {{the triangle must be a tile.triangle of the same sums, with 4 rows (C3)}}
  %s = tile.add_cumsum %x to %a by %t : vector<4x4xbf16>, vector<4x4xf32>, vector<4x4xbf16>
  return
}

// -----

// add_cumsum C3: a triangle of another type.
func.func @add_cumsum(%x: vector<4x4xbf16>, %a: vector<4x4xf32>) {
  %t = tile.triangle : vector<4x4xf16>
  // expected-error @+1 {{the triangle must have the term's element type (C3), but is 'vector<4x4xf16>'}}
  %s = tile.add_cumsum %x to %a by %t : vector<4x4xbf16>, vector<4x4xf32>, vector<4x4xf16>
  return
}

// -----

// cumsum C2: no triangle.
func.func @cumsum(%x: vector<4x4xf32>, %t: vector<4x4xbf16>) {
  // expected-error @+1 {{the triangle must be a tile.triangle of the same sums, with 4 rows (C2)}}
  %s = tile.cumsum %x by %t : vector<4x4xf32>, vector<4x4xbf16>
  return
}

// -----

// partial_sum C1: half a part.
func.func @partial_sum(%x: vector<4x4xf32>) {
  // expected-error @+1 {{there must be whole parts of 4 elements (C1), but 6 elements are none}}
  %p = tile.partial_sum %x over 1 : vector<4x4xf32> -> vector<6xf32>
  return
}

// -----

// add_parts C1: half a part.
func.func @add_parts(%p: vector<6xf32>) {
  // expected-error @+1 {{there must be whole parts of 4 elements (C1), but 6 elements are none}}
  %s = tile.add_parts %p : vector<6xf32> -> vector<4xf32>
  return
}

// -----

// program C2: more slices than a state has channels.
func.func @many_slices(%q: tensor<?x?x?xf32>) {
  // expected-error @below {{'chunk' and 'slices' must be positive, and 'slices' at most 512 (C2), but they are 16 and 1099511627776}}
  tile.program chunk 16 slices 1099511627776 sequences(%q : tensor<?x?x?xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %length: index, %slice: index, %head: index, %heads: index):
    tile.end
  }
  return
}

// -----

// await_turn C1: a program in which nobody takes turns.
func.func @await_turn(%q: tensor<?x?x?x16xf32>) {
  tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>) {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    // expected-error @+1 {{must stand in a program that has 'turns' (C1)}}
    tile.await_turn %slice
    tile.end
  }
  return
}

// -----

// pass_turn C1: likewise.
func.func @pass_turn(%q: tensor<?x?x?x16xf32>) {
  tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>) {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    // expected-error @+1 {{must stand in a program that has 'turns' (C1)}}
    tile.pass_turn %slice
    tile.end
  }
  return
}
