// RUN: ejk-opt %s --split-input-file --ejk-assign-tile-layouts --verify-diagnostics

// Tensor cores multiply 16-bit numbers.
func.func @wide(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>)
      outputs(tensor<?x?x?x16xf32>) {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : vector<16x16xf32>
    %qt = tile.load %qr[%c0, %c0] : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
    // expected-error @+1 {{multiplies tiles of 'f32'; tensor cores take bf16 or f16, or f32 in bf16 terms ('in bf16x6')}}
    %p = tile.dot %qt, %qt, %zero : vector<16x16xf32>, vector<16x16xf32>, vector<16x16xf32>
    tile.store %p, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// -----

func.func @odd(%q: tensor<?x?x?x60xbf16>) -> tensor<?x?x?x60xbf16> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x60xbf16>)
      outputs(tensor<?x?x?x60xbf16>) {
  ^bb0(%qr: !tile.rows<vector<60xbf16>>, %or: !tile.rows<vector<60xbf16>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    // expected-error @+1 {{has a tile of 'vector<16x60xbf16>'; tensor cores take matrices whose sizes are multiples of 16}}
    %qt = tile.load %qr[%c0, %c0] : !tile.rows<vector<60xbf16>> -> vector<16x60xbf16>
    tile.store %qt, %or[%c0, %c0] : vector<16x60xbf16>, !tile.rows<vector<60xbf16>>
    tile.end
  }
  return %o : tensor<?x?x?x60xbf16>
}

// -----

func.func @shaped(%q: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?xf32>)
      outputs(tensor<?x?x?xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %qt = tile.load %qr[%c0, %c0] : !tile.rows<f32> -> vector<16xf32>
    // expected-error @+1 {{'vector.shape_cast' cannot be lowered in a block program}}
    %m = vector.shape_cast %qt : vector<16xf32> to vector<16xf32>
    tile.store %qt, %or[%c0, %c0] : vector<16xf32>, !tile.rows<f32>
    tile.end
  }
  return %o : tensor<?x?x?xf32>
}

// -----

func.func @number(%q: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?xf32>)
      outputs(tensor<?x?x?xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %one = arith.constant 1.0 : f32
    %qt = tile.load %qr[%c0, %c0] : !tile.rows<f32> -> vector<16xf32>
    // expected-error @+1 {{puts a number into a tile; rows can be put into a matrix}}
    %m = vector.insert %one, %qt[%c0] : f32 into vector<16xf32>
    tile.store %m, %or[%c0, %c0] : vector<16xf32>, !tile.rows<f32>
    tile.end
  }
  return %o : tensor<?x?x?xf32>
}
