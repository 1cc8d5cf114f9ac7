// RUN: ejk-opt %s --ejk-select-warps=arch=sm_90a | FileCheck %s

// A loop that carries four accumulators of 64x64 has registers for them with four warps.
// CHECK-LABEL: func.func @few
// CHECK:       tile.program {{.*}}tile.warpgroups, tile.warps = 4
// CHECK:       tile.dot {{.*}}fragments over 4 by 1
func.func @few(%x: tensor<1x?x1x64xbf16>) -> tensor<1x?x1x64xf32> {
  %y = tile.program chunk 64 slices 1 sequences(%x : tensor<1x?x1x64xbf16>)
      outputs(tensor<1x?x1x64xf32>) {
  ^bb0(%rows: !tile.rows<vector<64xbf16>>, %out: !tile.rows<vector<64xf32>>, %n: index, %batch: index,
       %head: index, %start: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %z = arith.constant dense<0.0> : vector<64x64xf32>
    %r:4 = scf.for %i = %c0 to %n step %c1
        iter_args(%a_was = %z, %b_was = %z, %c_was = %z, %d_was = %z)
        -> (vector<64x64xf32>, vector<64x64xf32>, vector<64x64xf32>, vector<64x64xf32>) {
      %first = arith.muli %i, %n : index
      %t = tile.load %rows[%first, %c0] : <vector<64xbf16>> -> vector<64x64xbf16>
      %a = tile.dot %t, %t, %a_was : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %b = tile.dot %t transposed, %t, %b_was : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %c = tile.dot %t, %t transposed, %c_was : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %d = tile.dot %t transposed, %t transposed, %d_was : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      scf.yield %a, %b, %c, %d
          : vector<64x64xf32>, vector<64x64xf32>, vector<64x64xf32>, vector<64x64xf32>
    }
    %s1 = arith.addf %r#0, %r#1 : vector<64x64xf32>
    %s2 = arith.addf %s1, %r#2 : vector<64x64xf32>
    %s3 = arith.addf %s2, %r#3 : vector<64x64xf32>
    tile.store %s3, %out[%c0, %c0] : vector<64x64xf32>, <vector<64xf32>>
    tile.end
  }
  return %y : tensor<1x?x1x64xf32>
}

// Nine accumulators are 288 registers of each thread of four warps. Eight warps share them.
// CHECK-LABEL: func.func @many
// CHECK:       tile.program {{.*}}tile.warpgroups, tile.warps = 8
// CHECK:       tile.dot {{.*}}fragments over 4 by 2
func.func @many(%x: tensor<1x?x1x64xbf16>) -> tensor<1x?x1x64xf32> {
  %y = tile.program chunk 64 slices 1 sequences(%x : tensor<1x?x1x64xbf16>)
      outputs(tensor<1x?x1x64xf32>) {
  ^bb0(%rows: !tile.rows<vector<64xbf16>>, %out: !tile.rows<vector<64xf32>>, %n: index, %batch: index,
       %head: index, %start: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %z = arith.constant dense<0.0> : vector<64x64xf32>
    %r:9 = scf.for %i = %c0 to %n step %c1
        iter_args(%a_was = %z, %b_was = %z, %c_was = %z, %d_was = %z, %e_was = %z, %f_was = %z, %g_was = %z, %h_was = %z, %i_was = %z)
        -> (vector<64x64xf32>, vector<64x64xf32>, vector<64x64xf32>, vector<64x64xf32>, vector<64x64xf32>, vector<64x64xf32>, vector<64x64xf32>, vector<64x64xf32>, vector<64x64xf32>) {
      %first = arith.muli %i, %n : index
      %t = tile.load %rows[%first, %c0] : <vector<64xbf16>> -> vector<64x64xbf16>
      %a = tile.dot %t, %t, %a_was : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %b = tile.dot %t transposed, %t, %b_was : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %c = tile.dot %t, %t transposed, %c_was : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %d = tile.dot %t transposed, %t transposed, %d_was : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %e = tile.dot %t, %t, %e_was : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %f = tile.dot %t transposed, %t, %f_was : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %g = tile.dot %t, %t transposed, %g_was : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %h = tile.dot %t transposed, %t transposed, %h_was : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %i9 = tile.dot %t, %t, %i_was : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      scf.yield %a, %b, %c, %d, %e, %f, %g, %h, %i9
          : vector<64x64xf32>, vector<64x64xf32>, vector<64x64xf32>, vector<64x64xf32>, vector<64x64xf32>, vector<64x64xf32>, vector<64x64xf32>, vector<64x64xf32>, vector<64x64xf32>
    }
    %s1 = arith.addf %r#0, %r#1 : vector<64x64xf32>
    %s2 = arith.addf %s1, %r#2 : vector<64x64xf32>
    %s3 = arith.addf %s2, %r#3 : vector<64x64xf32>
    %s4 = arith.addf %s3, %r#4 : vector<64x64xf32>
    %s5 = arith.addf %s4, %r#5 : vector<64x64xf32>
    %s6 = arith.addf %s5, %r#6 : vector<64x64xf32>
    %s7 = arith.addf %s6, %r#7 : vector<64x64xf32>
    %s8 = arith.addf %s7, %r#8 : vector<64x64xf32>
    tile.store %s8, %out[%c0, %c0] : vector<64x64xf32>, <vector<64xf32>>
    tile.end
  }
  return %y : tensor<1x?x1x64xf32>
}
