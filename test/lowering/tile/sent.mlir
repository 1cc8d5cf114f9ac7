// Tiles that the device stores from shared memory: of a walk back all four gradients, none by
// threads; of the forward that saves for it the output and the states. A place is awaited when it
// has been read for long, while others are still on their way.
// RUN: ejk-compile %s --vjp --save-states --schedule=chunk --by-gates=never --arch=sm_90a --emit=ptx -o %t.ptx
// RUN: FileCheck %s --check-prefix=BACK --input-file=%t.ptx
// RUN: sed -e 's/gk/gv/g' %s >%t.values.mlir
// RUN: ejk-compile %t.values.mlir --vjp --save-states --schedule=chunk --by-gates=never --arch=sm_90a --emit=ptx -o %t.values.ptx
// RUN: FileCheck %s --check-prefix=WAIT --input-file=%t.values.ptx
// RUN: ejk-opt %s --ejk-specialize --ejk-derive-backward --ejk-to-gpu='arch=sm_90a schedule=chunk save-states=true by-gates=never' --mlir-print-ir-after=ejk-select-stages -o /dev/null 2>&1 | FileCheck %s --check-prefix=BRANCH
// RUN: FileCheck %s --check-prefix=SAVES --input-file=%t.ptx
// DEFINE: %{run} = env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --schedule=chunk --arch=sm_90a --device=cuda --vjp --save-states --check --random
// RUN: %{run} B=2,T=200
// RUN: %{run} B=1,T=5
// RUN: %{run} B=1,T=128 --seed=2
// RUN: %{run} B=2,T=0
// RUN: sed -e 's/tensor<?x?x2/tensor<1x?x2/g' -e 's/%gk: tensor<1x?x2x128xbf16>/&, %cu_seqlens: tensor<?xi32>/' -e 's/gk(%gk : tensor<1x?x2x128xbf16>)/& cu_seqlens(%cu_seqlens : tensor<?xi32>)/' %s >%t.packed.mlir
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %t.packed.mlir --schedule=chunk --arch=sm_90a --device=cuda --vjp --save-states --check --random T=500,N=5

// BACK-LABEL: {{[.]}}entry f_vjp_blocks0(
// BACK-COUNT-4: cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group
// BACK-NOT: st.global.v4
// BACK: ret;
// WAIT-LABEL: {{[.]}}entry f_vjp_blocks0(
// WAIT: cp.async.bulk.wait_group.read {{[1-9]}};
// SAVES-LABEL: {{[.]}}entry f_fwd_blocks0(
// SAVES-COUNT-2: cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group
// SAVES: ret;

// The states have no barrier of their own: they are made while products are taken, and sent behind
// the barrier that these pass anyway; on the other side, first.
// BRANCH-LABEL: func.func @f_fwd
// BRANCH: scf.for
// BRANCH-NOT: tile.store
// BRANCH: tile.guarded
// BRANCH: tile.dot
// BRANCH: tile.convert {{.*}} to <swizzled> : vector<128x128xbf16>
// BRANCH: tile.mask lower
// BRANCH-NOT: tile.store
// BRANCH: tile.dot
// BRANCH: tile.dot
// BRANCH-NEXT: tile.store {{.*}} : vector<128x128xbf16>
// BRANCH-NEXT: tile.dot
// BRANCH: } exact {
// BRANCH: tile.store {{.*}} : vector<128x128xbf16>
// BRANCH: scf.for
func.func @f(%q: tensor<?x?x2x128xbf16>, %k: tensor<?x?x2x128xbf16>, %v: tensor<?x?x2x128xbf16>, %gk: tensor<?x?x2x128xbf16>)
    -> (tensor<?x?x2x128xbf16> {ejk.name = "o"}, tensor<?x2x128x128xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x2x128xbf16>)
      : tensor<?x?x2x128xbf16>, tensor<?x?x2x128xbf16>, tensor<?x?x2x128xbf16>
     -> tensor<?x?x2x128xbf16>, tensor<?x2x128x128xf32>
  return %o, %ht : tensor<?x?x2x128xbf16>, tensor<?x2x128x128xf32>
}
