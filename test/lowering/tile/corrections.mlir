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

// A derivative with a gate per key channel has no safe order of wgmma: it is computed step by step.
// RUN: ejk-compile %s --vjp --schedule=chunk --arch=sm_90a --emit=tile -o /dev/null 2>&1 | FileCheck %s --check-prefix=UNSAFE
// UNSAFE: not chunked: the derivative of a correction with gates per key channel has no safe order of wgmma yet; compile it for an architecture without wgmma, such as sm_90

// CHECK-DAG: check o: pass
// CHECK-DAG: check ht: pass
// VJP-DAG: check dq: pass
// VJP-DAG: check dk: pass
// VJP-DAG: check dv: pass
// VJP-DAG: check dbeta: pass
// VJP-DAG: check dg: pass

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
