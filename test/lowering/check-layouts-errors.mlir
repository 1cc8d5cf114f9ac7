// What a laid-out block program must hold before kernels are made of it: a layout for each tile, that
// fits its type, the program's warps and the ops that use it.
// RUN: ejk-opt %s --split-input-file --ejk-describe-interface --ejk-plan-memory=arch=sm_90a --ejk-lower-to-gpu=arch=sm_90a --verify-diagnostics
// RUN: not ejk-opt %s --split-input-file --ejk-describe-interface --ejk-select-stages=arch=sm_90a -o /dev/null 2>&1 | FileCheck %s --check-prefix=STAGES
// STAGES: error: makes a tile that has no layout

func.func @bare(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  // expected-error @+1 {{is not laid out; run --ejk-assign-tile-layouts first}}
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>)
      outputs(tensor<?x?x?x16xf32>) {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %f = tile.load %qr[%c0, %c0] : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
    tile.store %f, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// -----

func.func @no_warps(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  // expected-error @+1 {{must be laid out for 1 to 32 warps, not 0}}
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>)
      outputs(tensor<?x?x?x16xf32>) attributes {tile.warps = 0 : i64} {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %t = tile.load %qr[%c0, %c0] {tile.layouts = [#tile.layout<shared>]} : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
    %f = tile.convert %t to <fragments over 1 by 1> : vector<16x16xf32>
    tile.store %f, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// -----

func.func @three_warps_in_groups(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  // expected-error @+1 {{must be laid out for 1 to 32 warps in groups of four, not 3}}
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>)
      outputs(tensor<?x?x?x16xf32>) attributes {tile.warps = 3 : i64, tile.warpgroups} {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %t = tile.load %qr[%c0, %c0] {tile.layouts = [#tile.layout<shared>]} : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
    %f = tile.convert %t to <fragments over 1 by 1> : vector<16x16xf32>
    tile.store %f, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// -----

func.func @no_layout(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>)
      outputs(tensor<?x?x?x16xf32>) attributes {tile.warps = 4 : i64} {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    // expected-error @+1 {{makes a tile that has no layout}}
    %t = tile.load %qr[%c0, %c0] : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
    %f = tile.convert %t to <fragments over 1 by 1> : vector<16x16xf32>
    tile.store %f, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// -----

func.func @too_few_layouts(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>)
      outputs(tensor<?x?x?x16xf32>) attributes {tile.warps = 4 : i64} {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    // expected-error @+1 {{makes a tile that has no layout}}
    %t = tile.load %qr[%c0, %c0] {tile.layouts = []} : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
    %f = tile.convert %t to <fragments over 1 by 1> : vector<16x16xf32>
    tile.store %f, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// -----

func.func @vector_layout_of_matrix(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>)
      outputs(tensor<?x?x?x16xf32>) attributes {tile.warps = 4 : i64} {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %t = tile.load %qr[%c0, %c0] {tile.layouts = [#tile.layout<shared>]} : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
    // expected-error @+1 {{only vectors lie over lanes}}
    %f = tile.convert %t to <lanes> : vector<16x16xf32>
    tile.store %f, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// -----

func.func @no_parts(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>)
      outputs(tensor<?x?x?x16xf32>) attributes {tile.warps = 4 : i64} {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %t = tile.load %qr[%c0, %c0] {tile.layouts = [#tile.layout<shared>]} : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
    // expected-error @+1 {{as many parts as there are warps at most}}
    %f = tile.convert %t to <fragments> : vector<16x16xf32>
    tile.store %f, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// -----

func.func @overflowing_parts(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>)
      outputs(tensor<?x?x?x16xf32>) attributes {tile.warps = 4 : i64} {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %t = tile.load %qr[%c0, %c0] {tile.layouts = [#tile.layout<shared>]} : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
    // expected-error @+1 {{as many parts as there are warps at most}}
    %f = tile.convert %t to <fragments over 9223372036854775807 by 3> : vector<16x16xf32>
    tile.store %f, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// -----

func.func @parts_of_half_a_block(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>)
      outputs(tensor<?x?x?x16xf32>) attributes {tile.warps = 4 : i64} {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %t = tile.load %qr[%c0, %c0] {tile.layouts = [#tile.layout<shared>]} : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
    // expected-error @+1 {{parts are of whole 16x16 blocks}}
    %f = tile.convert %t to <fragments over 2 by 1> : vector<16x16xf32>
    tile.store %f, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// -----

func.func @panels_of_f32(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>)
      outputs(tensor<?x?x?x16xf32>) attributes {tile.warps = 4 : i64} {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    // expected-error @+1 {{a swizzled tile is a matrix of floats in blocks of 128 bytes}}
    %t = tile.load %qr[%c0, %c0] {tile.layouts = [#tile.layout<swizzled>]} : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
    %f = tile.convert %t to <fragments over 1 by 1> : vector<16x16xf32>
    tile.store %f, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// -----

func.func @words_of_16_columns(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>)
      outputs(tensor<?x?x?x16xf32>) attributes {tile.warps = 4 : i64} {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    // expected-error @+1 {{it takes a matrix of f32 in blocks of 8 by 32}}
    %t = tile.load %qr[%c0, %c0] {tile.layouts = [#tile.layout<swizzled_words>]} : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
    %f = tile.convert %t to <fragments over 1 by 1> : vector<16x16xf32>
    tile.store %f, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// -----

// Rows are copied there, and threads read them.
func.func @stored_as_words(%q: tensor<?x?x?x32xf32>) -> tensor<?x?x?x32xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x32xf32>)
      outputs(tensor<?x?x?x32xf32>) attributes {tile.warps = 4 : i64} {
  ^bb0(%qr: !tile.rows<vector<32xf32>>, %or: !tile.rows<vector<32xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %t = tile.load %qr[%c0, %c0] {tile.layouts = [#tile.layout<fragments over 1 by 1>]} : !tile.rows<vector<32xf32>> -> vector<16x32xf32>
    // expected-error @+1 {{a conversion goes from registers to others}}
    %s = tile.convert %t to <swizzled_words> : vector<16x32xf32>
    %f = tile.convert %s to <fragments over 1 by 1> : vector<16x32xf32>
    tile.store %f, %or[%c0, %c0] : vector<16x32xf32>, !tile.rows<vector<32xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x32xf32>
}

// -----

// Elements that differ are no one number.
func.func @to_uniform(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>)
      outputs(tensor<?x?x?x16xf32>) attributes {tile.warps = 4 : i64} {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %t = tile.load %qr[%c0, %c0] {tile.layouts = [#tile.layout<shared>]} : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
    // expected-error @+1 {{a conversion goes from registers to others}}
    %f = tile.convert %t to <uniform> : vector<16x16xf32>
    tile.store %f, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// -----

func.func @stored_from_shared(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>)
      outputs(tensor<?x?x?x16xf32>) attributes {tile.warps = 4 : i64} {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %t = tile.load %qr[%c0, %c0] {tile.layouts = [#tile.layout<shared>]} : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
    // expected-error @+1 {{memory is read and written in fragments or lanes}}
    tile.store %t, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// -----

func.func @stored_to_input(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>)
      outputs(tensor<?x?x?x16xf32>) attributes {tile.warps = 4 : i64} {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %t = tile.load %qr[%c0, %c0] {tile.layouts = [#tile.layout<shared>]} : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
    %f = tile.convert %t to <fragments over 1 by 1> : vector<16x16xf32>
    // expected-error @+1 {{stores to what the program only reads}}
    tile.store %f, %qr[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// -----

func.func @loaded_from_output(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>)
      outputs(tensor<?x?x?x16xf32>) attributes {tile.warps = 4 : i64} {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    // expected-error @+1 {{loads what the program only stores}}
    %t = tile.load %or[%c0, %c0] {tile.layouts = [#tile.layout<shared>]} : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
    %f = tile.convert %t to <fragments over 1 by 1> : vector<16x16xf32>
    tile.store %f, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// -----

func.func @uniform_sums(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>)
      outputs(tensor<?x?x?x16xf32>) attributes {tile.warps = 4 : i64} {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %z = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<1.0> : vector<16x16xf32>
    // expected-error @+1 {{running sums take lanes, or fragments}}
    %f = tile.cumsum %z {tile.layouts = [#tile.layout<uniform>]} : vector<16x16xf32>
    tile.store %f, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// -----

func.func @constant_in_fragments(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>)
      outputs(tensor<?x?x?x16xf32>) attributes {tile.warps = 4 : i64} {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    // expected-error @+1 {{a constant is uniform}}
    %f = arith.constant {tile.layouts = [#tile.layout<fragments over 1 by 1>]} dense<1.0> : vector<16x16xf32>
    tile.store %f, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// -----

func.func @mixed_operands(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>)
      outputs(tensor<?x?x?x16xf32>) attributes {tile.warps = 4 : i64} {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %t = tile.load %qr[%c0, %c0] {tile.layouts = [#tile.layout<shared>]} : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
    %f = tile.convert %t to <fragments over 1 by 1> : vector<16x16xf32>
    // expected-error @+1 {{an operand lies as the result does}}
    %g = arith.negf %t {tile.layouts = [#tile.layout<fragments over 1 by 1>]} : vector<16x16xf32>
    tile.store %f, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// -----

func.func @product_of_f32(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>)
      outputs(tensor<?x?x?x16xf32>) attributes {tile.warps = 4 : i64} {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %t = tile.load %qr[%c0, %c0] {tile.layouts = [#tile.layout<shared>]} : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
    %z = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<0.0> : vector<16x16xf32>
    // expected-error @+1 {{multiplies tiles of 'f32'; tensor cores take bf16 or f16, or f32 in bf16 terms ('in bf16x6')}}
    %f = tile.dot %t, %t, %z {tile.layouts = [#tile.layout<fragments over 1 by 1>]} : vector<16x16xf32>, vector<16x16xf32>, vector<16x16xf32>
    tile.store %f, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// -----

func.func @no_one_in_none(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>)
      outputs(tensor<?x?x?x16xf32>) attributes {tile.warps = 4 : i64} {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %t = tile.load %qr[%c0, %c0] {tile.layouts = [#tile.layout<shared>]} : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
    %f = tile.convert %t to <fragments over 1 by 1> : vector<16x16xf32>
    // expected-error @+1 {{'tile.polynomial' must be a positive number}}
    %e = math.exp %f {tile.layouts = [#tile.layout<fragments over 1 by 1>], tile.polynomial = 0 : i64} : vector<16x16xf32>
    tile.store %f, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// -----

func.func @foreign_op(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>)
      outputs(tensor<?x?x?x16xf32>) attributes {tile.warps = 4 : i64} {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    // expected-error @+1 {{has a result of type 'memref<4xf32>'; a block program computes with numbers and vectors (C5)}}
    %m = memref.alloc() : memref<4xf32>
    %t = tile.load %qr[%c0, %c0] {tile.layouts = [#tile.layout<shared>]} : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
    %f = tile.convert %t to <fragments over 1 by 1> : vector<16x16xf32>
    tile.store %f, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// -----

func.func @unsigned_loop(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>)
      outputs(tensor<?x?x?x16xf32>) attributes {tile.warps = 4 : i64} {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %t = tile.load %qr[%c0, %c0] {tile.layouts = [#tile.layout<shared>]} : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
    %f = tile.convert %t to <fragments over 1 by 1> : vector<16x16xf32>
    %c1 = arith.constant 1 : index
    // expected-error @+1 {{counts by another type than a signed index}}
    scf.for unsigned %i = %c0 to %length step %c1 {
    }
    tile.store %f, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// -----

// Upstream's canonicalizer drops what a loop carries unchanged, and not its layout.
func.func @more_layouts_than_results(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>)
      outputs(tensor<?x?x?x16xf32>) attributes {tile.warps = 1 : i64} {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    // expected-error @+1 {{has more layouts than results: 1 for 0}}
    scf.for %i = %c0 to %length step %c16 {
      %t = tile.load %qr[%i, %c0] {tile.layouts = [#tile.layout<shared>]} : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
      tile.store %t, %or[%i, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    } {tile.layouts = [#tile.layout<shared>]}
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// -----

// A loop is looked at before the ops in it.
func.func @loop_of_no_layout(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>)
      outputs(tensor<?x?x?x16xf32>) attributes {tile.warps = 1 : i64} {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    %t = tile.load %qr[%c0, %c0] {tile.layouts = [#tile.layout<shared>]} : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
    %f = tile.convert %t to <fragments over 1 by 1> : vector<16x16xf32>
    %r = scf.for %i = %c0 to %length step %c16 iter_args(%a = %f) -> (vector<16x16xf32>) {
      %n = arith.addf %a, %f : vector<16x16xf32>
      // expected-error @+1 {{uses a tile that has no layout}}
      scf.yield %n : vector<16x16xf32>
    } {tile.layouts = [#tile.layout<fragments over 1 by 1>]}
    tile.store %r, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// -----

func.func @branch_of_no_layout(%q: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<?x?x?x16xf32>)
      outputs(tensor<?x?x?x16xf32>) attributes {tile.warps = 1 : i64} {
  ^bb0(%qr: !tile.rows<vector<16xf32>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %t = tile.load %qr[%c0, %c0] {tile.layouts = [#tile.layout<shared>]} : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
    %f = tile.convert %t to <fragments over 1 by 1> : vector<16x16xf32>
    %isFirst = arith.cmpi eq, %head, %c0 : index
    %r = scf.if %isFirst -> (vector<16x16xf32>) {
      %n = arith.addf %f, %f : vector<16x16xf32>
      // expected-error @+1 {{uses a tile that has no layout}}
      scf.yield %n : vector<16x16xf32>
    } else {
      scf.yield %f : vector<16x16xf32>
    } {tile.layouts = [#tile.layout<fragments over 1 by 1>]}
    tile.store %r, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x16xf32>
}

// -----

func.func @operand_a_in_tf32_from_shared(%q: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%q : tensor<?x?x?x64xf32>)
      outputs(tensor<?x?x?x64xf32>) attributes {tile.warps = 4 : i64, tile.warpgroups} {
  ^bb0(%qr: !tile.rows<vector<64xf32>>, %or: !tile.rows<vector<64xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %zero = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<0.0> : vector<64x64xf32>
    %t = tile.load %qr[%c0, %c0] {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : !tile.rows<vector<64xf32>> -> vector<64x64xf32>
    %r = tile.round_to_tf32 %t {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : vector<64x64xf32>
    %b = tile.convert %r to <swizzled> : vector<64x64xf32>
    // expected-error @+1 {{warpgroups multiply in tf32, an operand A in fragments by a swizzled operand B whose rows lie along the sum}}
    %x = tile.dot %b, %b, %zero in tf32 {tile.layouts = [#tile.layout<transposed_fragments over 4 by 1>]} : vector<64x64xf32>, vector<64x64xf32>, vector<64x64xf32>
    %f = tile.convert %x to <fragments over 4 by 1> : vector<64x64xf32>
    tile.store %f, %or[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x64xf32>
}

// -----

func.func @rows_of_f32_swizzled(%q: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%q : tensor<?x?x?x64xf32>)
      outputs(tensor<?x?x?x64xf32>) attributes {tile.warps = 4 : i64, tile.warpgroups} {
  ^bb0(%qr: !tile.rows<vector<64xf32>>, %or: !tile.rows<vector<64xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    // expected-error @+1 {{makes a swizzled tile of f32, which only conversions of fragments of its orientation do}}
    %t = tile.load %qr[%c0, %c0] {tile.layouts = [#tile.layout<swizzled>]} : !tile.rows<vector<64xf32>> -> vector<64x64xf32>
    %f = tile.convert %t to <fragments over 4 by 1> : vector<64x64xf32>
    tile.store %f, %or[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x64xf32>
}

// -----

func.func @f32_swizzled_from_others(%q: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%q : tensor<?x?x?x64xf32>)
      outputs(tensor<?x?x?x64xf32>) attributes {tile.warps = 4 : i64, tile.warpgroups} {
  ^bb0(%qr: !tile.rows<vector<64xf32>>, %or: !tile.rows<vector<64xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %t = tile.load %qr[%c0, %c0] {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : !tile.rows<vector<64xf32>> -> vector<64x64xf32>
    // expected-error @+1 {{makes a swizzled tile of f32, which only conversions of fragments of its orientation do}}
    %s = tile.convert %t to <transposed_swizzled> : vector<64x64xf32>
    %f = tile.convert %s to <fragments over 4 by 1> : vector<64x64xf32>
    tile.store %f, %or[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x64xf32>
}

// -----

func.func @f32_swizzled_to_others(%q: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = tile.program chunk 64 slices 1 sequences(%q : tensor<?x?x?x64xf32>)
      outputs(tensor<?x?x?x64xf32>) attributes {tile.warps = 4 : i64, tile.warpgroups} {
  ^bb0(%qr: !tile.rows<vector<64xf32>>, %or: !tile.rows<vector<64xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %t = tile.load %qr[%c0, %c0] {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : !tile.rows<vector<64xf32>> -> vector<64x64xf32>
    %s = tile.convert %t to <swizzled> : vector<64x64xf32>
    // expected-error @+1 {{reads a swizzled tile of f32, which only matmuls in tf32 do, and conversions to fragments of its orientation}}
    %f = tile.convert %s to <transposed_fragments over 4 by 1> : vector<64x64xf32>
    tile.store %f, %or[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x64xf32>
}
