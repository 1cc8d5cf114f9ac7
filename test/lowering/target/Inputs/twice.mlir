func.func @twice(%x: tensor<?xi32>) -> tensor<?xi32> {
  %y = arith.addi %x, %x : tensor<?xi32>
  return %y : tensor<?xi32>
}
