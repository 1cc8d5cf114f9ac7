// Some last steps decay by more nats than f32 has. The rows after a sequence's end, whose decay to the
// end is 1, stay zero where the last step's decay is left out of f16 rows.
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --schedule=chunk --arch=sm_90a --device cuda --random B=2,T=5,H=16 --vjp --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --schedule=chunk --arch=sm_80 --device cuda --random B=2,T=65,H=16 --vjp --check | FileCheck %s
// RUN: sed 's/ejk.scan /ejk.scan reverse /' %s > %t.mlir
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %t.mlir --schedule=chunk --arch=sm_90a --device cuda --random B=2,T=1,H=16 --vjp --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %t.mlir --schedule=chunk --arch=sm_80 --device cuda --random B=2,T=65,H=16 --vjp --check | FileCheck %s

// CHECK: check dq: pass
// CHECK: check dg: pass
// CHECK: check dh0: pass
func.func @strong(%q: tensor<?x?x?x16xf16>, %k: tensor<?x?x?x16xf16>, %v: tensor<?x?x?x16xf16>,
                  %g: tensor<?x?x?xf32>, %h0: tensor<?x?x16x16xf32>)
    -> (tensor<?x?x?x16xf16>, tensor<?x?x16x16xf32>) {
  %o, %ht = ejk.scan sequences(%q_t = %q : tensor<?x?x?x16xf16>, %k_t = %k : tensor<?x?x?x16xf16>,
                               %v_t = %v : tensor<?x?x?x16xf16>, %g_t = %g : tensor<?x?x?xf32>)
      states(%S = %h0 : tensor<?x?x16x16xf32>) -> (tensor<?x?x?x16xf16>) {
    %q_w = arith.extf %q_t : vector<16xf16> to vector<16xf32>
    %k_w = arith.extf %k_t : vector<16xf16> to vector<16xf32>
    %v_w = arith.extf %v_t : vector<16xf16> to vector<16xf32>
    %much = arith.constant -50.0 : f32
    %size = math.absf %g_t : f32
    %gate = arith.mulf %size, %much : f32
    %S1 = ejk.decay %S by %gate along head : vector<16x16xf32>, f32
    %S2 = ejk.outer_add %S1, %k_w, %v_w : vector<16x16xf32>, vector<16xf32>, vector<16xf32>
    %o_w = ejk.read %S2, %q_w along key : vector<16x16xf32>, vector<16xf32>
    %o_t = arith.truncf %o_w : vector<16xf32> to vector<16xf16>
    ejk.yield states(%S2 : vector<16x16xf32>) outputs(%o_t : vector<16xf16>)
  }
  return %o, %ht : tensor<?x?x?x16xf16>, tensor<?x?x16x16xf32>
}
