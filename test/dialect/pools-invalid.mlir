// RUN: ejk-opt %s --split-input-file --verify-diagnostics
// Bad pools, for the constraint of ejk.read_states and ejk.write_states.

// C1: an index for another number of sequences.
func.func @c1_index(%pool: tensor<9x2x4x4xf32>, %index: tensor<3xi32>) {
  // expected-error@+1 {{'states' must be [N,H,K,V] (C1) with N = 3 as 'index' has it, but dimension 0 is 5}}
  %0 = ejk.read_states %pool at %index
      : tensor<9x2x4x4xf32>, tensor<3xi32> -> tensor<5x2x4x4xf32>
  return
}

// -----

// C1: other heads.
func.func @c1_heads(%pool: tensor<9x2x4x4xf32>, %states: tensor<3x1x4x4xf32>, %index: tensor<3xi32>) {
  // expected-error@+1 {{'states' must be [N,H,K,V] (C1) with H = 2 as 'pool' has it, but dimension 1 is 1}}
  %0 = ejk.write_states %states to %pool at %index
      : tensor<3x1x4x4xf32>, tensor<9x2x4x4xf32>, tensor<3xi32>
  return
}

// -----

// C1: channels that are not known.
func.func @c1_channels(%pool: tensor<9x2x?x4xf32>, %index: tensor<3xi32>) {
  // expected-error@+1 {{pool and states must have static K and V from 1 to 512 (C1), but one is 'tensor<9x2x?x4xf32>'}}
  %0 = ejk.read_states %pool at %index
      : tensor<9x2x?x4xf32>, tensor<3xi32> -> tensor<3x2x4x4xf32>
  return
}
