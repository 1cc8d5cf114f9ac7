// RUN: ejk-opt %s --ejk-interpret
// RUN: ejk-opt %s --ejk-chunk='chunk=32 drift' --ejk-interpret
// RUN: ejk-opt %s --ejk-chunk=drift | FileCheck %s
// Steps of a user's making: each scan once on bf16, which becomes a program, and once on
// the same numbers in f32, which stays. In f64 both have rounding of 1e-16 a step.

// CHECK-COUNT-5: tile.program
// CHECK-NOT: tile.program

// Mamba-2's gate, of a sequence of steps and two parameters; beyond a sequence's end the
// gate of a zero row would be log(2)·exp(A), and it must not decay the state.
func.func @mamba2() {
  %c = check.random normal seed 1 : tensor<2x70x2x32xbf16>
  %b = check.random normal seed 2 : tensor<2x70x1x32xbf16>
  %x = check.random normal seed 3 : tensor<2x70x2x20xbf16>
  %dt = check.random normal seed 4 : tensor<2x70x2xf32>
  %A = check.random normal seed 21 : tensor<2xf32>
  %bias = check.random normal seed 22 : tensor<1xf32>
  %c_f32 = arith.extf %c : tensor<2x70x2x32xbf16> to tensor<2x70x2x32xf32>
  %b_f32 = arith.extf %b : tensor<2x70x1x32xbf16> to tensor<2x70x1x32xf32>
  %x_f32 = arith.extf %x : tensor<2x70x2x20xbf16> to tensor<2x70x2x20xf32>
  %o0, %o1 = ejk.scan
      sequences(%cn = %c : tensor<2x70x2x32xbf16>,
                %bn = %b : tensor<2x70x1x32xbf16>,
                %xn = %x : tensor<2x70x2x20xbf16>,
                %dtt = %dt : tensor<2x70x2xf32>)
      parameters(%At = %A : tensor<2xf32> as f32, %biast = %bias : tensor<1xf32> as f32)
      states(%S = zero : tensor<2x2x32x20xf32>)
      -> (tensor<2x70x2x20xf32>) {
    %ct = arith.extf %cn : vector<32xbf16> to vector<32xf32>
    %bt = arith.extf %bn : vector<32xbf16> to vector<32xf32>
    %xt = arith.extf %xn : vector<20xbf16> to vector<20xf32>
    %zero = arith.constant 0.0 : f32
    %y = arith.addf %dtt, %biast : f32
    %top = arith.maximumf %y, %zero : f32
    %abs = math.absf %y : f32
    %low = arith.negf %abs : f32
    %e = math.exp %low : f32
    %l = math.log1p %e : f32
    %step = arith.addf %top, %l : f32
    %ea = math.exp %At : f32
    %rate = arith.mulf %ea, %step : f32
    %g = arith.negf %rate : f32
    %S1 = ejk.decay %S by %g along head : vector<32x20xf32>, f32
    %sv = vector.broadcast %step : f32 to vector<20xf32>
    %xs = arith.mulf %xt, %sv : vector<20xf32>
    %S2 = ejk.outer_add %S1, %bt, %xs : vector<32x20xf32>, vector<32xf32>, vector<20xf32>
    %ot = ejk.read %S2, %ct along key : vector<32x20xf32>, vector<32xf32>
    ejk.yield states(%S2 : vector<32x20xf32>) outputs(%ot : vector<20xf32>)
  }
  %e0, %e1 = ejk.scan
      sequences(%ct = %c_f32 : tensor<2x70x2x32xf32>,
                %bt = %b_f32 : tensor<2x70x1x32xf32>,
                %xt = %x_f32 : tensor<2x70x2x20xf32>,
                %dtt = %dt : tensor<2x70x2xf32>)
      parameters(%At = %A : tensor<2xf32> as f32, %biast = %bias : tensor<1xf32> as f32)
      states(%S = zero : tensor<2x2x32x20xf32>)
      -> (tensor<2x70x2x20xf32>) {
    %zero = arith.constant 0.0 : f32
    %y = arith.addf %dtt, %biast : f32
    %top = arith.maximumf %y, %zero : f32
    %abs = math.absf %y : f32
    %low = arith.negf %abs : f32
    %e = math.exp %low : f32
    %l = math.log1p %e : f32
    %step = arith.addf %top, %l : f32
    %ea = math.exp %At : f32
    %rate = arith.mulf %ea, %step : f32
    %g = arith.negf %rate : f32
    %S1 = ejk.decay %S by %g along head : vector<32x20xf32>, f32
    %sv = vector.broadcast %step : f32 to vector<20xf32>
    %xs = arith.mulf %xt, %sv : vector<20xf32>
    %S2 = ejk.outer_add %S1, %bt, %xs : vector<32x20xf32>, vector<32xf32>, vector<20xf32>
    %ot = ejk.read %S2, %ct along key : vector<32x20xf32>, vector<32xf32>
    ejk.yield states(%S2 : vector<32x20xf32>) outputs(%ot : vector<20xf32>)
  }
  check.expect_close %o0, %e0 max_relative 1.0e-12 : tensor<2x70x2x20xf32>
  check.expect_close %o1, %e1 max_relative 1.0e-12 : tensor<2x2x32x20xf32>
  return
}

