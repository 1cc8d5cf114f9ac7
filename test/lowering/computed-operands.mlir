// Elementwise ops around a recurrence, computed in f32 from 16-bit rows, leave it and its
// derivative to block programs: no kernel but that for one row goes step by step.
// RUN: ejk-opt %s --ejk-backward --ejk-to-gpu='schedule=chunk arch=sm_90a' --verify-diagnostics -o %t.gpu.mlir
// RUN: FileCheck %s --implicit-check-not='_scan{{[0-9]+}} blocks' < %t.gpu.mlir

// With the option that forbids to round them, the derivatives do:
// RUN: ejk-opt %s --ejk-backward --ejk-to-gpu='schedule=chunk round-computed-operands=false' 2>%t.remarks | FileCheck %s --check-prefix=FORBIDDEN
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// REMARK: remark: not chunked: its keys, values or read vectors are computed in f32, and matmuls on tensor cores would round them to 16 bits, which 'round-computed-operands=false' forbids

// Errors, against f64, stay within those of 16-bit matmuls.
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=residual --schedule=chunk --device=cuda --random B=1,T=80,H=1 --check
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=residual --vjp --save-states=false --schedule=chunk --device=cuda --random B=1,T=80,H=1 --check
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=output_gate --schedule=chunk --device=cuda --random B=1,T=80,H=1 --check
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=output_gate --vjp --save-states=false --schedule=chunk --device=cuda --random B=1,T=80,H=1 --check
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=head_gate --schedule=chunk --device=cuda --random B=1,T=80,H=1 --check
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=head_gate --vjp --save-states=false --schedule=chunk --device=cuda --random B=1,T=80,H=1 --check
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=directions --schedule=chunk --device=cuda --random B=1,T=80,H=1 --check
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=directions --vjp --save-states=false --schedule=chunk --device=cuda --random B=1,T=80,H=1 --check
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=chain --schedule=chunk --device=cuda --random B=1,T=80,H=1 --check
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=chain --vjp --save-states=false --schedule=chunk --device=cuda --random B=1,T=80,H=1 --check
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=hgrn2_step --schedule=chunk --device=cuda --random B=1,T=80,H=1 --check
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=hgrn2_step --vjp --save-states=false --schedule=chunk --device=cuda --random B=1,T=80,H=1 --check
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=hgrn2_before --schedule=chunk --device=cuda --random B=1,T=80,H=1 --check
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=hgrn2_before --vjp --save-states=false --schedule=chunk --device=cuda --random B=1,T=80,H=1 --check
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=mamba2 --schedule=chunk --device=cuda --random B=1,T=80,H=1 --check
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=mamba2 --vjp --save-states=false --schedule=chunk --device=cuda --random B=1,T=80,H=4 --check

#row = affine_map<(b, t, h, c) -> (b, t, h, c)>
#number = affine_map<(b, t, h, c) -> (b, t, h)>

