// RUN: ejk-opt %s --split-input-file --verify-diagnostics --ejk-interpret
// Bad accesses that a run of a program sees.

func.func @no_such_cell() {
  %q = check.random zero seed 0 : tensor<1x3x1xf32>
  %h = check.random zero seed 0 : tensor<1x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x3x1xf32>)
      initial(%h : tensor<1x1xf32>) outputs(tensor<1x3x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %hr: !tile.slots<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    // expected-error @below {{slot 3 is asked for, but there are 1}}
    %x = tile.load_slot %hr[%length] at () : !tile.slots<f32> -> f32
    tile.end
  }
  check.expect_equal %o, %o : tensor<1x3x1xf32>
  return
}

// -----

func.func @negative_channel() {
  %q = check.random zero seed 0 : tensor<1x3x1x4xf32>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x3x1x4xf32>)
      outputs(tensor<1x3x1xf32>) {
  ^bb0(%qr: !tile.rows<vector<4xf32>>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c = arith.constant -4 : index
    // expected-error @below {{the first channel must not be negative, but is -4}}
    %x = tile.load %qr[%head, %c] : !tile.rows<vector<4xf32>> -> vector<16x16xf32>
    tile.end
  }
  check.expect_equal %o, %o : tensor<1x3x1xf32>
  return
}

// -----

func.func @stores_to_operand() {
  %q = check.random zero seed 0 : tensor<1x3x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x3x1xf32>)
      outputs(tensor<1x3x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %x = tile.load %qr[%head, %head] : !tile.rows<f32> -> vector<16xf32>
    // expected-error @below {{stores to an operand of the program}}
    tile.store %x, %qr[%head, %head] : vector<16xf32>, !tile.rows<f32>
    tile.end
  }
  check.expect_equal %o, %o : tensor<1x3x1xf32>
  return
}

// -----

func.func @loads_output() {
  %q = check.random zero seed 0 : tensor<1x3x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x3x1xf32>)
      outputs(tensor<1x3x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    // expected-error @below {{loads what the program stores}}
    %x = tile.load %or[%head, %head] : !tile.rows<f32> -> vector<16xf32>
    tile.end
  }
  check.expect_equal %o, %o : tensor<1x3x1xf32>
  return
}

// -----

func.func @no_such_row() {
  %q = check.random zero seed 0 : tensor<1x16x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x16x1xf32>)
      outputs(tensor<1x16x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %x = tile.load %qr[%head, %head] : !tile.rows<f32> -> vector<16xf32>
    // expected-error @below {{position 16 lies outside a dimension of 16}}
    %y = vector.extract %x[%length] : f32 from vector<16xf32>
    tile.end
  }
  check.expect_equal %o, %o : tensor<1x16x1xf32>
  return
}

// -----

func.func @no_such_place() {
  %q = check.random zero seed 0 : tensor<1x16x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x16x1xf32>)
      outputs(tensor<1x16x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %x = tile.load %qr[%head, %head] : !tile.rows<f32> -> vector<16xf32>
    %m = arith.constant dense<0.0> : vector<8x16xf32>
    // expected-error @below {{position 16 lies outside a dimension of 8}}
    %y = vector.insert %x, %m[%length] : vector<16xf32> into vector<8x16xf32>
    tile.end
  }
  check.expect_equal %o, %o : tensor<1x16x1xf32>
  return
}

// -----

// What is not stored is undefined: here NaN, which no number equals.
func.func @not_stored() {
  %q = check.random zero seed 0 : tensor<1x3x1xf32>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x3x1xf32>)
      outputs(tensor<1x3x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    tile.end
  }
  // expected-error @below {{3 of 3 elements differ}}
  check.expect_equal %o, %q : tensor<1x3x1xf32>
  return
}

// -----

func.func @saved_states_of_another_grid() {
  %q = check.random zero seed 0 : tensor<1x33x1xf32>
  %s = check.random zero seed 0 : tensor<3x1xf32>
  // expected-error @below {{'saved state 0' must be [M,H] with M = 2 as the grid of saved states has it, but its shape is [3, 1]}}
  %o = tile.program chunk 16 save_every 32 slices 1 sequences(%q : tensor<1x33x1xf32>)
      saved(%s : tensor<3x1xf32>) outputs(tensor<1x33x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %sr: !tile.slots<f32>, %or: !tile.rows<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    tile.end
  }
  check.expect_equal %o, %o : tensor<1x33x1xf32>
  return
}