// Decays of one axis with reads between them, of which each sees its part, after a key gate
// that is constant in time and a vector.
func.func @read_between_decays() {
  %c = check.random normal seed 1 : tensor<2x70x2x32xbf16>
  %b = check.random normal seed 2 : tensor<2x70x1x32xbf16>
  %x = check.random normal seed 3 : tensor<2x70x2x20xbf16>
  %g = check.random log_gate seed 4 : tensor<2x70x2xf32>
  %gk = check.random log_gate seed 5 : tensor<2x70x2x32xf32>
  %a = check.random log_gate seed 21 : tensor<2x32xf32>
  %c_f32 = arith.extf %c : tensor<2x70x2x32xbf16> to tensor<2x70x2x32xf32>
  %b_f32 = arith.extf %b : tensor<2x70x1x32xbf16> to tensor<2x70x1x32xf32>
  %x_f32 = arith.extf %x : tensor<2x70x2x20xbf16> to tensor<2x70x2x20xf32>
  %o0, %o1, %o2, %o3 = ejk.scan
      sequences(%cn = %c : tensor<2x70x2x32xbf16>,
                %bn = %b : tensor<2x70x1x32xbf16>,
                %xn = %x : tensor<2x70x2x20xbf16>,
                %gt = %g : tensor<2x70x2xf32>,
                %gkt = %gk : tensor<2x70x2x32xf32>)
      parameters(%at = %a : tensor<2x32xf32> as vector<32xf32>)
      states(%S = zero : tensor<2x2x32x20xf32>)
      -> (tensor<2x70x2x20xf32>, tensor<2x70x2x20xf32>, tensor<2x70x2x32xf32>) {
    %ct = arith.extf %cn : vector<32xbf16> to vector<32xf32>
    %bt = arith.extf %bn : vector<32xbf16> to vector<32xf32>
    %xt = arith.extf %xn : vector<20xbf16> to vector<20xf32>
    %S1 = ejk.decay %S by %at along key : vector<32x20xf32>, vector<32xf32>
    %S2 = ejk.decay %S1 by %gt along head : vector<32x20xf32>, f32
    %r0 = ejk.read %S2, %ct along key : vector<32x20xf32>, vector<32xf32>
    %S3 = ejk.decay %S2 by %gkt along key : vector<32x20xf32>, vector<32xf32>
    %r1 = ejk.read %S3, %ct along key : vector<32x20xf32>, vector<32xf32>
    %S4 = ejk.decay %S3 by %gt along head : vector<32x20xf32>, f32
    %S5 = ejk.outer_add %S4, %bt, %xt : vector<32x20xf32>, vector<32xf32>, vector<20xf32>
    %r2 = ejk.read %S5, %xt along value : vector<32x20xf32>, vector<20xf32>
    ejk.yield states(%S5 : vector<32x20xf32>) outputs(%r0, %r1, %r2 : vector<20xf32>, vector<20xf32>, vector<32xf32>)
  }
  %e0, %e1, %e2, %e3 = ejk.scan
      sequences(%ct = %c_f32 : tensor<2x70x2x32xf32>,
                %bt = %b_f32 : tensor<2x70x1x32xf32>,
                %xt = %x_f32 : tensor<2x70x2x20xf32>,
                %gt = %g : tensor<2x70x2xf32>,
                %gkt = %gk : tensor<2x70x2x32xf32>)
      parameters(%at = %a : tensor<2x32xf32> as vector<32xf32>)
      states(%S = zero : tensor<2x2x32x20xf32>)
      -> (tensor<2x70x2x20xf32>, tensor<2x70x2x20xf32>, tensor<2x70x2x32xf32>) {
    %S1 = ejk.decay %S by %at along key : vector<32x20xf32>, vector<32xf32>
    %S2 = ejk.decay %S1 by %gt along head : vector<32x20xf32>, f32
    %r0 = ejk.read %S2, %ct along key : vector<32x20xf32>, vector<32xf32>
    %S3 = ejk.decay %S2 by %gkt along key : vector<32x20xf32>, vector<32xf32>
    %r1 = ejk.read %S3, %ct along key : vector<32x20xf32>, vector<32xf32>
    %S4 = ejk.decay %S3 by %gt along head : vector<32x20xf32>, f32
    %S5 = ejk.outer_add %S4, %bt, %xt : vector<32x20xf32>, vector<32xf32>, vector<20xf32>
    %r2 = ejk.read %S5, %xt along value : vector<32x20xf32>, vector<20xf32>
    ejk.yield states(%S5 : vector<32x20xf32>) outputs(%r0, %r1, %r2 : vector<20xf32>, vector<20xf32>, vector<32xf32>)
  }
  check.expect_close %o0, %e0 max_relative 1.0e-12 : tensor<2x70x2x20xf32>
  check.expect_close %o1, %e1 max_relative 1.0e-12 : tensor<2x70x2x20xf32>
  check.expect_close %o2, %e2 max_relative 1.0e-12 : tensor<2x70x2x32xf32>
  check.expect_close %o3, %e3 max_relative 1.0e-12 : tensor<2x2x32x20xf32>
  return
}

