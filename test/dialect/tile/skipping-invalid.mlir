// RUN: ejk-opt %s --split-input-file --verify-diagnostics
// Bad flags and bad starts of results.

// program C7: no such result.
func.func @into(%x: tensor<?x?x?xf32>, %f: tensor<?x?xf32>) -> tensor<?x?x?xf32> {
  // expected-error @below {{'into' must have a tensor of its type for each result in 'at', whose numbers must rise (C7)}}
  %o, %ht = tile.program chunk 16 slices 1 sequences(%x : tensor<?x?x?xf32>) into(%x : tensor<?x?x?xf32>) at [2]
      outputs(tensor<?x?x?xf32>) finals(tensor<?x?xf32>) {
  ^bb0(%xr: !tile.rows<f32>, %or: !tile.rows<f32>, %hr: !tile.slots<f32>, %length: index, %slice: index, %head: index, %heads: index):
    tile.end
  }
  return %o : tensor<?x?x?xf32>
}

// -----

// program C7: two numbers for one tensor.
func.func @into(%x: tensor<?x?x?xf32>, %f: tensor<?x?xf32>) -> tensor<?x?x?xf32> {
  // expected-error @below {{'into' must have a tensor of its type for each result in 'at', whose numbers must rise (C7)}}
  %o, %ht = tile.program chunk 16 slices 1 sequences(%x : tensor<?x?x?xf32>) into(%x : tensor<?x?x?xf32>) at [0, 1]
      outputs(tensor<?x?x?xf32>) finals(tensor<?x?xf32>) {
  ^bb0(%xr: !tile.rows<f32>, %or: !tile.rows<f32>, %hr: !tile.slots<f32>, %length: index, %slice: index, %head: index, %heads: index):
    tile.end
  }
  return %o : tensor<?x?x?xf32>
}

// -----

// program C7: numbers that fall.
func.func @into(%x: tensor<?x?x?xf32>, %f: tensor<?x?xf32>) -> tensor<?x?x?xf32> {
  // expected-error @below {{'into' must have a tensor of its type for each result in 'at', whose numbers must rise (C7)}}
  %o, %ht = tile.program chunk 16 slices 1 sequences(%x : tensor<?x?x?xf32>) into(%f, %x : tensor<?x?xf32>, tensor<?x?x?xf32>) at [1, 0]
      outputs(tensor<?x?x?xf32>) finals(tensor<?x?xf32>) {
  ^bb0(%xr: !tile.rows<f32>, %or: !tile.rows<f32>, %hr: !tile.slots<f32>, %length: index, %slice: index, %head: index, %heads: index):
    tile.end
  }
  return %o : tensor<?x?x?xf32>
}

// -----

// program C7: another type.
func.func @into(%x: tensor<?x?x?xf32>, %f: tensor<?x?xf32>) -> tensor<?x?x?xf32> {
  // expected-error @below {{'into' must have a tensor of its type for each result in 'at', whose numbers must rise (C7)}}
  %o, %ht = tile.program chunk 16 slices 1 sequences(%x : tensor<?x?x?xf32>) into(%f : tensor<?x?xf32>) at [0]
      outputs(tensor<?x?x?xf32>) finals(tensor<?x?xf32>) {
  ^bb0(%xr: !tile.rows<f32>, %or: !tile.rows<f32>, %hr: !tile.slots<f32>, %length: index, %slice: index, %head: index, %heads: index):
    tile.end
  }
  return %o : tensor<?x?x?xf32>
}

// -----

// program C7: flags of another rank.
func.func @into(%x: tensor<?x?x?xf32>, %f: tensor<?x?xf32>) -> tensor<?x?x?xf32> {
  // expected-error @below {{'skipping' must have a number for each sequence and head (C7), but is 'tensor<?x?x?xf32>'}}
  %o, %ht = tile.program chunk 16 slices 1 sequences(%x : tensor<?x?x?xf32>) skipping(%x : tensor<?x?x?xf32>)
      outputs(tensor<?x?x?xf32>) finals(tensor<?x?xf32>) {
  ^bb0(%xr: !tile.rows<f32>, %or: !tile.rows<f32>, %hr: !tile.slots<f32>, %length: index, %slice: index, %head: index, %heads: index):
    tile.end
  }
  return %o : tensor<?x?x?xf32>
}
