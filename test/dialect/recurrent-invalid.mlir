// RUN: ejk-opt %s --split-input-file --verify-diagnostics
// One or more bad ops for each numbered constraint of ejk.recurrent. The shapes are
// B = 2, T = 5, H = 4, Hkv = 2, K = 8, V = 6 where nothing is wrong.

// C1: query has a rank of its own.
func.func @c1(%q: tensor<2x5x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'query' must be [B,T,H,K] (C1), rank 4, but has rank 3: 'tensor<2x5x8xf32>'}}
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<2x5x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C1: key's T is not query's.
func.func @c1(%q: tensor<2x5x4x8xf32>, %k: tensor<2x6x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'key' must be [B,T,Hkv,K] (C1) with T = 5 as 'query' has it, but dimension 1 is 6}}
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<2x5x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C1: key's K is not query's.
func.func @c1(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x7xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'key' must be [B,T,Hkv,K] (C1) with K = 8 as 'query' has it, but dimension 3 is 7}}
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<2x5x4x8xf32>, tensor<2x5x2x7xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C1: value's head count is not key's.
func.func @c1(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x4x6xf32>) {
  // expected-error@+1 {{'value' must be [B,T,Hkv,V] (C1) with Hkv = 2 as 'key' has it, but dimension 2 is 4}}
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x4x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C2: key has another element type.
func.func @c2(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xbf16>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'key' must have query's element type 'f32' (C2), but has 'bf16'}}
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xbf16>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C2: value has another element type.
func.func @c2(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf16>) {
  // expected-error@+1 {{'value' must have query's element type 'f32' (C2), but has 'f16'}}
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf16> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C2: f64 is not one of the element types.
func.func @c2(%q: tensor<2x5x4x8xf64>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'query' must be a ranked tensor of f32, f16 or bf16 (C2), but is 'tensor<2x5x4x8xf64>'}}
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<2x5x4x8xf64>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C3: K is dynamic.
func.func @c3(%q: tensor<2x5x4x?xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'query' must have a static K from 1 to 512 (C3), but it is dynamic}}
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<2x5x4x?xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C3: K is dynamic in key alone.
func.func @c3(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x?xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'key' must have a static K from 1 to 512 (C3), but it is dynamic}}
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<2x5x4x8xf32>, tensor<2x5x2x?xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C3: V is too large.
func.func @c3(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x513xf32>) {
  // expected-error@+1 {{'value' must have a static V from 1 to 512 (C3), but it is 513}}
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x513xf32> -> tensor<2x5x4x513xf32>, tensor<2x4x8x513xf32>
  return
}

// -----

// C3: K is zero.
func.func @c3(%q: tensor<2x5x4x0xf32>, %k: tensor<2x5x2x0xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'query' must have a static K from 1 to 512 (C3), but it is 0}}
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<2x5x4x0xf32>, tensor<2x5x2x0xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x0x6xf32>
  return
}

// -----