// Two states, of which the second takes in what is read of the first, and a sum of both.
func.func @stacked() {
  %c = check.random normal seed 1 : tensor<2x70x2x32xbf16>
  %b = check.random normal seed 2 : tensor<2x70x1x32xbf16>
  %x = check.random normal seed 3 : tensor<2x70x2x20xbf16>
  %g = check.random log_gate seed 4 : tensor<2x70x2xf32>
  %gv = check.random log_gate seed 5 : tensor<2x70x2x20xf32>
  %c_f32 = arith.extf %c : tensor<2x70x2x32xbf16> to tensor<2x70x2x32xf32>
  %b_f32 = arith.extf %b : tensor<2x70x1x32xbf16> to tensor<2x70x1x32xf32>
  %x_f32 = arith.extf %x : tensor<2x70x2x20xbf16> to tensor<2x70x2x20xf32>
  %o0, %o1, %o2, %o3, %o4 = ejk.scan
      sequences(%cn = %c : tensor<2x70x2x32xbf16>,
                %bn = %b : tensor<2x70x1x32xbf16>,
                %xn = %x : tensor<2x70x2x20xbf16>,
                %gt = %g : tensor<2x70x2xf32>,
                %gvt = %gv : tensor<2x70x2x20xf32>)
      states(%R = zero : tensor<2x2x20x32xf32>, %S = zero : tensor<2x2x32x20xf32>, %X = zero : tensor<2x2x32xf32>)
      -> (tensor<2x70x2x32xf32>, tensor<2x70x2x32xf32>) {
    %ct = arith.extf %cn : vector<32xbf16> to vector<32xf32>
    %bt = arith.extf %bn : vector<32xbf16> to vector<32xf32>
    %xt = arith.extf %xn : vector<20xbf16> to vector<20xf32>
    %S1 = ejk.outer_add %S, %bt, %xt : vector<32x20xf32>, vector<32xf32>, vector<20xf32>
    %S2 = ejk.decay %S1 by %gvt along value : vector<32x20xf32>, vector<20xf32>
    %u = ejk.read %S1, %ct along key : vector<32x20xf32>, vector<32xf32>
    %R1 = ejk.decay %R by %gt along head : vector<20x32xf32>, f32
    %R2 = ejk.outer_add %R1, %u, %bt : vector<20x32xf32>, vector<20xf32>, vector<32xf32>
    %w = ejk.read %R2, %xt along key : vector<20x32xf32>, vector<20xf32>
    %p = arith.mulf %w, %bt : vector<32xf32>
    %X1 = arith.addf %p, %X : vector<32xf32>
    ejk.yield states(%R2, %S2, %X1 : vector<20x32xf32>, vector<32x20xf32>, vector<32xf32>) outputs(%w, %X : vector<32xf32>, vector<32xf32>)
  }
  %e0, %e1, %e2, %e3, %e4 = ejk.scan
      sequences(%ct = %c_f32 : tensor<2x70x2x32xf32>,
                %bt = %b_f32 : tensor<2x70x1x32xf32>,
                %xt = %x_f32 : tensor<2x70x2x20xf32>,
                %gt = %g : tensor<2x70x2xf32>,
                %gvt = %gv : tensor<2x70x2x20xf32>)
      states(%R = zero : tensor<2x2x20x32xf32>, %S = zero : tensor<2x2x32x20xf32>, %X = zero : tensor<2x2x32xf32>)
      -> (tensor<2x70x2x32xf32>, tensor<2x70x2x32xf32>) {
    %S1 = ejk.outer_add %S, %bt, %xt : vector<32x20xf32>, vector<32xf32>, vector<20xf32>
    %S2 = ejk.decay %S1 by %gvt along value : vector<32x20xf32>, vector<20xf32>
    %u = ejk.read %S1, %ct along key : vector<32x20xf32>, vector<32xf32>
    %R1 = ejk.decay %R by %gt along head : vector<20x32xf32>, f32
    %R2 = ejk.outer_add %R1, %u, %bt : vector<20x32xf32>, vector<20xf32>, vector<32xf32>
    %w = ejk.read %R2, %xt along key : vector<20x32xf32>, vector<20xf32>
    %p = arith.mulf %w, %bt : vector<32xf32>
    %X1 = arith.addf %p, %X : vector<32xf32>
    ejk.yield states(%R2, %S2, %X1 : vector<20x32xf32>, vector<32x20xf32>, vector<32xf32>) outputs(%w, %X : vector<32xf32>, vector<32xf32>)
  }
  check.expect_close %o0, %e0 max_relative 1.0e-12 : tensor<2x70x2x32xf32>
  check.expect_close %o1, %e1 max_relative 1.0e-12 : tensor<2x70x2x32xf32>
  check.expect_close %o2, %e2 max_relative 1.0e-12 : tensor<2x2x20x32xf32>
  check.expect_close %o3, %e3 max_relative 1.0e-12 : tensor<2x2x32x20xf32>
  check.expect_close %o4, %e4 max_relative 1.0e-12 : tensor<2x2x32xf32>
  return
}

