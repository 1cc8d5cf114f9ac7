// What is read of one state is a query of the next, and a key. Two scans before that one give it as a
// sequence, so that a CPU's columns need not wait for each other.
// RUN: ejk-opt %s --ejk-split-reads=turned --canonicalize | FileCheck %s
// RUN: ejk-opt %s --ejk-split-reads --canonicalize | FileCheck %s --check-prefix=WHOLE
// RUN: ejk-run %s --entry=chain --device=cpu --check --random=B=2,T=20,H=2,Hkv=1 | FileCheck %s --check-prefix=RUNS
// RUN: ejk-run %s --entry=chain --device=cpu --vjp --check --random=B=1,T=20,H=2,Hkv=2 | FileCheck %s --check-prefix=RUNS
// RUN: not ejk-run %s --entry=loop --device=cpu --check --random=B=1,T=20,H=2,Hkv=2 2>&1 | FileCheck %s --check-prefix=LOOP
// RUNS: check
// RUNS-NOT: FAIL
// LOOP: a CPU's kernel computes the columns of a state apart

// CHECK-LABEL: func.func @chain(
// CHECK: %[[ONE:.*]], %{{.*}} = ejk.scan
// CHECK: %[[R:.*]] = ejk.read
// CHECK-NOT: ejk.read
// CHECK: ejk.yield
// CHECK: %[[TWO:.*]], %{{.*}} = ejk.scan
// CHECK: %[[QUERY:arg[0-9]+]] = %[[ONE]] :
// CHECK: %[[SMALL:.*]] = arith.mulf %[[QUERY]]
// CHECK: ejk.read %{{.*}}, %[[SMALL]] along key
// CHECK-NOT: ejk.read
// CHECK: ejk.scan
// CHECK: %[[KEY:arg[0-9]+]] = %[[TWO]] :
// CHECK: %[[LITTLE:.*]] = arith.mulf %[[KEY]]
// CHECK: ejk.outer_add %{{.*}}, %[[LITTLE]],
// WHOLE-LABEL: func.func @chain(
// WHOLE: ejk.scan
// WHOLE-NOT: ejk.scan
// WHOLE: return
func.func @chain(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>) -> (tensor<?x?x?x16xf32>, tensor<?x?x16x16xf32>) {
  %o, %h0, %h1, %h2 = ejk.scan sequences(%qt = %q : tensor<?x?x?x16xf32>, %kt = %k : tensor<?x?x?x16xf32>)
      states(%S = zero : tensor<?x?x16x16xf32>, %R = zero : tensor<?x?x16x16xf32>, %U = zero : tensor<?x?x16x16xf32>)
      -> (tensor<?x?x?x16xf32>) {
    %S1 = ejk.outer_add %S, %kt, %kt : vector<16x16xf32>, vector<16xf32>, vector<16xf32>
    %R1 = ejk.outer_add %R, %qt, %kt : vector<16x16xf32>, vector<16xf32>, vector<16xf32>
    %a = ejk.read %S1, %qt along key : vector<16x16xf32>, vector<16xf32>
    %n = arith.constant dense<0.01> : vector<16xf32>
    %as = arith.mulf %a, %n : vector<16xf32>
    %b = ejk.read %R1, %as along key : vector<16x16xf32>, vector<16xf32>
    %bs = arith.mulf %b, %n : vector<16xf32>
    %U1 = ejk.outer_add %U, %bs, %qt : vector<16x16xf32>, vector<16xf32>, vector<16xf32>
    %c = ejk.read %U1, %kt along key : vector<16x16xf32>, vector<16xf32>
    ejk.yield states(%S1, %R1, %U1 : vector<16x16xf32>, vector<16x16xf32>, vector<16x16xf32>) outputs(%c : vector<16xf32>)
  }
  return %o, %h2 : tensor<?x?x?x16xf32>, tensor<?x?x16x16xf32>
}

// A state that takes up what it gave in the step before: there is no scan that could come first.
// CHECK-LABEL: func.func @loop(
// CHECK: ejk.scan
// CHECK-NOT: ejk.scan
func.func @loop(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32> {
  %o, %h0 = ejk.scan sequences(%qt = %q : tensor<?x?x?x16xf32>, %kt = %k : tensor<?x?x?x16xf32>)
      states(%S = zero : tensor<?x?x16x16xf32>) -> (tensor<?x?x?x16xf32>) {
    %a = ejk.read %S, %kt along key : vector<16x16xf32>, vector<16xf32>
    %S1 = ejk.outer_add %S, %a, %kt : vector<16x16xf32>, vector<16xf32>, vector<16xf32>
    %b = ejk.read %S1, %qt along key : vector<16x16xf32>, vector<16xf32>
    ejk.yield states(%S1 : vector<16x16xf32>) outputs(%b : vector<16xf32>)
  }
  return %o : tensor<?x?x?x16xf32>
}
