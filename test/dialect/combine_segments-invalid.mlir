// RUN: ejk-opt %s --split-input-file --verify-diagnostics
// One or more bad ops for each numbered constraint of ejk.combine_segments.

// C1: a transition has K rows and columns.
func.func @c1_square(%x: tensor<6x2x4x3xf32>, %m: tensor<6x2x4x3xf32>, %v: tensor<2x9x2x3xf32>) {
  // expected-error@+1 {{the totals must be [S,H,K,V] and the transitions [S,H,K,K], with static K and V (C1)}}
  %0:2 = ejk.combine_segments %x by %m like %v : tensor<6x2x4x3xf32>, tensor<6x2x4x3xf32>, tensor<2x9x2x3xf32> -> tensor<6x2x4x3xf32>, tensor<2x2x4x3xf32>
  return
}

// -----

// C1: one for each segment.
func.func @c1_segments(%x: tensor<6x2x4x3xf32>, %m: tensor<5x2x4x4xf32>, %v: tensor<2x9x2x3xf32>) {
  // expected-error@+1 {{(C1), but they are 'tensor<6x2x4x3xf32>' and 'tensor<5x2x4x4xf32>'}}
  %0:2 = ejk.combine_segments %x by %m like %v : tensor<6x2x4x3xf32>, tensor<5x2x4x4xf32>, tensor<2x9x2x3xf32> -> tensor<6x2x4x3xf32>, tensor<2x2x4x3xf32>
  return
}

// -----

// C2: the starts are of segments.
func.func @c2_starts(%x: tensor<6x2x4x3xf32>, %m: tensor<6x2x4x4xf32>, %v: tensor<2x9x2x3xf32>) {
  // expected-error@+1 {{the tensor of starts must have the sizes of the totals, 'tensor<6x2x4x3xf32>' (C2), but is 'tensor<2x2x4x3xf32>'}}
  %0:2 = ejk.combine_segments %x by %m like %v : tensor<6x2x4x3xf32>, tensor<6x2x4x4xf32>, tensor<2x9x2x3xf32> -> tensor<2x2x4x3xf32>, tensor<2x2x4x3xf32>
  return
}

// -----

// C2: the initial state has K rows.
func.func @c2_initial(%x: tensor<6x2x4x3xf32>, %m: tensor<6x2x4x4xf32>, %h0: tensor<2x2x3x3xf32>, %v: tensor<2x9x2x3xf32>) {
  // expected-error@+1 {{the initial state must have the sizes of the totals}}
  %0:2 = ejk.combine_segments %x by %m from %h0 : tensor<2x2x3x3xf32> like %v : tensor<6x2x4x3xf32>, tensor<6x2x4x4xf32>, tensor<2x9x2x3xf32> -> tensor<6x2x4x3xf32>, tensor<2x2x4x3xf32>
  return
}

// -----

// C3: a number for each segment and head.
func.func @c3_remembered(%x: tensor<6x2x4x3xf32>, %m: tensor<6x2x4x4xf32>, %r: tensor<6x3xf32>, %v: tensor<2x9x2x3xf32>) {
  // expected-error@+1 {{'remembered' must be [S,H] (C3), but is 'tensor<6x3xf32>'}}
  %0:2 = ejk.combine_segments %x by %m where(%r : tensor<6x3xf32>) like %v : tensor<6x2x4x3xf32>, tensor<6x2x4x4xf32>, tensor<2x9x2x3xf32> -> tensor<6x2x4x3xf32>, tensor<2x2x4x3xf32>
  return
}
