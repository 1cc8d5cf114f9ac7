// An index past a tensor's rank is no error of the IR: it fails where it runs, and no pass reads
// a size that is not there.
// RUN: not ejk-opt %s --ejk-interpret 2>&1 | FileCheck %s
// RUN: ejk-opt %s --ejk-describe-interface -o /dev/null
// RUN: not ejk-opt %s --ejk-specialize --ejk-to-gpu 2>&1 | FileCheck %s --check-prefix=GPU
// CHECK: dimension 7 is asked of a tensor of rank 1
// GPU: error: 'tensor.empty' cannot be compiled to a kernel here
func.func private @past() {
  %x = check.random normal seed 1 : tensor<4xf32>
  %c7 = arith.constant 7 : index
  %n = tensor.dim %x, %c7 : tensor<4xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %y = tensor.cast %e : tensor<?xf32> to tensor<4xf32>
  check.expect_equal %y, %y : tensor<4xf32>
  return
}

func.func @past_of_argument(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c7 = arith.constant 7 : index
  %n = tensor.dim %x, %c7 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  return %e : tensor<?xf32>
}
