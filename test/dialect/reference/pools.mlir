// RUN: ejk-opt %s --ejk-interpret
// RUN: ejk-opt %s | ejk-opt --canonicalize --cse --ejk-interpret=precision=native
// States read from a pool and written to it, by an index per sequence.

// A negative index reads zeros and writes nothing; other states of the pool stay.
func.func @indices() {
  %pool = arith.constant dense<[[[[1.0, 2.0]]], [[[3.0, 4.0]]], [[[5.0, 6.0]]]]>
      : tensor<3x1x1x2xbf16>
  %index = arith.constant dense<[2, -1, 0]> : tensor<3xi32>
  %states = ejk.read_states %pool at %index
      : tensor<3x1x1x2xbf16>, tensor<3xi32> -> tensor<3x1x1x2xf32>
  %e = arith.constant dense<[[[[5.0, 6.0]]], [[[0.0, 0.0]]], [[[1.0, 2.0]]]]> : tensor<3x1x1x2xf32>
  check.expect_equal %states, %e : tensor<3x1x1x2xf32>
  %next = arith.constant dense<[[[[7.0, 8.0]]], [[[9.0, 10.0]]], [[[11.0, 12.0]]]]>
      : tensor<3x1x1x2xf32>
  %updated = ejk.write_states %next to %pool at %index
      : tensor<3x1x1x2xf32>, tensor<3x1x1x2xbf16>, tensor<3xi32>
  %eu = arith.constant dense<[[[[11.0, 12.0]]], [[[3.0, 4.0]]], [[[7.0, 8.0]]]]>
      : tensor<3x1x1x2xbf16>
  check.expect_equal %updated, %eu : tensor<3x1x1x2xbf16>
  return
}

// Speculative decoding: a scan that saves its state after each of three tokens; the next call goes
// on from that of the second, which is slot n·(T + 1) + t of what was kept.
func.func @speculative() {
  %x = arith.constant dense<1.0> : tensor<2x3x1x1xf32>
  %h0 = arith.constant dense<[[[[100.0]]], [[[200.0]]]]> : tensor<2x1x1x1xf32>
  %ht, %kept = ejk.scan save_every 1 sequences(%xt = %x : tensor<2x3x1x1xf32>)
      states(%S = %h0 : tensor<2x1x1x1xf32>) saves(tensor<8x1x1x1xf16>) {
    %S1 = ejk.outer_add %S, %xt, %xt : vector<1x1xf32>, vector<1xf32>, vector<1xf32>
    ejk.yield states(%S1 : vector<1x1xf32>) saves(%S1 : vector<1x1xf32>)
  }
  %accepted = arith.constant dense<[1, 5]> : tensor<2xi64>
  %start = ejk.read_states %kept at %accepted
      : tensor<8x1x1x1xf16>, tensor<2xi64> -> tensor<2x1x1x1xf32>
  %e = arith.constant dense<[[[[102.0]]], [[[202.0]]]]> : tensor<2x1x1x1xf32>
  check.expect_equal %start, %e : tensor<2x1x1x1xf32>
  return
}
