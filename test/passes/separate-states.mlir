// RUN: ejk-opt %s --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-column-states | FileCheck %s --check-prefix=COLUMN
// RUN: ejk-opt %s --ejk-column-states --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-cut-small-states | FileCheck %s --check-prefix=CUT
// RUN: ejk-opt %s --ejk-cut-small-states --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-column-states --ejk-cut-small-states --ejk-split-states --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-separate-states | FileCheck %s --check-prefix=SEPARATE

// Each recurrence is compared with itself in another form, before and after each pass.

// A normaliser, which is read as a product and as a sum, against a matrix of one column.
// COLUMN-LABEL: func.func @normaliser
// COLUMN:         ejk.scan
// COLUMN:           states(%{{.*}} = zero : tensor<2x2x4x3xf32>, %[[N:.*]] = %{{.*}} : tensor<2x2x4x1xf32>)
// COLUMN:           %[[N1:.*]] = ejk.decay %[[N]] by %{{.*}} along head : vector<4x1xf32>, f32
// COLUMN:           %[[N2:.*]] = ejk.outer_add %[[N1]], %{{.*}}, %{{.*}} : vector<4x1xf32>, vector<4xf32>, vector<1xf32>
// COLUMN:           %[[R:.*]] = ejk.read %[[N2]], %{{.*}} along key : vector<4x1xf32>, vector<4xf32>
// COLUMN:           ejk.sum %[[R]] : vector<1xf32>
// COLUMN:         tensor.collapse_shape
// CUT-LABEL: func.func @normaliser
// CUT:         ejk.scan
// CUT-NOT:     x4x3xf32
// CUT:         ejk.scan
// CUT:           states(%{{.*}} = zero : tensor<2x2x4x3xf32>)
// 32-bit rows have no chunks, so nothing is separated for them.
// SEPARATE-LABEL: func.func @normaliser
// SEPARATE:         states(%{{.*}} = zero : tensor<2x2x4x3xf32>, %{{.*}} = %{{.*}} : tensor<2x2x4xf32>)
func.func @normaliser() {
  %q = check.random normal seed 1 : tensor<2x9x2x4xf32>
  %k = check.random normal seed 2 : tensor<2x9x2x4xf32>
  %v = check.random normal seed 3 : tensor<2x9x2x3xf32>
  %g = check.random log_gate seed 4 : tensor<2x9x2xf32>
  %n0 = check.random normal seed 5 : tensor<2x2x4xf32>
  %a, %St, %nt = ejk.scan
      sequences(%qt = %q : tensor<2x9x2x4xf32>, %kt = %k : tensor<2x9x2x4xf32>, %vt = %v : tensor<2x9x2x3xf32>,
                %gt = %g : tensor<2x9x2xf32>)
      states(%S = zero : tensor<2x2x4x3xf32>, %n = %n0 : tensor<2x2x4xf32>) -> (tensor<2x9x2x3xf32>) {
    %S1 = ejk.decay %S by %gt along head : vector<4x3xf32>, f32
    %S2 = ejk.outer_add %S1, %kt, %vt : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    %keep = math.exp %gt : f32
    %keeps = vector.broadcast %keep : f32 to vector<4xf32>
    %n1 = arith.mulf %keeps, %n : vector<4xf32>
    %n2 = arith.addf %kt, %n1 : vector<4xf32>
    %p = arith.mulf %n2, %qt : vector<4xf32>
    %d = ejk.sum %p : vector<4xf32>
    %all = ejk.sum %n1 : vector<4xf32>
    %both = arith.addf %d, %all : f32
    %wide = vector.broadcast %both : f32 to vector<3xf32>
    %r = ejk.read %S2, %qt along key : vector<4x3xf32>, vector<4xf32>
    %o = arith.addf %r, %wide : vector<3xf32>
    ejk.yield states(%S2, %n2 : vector<4x3xf32>, vector<4xf32>) outputs(%o : vector<3xf32>)
  }
  %m0 = tensor.expand_shape %n0 [[0], [1], [2, 3]] output_shape [2, 2, 4, 1] : tensor<2x2x4xf32> into tensor<2x2x4x1xf32>
  %b, %Rt, %mt = ejk.scan
      sequences(%qt = %q : tensor<2x9x2x4xf32>, %kt = %k : tensor<2x9x2x4xf32>, %vt = %v : tensor<2x9x2x3xf32>,
                %gt = %g : tensor<2x9x2xf32>)
      states(%S = zero : tensor<2x2x4x3xf32>, %n = %m0 : tensor<2x2x4x1xf32>) -> (tensor<2x9x2x3xf32>) {
    %S1 = ejk.decay %S by %gt along head : vector<4x3xf32>, f32
    %S2 = ejk.outer_add %S1, %kt, %vt : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    %one = arith.constant dense<1.0> : vector<1xf32>
    %ones = arith.constant dense<1.0> : vector<4xf32>
    %n1 = ejk.decay %n by %gt along head : vector<4x1xf32>, f32
    %n2 = ejk.outer_add %n1, %kt, %one : vector<4x1xf32>, vector<4xf32>, vector<1xf32>
    %dr = ejk.read %n2, %qt along key : vector<4x1xf32>, vector<4xf32>
    %d = ejk.sum %dr : vector<1xf32>
    %allr = ejk.read %n1, %ones along key : vector<4x1xf32>, vector<4xf32>
    %all = ejk.sum %allr : vector<1xf32>
    %both = arith.addf %d, %all : f32
    %wide = vector.broadcast %both : f32 to vector<3xf32>
    %r = ejk.read %S2, %qt along key : vector<4x3xf32>, vector<4xf32>
    %o = arith.addf %r, %wide : vector<3xf32>
    ejk.yield states(%S2, %n2 : vector<4x3xf32>, vector<4x1xf32>) outputs(%o : vector<3xf32>)
  }
  %mv = tensor.collapse_shape %mt [[0], [1], [2, 3]] : tensor<2x2x4x1xf32> into tensor<2x2x4xf32>
  check.expect_close %a, %b max_relative 1.0e-13 : tensor<2x9x2x3xf32>
  check.expect_close %nt, %mv max_relative 1.0e-13 : tensor<2x2x4xf32>
  return
}

