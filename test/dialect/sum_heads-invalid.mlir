// RUN: ejk-opt %s --split-input-file --verify-diagnostics
// One or more bad ops for each numbered constraint of ejk.sum_heads.

func.func @rank(%x: tensor<2x5x4x8xf32>, %k: tensor<2x5x4xf32>) {
  // expected-error@+1 {{the tensor and 'like' must have one rank (C1), but are 'tensor<2x5x4x8xf32>' and 'tensor<2x5x4xf32>'}}
  %0 = ejk.sum_heads %x along 2 like %k : tensor<2x5x4x8xf32>, tensor<2x5x4xf32> -> tensor<2x5x4xf32>
  return
}

// -----

func.func @dim(%x: tensor<2x5x4x8xf32>) {
  // expected-error@+1 {{'dim' must be from 0 to 3 (C1), but is 4}}
  %0 = ejk.sum_heads %x along 4 like %x : tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32> -> tensor<2x5x4x8xf32>
  return
}

// -----

func.func @size(%x: tensor<2x5x4x8xf32>, %k: tensor<2x6x2x8xf32>) {
  // expected-error@+1 {{the tensor and 'like' must agree in dimension 1 (C1), but have 5 and 6}}
  %0 = ejk.sum_heads %x along 2 like %k : tensor<2x5x4x8xf32>, tensor<2x6x2x8xf32> -> tensor<2x6x2x8xf32>
  return
}

// -----

func.func @heads(%x: tensor<2x5x4x8xf32>, %k: tensor<2x5x3x8xf32>) {
  // expected-error@+1 {{'like' must have a number of heads that divides the tensor's (C2), but they are 3 and 4}}
  %0 = ejk.sum_heads %x along 2 like %k : tensor<2x5x4x8xf32>, tensor<2x5x3x8xf32> -> tensor<2x5x3x8xf32>
  return
}

// -----

func.func @result(%x: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>) {
  // expected-error@+1 {{the result must have the shape of 'like', 'tensor<2x5x2x8xf32>' (C3), but is 'tensor<2x5x4x8xf32>'}}
  %0 = ejk.sum_heads %x along 2 like %k : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32> -> tensor<2x5x4x8xf32>
  return
}
