// Gradients of gates along the axis of what corrects the state. Such a gate's gradient needs the adjoint's own read of
// what is added, which is then not handed on from the scan that finds the cotangents of reads. By finite differences.
// DEFINE: %{entry} =
// DEFINE: %{run} = ejk-run %s --entry=%{entry} --vjp --device=interpreter --random=B=1,T=9,H=2 --check --finite-differences

// REDEFINE: %{entry} = value_gate
// RUN: %{run} | FileCheck %s --implicit-check-not=FAIL
// REDEFINE: %{entry} = gate_after
// RUN: %{run} | FileCheck %s --implicit-check-not=FAIL
// REDEFINE: %{entry} = both_gates
// RUN: %{run} | FileCheck %s --implicit-check-not=FAIL
// REDEFINE: %{entry} = corrected_key
// RUN: %{run} | FileCheck %s --implicit-check-not=FAIL
// RUN: ejk-run %s --entry=value_gate --vjp --device=cpu --random=B=1,T=30,H=2 --check --finite-differences | FileCheck %s --implicit-check-not=FAIL

// CHECK-DAG: differences dgate: pass
// CHECK-DAG: check dq: pass
// CHECK-DAG: check dk: pass
// CHECK-DAG: check dv: pass
// CHECK-DAG: check dgate: pass

// What a gate of each value channel leaves is corrected.
func.func @value_gate(%q: tensor<?x?x?x8xf32>, %k: tensor<?x?x?x8xf32>, %v: tensor<?x?x?x4xf32>,
    %beta: tensor<?x?x?xf32>, %gate: tensor<?x?x?x4xf32>) -> tensor<?x?x?x4xf32> {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x8xf32>, %kt = %k : tensor<?x?x?x8xf32>, %vt = %v : tensor<?x?x?x4xf32>,
                %b = %beta : tensor<?x?x?xf32>, %gt = %gate : tensor<?x?x?x4xf32>)
      states(%S = zero : tensor<?x?x8x4xf32>) -> (tensor<?x?x?x4xf32>) {
    %few = arith.constant dense<0.3> : vector<8xf32>
    %kn = arith.mulf %kt, %few : vector<8xf32>
    %square = arith.mulf %gt, %gt : vector<4xf32>
    %g = arith.negf %square : vector<4xf32>
    %rate = vector.broadcast %b : f32 to vector<4xf32>
    %S0 = ejk.decay %S by %g along value : vector<8x4xf32>, vector<4xf32>
    %r = ejk.read %S0, %kn along key : vector<8x4xf32>, vector<8xf32>
    %e = arith.subf %vt, %r : vector<4xf32>
    %u = arith.mulf %rate, %e : vector<4xf32>
    %S1 = ejk.outer_add %S0, %kn, %u : vector<8x4xf32>, vector<8xf32>, vector<4xf32>
    %ot = ejk.read %S1, %qt along key : vector<8x4xf32>, vector<8xf32>
    ejk.yield states(%S1 : vector<8x4xf32>) outputs(%ot : vector<4xf32>)
  }
  return %o : tensor<?x?x?x4xf32>
}

// The gate comes after the correction, and the scan is reversed.
func.func @gate_after(%q: tensor<?x?x?x8xf32>, %k: tensor<?x?x?x8xf32>, %v: tensor<?x?x?x4xf32>,
    %gate: tensor<?x?x?x4xf32>) -> tensor<?x?x?x4xf32> {
  %o, %ht = ejk.scan reverse
      sequences(%qt = %q : tensor<?x?x?x8xf32>, %kt = %k : tensor<?x?x?x8xf32>, %vt = %v : tensor<?x?x?x4xf32>,
                %gt = %gate : tensor<?x?x?x4xf32>)
      states(%S = zero : tensor<?x?x8x4xf32>) -> (tensor<?x?x?x4xf32>) {
    %few = arith.constant dense<0.3> : vector<8xf32>
    %kn = arith.mulf %kt, %few : vector<8xf32>
    %square = arith.mulf %gt, %gt : vector<4xf32>
    %g = arith.negf %square : vector<4xf32>
    %r = ejk.read %S, %kn along key : vector<8x4xf32>, vector<8xf32>
    %u = arith.subf %vt, %r : vector<4xf32>
    %S0 = ejk.outer_add %S, %kn, %u : vector<8x4xf32>, vector<8xf32>, vector<4xf32>
    %S1 = ejk.decay %S0 by %g along value : vector<8x4xf32>, vector<4xf32>
    %ot = ejk.read %S1, %qt along key : vector<8x4xf32>, vector<8xf32>
    ejk.yield states(%S1 : vector<8x4xf32>) outputs(%ot : vector<4xf32>)
  }
  return %o : tensor<?x?x?x4xf32>
}

