// A CPU's kernel has no loop over the queries that share a state. A remark says so, and what it
// computes is the same.
// RUN: ejk-compile %s --target=cpu --emit=gpu 2>&1 | FileCheck %s
// RUN: ejk-run %s --device=cpu --random B=2,T=9,H=6,Hkv=2 --check
// RUN: ejk-run %s --device=cpu --random B=2,T=1,H=4,Hkv=1 --vjp --check
// CHECK: remark: keeps a state for each query head while it runs: a CPU's kernel has no loop over the queries of a group
// CHECK-LABEL: func.func @shared(
// CHECK: gpu.launch_func @kernels::@shared_heads
// CHECK: gpu.launch_func @kernels::@shared_scan
// CHECK: gpu.launch_func @kernels::@shared_heads
func.func @shared(%q: tensor<?x?x?x20xf32>, %k: tensor<?x?x?x20xf32>, %v: tensor<?x?x?x7xf32>,
                  %g: tensor<?x?x?xf32>, %h0: tensor<?x?x20x7xf32>)
    -> (tensor<?x?x?x7xf32>, tensor<?x?x20x7xf32>) {
  %o, %ht = ejk.gla shared_state %q, %k, %v g(%g : tensor<?x?x?xf32>)
      initial_state(%h0 : tensor<?x?x20x7xf32>)
      : tensor<?x?x?x20xf32>, tensor<?x?x?x20xf32>, tensor<?x?x?x7xf32>
      -> tensor<?x?x?x7xf32>, tensor<?x?x20x7xf32>
  return %o, %ht : tensor<?x?x?x7xf32>, tensor<?x?x20x7xf32>
}