// A gate that the head's number decides, and a selection by a number of the step.
func.func @by_head() {
  %c = check.random normal seed 1 : tensor<2x70x2x32xbf16>
  %b = check.random normal seed 2 : tensor<2x70x1x32xbf16>
  %x = check.random normal seed 3 : tensor<2x70x2x20xbf16>
  %m = check.random uniform seed 4 : tensor<2x70x2xf32>
  %c_f32 = arith.extf %c : tensor<2x70x2x32xbf16> to tensor<2x70x2x32xf32>
  %b_f32 = arith.extf %b : tensor<2x70x1x32xbf16> to tensor<2x70x1x32xf32>
  %x_f32 = arith.extf %x : tensor<2x70x2x20xbf16> to tensor<2x70x2x20xf32>
  %o0, %o1 = ejk.scan
      sequences(%cn = %c : tensor<2x70x2x32xbf16>,
                %bn = %b : tensor<2x70x1x32xbf16>,
                %xn = %x : tensor<2x70x2x20xbf16>,
                %mt = %m : tensor<2x70x2xf32>)
      states(%S = zero : tensor<2x2x32x20xf32>)
      -> (tensor<2x70x2x20xf32>) {
    %ct = arith.extf %cn : vector<32xbf16> to vector<32xf32>
    %bt = arith.extf %bn : vector<32xbf16> to vector<32xf32>
    %xt = arith.extf %xn : vector<20xbf16> to vector<20xf32>
    %h = ejk.head_index : index
    %H = ejk.num_heads : index
    %hi = arith.index_cast %h : index to i32
    %Hi = arith.index_cast %H : index to i32
    %hf = arith.sitofp %hi : i32 to f32
    %Hf = arith.sitofp %Hi : i32 to f32
    %slope = arith.divf %hf, %Hf : f32
    %g = arith.negf %slope : f32
    %half = arith.constant 0.5 : f32
    %zero = arith.constant 0.0 : f32
    %isLow = arith.cmpf olt, %mt, %half : f32
    %chosen = arith.select %isLow, %zero, %g : f32
    %S1 = ejk.decay %S by %chosen along head : vector<32x20xf32>, f32
    %S2 = ejk.outer_add %S1, %bt, %xt : vector<32x20xf32>, vector<32xf32>, vector<20xf32>
    %ot = ejk.read %S2, %ct along key : vector<32x20xf32>, vector<32xf32>
    ejk.yield states(%S2 : vector<32x20xf32>) outputs(%ot : vector<20xf32>)
  }
  %e0, %e1 = ejk.scan
      sequences(%ct = %c_f32 : tensor<2x70x2x32xf32>,
                %bt = %b_f32 : tensor<2x70x1x32xf32>,
                %xt = %x_f32 : tensor<2x70x2x20xf32>,
                %mt = %m : tensor<2x70x2xf32>)
      states(%S = zero : tensor<2x2x32x20xf32>)
      -> (tensor<2x70x2x20xf32>) {
    %h = ejk.head_index : index
    %H = ejk.num_heads : index
    %hi = arith.index_cast %h : index to i32
    %Hi = arith.index_cast %H : index to i32
    %hf = arith.sitofp %hi : i32 to f32
    %Hf = arith.sitofp %Hi : i32 to f32
    %slope = arith.divf %hf, %Hf : f32
    %g = arith.negf %slope : f32
    %half = arith.constant 0.5 : f32
    %zero = arith.constant 0.0 : f32
    %isLow = arith.cmpf olt, %mt, %half : f32
    %chosen = arith.select %isLow, %zero, %g : f32
    %S1 = ejk.decay %S by %chosen along head : vector<32x20xf32>, f32
    %S2 = ejk.outer_add %S1, %bt, %xt : vector<32x20xf32>, vector<32xf32>, vector<20xf32>
    %ot = ejk.read %S2, %ct along key : vector<32x20xf32>, vector<32xf32>
    ejk.yield states(%S2 : vector<32x20xf32>) outputs(%ot : vector<20xf32>)
  }
  check.expect_close %o0, %e0 max_relative 1.0e-12 : tensor<2x70x2x20xf32>
  check.expect_close %o1, %e1 max_relative 1.0e-12 : tensor<2x2x32x20xf32>
  return
}

