func.func @f(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %y = arith.negf %x : tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}
