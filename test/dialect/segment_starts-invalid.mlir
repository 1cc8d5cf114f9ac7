// RUN: ejk-opt %s --split-input-file --verify-diagnostics
// One or more bad ops for each numbered constraint of ejk.segment_starts.

// C1: states are K×V.
func.func @c1_rank(%x: tensor<5x2x4xf32>, %v: tensor<2x9x2x3xf32>) {
  // expected-error@+1 {{the saved states must be [slots,H,K,V], with static K and V (C1), but are 'tensor<5x2x4xf32>'}}
  %0 = ejk.segment_starts %x every 4 like %v : tensor<5x2x4xf32>, tensor<2x9x2x3xf32> -> tensor<6x2x4x3xf32>
  return
}

// -----

// C2: 9 rows are three segments of 4, of two batch entries.
func.func @c2_starts(%x: tensor<6x2x4x3xf32>, %v: tensor<2x9x2x3xf32>) {
  // expected-error@+1 {{the tensor of starts must have the sizes of the saved states, 'tensor<6x2x4x3xf32>', for each of its own (C2), but is 'tensor<4x2x4x3xf32>'}}
  %0 = ejk.segment_starts %x every 4 like %v : tensor<6x2x4x3xf32>, tensor<2x9x2x3xf32> -> tensor<4x2x4x3xf32>
  return
}

// -----

// C2: an initial state for each sequence.
func.func @c2_initial(%x: tensor<6x2x4x3xf32>, %h0: tensor<6x2x4x3xf32>, %v: tensor<2x9x2x3xf32>) {
  // expected-error@+1 {{the initial state must have the sizes of the saved states}}
  %0 = ejk.segment_starts %x every 4 from %h0 : tensor<6x2x4x3xf32> like %v : tensor<6x2x4x3xf32>, tensor<2x9x2x3xf32> -> tensor<6x2x4x3xf32>
  return
}

// -----

// C3: no rows.
func.func @c3(%x: tensor<6x2x4x3xf32>, %v: tensor<2x9x2x3xf32>) {
  // expected-error@+1 {{'every' must be from 1 to 1073741824 (C3), but is 0}}
  %0 = ejk.segment_starts %x every 0 like %v : tensor<6x2x4x3xf32>, tensor<2x9x2x3xf32> -> tensor<6x2x4x3xf32>
  return
}
