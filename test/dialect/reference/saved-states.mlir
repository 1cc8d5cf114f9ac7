// RUN: ejk-opt %s --ejk-interpret
// RUN: ejk-opt %s --canonicalize --ejk-interpret=precision=native
// What a scan saves at the ends of chunks, and what one that walks the other way
// finds there. Each row adds 1 to the state, which so counts rows.

// Rows 0 to 4 in chunks of 2: saved after rows 1, 3 and 4, in slots 0, 1, 2 of
// ⌊5/2⌋ + 1. The walk back enters chunks at rows 4, 3 and 1, having walked 0, 1 and
// 3 rows.
func.func @ragged() {
  %x = arith.constant dense<1.0> : tensor<1x5x1x1xf32>
  %s, %saved = ejk.scan save_every 2 sequences(%xt = %x : tensor<1x5x1x1xf32>)
      states(%S = zero : tensor<1x1x1x1xf32>) saves(tensor<3x1x1x1xf32>) {
    %S1 = ejk.outer_add %S, %xt, %xt : vector<1x1xf32>, vector<1xf32>, vector<1xf32>
    ejk.yield states(%S1 : vector<1x1xf32>) saves(%S1 : vector<1x1xf32>)
  }
  %e = arith.constant dense<[[[[2.0]]], [[[4.0]]], [[[5.0]]]]> : tensor<3x1x1x1xf32>
  check.expect_equal %saved, %e : tensor<3x1x1x1xf32>
  %o, %a = ejk.scan reverse save_every 2 sequences(%xt = %x : tensor<1x5x1x1xf32>)
      saved(%c = %saved : tensor<3x1x1x1xf32>)
      states(%A = zero : tensor<1x1x1x1xf32>) -> (tensor<1x5x1x1xf32>) {
    %none = arith.constant dense<-1.0> : vector<1xf32>
    %y = ejk.checkpoint %none, %A with %c along value : vector<1xf32>, vector<1x1xf32>, vector<1x1xf32>
    %A1 = ejk.outer_add %A, %xt, %xt : vector<1x1xf32>, vector<1xf32>, vector<1xf32>
    ejk.yield states(%A1 : vector<1x1xf32>) outputs(%y : vector<1xf32>)
  }
  %eo = arith.constant dense<[[[[-1.0]], [[6.0]], [[-1.0]], [[4.0]], [[0.0]]]]> : tensor<1x5x1x1xf32>
  check.expect_equal %o, %eo : tensor<1x5x1x1xf32>
  return
}

// Packed, an empty sequence between rows 0 to 2 and 3 to 4, saved by a walk back in
// bf16: sequence 0 leaves its chunks at rows 2 and 0, with 1 and 3, sequence 2 at its
// row 0, with 2. The walk forward enters them having counted 1 and 3, and 1.
func.func @packed_reverse() {
  %x = arith.constant dense<1.0> : tensor<1x5x1x1xf32>
  %cu = arith.constant dense<[0, 3, 3, 5]> : tensor<4xi32>
  %one = arith.constant dense<1.0> : tensor<3x1x1x1xf32>
  %s, %saved = ejk.scan reverse save_every 2 cu_seqlens(%cu : tensor<4xi32>)
      sequences(%xt = %x : tensor<1x5x1x1xf32>)
      states(%S = zero : tensor<3x1x1x1xf32>) saves(tensor<?x1x1x1xbf16>) {
    %S1 = ejk.outer_add %S, %xt, %xt : vector<1x1xf32>, vector<1xf32>, vector<1xf32>
    ejk.yield states(%S1 : vector<1x1xf32>) saves(%S1 : vector<1x1xf32>)
  }
  %o, %a = ejk.scan save_every 2 cu_seqlens(%cu : tensor<4xi32>)
      sequences(%xt = %x : tensor<1x5x1x1xf32>)
      saved(%c = %saved : tensor<?x1x1x1xbf16>)
      states(%A = %one : tensor<3x1x1x1xf32>) -> (tensor<1x5x1x1xf32>) {
    %none = arith.constant dense<-1.0> : vector<1xf32>
    %y = ejk.checkpoint %none, %A with %c along key : vector<1xf32>, vector<1x1xf32>, vector<1x1xbf16>
    %A1 = ejk.outer_add %A, %xt, %xt : vector<1x1xf32>, vector<1xf32>, vector<1xf32>
    ejk.yield states(%A1 : vector<1x1xf32>) outputs(%y : vector<1xf32>)
  }
  %eo = arith.constant dense<[[[[3.0]], [[-1.0]], [[3.0]], [[2.0]], [[-1.0]]]]> : tensor<1x5x1x1xf32>
  check.expect_equal %o, %eo : tensor<1x5x1x1xf32>
  return
}

// The sum is along the axis that is named.
func.func @axes() {
  %k = arith.constant dense<[[[[1.0, 2.0]]]]> : tensor<1x1x1x2xf32>
  %v = arith.constant dense<[[[[10.0, 20.0, 30.0]]]]> : tensor<1x1x1x3xf32>
  %a0 = arith.constant dense<[[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]]> : tensor<1x1x2x3xf32>
  %s, %saved = ejk.scan save_every 4
      sequences(%kt = %k : tensor<1x1x1x2xf32>, %vt = %v : tensor<1x1x1x3xf32>)
      states(%S = zero : tensor<1x1x2x3xf32>) saves(tensor<1x1x2x3xf32>) {
    %S1 = ejk.outer_add %S, %kt, %vt : vector<2x3xf32>, vector<2xf32>, vector<3xf32>
    ejk.yield states(%S1 : vector<2x3xf32>) saves(%S1 : vector<2x3xf32>)
  }
  %x, %y, %a = ejk.scan reverse save_every 4
      sequences(%kt = %k : tensor<1x1x1x2xf32>, %vt = %v : tensor<1x1x1x3xf32>)
      saved(%c = %saved : tensor<1x1x2x3xf32>)
      states(%A = %a0 : tensor<1x1x2x3xf32>) -> (tensor<1x1x1x2xf32>, tensor<1x1x1x3xf32>) {
    %xt = ejk.checkpoint %kt, %A with %c along value : vector<2xf32>, vector<2x3xf32>, vector<2x3xf32>
    %yt = ejk.checkpoint %vt, %A with %c along key : vector<3xf32>, vector<2x3xf32>, vector<2x3xf32>
    ejk.yield states(%A : vector<2x3xf32>) outputs(%xt, %yt : vector<2xf32>, vector<3xf32>)
  }
  %ex = arith.constant dense<[[[[140.0, 640.0]]]]> : tensor<1x1x1x2xf32>
  %ey = arith.constant dense<[[[[90.0, 240.0, 450.0]]]]> : tensor<1x1x1x3xf32>
  check.expect_equal %x, %ex : tensor<1x1x1x2xf32>
  check.expect_equal %y, %ey : tensor<1x1x1x3xf32>
  return
}
