// RUN: ejk-compile --schedule=step --arch=sm_90 %s --emit=ptx -o - | FileCheck %s
// RUN: ejk-run %s --entry=sequence --random B=2,T=37,H=3 --device=cpu --check
// RUN: ejk-run %s --entry=parameter --random B=2,T=37,H=3 --device=cpu --check
// RUN: ejk-run %s --entry=gate --random B=2,T=37,H=3 --device=cpu --check
// Sums over channels that a step takes along the axis of its reads: of what comes
// from a sequence, and of a parameter, which is no
// constant that each thread could have for itself.

// CHECK-DAG: .entry sequence_scan0(
// CHECK-DAG: .entry parameter_scan0(
// CHECK-DAG: .entry gate_scan0(
func.func @sequence(%q: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %t = ejk.scan sequences(%qt = %q : tensor<?x?x?x8xf32>)
      states(%S = zero : tensor<?x?x8x8xf32>) -> (tensor<?x?x?x8xf32>) {
    %n = ejk.sum %qt : vector<8xf32>
    %b = vector.broadcast %n : f32 to vector<8xf32>
    %S1 = ejk.outer_add %S, %qt, %qt : vector<8x8xf32>, vector<8xf32>, vector<8xf32>
    %r = ejk.read %S1, %qt along key : vector<8x8xf32>, vector<8xf32>
    %o = arith.mulf %r, %b : vector<8xf32>
    ejk.yield states(%S1 : vector<8x8xf32>) outputs(%o : vector<8xf32>)
  }
  return %o : tensor<?x?x?x8xf32>
}

func.func @parameter(%q: tensor<?x?x?x8xf32>, %p: tensor<8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %t = ejk.scan sequences(%qt = %q : tensor<?x?x?x8xf32>) parameters(%pt = %p : tensor<8xf32> as vector<8xf32>)
      states(%S = zero : tensor<?x?x8x8xf32>) -> (tensor<?x?x?x8xf32>) {
    %n = ejk.sum %pt : vector<8xf32>
    %b = vector.broadcast %n : f32 to vector<8xf32>
    %S1 = ejk.outer_add %S, %qt, %qt : vector<8x8xf32>, vector<8xf32>, vector<8xf32>
    %r = ejk.read %S1, %qt along key : vector<8x8xf32>, vector<8xf32>
    %o = arith.mulf %r, %b : vector<8xf32>
    ejk.yield states(%S1 : vector<8x8xf32>) outputs(%o : vector<8xf32>)
  }
  return %o : tensor<?x?x?x8xf32>
}

// A gate of such a sum.
func.func @gate(%q: tensor<?x?x?x8xf32>, %p: tensor<8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %t = ejk.scan sequences(%qt = %q : tensor<?x?x?x8xf32>) parameters(%pt = %p : tensor<8xf32> as vector<8xf32>)
      states(%S = zero : tensor<?x?x8x8xf32>) -> (tensor<?x?x?x8xf32>) {
    %square = arith.mulf %pt, %pt : vector<8xf32>
    %n = ejk.sum %square : vector<8xf32>
    %g = arith.negf %n : f32
    %S0 = ejk.decay %S by %g along head : vector<8x8xf32>, f32
    %S1 = ejk.outer_add %S0, %qt, %qt : vector<8x8xf32>, vector<8xf32>, vector<8xf32>
    %r = ejk.read %S1, %qt along key : vector<8x8xf32>, vector<8xf32>
    ejk.yield states(%S1 : vector<8x8xf32>) outputs(%r : vector<8xf32>)
  }
  return %o : tensor<?x?x?x8xf32>
}
