// RUN: ejk-opt %s --canonicalize --split-input-file | FileCheck %s

// A gate of zero decays nothing: exp(0) is 1 exactly.
// CHECK-LABEL: func @zero_gate(
// CHECK-NOT: ejk.decay
// CHECK: return
func.func @zero_gate(%k: tensor<?x?x?x8xf32>, %v: tensor<?x?x?x6xf32>) -> tensor<?x?x8x6xf32> {
  %ht = ejk.scan sequences(%kt = %k : tensor<?x?x?x8xf32>, %vt = %v : tensor<?x?x?x6xf32>)
      states(%S = zero : tensor<?x?x8x6xf32>) {
    %zero = arith.constant 0.0 : f32
    %zeros = arith.constant dense<0.0> : vector<8xf32>
    %negative = arith.constant dense<-0.0> : vector<6xf32>
    %S1 = ejk.decay %S by %zero along head : vector<8x6xf32>, f32
    %S2 = ejk.decay %S1 by %zeros along key : vector<8x6xf32>, vector<8xf32>
    %S3 = ejk.decay %S2 by %negative along value : vector<8x6xf32>, vector<6xf32>
    %S4 = ejk.outer_add %S3, %kt, %vt : vector<8x6xf32>, vector<8xf32>, vector<6xf32>
    ejk.yield states(%S4 : vector<8x6xf32>)
  }
  return %ht : tensor<?x?x8x6xf32>
}

// -----

// One number in every channel is a gate of the head: broadcast, or a constant.
// CHECK-LABEL: func @channel_gate_of_one_number(
// CHECK-DAG: %[[C:.*]] = arith.constant -5.000000e-01 : f32
// CHECK: %[[S1:.*]] = ejk.decay %{{.*}} by %[[G:.*]] along head
// CHECK: ejk.decay %[[S1]] by %[[C]] along head
// CHECK-NOT: vector.broadcast
// CHECK: return
func.func @channel_gate_of_one_number(%g: tensor<?x?x?xf32>, %k: tensor<?x?x?x8xf32>,
                                      %v: tensor<?x?x?x6xf32>) -> tensor<?x?x8x6xf32> {
  %ht = ejk.scan sequences(%gt = %g : tensor<?x?x?xf32>, %kt = %k : tensor<?x?x?x8xf32>,
                           %vt = %v : tensor<?x?x?x6xf32>)
      states(%S = zero : tensor<?x?x8x6xf32>) {
    %gs = vector.broadcast %gt : f32 to vector<8xf32>
    %half = arith.constant dense<-0.5> : vector<6xf32>
    %S1 = ejk.decay %S by %gs along key : vector<8x6xf32>, vector<8xf32>
    %S2 = ejk.decay %S1 by %half along value : vector<8x6xf32>, vector<6xf32>
    %S3 = ejk.outer_add %S2, %kt, %vt : vector<8x6xf32>, vector<8xf32>, vector<6xf32>
    ejk.yield states(%S3 : vector<8x6xf32>)
  }
  return %ht : tensor<?x?x8x6xf32>
}

// -----

// Gates that differ between channels stay where they are.
// CHECK-LABEL: func @channel_gate(
// CHECK: ejk.decay %{{.*}} by %{{.*}} along key
// CHECK: ejk.decay %{{.*}} by %{{.*}} along value
func.func @channel_gate(%k: tensor<?x?x?x2xf32>, %v: tensor<?x?x?x6xf32>) -> tensor<?x?x2x6xf32> {
  %ht = ejk.scan sequences(%kt = %k : tensor<?x?x?x2xf32>, %vt = %v : tensor<?x?x?x6xf32>)
      states(%S = zero : tensor<?x?x2x6xf32>) {
    %gk = arith.constant dense<[0.0, -1.0]> : vector<2xf32>
    %S1 = ejk.decay %S by %gk along key : vector<2x6xf32>, vector<2xf32>
    %S2 = ejk.decay %S1 by %vt along value : vector<2x6xf32>, vector<6xf32>
    %S3 = ejk.outer_add %S2, %kt, %vt : vector<2x6xf32>, vector<2xf32>, vector<6xf32>
    ejk.yield states(%S3 : vector<2x6xf32>)
  }
  return %ht : tensor<?x?x2x6xf32>
}

// -----

