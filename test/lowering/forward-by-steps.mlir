// A forward whose steps give what the derivative's scans read goes step by step, and it alone gives that: the
// variants of the function itself, by steps in small tiles and in large ones, are none of its own.

// RUN: ejk-compile %s --vjp --schedule=chunk --arch=sm_90a --cubin=never --save-states -o %t.ejk 2>/dev/null
// RUN: ejk-launch %t.ejk --info | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=f --device=cuda --arch=sm_90a \
// RUN:   --schedule=chunk --vjp --save-states --check --random T=40 2>/dev/null | FileCheck %s --check-prefix=SAME

// CHECK: entry f{{$}}
// CHECK: kernel f_large_tiles_scan0
// CHECK: kernel f_scan0
// CHECK: entry f_fwd
// CHECK-NOT: kernel f_{{(large_tiles_)?scan}}
// CHECK: kernel f_fwd_scan0
// CHECK-NOT: kernel f_{{(large_tiles_)?scan}}
// CHECK: entry f_vjp

// SAME: check dv: pass

func.func @f(
    %q: tensor<1x?x8x64xbf16> {ejk.name = "q"},
    %k: tensor<1x?x2x64xbf16> {ejk.name = "k"},
    %v: tensor<1x?x2x128xbf16> {ejk.name = "v"},
    %beta: tensor<1x?x2xf32> {ejk.name = "beta"},
    %a: tensor<1x?x2x64xbf16> {ejk.name = "a"},
    %gk: tensor<1x?x2x64xbf16> {ejk.name = "gk"})
    -> (tensor<1x?x8x128xbf16> {ejk.name = "o"}, tensor<1x2x64x128xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan 
      sequences(%k_t = %k : tensor<1x?x2x64xbf16>, %v_t = %v : tensor<1x?x2x128xbf16>, %beta_w = %beta : tensor<1x?x2xf32>, %a_t = %a : tensor<1x?x2x64xbf16>, %gk_t = %gk : tensor<1x?x2x64xbf16>)
      queries(%q_t = %q : tensor<1x?x8x64xbf16>)
      states(%S = zero : tensor<1x2x64x128xf32>)
      -> (tensor<1x?x8x128xbf16>) {
    %k_w = arith.extf %k_t : vector<64xbf16> to vector<64xf32>
    %v_w = arith.extf %v_t : vector<128xbf16> to vector<128xf32>
    %a_w = arith.extf %a_t : vector<64xbf16> to vector<64xf32>
    %gk_w = arith.extf %gk_t : vector<64xbf16> to vector<64xf32>
    %q_w = arith.extf %q_t : vector<64xbf16> to vector<64xf32>
    %r = ejk.read %S, %k_w along key : vector<64x128xf32>, vector<64xf32>
    %Sgk = ejk.decay %S by %gk_w along key : vector<64x128xf32>, vector<64xf32>
    %betas = vector.broadcast %beta_w : f32 to vector<128xf32>
    %left = arith.subf %v_w, %r : vector<128xf32>
    %u = arith.mulf %betas, %left : vector<128xf32>
    %bent = math.tanh %u : vector<128xf32>
    %S1 = ejk.outer_add %Sgk, %a_w, %bent : vector<64x128xf32>, vector<64xf32>, vector<128xf32>
    %scale = arith.constant dense<1.25000000000000000e-01> : vector<64xf32>
    %q_s = arith.mulf %q_w, %scale : vector<64xf32>
    %o_w = ejk.read %S1, %q_s along key : vector<64x128xf32>, vector<64xf32>
    %o_t = arith.truncf %o_w : vector<128xf32> to vector<128xbf16>
    ejk.yield states(%S1 : vector<64x128xf32>) outputs(%o_t : vector<128xbf16>)
  }
  return %o, %ht : tensor<1x?x8x128xbf16>, tensor<1x2x64x128xf32>
}
