// Steps whose reads feed what they add, a gate or another read. Numbers: test/oracle.
// RUN: ejk-opt %s --split-input-file --ejk-backward | FileCheck %s
// RUN: not ejk-opt %s --ejk-backward=function=gated_by_read --ejk-derive-backward=function=gated_by_read_vjp 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: error: saves its state at every row, because a gate or a read's vector depends on what was read

// CHECK-LABEL: func.func @delta_rule_vjp
// The reads, then their cotangents: A reads along k what it adds along k.
// CHECK: %[[R:[a-z0-9_]+]], %{{.*}} = ejk.scan
// CHECK: %[[OLD:.*]] = ejk.read %{{.*}} along key
// CHECK: %[[U:.*]] = arith.subf %{{.*}}, %[[OLD]]
// CHECK: ejk.outer_add %{{.*}}, %[[U]]
// CHECK: outputs(%[[OLD]] :
// CHECK: %[[DR:[a-z0-9_]+]], %{{.*}} = ejk.scan reverse
// CHECK: %[[DO:.*]] = ejk.outer_add
// CHECK: %[[DU:.*]] = ejk.read %[[DO]], %{{.*}} along key
// CHECK: %[[MINUS:.*]] = arith.negf %[[DU]]
// CHECK: ejk.outer_add %[[DO]], %{{.*}}, %[[MINUS]]
// The cotangent of what is added is handed on, and that of the read is made of it.
// CHECK: outputs(%[[DU]] :
// Then both states once more, whose reads feed nothing.
// CHECK: ejk.scan
// CHECK: sequences({{.*}} %[[KNOWN:[a-z0-9]+]] = %[[R]] : {{.*}} = %[[DR]] :
// CHECK: %[[V:.*]] = arith.subf %{{.*}}, %[[KNOWN]]
// CHECK: ejk.outer_add %{{.*}}, %[[V]]
// CHECK: ejk.read %{{.*}} along value
// CHECK: ejk.read %{{.*}} along value
// CHECK: ejk.scan reverse
// CHECK: = %[[R]] : {{.*}}, %[[BACK:[a-z0-9]+]] = %[[DR]] :
// CHECK-NOT: along key
// CHECK: %[[DOLD:.*]] = arith.negf %[[BACK]]
// CHECK: ejk.outer_add %{{.*}}, %[[DOLD]]
// CHECK-NOT: along key
// CHECK: return
func.func @delta_rule(%q: tensor<2x4x1x4xf32>, %k: tensor<2x4x1x4xf32>, %v: tensor<2x4x1x4xf32>)
    -> tensor<2x4x1x4xf32> {
  %o, %ht = ejk.scan sequences(%qt = %q : tensor<2x4x1x4xf32>, %kt = %k : tensor<2x4x1x4xf32>,
                               %vt = %v : tensor<2x4x1x4xf32>)
      states(%S = zero : tensor<2x1x4x4xf32>) -> (tensor<2x4x1x4xf32>) {
    %old = ejk.read %S, %kt along key : vector<4x4xf32>, vector<4xf32>
    %delta = arith.subf %vt, %old : vector<4xf32>
    %S1 = ejk.outer_add %S, %kt, %delta : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %ot = ejk.read %S1, %qt along key : vector<4x4xf32>, vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>) outputs(%ot : vector<4xf32>)
  }
  return %o : tensor<2x4x1x4xf32>
}

// The gate's cotangent needs the state itself, which every row saves.
// CHECK-LABEL: func.func @gated_by_read_vjp
// CHECK: ejk.scan
// CHECK: saves(%{{.*}} : vector<4x4xf32>)
// CHECK: ejk.scan reverse
// CHECK: ejk.checkpoint %{{.*}}, %{{.*}} with %{{.*}} along key
func.func @gated_by_read(%q: tensor<2x4x1x4xf32>, %k: tensor<2x4x1x4xf32>, %v: tensor<2x4x1x4xf32>)
    -> tensor<2x4x1x4xf32> {
  %o, %ht = ejk.scan sequences(%qt = %q : tensor<2x4x1x4xf32>, %kt = %k : tensor<2x4x1x4xf32>,
                               %vt = %v : tensor<2x4x1x4xf32>)
      states(%S = zero : tensor<2x1x4x4xf32>) -> (tensor<2x4x1x4xf32>) {
    %old = ejk.read %S, %kt along key : vector<4x4xf32>, vector<4xf32>
    %size = math.absf %old : vector<4xf32>
    %gate = arith.negf %size : vector<4xf32>
    %S1 = ejk.decay %S by %gate along value : vector<4x4xf32>, vector<4xf32>
    %S2 = ejk.outer_add %S1, %kt, %vt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %ot = ejk.read %S2, %qt along key : vector<4x4xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x4xf32>) outputs(%ot : vector<4xf32>)
  }
  return %o : tensor<2x4x1x4xf32>
}

// Where a gate of key channels has a gradient, the pair of what corrects the state says so, in the scan
// that reads the adjoint with it. Those of the query and of what is read are of plain outer products.
// CHECK-LABEL: func.func @key_gate_vjp
// CHECK: ejk.scan save_every
// CHECK: ejk.outer_add %{{.*}} corrects
// CHECK-COUNT-2: ejk.cancelling_pair %{{.*}}, %{{[0-9]+}} : vector<4xf32>
// CHECK: ejk.scan reverse save_every
// CHECK: ejk.cancelling_pair %{{.*}}, %{{.*}} corrects : vector<4xf32>
// CHECK-NOT: ejk.cancelling_pair
// CHECK: return
func.func @key_gate(%q: tensor<2x4x1x4xf32>, %k: tensor<2x4x1x4xf32>, %v: tensor<2x4x1x4xf32>, %gk: tensor<2x4x1x4xf32>)
    -> tensor<2x4x1x4xf32> {
  %o, %ht = ejk.scan sequences(%qt = %q : tensor<2x4x1x4xf32>, %kt = %k : tensor<2x4x1x4xf32>,
                               %vt = %v : tensor<2x4x1x4xf32>, %gt = %gk : tensor<2x4x1x4xf32>)
      states(%S = zero : tensor<2x1x4x4xf32>) -> (tensor<2x4x1x4xf32>) {
    %S1 = ejk.decay %S by %gt along key : vector<4x4xf32>, vector<4xf32>
    %old = ejk.read %S1, %kt along key : vector<4x4xf32>, vector<4xf32>
    %delta = arith.subf %vt, %old : vector<4xf32>
    %S2 = ejk.outer_add %S1, %kt, %delta : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %ot = ejk.read %S2, %qt along key : vector<4x4xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x4xf32>) outputs(%ot : vector<4xf32>)
  }
  return %o : tensor<2x4x1x4xf32>
}
