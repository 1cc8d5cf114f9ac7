// correcting scan bf16 B=1 T=3 N=7 H=1 Hkv=1 K=64 V=128 beta a p e w g cu_seqlens gradients by q beta p e w g
func.func @case(
    %q: tensor<?x?x?x64xbf16> {ejk.name = "q"},
    %k: tensor<?x?x?x64xbf16> {ejk.name = "k"},
    %v: tensor<?x?x?x128xbf16> {ejk.name = "v"},
    %beta: tensor<?x?x?xf32> {ejk.name = "beta"},
    %a: tensor<?x?x?x64xbf16> {ejk.name = "a"},
    %p: tensor<?x?x?x128xbf16> {ejk.name = "p"},
    %e: tensor<?x?x?x64xbf16> {ejk.name = "e"},
    %w: tensor<?x?x?x128xbf16> {ejk.name = "w"},
    %g: tensor<?x?x?xf32> {ejk.name = "g"},
    %cu_seqlens: tensor<?xi64> {ejk.name = "cu_seqlens"})
    -> (tensor<?x?x?x128xbf16> {ejk.name = "o"}) {
  %o, %ht = ejk.scan  cu_seqlens(%cu_seqlens : tensor<?xi64>)
      sequences(%q_t = %q : tensor<?x?x?x64xbf16>, %k_t = %k : tensor<?x?x?x64xbf16>, %v_t = %v : tensor<?x?x?x128xbf16>, %beta_w = %beta : tensor<?x?x?xf32>, %a_t = %a : tensor<?x?x?x64xbf16>, %p_t = %p : tensor<?x?x?x128xbf16>, %e_t = %e : tensor<?x?x?x64xbf16>, %w_t = %w : tensor<?x?x?x128xbf16>, %g_w = %g : tensor<?x?x?xf32>)
      states(%S = zero : tensor<?x?x64x128xf32>)
      -> (tensor<?x?x?x128xbf16>) {
    %q_w = arith.extf %q_t : vector<64xbf16> to vector<64xf32>
    %k_w = arith.extf %k_t : vector<64xbf16> to vector<64xf32>
    %v_w = arith.extf %v_t : vector<128xbf16> to vector<128xf32>
    %a_w = arith.extf %a_t : vector<64xbf16> to vector<64xf32>
    %p_w = arith.extf %p_t : vector<128xbf16> to vector<128xf32>
    %e_w = arith.extf %e_t : vector<64xbf16> to vector<64xf32>
    %w_w = arith.extf %w_t : vector<128xbf16> to vector<128xf32>
    %r = ejk.read %S, %k_w along key : vector<64x128xf32>, vector<64xf32>
    %Sg = ejk.decay %S by %g_w along head : vector<64x128xf32>, f32
    %betas = vector.broadcast %beta_w : f32 to vector<128xf32>
    %left = arith.subf %v_w, %r : vector<128xf32>
    %u = arith.mulf %betas, %left : vector<128xf32>
    %S1 = ejk.outer_add %Sg, %k_w, %u : vector<64x128xf32>, vector<64xf32>, vector<128xf32>
    %S2 = ejk.outer_add %S1, %e_w, %p_w : vector<64x128xf32>, vector<64xf32>, vector<128xf32>
    %r2 = ejk.read %S2, %a_w along key : vector<64x128xf32>, vector<64xf32>
    %left2 = arith.subf %w_w, %r2 : vector<128xf32>
    %u2 = arith.mulf %betas, %left2 : vector<128xf32>
    %S3 = ejk.outer_add %S2, %a_w, %u2 : vector<64x128xf32>, vector<64xf32>, vector<128xf32>
    %scale = arith.constant dense<1.25000000000000000e-01> : vector<64xf32>
    %q_s = arith.mulf %q_w, %scale : vector<64xf32>
    %o_w = ejk.read %S3, %q_s along key : vector<64x128xf32>, vector<64xf32>
    %o_t = arith.truncf %o_w : vector<128xf32> to vector<128xbf16>
    ejk.yield states(%S3 : vector<64x128xf32>) outputs(%o_t : vector<128xbf16>)
  }
  return %o : tensor<?x?x?x128xbf16>
}
