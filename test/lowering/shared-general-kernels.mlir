// Where key and value heads are as many, a derivative's variant without sums over heads launches the kernels of
// the one with sums, but for the kernels that write the gradients: these round them themselves.
// RUN: ejk-opt %s --ejk-backward --ejk-to-gpu="arch=sm_90a schedule=chunk save-states" -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir

// CHECK: gpu.func @delta_vjp_few_blocks_blocks1(
// CHECK: gpu.func @delta_vjp_few_blocks_blocks2(
// CHECK: gpu.func @delta_vjp_blocks0(
// CHECK-NOT: gpu.func @delta_vjp_direct{{.*}}_blocks0(
// CHECK: gpu.func @delta_vjp_direct_few_blocks_blocks1(
// CHECK: gpu.func @delta_vjp_direct_few_blocks_blocks2(
// CHECK-LABEL: func.func @delta_vjp_direct(
// CHECK-SAME: ejk.needs = ["=", "Hv", "Hk"]
// Its heads are two arguments of the kernel, of which both are Hv.
// CHECK: gpu.launch_func @kernels::@delta_vjp_blocks0
// CHECK: gpu.launch_func @kernels::@delta_vjp_direct_few_blocks_blocks1
// CHECK: gpu.launch_func @kernels::@delta_vjp_direct_few_blocks_blocks2
// CHECK-LABEL: func.func @delta_vjp(
// CHECK: gpu.launch_func @kernels::@delta_vjp_blocks0
// CHECK: gpu.launch_func @kernels::@delta_vjp_few_blocks_blocks1
// Its kernels sum over heads, and others round the sums. Of no heads a kernel writes zeros.
// CHECK-NOT: heads
// CHECK: %[[NONE:.*]] = arith.cmpi eq, %{{.*}}, %c0 : index
// CHECK: scf.if %[[NONE]] {
// CHECK-NEXT: gpu.launch_func @kernels::@delta_vjp_few_blocks_heads4
// CHECK-NEXT: }
// CHECK: gpu.launch_func @kernels::@delta_vjp_{{.*}}map
// CHECK: gpu.launch_func @kernels::@delta_vjp_few_blocks_blocks2
func.func @delta(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                 %beta: tensor<?x?x?xbf16>) -> tensor<?x?x?x64xbf16> {
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<?x?x?xbf16>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o : tensor<?x?x?x64xbf16>
}