// Nothing but empty sequences: the states stay as they were given.
func.func @empty() {
  %c = check.random normal seed 1 : tensor<1x0x2x32xbf16>
  %x = check.random normal seed 2 : tensor<1x0x2x20xbf16>
  %h0 = check.random normal seed 9 : tensor<2x2x32x20xf32>
  %cu = arith.constant dense<[0, 0, 0]> : tensor<3xi32>
  %c_f32 = arith.extf %c : tensor<1x0x2x32xbf16> to tensor<1x0x2x32xf32>
  %x_f32 = arith.extf %x : tensor<1x0x2x20xbf16> to tensor<1x0x2x20xf32>
  %o0, %o1 = ejk.scan cu_seqlens(%cu : tensor<3xi32>)
      sequences(%cn = %c : tensor<1x0x2x32xbf16>,
                %xn = %x : tensor<1x0x2x20xbf16>)
      states(%S = %h0 : tensor<2x2x32x20xf32>)
      -> (tensor<1x0x2x20xf32>) {
    %ct = arith.extf %cn : vector<32xbf16> to vector<32xf32>
    %xt = arith.extf %xn : vector<20xbf16> to vector<20xf32>
    %S1 = ejk.outer_add %S, %ct, %xt : vector<32x20xf32>, vector<32xf32>, vector<20xf32>
    %ot = ejk.read %S1, %ct along key : vector<32x20xf32>, vector<32xf32>
    ejk.yield states(%S1 : vector<32x20xf32>) outputs(%ot : vector<20xf32>)
  }
  %e0, %e1 = ejk.scan cu_seqlens(%cu : tensor<3xi32>)
      sequences(%ct = %c_f32 : tensor<1x0x2x32xf32>,
                %xt = %x_f32 : tensor<1x0x2x20xf32>)
      states(%S = %h0 : tensor<2x2x32x20xf32>)
      -> (tensor<1x0x2x20xf32>) {
    %S1 = ejk.outer_add %S, %ct, %xt : vector<32x20xf32>, vector<32xf32>, vector<20xf32>
    %ot = ejk.read %S1, %ct along key : vector<32x20xf32>, vector<32xf32>
    ejk.yield states(%S1 : vector<32x20xf32>) outputs(%ot : vector<20xf32>)
  }
  check.expect_close %o0, %e0 max_relative 0.0 : tensor<1x0x2x20xf32>
  check.expect_equal %o1, %h0 : tensor<2x2x32x20xf32>
  return
}