// A maximum that a later decay and a key depend on, against gates that the maximum does not change: what it
// takes out of the state it divides by in the end. Rows are 16 bits wide.
// SEPARATE-LABEL: func.func @maximum
// SEPARATE:         %[[MS:.*]], %{{.*}} = ejk.scan
// SEPARATE-NOT:       x4x3xf32
// SEPARATE:           arith.maximumf
// SEPARATE:           outputs(%{{.*}} : f32)
// SEPARATE:         ejk.scan
// SEPARATE-NEXT:      sequences({{.*}} = %[[MS]] :
// SEPARATE:           states(%{{.*}} = zero : tensor<2x2x4x3xf32>)
func.func @maximum() {
  %k = check.random normal seed 2 : tensor<2x9x2x4xbf16>
  %v = check.random normal seed 3 : tensor<2x9x2x3xbf16>
  %f = check.random log_gate seed 4 : tensor<2x9x2xf32>
  %i = check.random normal seed 5 : tensor<2x9x2xf32>
  %a, %St, %mt = ejk.scan
      sequences(%kt = %k : tensor<2x9x2x4xbf16>, %vt = %v : tensor<2x9x2x3xbf16>, %ft = %f : tensor<2x9x2xf32>,
                %it = %i : tensor<2x9x2xf32>)
      states(%S = zero : tensor<2x2x4x3xf32>, %m = zero : tensor<2x2xf32>) -> (tensor<2x9x2x3xf32>) {
    %kept = arith.addf %ft, %m : f32
    %m1 = arith.maximumf %kept, %it : f32
    %forget = arith.subf %kept, %m1 : f32
    %enter = arith.subf %it, %m1 : f32
    %gain = math.exp %enter : f32
    %gains = vector.broadcast %gain : f32 to vector<4xf32>
    %kw = arith.extf %kt : vector<4xbf16> to vector<4xf32>
    %vw = arith.extf %vt : vector<3xbf16> to vector<3xf32>
    %ki = arith.mulf %kw, %gains : vector<4xf32>
    %S1 = ejk.decay %S by %forget along head : vector<4x3xf32>, f32
    %S2 = ejk.outer_add %S1, %ki, %vw : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    %r = ejk.read %S2, %kw along key : vector<4x3xf32>, vector<4xf32>
    %back = math.exp %m1 : f32
    %backs = vector.broadcast %back : f32 to vector<3xf32>
    %o = arith.mulf %r, %backs : vector<3xf32>
    ejk.yield states(%S2, %m1 : vector<4x3xf32>, f32) outputs(%o : vector<3xf32>)
  }
  %b, %Rt = ejk.scan
      sequences(%kt = %k : tensor<2x9x2x4xbf16>, %vt = %v : tensor<2x9x2x3xbf16>, %ft = %f : tensor<2x9x2xf32>,
                %it = %i : tensor<2x9x2xf32>)
      states(%S = zero : tensor<2x2x4x3xf32>) -> (tensor<2x9x2x3xf32>) {
    %gain = math.exp %it : f32
    %gains = vector.broadcast %gain : f32 to vector<4xf32>
    %kw = arith.extf %kt : vector<4xbf16> to vector<4xf32>
    %vw = arith.extf %vt : vector<3xbf16> to vector<3xf32>
    %ki = arith.mulf %kw, %gains : vector<4xf32>
    %S1 = ejk.decay %S by %ft along head : vector<4x3xf32>, f32
    %S2 = ejk.outer_add %S1, %ki, %vw : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    %r = ejk.read %S2, %kw along key : vector<4x3xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x3xf32>) outputs(%r : vector<3xf32>)
  }
  check.expect_close %a, %b max_relative 1.0e-12 : tensor<2x9x2x3xf32>
  return
}
