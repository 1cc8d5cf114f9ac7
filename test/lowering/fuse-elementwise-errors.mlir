// RUN: ejk-opt %s --split-input-file --verify-diagnostics --ejk-to-gpu
// RUN: ejk-opt %s --split-input-file --verify-diagnostics --ejk-to-cpu

// Upstream's patterns would fold these casts into one op, which then would not verify.
func.func @added(%x: tensor<4xf32>, %y: tensor<15xf32>) -> tensor<?xf32> {
  %a = tensor.cast %x : tensor<4xf32> to tensor<?xf32>
  %b = tensor.cast %y : tensor<15xf32> to tensor<?xf32>
  // expected-error @below {{needs one size where its tensors have 4 and 15}}
  %0 = arith.addf %a, %b : tensor<?xf32>
  return %0 : tensor<?xf32>
}
