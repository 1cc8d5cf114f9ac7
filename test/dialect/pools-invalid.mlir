// RUN: ejk-opt %s --split-input-file --verify-diagnostics
// Bad pools, for the constraints of ejk.read_states, ejk.write_states and ejk.zero_skipped.

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

// -----

// C1 of ejk.read_states: value-major pools have values before keys.
func.func @c1_value_major(%pool: tensor<9x2x4x8xf32>, %index: tensor<3xi32>) {
  // expected-error@+1 {{'states' must be [N,H,K,V] (C1) with K = 8 as 'pool' has it, but dimension 2 is 4}}
  %0 = ejk.read_states %pool at %index value_major
      : tensor<9x2x4x8xf32>, tensor<3xi32> -> tensor<3x2x4x8xf32>
  return
}

// -----

// C1 of ejk.read_states: a vector has no axes to turn.
func.func @c1_turned_vector(%pool: tensor<9x2x4xf32>, %index: tensor<3xi32>) {
  // expected-error@+1 {{has 'value_major', which is for matrices (C1), but its states are 'tensor<3x2x4xf32>'}}
  %0 = ejk.read_states %pool at %index value_major
      : tensor<9x2x4xf32>, tensor<3xi32> -> tensor<3x2x4xf32>
  return
}

// -----

// C2 of ejk.read_states: the slots of drafted rows need the number that is accepted.
func.func @c2_accepted(%pool: tensor<9x2x4x4xf32>, %index: tensor<3x2xi32>) {
  // expected-error@+1 {{'index' must be [N] (C2), rank 1, but has rank 2}}
  %0 = ejk.read_states %pool at %index
      : tensor<9x2x4x4xf32>, tensor<3x2xi32> -> tensor<3x2x4x4xf32>
  return
}

// -----

// C2 of ejk.write_states: states after each row are matrices.
func.func @c2_vectors(%pool: tensor<9x2x4xf32>, %states: tensor<9x2x4xf32>, %index: tensor<3x2xi32>) {
  // expected-error@+1 {{writes states after each row, which must be matrices (C2)}}
  %0 = ejk.write_states %states to %pool at %index
      : tensor<9x2x4xf32>, tensor<9x2x4xf32>, tensor<3x2xi32>
  return
}

// -----

// C3 of ejk.write_states: final states have no rows.
func.func @c3_offsets(%pool: tensor<9x2x4x4xf32>, %states: tensor<3x2x4x4xf32>,
                      %index: tensor<3xi32>, %cu: tensor<4xi32>) {
  // expected-error@+1 {{has 'cu_seqlens', which an index [N,T] alone takes (C3)}}
  %0 = ejk.write_states %states to %pool at %index cu_seqlens(%cu : tensor<4xi32>)
      : tensor<3x2x4x4xf32>, tensor<9x2x4x4xf32>, tensor<3xi32>
  return
}

// -----

// C1 of ejk.zero_skipped: rows of as many sequences as there are indices.
func.func @c1_rows(%rows: tensor<3x1x2x4xf32>, %pool: tensor<9x2x4x4xf32>, %index: tensor<2xi32>) {
  // expected-error@+1 {{'indices' must be}}
  %0 = ejk.zero_skipped %rows of %pool at %index
      : tensor<3x1x2x4xf32>, tensor<9x2x4x4xf32>, tensor<2xi32>
  return
}

// -----

// C1 of ejk.zero_skipped: packed rows are one entry.
func.func @c1_packed(%rows: tensor<3x1x2x4xf32>, %pool: tensor<9x2x4x4xf32>, %index: tensor<2xi32>,
                     %cu: tensor<3xi32>) {
  // expected-error@+1 {{must have rows [1,T,…] with 'cu_seqlens' (C1)}}
  %0 = ejk.zero_skipped %rows of %pool at %index cu_seqlens(%cu : tensor<3xi32>)
      : tensor<3x1x2x4xf32>, tensor<9x2x4x4xf32>, tensor<2xi32>
  return
}

// -----

// C2 of ejk.zero_skipped: one index to read and one to write.
func.func @c2_indices(%rows: tensor<3x1x2x4xf32>, %pool: tensor<9x2x4x4xf32>, %index: tensor<3xi32>) {
  // expected-error@+1 {{must have 1 or 2 indices (C2), but has 3}}
  %0 = ejk.zero_skipped %rows of %pool at %index, %index, %index
      : tensor<3x1x2x4xf32>, tensor<9x2x4x4xf32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>
  return
}

// -----

// C3 of ejk.read_states: no index before the pool is a slot.
func.func @c3_first_slot(%pool: tensor<4x1x4x4xf32>, %index: tensor<3xi32>) {
  // expected-error@+1 {{attribute 'first_slot' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
  %0 = ejk.read_states %pool at %index {first_slot = -1 : i64} : tensor<4x1x4x4xf32>, tensor<3xi32> -> tensor<3x1x4x4xf32>
  return
}

// -----

// C4 of ejk.write_states: the same.
func.func @c4_first_slot(%pool: tensor<4x1x4x4xf32>, %index: tensor<3xi32>, %states: tensor<3x1x4x4xf32>) {
  // expected-error@+1 {{attribute 'first_slot' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
  %0 = ejk.write_states %states to %pool at %index {first_slot = -1 : i64} : tensor<3x1x4x4xf32>, tensor<4x1x4x4xf32>, tensor<3xi32>
  return
}

// -----

// C3 of ejk.zero_skipped: the same.
func.func @c3_first_slot_of_rows(%rows: tensor<3x1x2x4xf32>, %pool: tensor<9x2x4x4xf32>, %index: tensor<3xi32>) {
  // expected-error@+1 {{attribute 'first_slot' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
  %0 = ejk.zero_skipped %rows of %pool at %index {first_slot = -1 : i64} : tensor<3x1x2x4xf32>, tensor<9x2x4x4xf32>, tensor<3xi32>
  return
}
