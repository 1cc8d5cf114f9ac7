// RUN: ejk-opt %s --split-input-file --verify-diagnostics
// A bad op for each numbered constraint of ejk.delta_rule. The shapes are
// B = 2, T = 5, Hk = 2, Hv = 4, K = 8, V = 6 where nothing is wrong.

// C1: key has other heads than query.
func.func @c1(%q: tensor<2x5x2x8xf32>, %k: tensor<2x5x4x8xf32>, %v: tensor<2x5x4x6xf32>, %beta: tensor<2x5x4xf32>,
    %g: tensor<2x5x4xf32>, %gk: tensor<2x5x4x8xf32>, %h0: tensor<2x4x8x6xf32>) {
  // expected-error@+1 {{'key' must be [B,T,Hk,K] (C1) with Hk = 2 as 'query' has it, but dimension 2 is 4}}
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<2x5x4xf32>)
      g(%g : tensor<2x5x4xf32>) gk(%gk : tensor<2x5x4x8xf32>) initial_state(%h0 : tensor<2x4x8x6xf32>)
      : tensor<2x5x2x8xf32>, tensor<2x5x4x8xf32>, tensor<2x5x4x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C2: value has another element type.
func.func @c2(%q: tensor<2x5x2x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x4x6xbf16>, %beta: tensor<2x5x4xf32>,
    %g: tensor<2x5x4xf32>, %gk: tensor<2x5x4x8xf32>, %h0: tensor<2x4x8x6xf32>) {
  // expected-error@+1 {{'value' must have query's element type 'f32' (C2), but has 'bf16'}}
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<2x5x4xf32>)
      g(%g : tensor<2x5x4xf32>) gk(%gk : tensor<2x5x4x8xf32>) initial_state(%h0 : tensor<2x4x8x6xf32>)
      : tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x4x6xbf16> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C3: V is dynamic.
func.func @c3(%q: tensor<2x5x2x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x4x?xf32>, %beta: tensor<2x5x4xf32>,
    %g: tensor<2x5x4xf32>, %gk: tensor<2x5x4x8xf32>, %h0: tensor<2x4x8x6xf32>) {
  // expected-error@+1 {{'value' must have a static V from 1 to 512 (C3), but it is dynamic}}
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<2x5x4xf32>)
      g(%g : tensor<2x5x4xf32>) gk(%gk : tensor<2x5x4x8xf32>) initial_state(%h0 : tensor<2x4x8x6xf32>)
      : tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x4x?xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C4: Hk does not divide Hv.
func.func @c4(%q: tensor<2x5x3x8xf32>, %k: tensor<2x5x3x8xf32>, %v: tensor<2x5x4x6xf32>, %beta: tensor<2x5x4xf32>,
    %g: tensor<2x5x4xf32>, %gk: tensor<2x5x4x8xf32>, %h0: tensor<2x4x8x6xf32>) {
  // expected-error@+1 {{query and key heads must divide value heads (C4), but Hk = 3 and Hv = 4}}
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<2x5x4xf32>)
      g(%g : tensor<2x5x4xf32>) gk(%gk : tensor<2x5x4x8xf32>) initial_state(%h0 : tensor<2x4x8x6xf32>)
      : tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x4x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C5: g has a channel.
func.func @c5(%q: tensor<2x5x2x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x4x6xf32>, %beta: tensor<2x5x4xf32>,
    %g: tensor<2x5x4x8xf32>, %gk: tensor<2x5x4x8xf32>, %h0: tensor<2x4x8x6xf32>) {
  // expected-error@+1 {{'g' must be [B,T,Hv] (C5), rank 3, but has rank 4}}
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<2x5x4xf32>)
      g(%g : tensor<2x5x4x8xf32>) gk(%gk : tensor<2x5x4x8xf32>) initial_state(%h0 : tensor<2x4x8x6xf32>)
      : tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x4x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C7: gk has query's heads.
func.func @c7(%q: tensor<2x5x2x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x4x6xf32>, %beta: tensor<2x5x4xf32>,
    %g: tensor<2x5x4xf32>, %gk: tensor<2x5x2x8xf32>, %h0: tensor<2x4x8x6xf32>) {
  // expected-error@+1 {{'gk' must be [B,T,Hv,K] (C7) with Hv = 4 as 'value' has it, but dimension 2 is 2}}
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<2x5x4xf32>)
      g(%g : tensor<2x5x4xf32>) gk(%gk : tensor<2x5x2x8xf32>) initial_state(%h0 : tensor<2x4x8x6xf32>)
      : tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x4x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C9: the initial state has query's heads.
func.func @c9(%q: tensor<2x5x2x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x4x6xf32>, %beta: tensor<2x5x4xf32>,
    %g: tensor<2x5x4xf32>, %gk: tensor<2x5x4x8xf32>, %h0: tensor<2x2x8x6xf32>) {
  // expected-error@+1 {{'initial_state' must be [N,Hv,K,V] (C9) with Hv = 4 as 'value' has it, but dimension 1 is 2}}
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<2x5x4xf32>)
      g(%g : tensor<2x5x4xf32>) gk(%gk : tensor<2x5x4x8xf32>) initial_state(%h0 : tensor<2x2x8x6xf32>)
      : tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x4x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C10: packed sequences in several batch entries.
