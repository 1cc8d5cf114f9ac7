// The front of this derivative makes, transposed, what the side of the state takes in tf32 as it is. Threads cannot
// store f32 transposed, so that warps have no partitions.
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --device=cuda --arch=sm_90a --schedule=chunk --vjp --save-states=false --check --random=
// RUN: ejk-compile %s --vjp --save-states=false --schedule=chunk --arch=sm_90a --print-cost-model --emit=plan -o %t.plan 2>&1 | FileCheck %s
// CHECK: partitions | {{.*}}chosen="none: the two sides load other rows of a tensor, or have a tile in other places or orientations"
func.func @case(
    %q: tensor<3x8x3x64xbf16> {ejk.name = "q"},
    %k: tensor<3x8x3x64xbf16> {ejk.name = "k"},
    %v: tensor<3x8x3x128xbf16> {ejk.name = "v"},
    %beta: tensor<3x8x3xf16> {ejk.name = "beta"},
    %p: tensor<3x8x3x128xbf16> {ejk.name = "p"},
    %e: tensor<3x8x3x64xbf16> {ejk.name = "e"},
    %g: tensor<3x8x3xf32> {ejk.name = "g"},
    %h0: tensor<3x3x64x128xf32> {ejk.name = "h0"})
    -> (tensor<3x8x3x128xbf16> {ejk.name = "o"}, tensor<3x3x64x128xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan  
      sequences(%k_t = %k : tensor<3x8x3x64xbf16>, %v_t = %v : tensor<3x8x3x128xbf16>, %beta_t = %beta : tensor<3x8x3xf16>, %p_t = %p : tensor<3x8x3x128xbf16>, %e_t = %e : tensor<3x8x3x64xbf16>, %g_w = %g : tensor<3x8x3xf32>)
      queries(%q_t = %q : tensor<3x8x3x64xbf16>)
      states(%S = %h0 : tensor<3x3x64x128xf32>)
      -> (tensor<3x8x3x128xbf16>) {
    %q_r = arith.extf %q_t : vector<64xbf16> to vector<64xf32>
    %q_squares = arith.mulf %q_r, %q_r : vector<64xf32>
    %q_sum = ejk.sum %q_squares : vector<64xf32>
    %q_epsilon = arith.constant 1.00000004749745131e-03 : f32
    %q_more = arith.addf %q_sum, %q_epsilon : f32
    %q_over = math.rsqrt %q_more : f32
    %q_each = vector.broadcast %q_over : f32 to vector<64xf32>
    %q_w = arith.mulf %q_r, %q_each : vector<64xf32>
    %k_r = arith.extf %k_t : vector<64xbf16> to vector<64xf32>
    %k_squares = arith.mulf %k_r, %k_r : vector<64xf32>
    %k_sum = ejk.sum %k_squares : vector<64xf32>
    %k_epsilon = arith.constant 1.00000004749745131e-03 : f32
    %k_more = arith.addf %k_sum, %k_epsilon : f32
    %k_over = math.rsqrt %k_more : f32
    %k_each = vector.broadcast %k_over : f32 to vector<64xf32>
    %k_w = arith.mulf %k_r, %k_each : vector<64xf32>
    %v_w = arith.extf %v_t : vector<128xbf16> to vector<128xf32>
    %beta_r = arith.extf %beta_t : f16 to f32
    %beta_one = arith.constant 1.0 : f32
    %beta_minus = arith.negf %beta_r : f32
    %beta_e = math.exp %beta_minus : f32
    %beta_sum = arith.addf %beta_one, %beta_e : f32
    %beta_w = arith.divf %beta_one, %beta_sum : f32
    %p_w = arith.extf %p_t : vector<128xbf16> to vector<128xf32>
    %e_w = arith.extf %e_t : vector<64xbf16> to vector<64xf32>
    %Sg = ejk.decay %S by %g_w along head : vector<64x128xf32>, f32
    %r = ejk.read %Sg, %k_w along key : vector<64x128xf32>, vector<64xf32>
    %betas = vector.broadcast %beta_w : f32 to vector<128xf32>
    %left = arith.subf %v_w, %r : vector<128xf32>
    %u = arith.mulf %betas, %left : vector<128xf32>
    %S1 = ejk.outer_add %Sg, %k_w, %u : vector<64x128xf32>, vector<64xf32>, vector<128xf32>
    %S2 = ejk.outer_add %S1, %e_w, %p_w : vector<64x128xf32>, vector<64xf32>, vector<128xf32>
    %scale = arith.constant dense<1.25000000000000000e-01> : vector<64xf32>
    %q_s = arith.mulf %q_w, %scale : vector<64xf32>
    %o_w = ejk.read %S2, %q_s along key : vector<64x128xf32>, vector<64xf32>
    %o_t = arith.truncf %o_w : vector<128xf32> to vector<128xbf16>
    ejk.yield states(%S2 : vector<64x128xf32>) outputs(%o_t : vector<128xbf16>)
  }
  return %o, %ht : tensor<3x8x3x128xbf16>, tensor<3x3x64x128xf32>
}
