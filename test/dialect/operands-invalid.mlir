// RUN: ejk-opt %s --split-input-file --verify-diagnostics
// A recurrence that is given an operand it does not have names it.

func.func @of_recurrent(%q: tensor<1x5x4x8xf32>) {
  // expected-error@+1 {{'ejk.gla' has no operand 'gk'; 'ejk.recurrent' has it}}
  %o, %ht = ejk.gla %q, %q, %q gk(%q : tensor<1x5x4x8xf32>)
      : tensor<1x5x4x8xf32>, tensor<1x5x4x8xf32>, tensor<1x5x4x8xf32> -> tensor<1x5x4x8xf32>, tensor<1x4x8x8xf32>
  return
}

// -----

func.func @another_name(%q: tensor<1x5x4x8xf32>, %h0: tensor<1x4x8x8xf32>) {
  // expected-error@+1 {{'ejk.lightning_attn' has no operand 'h0'; did you mean 'initial_state'?}}
  %o, %ht = ejk.lightning_attn %q, %q, %q h0(%h0 : tensor<1x4x8x8xf32>) {layer_idx = 1, num_layers = 2}
      : tensor<1x5x4x8xf32>, tensor<1x5x4x8xf32>, tensor<1x5x4x8xf32> -> tensor<1x5x4x8xf32>, tensor<1x4x8x8xf32>
  return
}

// -----

func.func @misspelt(%q: tensor<1x5x4x8xf32>, %h0: tensor<1x4x8x8xf32>) {
  // expected-error@+1 {{'ejk.recurrent' has no operand 'inital_state'; did you mean 'initial_state'?}}
  %o, %ht = ejk.recurrent %q, %q, %q inital_state(%h0 : tensor<1x4x8x8xf32>)
      : tensor<1x5x4x8xf32>, tensor<1x5x4x8xf32>, tensor<1x5x4x8xf32> -> tensor<1x5x4x8xf32>, tensor<1x4x8x8xf32>
  return
}

// -----

func.func @near_nothing(%q: tensor<1x5x4x8xf32>) {
  // expected-error@+1 {{'ejk.gla' has no operand 'dropout'; it has: g, g_gamma, initial_state, cu_seqlens}}
  %o, %ht = ejk.gla %q, %q, %q dropout(%q : tensor<1x5x4x8xf32>)
      : tensor<1x5x4x8xf32>, tensor<1x5x4x8xf32>, tensor<1x5x4x8xf32> -> tensor<1x5x4x8xf32>, tensor<1x4x8x8xf32>
  return
}

// -----

func.func @two_types(%q: tensor<1x5x4x8xf32>) {
  // expected-error@+1 {{expected the types of query, key and value}}
  %o, %ht = ejk.gla %q, %q, %q
      : tensor<1x5x4x8xf32>, tensor<1x5x4x8xf32> -> tensor<1x5x4x8xf32>, tensor<1x4x8x8xf32>
  return
}

// -----

func.func @one_result(%q: tensor<1x5x4x8xf32>) {
  // expected-error@+1 {{expected the types of both results: the output and the final state}}
  %o = ejk.gla %q, %q, %q
      : tensor<1x5x4x8xf32>, tensor<1x5x4x8xf32>, tensor<1x5x4x8xf32> -> tensor<1x5x4x8xf32>
  return
}

// -----

func.func @no_tensor(%q: memref<1x5x4x8xf32>) {
  // expected-error@+1 {{'query' must be a ranked tensor of f32, f16 or bf16 (C2), but is 'memref<1x5x4x8xf32>'}}
  %o, %ht = ejk.gla %q, %q, %q
      : memref<1x5x4x8xf32>, memref<1x5x4x8xf32>, memref<1x5x4x8xf32> -> tensor<1x5x4x8xf32>, tensor<1x4x8x8xf32>
  return
}

// -----

func.func @misplaced(%q: tensor<1x5x4x8xf32>) {
  // expected-error@+1 {{expects 'reverse' before its operands}}
  %o, %ht = ejk.gla %q, %q, %q reverse
      : tensor<1x5x4x8xf32>, tensor<1x5x4x8xf32>, tensor<1x5x4x8xf32> -> tensor<1x5x4x8xf32>, tensor<1x4x8x8xf32>
  return
}
