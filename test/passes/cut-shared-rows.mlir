// RUN: ejk-opt %s --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-cut-rows=shared=true | FileCheck %s
// RUN: ejk-opt %s --ejk-cut-rows=shared=true --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-cut-rows | FileCheck %s --check-prefix=APART

// A key that two heads share is divided by its length once, and a gate and a rate are computed beside it.
// Rows of one head have one sequence of that head; numbers of as many heads are computed together.
// CHECK-LABEL: func.func @shared
// CHECK:         %[[K:.*]] = ejk.scan
// CHECK-NEXT:      sequences(%{{.*}} = %{{.*}} : tensor<2x9x1x4xbf16>) -> (tensor<2x9x1x4xf32>)
// CHECK:           ejk.yield outputs(%{{.*}} : vector<4xf32>)
// CHECK:         %[[NUMBERS:.*]]:2 = ejk.scan
// CHECK:           ejk.yield outputs(%{{.*}}, %{{.*}} : f32, f32)
// CHECK:         ejk.scan
// CHECK-NEXT:      = %[[K]] :{{.*}} = %[[NUMBERS]]#0 :{{.*}} = %[[NUMBERS]]#1 :
// CHECK-NOT:       math
// CHECK:           ejk.yield states
// APART-LABEL: func.func @shared
// APART:         ejk.scan
// APART:           math.rsqrt
// APART:           ejk.outer_add
func.func @shared() {
  %k = check.random normal seed 1 : tensor<2x9x1x4xbf16>
  %v = check.random normal seed 2 : tensor<2x9x2x3xbf16>
  %a = check.random normal seed 3 : tensor<2x9x2xf32>
  %b = check.random normal seed 4 : tensor<2x9x2xf32>
  %bias = check.random normal seed 5 : tensor<2xf32>
  %h0 = check.random normal seed 6 : tensor<2x2x4x3xf32>
  %o, %St = ejk.scan
      sequences(%vt = %v : tensor<2x9x2x3xbf16>, %kt = %k : tensor<2x9x1x4xbf16>, %at = %a : tensor<2x9x2xf32>,
                %bt = %b : tensor<2x9x2xf32>)
      parameters(%bi = %bias : tensor<2xf32> as f32)
      states(%S = %h0 : tensor<2x2x4x3xf32>) -> (tensor<2x9x2x3xf32>) {
    %kw = arith.extf %kt : vector<4xbf16> to vector<4xf32>
    %vw = arith.extf %vt : vector<3xbf16> to vector<3xf32>
    %squares = arith.mulf %kw, %kw : vector<4xf32>
    %sum = ejk.sum %squares : vector<4xf32>
    %over = math.rsqrt %sum : f32
    %each = vector.broadcast %over : f32 to vector<4xf32>
    %kn = arith.mulf %kw, %each : vector<4xf32>
    %y = arith.addf %at, %bi : f32
    %e = math.exp %y : f32
    %g = arith.negf %e : f32
    %rate = math.exp %bt : f32
    %rates = vector.broadcast %rate : f32 to vector<3xf32>
    %S1 = ejk.decay %S by %g along head : vector<4x3xf32>, f32
    %r = ejk.read %S1, %kn along key : vector<4x3xf32>, vector<4xf32>
    %error = arith.subf %vw, %r : vector<3xf32>
    %u = arith.mulf %rates, %error : vector<3xf32>
    %S2 = ejk.outer_add %S1, %kn, %u : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    ejk.yield states(%S2 : vector<4x3xf32>) outputs(%r : vector<3xf32>)
  }
  %kns = ejk.scan sequences(%kt = %k : tensor<2x9x1x4xbf16>) -> (tensor<2x9x1x4xf32>) {
    %kw = arith.extf %kt : vector<4xbf16> to vector<4xf32>
    %squares = arith.mulf %kw, %kw : vector<4xf32>
    %sum = ejk.sum %squares : vector<4xf32>
    %over = math.rsqrt %sum : f32
    %each = vector.broadcast %over : f32 to vector<4xf32>
    %kn = arith.mulf %kw, %each : vector<4xf32>
    ejk.yield outputs(%kn : vector<4xf32>)
  }
  %gs, %rs = ejk.scan sequences(%at = %a : tensor<2x9x2xf32>, %bt = %b : tensor<2x9x2xf32>)
      parameters(%bi = %bias : tensor<2xf32> as f32) -> (tensor<2x9x2xf32>, tensor<2x9x2xf32>) {
    %y = arith.addf %at, %bi : f32
    %e = math.exp %y : f32
    %g = arith.negf %e : f32
    %rate = math.exp %bt : f32
    ejk.yield outputs(%g, %rate : f32, f32)
  }
  %want, %Su = ejk.scan
      sequences(%vt = %v : tensor<2x9x2x3xbf16>, %kn = %kns : tensor<2x9x1x4xf32>, %g = %gs : tensor<2x9x2xf32>,
                %rate = %rs : tensor<2x9x2xf32>)
      states(%S = %h0 : tensor<2x2x4x3xf32>) -> (tensor<2x9x2x3xf32>) {
    %vw = arith.extf %vt : vector<3xbf16> to vector<3xf32>
    %rates = vector.broadcast %rate : f32 to vector<3xf32>
    %S1 = ejk.decay %S by %g along head : vector<4x3xf32>, f32
    %r = ejk.read %S1, %kn along key : vector<4x3xf32>, vector<4xf32>
    %error = arith.subf %vw, %r : vector<3xf32>
    %u = arith.mulf %rates, %error : vector<3xf32>
    %S2 = ejk.outer_add %S1, %kn, %u : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    ejk.yield states(%S2 : vector<4x3xf32>) outputs(%r : vector<3xf32>)
  }
  check.expect_close %o, %want max_relative 1.0e-13 : tensor<2x9x2x3xf32>
  check.expect_close %St, %Su max_relative 1.0e-13 : tensor<2x2x4x3xf32>
  return
}

