// RUN: ejk-opt %s | ejk-opt | FileCheck %s
// RUN: ejk-opt %s --mlir-print-op-generic | ejk-opt | FileCheck %s
// RUN: ejk-opt %s --emit-bytecode | ejk-opt | FileCheck %s
// RUN: ejk-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC
// Every op in every syntactic variant survives its pretty, generic and bytecode forms.

// CHECK-LABEL: func @recurrent_bare(
// CHECK: ejk.recurrent %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x?x?x100xf16>, tensor<?x?x?x100xf16>, tensor<?x?x?x72xf16> -> tensor<?x?x?x72xf16>, tensor<?x?x100x72xf32>
// GENERIC: "ejk.recurrent"(%{{.*}}, %{{.*}}, %{{.*}}) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0>}>
func.func @recurrent_bare(%q: tensor<?x?x?x100xf16>, %k: tensor<?x?x?x100xf16>,
                          %v: tensor<?x?x?x72xf16>) -> tensor<?x?x?x72xf16> {
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<?x?x?x100xf16>, tensor<?x?x?x100xf16>, tensor<?x?x?x72xf16>
      -> tensor<?x?x?x72xf16>, tensor<?x?x100x72xf32>
  return %o : tensor<?x?x?x72xf16>
}

// CHECK-LABEL: func @delta_rule(
// CHECK: ejk.delta_rule reverse %{{.*}}, %{{.*}}, %{{.*}} beta(%{{.*}} : tensor<1x9x4xbf16>)
// CHECK-SAME: g(%{{.*}} : tensor<1x9x4xf32>)
// CHECK-SAME: gk(%{{.*}} : tensor<1x9x4x8xf32>)
// CHECK-SAME: initial_state(%{{.*}} : tensor<3x4x8x6xf32>)
// CHECK-SAME: cu_seqlens(%{{.*}} : tensor<4xi64>)
// CHECK-SAME: {softmax_scale = 2.500000e-01 : f64}
func.func @delta_rule(%q: tensor<1x9x2x8xbf16>, %k: tensor<1x9x2x8xbf16>, %v: tensor<1x9x4x6xbf16>,
                      %beta: tensor<1x9x4xbf16>, %g: tensor<1x9x4xf32>, %gk: tensor<1x9x4x8xf32>,
                      %h0: tensor<3x4x8x6xf32>, %cu: tensor<4xi64>) -> tensor<1x9x4x6xbf16> {
  %o, %ht = ejk.delta_rule reverse %q, %k, %v beta(%beta : tensor<1x9x4xbf16>)
      g(%g : tensor<1x9x4xf32>) gk(%gk : tensor<1x9x4x8xf32>)
      initial_state(%h0 : tensor<3x4x8x6xf32>) cu_seqlens(%cu : tensor<4xi64>)
      {softmax_scale = 0.25 : f64}
      : tensor<1x9x2x8xbf16>, tensor<1x9x2x8xbf16>, tensor<1x9x4x6xbf16>
      -> tensor<1x9x4x6xbf16>, tensor<3x4x8x6xf32>
  return %o : tensor<1x9x4x6xbf16>
}

// CHECK-LABEL: func @delta_rule_bare(
// CHECK: ejk.delta_rule %{{.*}}, %{{.*}}, %{{.*}} beta(%{{.*}} : tensor<?x?x?xf32>) : tensor<?x?x?x100xf16>
func.func @delta_rule_bare(%q: tensor<?x?x?x100xf16>, %k: tensor<?x?x?x100xf16>,
                           %v: tensor<?x?x?x72xf16>, %beta: tensor<?x?x?xf32>)
    -> tensor<?x?x?x72xf16> {
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<?x?x?xf32>)
      : tensor<?x?x?x100xf16>, tensor<?x?x?x100xf16>, tensor<?x?x?x72xf16>
      -> tensor<?x?x?x72xf16>, tensor<?x?x100x72xf32>
  return %o : tensor<?x?x?x72xf16>
}

