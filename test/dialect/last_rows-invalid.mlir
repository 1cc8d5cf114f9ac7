// RUN: ejk-opt %s --split-input-file --verify-diagnostics
// One or more bad ops for each numbered constraint of ejk.last_rows.

func.func @rank(%x: tensor<2x5xf32>) {
  // expected-error@+1 {{the rows must be [B,T,H] or [B,T,H,C], with static C from 1 to 512 (C1), but are 'tensor<2x5xf32>'}}
  %0 = ejk.last_rows %x : tensor<2x5xf32> -> tensor<2x1xf32>
  return
}

// -----

func.func @dynamic(%x: tensor<2x5x4x8xf32>) {
  // expected-error@+1 {{the result must have a static number of rows, 1 or more (C2), but is 'tensor<2x?x4x8xf32>'}}
  %0 = ejk.last_rows %x : tensor<2x5x4x8xf32> -> tensor<2x?x4x8xf32>
  return
}

// -----

func.func @heads(%x: tensor<2x5x4x8xf32>) {
  // expected-error@+1 {{(C2)}}
  %0 = ejk.last_rows %x : tensor<2x5x4x8xf32> -> tensor<2x3x2x8xf32>
  return
}

// -----

func.func @halo(%x: tensor<2x5x4x8xf32>, %h: tensor<2x2x4x8xf32>) {
  // expected-error@+1 {{the halo must have the result's type, 'tensor<2x3x4x8xf32>' (C3), but is 'tensor<2x2x4x8xf32>'}}
  %0 = ejk.last_rows %x halo(%h : tensor<2x2x4x8xf32>) : tensor<2x5x4x8xf32> -> tensor<2x3x4x8xf32>
  return
}

// -----

func.func @batch(%x: tensor<2x5x4x8xf32>, %cu: tensor<3xi32>) {
  // expected-error@+1 {{with 'cu_seqlens', B must be 1 (C4), but is 2}}
  %0 = ejk.last_rows %x cu_seqlens(%cu : tensor<3xi32>) : tensor<2x5x4x8xf32> -> tensor<2x3x4x8xf32>
  return
}

// -----

func.func @beyond(%x: tensor<2x5x4x8xf32>) {
  // expected-error@+1 {{'beyond' must be from 0 to 2 (C5), but is 3}}
  %0 = ejk.last_rows %x beyond 3 : tensor<2x5x4x8xf32> -> tensor<2x3x4x8xf32>
  return
}

// -----

func.func @beyond_halo(%x: tensor<2x5x4x8xf32>, %h: tensor<2x3x4x8xf32>) {
  // expected-error@+1 {{'beyond' must be from 0 to 0 with a halo (C5), but is 1}}
  %0 = ejk.last_rows %x beyond 1 halo(%h : tensor<2x3x4x8xf32>) : tensor<2x5x4x8xf32> -> tensor<2x3x4x8xf32>
  return
}
