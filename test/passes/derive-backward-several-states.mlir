// Two states with a gate each, of which one starts from zero and the other from a given state. The first row's gate
// scales a zero in the one, so its gradient is zero there, and in the other it is not.
// RUN: ejk-run %s --entry=first_given --vjp --device=interpreter --random=B=2,T=5,H=1 --check --finite-differences | FileCheck %s --implicit-check-not=FAIL
// RUN: ejk-run %s --entry=second_given --vjp --device=interpreter --random=B=2,T=5,H=1 --check --finite-differences | FileCheck %s --implicit-check-not=FAIL
// CHECK: differences dk: pass
// CHECK: differences dv: pass
// CHECK: differences dg: pass
// CHECK: differences df: pass
// CHECK: differences dh0: pass

func.func @first_given(%k: tensor<?x?x?x4xf32>, %v: tensor<?x?x?x3xf32>, %g: tensor<?x?x?xf32>, %f: tensor<?x?x?x4xf32>,
                       %h0: tensor<?x?x4x3xf32>) -> tensor<?x?x?x3xf32> {
  %o, %St, %Rt = ejk.scan
      sequences(%kt = %k : tensor<?x?x?x4xf32>, %vt = %v : tensor<?x?x?x3xf32>, %gt = %g : tensor<?x?x?xf32>,
                %ft = %f : tensor<?x?x?x4xf32>)
      states(%S = %h0 : tensor<?x?x4x3xf32>, %R = zero : tensor<?x?x4x3xf32>) -> (tensor<?x?x?x3xf32>) {
    %S1 = ejk.decay %S by %gt along head : vector<4x3xf32>, f32
    %S2 = ejk.outer_add %S1, %kt, %vt : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    %R1 = ejk.decay %R by %ft along key : vector<4x3xf32>, vector<4xf32>
    %R2 = ejk.outer_add %R1, %kt, %vt : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    %a = ejk.read %S2, %kt along key : vector<4x3xf32>, vector<4xf32>
    %b = ejk.read %R2, %kt along key : vector<4x3xf32>, vector<4xf32>
    %ot = arith.addf %a, %b : vector<3xf32>
    ejk.yield states(%S2, %R2 : vector<4x3xf32>, vector<4x3xf32>) outputs(%ot : vector<3xf32>)
  }
  return %o : tensor<?x?x?x3xf32>
}

func.func @second_given(%k: tensor<?x?x?x4xf32>, %v: tensor<?x?x?x3xf32>, %g: tensor<?x?x?xf32>, %f: tensor<?x?x?x4xf32>,
                        %h0: tensor<?x?x4x3xf32>) -> tensor<?x?x?x3xf32> {
  %o, %St, %Rt = ejk.scan
      sequences(%kt = %k : tensor<?x?x?x4xf32>, %vt = %v : tensor<?x?x?x3xf32>, %gt = %g : tensor<?x?x?xf32>,
                %ft = %f : tensor<?x?x?x4xf32>)
      states(%S = zero : tensor<?x?x4x3xf32>, %R = %h0 : tensor<?x?x4x3xf32>) -> (tensor<?x?x?x3xf32>) {
    %S1 = ejk.decay %S by %gt along head : vector<4x3xf32>, f32
    %S2 = ejk.outer_add %S1, %kt, %vt : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    %R1 = ejk.decay %R by %ft along key : vector<4x3xf32>, vector<4xf32>
    %R2 = ejk.outer_add %R1, %kt, %vt : vector<4x3xf32>, vector<4xf32>, vector<3xf32>
    %a = ejk.read %S2, %kt along key : vector<4x3xf32>, vector<4xf32>
    %b = ejk.read %R2, %kt along key : vector<4x3xf32>, vector<4xf32>
    %ot = arith.addf %a, %b : vector<3xf32>
    ejk.yield states(%S2, %R2 : vector<4x3xf32>, vector<4x3xf32>) outputs(%ot : vector<3xf32>)
  }
  return %o : tensor<?x?x?x3xf32>
}