// A key that heads share, divided with a number of each of these heads, is a key of each head: it stays in the step.
// CHECK-LABEL: func.func @parameter_of_heads
// CHECK-NOT:     ejk.yield outputs
// CHECK:         ejk.scan
// CHECK:           math.rsqrt
// CHECK:           ejk.outer_add
func.func @parameter_of_heads() {
  %k = check.random normal seed 1 : tensor<2x9x1x4xbf16>
  %v = check.random normal seed 2 : tensor<2x9x2x3xbf16>
  %eps = check.random normal seed 3 : tensor<2xf32>
  %h0 = check.random normal seed 4 : tensor<2x2x4x3xf32>
  %o, %St = ejk.scan
      sequences(%vt = %v : tensor<2x9x2x3xbf16>, %kt = %k : tensor<2x9x1x4xbf16>)
      parameters(%ep = %eps : tensor<2xf32> as f32)
      states(%S = %h0 : tensor<2x2x4x3xf32>) -> (tensor<2x9x2x3xf32>) {
    %kw = arith.extf %kt : vector<4xbf16> to vector<4xf32>
    %vw = arith.extf %vt : vector<3xbf16> to vector<3xf32>
    %squares = arith.mulf %kw, %kw : vector<4xf32>
    %sum = ejk.sum %squares : vector<4xf32>
    %epsilon = math.exp %ep : f32
    %more = arith.addf %sum, %epsilon : f32
    %over = math.rsqrt %more : f32
    %each = vector.broadcast %over : f32 to vector<4xf32>
    %kn = arith.mulf %kw, %each : vector<4xf32>
    %r = ejk.read %S, %kn along key : vector<4x3xf32>, vector<4xf32>
    %error = arith.subf %vw, %r : vector<3xf32>
    %S1 = ejk.outer_add %S, %kn, %error : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    ejk.yield states(%S1 : vector<4x3xf32>) outputs(%r : vector<3xf32>)
  }
  %kns = ejk.scan sequences(%vt = %v : tensor<2x9x2x3xbf16>, %kt = %k : tensor<2x9x1x4xbf16>)
      parameters(%ep = %eps : tensor<2xf32> as f32) -> (tensor<2x9x2x4xf32>) {
    %kw = arith.extf %kt : vector<4xbf16> to vector<4xf32>
    %squares = arith.mulf %kw, %kw : vector<4xf32>
    %sum = ejk.sum %squares : vector<4xf32>
    %epsilon = math.exp %ep : f32
    %more = arith.addf %sum, %epsilon : f32
    %over = math.rsqrt %more : f32
    %each = vector.broadcast %over : f32 to vector<4xf32>
    %kn = arith.mulf %kw, %each : vector<4xf32>
    ejk.yield outputs(%kn : vector<4xf32>)
  }
  %want, %Su = ejk.scan
      sequences(%vt = %v : tensor<2x9x2x3xbf16>, %kn = %kns : tensor<2x9x2x4xf32>)
      states(%S = %h0 : tensor<2x2x4x3xf32>) -> (tensor<2x9x2x3xf32>) {
    %vw = arith.extf %vt : vector<3xbf16> to vector<3xf32>
    %r = ejk.read %S, %kn along key : vector<4x3xf32>, vector<4xf32>
    %error = arith.subf %vw, %r : vector<3xf32>
    %S1 = ejk.outer_add %S, %kn, %error : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    ejk.yield states(%S1 : vector<4x3xf32>) outputs(%r : vector<3xf32>)
  }
  check.expect_close %o, %want max_relative 1.0e-13 : tensor<2x9x2x3xf32>
  check.expect_close %St, %Su max_relative 1.0e-13 : tensor<2x2x4x3xf32>
  return
}

