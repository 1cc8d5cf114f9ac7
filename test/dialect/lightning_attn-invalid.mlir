// RUN: ejk-opt %s --split-input-file --verify-diagnostics
// One or more bad ops for each numbered constraint of ejk.lightning_attn. The shapes are
// B = 2, T = 5, H = 4, Hkv = 2, K = 8, V = 6 where nothing is wrong.

// C1: query has a rank of its own.
func.func @c1(%q: tensor<2x5x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'query' must be [B,T,H,K] (C1), rank 4, but has rank 3: 'tensor<2x5x8xf32>'}}
  %o, %ht = ejk.lightning_attn %q, %k, %v {layer_idx = 1 : i64, num_layers = 4 : i64}
      : tensor<2x5x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C2: key has another element type.
func.func @c2(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xbf16>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'key' must have query's element type 'f32' (C2), but has 'bf16'}}
  %o, %ht = ejk.lightning_attn %q, %k, %v {layer_idx = 1 : i64, num_layers = 4 : i64}
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xbf16>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C3: K is dynamic.
func.func @c3(%q: tensor<2x5x4x?xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'query' must have a static K from 1 to 512 (C3), but it is dynamic}}
  %o, %ht = ejk.lightning_attn %q, %k, %v {layer_idx = 1 : i64, num_layers = 4 : i64}
      : tensor<2x5x4x?xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C4: Hkv does not divide H.
func.func @c4(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x3x8xf32>, %v: tensor<2x5x3x6xf32>) {
  // expected-error@+1 {{key/value heads must divide query heads (C4), but Hkv = 3 and H = 4}}
  %o, %ht = ejk.lightning_attn %q, %k, %v {layer_idx = 1 : i64, num_layers = 4 : i64}
      : tensor<2x5x4x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C9: initial_state has a sequence too many.
func.func @c9(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %h0: tensor<3x4x8x6xf32>) {
  // expected-error@+1 {{'initial_state' must be [N,H,K,V] (C9) with N = 2 as the batch has it, but dimension 0 is 3}}
  %o, %ht = ejk.lightning_attn %q, %k, %v
      initial_state(%h0 : tensor<3x4x8x6xf32>) {layer_idx = 1 : i64, num_layers = 4 : i64}
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C10: cu_seqlens with a batch.
func.func @c10(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %cu: tensor<4xi32>) {
  // expected-error@+1 {{with 'cu_seqlens', B must be 1 (C10), but is 2}}
  %o, %ht = ejk.lightning_attn %q, %k, %v
      cu_seqlens(%cu : tensor<4xi32>) {layer_idx = 1 : i64, num_layers = 4 : i64}
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C11: output has K channels.
func.func @c11(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'output' must be [B,T,H,V] (C11) with V = 6 as 'value' has it, but dimension 3 is 8}}
  %o, %ht = ejk.lightning_attn %q, %k, %v {layer_idx = 1 : i64, num_layers = 4 : i64}
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x8xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C12: final_state is [N,H,K,K].
func.func @c12(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'final_state' must be [N,H,K,V] (C12) with V = 6 as 'value' has it, but dimension 3 is 8}}
  %o, %ht = ejk.lightning_attn %q, %k, %v {layer_idx = 1 : i64, num_layers = 4 : i64}
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x8xf32>
  return
}

// -----

// C13: softmax_scale is infinite.
func.func @c13(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'softmax_scale' must be finite (C13), but is 0x7FF0000000000000 : f64}}
  %o, %ht = ejk.lightning_attn %q, %k, %v {layer_idx = 1 : i64, num_layers = 4 : i64, softmax_scale = 0x7FF0000000000000 : f64}
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C14: layer_idx is num_layers.
func.func @c14(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'layer_idx' must be from 0 to num_layers - 1 (C14), but layer_idx = 4 and num_layers = 4}}
  %o, %ht = ejk.lightning_attn %q, %k, %v {layer_idx = 4 : i64, num_layers = 4 : i64}
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C14: layer_idx is negative.
func.func @c14(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'layer_idx' must be from 0 to num_layers - 1 (C14), but layer_idx = -1 and num_layers = 4}}
  %o, %ht = ejk.lightning_attn %q, %k, %v {layer_idx = -1 : i64, num_layers = 4 : i64}
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C14: there are no layers.
func.func @c14(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'layer_idx' must be from 0 to num_layers - 1 (C14), but layer_idx = 0 and num_layers = 0}}
  %o, %ht = ejk.lightning_attn %q, %k, %v {layer_idx = 0 : i64, num_layers = 0 : i64}
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}
