// How exact matmuls of f32 operands are that tensor cores compute in bf16 terms.
// RUN: ejk-opt %s --ejk-interpret=precision=native -o /dev/null
// Six products are as exact as f32. Three are not, and one product of rounded operands is far off.
// RUN: sed 's/bf16x3/bf16x6/' %s | ejk-opt --ejk-interpret=precision=native -o /dev/null
// RUN: sed 's/bf16x6/bf16x3/' %s | not ejk-opt --ejk-interpret=precision=native -o /dev/null 2>&1 | FileCheck %s
// CHECK: error: relative error {{.*}} exceeds 5.000E-07
// With precision f64 nothing is rounded.
// RUN: sed 's/max_relative [0-9.e-]*/max_relative 1.0e-14/' %s | ejk-opt --ejk-interpret -o /dev/null
func.func @f32_matmuls() {
  %q = check.random normal seed 1 : tensor<1x32x1x64xf32>
  %k = check.random normal seed 2 : tensor<1x32x1x64xf32>
  %exact, %three, %six = tile.program chunk 32 slices 1
      sequences(%q, %k : tensor<1x32x1x64xf32>, tensor<1x32x1x64xf32>)
      outputs(tensor<1x32x1x32xf32>, tensor<1x32x1x32xf32>, tensor<1x32x1x32xf32>) {
  ^bb0(%qr: !tile.rows<vector<64xf32>>, %kr: !tile.rows<vector<64xf32>>,
       %er: !tile.rows<vector<32xf32>>, %tr: !tile.rows<vector<32xf32>>, %sr: !tile.rows<vector<32xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %none = arith.constant dense<0.0> : vector<32x32xf32>
    %qt = tile.load %qr[%c0, %c0] : !tile.rows<vector<64xf32>> -> vector<32x64xf32>
    %kt = tile.load %kr[%c0, %c0] : !tile.rows<vector<64xf32>> -> vector<32x64xf32>
    %e = tile.dot %qt, %kt transposed, %none : vector<32x64xf32>, vector<32x64xf32>, vector<32x32xf32>
    %t = tile.dot %qt, %kt transposed, %none in bf16x3 : vector<32x64xf32>, vector<32x64xf32>, vector<32x32xf32>
    %s = tile.dot %qt, %kt transposed, %none in bf16x6 : vector<32x64xf32>, vector<32x64xf32>, vector<32x32xf32>
    tile.store %e, %er[%c0, %c0] : vector<32x32xf32>, !tile.rows<vector<32xf32>>
    tile.store %t, %tr[%c0, %c0] : vector<32x32xf32>, !tile.rows<vector<32xf32>>
    tile.store %s, %sr[%c0, %c0] : vector<32x32xf32>, !tile.rows<vector<32xf32>>
    tile.end
  }
  // Two terms drop 2^-17 of an operand, and the product of both rests: 5e-6 of the norm.
  check.expect_close %three, %exact max_relative 1.0e-5 : tensor<1x32x1x32xf32>
  // Three drop 2^-24 of a product: what f32 rounds.
  check.expect_close %six, %exact max_relative 5.0e-7 : tensor<1x32x1x32xf32>
  return
}
