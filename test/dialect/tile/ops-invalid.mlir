// RUN: ejk-opt %s --split-input-file --verify-diagnostics
// Bad windows and parameters, for each numbered constraint.

// window C1: one bound for two dimensions.
func.func @window(%tile: vector<4x4xf32>, %i: index) {
  // expected-error @below {{a bound of each kind is needed for each dimension of 'vector<4x4xf32>' (C1), but there are 1}}
  %w = tile.window %tile from (%i) to (%i) else 0.0 : vector<4x4xf32>
  return
}

// -----

// program C1: a vector parameter as a vector.
func.func @parameter(%q: tensor<?x?x?xf32>, %p: tensor<?x4xf32>) {
  // expected-error @below {{region argument 1, for a parameter of 'tensor<?x4xf32>', must be a number or slots of its vector (C1), but is 'vector<4xf32>'}}
  tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?xf32>) parameters(%p : tensor<?x4xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %a: vector<4xf32>, %length: index, %slice: index, %head: index, %heads: index):
    tile.end
  }
  return
}

// -----

// cumsum C1: there is no row 16.
func.func @cumsum(%x: vector<16x4xf32>) {
  // expected-error @+1 {{'from' must be the number of one of 16 rows (C1), but is 16}}
  %s = tile.cumsum %x from 16 : vector<16x4xf32>
  return
}

// -----

// within C1: of nothing.
func.func @within() {
  // expected-error @+1 {{has no tile (C1)}}
  %w = "tile.range_guard"() {bound = 1.0 : f32} : () -> i1
  return
}

// -----

// program C3: saved states every 24 rows of chunks of 16.
func.func @saves(%q: tensor<?x?x?xf32>, %s: tensor<?x?x4x4xf32>) {
  // expected-error @below {{must have a 'save_every' of at most 1073741824 that is a multiple of 'chunk' where states are saved or saved ones read, and none elsewhere (C3)}}
  tile.program chunk 16 save_every 24 slices 1 sequences(%q : tensor<?x?x?xf32>) saved(%s : tensor<?x?x4x4xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %a: !tile.slots<vector<4x4xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    tile.end
  }
  return
}

// -----

// cell_rows C1: rows of a vector.
func.func @cell_rows(%q: tensor<?x?x?xf32>, %s: tensor<?x?x4xf32>) {
  tile.program chunk 16 save_every 16 slices 1 sequences(%q : tensor<?x?x?xf32>) saved(%s : tensor<?x?x4xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %a: !tile.slots<vector<4xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    // expected-error @below {{the rows must be those of a matrix or vector (C1), but are of 'vector<4xf32>' and the slot is 'vector<4xf32>'}}
    %rows = tile.slot_rows %a[%slice] : !tile.slots<vector<4xf32>> -> !tile.rows<vector<4xf32>>
    tile.end
  }
  return
}

// -----

// cell_rows C1: rows of other channels.
func.func @cell_rows(%q: tensor<?x?x?xf32>, %s: tensor<?x?x4x2xf32>) {
  tile.program chunk 16 save_every 16 slices 1 sequences(%q : tensor<?x?x?xf32>) saved(%s : tensor<?x?x4x2xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %a: !tile.slots<vector<4x2xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    // expected-error @below {{must be those of a matrix or vector (C1), but are of 'vector<4xf32>' and the slot is 'vector<4x2xf32>'}}
    %rows = tile.slot_rows %a[%slice] : !tile.slots<vector<4x2xf32>> -> !tile.rows<vector<4xf32>>
    tile.end
  }
  return
}

// -----

// choose C1: no sequence.
func.func @choose(%o: tensor<?x?x?x4xf32>, %x: tensor<?xf32>) -> tensor<?x?x?x4xf32> {
  // expected-error @below {{'rows' must be a sequence, [B,T,H] or [B,T,H,C] (C1), but is 'tensor<?xf32>'}}
  %c = tile.choose single %o, several %o of %x : tensor<?x?x?x4xf32>, tensor<?xf32>
  return %c : tensor<?x?x?x4xf32>
}

// -----

// solve C1: another number of rows than the right-hand side.
func.func @solve(%q: tensor<?x?x?x16xf32>) {
  tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>) {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    %a = tile.load %qr[%slice, %slice] : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
    %b = tile.load %qr[%slice, %slice] : !tile.rows<vector<16xf32>> -> vector<32x16xf32>
    // expected-error @below {{the matrix must be square with as many rows as the right-hand side, 32 (C1), but is 'vector<16x16xf32>'}}
    %x = tile.solve %a, %b : vector<16x16xf32>, vector<32x16xf32>
    tile.end
  }
  return
}

