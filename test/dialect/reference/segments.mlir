// RUN: ejk-opt %s --ejk-interpret
// RUN: ejk-opt %s --canonicalize --ejk-interpret
// RUN: ejk-opt %s --ejk-chunk='chunk=16 force' --ejk-interpret
// Scans of segments. Each row adds 1 to the state, which so counts rows.

// Two entries of 40 rows in segments of 16: three each, the last of them shorter.
func.func @batch() {
  %x = arith.constant dense<1.0> : tensor<2x40x1x1xbf16>
  %h0 = arith.constant dense<[[[[100.0]]], [[[200.0]]], [[[300.0]]], [[[400.0]]], [[[500.0]]],
                              [[[600.0]]]]> : tensor<6x1x1x1xf32>
  %ht = ejk.scan segments<16 to 16, at_least 1> sequences(%xt = %x : tensor<2x40x1x1xbf16>)
      states(%S = %h0 : tensor<6x1x1x1xf32>) {
    %xf = arith.extf %xt : vector<1xbf16> to vector<1xf32>
    %S1 = ejk.outer_add %S, %xf, %xf : vector<1x1xf32>, vector<1xf32>, vector<1xf32>
    ejk.yield states(%S1 : vector<1x1xf32>)
  }
  %e = arith.constant dense<[[[[116.0]]], [[[216.0]]], [[[308.0]]], [[[416.0]]], [[[516.0]]],
                             [[[608.0]]]]> : tensor<6x1x1x1xf32>
  check.expect_equal %ht, %e : tensor<6x1x1x1xf32>
  return
}

// Of 40 rows in two segments or more of 16 to 32 rows: 32 and 8.
func.func @length_of_rows() {
  %x = arith.constant dense<1.0> : tensor<1x40x1x1xbf16>
  %ht = ejk.scan segments<16 to 64, at_least 2> sequences(%xt = %x : tensor<1x40x1x1xbf16>)
      states(%S = zero : tensor<2x1x1x1xf32>) {
    %xf = arith.extf %xt : vector<1xbf16> to vector<1xf32>
    %S1 = ejk.outer_add %S, %xf, %xf : vector<1x1xf32>, vector<1xf32>, vector<1xf32>
    ejk.yield states(%S1 : vector<1x1xf32>)
  }
  %e = arith.constant dense<[[[[32.0]]], [[[8.0]]]]> : tensor<2x1x1x1xf32>
  check.expect_equal %ht, %e : tensor<2x1x1x1xf32>
  return
}

// Packed: 20, 0 and 13 rows in segments of 16, ⌊33/16⌋ + 3 of them. The second sequence has none
// but its place, the third has its one at ⌊20/16⌋ + 2. A segment of no rows ends as it starts.
// Positions, and slots of saved states, are the sequence's: the reverse scan saves at
// rows 0 and 16 of the first, in slots 0 and 1, and at row 0 of the third, in slot 3.
func.func @packed() {
  %x = arith.constant dense<1.0> : tensor<1x33x1x1xbf16>
  %cu = arith.constant dense<[0, 20, 20, 33]> : tensor<4xi32>
  %h0 = arith.constant dense<[[[[100.0]]], [[[200.0]]], [[[300.0]]], [[[400.0]]], [[[500.0]]]]>
      : tensor<5x1x1x1xf32>
  %o, %ht, %saved = ejk.scan reverse save_every 16 segments<16 to 16, at_least 1>
      cu_seqlens(%cu : tensor<4xi32>) sequences(%xt = %x : tensor<1x33x1x1xbf16>)
      states(%S = %h0 : tensor<5x1x1x1xf32>) -> (tensor<1x33x1xf32>)
      saves(tensor<5x1x1x1xf32>) {
    %xf = arith.extf %xt : vector<1xbf16> to vector<1xf32>
    %t = ejk.step_index : index
    %ti = arith.index_cast %t : index to i64
    %tf = arith.sitofp %ti : i64 to f32
    %S1 = ejk.outer_add %S, %xf, %xf : vector<1x1xf32>, vector<1xf32>, vector<1xf32>
    ejk.yield states(%S1 : vector<1x1xf32>) outputs(%tf : f32) saves(%S1 : vector<1x1xf32>)
  }
  %e = arith.constant dense<[[[[116.0]]], [[[204.0]]], [[[300.0]]], [[[413.0]]], [[[500.0]]]]>
      : tensor<5x1x1x1xf32>
  check.expect_equal %ht, %e : tensor<5x1x1x1xf32>
  %eo = arith.constant dense<[[[0.0], [1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [7.0], [8.0], [9.0],
    [10.0], [11.0], [12.0], [13.0], [14.0], [15.0], [16.0], [17.0], [18.0], [19.0],
    [0.0], [1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [7.0], [8.0], [9.0], [10.0], [11.0], [12.0]]]>
      : tensor<1x33x1xf32>
  check.expect_equal %o, %eo : tensor<1x33x1xf32>
  %first = tensor.extract_slice %saved[0, 0, 0, 0] [2, 1, 1, 1] [1, 1, 1, 1]
      : tensor<5x1x1x1xf32> to tensor<2x1x1x1xf32>
  %efirst = arith.constant dense<[[[[116.0]]], [[[204.0]]]]> : tensor<2x1x1x1xf32>
  check.expect_equal %first, %efirst : tensor<2x1x1x1xf32>
  %third = tensor.extract_slice %saved[3, 0, 0, 0] [1, 1, 1, 1] [1, 1, 1, 1]
      : tensor<5x1x1x1xf32> to tensor<1x1x1x1xf32>
  %ethird = arith.constant dense<413.0> : tensor<1x1x1x1xf32>
  check.expect_equal %third, %ethird : tensor<1x1x1x1xf32>
  return
}
