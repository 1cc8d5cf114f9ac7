// RUN: ejk-opt %s --ejk-column-states | FileCheck %s

// A product of a vector state that nobody uses is no sum's: the state stays a vector.
// CHECK-LABEL: @f(
// CHECK: arith.mulf %{{.*}}, %{{.*}} : vector<8xf32>
func.func @f(%k: tensor<?x?x?x8xf32>, %g: tensor<?x?x?xf32>) -> (tensor<?x?x?x8xf32>, tensor<?x?x?xf32>) {
  %o:2, %S2, %n2 = ejk.scan
      sequences(%kt = %k : tensor<?x?x?x8xf32>, %gt = %g : tensor<?x?x?xf32>)
      states(%S = zero : tensor<?x?x8x8xf32>, %n = zero : tensor<?x?x8xf32>) -> (tensor<?x?x?x8xf32>, tensor<?x?x?xf32>) {
    %S1 = ejk.outer_add %S, %kt, %kt : vector<8x8xf32>, vector<8xf32>, vector<8xf32>
    %e = math.exp %gt : f32
    %b = vector.broadcast %e : f32 to vector<8xf32>
    %d = arith.mulf %n, %b : vector<8xf32>
    %n1 = arith.addf %d, %kt : vector<8xf32>
    %dead = arith.mulf %n1, %kt : vector<8xf32>
    %r = ejk.sum %n1 : vector<8xf32>
    %x = ejk.read %S1, %kt along key : vector<8x8xf32>, vector<8xf32>
    ejk.yield states(%S1, %n1 : vector<8x8xf32>, vector<8xf32>) outputs(%x, %r : vector<8xf32>, f32)
  }
  return %o#0, %o#1 : tensor<?x?x?x8xf32>, tensor<?x?x?xf32>
}

// The sum of a state's squares is no read of it: no vector of the step is one of its two factors.
// CHECK-LABEL: @squares(
// CHECK: states(%{{.*}} = zero : tensor<?x?x8x8xf32>, %{{.*}} = zero : tensor<?x?x8xf32>)
// CHECK: %[[P:.*]] = arith.mulf %[[N:.*]], %[[N]] : vector<8xf32>
// CHECK: ejk.sum %[[P]] : vector<8xf32>
func.func @squares(%k: tensor<?x?x?x8xf32>, %g: tensor<?x?x?xf32>) -> (tensor<?x?x?x8xf32>, tensor<?x?x?xf32>) {
  %o:2, %S2, %n2 = ejk.scan
      sequences(%kt = %k : tensor<?x?x?x8xf32>, %gt = %g : tensor<?x?x?xf32>)
      states(%S = zero : tensor<?x?x8x8xf32>, %n = zero : tensor<?x?x8xf32>) -> (tensor<?x?x?x8xf32>, tensor<?x?x?xf32>) {
    %S1 = ejk.outer_add %S, %kt, %kt : vector<8x8xf32>, vector<8xf32>, vector<8xf32>
    %e = math.exp %gt : f32
    %b = vector.broadcast %e : f32 to vector<8xf32>
    %d = arith.mulf %n, %b : vector<8xf32>
    %n1 = arith.addf %d, %kt : vector<8xf32>
    %p = arith.mulf %n1, %n1 : vector<8xf32>
    %r = ejk.sum %p : vector<8xf32>
    %x = ejk.read %S1, %kt along key : vector<8x8xf32>, vector<8xf32>
    ejk.yield states(%S1, %n1 : vector<8x8xf32>, vector<8xf32>) outputs(%x, %r : vector<8xf32>, f32)
  }
  return %o#0, %o#1 : tensor<?x?x?x8xf32>, tensor<?x?x?xf32>
}
