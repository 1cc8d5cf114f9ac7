// RUN: ejk-opt %s --ejk-interpret
// RUN: ejk-opt %s --ejk-specialize --ejk-interpret

// By hand, K = V = 1, with a gate of log ½ and beta ½:
//   S = ½·4 = 2, u = ½ (6 − 2·1) = 2, S = 2 + 1·2 = 4, o = ½·4·1 = 2.
func.func @one_step() {
  %q = arith.constant dense<1.0> : tensor<1x1x1x1xf32>
  %v = arith.constant dense<6.0> : tensor<1x1x1x1xf32>
  %beta = arith.constant dense<0.5> : tensor<1x1x1xf32>
  %g = arith.constant dense<-0.693147180559945309> : tensor<1x1x1xf32>
  %h0 = arith.constant dense<4.0> : tensor<1x1x1x1xf32>
  %o, %ht = ejk.delta_rule %q, %q, %v beta(%beta : tensor<1x1x1xf32>) g(%g : tensor<1x1x1xf32>)
      initial_state(%h0 : tensor<1x1x1x1xf32>) {softmax_scale = 0.5 : f64}
      : tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32>
      -> tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32>
  %eo = arith.constant dense<2.0> : tensor<1x1x1x1xf32>
  %eht = arith.constant dense<4.0> : tensor<1x1x1x1xf32>
  check.expect_close %o, %eo max_relative 1.0e-7 : tensor<1x1x1x1xf32>
  check.expect_close %ht, %eht max_relative 1.0e-7 : tensor<1x1x1x1xf32>
  return
}

// With beta 1 and a key of length 1 the state gives back what was put in last, whatever it held.
func.func @remembers_the_last() {
  %q = arith.constant dense<[[[[0.6, 0.8]], [[0.6, 0.8]]]]> : tensor<1x2x1x2xf64>
  %k = arith.truncf %q : tensor<1x2x1x2xf64> to tensor<1x2x1x2xf32>
  %v = arith.constant dense<[[[[3.0]], [[-5.0]]]]> : tensor<1x2x1x1xf32>
  %beta = arith.constant dense<1.0> : tensor<1x2x1xf32>
  %o, %ht = ejk.delta_rule %k, %k, %v beta(%beta : tensor<1x2x1xf32>) {softmax_scale = 1.0 : f64}
      : tensor<1x2x1x2xf32>, tensor<1x2x1x2xf32>, tensor<1x2x1x1xf32>
      -> tensor<1x2x1x1xf32>, tensor<1x1x2x1xf32>
  check.expect_close %o, %v max_relative 1.0e-7 : tensor<1x2x1x1xf32>
  return
}