// CHECK-LABEL: func @recurrent_full(
// CHECK: ejk.recurrent reverse
// CHECK-SAME: g(%{{.*}} : tensor<1x9x4xf32>)
// CHECK-SAME: g_gamma(%{{.*}} : tensor<3x4xf32>)
// CHECK-SAME: gk(%{{.*}} : tensor<1x9x4x8xbf16>)
// CHECK-SAME: gv(%{{.*}} : tensor<1x9x4x6xf32>)
// CHECK-SAME: initial_state(%{{.*}} : tensor<3x4x8x6xf32>)
// CHECK-SAME: cu_seqlens(%{{.*}} : tensor<4xi64>)
// CHECK-SAME: {softmax_scale = 2.500000e-01 : f64}
func.func @recurrent_full(%q: tensor<1x9x4x8xbf16>, %k: tensor<1x9x2x8xbf16>,
                          %v: tensor<1x9x2x6xbf16>, %g: tensor<1x9x4xf32>,
                          %gamma: tensor<3x4xf32>, %gk: tensor<1x9x4x8xbf16>,
                          %gv: tensor<1x9x4x6xf32>, %h0: tensor<3x4x8x6xf32>,
                          %cu: tensor<4xi64>) -> (tensor<1x9x4x6xbf16>, tensor<3x4x8x6xf32>) {
  %o, %ht = ejk.recurrent reverse %q, %k, %v
      g(%g : tensor<1x9x4xf32>) g_gamma(%gamma : tensor<3x4xf32>)
      gk(%gk : tensor<1x9x4x8xbf16>) gv(%gv : tensor<1x9x4x6xf32>)
      initial_state(%h0 : tensor<3x4x8x6xf32>) cu_seqlens(%cu : tensor<4xi64>)
      {softmax_scale = 0.25 : f64}
      : tensor<1x9x4x8xbf16>, tensor<1x9x2x8xbf16>, tensor<1x9x2x6xbf16>
      -> tensor<1x9x4x6xbf16>, tensor<3x4x8x6xf32>
  return %o, %ht : tensor<1x9x4x6xbf16>, tensor<3x4x8x6xf32>
}

// The optional operands may come in any order.
// CHECK-LABEL: func @recurrent_any_order(
// CHECK: ejk.recurrent
// CHECK-SAME: g(%{{.*}}) gk(%{{.*}})
func.func @recurrent_any_order(%q: tensor<?x?x?x8xf32>, %g: tensor<?x?x?xf32>,
                               %gk: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %ht = ejk.recurrent %q, %q, %q gk(%gk : tensor<?x?x?x8xf32>) g(%g : tensor<?x?x?xf32>)
      : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>
      -> tensor<?x?x?x8xf32>, tensor<?x?x8x8xf32>
  return %o : tensor<?x?x?x8xf32>
}

