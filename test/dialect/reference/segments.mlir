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

// Each row adds its number. The last ten rows of segments of 16, 16 and 8.
func.func @trailing() {
  %x = arith.constant dense<[[[[0.0]], [[1.0]], [[2.0]], [[3.0]], [[4.0]], [[5.0]], [[6.0]], [[7.0]], [[8.0]], [[9.0]], [[10.0]], [[11.0]], [[12.0]], [[13.0]], [[14.0]], [[15.0]], [[16.0]], [[17.0]], [[18.0]], [[19.0]], [[20.0]], [[21.0]], [[22.0]], [[23.0]], [[24.0]], [[25.0]], [[26.0]], [[27.0]], [[28.0]], [[29.0]], [[30.0]], [[31.0]], [[32.0]], [[33.0]], [[34.0]], [[35.0]], [[36.0]], [[37.0]], [[38.0]], [[39.0]]]]> : tensor<1x40x1x1xbf16>
  %one = arith.constant dense<1.0> : tensor<1x40x1x1xbf16>
  %ht = ejk.scan segments<16 to 16, at_least 1> trailing 10
      sequences(%xt = %x : tensor<1x40x1x1xbf16>, %kt = %one : tensor<1x40x1x1xbf16>)
      states(%S = zero : tensor<3x1x1x1xf32>) {
    %xf = arith.extf %xt : vector<1xbf16> to vector<1xf32>
    %kf = arith.extf %kt : vector<1xbf16> to vector<1xf32>
    %S1 = ejk.outer_add %S, %kf, %xf : vector<1x1xf32>, vector<1xf32>, vector<1xf32>
    ejk.yield states(%S1 : vector<1x1xf32>)
  }
  %e = arith.constant dense<[[[[105.0]]], [[[265.0]]], [[[284.0]]]]> : tensor<3x1x1x1xf32>
  check.expect_equal %ht, %e : tensor<3x1x1x1xf32>
  return
}

// In the other direction, the first ten; of the second segment all, and of the third, which has fewer. A NaN is not
// below 1.
func.func @trailing_where() {
  %x = arith.constant dense<[[[[0.0]], [[1.0]], [[2.0]], [[3.0]], [[4.0]], [[5.0]], [[6.0]], [[7.0]], [[8.0]], [[9.0]], [[10.0]], [[11.0]], [[12.0]], [[13.0]], [[14.0]], [[15.0]], [[16.0]], [[17.0]], [[18.0]], [[19.0]], [[20.0]], [[21.0]], [[22.0]], [[23.0]], [[24.0]], [[25.0]], [[26.0]], [[27.0]], [[28.0]], [[29.0]], [[30.0]], [[31.0]], [[32.0]], [[33.0]], [[34.0]], [[35.0]], [[36.0]], [[37.0]], [[38.0]], [[39.0]]]]> : tensor<1x40x1x1xbf16>
  %one = arith.constant dense<1.0> : tensor<1x40x1x1xbf16>
  %r = arith.constant dense<[[0.0], [1.0], [0x7FC00000]]> : tensor<3x1xf32>
  %ht = ejk.scan reverse segments<16 to 16, at_least 1> trailing 10 where(%r : tensor<3x1xf32>)
      sequences(%xt = %x : tensor<1x40x1x1xbf16>, %kt = %one : tensor<1x40x1x1xbf16>)
      states(%S = zero : tensor<3x1x1x1xf32>) {
    %xf = arith.extf %xt : vector<1xbf16> to vector<1xf32>
    %kf = arith.extf %kt : vector<1xbf16> to vector<1xf32>
    %S1 = ejk.outer_add %S, %kf, %xf : vector<1x1xf32>, vector<1xf32>, vector<1xf32>
    ejk.yield states(%S1 : vector<1x1xf32>)
  }
  %e = arith.constant dense<[[[[45.0]]], [[[376.0]]], [[[284.0]]]]> : tensor<3x1x1x1xf32>
  check.expect_equal %ht, %e : tensor<3x1x1x1xf32>
  return
}

// Packed: 20, 0 and 13 rows in segments of 16, 4 segments and one that no sequence has.
func.func @trailing_packed() {
  %x = arith.constant dense<[[[[0.0]], [[1.0]], [[2.0]], [[3.0]], [[4.0]], [[5.0]], [[6.0]], [[7.0]], [[8.0]], [[9.0]], [[10.0]], [[11.0]], [[12.0]], [[13.0]], [[14.0]], [[15.0]], [[16.0]], [[17.0]], [[18.0]], [[19.0]], [[20.0]], [[21.0]], [[22.0]], [[23.0]], [[24.0]], [[25.0]], [[26.0]], [[27.0]], [[28.0]], [[29.0]], [[30.0]], [[31.0]], [[32.0]], [[33.0]], [[34.0]], [[35.0]], [[36.0]], [[37.0]], [[38.0]], [[39.0]]]]> : tensor<1x40x1x1xbf16>
  %one = arith.constant dense<1.0> : tensor<1x40x1x1xbf16>
  %cu = arith.constant dense<[0, 20, 20, 33]> : tensor<4xi32>
  %r = arith.constant dense<[[0.5], [0.5], [0.5], [0.5], [0.5]]> : tensor<5x1xf32>
  %ht = ejk.scan segments<16 to 16, at_least 1> cu_seqlens(%cu : tensor<4xi32>) trailing 10 where(%r : tensor<5x1xf32>)
      sequences(%xt = %x : tensor<1x40x1x1xbf16>, %kt = %one : tensor<1x40x1x1xbf16>)
      states(%S = zero : tensor<5x1x1x1xf32>) {
    %xf = arith.extf %xt : vector<1xbf16> to vector<1xf32>
    %kf = arith.extf %kt : vector<1xbf16> to vector<1xf32>
    %S1 = ejk.outer_add %S, %kf, %xf : vector<1x1xf32>, vector<1xf32>, vector<1xf32>
    ejk.yield states(%S1 : vector<1x1xf32>)
  }
  %e = arith.constant dense<[[[[105.0]]], [[[70.0]]], [[[0.0]]], [[[275.0]]], [[[0.0]]]]> : tensor<5x1x1x1xf32>
  check.expect_equal %ht, %e : tensor<5x1x1x1xf32>
  return
}