// A number of all heads leaves it one key.
// CHECK-LABEL: func.func @parameter_of_all
// CHECK:         ejk.scan
// CHECK:           math.rsqrt
// CHECK-NOT:       ejk.outer_add
// CHECK:           ejk.yield outputs(%{{.*}} : vector<4xf32>)
// CHECK:         ejk.scan
// CHECK-NOT:       math.rsqrt
// CHECK:           ejk.outer_add
func.func @parameter_of_all(%k: tensor<2x9x1x4xbf16>, %v: tensor<2x9x2x3xbf16>, %eps: tensor<f32>) -> tensor<2x9x2x3xf32> {
  %o, %St = ejk.scan
      sequences(%vt = %v : tensor<2x9x2x3xbf16>, %kt = %k : tensor<2x9x1x4xbf16>)
      parameters(%ep = %eps : tensor<f32> as f32)
      states(%S = zero : tensor<2x2x4x3xf32>) -> (tensor<2x9x2x3xf32>) {
    %kw = arith.extf %kt : vector<4xbf16> to vector<4xf32>
    %vw = arith.extf %vt : vector<3xbf16> to vector<3xf32>
    %squares = arith.mulf %kw, %kw : vector<4xf32>
    %sum = ejk.sum %squares : vector<4xf32>
    %epsilon = math.exp %ep : f32
    %more = arith.addf %sum, %epsilon : f32
    %over = math.rsqrt %more : f32
    %each = vector.broadcast %over : f32 to vector<4xf32>
    %kn = arith.mulf %kw, %each : vector<4xf32>
    %r = ejk.read %S, %kn along key : vector<4x3xf32>, vector<4xf32>
    %error = arith.subf %vw, %r : vector<3xf32>
    %S1 = ejk.outer_add %S, %kn, %error : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    ejk.yield states(%S1 : vector<4x3xf32>) outputs(%r : vector<3xf32>)
  }
  return %o : tensor<2x9x2x3xf32>
}

// A key that each head has for itself stays in the step.
// CHECK-LABEL: func.func @own
// CHECK-COUNT-1: ejk.scan
// CHECK-NOT:   ejk.scan
func.func @own(%k: tensor<?x?x2x4xbf16>, %v: tensor<?x?x2x4xbf16>) -> tensor<?x?x2x4xf32> {
  %o, %St = ejk.scan sequences(%kt = %k : tensor<?x?x2x4xbf16>, %vt = %v : tensor<?x?x2x4xbf16>)
      states(%S = zero : tensor<?x2x4x4xf32>) -> (tensor<?x?x2x4xf32>) {
    %kw = arith.extf %kt : vector<4xbf16> to vector<4xf32>
    %vw = arith.extf %vt : vector<4xbf16> to vector<4xf32>
    %squares = arith.mulf %kw, %kw : vector<4xf32>
    %sum = ejk.sum %squares : vector<4xf32>
    %over = math.rsqrt %sum : f32
    %each = vector.broadcast %over : f32 to vector<4xf32>
    %kn = arith.mulf %kw, %each : vector<4xf32>
    %r = ejk.read %S, %kn along key : vector<4x4xf32>, vector<4xf32>
    %error = arith.subf %vw, %r : vector<4xf32>
    %S1 = ejk.outer_add %S, %kn, %error : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>) outputs(%r : vector<4xf32>)
  }
  return %o : tensor<?x?x2x4xf32>
}
