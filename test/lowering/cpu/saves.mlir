// A CPU's kernel computes four steps in one pass over a state. Where a chunk's state is saved between these steps, it
// computes them singly: in both directions, of chunks that four does not divide, of packed sequences, and whether the state
// is saved before or after what the step adds, or before it decays.
// DEFINE: %{entry} =
// DEFINE: %{run} = ejk-run %s --entry=%{entry} --device=cpu --check --random

// REDEFINE: %{entry} = forward
// RUN: %{run}=B=2,T=29,H=2 | FileCheck %s --implicit-check-not=FAIL
// REDEFINE: %{entry} = decayed
// RUN: %{run}=B=2,T=29,H=2 | FileCheck %s --implicit-check-not=FAIL
// REDEFINE: %{entry} = decayed_last
// RUN: %{run}=B=2,T=29,H=2 | FileCheck %s --implicit-check-not=FAIL
// REDEFINE: %{entry} = backward
// RUN: %{run}=B=2,T=29,H=2 | FileCheck %s --implicit-check-not=FAIL
// REDEFINE: %{entry} = backward_decayed
// RUN: %{run}=B=2,T=29,H=2 | FileCheck %s --implicit-check-not=FAIL
// REDEFINE: %{entry} = backward_packed
// RUN: %{run}=B=1,T=43,H=2,N=4 | FileCheck %s --implicit-check-not=FAIL
// CHECK: check out0: pass
// CHECK: check out1: pass
// CHECK: check out2: pass

// The pass of four steps is taken where no step but the last one leaves a chunk.
// RUN: ejk-opt %s --ejk-specialize --ejk-to-cpu=target=x86-64-v4 | FileCheck %s --check-prefix=STEPS
// STEPS-LABEL: llvm.func @backward_scan0
// STEPS: scf.for {{.*}} step %c4_i64
// STEPS: arith.remui %{{.*}}, %c6_i64
// STEPS: arith.remui %{{.*}}, %c6_i64
// STEPS: arith.remui %{{.*}}, %c6_i64
// STEPS: %[[WHOLE:.*]] = arith.select %{{.*}}, %false, %{{.*}} : i1
// STEPS-NEXT: scf.if %[[WHOLE]]

func.func @forward(%k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x40xf32>, %g: tensor<?x?x?xf32>)
    -> (tensor<?x?x?x40xf32>, tensor<?x?x16x40xf32>, tensor<?x?x16x40xf32>) {
  %o, %ht, %c = ejk.scan save_every 6
      sequences(%kt = %k : tensor<?x?x?x16xf32>, %vt = %v : tensor<?x?x?x40xf32>, %gt = %g : tensor<?x?x?xf32>)
      states(%S = zero : tensor<?x?x16x40xf32>) -> (tensor<?x?x?x40xf32>) saves(tensor<?x?x16x40xf32>) {
    %S0 = ejk.decay %S by %gt along head : vector<16x40xf32>, f32
    %S1 = ejk.outer_add %S0, %kt, %vt : vector<16x40xf32>, vector<16xf32>, vector<40xf32>
    %ot = ejk.read %S1, %kt along key : vector<16x40xf32>, vector<16xf32>
    ejk.yield states(%S1 : vector<16x40xf32>) outputs(%ot : vector<40xf32>) saves(%S1 : vector<16x40xf32>)
  }
  return %o, %ht, %c : tensor<?x?x?x40xf32>, tensor<?x?x16x40xf32>, tensor<?x?x16x40xf32>
}

func.func @decayed(%k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x40xf32>, %g: tensor<?x?x?xf32>)
    -> (tensor<?x?x?x40xf32>, tensor<?x?x16x40xf32>, tensor<?x?x16x40xf32>) {
  %o, %ht, %c = ejk.scan save_every 5
      sequences(%kt = %k : tensor<?x?x?x16xf32>, %vt = %v : tensor<?x?x?x40xf32>, %gt = %g : tensor<?x?x?xf32>)
      states(%S = zero : tensor<?x?x16x40xf32>) -> (tensor<?x?x?x40xf32>) saves(tensor<?x?x16x40xf32>) {
    %S0 = ejk.decay %S by %gt along head : vector<16x40xf32>, f32
    %S1 = ejk.outer_add %S0, %kt, %vt : vector<16x40xf32>, vector<16xf32>, vector<40xf32>
    %ot = ejk.read %S1, %kt along key : vector<16x40xf32>, vector<16xf32>
    ejk.yield states(%S1 : vector<16x40xf32>) outputs(%ot : vector<40xf32>) saves(%S0 : vector<16x40xf32>)
  }
  return %o, %ht, %c : tensor<?x?x?x40xf32>, tensor<?x?x16x40xf32>, tensor<?x?x16x40xf32>
}