// Two residuals: the cotangent is only widened.
// CHECK-LABEL: func.func @residual(
// CHECK: gpu.launch_func  @kernels::@{{[a-z0-9_]+}}_blocks
// CHECK-LABEL: func.func @residual_vjp(
// CHECK: gpu.launch_func  @kernels::@{{[a-z0-9_]+}}_blocks
func.func @residual(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %g: tensor<?x?x?xf32>, %x: tensor<?x?x?x64xbf16>)
    -> tensor<?x?x?x64xbf16> {
  %o, %o_ht = ejk.gla %q, %k, %v g(%g : tensor<?x?x?xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  %ow = arith.extf %o : tensor<?x?x?x64xbf16> to tensor<?x?x?x64xf32>
  %xw = arith.extf %x : tensor<?x?x?x64xbf16> to tensor<?x?x?x64xf32>
  %s0 = arith.addf %ow, %xw : tensor<?x?x?x64xf32>
  %third = arith.extf %q : tensor<?x?x?x64xbf16> to tensor<?x?x?x64xf32>
  %s = arith.addf %s0, %third : tensor<?x?x?x64xf32>
  %y = arith.truncf %s : tensor<?x?x?x64xf32> to tensor<?x?x?x64xbf16>
  return %y : tensor<?x?x?x64xbf16>
}

// An output gate, silu(z) ⊙ o, of a recurrence with a gate per channel.
// CHECK-LABEL: func.func @output_gate(
// CHECK: gpu.launch_func  @kernels::@{{[a-z0-9_]+}}_blocks
// CHECK-LABEL: func.func @output_gate_vjp(
// CHECK: gpu.launch_func  @kernels::@{{[a-z0-9_]+}}_blocks
// FORBIDDEN-LABEL: func.func @output_gate_vjp(
// FORBIDDEN: gpu.launch_func  @kernels::@output_gate_vjp_scan1
func.func @output_gate(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %gk: tensor<?x?x?x64xbf16>, %z: tensor<?x?x?x64xbf16>)
    -> tensor<?x?x?x64xbf16> {
  %o, %o_ht = ejk.gla %q, %k, %v g(%gk : tensor<?x?x?x64xbf16>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %one = arith.constant 1.0 : f32
  %b = tensor.dim %q, %c0 : tensor<?x?x?x64xbf16>
  %t = tensor.dim %q, %c1 : tensor<?x?x?x64xbf16>
  %h = tensor.dim %q, %c2 : tensor<?x?x?x64xbf16>
  %empty = tensor.empty(%b, %t, %h) : tensor<?x?x?x64xbf16>
  %y = linalg.generic {indexing_maps = [#row, #row, #row],
                          iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%o, %z : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) outs(%empty : tensor<?x?x?x64xbf16>) {
  ^bb0(%ot: bf16, %zt: bf16, %unused: bf16):
    %ow = arith.extf %ot : bf16 to f32
    %zw = arith.extf %zt : bf16 to f32
    %n = arith.negf %zw : f32
    %e = math.exp %n : f32
    %d = arith.addf %e, %one : f32
    %silu = arith.divf %zw, %d : f32
    %p = arith.mulf %silu, %ow : f32
    %r = arith.truncf %p : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<?x?x?x64xbf16>
  return %y : tensor<?x?x?x64xbf16>
}

// A number per head and step, which f32 is right for, beside the rows.
// CHECK-LABEL: func.func @head_gate(
// CHECK: gpu.launch_func  @kernels::@{{[a-z0-9_]+}}_blocks
// CHECK-LABEL: func.func @head_gate_vjp(
// CHECK: gpu.launch_func  @kernels::@{{[a-z0-9_]+}}_blocks
func.func @head_gate(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %g: tensor<?x?x?xf32>, %beta: tensor<?x?x?xf32>)
    -> tensor<?x?x?x64xbf16> {
  %o, %o_ht = ejk.gla %q, %k, %v g(%g : tensor<?x?x?xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %one = arith.constant 1.0 : f32
  %b = tensor.dim %q, %c0 : tensor<?x?x?x64xbf16>
  %t = tensor.dim %q, %c1 : tensor<?x?x?x64xbf16>
  %h = tensor.dim %q, %c2 : tensor<?x?x?x64xbf16>
  %empty = tensor.empty(%b, %t, %h) : tensor<?x?x?x64xbf16>
  %y = linalg.generic {indexing_maps = [#row, #number, #row],
                          iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%o, %beta : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) outs(%empty : tensor<?x?x?x64xbf16>) {
  ^bb0(%ot: bf16, %bt: f32, %unused: bf16):
    %ow = arith.extf %ot : bf16 to f32
    %p = arith.mulf %ow, %bt : f32
    %r = arith.truncf %p : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<?x?x?x64xbf16>
  return %y : tensor<?x?x?x64xbf16>
}

// The sum of both directions.
// CHECK-LABEL: func.func @directions(
// CHECK: gpu.launch_func  @kernels::@{{[a-z0-9_]+}}_blocks
// CHECK-LABEL: func.func @directions_vjp(
// CHECK: gpu.launch_func  @kernels::@{{[a-z0-9_]+}}_blocks
func.func @directions(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %g: tensor<?x?x?xf32>)
    -> tensor<?x?x?x64xbf16> {
  %o, %o_ht = ejk.gla %q, %k, %v g(%g : tensor<?x?x?xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  %p, %p_ht = ejk.gla %q, %k, %v g(%g : tensor<?x?x?xf32>) {reverse}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  %ow = arith.extf %o : tensor<?x?x?x64xbf16> to tensor<?x?x?x64xf32>
  %pw = arith.extf %p : tensor<?x?x?x64xbf16> to tensor<?x?x?x64xf32>
  %s0 = arith.addf %ow, %pw : tensor<?x?x?x64xf32>
  %third = arith.extf %v : tensor<?x?x?x64xbf16> to tensor<?x?x?x64xf32>
  %s = arith.addf %s0, %third : tensor<?x?x?x64xf32>
  %y = arith.truncf %s : tensor<?x?x?x64xf32> to tensor<?x?x?x64xbf16>
  return %y : tensor<?x?x?x64xbf16>
}

// One recurrence after another: the first one's cotangent is a gradient of the second.
// CHECK-LABEL: func.func @chain(
// CHECK: gpu.launch_func  @kernels::@{{[a-z0-9_]+}}_blocks
// CHECK-LABEL: func.func @chain_vjp(
// CHECK: gpu.launch_func  @kernels::@{{[a-z0-9_]+}}_blocks
func.func @chain(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %g: tensor<?x?x?xf32>)
    -> tensor<?x?x?x64xbf16> {
  %o, %o_ht = ejk.gla %q, %k, %v g(%g : tensor<?x?x?xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  %ow = arith.extf %o : tensor<?x?x?x64xbf16> to tensor<?x?x?x64xf32>
  %vw = arith.extf %v : tensor<?x?x?x64xbf16> to tensor<?x?x?x64xf32>
  %s0 = arith.addf %ow, %vw : tensor<?x?x?x64xf32>
  %third = arith.extf %q : tensor<?x?x?x64xbf16> to tensor<?x?x?x64xf32>
  %s = arith.addf %s0, %third : tensor<?x?x?x64xf32>
  %x = arith.truncf %s : tensor<?x?x?x64xf32> to tensor<?x?x?x64xbf16>
  %p, %p_ht = ejk.gla %q, %k, %x g(%g : tensor<?x?x?xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %p : tensor<?x?x?x64xbf16>
}

// HGRN2: the key is 1 − exp(g), computed in the step from a gate in f32.
// CHECK-LABEL: func.func @hgrn2_step(
// CHECK: gpu.launch_func  @kernels::@{{[a-z0-9_]+}}_blocks
// CHECK-LABEL: func.func @hgrn2_step_vjp(
// CHECK: gpu.launch_func  @kernels::@{{[a-z0-9_]+}}_blocks
func.func @hgrn2_step(%q: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %g: tensor<?x?x?x64xf32>)
    -> tensor<?x?x?x64xbf16> {
  %o, %ht = ejk.scan sequences(%qt = %q : tensor<?x?x?x64xbf16>, %vt = %v : tensor<?x?x?x64xbf16>, %gt = %g : tensor<?x?x?x64xf32>)
      states(%S = zero : tensor<?x?x64x64xf32>) -> (tensor<?x?x?x64xbf16>) {
    %one = arith.constant dense<1.0> : vector<64xf32>
    %qw = arith.extf %qt : vector<64xbf16> to vector<64xf32>
    %vw = arith.extf %vt : vector<64xbf16> to vector<64xf32>
    %e = math.exp %gt : vector<64xf32>
    %k = arith.subf %one, %e : vector<64xf32>
    %S1 = ejk.decay %S by %gt along key : vector<64x64xf32>, vector<64xf32>
    %S2 = ejk.outer_add %S1, %k, %vw : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %r = ejk.read %S2, %qw along key : vector<64x64xf32>, vector<64xf32>
    %ot = arith.truncf %r : vector<64xf32> to vector<64xbf16>
    ejk.yield states(%S2 : vector<64x64xf32>) outputs(%ot : vector<64xbf16>)
  }
  return %o : tensor<?x?x?x64xbf16>
}

// The same with the key computed before, which stays f32.
// CHECK-LABEL: func.func @hgrn2_before(
// CHECK: gpu.launch_func  @kernels::@{{[a-z0-9_]+}}_blocks
// CHECK-LABEL: func.func @hgrn2_before_vjp(
// CHECK: gpu.launch_func  @kernels::@{{[a-z0-9_]+}}_blocks
func.func @hgrn2_before(%q: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %g: tensor<?x?x?x64xf32>)
    -> tensor<?x?x?x64xbf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %one = arith.constant 1.0 : f32
  %b = tensor.dim %q, %c0 : tensor<?x?x?x64xbf16>
  %t = tensor.dim %q, %c1 : tensor<?x?x?x64xbf16>
  %h = tensor.dim %q, %c2 : tensor<?x?x?x64xbf16>
  %empty = tensor.empty(%b, %t, %h) : tensor<?x?x?x64xf32>
  %k = linalg.generic {indexing_maps = [#row, #row],
                          iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%g : tensor<?x?x?x64xf32>) outs(%empty : tensor<?x?x?x64xf32>) {
  ^bb0(%gt: f32, %unused: f32):
    %e = math.exp %gt : f32
    %s = arith.subf %one, %e : f32
    linalg.yield %s : f32
  } -> tensor<?x?x?x64xf32>
  %o, %ht = ejk.scan sequences(%qt = %q : tensor<?x?x?x64xbf16>, %kt = %k : tensor<?x?x?x64xf32>, %vt = %v : tensor<?x?x?x64xbf16>, %gt = %g : tensor<?x?x?x64xf32>)
      states(%S = zero : tensor<?x?x64x64xf32>) -> (tensor<?x?x?x64xbf16>) {
    %qw = arith.extf %qt : vector<64xbf16> to vector<64xf32>
    %vw = arith.extf %vt : vector<64xbf16> to vector<64xf32>
    %S1 = ejk.decay %S by %gt along key : vector<64x64xf32>, vector<64xf32>
    %S2 = ejk.outer_add %S1, %kt, %vw : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %r = ejk.read %S2, %qw along key : vector<64x64xf32>, vector<64xf32>
    %ot = arith.truncf %r : vector<64xf32> to vector<64xbf16>
    ejk.yield states(%S2 : vector<64x64xf32>) outputs(%ot : vector<64xbf16>)
  }
  return %o : tensor<?x?x?x64xbf16>
}

// Mamba-2 with its skip, D x, and an output gate: dD is a sum of the unrounded cotangent.
// CHECK-LABEL: func.func @mamba2(
// CHECK: gpu.launch_func  @kernels::@{{[a-z0-9_]+}}_blocks
// CHECK-LABEL: func.func @mamba2_vjp(
// CHECK: gpu.launch_func  @kernels::@{{[a-z0-9_]+}}_blocks
func.func @mamba2(%c: tensor<?x?x?x64xbf16>, %bt: tensor<?x?x?x64xbf16>, %x: tensor<?x?x?x64xbf16>, %dt: tensor<?x?x?xf32>,
                  %A: tensor<?xf32>, %D: tensor<?xf32>, %q: tensor<?x?x?x64xbf16>)
    -> tensor<?x?x?x64xbf16> {
  %o, %ht = ejk.scan
      sequences(%ct = %c : tensor<?x?x?x64xbf16>, %bs = %bt : tensor<?x?x?x64xbf16>, %xt = %x : tensor<?x?x?x64xbf16>, %dtt = %dt : tensor<?x?x?xf32>)
      parameters(%a = %A : tensor<?xf32> as f32, %d = %D : tensor<?xf32> as f32)
      states(%S = zero : tensor<?x?x64x64xf32>) -> (tensor<?x?x?x64xbf16>) {
    %cw = arith.extf %ct : vector<64xbf16> to vector<64xf32>
    %bw = arith.extf %bs : vector<64xbf16> to vector<64xf32>
    %xw = arith.extf %xt : vector<64xbf16> to vector<64xf32>
    %step = math.exp %dtt : f32
    %ea = math.exp %a : f32
    %rate = arith.mulf %ea, %step : f32
    %g = arith.negf %rate : f32
    %sv = vector.broadcast %step : f32 to vector<64xf32>
    %xs = arith.mulf %xw, %sv : vector<64xf32>
    %S1 = ejk.decay %S by %g along head : vector<64x64xf32>, f32
    %S2 = ejk.outer_add %S1, %bw, %xs : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %r = ejk.read %S2, %cw along key : vector<64x64xf32>, vector<64xf32>
    %dv = vector.broadcast %d : f32 to vector<64xf32>
    %skip = arith.mulf %dv, %xw : vector<64xf32>
    %sum = arith.addf %r, %skip : vector<64xf32>
    %ot = arith.truncf %sum : vector<64xf32> to vector<64xbf16>
    ejk.yield states(%S2 : vector<64x64xf32>) outputs(%ot : vector<64xbf16>)
  }
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %one = arith.constant 1.0 : f32
  %b = tensor.dim %q, %c0 : tensor<?x?x?x64xbf16>
  %t = tensor.dim %q, %c1 : tensor<?x?x?x64xbf16>
  %h = tensor.dim %q, %c2 : tensor<?x?x?x64xbf16>
  %empty = tensor.empty(%b, %t, %h) : tensor<?x?x?x64xbf16>
  %y = linalg.generic {indexing_maps = [#row, #row, #row],
                          iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%o, %q : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) outs(%empty : tensor<?x?x?x64xbf16>) {
  ^bb0(%ot: bf16, %zt: bf16, %unused: bf16):
    %ow = arith.extf %ot : bf16 to f32
    %zw = arith.extf %zt : bf16 to f32
    %tanh = math.tanh %zw : f32
    %p = arith.mulf %tanh, %ow : f32
    %r = arith.truncf %p : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<?x?x?x64xbf16>
  return %y : tensor<?x?x?x64xbf16>
}
