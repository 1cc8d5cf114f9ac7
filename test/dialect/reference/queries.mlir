// RUN: ejk-opt %s --ejk-interpret
// RUN: ejk-opt %s --canonicalize --cse --ejk-interpret=precision=native
// RUN: ejk-opt %s --ejk-expand-queries --canonicalize --ejk-interpret
// A state that three query heads share, and what repeats and picks heads.

// S is 1, then 1 + 2·3 = 7; what is read before and after the step, by queries 10, 20 and 30. The
// second output does not depend on them. Query heads know their numbers.
func.func @reads() {
  %q = arith.constant dense<[[[[10.0], [20.0], [30.0]]]]> : tensor<1x1x3x1xf32>
  %k = arith.constant dense<2.0> : tensor<1x1x1x1xf32>
  %v = arith.constant dense<3.0> : tensor<1x1x1x1xf32>
  %h0 = arith.constant dense<1.0> : tensor<1x1x1x1xf32>
  %o, %before, %r, %ht, %kept = ejk.scan save_every 1
      sequences(%kt = %k : tensor<1x1x1x1xf32>, %vt = %v : tensor<1x1x1x1xf32>)
      queries(%qt = %q : tensor<1x1x3x1xf32>) states(%S = %h0 : tensor<1x1x1x1xf32>)
      -> (tensor<1x1x3x1xf32>, tensor<1x1x3x1xf32>, tensor<1x1x1x1xf32>) saves(tensor<2x1x1x1xf32>) {
    %p = ejk.read %S, %qt along key : vector<1x1xf32>, vector<1xf32>
    %S1 = ejk.outer_add %S, %kt, %vt : vector<1x1xf32>, vector<1xf32>, vector<1xf32>
    %a = ejk.read %S1, %qt along key : vector<1x1xf32>, vector<1xf32>
    %rt = ejk.read %S1, %kt along key : vector<1x1xf32>, vector<1xf32>
    %h = ejk.head_index : index
    %n = ejk.num_heads : index
    %c10 = arith.constant 10 : index
    %tens = arith.muli %n, %c10 : index
    %sum = arith.addi %h, %tens : index
    %i = arith.index_cast %sum : index to i32
    %f = arith.sitofp %i : i32 to f32
    %fs = vector.broadcast %f : f32 to vector<1xf32>
    %ot = arith.addf %a, %fs : vector<1xf32>
    ejk.yield states(%S1 : vector<1x1xf32>)
        outputs(%ot, %p, %rt : vector<1xf32>, vector<1xf32>, vector<1xf32>) saves(%S1 : vector<1x1xf32>)
  }
  %eo = arith.constant dense<[[[[100.0], [171.0], [242.0]]]]> : tensor<1x1x3x1xf32>
  check.expect_equal %o, %eo : tensor<1x1x3x1xf32>
  check.expect_equal %before, %q : tensor<1x1x3x1xf32>
  %er = arith.constant dense<14.0> : tensor<1x1x1x1xf32>
  check.expect_equal %r, %er : tensor<1x1x1x1xf32>
  %eht = arith.constant dense<7.0> : tensor<1x1x1x1xf32>
  check.expect_equal %ht, %eht : tensor<1x1x1x1xf32>
  %none = arith.constant dense<0> : tensor<1xi32>
  %state = ejk.read_states %kept at %none
      : tensor<2x1x1x1xf32>, tensor<1xi32> -> tensor<1x1x1x1xf32>
  check.expect_equal %state, %eht : tensor<1x1x1x1xf32>
  return
}

func.func @heads() {
  %x = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %q = arith.constant dense<0.0> : tensor<2x1x4xf32>
  %k = arith.constant dense<0.0> : tensor<2x1x2xf32>
  %each = ejk.repeat_heads %x like %q at 2 : tensor<2x2xf32>, tensor<2x1x4xf32> -> tensor<2x4xf32>
  %ee = arith.constant dense<[[1.0, 1.0, 2.0, 2.0], [3.0, 3.0, 4.0, 4.0]]> : tensor<2x4xf32>
  check.expect_equal %each, %ee : tensor<2x4xf32>
  %first = ejk.repeat_heads %x like %each at 1 first_only
      : tensor<2x2xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  %ef = arith.constant dense<[[1.0, 0.0, 2.0, 0.0], [3.0, 0.0, 4.0, 0.0]]> : tensor<2x4xf32>
  check.expect_equal %first, %ef : tensor<2x4xf32>
  %picked = ejk.first_heads %ef like %k at 2
      : tensor<2x4xf32>, tensor<2x1x2xf32> -> tensor<2x2xf32>
  check.expect_equal %picked, %x : tensor<2x2xf32>
  return
}