// A gate of each channel of both axes.
func.func @both_gates(%q: tensor<?x?x?x8xf32>, %k: tensor<?x?x?x8xf32>, %v: tensor<?x?x?x4xf32>,
    %gate: tensor<?x?x?x4xf32>, %gk: tensor<?x?x?x8xf32>) -> tensor<?x?x?x4xf32> {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x8xf32>, %kt = %k : tensor<?x?x?x8xf32>, %vt = %v : tensor<?x?x?x4xf32>,
                %gt = %gate : tensor<?x?x?x4xf32>, %gkt = %gk : tensor<?x?x?x8xf32>)
      states(%S = zero : tensor<?x?x8x4xf32>) -> (tensor<?x?x?x4xf32>) {
    %few = arith.constant dense<0.3> : vector<8xf32>
    %kn = arith.mulf %kt, %few : vector<8xf32>
    %square = arith.mulf %gt, %gt : vector<4xf32>
    %g = arith.negf %square : vector<4xf32>
    %squares = arith.mulf %gkt, %gkt : vector<8xf32>
    %gs = arith.negf %squares : vector<8xf32>
    %Sg = ejk.decay %S by %g along value : vector<8x4xf32>, vector<4xf32>
    %S0 = ejk.decay %Sg by %gs along key : vector<8x4xf32>, vector<8xf32>
    %r = ejk.read %S0, %kn along key : vector<8x4xf32>, vector<8xf32>
    %u = arith.subf %vt, %r : vector<4xf32>
    %S1 = ejk.outer_add %S0, %kn, %u : vector<8x4xf32>, vector<8xf32>, vector<4xf32>
    %ot = ejk.read %S1, %qt along key : vector<8x4xf32>, vector<8xf32>
    ejk.yield states(%S1 : vector<8x4xf32>) outputs(%ot : vector<4xf32>)
  }
  return %o : tensor<?x?x?x4xf32>
}

// The other axis: what is read along the values corrects the key, and each key channel has a gate.
func.func @corrected_key(%q: tensor<?x?x?x8xf32>, %k: tensor<?x?x?x8xf32>, %v: tensor<?x?x?x4xf32>,
    %gate: tensor<?x?x?x8xf32>) -> tensor<?x?x?x4xf32> {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x8xf32>, %kt = %k : tensor<?x?x?x8xf32>, %vt = %v : tensor<?x?x?x4xf32>,
                %gt = %gate : tensor<?x?x?x8xf32>)
      states(%S = zero : tensor<?x?x8x4xf32>) -> (tensor<?x?x?x4xf32>) {
    %few = arith.constant dense<0.3> : vector<4xf32>
    %vn = arith.mulf %vt, %few : vector<4xf32>
    %square = arith.mulf %gt, %gt : vector<8xf32>
    %g = arith.negf %square : vector<8xf32>
    %S0 = ejk.decay %S by %g along key : vector<8x4xf32>, vector<8xf32>
    %r = ejk.read %S0, %vn along value : vector<8x4xf32>, vector<4xf32>
    %u = arith.subf %kt, %r : vector<8xf32>
    %S1 = ejk.outer_add %S0, %u, %vn : vector<8x4xf32>, vector<8xf32>, vector<4xf32>
    %ot = ejk.read %S1, %qt along key : vector<8x4xf32>, vector<8xf32>
    ejk.yield states(%S1 : vector<8x4xf32>) outputs(%ot : vector<4xf32>)
  }
  return %o : tensor<?x?x?x4xf32>
}
