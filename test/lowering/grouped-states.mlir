// By chunks, a block has the state of a query head. Where its group shares one, the kernel reads that
// state itself, and its first head writes it, so that no other kernel copies states; but not both
// where the caller may pass one buffer for both.
// RUN: ejk-compile %s --emit=gpu | FileCheck %s
// RUN: ejk-compile %s --cubin=never -o %t.ejk
// RUN: ejk-launch %t.ejk --entry given --info | FileCheck %s --check-prefix=ALIAS
// ALIAS: output ht{{.*}} may replace h0
// DEFINE: %{entry} =
// DEFINE: %{sizes} = B=2,T=70,H=6,Hkv=2
// DEFINE: %{run} = env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --device cuda --entry=%{entry} --random %{sizes} --check
// REDEFINE: %{entry} = zero
// RUN: %{run} --schedule=auto | FileCheck %s --check-prefix=PASS
// RUN: %{run} --schedule=chunk | FileCheck %s --check-prefix=PASS
// REDEFINE: %{entry} = given
// RUN: %{run} --schedule=auto | FileCheck %s --check-prefix=PASS
// RUN: %{run} --schedule=split | FileCheck %s --check-prefix=PASS
// REDEFINE: %{entry} = given
// REDEFINE: %{sizes} = B=1,T=200,H=4,Hkv=1
// RUN: %{run} --schedule=chunk --vjp | FileCheck %s --check-prefix=PASS
// REDEFINE: %{entry} = packed
// REDEFINE: %{sizes} = N=3,T=100,H=4,Hkv=2
// RUN: %{run} --schedule=auto | FileCheck %s --check-prefix=PASS
// PASS: check {{o|dq}}: pass
// PASS-NOT: FAIL
// PASS: {{ht|dh0}}: pass

// CHECK-LABEL: func.func @zero(
// CHECK: gpu.launch_func @kernels::@zero_blocks0
// CHECK-NOT: gpu.launch_func
// CHECK: return
func.func @zero(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                %g: tensor<?x?x?xf32>) -> (tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>) {
  %o, %ht = ejk.gla shared_state %q, %k, %v g(%g : tensor<?x?x?xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o, %ht : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
}

// CHECK-LABEL: func.func @given(
// CHECK: gpu.launch_func @kernels::@given_blocks0
// CHECK: gpu.launch_func @kernels::@{{[a-z_]*}}_heads0
// CHECK-NOT: gpu.launch_func
// CHECK: return
func.func @given(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                 %g: tensor<?x?x?x64xf32>, %h0: tensor<?x?x64x64xf32>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>) {
  %o, %ht = ejk.gla shared_state %q, %k, %v g(%g : tensor<?x?x?x64xf32>)
      initial_state(%h0 : tensor<?x?x64x64xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o, %ht : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
}

// An argument of another shape is the same memory.
// CHECK-LABEL: func.func @flat(
// CHECK: gpu.launch_func @kernels::@flat_blocks0
// CHECK: gpu.launch_func @kernels::@flat_fine_split_heads1
// CHECK-NOT: gpu.launch_func
// CHECK: return
func.func @flat(%q: tensor<2x?x6x64xbf16>, %k: tensor<2x?x2x64xbf16>, %v: tensor<2x?x2x64xbf16>,
                %h: tensor<2x2x4096xf32>) -> (tensor<2x?x6x64xbf16>, tensor<2x2x64x64xf32>) {
  %h0 = tensor.expand_shape %h [[0], [1], [2, 3]] output_shape [2, 2, 64, 64]
      : tensor<2x2x4096xf32> into tensor<2x2x64x64xf32>
  %o, %ht = ejk.gla shared_state %q, %k, %v initial_state(%h0 : tensor<2x2x64x64xf32>)
      : tensor<2x?x6x64xbf16>, tensor<2x?x2x64xbf16>, tensor<2x?x2x64xbf16>
      -> tensor<2x?x6x64xbf16>, tensor<2x2x64x64xf32>
  return %o, %ht : tensor<2x?x6x64xbf16>, tensor<2x2x64x64xf32>
}

// A copy of the pool's states is the kernel's own, so that it reads and writes states of groups.
// CHECK-LABEL: func.func @pool(
// CHECK: gpu.launch_func @kernels::@pool_pool
// CHECK: gpu.launch_func @kernels::@pool_blocks0
// CHECK: gpu.launch_func @kernels::@pool_pool
// CHECK-NOT: gpu.launch_func
// CHECK: return
func.func @pool(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                %pool: tensor<?x?x64x64xbf16>, %index: tensor<?xi32>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x64x64xbf16>) {
  %h0 = ejk.read_states %pool at %index
      : tensor<?x?x64x64xbf16>, tensor<?xi32> -> tensor<?x?x64x64xf32>
  %o, %ht = ejk.gla shared_state %q, %k, %v initial_state(%h0 : tensor<?x?x64x64xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  %updated = ejk.write_states %ht to %pool at %index
      : tensor<?x?x64x64xf32>, tensor<?x?x64x64xbf16>, tensor<?xi32>
  return %o, %updated : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xbf16>
}

func.func @packed(%q: tensor<1x?x?x64xbf16>, %k: tensor<1x?x?x64xbf16>, %v: tensor<1x?x?x64xbf16>,
                  %cu: tensor<?xi32>) -> (tensor<1x?x?x64xbf16>, tensor<?x?x64x64xf32>) {
  %o, %ht = ejk.gla shared_state %q, %k, %v cu_seqlens(%cu : tensor<?xi32>)
      : tensor<1x?x?x64xbf16>, tensor<1x?x?x64xbf16>, tensor<1x?x?x64xbf16>
      -> tensor<1x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o, %ht : tensor<1x?x?x64xbf16>, tensor<?x?x64x64xf32>
}
