// RUN: ejk-opt %s --ejk-interpret
// RUN: ejk-opt %s --ejk-specialize --ejk-interpret

// One step from nothing is an outer product and its read: o = scale·(q·k) v.
func.func @one_step() {
  %q = arith.constant dense<[[[[1.0, 2.0]]]]> : tensor<1x1x1x2xf32>
  %k = arith.constant dense<[[[[3.0, 5.0]]]]> : tensor<1x1x1x2xf32>
  %v = arith.constant dense<[[[[7.0, -1.0, 0.5]]]]> : tensor<1x1x1x3xf32>
  %o, %ht = ejk.recurrent %q, %k, %v {softmax_scale = 0.5 : f64}
      : tensor<1x1x1x2xf32>, tensor<1x1x1x2xf32>, tensor<1x1x1x3xf32>
      -> tensor<1x1x1x3xf32>, tensor<1x1x2x3xf32>
  %eo = arith.constant dense<[[[[45.5, -6.5, 3.25]]]]> : tensor<1x1x1x3xf32>
  %eht = arith.constant dense<[[[[21.0, -3.0, 1.5], [35.0, -5.0, 2.5]]]]> : tensor<1x1x2x3xf32>
  check.expect_equal %o, %eo : tensor<1x1x1x3xf32>
  check.expect_equal %ht, %eht : tensor<1x1x2x3xf32>
  return
}

// Gates multiply: with all four a step halves the state four times over.
// log(1/2) is not exact in f32, hence the tolerance.
func.func @gates_multiply() {
  %q = arith.constant dense<1.0> : tensor<1x2x1x1xf32>
  %k = arith.constant dense<[[[[8.0]], [[1.0]]]]> : tensor<1x2x1x1xf32>
  %v = arith.constant dense<2.0> : tensor<1x2x1x1xf32>
  %g = arith.constant dense<-0.693147180559945309> : tensor<1x2x1xf32>
  %gamma = arith.constant dense<-0.693147180559945309> : tensor<1xf32>
  %gc = arith.constant dense<-0.693147180559945309> : tensor<1x2x1x1xf32>
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<1x2x1xf32>) g_gamma(%gamma : tensor<1xf32>)
      gk(%gc : tensor<1x2x1x1xf32>) gv(%gc : tensor<1x2x1x1xf32>)
      : tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>
      -> tensor<1x2x1x1xf32>, tensor<1x1x1x1xf32>
  %e = arith.constant dense<[[[[16.0]], [[3.0]]]]> : tensor<1x2x1x1xf32>
  check.expect_close %o, %e max_relative 1.0e-7 : tensor<1x2x1x1xf32>
  return
}

// The initial state decays at the first step, and leaves when nothing happens.
func.func @initial_state() {
  %q = arith.constant dense<0.0> : tensor<1x1x1x2xf32>
  %v = arith.constant dense<0.0> : tensor<1x1x1x1xf32>
  %h0 = arith.constant dense<[[[[3.0], [4.0]]]]> : tensor<1x1x2x1xf32>
  %gk = arith.constant dense<[[[[0.0, 0xFF800000]]]]> : tensor<1x1x1x2xf32>
  %o, %ht = ejk.recurrent %q, %q, %v gk(%gk : tensor<1x1x1x2xf32>)
      initial_state(%h0 : tensor<1x1x2x1xf32>)
      : tensor<1x1x1x2xf32>, tensor<1x1x1x2xf32>, tensor<1x1x1x1xf32>
      -> tensor<1x1x1x1xf32>, tensor<1x1x2x1xf32>
  // A gate of -inf forgets, of 0 keeps.
  %e = arith.constant dense<[[[[3.0], [0.0]]]]> : tensor<1x1x2x1xf32>
  check.expect_equal %ht, %e : tensor<1x1x2x1xf32>
  return
}

// Forgetting works on states that have grown infinite, and makes no NaN.
func.func @forgets_infinity() {
  %q = arith.constant dense<1.0> : tensor<1x2x1x1xf32>
  %k = arith.constant dense<[[[[1.0]], [[2.0]]]]> : tensor<1x2x1x1xf32>
  %v = arith.constant dense<[[[[0x7F800000]], [[3.0]]]]> : tensor<1x2x1x1xf32>
  %g = arith.constant dense<[[[0.0], [0xFF800000]]]> : tensor<1x2x1xf32>
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<1x2x1xf32>)
      : tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>
      -> tensor<1x2x1x1xf32>, tensor<1x1x1x1xf32>
  %e = arith.constant dense<6.0> : tensor<1x1x1x1xf32>
  check.expect_equal %ht, %e : tensor<1x1x1x1xf32>
  return
}

// Query heads 0 and 1 read key/value head 0, heads 2 and 3 head 1.
func.func @grouped_heads() {
  %q = arith.constant dense<1.0> : tensor<1x1x4x1xf32>
  %k = arith.constant dense<1.0> : tensor<1x1x2x1xf32>
  %v = arith.constant dense<[[[[5.0], [7.0]]]]> : tensor<1x1x2x1xf32>
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<1x1x4x1xf32>, tensor<1x1x2x1xf32>, tensor<1x1x2x1xf32>
      -> tensor<1x1x4x1xf32>, tensor<1x4x1x1xf32>
  %e = arith.constant dense<[[[[5.0], [5.0], [7.0], [7.0]]]]> : tensor<1x1x4x1xf32>
  check.expect_equal %o, %e : tensor<1x1x4x1xf32>
  return
}

