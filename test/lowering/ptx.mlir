// RUN: ejk-compile --schedule=step --arch=sm_90 %s --emit=ptx | FileCheck %s
// RUN: ejk-compile --schedule=step --arch=sm_90 %s --emit=ptx | FileCheck %s --check-prefix=WHOLE
// RUN: ejk-compile --schedule=step %s --emit=ptx --arch=sm_80 | FileCheck %s --check-prefix=AMPERE

// No kernel has local memory or calls a library, and so many registers at most
// that twelve warps fit a multiprocessor.
// WHOLE: .target sm_90
// WHOLE-NOT: .local
// WHOLE-NOT: call{{.*}}__nv
// WHOLE-NOT: .extern
// AMPERE: .version 7.4
// AMPERE: .target sm_80

// The kernel for one step: rows by 16 bytes through the read-only cache, states
// by 16 bytes through the other, warps' sums through shared memory.
// CHECK-LABEL: .entry recurrence_scan0_one(
// CHECK: .maxntid 128, 1, 1
// CHECK: .maxnreg 168
// CHECK-NOT: div.u64
// CHECK-NOT: rem.u64
// CHECK-DAG: ld.global.nc.v4.b32
// CHECK-DAG: ld.global.v4.b32
// CHECK: bar.sync
// CHECK: st.global.v4.b32
// CHECK: shfl.sync.bfly.b32
// CHECK: bar.sync
// CHECK: ret;

// The kernel for any number: a chunk ahead into registers, from there to shared
// memory; on each step 16 bytes of it, multiply-adds, and a butterfly over lanes.
// CHECK-LABEL: .entry recurrence_scan0(
// CHECK: .maxnreg 168
// CHECK-NOT: div.u64
// CHECK-NOT: rem.u64
// CHECK: ld.global.v4.b32
// CHECK: ld.global.nc.v4.b32
// CHECK: st.shared.v4.b32
// CHECK: bar.sync
// CHECK: ld.global.nc.v4.b32
// CHECK: ld.shared.v4.b32
// CHECK: fma.rn.f32
// CHECK: shfl.sync.bfly.b32
// CHECK: st.global.v2.b32
// CHECK: st.global.v4.b32
// CHECK: ret;
func.func @recurrence(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                      %v: tensor<?x?x?x128xbf16>, %gk: tensor<?x?x?x128xf32>,
                      %h0: tensor<?x?x128x128xf32>)
    -> (tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x?x128xf32>)
      initial_state(%h0 : tensor<?x?x128x128xf32>)
      : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>
      -> tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
  return %o, %ht : tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
}
