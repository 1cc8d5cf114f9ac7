// Threads load rows before a branch, and TMA copies the next ones where they have: a fence stands between, for no barrier does. One side of the branch is a loop
// over shorter chunks that may have no iteration; the ring whose rows matmuls alone read is released behind it without one.
// RUN: ejk-compile %s --arch=sm_90a --schedule=chunk --by-gates=never --emit=plan -o - | grep -B1 'tile.release' | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --device=cuda --arch=sm_90a --schedule=chunk --random B=1,T=70,H=1 --gates=lb5 \
// RUN:   --check | FileCheck %s --check-prefix=RUNS
// RUNS: check out0: pass

// CHECK:      tile.fence
// CHECK-NEXT: tile.release %[[EARLY:[0-9]+]]
// CHECK:      tile.wait_matmuls 0
// CHECK-NEXT: tile.release %[[LATE:[0-9]+]]
// CHECK-NOT:  tile.fence
// CHECK:      tile.release %[[LATE]]
// CHECK-NOT:  tile.release
func.func @writes_twice(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x128xbf16>, %beta: tensor<?x?x?xbf16>,
    %a: tensor<?x?x?x64xbf16>, %p: tensor<?x?x?x128xbf16>, %e: tensor<?x?x?x64xbf16>, %gk: tensor<?x?x?x64xbf16>)
    -> tensor<?x?x?x128xbf16> {
  %o, %ht = ejk.scan reverse
      sequences(%q_t = %q : tensor<?x?x?x64xbf16>, %k_t = %k : tensor<?x?x?x64xbf16>, %v_t = %v : tensor<?x?x?x128xbf16>,
                %beta_t = %beta : tensor<?x?x?xbf16>, %a_t = %a : tensor<?x?x?x64xbf16>, %p_t = %p : tensor<?x?x?x128xbf16>,
                %e_t = %e : tensor<?x?x?x64xbf16>, %gk_t = %gk : tensor<?x?x?x64xbf16>)
      states(%S = zero : tensor<?x?x64x128xf32>) -> (tensor<?x?x?x128xbf16>) {
    %q_w = arith.extf %q_t : vector<64xbf16> to vector<64xf32>
    %k_w = arith.extf %k_t : vector<64xbf16> to vector<64xf32>
    %v_w = arith.extf %v_t : vector<128xbf16> to vector<128xf32>
    %beta_w = arith.extf %beta_t : bf16 to f32
    %a_w = arith.extf %a_t : vector<64xbf16> to vector<64xf32>
    %p_w = arith.extf %p_t : vector<128xbf16> to vector<128xf32>
    %e_w = arith.extf %e_t : vector<64xbf16> to vector<64xf32>
    %gk_w = arith.extf %gk_t : vector<64xbf16> to vector<64xf32>
    %decayed = ejk.decay %S by %gk_w along key : vector<64x128xf32>, vector<64xf32>
    %r = ejk.read %decayed, %k_w along key : vector<64x128xf32>, vector<64xf32>
    %rate = vector.broadcast %beta_w : f32 to vector<128xf32>
    %left = arith.subf %v_w, %r : vector<128xf32>
    %u = arith.mulf %rate, %left : vector<128xf32>
    %S1 = ejk.outer_add %decayed, %a_w, %u : vector<64x128xf32>, vector<64xf32>, vector<128xf32>
    %S2 = ejk.outer_add %S1, %e_w, %p_w : vector<64x128xf32>, vector<64xf32>, vector<128xf32>
    %o_w = ejk.read %S2, %q_w along key : vector<64x128xf32>, vector<64xf32>
    %o_t = arith.truncf %o_w : vector<128xf32> to vector<128xbf16>
    ejk.yield states(%S2 : vector<64x128xf32>) outputs(%o_t : vector<128xbf16>)
  }
  return %o : tensor<?x?x?x128xbf16>
}
