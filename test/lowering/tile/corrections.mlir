// Delta rules by chunks, on the emulator against the interpreter: no gate, a gate per head, per key
// channel; solves by mma.sync and by wgmma; the derivative.
// DEFINE: %{entry} =
// DEFINE: %{arch} = sm_90
// DEFINE: %{run} = env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=%{entry} --schedule=chunk --arch=%{arch} --device=cuda --random B=1,T=70,Hk=1,Hv=1 --check
// REDEFINE: %{entry} = ungated
// RUN: %{run} 2>&1 | FileCheck %s --implicit-check-not="not chunked"
// REDEFINE: %{entry} = head_gate
// RUN: %{run} 2>&1 | FileCheck %s --implicit-check-not="not chunked"
// REDEFINE: %{entry} = key_gate
// RUN: %{run} 2>&1 | FileCheck %s --implicit-check-not="not chunked"
// REDEFINE: %{arch} = sm_90a
// REDEFINE: %{entry} = head_gate
// RUN: %{run} --vjp --tolerance=8e-3 2>&1 | FileCheck %s --check-prefix=VJP --implicit-check-not="not chunked"
// REDEFINE: %{entry} = key_gate
// RUN: %{run} 2>&1 | FileCheck %s --implicit-check-not="not chunked"
// RUN: %{run} --vjp --tolerance=8e-3 2>&1 | FileCheck %s --check-prefixes=VJP-KEY --implicit-check-not="not chunked"

// A wgmma of several K steps reads operand A of the later ones while the first accumulates. So its
// accumulators are early clobbers of the assembly, and no register is of both.
// RUN: ejk-compile %s --vjp --schedule=chunk --arch=sm_90a --emit=nvvm -o - 2>/dev/null | FileCheck %s --check-prefix=CLOBBER
// CLOBBER: llvm.inline_asm {{.*}}wgmma.mma_async.sync.aligned.m64n64k16{{.*}} "=&f,=&f,{{[^"]*}},r,r,r,r,

// Its derivative is four passes, of which the last computes all gradients from states that the third
// saves: r, ū in the 16 bits that matmuls take, without any copy of do, states, gradients.
// RUN: ejk-compile %s --vjp --save-states=false --schedule=chunk --arch=sm_90a --emit=tile -o - 2>/dev/null | FileCheck %s --check-prefix=PASSES
// PASSES-LABEL: func.func @head_gate_vjp(
// PASSES: %[[R:.*]] = tile.program {{.*}} outputs(tensor<?x?x?x32xf32>) {
// PASSES: %[[C:.*]] = tile.program {{.*}} outputs(tensor<?x?x?x32xbf16>) {
// PASSES: %[[S:.*]] = tile.program {{.*}} saves(tensor<?x?x64x32x{{.*}}>) {
// PASSES: tile.program {{.*}} saved(%[[S]] :
// PASSES-NOT: tile.program
// PASSES: return

// With saved states f_fwd gives r and the states, and two passes are left. Without a gate no state is saved, but r.
// RUN: ejk-compile %s --vjp --schedule=chunk --arch=sm_90a --emit=tile -o - 2>/dev/null | FileCheck %s --check-prefix=SAVED
// SAVED-LABEL: func.func @ungated_fwd(
// SAVED: %[[OR:.*]]:2, %{{.*}} = tile.program {{.*}} outputs(tensor<?x?x?x64xbf16>, tensor<?x?x?x64xf32>)
// SAVED: return %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>, tensor<?x?x?x64xf32>
// SAVED-LABEL: func.func @ungated_vjp(
// SAVED-SAME: tensor<?x?x?x64xf32> {ejk.name = "saved0", ejk.saved_read,
// SAVED-LABEL: func.func @head_gate_fwd(
// SAVED: %[[OR:.*]]:2, %[[HT:.*]], %[[SAVES:.*]] = tile.program chunk 64 save_every 64
// SAVED: return %[[OR]]#0, %[[HT]], %[[OR]]#1, %[[SAVES]]
// SAVED-LABEL: func.func @head_gate_vjp(
// SAVED: tile.program {{.*}} outputs(tensor<?x?x?x32xbf16>) {
// SAVED: tile.program {{.*}} saved(%
// SAVED-NOT: tile.program
// SAVED: return

// CHECK-DAG: check o: pass
// CHECK-DAG: check ht: pass
// VJP-DAG: check dq: pass
// VJP-DAG: check dk: pass
// VJP-DAG: check dv: pass
// VJP-DAG: check dbeta: pass
// VJP-DAG: check dg: pass
// VJP-KEY-DAG: check dq: pass
// VJP-KEY-DAG: check dk: pass
// VJP-KEY-DAG: check dv: pass
// VJP-KEY-DAG: check dbeta: pass
// VJP-KEY-DAG: check dgk: pass

func.func @ungated(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                   %beta: tensor<?x?x?xf32>) -> (tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>) {
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<?x?x?xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o, %ht : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
}

func.func @head_gate(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x32xbf16>,
                     %beta: tensor<?x?x?xf32>, %g: tensor<?x?x?xf32>)
    -> (tensor<?x?x?x32xbf16>, tensor<?x?x64x32xf32>) {
  %o, %ht = ejk.delta_rule reverse %q, %k, %v beta(%beta : tensor<?x?x?xf32>) g(%g : tensor<?x?x?xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x32xbf16>
      -> tensor<?x?x?x32xbf16>, tensor<?x?x64x32xf32>
  return %o, %ht : tensor<?x?x?x32xbf16>, tensor<?x?x64x32xf32>
}

func.func @key_gate(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                    %beta: tensor<?x?x?xf32>, %gk: tensor<?x?x?x64xf32>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>) {
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<?x?x?xf32>) gk(%gk : tensor<?x?x?x64xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o, %ht : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
}
