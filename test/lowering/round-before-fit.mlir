// A derivative's programs are measured with the outputs that they will store: gradients in bf16 pass through shared memory,
// which those in f32 do not need.
// RUN: ejk-compile %s --vjp --schedule=chunk --arch=sm_90a --two-terms=few-channels --print-cost-model --emit=gpu -o %t.gpu 2>%t.txt
// RUN: FileCheck %s < %t.txt
// RUN: FileCheck %s --check-prefix=SAID < %t.txt
// SAID-NOT: error:

// Where heads share none, dq and dk are bf16, and need 16 KiB more than the sums of f32 where they may share.
// CHECK: chunk-length {{.*}} Function=f_vjp_direct | bytes needed=258304, {{.*}} chosen="64 rows do not fit"
// CHECK: chunk-length {{.*}} Function=f_vjp_direct | {{.*}} chosen="32 rows"
// CHECK: chunk-length {{.*}} Function=f_vjp | bytes needed=241920, {{.*}} chosen="64 rows do not fit"
// CHECK: chunk-length {{.*}} Function=f_vjp | {{.*}} chosen="32 rows"
func.func @f(
    %q: tensor<?x?x?x128xbf16> {ejk.name = "q"},
    %k: tensor<?x?x?x128xbf16> {ejk.name = "k"},
    %v: tensor<?x?x?x128xbf16> {ejk.name = "v"},
    %beta: tensor<?x?x?xf32> {ejk.name = "beta"},
    %gk: tensor<?x?x?x128xbf16> {ejk.name = "gk"})
    -> (tensor<?x?x?x128xbf16> {ejk.name = "o"}, tensor<?x?x128x128xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan  
      sequences(%k_t = %k : tensor<?x?x?x128xbf16>, %v_t = %v : tensor<?x?x?x128xbf16>, %beta_w = %beta : tensor<?x?x?xf32>, %gk_t = %gk : tensor<?x?x?x128xbf16>)
      queries(%q_t = %q : tensor<?x?x?x128xbf16>)
      states(%S = zero : tensor<?x?x128x128xf32>)
      -> (tensor<?x?x?x128xbf16>) {
    %q_w = arith.extf %q_t : vector<128xbf16> to vector<128xf32>
    %k_w = arith.extf %k_t : vector<128xbf16> to vector<128xf32>
    %v_w = arith.extf %v_t : vector<128xbf16> to vector<128xf32>
    %gk_w = arith.extf %gk_t : vector<128xbf16> to vector<128xf32>
    %r = ejk.read %S, %k_w along key : vector<128x128xf32>, vector<128xf32>
    %Sgk = ejk.decay %S by %gk_w along key : vector<128x128xf32>, vector<128xf32>
    %betas = vector.broadcast %beta_w : f32 to vector<128xf32>
    %left = arith.subf %v_w, %r : vector<128xf32>
    %u = arith.mulf %betas, %left : vector<128xf32>
    %S1 = ejk.outer_add %Sgk, %k_w, %u : vector<128x128xf32>, vector<128xf32>, vector<128xf32>
    %scale = arith.constant dense<1.23400002717971802e-01> : vector<128xf32>
    %q_s = arith.mulf %q_w, %scale : vector<128xf32>
    %o_w = ejk.read %S1, %q_s along key : vector<128x128xf32>, vector<128xf32>
    %o_t = arith.truncf %o_w : vector<128xf32> to vector<128xbf16>
    ejk.yield states(%S1 : vector<128x128xf32>) outputs(%o_t : vector<128xbf16>)
  }
  return %o, %ht : tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
}