// What nobody uses goes: the output %b, the state %M that feeds only itself with
// its initial value, and the sequence and parameter that only they read. The
// scan's own attributes stay.
// CHECK-LABEL: func @drop_unused(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<?x?x?xf32>, %[[Y:[a-z0-9]+]]: tensor<?x?x?xf32>
// CHECK: ejk.scan
// CHECK-NEXT: sequences(%[[XT:.*]] = %[[X]] : tensor<?x?x?xf32>)
// CHECK-NEXT: states(%[[N:.*]] = zero : tensor<?x?xf32>) -> (tensor<?x?x?xf32>) attributes {test.note = "kept"} {
// CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[N]], %[[XT]] : f32
// CHECK-NEXT: ejk.yield states(%[[SUM]] : f32) outputs(%[[SUM]] : f32)
func.func @drop_unused(%x: tensor<?x?x?xf32>, %y: tensor<?x?x?xf32>, %p: tensor<?xf32>,
                       %m0: tensor<?x?x8xf32>) -> (tensor<?x?x?xf32>, tensor<?x?xf32>) {
  %a, %b, %m, %n = ejk.scan
      sequences(%xt = %x : tensor<?x?x?xf32>, %yt = %y : tensor<?x?x?xf32>)
      parameters(%pt = %p : tensor<?xf32> as f32)
      states(%M = %m0 : tensor<?x?x8xf32>, %N = zero : tensor<?x?xf32>)
      -> (tensor<?x?x?xf32>, tensor<?x?x?xf32>) attributes {test.note = "kept"} {
    %sum = arith.addf %N, %xt : f32
    %product = arith.mulf %yt, %pt : f32
    ejk.yield states(%M, %sum : vector<8xf32>, f32) outputs(%sum, %product : f32, f32)
  }
  return %a, %n : tensor<?x?x?xf32>, tensor<?x?xf32>
}

// -----

// A state whose last value is unused stays while an output reads it, and the
// first sequence stays because it says how many heads there are.
// CHECK-LABEL: func @keep_used(
// CHECK: ejk.scan
// CHECK-NEXT: sequences(%{{.*}} = %{{.*}} : tensor<?x?x?xf32>, %[[Y:.*]] = %{{.*}} : tensor<?x?x?xf32>)
// CHECK-NEXT: states(%[[N:.*]] = zero : tensor<?x?xf32>)
// CHECK: ejk.yield states(%[[Y]] : f32) outputs(%[[N]] : f32)
func.func @keep_used(%x: tensor<?x?x?xf32>, %y: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  %o, %n = ejk.scan sequences(%xt = %x : tensor<?x?x?xf32>, %yt = %y : tensor<?x?x?xf32>)
      states(%N = zero : tensor<?x?xf32>) -> (tensor<?x?x?xf32>) {
    ejk.yield states(%yt : f32) outputs(%N : f32)
  }
  return %o : tensor<?x?x?xf32>
}

// -----

// A recurrence that nobody reads goes.
// CHECK-LABEL: func @dead(
// CHECK-NOT: ejk.
// CHECK: return
func.func @dead(%q: tensor<?x?x?x8xf32>) {
  %o, %ht = ejk.gla %q, %q, %q
      : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>
      -> tensor<?x?x?x8xf32>, tensor<?x?x8x8xf32>
  return
}

// -----

// States that feed only each other, and what feeds only them, go; two outputs of
// one value become one.
// CHECK-LABEL: func @unused_cycle(
// CHECK: %[[O:.*]] = ejk.scan
// CHECK-NOT: states
// CHECK: ejk.yield outputs(%{{.*}} : vector<8xf32>)
// CHECK: return %[[O]], %[[O]]
func.func @unused_cycle(%k: tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>) {
  %o:2, %ht:2 = ejk.scan sequences(%kt = %k : tensor<?x?x?x8xf32>)
      states(%a = zero : tensor<?x?x8xf32>, %b = zero : tensor<?x?x8xf32>)
      -> (tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>) {
    %a1 = arith.addf %b, %kt : vector<8xf32>
    %b1 = arith.mulf %a, %a1 : vector<8xf32>
    %ot = arith.negf %kt : vector<8xf32>
    ejk.yield states(%a1, %b1 : vector<8xf32>, vector<8xf32>)
        outputs(%ot, %ot : vector<8xf32>, vector<8xf32>)
  }
  return %o#0, %o#1 : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>
}