// C4: Hkv does not divide H.
func.func @c4(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x3x8xf32>, %v: tensor<2x5x3x6xf32>) {
  // expected-error@+1 {{key/value heads must divide query heads (C4), but Hkv = 3 and H = 4}}
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<2x5x4x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C4: there are no key/value heads.
func.func @c4(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x0x8xf32>, %v: tensor<2x5x0x6xf32>) {
  // expected-error@+1 {{key/value heads must divide query heads (C4), but Hkv = 0 and H = 4}}
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<2x5x4x8xf32>, tensor<2x5x0x8xf32>, tensor<2x5x0x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C5: g has a rank of neither form.
func.func @c5(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %g: tensor<2x5xf32>) {
  // expected-error@+1 {{'g' must be [B,T,H] or [B,T,H,K] (C5), but has rank 2: 'tensor<2x5xf32>'}}
  %o, %ht = ejk.recurrent %q, %k, %v
      g(%g : tensor<2x5xf32>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C5: g's heads are the key/value heads.
func.func @c5(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %g: tensor<2x5x2xf32>) {
  // expected-error@+1 {{'g' must be [B,T,H] (C5) with H = 4 as 'query' has it, but dimension 2 is 2}}
  %o, %ht = ejk.recurrent %q, %k, %v
      g(%g : tensor<2x5x2xf32>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C5: a rank-4 g has V channels.
func.func @c5(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %g: tensor<2x5x4x6xf32>) {
  // expected-error@+1 {{'g' must be [B,T,H,K] (C5) with K = 8 as 'query' has it, but dimension 3 is 6}}
  %o, %ht = ejk.recurrent %q, %k, %v
      g(%g : tensor<2x5x4x6xf32>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C5: g is wider than a recurrence's floats.
func.func @c5(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %g: tensor<2x5x4xf64>) {
  // expected-error@+1 {{'g' must be a ranked tensor of f32, f16 or bf16 (C5), but is 'tensor<2x5x4xf64>'}}
  %o, %ht = ejk.recurrent %q, %k, %v
      g(%g : tensor<2x5x4xf64>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C6: g_gamma is per head, and has one head too many.
func.func @c6(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %gamma: tensor<5xf32>) {
  // expected-error@+1 {{'g_gamma' must be [H] (C6) with H = 4 as 'query' has it, but dimension 0 is 5}}
  %o, %ht = ejk.recurrent %q, %k, %v
      g_gamma(%gamma : tensor<5xf32>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C6: g_gamma is per sequence, and has one too many.
func.func @c6(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %gamma: tensor<3x4xf32>) {
  // expected-error@+1 {{'g_gamma' must be [N,H] (C6) with N = 2 as the batch has it, but dimension 0 is 3}}
  %o, %ht = ejk.recurrent %q, %k, %v
      g_gamma(%gamma : tensor<3x4xf32>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C6: g_gamma has a rank of neither form.
func.func @c6(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %gamma: tensor<2x5x4xf32>) {
  // expected-error@+1 {{'g_gamma' must be [H] or [N,H] (C6), but has rank 3: 'tensor<2x5x4xf32>'}}
  %o, %ht = ejk.recurrent %q, %k, %v
      g_gamma(%gamma : tensor<2x5x4xf32>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C6: g_gamma is not f32.
func.func @c6(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %gamma: tensor<4xf16>) {
  // expected-error@+1 {{'g_gamma' must be a ranked tensor of f32 (C6), but is 'tensor<4xf16>'}}
  %o, %ht = ejk.recurrent %q, %k, %v
      g_gamma(%gamma : tensor<4xf16>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C7: gk has V channels.
func.func @c7(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %gk: tensor<2x5x4x6xf32>) {
  // expected-error@+1 {{'gk' must be [B,T,H,K] (C7) with K = 8 as 'query' has it, but dimension 3 is 6}}
  %o, %ht = ejk.recurrent %q, %k, %v
      gk(%gk : tensor<2x5x4x6xf32>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C7: gk is per head.
func.func @c7(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %gk: tensor<2x5x4xf32>) {
  // expected-error@+1 {{'gk' must be [B,T,H,K] (C7), rank 4, but has rank 3: 'tensor<2x5x4xf32>'}}
  %o, %ht = ejk.recurrent %q, %k, %v
      gk(%gk : tensor<2x5x4xf32>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C7: gk is wider than a recurrence's floats.
func.func @c7(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %gk: tensor<2x5x4x8xf64>) {
  // expected-error@+1 {{'gk' must be a ranked tensor of f32, f16 or bf16 (C7), but is 'tensor<2x5x4x8xf64>'}}
  %o, %ht = ejk.recurrent %q, %k, %v
      gk(%gk : tensor<2x5x4x8xf64>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C8: gv has K channels.
func.func @c8(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %gv: tensor<2x5x4x8xf32>) {
  // expected-error@+1 {{'gv' must be [B,T,H,V] (C8) with V = 6 as 'value' has it, but dimension 3 is 8}}
  %o, %ht = ejk.recurrent %q, %k, %v
      gv(%gv : tensor<2x5x4x8xf32>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C8: gv is wider than a recurrence's floats.
func.func @c8(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %gv: tensor<2x5x4x6xf64>) {
  // expected-error@+1 {{'gv' must be a ranked tensor of f32, f16 or bf16 (C8), but is 'tensor<2x5x4x6xf64>'}}
  %o, %ht = ejk.recurrent %q, %k, %v
      gv(%gv : tensor<2x5x4x6xf64>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C9: initial_state has a sequence too many.
func.func @c9(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %h0: tensor<3x4x8x6xf32>) {
  // expected-error@+1 {{'initial_state' must be [N,H,K,V] (C9) with N = 2 as the batch has it, but dimension 0 is 3}}
  %o, %ht = ejk.recurrent %q, %k, %v
      initial_state(%h0 : tensor<3x4x8x6xf32>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C9: initial_state has key/value heads.
func.func @c9(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %h0: tensor<2x2x8x6xf32>) {
  // expected-error@+1 {{'initial_state' must be [N,H,K,V] (C9) with H = 4 as 'query' has it, but dimension 1 is 2}}
  %o, %ht = ejk.recurrent %q, %k, %v
      initial_state(%h0 : tensor<2x2x8x6xf32>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C9: initial_state is [N,H,V,K].
func.func @c9(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %h0: tensor<2x4x6x8xf32>) {
  // expected-error@+1 {{'initial_state' must be [N,H,K,V] (C9) with K = 8 as 'query' has it, but dimension 2 is 6}}
  %o, %ht = ejk.recurrent %q, %k, %v
      initial_state(%h0 : tensor<2x4x6x8xf32>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C9: initial_state is not f32.
func.func @c9(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %h0: tensor<2x4x8x6xbf16>) {
  // expected-error@+1 {{'initial_state' must be a ranked tensor of f32 (C9), but is 'tensor<2x4x8x6xbf16>'}}
  %o, %ht = ejk.recurrent %q, %k, %v
      initial_state(%h0 : tensor<2x4x8x6xbf16>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C10: cu_seqlens with a batch.
func.func @c10(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %cu: tensor<4xi32>) {
  // expected-error@+1 {{with 'cu_seqlens', B must be 1 (C10), but is 2}}
  %o, %ht = ejk.recurrent %q, %k, %v
      cu_seqlens(%cu : tensor<4xi32>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C10: cu_seqlens has no entry.
func.func @c10(%q: tensor<1x5x4x8xf32>, %k: tensor<1x5x2x8xf32>, %v: tensor<1x5x2x6xf32>, %cu: tensor<0xi32>) {
  // expected-error@+1 {{'cu_seqlens' must have N+1 entries (C10), but has none}}
  %o, %ht = ejk.recurrent %q, %k, %v
      cu_seqlens(%cu : tensor<0xi32>)
      : tensor<1x5x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x6xf32> -> tensor<1x5x4x6xf32>, tensor<?x4x8x6xf32>
  return
}

// -----

// C10: cu_seqlens has a rank of its own.
func.func @c10(%q: tensor<1x5x4x8xf32>, %k: tensor<1x5x2x8xf32>, %v: tensor<1x5x2x6xf32>, %cu: tensor<4x1xi32>) {
  // expected-error@+1 {{'cu_seqlens' must be [N+1] (C10), rank 1, but has rank 2: 'tensor<4x1xi32>'}}
  %o, %ht = ejk.recurrent %q, %k, %v
      cu_seqlens(%cu : tensor<4x1xi32>)
      : tensor<1x5x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x6xf32> -> tensor<1x5x4x6xf32>, tensor<3x4x8x6xf32>
  return
}

// -----

// C10: cu_seqlens says how many sequences there are.
func.func @c10(%q: tensor<1x5x4x8xf32>, %k: tensor<1x5x2x8xf32>, %v: tensor<1x5x2x6xf32>, %cu: tensor<4xi64>) {
  // expected-error@+1 {{'final_state' must be [N,H,K,V] (C12) with N = 3 as 'cu_seqlens' has it, but dimension 0 is 1}}
  %o, %ht = ejk.recurrent %q, %k, %v
      cu_seqlens(%cu : tensor<4xi64>)
      : tensor<1x5x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x6xf32> -> tensor<1x5x4x6xf32>, tensor<1x4x8x6xf32>
  return
}

// -----

// C10: cu_seqlens is i16.
func.func @c10(%q: tensor<1x5x4x8xf32>, %k: tensor<1x5x2x8xf32>, %v: tensor<1x5x2x6xf32>, %cu: tensor<4xi16>) {
  // expected-error@+1 {{'cu_seqlens' must be a ranked tensor of i32 or i64 (C10), but is 'tensor<4xi16>'}}
  %o, %ht = ejk.recurrent %q, %k, %v
      cu_seqlens(%cu : tensor<4xi16>)
      : tensor<1x5x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x6xf32> -> tensor<1x5x4x6xf32>, tensor<3x4x8x6xf32>
  return
}

// -----

// C11: output has K channels.
func.func @c11(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'output' must be [B,T,H,V] (C11) with V = 6 as 'value' has it, but dimension 3 is 8}}
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x8xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C11: output has another element type.
func.func @c11(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'output' must have query's element type 'f32' (C11), but has 'bf16'}}
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xbf16>, tensor<2x4x8x6xf32>
  return
}

// -----

// C11: output's channels are dynamic.
func.func @c11(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{result type 'tensor<2x5x4x?xf32>' must have static channels (C11), but dimension 3 is dynamic}}
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x?xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C12: final_state is [N,H,K,K].
func.func @c12(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'final_state' must be [N,H,K,V] (C12) with V = 6 as 'value' has it, but dimension 3 is 8}}
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x8xf32>
  return
}

// -----

// C12: final_state has a sequence too many.
func.func @c12(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'final_state' must be [N,H,K,V] (C12) with N = 2 as the batch has it, but dimension 0 is 3}}
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<3x4x8x6xf32>
  return
}

// -----

// C12: final_state's channels are dynamic.
func.func @c12(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{result type 'tensor<2x4x?x6xf32>' must have static channels (C12), but dimension 2 is dynamic}}
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x?x6xf32>
  return
}

// -----

// C12: final_state is not f32.
func.func @c12(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'final_state' must be a ranked tensor of f32 (C12), but is 'tensor<2x4x8x6xf16>'}}
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf16>
  return
}

// -----

// C13: softmax_scale is infinite.
func.func @c13(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'softmax_scale' must be finite (C13), but is 0x7FF0000000000000 : f64}}
  %o, %ht = ejk.recurrent %q, %k, %v {softmax_scale = 0x7FF0000000000000 : f64}
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C13: softmax_scale is not a number.
func.func @c13(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'softmax_scale' must be finite (C13), but is 0x7FF8000000000000 : f64}}
  %o, %ht = ejk.recurrent %q, %k, %v {softmax_scale = 0x7FF8000000000000 : f64}
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C6: g_gamma is a number.
func.func @c6(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %g: f32) {
  // expected-error@+1 {{'g_gamma' must be a ranked tensor of f32 (C6), but is 'f32'}}
  %o, %ht = ejk.recurrent %q, %k, %v g_gamma(%g : f32)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C10: cu_seqlens is of floats.
func.func @c10(%q: tensor<1x5x4x8xf32>, %k: tensor<1x5x2x8xf32>, %v: tensor<1x5x2x6xf32>, %cu: tensor<3xf32>) {
  // expected-error@+1 {{'cu_seqlens' must be a ranked tensor of i32 or i64 (C10), but is 'tensor<3xf32>'}}
  %o, %ht = ejk.recurrent %q, %k, %v cu_seqlens(%cu : tensor<3xf32>)
      : tensor<1x5x4x8xf32>, tensor<1x5x2x8xf32>, tensor<1x5x2x6xf32> -> tensor<1x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// An f32 attribute is told how an f64 one is written.
func.func @c13(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{attribute 'softmax_scale' failed to satisfy constraint: f64 number, written as 0.125 or 0.125 : f64}}
  %o, %ht = ejk.recurrent %q, %k, %v {softmax_scale = 1.0 : f32}
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C3: K is dynamic in a gate alone.
func.func @c3(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %gk: tensor<?x?x?x?xf32>) {
  // expected-error@+1 {{'gk' must have a static K from 1 to 512 (C3), but it is dynamic}}
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x?x?xf32>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C3: V is dynamic in the initial state alone.
func.func @c3(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>, %h0: tensor<2x4x8x?xf32>) {
  // expected-error@+1 {{'initial_state' must have a static V from 1 to 512 (C3), but it is dynamic}}
  %o, %ht = ejk.recurrent %q, %k, %v initial_state(%h0 : tensor<2x4x8x?xf32>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x4x8x6xf32>
  return
}

// -----

// C10: only a gate says that there is a batch.
func.func @c10(%q: tensor<?x5x4x8xf32>, %k: tensor<?x5x2x8xf32>, %v: tensor<?x5x2x6xf32>, %g: tensor<17x5x4xf32>, %cu: tensor<4xi32>) {
  // expected-error@+1 {{with 'cu_seqlens', B must be 1 (C10), but is 17}}
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<17x5x4xf32>) cu_seqlens(%cu : tensor<4xi32>)
      : tensor<?x5x4x8xf32>, tensor<?x5x2x8xf32>, tensor<?x5x2x6xf32> -> tensor<?x5x4x6xf32>, tensor<3x4x8x6xf32>
  return
}

// -----

// C11: only the output says that there is a batch of packed sequences.
func.func @c11(%q: tensor<?x5x4x8xf32>, %k: tensor<?x5x2x8xf32>, %v: tensor<?x5x2x6xf32>, %cu: tensor<4xi32>) {
  // expected-error@+1 {{'output' must be [B,T,H,V] (C11) with B = 1 as 'cu_seqlens' has it, but dimension 0 is 17}}
  %o, %ht = ejk.recurrent %q, %k, %v cu_seqlens(%cu : tensor<4xi32>)
      : tensor<?x5x4x8xf32>, tensor<?x5x2x8xf32>, tensor<?x5x2x6xf32> -> tensor<17x5x4x6xf32>, tensor<3x4x8x6xf32>
  return
}

// -----

// C5: with a state per key/value head, a gate per query head.
func.func @c5_shared(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>,
                     %g: tensor<2x5x4xf32>) {
  // expected-error@+1 {{'g' must be [B,T,Hkv] (C5) with Hkv = 2 as 'key' has it, but dimension 2 is 4}}
  %o, %ht = ejk.recurrent shared_state %q, %k, %v g(%g : tensor<2x5x4xf32>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x2x8x6xf32>
  return
}

// -----

// C9: an initial state per query head.
func.func @c9_shared(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>,
                     %h0: tensor<2x4x8x6xf32>) {
  // expected-error@+1 {{'initial_state' must be [N,Hkv,K,V] (C9) with Hkv = 2 as 'key' has it, but dimension 1 is 4}}
  %o, %ht = ejk.recurrent shared_state %q, %k, %v initial_state(%h0 : tensor<2x4x8x6xf32>)
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x4x6xf32>, tensor<2x2x8x6xf32>
  return
}

// -----

// C11: an output per key/value head.
func.func @c11_shared(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x6xf32>) {
  // expected-error@+1 {{'output' must be [B,T,H,V] (C11) with H = 4 as 'query' has it, but dimension 2 is 2}}
  %o, %ht = ejk.recurrent shared_state %q, %k, %v
      : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x6xf32> -> tensor<2x5x2x6xf32>, tensor<2x2x8x6xf32>
  return
}
