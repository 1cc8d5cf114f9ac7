// RUN: ejk-opt %s --ejk-cut-small-states --verify-diagnostics | FileCheck %s

// What depends on a read stays with it. A vector that only adds up does not keep chunks away, and stays, too.
// CHECK-LABEL: func.func @stays
// CHECK-COUNT-2: ejk.scan
// CHECK-NOT: ejk.scan
func.func @stays(%k: tensor<?x?x?x4xbf16>, %v: tensor<?x?x?x3xbf16>, %g: tensor<?x?x?xf32>)
    -> (tensor<?x?xf32>, tensor<?x?x4xf32>) {
  // expected-remark @below {{not cut: its states that are numbers or vectors depend on what is read of K×V states}}
  %St, %mt = ejk.scan
      sequences(%kt = %k : tensor<?x?x?x4xbf16>, %vt = %v : tensor<?x?x?x3xbf16>, %gt = %g : tensor<?x?x?xf32>)
      states(%S = zero : tensor<?x?x4x3xf32>, %m = zero : tensor<?x?xf32>) {
    %kw = arith.extf %kt : vector<4xbf16> to vector<4xf32>
    %vw = arith.extf %vt : vector<3xbf16> to vector<3xf32>
    %S1 = ejk.outer_add %S, %kw, %vw : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    %r = ejk.read %S1, %kw along key : vector<4x3xf32>, vector<4xf32>
    %x = ejk.sum %r : vector<3xf32>
    %m1 = arith.maximumf %m, %x : f32
    ejk.yield states(%S1, %m1 : vector<4x3xf32>, f32)
  }
  %Rt, %nt = ejk.scan
      sequences(%kt = %k : tensor<?x?x?x4xbf16>, %vt = %v : tensor<?x?x?x3xbf16>, %gt = %g : tensor<?x?x?xf32>)
      states(%S = zero : tensor<?x?x4x3xf32>, %n = zero : tensor<?x?x4xf32>) {
    %kw = arith.extf %kt : vector<4xbf16> to vector<4xf32>
    %vw = arith.extf %vt : vector<3xbf16> to vector<3xf32>
    %S1 = ejk.outer_add %S, %kw, %vw : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    %n1 = arith.addf %n, %kw : vector<4xf32>
    ejk.yield states(%S1, %n1 : vector<4x3xf32>, vector<4xf32>)
  }
  return %mt, %nt : tensor<?x?xf32>, tensor<?x?x4xf32>
}
