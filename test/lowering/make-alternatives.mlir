// What --ejk-make-alternatives makes of a function, and what remains once schedules are chosen.
// RUN: ejk-opt %s --ejk-backward --ejk-make-alternatives --split-input-file | FileCheck %s
// RUN: ejk-opt %s --ejk-backward --ejk-make-alternatives --ejk-select-schedule="schedule=auto save-states arch=sm_90a" --split-input-file 2>/dev/null | FileCheck %s --check-prefix=CHOSEN

// The derivative by steps and in chunks, and in chunks without sums over heads.
// CHECK-LABEL: func.func @gla(
// CHECK-SAME: attributes {{.*}}ejk.schedule = "chunk", ejk.when = [">=", "T", 16]
// CHECK-LABEL: func.func @gla_step(
// CHECK-SAME: ejk.alternative_of = "gla"
// CHECK-SAME: ejk.schedule = "step"
// CHECK-NOT: ejk.when
// CHECK-LABEL: func.func @gla_vjp_direct(
// CHECK-SAME: ejk.name = "k"{{.*}} ejk.shape = ["B", "T", "H", "64"]
// CHECK-SAME: ejk.alternative_of = "gla_vjp"
// CHECK-SAME: ejk.needs = ["=", "H", "Hkv"], ejk.schedule = "chunk", ejk.when = [">=", "T", 16]
// CHECK: ejk.scan reverse
// CHECK: arith.truncf {{.*}} : vector<64xf32> to vector<64xbf16>
// CHECK-NOT: ejk.sum_heads
// CHECK-LABEL: func.func @gla_vjp(
// CHECK-COUNT-2: ejk.sum_heads
// CHECK-LABEL: func.func @gla_vjp_step(
// CHECK-COUNT-2: ejk.sum_heads

// What the forward saves in chunks each derivative takes; by steps none is read.
// CHOSEN-LABEL: func.func @gla(
// CHOSEN: tile.program
// CHOSEN-NOT: tile.choose
// CHOSEN-LABEL: func.func @gla_fwd(
// CHOSEN-SAME: ejk.name = "saved0"
// CHOSEN: tile.program
// CHOSEN-LABEL: func.func @gla_step(
// CHOSEN: ejk.scan
// CHOSEN-LABEL: func.func @gla_vjp_direct(
// CHOSEN-SAME: ejk.name = "saved0"
// CHOSEN: tile.program
// CHOSEN-LABEL: func.func @gla_vjp(
// CHOSEN-SAME: ejk.name = "saved0"
// CHOSEN: tile.program
// CHOSEN-LABEL: func.func @gla_vjp_step(
// CHOSEN-SAME: ejk.name = "saved0"
// CHOSEN: ejk.scan
func.func @gla(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
               %g: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  %o, %ht = ejk.gla %q, %k, %v g(%g : tensor<?x?x?x64xbf16>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o : tensor<?x?x?x64xbf16>
}

// -----

// In f32 there are no chunks: what is left is one function, by steps, of each.
// CHOSEN-LABEL: func.func @wide(
// CHOSEN-SAME: ejk.schedule = "step"
// CHOSEN-NOT: ejk.when
// CHOSEN-NOT: @wide_step
// CHOSEN-NOT: @wide_vjp_direct
// CHOSEN-LABEL: func.func @wide_vjp(
// CHOSEN-NOT: @wide_vjp_step
func.func @wide(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>)
    -> tensor<?x?x?x64xf32> {
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>
      -> tensor<?x?x?x64xf32>, tensor<?x?x64x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

// The rows of packed sequences are not known on the host, and one's results do not depend on the
// others: chunks at any number.
// CHECK-LABEL: func.func @packed(
// CHECK-SAME: ejk.schedule = "chunk"}
// CHECK-LABEL: func.func @packed_step(
func.func @packed(%q: tensor<1x?x4x64xbf16>, %k: tensor<1x?x4x64xbf16>, %v: tensor<1x?x4x64xbf16>,
                  %cu: tensor<?xi32>) -> tensor<1x?x4x64xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v cu_seqlens(%cu : tensor<?xi32>)
      : tensor<1x?x4x64xbf16>, tensor<1x?x4x64xbf16>, tensor<1x?x4x64xbf16>
      -> tensor<1x?x4x64xbf16>, tensor<?x4x64x64xf32>
  return %o : tensor<1x?x4x64xbf16>
}
