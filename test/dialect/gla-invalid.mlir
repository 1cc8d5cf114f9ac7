// RUN: ejk-opt %s --split-input-file --verify-diagnostics
// One or more bad ops for each numbered constraint of ejk.gla. The shapes are
// B = 2, T = 5, H = 4, Hkv = 2, K = 8, V = 6 where nothing is wrong.

// C1: query has a rank of its own.
func.func @c1(%q: tensor<2x5x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'query' must be [B,T,H,K] (C1), rank 4, but has rank 3: 'tensor<2x5x8xf32>'}}
  %o, %ht = ejk.gla %q, %k, %v
      : tensor<2x5x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C2: key has another element type.
func.func @c2(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xbf16>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'key' must have query's element type 'f32' (C2), but has 'bf16'}}
  %o, %ht = ejk.gla %q, %k, %v
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xbf16>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C3: K is dynamic.
func.func @c3(%q: tensor<2x5x4x?xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'query' must have a static K from 1 to 512 (C3), but it is dynamic}}
  %o, %ht = ejk.gla %q, %k, %v
      : tensor<2x5x4x?xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C4: Hkv does not divide H.
func.func @c4(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x3x8xf32>, %v: tensor<2x5x3x6xf32>) {
  // expected-error@+1 {{key/value heads must divide query heads (C4), but Hkv = 3 and H = 4}}
  %o, %ht = ejk.gla %q, %k, %v
      : tensor<2x5x4x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C5: g has a rank of neither form.
func.func @c5(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %g: tensor<2x5xf32>) {
  // expected-error@+1 {{'g' must be [B,T,H] or [B,T,H,K] (C5), but has rank 2: 'tensor<2x5xf32>'}}
  %o, %ht = ejk.gla %q, %k, %v
      g(%g : tensor<2x5xf32>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C5: a rank-4 g has V channels.
func.func @c5(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %g: tensor<2x5x4x6xf32>) {
  // expected-error@+1 {{'g' must be [B,T,H,K] (C5) with K = 8 as 'query' has it, but dimension 3 is 6}}
  %o, %ht = ejk.gla %q, %k, %v
      g(%g : tensor<2x5x4x6xf32>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C6: g_gamma is per sequence, and has one too many.
func.func @c6(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %gamma: tensor<3x4xf32>) {
  // expected-error@+1 {{'g_gamma' must be [N,H] (C6) with N = 2 as the batch has it, but dimension 0 is 3}}
  %o, %ht = ejk.gla %q, %k, %v
      g_gamma(%gamma : tensor<3x4xf32>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C9: initial_state has a sequence too many.
func.func @c9(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %h0: tensor<3x4x8x6xf32>) {
  // expected-error@+1 {{'initial_state' must be [N,H,K,V] (C9) with N = 2 as the batch has it, but dimension 0 is 3}}
  %o, %ht = ejk.gla %q, %k, %v
      initial_state(%h0 : tensor<3x4x8x6xf32>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C10: cu_seqlens with a batch.
func.func @c10(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %cu: tensor<4xi32>) {
  // expected-error@+1 {{with 'cu_seqlens', B must be 1 (C10), but is 2}}
  %o, %ht = ejk.gla %q, %k, %v
      cu_seqlens(%cu : tensor<4xi32>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C11: output has K channels.
func.func @c11(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'output' must be [B,T,H,V] (C11) with V = 6 as 'value' has it, but dimension 3 is 8}}
  %o, %ht = ejk.gla %q, %k, %v
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x8xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C12: final_state is [N,H,K,K].
func.func @c12(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'final_state' must be [N,H,K,V] (C12) with V = 6 as 'value' has it, but dimension 3 is 8}}
  %o, %ht = ejk.gla %q, %k, %v
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x8xf32>
  return
}

// -----

// C13: softmax_scale is infinite.
func.func @c13(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'softmax_scale' must be finite (C13), but is 0x7FF0000000000000 : f64}}
  %o, %ht = ejk.gla %q, %k, %v {softmax_scale = 0x7FF0000000000000 : f64}
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}
