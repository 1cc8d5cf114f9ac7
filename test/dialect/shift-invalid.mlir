// RUN: ejk-opt %s --split-input-file --verify-diagnostics
// One or more bad ops for each numbered constraint of ejk.shift.

func.func @rank(%x: tensor<2x5xf32>) {
  // expected-error@+1 {{the rows must be [B,T,H] or [B,T,H,C], with static C from 1 to 512 (C1), but are 'tensor<2x5xf32>'}}
  %0 = ejk.shift %x by 1 : tensor<2x5xf32>
  return
}

// -----

func.func @channels(%x: tensor<2x5x4x?xf32>) {
  // expected-error@+1 {{with static C from 1 to 512 (C1), but are 'tensor<2x5x4x?xf32>'}}
  %0 = ejk.shift %x by 1 : tensor<2x5x4x?xf32>
  return
}

// -----

func.func @by(%x: tensor<2x5x4x8xf32>) {
  // expected-error@+1 {{'by' must be from -1073741824 to 1073741824 and not 0 (C2), but is 0}}
  %0 = ejk.shift %x by 0 : tensor<2x5x4x8xf32>
  return
}

// -----

func.func @few_rows(%x: tensor<2x5x4x8xf32>, %h: tensor<2x2x4x8xf32>) {
  // expected-error@+1 {{the halo must have a row for each of the 3 steps of 'by' (C3), but has 2}}
  %0 = ejk.shift %x by -3 halo(%h : tensor<2x2x4x8xf32>) : tensor<2x5x4x8xf32>
  return
}

// -----

func.func @dynamic_rows(%x: tensor<2x5x4x8xf32>, %h: tensor<2x?x4x8xf32>) {
  // expected-error@+1 {{halo must have a static number of rows, 1 or more (C3), but is 'tensor<2x?x4x8xf32>'}}
  %0 = ejk.shift %x by 3 halo(%h : tensor<2x?x4x8xf32>) : tensor<2x5x4x8xf32>
  return
}

// -----

func.func @element(%x: tensor<2x5x4x8xf32>, %h: tensor<2x3x4x8xbf16>) {
  // expected-error@+1 {{halo must have the rows' element type, 'f32' (C3), but is 'tensor<2x3x4x8xbf16>'}}
  %0 = ejk.shift %x by 3 halo(%h : tensor<2x3x4x8xbf16>) : tensor<2x5x4x8xf32>
  return
}

// -----

// Packed sequences have a halo each.
func.func @sequences(%x: tensor<1x5x4x8xf32>, %h: tensor<1x3x4x8xf32>, %cu: tensor<3xi32>) {
  // expected-error@+1 {{halo}}
  %0 = ejk.shift %x by 3 halo(%h : tensor<1x3x4x8xf32>) cu_seqlens(%cu : tensor<3xi32>) : tensor<1x5x4x8xf32>
  return
}

// -----

func.func @batch(%x: tensor<2x5x4x8xf32>, %cu: tensor<3xi32>) {
  // expected-error@+1 {{with 'cu_seqlens', B must be 1 (C4), but is 2}}
  %0 = ejk.shift %x by 3 cu_seqlens(%cu : tensor<3xi32>) : tensor<2x5x4x8xf32>
  return
}
