// An axis of one element may be folded into another one, whose size then stays what it was.
// RUN: ejk-run %s --device=cpu --random d0=3,d1=5 --check | FileCheck %s
// CHECK: check out0: pass

func.func @folded(%x: tensor<?x?x1xf32>, %y: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %a = tensor.collapse_shape %x [[0], [1, 2]] : tensor<?x?x1xf32> into tensor<?x?xf32>
  %z = arith.addf %a, %y : tensor<?x?xf32>
  return %z : tensor<?x?xf32>
}