func.func @decayed_last(%k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x40xf32>, %g: tensor<?x?x?xf32>)
    -> (tensor<?x?x?x40xf32>, tensor<?x?x16x40xf32>, tensor<?x?x16x40xf32>) {
  %o, %ht, %c = ejk.scan save_every 6
      sequences(%kt = %k : tensor<?x?x?x16xf32>, %vt = %v : tensor<?x?x?x40xf32>, %gt = %g : tensor<?x?x?xf32>)
      states(%S = zero : tensor<?x?x16x40xf32>) -> (tensor<?x?x?x40xf32>) saves(tensor<?x?x16x40xf32>) {
    %S0 = ejk.outer_add %S, %kt, %vt : vector<16x40xf32>, vector<16xf32>, vector<40xf32>
    %S1 = ejk.decay %S0 by %gt along head : vector<16x40xf32>, f32
    %ot = ejk.read %S1, %kt along key : vector<16x40xf32>, vector<16xf32>
    ejk.yield states(%S1 : vector<16x40xf32>) outputs(%ot : vector<40xf32>) saves(%S0 : vector<16x40xf32>)
  }
  return %o, %ht, %c : tensor<?x?x?x40xf32>, tensor<?x?x16x40xf32>, tensor<?x?x16x40xf32>
}

func.func @backward(%k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x40xf32>, %g: tensor<?x?x?xf32>)
    -> (tensor<?x?x?x40xf32>, tensor<?x?x16x40xf32>, tensor<?x?x16x40xf32>) {
  %o, %ht, %c = ejk.scan reverse save_every 6
      sequences(%kt = %k : tensor<?x?x?x16xf32>, %vt = %v : tensor<?x?x?x40xf32>, %gt = %g : tensor<?x?x?xf32>)
      states(%S = zero : tensor<?x?x16x40xf32>) -> (tensor<?x?x?x40xf32>) saves(tensor<?x?x16x40xf32>) {
    %S0 = ejk.decay %S by %gt along head : vector<16x40xf32>, f32
    %S1 = ejk.outer_add %S0, %kt, %vt : vector<16x40xf32>, vector<16xf32>, vector<40xf32>
    %ot = ejk.read %S1, %kt along key : vector<16x40xf32>, vector<16xf32>
    ejk.yield states(%S1 : vector<16x40xf32>) outputs(%ot : vector<40xf32>) saves(%S1 : vector<16x40xf32>)
  }
  return %o, %ht, %c : tensor<?x?x?x40xf32>, tensor<?x?x16x40xf32>, tensor<?x?x16x40xf32>
}

func.func @backward_decayed(%k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x40xf32>, %g: tensor<?x?x?xf32>)
    -> (tensor<?x?x?x40xf32>, tensor<?x?x16x40xf32>, tensor<?x?x16x40xf32>) {
  %o, %ht, %c = ejk.scan reverse save_every 10
      sequences(%kt = %k : tensor<?x?x?x16xf32>, %vt = %v : tensor<?x?x?x40xf32>, %gt = %g : tensor<?x?x?xf32>)
      states(%S = zero : tensor<?x?x16x40xf32>) -> (tensor<?x?x?x40xf32>) saves(tensor<?x?x16x40xf32>) {
    %S0 = ejk.decay %S by %gt along head : vector<16x40xf32>, f32
    %S1 = ejk.outer_add %S0, %kt, %vt : vector<16x40xf32>, vector<16xf32>, vector<40xf32>
    %ot = ejk.read %S1, %kt along key : vector<16x40xf32>, vector<16xf32>
    ejk.yield states(%S1 : vector<16x40xf32>) outputs(%ot : vector<40xf32>) saves(%S0 : vector<16x40xf32>)
  }
  return %o, %ht, %c : tensor<?x?x?x40xf32>, tensor<?x?x16x40xf32>, tensor<?x?x16x40xf32>
}

func.func @backward_packed(%k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x40xf32>, %g: tensor<?x?x?xf32>, %cu: tensor<?xi32>)
    -> (tensor<?x?x?x40xf32>, tensor<?x?x16x40xf32>, tensor<?x?x16x40xf32>) {
  %o, %ht, %c = ejk.scan reverse save_every 4 cu_seqlens(%cu : tensor<?xi32>)
      sequences(%kt = %k : tensor<?x?x?x16xf32>, %vt = %v : tensor<?x?x?x40xf32>, %gt = %g : tensor<?x?x?xf32>)
      states(%S = zero : tensor<?x?x16x40xf32>) -> (tensor<?x?x?x40xf32>) saves(tensor<?x?x16x40xf32>) {
    %S0 = ejk.decay %S by %gt along head : vector<16x40xf32>, f32
    %S1 = ejk.outer_add %S0, %kt, %vt : vector<16x40xf32>, vector<16xf32>, vector<40xf32>
    %ot = ejk.read %S1, %kt along key : vector<16x40xf32>, vector<16xf32>
    ejk.yield states(%S1 : vector<16x40xf32>) outputs(%ot : vector<40xf32>) saves(%S1 : vector<16x40xf32>)
  }
  return %o, %ht, %c : tensor<?x?x?x40xf32>, tensor<?x?x16x40xf32>, tensor<?x?x16x40xf32>
}
