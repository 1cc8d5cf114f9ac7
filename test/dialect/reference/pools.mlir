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

// A matrix that lies as [V,K], in a pool whose slot 0 stands for none.
func.func @value_major() {
  %pool = arith.constant dense<[[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]], [[[7.0, 8.0, 9.0], [10.0, 11.0, 12.0]]]]>
      : tensor<2x1x2x3xf32>
  %index = arith.constant dense<[1, 0]> : tensor<2xi64>
  %states = ejk.read_states %pool at %index value_major {first_slot = 1 : i64}
      : tensor<2x1x2x3xf32>, tensor<2xi64> -> tensor<2x1x3x2xf32>
  %e = arith.constant dense<[[[[7.0, 10.0], [8.0, 11.0], [9.0, 12.0]]], [[[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]]]>
      : tensor<2x1x3x2xf32>
  check.expect_equal %states, %e : tensor<2x1x3x2xf32>
  %next = arith.addf %states, %states : tensor<2x1x3x2xf32>
  %updated = ejk.write_states %next to %pool at %index value_major {first_slot = 1 : i64}
      : tensor<2x1x3x2xf32>, tensor<2x1x2x3xf32>, tensor<2xi64>
  %eu = arith.constant dense<[[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]], [[[14.0, 16.0, 18.0], [20.0, 22.0, 24.0]]]]>
      : tensor<2x1x2x3xf32>
  check.expect_equal %updated, %eu : tensor<2x1x2x3xf32>
  return
}

// Three drafted rows. Sequence 0 goes on from its second slot, which its third row overwrites;
// sequence 1 has no slot.
func.func @drafts() {
  %x = arith.constant dense<1.0> : tensor<2x3x1x1xf32>
  %pool = arith.constant dense<[[[[10.0]]], [[[20.0]]], [[[30.0]]], [[[40.0]]]]> : tensor<4x1x1x1xf32>
  %index = arith.constant dense<[[0, 2, 2], [-1, -1, -1]]> : tensor<2x3xi32>
  %places = arith.constant dense<[[0, 3, 2], [-1, -1, -1]]> : tensor<2x3xi32>
  %accepted = arith.constant dense<[2, 1]> : tensor<2xi32>
  %h0 = ejk.read_states %pool at %index accepted(%accepted : tensor<2xi32>)
      : tensor<4x1x1x1xf32>, tensor<2x3xi32> -> tensor<2x1x1x1xf32>
  %o, %ht, %kept = ejk.scan save_every 1 sequences(%xt = %x : tensor<2x3x1x1xf32>)
      states(%S = %h0 : tensor<2x1x1x1xf32>) -> (tensor<2x3x1x1xf32>) saves(tensor<8x1x1x1xf32>) {
    %S1 = ejk.outer_add %S, %xt, %xt : vector<1x1xf32>, vector<1xf32>, vector<1xf32>
    %ot = ejk.read %S1, %xt along key : vector<1x1xf32>, vector<1xf32>
    ejk.yield states(%S1 : vector<1x1xf32>) outputs(%ot : vector<1xf32>) saves(%S1 : vector<1x1xf32>)
  }
  %shown = ejk.zero_skipped %o of %pool at %index, %places
      : tensor<2x3x1x1xf32>, tensor<4x1x1x1xf32>, tensor<2x3xi32>, tensor<2x3xi32>
  %eo = arith.constant dense<[[[[31.0]], [[32.0]], [[33.0]]], [[[0.0]], [[0.0]], [[0.0]]]]>
      : tensor<2x3x1x1xf32>
  check.expect_equal %shown, %eo : tensor<2x3x1x1xf32>
  %updated = ejk.write_states %kept to %pool at %places
      : tensor<8x1x1x1xf32>, tensor<4x1x1x1xf32>, tensor<2x3xi32>
  %eu = arith.constant dense<[[[[31.0]]], [[[20.0]]], [[[33.0]]], [[[32.0]]]]> : tensor<4x1x1x1xf32>
  check.expect_equal %updated, %eu : tensor<4x1x1x1xf32>
  return
}

// Packed: sequence 1 has one row, and sequence 0 two more than it has slots.
func.func @packed_drafts() {
  %x = arith.constant dense<1.0> : tensor<1x4x1x1xf32>
  %cu = arith.constant dense<[0, 3, 4]> : tensor<3xi32>
  %pool = arith.constant dense<[[[[10.0]]], [[[20.0]]], [[[30.0]]]]> : tensor<3x1x1x1xf32>
  %index = arith.constant dense<[[2], [0]]> : tensor<2x1xi32>
  %ht, %kept = ejk.scan save_every 1 cu_seqlens(%cu : tensor<3xi32>)
      sequences(%xt = %x : tensor<1x4x1x1xf32>)
      states(%S = zero : tensor<2x1x1x1xf32>) saves(tensor<6x1x1x1xf32>) {
    %S1 = ejk.outer_add %S, %xt, %xt : vector<1x1xf32>, vector<1xf32>, vector<1xf32>
    ejk.yield states(%S1 : vector<1x1xf32>) saves(%S1 : vector<1x1xf32>)
  }
  %updated = ejk.write_states %kept to %pool at %index cu_seqlens(%cu : tensor<3xi32>)
      : tensor<6x1x1x1xf32>, tensor<3x1x1x1xf32>, tensor<2x1xi32>
  %eu = arith.constant dense<[[[[1.0]]], [[[20.0]]], [[[1.0]]]]> : tensor<3x1x1x1xf32>
  check.expect_equal %updated, %eu : tensor<3x1x1x1xf32>
  return
}

// Vectors and numbers, and packed rows of a sequence that is skipped.
func.func @vectors() {
  %pool = arith.constant dense<[[[1.0, 2.0]], [[3.0, 4.0]]]> : tensor<2x1x2xf16>
  %numbers = arith.constant dense<[[5.0], [6.0]]> : tensor<2x1xf32>
  %index = arith.constant dense<[1, -1]> : tensor<2xi32>
  %z = ejk.read_states %pool at %index : tensor<2x1x2xf16>, tensor<2xi32> -> tensor<2x1x2xf32>
  %ez = arith.constant dense<[[[3.0, 4.0]], [[0.0, 0.0]]]> : tensor<2x1x2xf32>
  check.expect_equal %z, %ez : tensor<2x1x2xf32>
  %m = arith.constant dense<[[7.0], [8.0]]> : tensor<2x1xf32>
  %n = ejk.write_states %m to %numbers at %index : tensor<2x1xf32>, tensor<2x1xf32>, tensor<2xi32>
  %en = arith.constant dense<[[5.0], [7.0]]> : tensor<2x1xf32>
  check.expect_equal %n, %en : tensor<2x1xf32>
  %rows = arith.constant dense<[[[1.0], [2.0], [3.0], [4.0]]]> : tensor<1x4x1xf32>
  %cu = arith.constant dense<[0, 1, 3]> : tensor<3xi32>
  %shown = ejk.zero_skipped %rows of %numbers at %index cu_seqlens(%cu : tensor<3xi32>)
      : tensor<1x4x1xf32>, tensor<2x1xf32>, tensor<2xi32>
  %es = arith.constant dense<[[[1.0], [0.0], [0.0], [4.0]]]> : tensor<1x4x1xf32>
  check.expect_equal %shown, %es : tensor<1x4x1xf32>
  return
}
