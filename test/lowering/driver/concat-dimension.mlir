// RUN: not ejk-compile %s -o %t.ejk 2>&1 | FileCheck %s
// RUN: ejk-fuzz-mlir %s --pipeline=ejk-to-gpu | count 0
// RUN: sed 's/{dim = -1 : i64}//' %s > %t.none.mlir
// RUN: not ejk-compile %t.none.mlir -o %t.ejk 2>&1 | FileCheck %s --check-prefix=NONE

// NONE: 'tensor.concat' op requires attribute 'dim'
// Upstream's verifier reads past the operands' shapes where this dimension is negative.
// CHECK: error: 'tensor.concat' op must have a 'dim' that is not negative, but has -1
func.func @concat(%x: tensor<2x3xf32>) -> tensor<4x3xf32> {
  %y = "tensor.concat"(%x, %x) {dim = -1 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}
