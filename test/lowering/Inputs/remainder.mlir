func.func @f(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %r = arith.remf %x, %y : tensor<?xf32>
  return %r : tensor<?xf32>
}
