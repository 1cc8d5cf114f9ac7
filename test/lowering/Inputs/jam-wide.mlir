// A delta rule of states of 512x16 with a second outer product: two heads' states would have 1024 channels.
func.func @case(
    %q: tensor<?x?x?x512xf16> {ejk.name = "q"},
    %k: tensor<?x?x?x512xf16> {ejk.name = "k"},
    %v: tensor<?x?x?x16xf16> {ejk.name = "v"},
    %beta: tensor<?x?x?xf16> {ejk.name = "beta"},
    %p: tensor<?x?x?x16xf16> {ejk.name = "p"},
    %e: tensor<?x?x?x512xf16> {ejk.name = "e"},
    %cu_seqlens: tensor<?xi64> {ejk.name = "cu_seqlens"})
    -> (tensor<?x?x512x16xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan  cu_seqlens(%cu_seqlens : tensor<?xi64>)
      sequences(%q_t = %q : tensor<?x?x?x512xf16>, %k_t = %k : tensor<?x?x?x512xf16>, %v_t = %v : tensor<?x?x?x16xf16>, %beta_t = %beta : tensor<?x?x?xf16>, %p_t = %p : tensor<?x?x?x16xf16>, %e_t = %e : tensor<?x?x?x512xf16>)
      states(%S = zero : tensor<?x?x512x16xf32>)
      -> (tensor<?x?x?x16xf16>) {
    %q_w = arith.extf %q_t : vector<512xf16> to vector<512xf32>
    %k_w = arith.extf %k_t : vector<512xf16> to vector<512xf32>
    %v_w = arith.extf %v_t : vector<16xf16> to vector<16xf32>
    %beta_w = arith.extf %beta_t : f16 to f32
    %p_w = arith.extf %p_t : vector<16xf16> to vector<16xf32>
    %e_w = arith.extf %e_t : vector<512xf16> to vector<512xf32>
    %r = ejk.read %S, %k_w along key : vector<512x16xf32>, vector<512xf32>
    %betas = vector.broadcast %beta_w : f32 to vector<16xf32>
    %left = arith.subf %v_w, %r : vector<16xf32>
    %u = arith.mulf %betas, %left : vector<16xf32>
    %S1 = ejk.outer_add %S, %k_w, %u : vector<512x16xf32>, vector<512xf32>, vector<16xf32>
    %S2 = ejk.outer_add %S1, %e_w, %p_w : vector<512x16xf32>, vector<512xf32>, vector<16xf32>
    %scale = arith.constant dense<4.41941730678081512e-02> : vector<512xf32>
    %q_s = arith.mulf %q_w, %scale : vector<512xf32>
    %o_w = ejk.read %S2, %q_s along key : vector<512x16xf32>, vector<512xf32>
    %o_t = arith.truncf %o_w : vector<16xf32> to vector<16xf16>
    ejk.yield states(%S2 : vector<512x16xf32>) outputs(%o_t : vector<16xf16>)
  }
  return %ht : tensor<?x?x512x16xf32>
}