// Sums of what came before, inside each of four sequences: one is empty, one is
// a single step. The empty one keeps its initial state.
func.func @packed() {
  %q = arith.constant dense<1.0> : tensor<1x6x1x1xf32>
  %v = arith.constant dense<[[[[1.0]], [[2.0]], [[3.0]], [[4.0]], [[5.0]], [[6.0]]]]>
      : tensor<1x6x1x1xf32>
  %cu = arith.constant dense<[0, 3, 3, 4, 6]> : tensor<5xi32>
  %h0 = arith.constant dense<[[[[10.0]]], [[[20.0]]], [[[30.0]]], [[[40.0]]]]>
      : tensor<4x1x1x1xf32>
  %o, %ht = ejk.recurrent %q, %q, %v initial_state(%h0 : tensor<4x1x1x1xf32>)
      cu_seqlens(%cu : tensor<5xi32>)
      : tensor<1x6x1x1xf32>, tensor<1x6x1x1xf32>, tensor<1x6x1x1xf32>
      -> tensor<1x6x1x1xf32>, tensor<4x1x1x1xf32>
  %eo = arith.constant dense<[[[[11.0]], [[13.0]], [[16.0]], [[34.0]], [[45.0]], [[51.0]]]]>
      : tensor<1x6x1x1xf32>
  %eht = arith.constant dense<[[[[16.0]]], [[[20.0]]], [[[34.0]]], [[[51.0]]]]>
      : tensor<4x1x1x1xf32>
  check.expect_equal %o, %eo : tensor<1x6x1x1xf32>
  check.expect_equal %ht, %eht : tensor<4x1x1x1xf32>

  %or, %htr = ejk.recurrent reverse %q, %q, %v initial_state(%h0 : tensor<4x1x1x1xf32>)
      cu_seqlens(%cu : tensor<5xi32>)
      : tensor<1x6x1x1xf32>, tensor<1x6x1x1xf32>, tensor<1x6x1x1xf32>
      -> tensor<1x6x1x1xf32>, tensor<4x1x1x1xf32>
  %eor = arith.constant dense<[[[[16.0]], [[15.0]], [[13.0]], [[34.0]], [[51.0]], [[46.0]]]]>
      : tensor<1x6x1x1xf32>
  check.expect_equal %or, %eor : tensor<1x6x1x1xf32>
  check.expect_equal %htr, %eht : tensor<4x1x1x1xf32>
  return
}

// No batch, no steps, no heads: nothing to do, and the state stays.
func.func @empty() {
  %q0 = check.random zero seed 0 : tensor<0x3x2x4xf32>
  %o0, %h0 = ejk.recurrent %q0, %q0, %q0
      : tensor<0x3x2x4xf32>, tensor<0x3x2x4xf32>, tensor<0x3x2x4xf32>
      -> tensor<0x3x2x4xf32>, tensor<0x2x4x4xf32>
  check.expect_equal %o0, %q0 : tensor<0x3x2x4xf32>
  %q1 = check.random zero seed 0 : tensor<1x0x1x2xf32>
  %s = check.random normal seed 1 : tensor<1x1x2x2xf32>
  %o1, %h1 = ejk.recurrent %q1, %q1, %q1 initial_state(%s : tensor<1x1x2x2xf32>)
      : tensor<1x0x1x2xf32>, tensor<1x0x1x2xf32>, tensor<1x0x1x2xf32>
      -> tensor<1x0x1x2xf32>, tensor<1x1x2x2xf32>
  check.expect_equal %h1, %s : tensor<1x1x2x2xf32>
  return
}

// γ per sequence and head is γ per head where the rows are equal.
func.func @gamma_per_sequence() {
  %q = check.random normal seed 1 : tensor<2x5x3x4xf32>
  %one = arith.constant dense<[-0.5, -1.0, 0.0]> : tensor<3xf32>
  %two = arith.constant dense<[[-0.5, -1.0, 0.0], [-0.5, -1.0, 0.0]]> : tensor<2x3xf32>
  %o1, %h1 = ejk.gla %q, %q, %q g_gamma(%one : tensor<3xf32>)
      : tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>
      -> tensor<2x5x3x4xf32>, tensor<2x3x4x4xf32>
  %o2, %h2 = ejk.gla %q, %q, %q g_gamma(%two : tensor<2x3xf32>)
      : tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>
      -> tensor<2x5x3x4xf32>, tensor<2x3x4x4xf32>
  check.expect_equal %o1, %o2 : tensor<2x5x3x4xf32>
  check.expect_equal %h1, %h2 : tensor<2x3x4x4xf32>
  return
}

// γ_h = -(8/H)(1 - l/L)·h: for layer 1 of 2 and two heads, 0 and -2.
func.func @lightning() {
  %q = check.random normal seed 1 : tensor<2x5x2x4xf32>
  %gamma = arith.constant dense<[0.0, -2.0]> : tensor<2xf32>
  %o1, %h1 = ejk.lightning_attn %q, %q, %q {layer_idx = 1 : i64, num_layers = 2 : i64}
      : tensor<2x5x2x4xf32>, tensor<2x5x2x4xf32>, tensor<2x5x2x4xf32>
      -> tensor<2x5x2x4xf32>, tensor<2x2x4x4xf32>
  %o2, %h2 = ejk.recurrent %q, %q, %q g_gamma(%gamma : tensor<2xf32>)
      : tensor<2x5x2x4xf32>, tensor<2x5x2x4xf32>, tensor<2x5x2x4xf32>
      -> tensor<2x5x2x4xf32>, tensor<2x2x4x4xf32>
  check.expect_close %o1, %o2 max_relative 1.0e-15 : tensor<2x5x2x4xf32>
  check.expect_close %h1, %h2 max_relative 1.0e-15 : tensor<2x2x4x4xf32>
  return
}
