// RUN: ejk-opt %s --split-input-file --verify-diagnostics
// One or more bad ops for each numbered constraint of ejk.repeat_heads and ejk.first_heads.

func.func @rank(%x: tensor<2xf32>, %q: tensor<2x5x4x8xf32>) {
  // expected-error@+1 {{the states must be of rank 2 to 4 (C1), but are 'tensor<2xf32>'}}
  %0 = ejk.repeat_heads %x like %q at 2 : tensor<2xf32>, tensor<2x5x4x8xf32> -> tensor<2xf32>
  return
}

// -----

func.func @dim(%x: tensor<2x4x8x8xf32>, %k: tensor<2x5x2x8xf32>) {
  // expected-error@+1 {{'dim' must be from 0 to 3 (C1), but is 4}}
  %0 = ejk.first_heads %x like %k at 4 : tensor<2x4x8x8xf32>, tensor<2x5x2x8xf32> -> tensor<2x2x8x8xf32>
  return
}

// -----

func.func @repeat(%x: tensor<2x3x8x8xf32>, %q: tensor<2x5x4x8xf32>) {
  // expected-error@+1 {{the states' heads must divide the query heads (C2), but they are 3 and 4}}
  %0 = ejk.repeat_heads %x like %q at 2 : tensor<2x3x8x8xf32>, tensor<2x5x4x8xf32> -> tensor<2x4x8x8xf32>
  return
}

// -----

func.func @first(%x: tensor<2x4x8x8xf32>, %k: tensor<2x5x3x8xf32>) {
  // expected-error@+1 {{the states' heads must divide the query heads (C2), but they are 3 and 4}}
  %0 = ejk.first_heads %x like %k at 2 : tensor<2x4x8x8xf32>, tensor<2x5x3x8xf32> -> tensor<2x3x8x8xf32>
  return
}

// -----

func.func @heads(%x: tensor<2x2x8x8xf32>, %q: tensor<2x5x4x8xf32>) {
  // expected-error@+1 {{the result must have the states' rank and the heads of 'like' (C3)}}
  %0 = ejk.repeat_heads %x like %q at 2 : tensor<2x2x8x8xf32>, tensor<2x5x4x8xf32> -> tensor<2x8x8x8xf32>
  return
}

// -----

func.func @channels(%x: tensor<2x2x8x8xf32>, %q: tensor<2x5x4x8xf32>) {
  // expected-error@+1 {{the result must have the states' size in dimension 3 (C3), 'tensor<2x2x8x8xf32>', but is 'tensor<2x4x8x6xf32>'}}
  %0 = ejk.repeat_heads %x like %q at 2 : tensor<2x2x8x8xf32>, tensor<2x5x4x8xf32> -> tensor<2x4x8x6xf32>
  return
}