func.func @c10(%q: tensor<2x5x2x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x4x6xf32>, %beta: tensor<2x5x4xf32>,
    %g: tensor<2x5x4xf32>, %gk: tensor<2x5x4x8xf32>, %h0: tensor<2x4x8x6xf32>, %cu: tensor<4xi32>) {
  // expected-error@+1 {{with 'cu_seqlens', B must be 1 (C10), but is 2}}
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<2x5x4xf32>)
      g(%g : tensor<2x5x4xf32>) gk(%gk : tensor<2x5x4x8xf32>) initial_state(%h0 : tensor<2x4x8x6xf32>) cu_seqlens(%cu : tensor<4xi32>)
      : tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x4x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C11: the output has query's heads.
func.func @c11(%q: tensor<2x5x2x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x4x6xf32>, %beta: tensor<2x5x4xf32>,
    %g: tensor<2x5x4xf32>, %gk: tensor<2x5x4x8xf32>, %h0: tensor<2x4x8x6xf32>) {
  // expected-error@+1 {{'output' must be [B,T,Hv,V] (C11) with Hv = 4 as 'value' has it, but dimension 2 is 2}}
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<2x5x4xf32>)
      g(%g : tensor<2x5x4xf32>) gk(%gk : tensor<2x5x4x8xf32>) initial_state(%h0 : tensor<2x4x8x6xf32>)
      : tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x4x6xf32> -> tensor<2x5x2x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C12: the final state has V before K.
func.func @c12(%q: tensor<2x5x2x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x4x6xf32>, %beta: tensor<2x5x4xf32>,
    %g: tensor<2x5x4xf32>, %gk: tensor<2x5x4x8xf32>, %h0: tensor<2x4x8x6xf32>) {
  // expected-error@+1 {{'final_state' must be [N,Hv,K,V] (C12) with K = 8 as 'query' has it, but dimension 2 is 6}}
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<2x5x4xf32>)
      g(%g : tensor<2x5x4xf32>) gk(%gk : tensor<2x5x4x8xf32>) initial_state(%h0 : tensor<2x4x8x6xf32>)
      : tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x4x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x6x8xf32>
  return
}

// -----

// C13: the scale is infinite.
func.func @c13(%q: tensor<2x5x2x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x4x6xf32>, %beta: tensor<2x5x4xf32>,
    %g: tensor<2x5x4xf32>, %gk: tensor<2x5x4x8xf32>, %h0: tensor<2x4x8x6xf32>) {
  // expected-error@+1 {{'softmax_scale' must be finite (C13), but is 0x7FF0000000000000 : f64}}
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<2x5x4xf32>)
      g(%g : tensor<2x5x4xf32>) gk(%gk : tensor<2x5x4x8xf32>) initial_state(%h0 : tensor<2x4x8x6xf32>)
      {softmax_scale = 0x7FF0000000000000 : f64}
      : tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x4x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C15: beta has a channel.
func.func @c15(%q: tensor<2x5x2x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x4x6xf32>, %beta: tensor<2x5x4x6xf32>,
    %g: tensor<2x5x4xf32>, %gk: tensor<2x5x4x8xf32>, %h0: tensor<2x4x8x6xf32>) {
  // expected-error@+1 {{'beta' must be [B,T,Hv] (C15), rank 3, but has rank 4}}
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<2x5x4x6xf32>)
      g(%g : tensor<2x5x4xf32>) gk(%gk : tensor<2x5x4x8xf32>) initial_state(%h0 : tensor<2x4x8x6xf32>)
      : tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x4x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C15: beta is wider than a recurrence's floats.
func.func @c15_type(%q: tensor<2x5x2x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x4x6xf32>, %beta: tensor<2x5x4xf64>,
    %g: tensor<2x5x4xf32>, %gk: tensor<2x5x4x8xf32>, %h0: tensor<2x4x8x6xf32>) {
  // expected-error@+1 {{'beta' must be a ranked tensor of f32, f16 or bf16 (C15), but is 'tensor<2x5x4xf64>'}}
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<2x5x4xf64>)
      g(%g : tensor<2x5x4xf32>) gk(%gk : tensor<2x5x4x8xf32>) initial_state(%h0 : tensor<2x4x8x6xf32>)
      : tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x4x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C4: with a state per value head, value heads that do not divide the query heads.
func.func @c4_shared(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x3x8xf32>, %v: tensor<2x5x3x6xf32>,
                     %beta: tensor<2x5x3xf32>) {
  // expected-error@+1 {{value heads must divide query heads (C4), but Hv = 3 and H = 4}}
  %o, %ht = ejk.delta_rule shared_state %q, %k, %v beta(%beta : tensor<2x5x3xf32>)
      : tensor<2x5x4x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x3x8x6xf32>
  return
}
