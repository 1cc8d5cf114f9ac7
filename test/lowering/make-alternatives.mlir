// What --ejk-make-alternatives makes of a function, and what remains once schedules are chosen.
// RUN: ejk-opt %s --ejk-backward --ejk-make-alternatives --split-input-file | FileCheck %s
// RUN: ejk-opt %s --ejk-backward --ejk-make-alternatives --ejk-select-schedule="schedule=auto save-states arch=sm_90a" --canonicalize --split-input-file 2>/dev/null | FileCheck %s --check-prefix=CHOSEN

// A schedule that was asked for is the only one; only sums over heads have an alternative without.
// RUN: ejk-opt %s --ejk-backward --ejk-make-alternatives="schedule=chunk by-gates=never" --split-input-file | FileCheck %s --check-prefix=FORCED --implicit-check-not='_step('
// FORCED-LABEL: func.func @gla(
// FORCED-NOT: ejk.schedule
// FORCED-LABEL: func.func @gla_vjp_direct(
// FORCED-SAME: ejk.alternative_of = "gla_vjp"
// FORCED-SAME: ejk.needs = ["=", "H", "Hkv"], ejk.schedule = "chunk"}
// FORCED-LABEL: func.func @gla_vjp(
// FORCED-SAME: ejk.schedule = "chunk"}

// Segments side by side, for few long sequences; shorter ones where a device takes all at once.
// CHECK-LABEL: func.func @gla_fine_split(
// CHECK-SAME: ejk.schedule = "fine-split"
// CHECK-SAME: [">=", "device.multiprocessors", ["*", ["*", "B", ["max", 16, ["ceildiv", "T", 1024]]], "H"]]
// CHECK: ejk.scan segments<64 to 1024, at_least 16>
// CHECK-LABEL: func.func @gla_split(
// CHECK-SAME: ejk.alternative_of = "gla"
// CHECK-SAME: ejk.schedule = "split"
// CHECK-SAME: ejk.when = ["and", [">=", "T", 1024], ["<", ["*", 3, ["ceildiv", ["*", ["*", "B", ["max", 4, ["ceildiv", "T", 4096]]], "H"], "device.multiprocessors"]], ["max", 4, ["ceildiv", "T", 4096]]]]}
// CHECK: ejk.scan segments<64 to 4096, at_least 4>
// CHECK: ejk.scan segments<64 to 4096, at_least 4>

// The derivative by steps and in chunks, and in chunks without sums over heads.
// CHECK-LABEL: func.func @gla(
// CHECK-SAME: attributes {{.*}}ejk.schedule = "chunk", ejk.when = [">=", "T", 16]
// CHECK-LABEL: func.func @gla_step(
// CHECK-SAME: ejk.alternative_of = "gla"
// CHECK-SAME: ejk.schedule = "step"
// CHECK-NOT: ejk.when
// CHECK-LABEL: func.func @gla_vjp_fine_split_direct(
// CHECK-LABEL: func.func @gla_vjp_fine_split(
// CHECK-LABEL: func.func @gla_vjp_split_direct(
// CHECK-SAME: ejk.needs = ["=", "H", "Hkv"], ejk.schedule = "split", ejk.when = ["and"
// CHECK-NOT: ejk.sum_heads
// CHECK-LABEL: func.func @gla_vjp_split(
// CHECK-COUNT-2: ejk.sum_heads
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
// CHOSEN-LABEL: func.func @gla_split(
// CHOSEN-COUNT-2: tile.program chunk 64 {{.*}}segments
// CHOSEN-LABEL: func.func @gla_fwd_split(
// CHOSEN-SAME: ejk.name = "saved0"
// CHOSEN-SAME: ejk.alternative_of = "gla_fwd"
// CHOSEN-COUNT-2: tile.program chunk 64 {{.*}}segments
// CHOSEN-LABEL: func.func @gla(
// CHOSEN: tile.program
// CHOSEN-NOT: tile.choose
// CHOSEN-LABEL: func.func @gla_fwd(
// CHOSEN-SAME: ejk.name = "saved0"
// CHOSEN: tile.program
// CHOSEN-LABEL: func.func @gla_step(
// CHOSEN: ejk.scan
// Of segments, a derivative only makes the adjoint states that they end with.
// CHOSEN-LABEL: func.func @gla_vjp_split_direct(
// CHOSEN-SAME: ejk.name = "saved0"
// CHOSEN-COUNT-2: tile.program chunk 64 {{.*}}segments
// CHOSEN-NOT: tile.program
// CHOSEN-LABEL: func.func @gla_vjp_split(
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
// others: chunks at any number. For segments side by side, the mean of the rows counts.
// CHECK-LABEL: func.func @packed_split(
// CHECK-SAME: ejk.when = ["and", [">=", "T", 1024], ["<", ["*", 3, ["ceildiv", ["*", ["+", ["floordiv", "T", 2048], "N"], 4], "device.multiprocessors"]], ["floordiv", "T", ["*", ["max", "N", 1], 2048]]]]}
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

// -----

// A sequence of 1024 rows is never divided. What a delta rule
// adds depends on the state: no segment can be computed before the one before it.
// CHECK-LABEL: func.func @short(
// CHECK-NOT: @short_split
func.func @short(%q: tensor<?x1000x4x64xbf16>, %k: tensor<?x1000x4x64xbf16>, %v: tensor<?x1000x4x64xbf16>)
    -> tensor<?x1000x4x64xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<?x1000x4x64xbf16>, tensor<?x1000x4x64xbf16>, tensor<?x1000x4x64xbf16>
      -> tensor<?x1000x4x64xbf16>, tensor<?x4x64x64xf32>
  return %o : tensor<?x1000x4x64xbf16>
}

// CHECK-LABEL: func.func @delta(
// CHECK-NOT: @delta_split
func.func @delta(%q: tensor<?x?x4x64xbf16>, %k: tensor<?x?x4x64xbf16>, %v: tensor<?x?x4x64xbf16>,
                 %beta: tensor<?x?x4xf32>) -> tensor<?x?x4x64xbf16> {
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<?x?x4xf32>)
      : tensor<?x?x4x64xbf16>, tensor<?x?x4x64xbf16>, tensor<?x?x4x64xbf16>
      -> tensor<?x?x4x64xbf16>, tensor<?x4x64x64xf32>
  return %o : tensor<?x?x4x64xbf16>
}
