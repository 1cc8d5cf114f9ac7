// Vector states beside a matrix state. Each function computes one scan twice: the first may be split over time, the second
// is one segment. Sums of terms that are added or subtracted are split, and a sum whose sign alternates is not.

func.func @subtracted() {
  %x = check.random normal seed 1 : tensor<2x23x1x4xf32>
  %y = check.random normal seed 2 : tensor<2x23x1x4xf32>
  %s0 = check.random normal seed 3 : tensor<2x1x4xf32>
  %o, %St, %st = ejk.scan
      sequences(%xt = %x : tensor<2x23x1x4xf32>, %yt = %y : tensor<2x23x1x4xf32>)
      states(%S = zero : tensor<2x1x4x4xf32>, %s = %s0 : tensor<2x1x4xf32>) -> (tensor<2x23x1x4xf32>) {
    %S1 = ejk.outer_add %S, %xt, %yt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %s1 = arith.subf %s, %xt : vector<4xf32>
    %s2 = arith.addf %yt, %s1 : vector<4xf32>
    %r = ejk.read %S1, %xt along key : vector<4x4xf32>, vector<4xf32>
    %ot = arith.addf %r, %s2 : vector<4xf32>
    ejk.yield states(%S1, %s2 : vector<4x4xf32>, vector<4xf32>) outputs(%ot : vector<4xf32>)
  }
  %want, %Su, %su = ejk.scan segments<1073741824 to 1073741824, at_least 1>
      sequences(%xt = %x : tensor<2x23x1x4xf32>, %yt = %y : tensor<2x23x1x4xf32>)
      states(%S = zero : tensor<2x1x4x4xf32>, %s = %s0 : tensor<2x1x4xf32>) -> (tensor<2x23x1x4xf32>) {
    %S1 = ejk.outer_add %S, %xt, %yt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %s1 = arith.subf %s, %xt : vector<4xf32>
    %s2 = arith.addf %yt, %s1 : vector<4xf32>
    %r = ejk.read %S1, %xt along key : vector<4x4xf32>, vector<4xf32>
    %ot = arith.addf %r, %s2 : vector<4xf32>
    ejk.yield states(%S1, %s2 : vector<4x4xf32>, vector<4xf32>) outputs(%ot : vector<4xf32>)
  }
  check.expect_close %o, %want max_relative 1.0e-13 : tensor<2x23x1x4xf32>
  check.expect_close %st, %su max_relative 1.0e-13 : tensor<2x1x4xf32>
  return
}

func.func @alternating() {
  %x = check.random normal seed 4 : tensor<2x23x1x4xf32>
  %y = check.random normal seed 5 : tensor<2x23x1x4xf32>
  %s0 = check.random normal seed 6 : tensor<2x1x4xf32>
  %o, %St, %st = ejk.scan
      sequences(%xt = %x : tensor<2x23x1x4xf32>, %yt = %y : tensor<2x23x1x4xf32>)
      states(%S = zero : tensor<2x1x4x4xf32>, %s = %s0 : tensor<2x1x4xf32>) -> (tensor<2x23x1x4xf32>) {
    %S1 = ejk.outer_add %S, %xt, %yt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %s1 = arith.subf %xt, %s : vector<4xf32>
    %r = ejk.read %S1, %xt along key : vector<4x4xf32>, vector<4xf32>
    %ot = arith.addf %r, %s1 : vector<4xf32>
    ejk.yield states(%S1, %s1 : vector<4x4xf32>, vector<4xf32>) outputs(%ot : vector<4xf32>)
  }
  %want, %Su, %su = ejk.scan segments<1073741824 to 1073741824, at_least 1>
      sequences(%xt = %x : tensor<2x23x1x4xf32>, %yt = %y : tensor<2x23x1x4xf32>)
      states(%S = zero : tensor<2x1x4x4xf32>, %s = %s0 : tensor<2x1x4xf32>) -> (tensor<2x23x1x4xf32>) {
    %S1 = ejk.outer_add %S, %xt, %yt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %s1 = arith.subf %xt, %s : vector<4xf32>
    %r = ejk.read %S1, %xt along key : vector<4x4xf32>, vector<4xf32>
    %ot = arith.addf %r, %s1 : vector<4xf32>
    ejk.yield states(%S1, %s1 : vector<4x4xf32>, vector<4xf32>) outputs(%ot : vector<4xf32>)
  }
  check.expect_close %o, %want max_relative 1.0e-13 : tensor<2x23x1x4xf32>
  check.expect_close %st, %su max_relative 1.0e-13 : tensor<2x1x4xf32>
  return
}