// CHECK-LABEL: func @gla(
// CHECK: ejk.gla %{{.*}}, %{{.*}}, %{{.*}} g(%{{.*}} : tensor<?x?x?x64xf32>) :
// CHECK: ejk.gla reverse %{{.*}}, %{{.*}}, %{{.*}} g(%{{.*}} : tensor<?x?x?xbf16>) g_gamma(%{{.*}} : tensor<?xf32>) initial_state(%{{.*}} : tensor<?x?x64x64xf32>) cu_seqlens(%{{.*}} : tensor<?xi32>) :
func.func @gla(%q: tensor<?x?x?x64xbf16>, %g4: tensor<?x?x?x64xf32>, %g: tensor<?x?x?xbf16>,
               %gamma: tensor<?xf32>, %cu: tensor<?xi32>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>) {
  %o, %ht = ejk.gla %q, %q, %q g(%g4 : tensor<?x?x?x64xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  %o2, %ht2 = ejk.gla reverse %o, %q, %q g(%g : tensor<?x?x?xbf16>) g_gamma(%gamma : tensor<?xf32>)
      initial_state(%ht : tensor<?x?x64x64xf32>) cu_seqlens(%cu : tensor<?xi32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o2, %ht2 : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
}

// CHECK-LABEL: func @lightning_attn(
// CHECK: ejk.lightning_attn %{{.*}}, %{{.*}}, %{{.*}} {layer_idx = 3 : i64, num_layers = 24 : i64}
// CHECK: ejk.lightning_attn reverse %{{.*}}, %{{.*}}, %{{.*}} initial_state(%{{.*}}) cu_seqlens(%{{.*}}) {layer_idx = 0 : i64, num_layers = 1 : i64, softmax_scale = 1.000000e+00 : f64}
func.func @lightning_attn(%q: tensor<?x?x?x96xf32>, %cu: tensor<?xi64>)
    -> (tensor<?x?x?x96xf32>, tensor<?x?x96x96xf32>) {
  %o, %ht = ejk.lightning_attn %q, %q, %q {layer_idx = 3 : i64, num_layers = 24 : i64}
      : tensor<?x?x?x96xf32>, tensor<?x?x?x96xf32>, tensor<?x?x?x96xf32>
      -> tensor<?x?x?x96xf32>, tensor<?x?x96x96xf32>
  %o2, %ht2 = ejk.lightning_attn reverse %o, %q, %q initial_state(%ht : tensor<?x?x96x96xf32>)
      cu_seqlens(%cu : tensor<?xi64>)
      {layer_idx = 0 : i64, num_layers = 1 : i64, softmax_scale = 1.0 : f64}
      : tensor<?x?x?x96xf32>, tensor<?x?x?x96xf32>, tensor<?x?x?x96xf32>
      -> tensor<?x?x?x96xf32>, tensor<?x?x96x96xf32>
  return %o2, %ht2 : tensor<?x?x?x96xf32>, tensor<?x?x96x96xf32>
}

// A step with every step op, every kind of parameter and a state of each rank.
// CHECK-LABEL: func @scan(
// CHECK: ejk.scan reverse cu_seqlens(%{{.*}} : tensor<?xi32>)
// CHECK-NEXT: sequences(%[[Q:.*]] = %{{.*}} : tensor<1x?x?x8xf32>, %[[V:.*]] = %{{.*}} : tensor<1x?x?x6xf32>, %[[X:.*]] = %{{.*}} : tensor<1x?x?xf32>)
// CHECK-NEXT: parameters(%[[A:.*]] = %{{.*}} : tensor<f32> as f32, %[[B:.*]] = %{{.*}} : tensor<?xf32> as f32, %[[C:.*]] = %{{.*}} : tensor<?x?x8xf32> as vector<8xf32>)
// CHECK-NEXT: states(%[[S:.*]] = %{{.*}} : tensor<?x?x8x6xf32>, %[[N:.*]] = zero : tensor<?x?x8xf32>, %[[M:.*]] = zero : tensor<?x?xf32>)
// CHECK-SAME: -> (tensor<1x?x?x6xf32>, tensor<1x?x?x8xf32>, tensor<1x?x?xf32>)
// CHECK-SAME: attributes {test.note = "kept"} {
// CHECK: ejk.head_index : index
// CHECK: ejk.num_heads : index
// CHECK: %[[S1:.*]] = ejk.decay %[[S]] by %{{.*}} along head : vector<8x6xf32>, f32
// CHECK: %[[S2:.*]] = ejk.decay %[[S1]] by %[[C]] along key : vector<8x6xf32>, vector<8xf32>
// CHECK: %[[S3:.*]] = ejk.decay %[[S2]] by %[[V]] along value : vector<8x6xf32>, vector<6xf32>
// CHECK: %[[S4:.*]] = ejk.outer_add %[[S3]], %[[Q]], %[[V]] corrects : vector<8x6xf32>, vector<8xf32>, vector<6xf32>
// CHECK: %[[O:.*]] = ejk.read %[[S4]], %[[Q]] along key : vector<8x6xf32>, vector<8xf32>
// CHECK: %[[P:.*]] = ejk.read %[[S4]], %[[V]] along value : vector<8x6xf32>, vector<6xf32>
// CHECK: ejk.yield states(%[[S4]], %{{.*}}, %{{.*}} : vector<8x6xf32>, vector<8xf32>, f32) outputs(%[[O]], %[[P]], %[[X]] : vector<6xf32>, vector<8xf32>, f32)
func.func @scan(%q: tensor<1x?x?x8xf32>, %v: tensor<1x?x?x6xf32>, %x: tensor<1x?x?xf32>,
                %a: tensor<f32>, %b: tensor<?xf32>, %c: tensor<?x?x8xf32>,
                %h0: tensor<?x?x8x6xf32>, %cu: tensor<?xi32>)
    -> (tensor<1x?x?x6xf32>, tensor<1x?x?x8xf32>, tensor<1x?x?xf32>,
        tensor<?x?x8x6xf32>, tensor<?x?x8xf32>, tensor<?x?xf32>) {
  %o:6 = ejk.scan reverse cu_seqlens(%cu : tensor<?xi32>)
      sequences(%qt = %q : tensor<1x?x?x8xf32>, %vt = %v : tensor<1x?x?x6xf32>,
                %xt = %x : tensor<1x?x?xf32>)
      parameters(%at = %a : tensor<f32> as f32, %bt = %b : tensor<?xf32> as f32,
                 %ct = %c : tensor<?x?x8xf32> as vector<8xf32>)
      states(%S = %h0 : tensor<?x?x8x6xf32>, %n = zero : tensor<?x?x8xf32>,
             %m = zero : tensor<?x?xf32>)
      -> (tensor<1x?x?x6xf32>, tensor<1x?x?x8xf32>, tensor<1x?x?xf32>)
      attributes {test.note = "kept"} {
    %h = ejk.head_index : index
    %H = ejk.num_heads : index
    %sum = arith.addf %at, %bt : f32
    %S1 = ejk.decay %S by %sum along head : vector<8x6xf32>, f32
    %S2 = ejk.decay %S1 by %ct along key : vector<8x6xf32>, vector<8xf32>
    %S3 = ejk.decay %S2 by %vt along value : vector<8x6xf32>, vector<6xf32>
    %S4 = ejk.outer_add %S3, %qt, %vt corrects : vector<8x6xf32>, vector<8xf32>, vector<6xf32>
    %n1 = arith.addf %n, %qt : vector<8xf32>
    %m1 = arith.addf %m, %xt : f32
    %ot = ejk.read %S4, %qt along key : vector<8x6xf32>, vector<8xf32>
    %pt = ejk.read %S4, %vt along value : vector<8x6xf32>, vector<6xf32>
    ejk.yield states(%S4, %n1, %m1 : vector<8x6xf32>, vector<8xf32>, f32)
              outputs(%ot, %pt, %xt : vector<6xf32>, vector<8xf32>, f32)
  }
  return %o#0, %o#1, %o#2, %o#3, %o#4, %o#5
      : tensor<1x?x?x6xf32>, tensor<1x?x?x8xf32>, tensor<1x?x?xf32>,
        tensor<?x?x8x6xf32>, tensor<?x?x8xf32>, tensor<?x?xf32>
}

// A scan needs neither states nor outputs of its own.
// CHECK-LABEL: func @scan_stateless(
// CHECK: ejk.scan
// CHECK-NEXT: sequences(%[[X:.*]] = %{{.*}} : tensor<2x3x4xbf16>) -> (tensor<2x3x4xbf16>) {
// CHECK-NEXT: ejk.yield outputs(%[[X]] : bf16)
func.func @scan_stateless(%x: tensor<2x3x4xbf16>) -> tensor<2x3x4xbf16> {
  %o = ejk.scan sequences(%xt = %x : tensor<2x3x4xbf16>) -> (tensor<2x3x4xbf16>) {
    ejk.yield outputs(%xt : bf16)
  }
  return %o : tensor<2x3x4xbf16>
}

// CHECK-LABEL: func @step_ops(
// CHECK: ejk.max %{{.*}} : vector<8xf32>
// CHECK: ejk.rotate_half %{{.*}} : vector<8xbf16>
// CHECK: ejk.step_index : index
// GENERIC: "ejk.max"
// GENERIC: "ejk.rotate_half"
// GENERIC: "ejk.step_index"
func.func @step_ops(%x: tensor<2x3x4x8xbf16>) -> tensor<2x3x4x8xbf16> {
  %o = ejk.scan sequences(%xt = %x : tensor<2x3x4x8xbf16>) -> (tensor<2x3x4x8xbf16>) {
    %w = arith.extf %xt : vector<8xbf16> to vector<8xf32>
    %m = ejk.max %w : vector<8xf32>
    %r = ejk.rotate_half %xt : vector<8xbf16>
    %t = ejk.step_index : index
    ejk.yield outputs(%r : vector<8xbf16>)
  }
  return %o : tensor<2x3x4x8xbf16>
}

// CHECK-LABEL: func @cancelling_pair(
// CHECK: %[[R:.*]] = ejk.read
// CHECK: ejk.cancelling_pair %{{.*}}, %[[R]] : vector<8xf32>
// CHECK: ejk.cancelling_pair %{{.*}}, %[[R]] corrects : vector<8xf32>
// GENERIC: "ejk.cancelling_pair"(%{{.*}}, %{{.*}}) : (vector<8xf32>, vector<8xf32>) -> vector<8xf32>
// GENERIC: "ejk.cancelling_pair"(%{{.*}}, %{{.*}}) <{corrects}> : (vector<8xf32>, vector<8xf32>) -> vector<8xf32>
func.func @cancelling_pair(%x: tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>) {
  %o:2, %s = ejk.scan sequences(%xt = %x : tensor<?x?x?x8xf32>) states(%S = zero : tensor<?x?x8x8xf32>)
      -> (tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>) {
    %r = ejk.read %S, %xt along key : vector<8x8xf32>, vector<8xf32>
    %p = ejk.cancelling_pair %xt, %r : vector<8xf32>
    %p2 = ejk.cancelling_pair %xt, %r corrects : vector<8xf32>
    ejk.yield states(%S : vector<8x8xf32>) outputs(%p, %p2 : vector<8xf32>, vector<8xf32>)
  }
  return %o#0, %o#1 : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>
}

// CHECK-LABEL: func @gate_gradients(
// CHECK: ejk.gate_gradient %{{.*}} of %{{.*}} zero_first : vector<8xf32>, vector<8xf32>
// CHECK: ejk.gate_gradient %{{.*}} of %{{.*}} zero_last : vector<8xf32>, f32
// CHECK: ejk.gate_gradient %{{.*}} of %{{.*}} : f32, f32
// GENERIC: "ejk.gate_gradient"(%{{.*}}, %{{.*}}) <{zero_first}>
func.func @gate_gradients(%x: tensor<?x?x?x8xf32>, %g: tensor<?x?x?xf32>) -> (tensor<?x?x?x8xf32>, tensor<?x?x?xf32>) {
  %o, %p = ejk.scan sequences(%xt = %x : tensor<?x?x?x8xf32>, %gt = %g : tensor<?x?x?xf32>)
      -> (tensor<?x?x?x8xf32>, tensor<?x?x?xf32>) {
    %a = ejk.gate_gradient %xt of %xt zero_first : vector<8xf32>, vector<8xf32>
    %b = ejk.gate_gradient %a of %gt zero_last : vector<8xf32>, f32
    %c = ejk.gate_gradient %gt of %gt : f32, f32
    ejk.yield outputs(%b, %c : vector<8xf32>, f32)
  }
  return %o, %p : tensor<?x?x?x8xf32>, tensor<?x?x?xf32>
}

// CHECK-LABEL: func @sums(
// CHECK: ejk.sum %{{.*}} : vector<8xf32>
// CHECK: ejk.sum_heads %{{.*}} along 2 like %{{.*}} : tensor<?x?x?x8xf32>, tensor<?x?x?x8xbf16> -> tensor<?x?x?x8xbf16>
// GENERIC: "ejk.sum_heads"(%{{.*}}, %{{.*}}) <{dim = 2 : i64}>
func.func @sums(%x: tensor<?x?x?x8xf32>, %k: tensor<?x?x?x8xbf16>)
    -> (tensor<?x?x?xf32>, tensor<?x?x?x8xbf16>) {
  %s = ejk.scan sequences(%xt = %x : tensor<?x?x?x8xf32>) -> (tensor<?x?x?xf32>) {
    %st = ejk.sum %xt : vector<8xf32>
    ejk.yield outputs(%st : f32)
  }
  %dk = ejk.sum_heads %x along 2 like %k : tensor<?x?x?x8xf32>, tensor<?x?x?x8xbf16> -> tensor<?x?x?x8xbf16>
  return %s, %dk : tensor<?x?x?xf32>, tensor<?x?x?x8xbf16>
}

// CHECK-LABEL: func @shared_state(
// CHECK: ejk.recurrent reverse shared_state %{{.*}}, %{{.*}}, %{{.*}} gk(
// CHECK: ejk.gla shared_state %
// CHECK: ejk.delta_rule shared_state %
// CHECK: ejk.scan
// CHECK-NEXT: sequences(%{{.*}} = %{{.*}} : tensor<?x?x?x8xf32>)
// CHECK-NEXT: queries(%[[Q:.*]] = %{{.*}} : tensor<?x?x?x8xf32>)
// CHECK-NEXT: states(%{{.*}} = %{{.*}} : tensor<?x?x8x8xf32>) -> (tensor<?x?x?x8xf32>) {
// CHECK-NEXT: ejk.read %{{.*}}, %[[Q]] along key
// CHECK: ejk.repeat_heads %{{.*}} like %{{.*}} at 2 : tensor<?x?x8x8xf32>, tensor<?x?x?x8xf32> -> tensor<?x?x8x8xf32>
// CHECK: ejk.repeat_heads %{{.*}} like %{{.*}} at 1 first_only : tensor<?x?x8x8xf32>, tensor<?x?x8x8xf32> -> tensor<?x?x8x8xf32>
// CHECK: ejk.first_heads %{{.*}} like %{{.*}} at 2 : tensor<?x?x8x8xf32>, tensor<?x?x?x8xf32> -> tensor<?x?x8x8xf32>
func.func @shared_state(%q: tensor<?x?x?x8xf32>, %k: tensor<?x?x?x8xf32>, %beta: tensor<?x?x?xf32>) {
  %o, %h0 = ejk.recurrent reverse shared_state %q, %k, %k gk(%k : tensor<?x?x?x8xf32>)
      : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>
      -> tensor<?x?x?x8xf32>, tensor<?x?x8x8xf32>
  %o1, %h1 = ejk.gla shared_state %q, %k, %k
      : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>
      -> tensor<?x?x?x8xf32>, tensor<?x?x8x8xf32>
  %o2, %h2 = ejk.delta_rule shared_state %q, %k, %k beta(%beta : tensor<?x?x?xf32>)
      : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>
      -> tensor<?x?x?x8xf32>, tensor<?x?x8x8xf32>
  %o3, %h3 = ejk.scan sequences(%kt = %k : tensor<?x?x?x8xf32>)
      queries(%qt = %q : tensor<?x?x?x8xf32>) states(%S = %h0 : tensor<?x?x8x8xf32>)
      -> (tensor<?x?x?x8xf32>) {
    %ot = ejk.read %S, %qt along key : vector<8x8xf32>, vector<8xf32>
    ejk.yield states(%S : vector<8x8xf32>) outputs(%ot : vector<8xf32>)
  }
  %each = ejk.repeat_heads %h0 like %q at 2
      : tensor<?x?x8x8xf32>, tensor<?x?x?x8xf32> -> tensor<?x?x8x8xf32>
  %first = ejk.repeat_heads %h0 like %each at 1 first_only
      : tensor<?x?x8x8xf32>, tensor<?x?x8x8xf32> -> tensor<?x?x8x8xf32>
  %last = ejk.first_heads %each like %k at 2
      : tensor<?x?x8x8xf32>, tensor<?x?x?x8xf32> -> tensor<?x?x8x8xf32>
  return
}

// CHECK-LABEL: func @segment_starts(
// CHECK: ejk.segment_starts %{{.*}} every 64 like %{{.*}} : tensor<?x?x4x3xf32>, tensor<?x?x?x3xbf16> -> tensor<?x?x4x3xf32>
// CHECK: ejk.segment_starts reverse %{{.*}} every 64 from %{{.*}} : tensor<?x?x4x3xf32> cu_seqlens(%{{.*}} : tensor<?xi64>) like %{{.*}} : tensor<?x?x4x3xf32>, tensor<1x?x?x3xbf16> ->
// GENERIC: "ejk.segment_starts"(%{{.*}}, %{{.*}}) <{every = 64 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 1>}>
func.func @segment_starts(%x: tensor<?x?x4x3xf32>, %h0: tensor<?x?x4x3xf32>, %cu: tensor<?xi64>,
                          %v: tensor<?x?x?x3xbf16>, %w: tensor<1x?x?x3xbf16>) {
  %starts = ejk.segment_starts %x every 64 like %v : tensor<?x?x4x3xf32>, tensor<?x?x?x3xbf16> -> tensor<?x?x4x3xf32>
  %back = ejk.segment_starts reverse %x every 64 from %h0 : tensor<?x?x4x3xf32> cu_seqlens(%cu : tensor<?xi64>) like %w
      : tensor<?x?x4x3xf32>, tensor<1x?x?x3xbf16> -> tensor<?x?x4x3xf32>
  return
}

// CHECK-LABEL: func @combine_segments(
// CHECK: ejk.combine_segments %{{.*}} by %{{.*}} like %{{.*}} : tensor<?x?x4x3xf32>, tensor<?x?x4x4xf32>, tensor<?x?x?x3xbf16> -> tensor<?x?x4x3xf32>, tensor<?x?x4x3xf32>
// CHECK: ejk.combine_segments reverse %{{.*}} by %{{.*}} from %{{.*}} : tensor<?x?x4x3xf32> offsets %{{.*}} : tensor<?xi64> like %{{.*}} :
// GENERIC: "ejk.combine_segments"(%{{.*}}, %{{.*}}, %{{.*}}) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 1>}>
func.func @combine_segments(%x: tensor<?x?x4x3xf32>, %m: tensor<?x?x4x4xf32>,
                            %h0: tensor<?x?x4x3xf32>, %cu: tensor<?xi64>, %v: tensor<?x?x?x3xbf16>) {
  %starts, %end = ejk.combine_segments %x by %m like %v
      : tensor<?x?x4x3xf32>, tensor<?x?x4x4xf32>, tensor<?x?x?x3xbf16>
      -> tensor<?x?x4x3xf32>, tensor<?x?x4x3xf32>
  %starts1, %end1 = ejk.combine_segments reverse %x by %m from %h0 : tensor<?x?x4x3xf32>
      offsets %cu : tensor<?xi64> like %v
      : tensor<?x?x4x3xf32>, tensor<?x?x4x4xf32>, tensor<?x?x?x3xbf16>
      -> tensor<?x?x4x3xf32>, tensor<?x?x4x3xf32>
  return
}

// CHECK-LABEL: func @pools(
// CHECK: ejk.read_states %{{.*}} at %{{.*}} : tensor<?x?x8x8xbf16>, tensor<?xi32> -> tensor<?x?x8x8xf32>
// CHECK: ejk.read_states %{{.*}} at %{{.*}} accepted(%{{.*}} : tensor<?xi64>) value_major {first_slot = 1 : i64} :
// CHECK: ejk.write_states %{{.*}} to %{{.*}} at %{{.*}} cu_seqlens(%{{.*}} : tensor<?xi32>) value_major {first_slot = 1 : i64} :
// CHECK: ejk.zero_skipped %{{.*}} of %{{.*}} at %{{.*}} : tensor<?x?x?x8xf32>, tensor<?x?x8x8xbf16>, tensor<?xi32>
// CHECK: ejk.zero_skipped %{{.*}} of %{{.*}} at %{{.*}}, %{{.*}} cu_seqlens(%{{.*}} : tensor<?xi32>) {first_slot = 1 : i64} :
// GENERIC: "ejk.read_states"(%{{.*}}, %{{.*}}, %{{.*}}) <{first_slot = 1 : i64, value_major}>
func.func @pools(%pool: tensor<?x?x8x8xbf16>, %index: tensor<?xi32>, %table: tensor<?x?xi64>,
                 %accepted: tensor<?xi64>, %states: tensor<?x?x8x8xf32>, %cu: tensor<?xi32>,
                 %rows: tensor<?x?x?x8xf32>, %packed: tensor<1x?x?x8xf32>) {
  %0 = ejk.read_states %pool at %index
      : tensor<?x?x8x8xbf16>, tensor<?xi32> -> tensor<?x?x8x8xf32>
  %1 = ejk.read_states %pool at %table accepted(%accepted : tensor<?xi64>) value_major
      {first_slot = 1 : i64} : tensor<?x?x8x8xbf16>, tensor<?x?xi64> -> tensor<?x?x8x8xf32>
  %2 = ejk.write_states %states to %pool at %table cu_seqlens(%cu : tensor<?xi32>) value_major
      {first_slot = 1 : i64} : tensor<?x?x8x8xf32>, tensor<?x?x8x8xbf16>, tensor<?x?xi64>
  %3 = ejk.zero_skipped %rows of %pool at %index
      : tensor<?x?x?x8xf32>, tensor<?x?x8x8xbf16>, tensor<?xi32>
  %4 = ejk.zero_skipped %packed of %pool at %index, %table cu_seqlens(%cu : tensor<?xi32>)
      {first_slot = 1 : i64}
      : tensor<1x?x?x8xf32>, tensor<?x?x8x8xbf16>, tensor<?xi32>, tensor<?x?xi64>
  return
}

// CHECK-LABEL: func @shifts(
// CHECK: ejk.shift %{{.*}} by -2 : tensor<?x?x?xf32>
// CHECK: ejk.shift %{{.*}} by 3 halo(%{{.*}} : tensor<?x3x?x8xbf16>) cu_seqlens(%{{.*}} : tensor<?xi32>) : tensor<1x?x?x8xbf16>
// CHECK: ejk.shift zeros %{{.*}} by 1 : tensor<1x?x?x8xbf16>
// GENERIC: "ejk.shift"(%{{.*}}) <{by = -2 : i64, operandSegmentSizes = array<i32: 1, 0, 0>}>
func.func @shifts(%g: tensor<?x?x?xf32>, %x: tensor<1x?x?x8xbf16>, %h: tensor<?x3x?x8xbf16>, %cu: tensor<?xi32>)
    -> (tensor<?x?x?xf32>, tensor<1x?x?x8xbf16>, tensor<1x?x?x8xbf16>) {
  %0 = ejk.shift %g by -2 : tensor<?x?x?xf32>
  %1 = ejk.shift %x by 3 halo(%h : tensor<?x3x?x8xbf16>) cu_seqlens(%cu : tensor<?xi32>) : tensor<1x?x?x8xbf16>
  %2 = ejk.shift zeros %x by 1 : tensor<1x?x?x8xbf16>
  return %0, %1, %2 : tensor<?x?x?xf32>, tensor<1x?x?x8xbf16>, tensor<1x?x?x8xbf16>
}

// CHECK-LABEL: func @last_rows(
// CHECK: ejk.last_rows %{{.*}} halo(%{{.*}} : tensor<?x3x?x8xbf16>) cu_seqlens(%{{.*}} : tensor<?xi32>) : tensor<1x?x?x8xbf16> -> tensor<?x3x?x8xbf16>
// CHECK: ejk.last_rows reverse zeros %{{.*}} beyond 1 : tensor<1x?x?x8xbf16> -> tensor<1x2x?x8xbf16>
func.func @last_rows(%x: tensor<1x?x?x8xbf16>, %h: tensor<?x3x?x8xbf16>, %cu: tensor<?xi32>)
    -> (tensor<?x3x?x8xbf16>, tensor<1x2x?x8xbf16>) {
  %0 = ejk.last_rows %x halo(%h : tensor<?x3x?x8xbf16>) cu_seqlens(%cu : tensor<?xi32>)
      : tensor<1x?x?x8xbf16> -> tensor<?x3x?x8xbf16>
  %1 = ejk.last_rows reverse zeros %x beyond 1 : tensor<1x?x?x8xbf16> -> tensor<1x2x?x8xbf16>
  return %0, %1 : tensor<?x3x?x8xbf16>, tensor<1x2x?x8xbf16>
}
