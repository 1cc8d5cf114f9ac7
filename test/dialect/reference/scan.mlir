// RUN: ejk-opt %s --ejk-interpret
// RUN: ejk-opt %s --canonicalize --ejk-interpret
// RUN: ejk-opt %s --ejk-interpret=precision=native

// Several states of every rank. The scalar one counts steps, the vector one
// sums rows, and each is yielded as an output before it is used up; two
// matrices trade places at each step.
func.func @states_of_every_rank() {
  %x = arith.constant dense<[[[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]]]]> : tensor<1x3x1x2xf32>
  %a0 = arith.constant dense<[[[[1.0, 2.0], [3.0, 4.0]]]]> : tensor<1x1x2x2xf32>
  %b0 = arith.constant dense<[[[[5.0, 6.0], [7.0, 8.0]]]]> : tensor<1x1x2x2xf32>
  %n, %s, %nf, %sf, %af, %bf = ejk.scan sequences(%xt = %x : tensor<1x3x1x2xf32>)
      states(%count = zero : tensor<1x1xf32>, %sum = zero : tensor<1x1x2xf32>,
             %a = %a0 : tensor<1x1x2x2xf32>, %b = %b0 : tensor<1x1x2x2xf32>)
      -> (tensor<1x3x1xf32>, tensor<1x3x1x2xf32>) {
    %one = arith.constant 1.0 : f32
    %c1 = arith.addf %count, %one : f32
    %s1 = arith.addf %sum, %xt : vector<2xf32>
    ejk.yield states(%c1, %s1, %b, %a : f32, vector<2xf32>, vector<2x2xf32>, vector<2x2xf32>)
        outputs(%c1, %sum : f32, vector<2xf32>)
  }
  %en = arith.constant dense<[[[1.0], [2.0], [3.0]]]> : tensor<1x3x1xf32>
  %es = arith.constant dense<[[[[0.0, 0.0]], [[1.0, 2.0]], [[4.0, 6.0]]]]> : tensor<1x3x1x2xf32>
  %esf = arith.constant dense<[[[9.0, 12.0]]]> : tensor<1x1x2xf32>
  check.expect_equal %n, %en : tensor<1x3x1xf32>
  check.expect_equal %s, %es : tensor<1x3x1x2xf32>
  check.expect_equal %sf, %esf : tensor<1x1x2xf32>
  // Three swaps are one.
  check.expect_equal %af, %b0 : tensor<1x1x2x2xf32>
  check.expect_equal %bf, %a0 : tensor<1x1x2x2xf32>
  return
}

// A read along value gives K numbers: with S = k vᵀ, k (v·w).
func.func @read_along_value() {
  %k = arith.constant dense<[[[[1.0, 2.0, 3.0]]]]> : tensor<1x1x1x3xf32>
  %v = arith.constant dense<[[[[4.0, 5.0]]]]> : tensor<1x1x1x2xf32>
  %w = arith.constant dense<[[[[10.0, 1.0]]]]> : tensor<1x1x1x2xf32>
  %o, %h = ejk.scan
      sequences(%kt = %k : tensor<1x1x1x3xf32>, %vt = %v : tensor<1x1x1x2xf32>,
                %wt = %w : tensor<1x1x1x2xf32>)
      states(%S = zero : tensor<1x1x3x2xf32>)
      -> (tensor<1x1x1x3xf32>) {
    %S1 = ejk.outer_add %S, %kt, %vt : vector<3x2xf32>, vector<3xf32>, vector<2xf32>
    %r = ejk.read %S1, %wt along value : vector<3x2xf32>, vector<2xf32>
    ejk.yield states(%S1 : vector<3x2xf32>) outputs(%r : vector<3xf32>)
  }
  %e = arith.constant dense<[[[[45.0, 90.0, 135.0]]]]> : tensor<1x1x1x3xf32>
  check.expect_equal %o, %e : tensor<1x1x1x3xf32>
  return
}

// Parameters for all heads, per head, and per sequence and head; the head's own
// index, integers and comparisons.
func.func @parameters() {
  %x = arith.constant dense<0.0> : tensor<2x1x2xf32>
  %all = arith.constant dense<100.0> : tensor<f32>
  %head = arith.constant dense<[10.0, 20.0]> : tensor<2xf32>
  %each = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %o = ejk.scan sequences(%xt = %x : tensor<2x1x2xf32>)
      parameters(%a = %all : tensor<f32> as f32, %h = %head : tensor<2xf32> as f32,
                 %e = %each : tensor<2x2xf32> as f32)
      -> (tensor<2x1x2xf32>) {
    %s1 = arith.addf %a, %h : f32
    %s2 = arith.addf %s1, %e : f32
    %i = ejk.head_index : index
    %n = ejk.num_heads : index
    %one = arith.constant 1 : index
    %next = arith.addi %i, %one : index
    %last = arith.cmpi eq, %next, %n : index
    %big = arith.constant 1000.0 : f32
    %s3 = arith.addf %s2, %big : f32
    %r = arith.select %last, %s3, %s2 : f32
    ejk.yield outputs(%r : f32)
  }
  %expected = arith.constant dense<[[[111.0, 1122.0]], [[113.0, 1124.0]]]> : tensor<2x1x2xf32>
  check.expect_equal %o, %expected : tensor<2x1x2xf32>
  return
}

// log(sigmoid(x))/16, computed in the step, is GLA's gate computed outside.
func.func @own_gate() {
  %q = check.random normal seed 1 : tensor<2x9x2x4xf32>
  %x = check.random normal seed 2 : tensor<2x9x2x4xf32>
  %o1, %h1 = ejk.scan
      sequences(%qt = %q : tensor<2x9x2x4xf32>, %xt = %x : tensor<2x9x2x4xf32>)
      states(%S = zero : tensor<2x2x4x4xf32>)
      -> (tensor<2x9x2x4xf32>) {
    %neg = arith.negf %xt : vector<4xf32>
    %e = math.exp %neg : vector<4xf32>
    %l = math.log1p %e : vector<4xf32>
    %c = arith.constant -0.0625 : f32
    %cv = vector.broadcast %c : f32 to vector<4xf32>
    %g = arith.mulf %l, %cv : vector<4xf32>
    %S1 = ejk.decay %S by %g along key : vector<4x4xf32>, vector<4xf32>
    %S2 = ejk.outer_add %S1, %qt, %qt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %ot = ejk.read %S2, %qt along key : vector<4x4xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x4xf32>) outputs(%ot : vector<4xf32>)
  }
  %neg = arith.negf %x : tensor<2x9x2x4xf32>
  %e = math.exp %neg : tensor<2x9x2x4xf32>
  %l = math.log1p %e : tensor<2x9x2x4xf32>
  %c = arith.constant dense<-0.0625> : tensor<2x9x2x4xf32>
  %g = arith.mulf %l, %c : tensor<2x9x2x4xf32>
  %o2, %h2 = ejk.gla %q, %q, %q g(%g : tensor<2x9x2x4xf32>) {softmax_scale = 1.0 : f64}
      : tensor<2x9x2x4xf32>, tensor<2x9x2x4xf32>, tensor<2x9x2x4xf32>
      -> tensor<2x9x2x4xf32>, tensor<2x2x4x4xf32>
  // Native precision sums in another order: f32's own error, no more.
  check.expect_close %o1, %o2 max_relative 2.0e-6 : tensor<2x9x2x4xf32>
  check.expect_close %h1, %h2 max_relative 2.0e-6 : tensor<2x2x4x4xf32>
  return
}
