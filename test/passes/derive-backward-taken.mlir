// RUN: ejk-opt %s --ejk-backward=function=taken --verify-diagnostics
// A function that has the name of a derivative is not lost where that is asked for.

func.func @taken(%x: tensor<1x20x1x4xf32>) -> (tensor<1x1x4x4xf32>) {
  %ht = ejk.scan sequences(%xt = %x : tensor<1x20x1x4xf32>) states(%S = zero : tensor<1x1x4x4xf32>) {
    %S2 = ejk.outer_add %S, %xt, %xt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x4xf32>)
  }
  return %ht : tensor<1x1x4x4xf32>
}

// expected-error @below {{'taken_vjp' is the name of the derivative of 'taken', and has a body already; rename it, or do not derive 'taken'}}
func.func @taken_vjp(%x: tensor<1x20x1x4xf32>, %dht: tensor<1x1x4x4xf32>) -> (tensor<1x20x1x4xf32>) {
  return %x : tensor<1x20x1x4xf32>
}