// -----

// convert: what is no tile has no layout.
func.func @convert(%o: vector<4x4x4xf32>) -> vector<4x4x4xf32> {
  // expected-error @below {{operand #0 must be vector of}}
  %c = tile.convert %o to <lanes> : vector<4x4x4xf32>
  return %c : vector<4x4x4xf32>
}

// -----

// dot C3: an algorithm of f32 matmuls for 16-bit operands.
func.func @dot_in(%q: tensor<?x?x?x32xbf16>) {
  tile.program chunk 32 slices 1 sequences(%q : tensor<?x?x?x32xbf16>) {
  ^bb0(%qr: !tile.rows<vector<32xbf16>>, %length: index, %slice: index, %head: index, %heads: index):
    %a = tile.load %qr[%slice, %slice] : !tile.rows<vector<32xbf16>> -> vector<32x32xbf16>
    %zero = arith.constant dense<0.0> : vector<32x32xf32>
    // expected-error @below {{multiplies f32 matrices in bf16x6 (C3), but these are of 'bf16'}}
    %x = tile.dot %a, %a, %zero in bf16x6 : vector<32x32xbf16>, vector<32x32xbf16>, vector<32x32xf32>
    tile.end
  }
  return
}

// -----

// dot C5: tensor cores transpose no numbers of 32 bits.
func.func @dot_in_tf32(%q: tensor<?x?x?x32xf32>) {
  tile.program chunk 32 slices 1 sequences(%q : tensor<?x?x?x32xf32>) {
  ^bb0(%qr: !tile.rows<vector<32xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    %a = tile.load %qr[%slice, %slice] : !tile.rows<vector<32xf32>> -> vector<32x32xf32>
    // expected-error @below {{multiplies transposed operands in tf32 (C5)}}
    %x = tile.dot %a, %a transposed, %a in tf32 : vector<32x32xf32>, vector<32x32xf32>, vector<32x32xf32>
    tile.end
  }
  return
}

// -----

// round_to_tf32: of f32 alone.
func.func @round_to_tf32(%q: tensor<?x?x?x32xbf16>) {
  tile.program chunk 32 slices 1 sequences(%q : tensor<?x?x?x32xbf16>) {
  ^bb0(%qr: !tile.rows<vector<32xbf16>>, %length: index, %slice: index, %head: index, %heads: index):
    %a = tile.load %qr[%slice, %slice] : !tile.rows<vector<32xbf16>> -> vector<32x32xbf16>
    // expected-error @below {{operand #0 must be vector of 32-bit float values of ranks 2}}
    %x = tile.round_to_tf32 %a : vector<32x32xbf16>
    tile.end
  }
  return
}

// -----

// dot C2: no whole K steps of an MMA.
func.func @dot_over(%q: tensor<?x?x?x32xbf16>) {
  tile.program chunk 32 slices 1 sequences(%q : tensor<?x?x?x32xbf16>) {
  ^bb0(%qr: !tile.rows<vector<32xbf16>>, %length: index, %slice: index, %head: index, %heads: index):
    %a = tile.load %qr[%slice, %slice] : !tile.rows<vector<32xbf16>> -> vector<32x32xbf16>
    %zero = arith.constant dense<0.0> : vector<32x32xf32>
    // expected-error @below {{`over` must have two multiples of 16, with 0 <= from < to <= 32 (C2), but is array<i64: 8, 32>}}
    %x = tile.dot %a, %a, %zero over [8, 32] : vector<32x32xbf16>, vector<32x32xbf16>, vector<32x32xf32>
    tile.end
  }
  return
}

// -----

// dot C3: more rows than the result has.
func.func @dot_rows(%q: tensor<?x?x?x32xbf16>) {
  tile.program chunk 32 slices 1 sequences(%q : tensor<?x?x?x32xbf16>) {
  ^bb0(%qr: !tile.rows<vector<32xbf16>>, %length: index, %slice: index, %head: index, %heads: index):
    %a = tile.load %qr[%slice, %slice] : !tile.rows<vector<32xbf16>> -> vector<32x32xbf16>
    %zero = arith.constant dense<0.0> : vector<32x32xf32>
    // expected-error @below {{`rows` must have two multiples of 16, with 0 <= from < to <= 32 (C4), but is array<i64: 16, 48>}}
    %x = tile.dot %a, %a, %zero over [0, 16] rows [16, 48] : vector<32x32xbf16>, vector<32x32xbf16>, vector<32x32xf32>
    tile.end
  }
  return
}

// -----

// invert_diagonal C1: no whole blocks.
func.func @invert_diagonal(%q: tensor<?x?x?x24xf32>) {
  tile.program chunk 24 slices 1 sequences(%q : tensor<?x?x?x24xf32>) {
  ^bb0(%qr: !tile.rows<vector<24xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    %a = tile.load %qr[%slice, %slice] : !tile.rows<vector<24xf32>> -> vector<24x24xf32>
    // expected-error @below {{the matrix must be square, with a size that 16 divides (C1), but is 'vector<24x24xf32>'}}
    %x = tile.invert_diagonal %a blocks 16 : vector<24x24xf32>
    tile.end
  }
  return
}

// -----

// invert_diagonal C2: a thread would hold a column of 64 numbers.
func.func @invert_large_blocks(%q: tensor<?x?x?x64xf32>) {
  tile.program chunk 64 slices 1 sequences(%q : tensor<?x?x?x64xf32>) {
  ^bb0(%qr: !tile.rows<vector<64xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    %a = tile.load %qr[%slice, %slice] : !tile.rows<vector<64xf32>> -> vector<64x64xf32>
    // expected-error @below {{blocks must have 8 or 16 or 32 rows (C2), but have 64}}
    %x = tile.invert_diagonal %a blocks 64 : vector<64x64xf32>
    tile.end
  }
  return
}

// -----

// merge_inverses C1: no whole pairs.
func.func @merge_inverses(%q: tensor<?x?x?x48xf32>) {
  tile.program chunk 48 slices 1 sequences(%q : tensor<?x?x?x48xf32>) {
  ^bb0(%qr: !tile.rows<vector<48xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    %a = tile.load %qr[%slice, %slice] : !tile.rows<vector<48xf32>> -> vector<48x48xf32>
    // expected-error @below {{the matrix must be square, with a size that 32 divides (C1), but is 'vector<48x48xf32>'}}
    %x = tile.merge_inverses %a blocks 16 : vector<48x48xf32>
    tile.end
  }
  return
}

// -----

// merge_inverses C2: pairs of 32 rows.
func.func @merge_large_blocks(%q: tensor<?x?x?x64xf32>) {
  tile.program chunk 64 slices 1 sequences(%q : tensor<?x?x?x64xf32>) {
  ^bb0(%qr: !tile.rows<vector<64xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    %a = tile.load %qr[%slice, %slice] : !tile.rows<vector<64xf32>> -> vector<64x64xf32>
    // expected-error @below {{blocks must have 8 or 16 rows (C2), but have 32}}
    %x = tile.merge_inverses %a blocks 32 : vector<64x64xf32>
    tile.end
  }
  return
}

// -----

// tile.program C5: the interpreter had room for one number.
func.func @program_of_a_tensor(%x: tensor<1x3x1x2xf32>) {
  %o = tile.program chunk 16 slices 1 sequences(%x : tensor<1x3x1x2xf32>) outputs(tensor<1x3x1x2xf32>) {
  ^bb0(%xr: !tile.rows<vector<2xf32>>, %or: !tile.rows<vector<2xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    // expected-error@+1 {{has a result of type 'tensor<4xi32>'; a block program computes with numbers and vectors (C5)}}
    %c = arith.constant dense<[0, 3, 3, 5]> : tensor<4xi32>
    tile.end
  }
  return
}

// -----

// tile.program C1: a state without heads.
func.func @program_of_a_flat_state(%x: tensor<1x3x1x2xf32>) {
  // expected-error@+1 {{states must begin with [B,H] (C1), but one is 'tensor<2xf32>'}}
  %o, %s = tile.program chunk 16 slices 1 sequences(%x : tensor<1x3x1x2xf32>) outputs(tensor<1x3x1x2xf32>) finals(tensor<2xf32>) {
  ^bb0(%xr: !tile.rows<vector<2xf32>>, %or: !tile.rows<vector<2xf32>>, %sr: !tile.slots<vector<2xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    tile.end
  }
  return
}

// -----

// prefetch C1: not a matrix.
func.func @prefetch(%x: !tile.rows<vector<64xf32>>, %i: index) {
  // expected-error @+1 {{must be for a matrix (C1), but is for 'vector<64xf32>'}}
  tile.prefetch %x[%i, %i] for vector<64xf32> : !tile.rows<vector<64xf32>>
  return
}

// -----

// prefetch C1: of another type than the rows.
func.func @prefetch(%x: !tile.rows<vector<64xf32>>, %i: index) {
  // expected-error @+1 {{the tile of rows of 'vector<64xf32>' must be of rank 1 or 2 with their element type (C1), but is 'vector<64x64xbf16>'}}
  tile.prefetch %x[%i, %i] for vector<64x64xbf16> : !tile.rows<vector<64xf32>>
  return
}
