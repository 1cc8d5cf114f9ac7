// With one stage, what is read before a branch alone, gates, keys, queries and rates, is copied again there, beside the whole branch. The row of gates
// that the branch reads is taken out before it. What the branch reads, do, is copied again at the branch's end.
// RUN: ejk-compile %s --vjp --two-terms=few-channels --by-gates=never --schedule=chunk --arch=sm_90a --emit=plan -o %t.mlir 2>/dev/null
// RUN: sed -n '/func @f_vjp_direct/,$p' %t.mlir | FileCheck %s
// CHECK: %[[SOON:.*]] = tile.make_ring tma {{.*}} : <1 of vector<64x128xf32>, vector<64x128xbf16>, vector<64x128xbf16>, vector<64xf32>>
// CHECK: %[[LATER:.*]] = tile.make_ring tma {{.*}} : <1 of vector<64x128xbf16>>
// CHECK: scf.for
// CHECK: %[[TILES:.*]]:4 = tile.take %[[SOON]]
// CHECK: vector.extract %[[TILES]]#0[0]
// CHECK: tile.release %[[SOON]]
// CHECK: tile.fill %[[SOON]]
// CHECK: tile.guarded {{.*}} fast {
// CHECK-NOT: tile.fill %[[SOON]]
// CHECK: tile.release %[[LATER]]
// CHECK: tile.fill %[[LATER]]
// CHECK: } exact {
// CHECK: tile.release %[[LATER]]
// CHECK: tile.fill %[[LATER]]

// Weak and strong gates, and the two beside each other.
// DEFINE: %{run} = env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --device=cuda --arch=sm_90a --schedule=chunk --vjp --check --random=B=1,T=150,Hk=8,Hv=8
// RUN: %{run} --gates=mid | FileCheck %s --check-prefix=RIGHT
// RUN: %{run} --gates=resets | FileCheck %s --check-prefix=RIGHT
// RIGHT-COUNT-5: pass
func.func @f(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>, %beta: tensor<?x?x?xf32>,
             %gk: tensor<?x?x?x128xf32>) -> tensor<?x?x?x128xbf16> {
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<?x?x?xf32>) gk(%gk : tensor<?x?x?x128xf32>)
      : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16> -> tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
  return %o : tensor<?x?x?x128xbf16>
}
