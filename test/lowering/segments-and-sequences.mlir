// One kernel scans segments of sequences and whole sequences: where a launch takes chunks, it takes the
// kernels of the split, of which each sequence is one segment. What starts from zeros gets a null pointer.
// RUN: ejk-compile %s --arch=sm_90a --vjp --cubin=never -o %t.ejk
// RUN: ejk-launch %t.ejk --info | FileCheck %s
// CHECK-LABEL: entry delta{{$}}
// CHECK:         schedule split
// CHECK:         kernel [[SCAN:delta_[a-z_]*split_blocks[0-9]+]]: {{.*}} arguments (v, q, k, beta, g, tmp{{[0-9]+}}, o, T,
// CHECK:         schedule chunk, if T >= 16{{$}}
// CHECK-NEXT:    kernel [[SCAN]]: grid Hv * B, {{.*}} arguments (v, q, k, beta, g, 0, o, T, {{.*}}, T + 1, 1, 0, map of
// CHECK:         schedule step
// CHECK-LABEL: entry delta_vjp{{$}}
// CHECK:         schedule fine-split
// CHECK:         schedule chunk, {{(needs.*, )?}}if T >= 16
// CHECK-NOT:     kernel delta_vjp_blocks
// CHECK:         schedule step
// CHECK-LABEL: entry packed{{$}}
// CHECK:         schedule chunk
// CHECK-NEXT:    kernel packed_{{[a-z_]*}}split_blocks1: grid H * N, {{.*}} arguments (q, k, v, g, h0, cu, o, {{.*}}, T + 1, map of
// CHECK-NOT:     kernel packed_blocks

// A recurrence of f32 has no chunks, and a token's kernel.
// CHECK-LABEL: entry steps{{$}}
// CHECK-NOT:     split_scan
// CHECK:         kernel steps_scan0_one: if T = 1

// They compute what the interpreter does: ragged ends, several batch entries, rows too few for a chunk,
// empty and long sequences beside each other, and long ones, of which the longest is first.
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=delta --arch=sm_90a --device=cuda --random B=2,T=133,Hk=1,Hv=2 --vjp --check | FileCheck %s --check-prefix=RAN
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=packed --arch=sm_90a --device=cuda --random T=200,H=1,N=5 --check | FileCheck %s --check-prefix=RAN
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=packed --arch=sm_90a --device=cuda --random T=900,H=2,N=3 --seed=2 --check | FileCheck %s --check-prefix=RAN
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=backwards --arch=sm_90a --device=cuda --random B=2,T=77,H=1 --vjp --check | FileCheck %s --check-prefix=RAN
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=steps --device=cuda --random B=2,T=1,H=1 --check | FileCheck %s --check-prefix=RAN
// RAN-NOT: FAIL
// RAN: pass
// RAN-NOT: FAIL

func.func @delta(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                 %beta: tensor<?x?x?xf32>, %g: tensor<?x?x?xf32>) -> (tensor<?x?x?x64xbf16> {ejk.name = "o"}) {
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<?x?x?xf32>) g(%g : tensor<?x?x?xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o : tensor<?x?x?x64xbf16>
}

func.func @packed(%q: tensor<1x?x?x64xbf16>, %k: tensor<1x?x?x64xbf16>, %v: tensor<1x?x?x64xbf16>,
                  %g: tensor<1x?x?xf32>, %h0: tensor<?x?x64x64xf32>, %cu: tensor<?xi32>)
    -> (tensor<1x?x?x64xbf16> {ejk.name = "o"}) {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<1x?x?xf32>) initial_state(%h0 : tensor<?x?x64x64xf32>)
      cu_seqlens(%cu : tensor<?xi32>)
      : tensor<1x?x?x64xbf16>, tensor<1x?x?x64xbf16>, tensor<1x?x?x64xbf16>
      -> tensor<1x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o : tensor<1x?x?x64xbf16>
}

func.func @backwards(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                     %gk: tensor<?x?x?x64xbf16>) -> (tensor<?x?x?x64xbf16> {ejk.name = "o"}) {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x?x64xbf16>) {reverse}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o : tensor<?x?x?x64xbf16>
}

func.func @steps(%q: tensor<?x?x?x4xf32>, %k: tensor<?x?x?x4xf32>, %v: tensor<?x?x?x4xf32>) -> (tensor<?x?x?x4xf32> {ejk.name = "o"}) {
  %o, %ht = ejk.recurrent %q, %k, %v : tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>
      -> tensor<?x?x?x4xf32>, tensor<?x?x4x4xf32>
  return %o : tensor<?x?x?x4xf32>
}
