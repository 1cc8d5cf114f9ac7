// RUN: ejk-opt %s --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-scale-after-read | FileCheck %s
// RUN: ejk-opt %s --ejk-scale-after-read --ejk-interpret -o /dev/null

// A delta rule's key is taken as it was given: its length goes to what is read, and to what is added.
// CHECK-LABEL: func.func @normalised
// CHECK:         %[[K:.*]] = arith.extf %{{.*}} : vector<4xbf16> to vector<4xf32>
// CHECK:         %[[OVER:.*]] = math.rsqrt
// CHECK:         %[[P:.*]] = ejk.read %[[S1:.*]], %[[K]] along key
// CHECK-NEXT:    %[[EACH:.*]] = vector.broadcast %[[OVER]] : f32 to vector<3xf32>
// CHECK-NEXT:    %[[R:.*]] = arith.mulf %[[P]], %[[EACH]]
// CHECK-NEXT:    %[[U:.*]] = arith.subf %{{.*}}, %[[R]]
// CHECK-NEXT:    %[[EACH2:.*]] = vector.broadcast %[[OVER]] : f32 to vector<3xf32>
// CHECK-NEXT:    %[[W:.*]] = arith.mulf %[[U]], %[[EACH2]]
// CHECK-NEXT:    ejk.outer_add %[[S1]], %[[K]], %[[W]]
// CHECK:         outputs(%[[R]] : vector<3xf32>)
func.func @normalised() {
  %k = check.random normal seed 1 : tensor<2x9x2x4xbf16>
  %v = check.random normal seed 2 : tensor<2x9x2x3xbf16>
  %g = check.random uniform seed 3 : tensor<2x9x2xf32>
  %h0 = check.random normal seed 4 : tensor<2x2x4x3xf32>
  %o, %St = ejk.scan sequences(%vt = %v : tensor<2x9x2x3xbf16>, %kt = %k : tensor<2x9x2x4xbf16>, %gt = %g : tensor<2x9x2xf32>)
      states(%S = %h0 : tensor<2x2x4x3xf32>) -> (tensor<2x9x2x3xf32>) {
    %kw = arith.extf %kt : vector<4xbf16> to vector<4xf32>
    %vw = arith.extf %vt : vector<3xbf16> to vector<3xf32>
    %squares = arith.mulf %kw, %kw : vector<4xf32>
    %sum = ejk.sum %squares : vector<4xf32>
    %over = math.rsqrt %sum : f32
    %each = vector.broadcast %over : f32 to vector<4xf32>
    %kn = arith.mulf %each, %kw : vector<4xf32>
    %S1 = ejk.decay %S by %gt along head : vector<4x3xf32>, f32
    %r = ejk.read %S1, %kn along key : vector<4x3xf32>, vector<4xf32>
    %u = arith.subf %vw, %r : vector<3xf32>
    %S2 = ejk.outer_add %S1, %kn, %u : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    ejk.yield states(%S2 : vector<4x3xf32>) outputs(%r : vector<3xf32>)
  }
  // The same of keys that are normalised before.
  %kf = ejk.scan sequences(%kt = %k : tensor<2x9x2x4xbf16>) -> (tensor<2x9x2x4xf32>) {
    %kw = arith.extf %kt : vector<4xbf16> to vector<4xf32>
    %squares = arith.mulf %kw, %kw : vector<4xf32>
    %sum = ejk.sum %squares : vector<4xf32>
    %over = math.rsqrt %sum : f32
    %each = vector.broadcast %over : f32 to vector<4xf32>
    %kn = arith.mulf %each, %kw : vector<4xf32>
    ejk.yield outputs(%kn : vector<4xf32>)
  }
  %want, %Su = ejk.scan sequences(%vt = %v : tensor<2x9x2x3xbf16>, %kn = %kf : tensor<2x9x2x4xf32>, %gt = %g : tensor<2x9x2xf32>)
      states(%S = %h0 : tensor<2x2x4x3xf32>) -> (tensor<2x9x2x3xf32>) {
    %vw = arith.extf %vt : vector<3xbf16> to vector<3xf32>
    %S1 = ejk.decay %S by %gt along head : vector<4x3xf32>, f32
    %r = ejk.read %S1, %kn along key : vector<4x3xf32>, vector<4xf32>
    %u = arith.subf %vw, %r : vector<3xf32>
    %S2 = ejk.outer_add %S1, %kn, %u : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    ejk.yield states(%S2 : vector<4x3xf32>) outputs(%r : vector<3xf32>)
  }
  check.expect_close %o, %want max_relative 1.0e-12 : tensor<2x9x2x3xf32>
  check.expect_close %St, %Su max_relative 1.0e-12 : tensor<2x2x4x3xf32>
  return
}

// Without a correction, and with a gate of each channel, a key stays as it is.
// CHECK-LABEL: func.func @channels
// CHECK:         math.rsqrt
// CHECK:         %[[KN:.*]] = arith.mulf
// CHECK:         ejk.read %{{.*}}, %[[KN]] along key
func.func @channels(%k: tensor<?x?x2x4xbf16>, %v: tensor<?x?x2x4xbf16>, %g: tensor<?x?x2x4xf32>) -> tensor<?x?x2x4xf32> {
  %o, %St = ejk.scan sequences(%kt = %k : tensor<?x?x2x4xbf16>, %vt = %v : tensor<?x?x2x4xbf16>, %gt = %g : tensor<?x?x2x4xf32>)
      states(%S = zero : tensor<?x2x4x4xf32>) -> (tensor<?x?x2x4xf32>) {
    %kw = arith.extf %kt : vector<4xbf16> to vector<4xf32>
    %vw = arith.extf %vt : vector<4xbf16> to vector<4xf32>
    %squares = arith.mulf %kw, %kw : vector<4xf32>
    %sum = ejk.sum %squares : vector<4xf32>
    %over = math.rsqrt %sum : f32
    %each = vector.broadcast %over : f32 to vector<4xf32>
    %kn = arith.mulf %kw, %each : vector<4xf32>
    %S1 = ejk.decay %S by %gt along key : vector<4x4xf32>, vector<4xf32>
    %r = ejk.read %S1, %kn along key : vector<4x4xf32>, vector<4xf32>
    %u = arith.subf %vw, %r : vector<4xf32>
    %S2 = ejk.outer_add %S1, %kn, %u : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x4xf32>) outputs(%r : vector<4xf32>)
  }
  return %o : tensor<?x?x2x4xf32>
}
