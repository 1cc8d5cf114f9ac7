// RUN: ejk-opt %s --split-input-file --ejk-specialize --ejk-to-gpu | FileCheck %s

// Trap 6: query head h reads key and value head h / (H / Hkv). How far rows are apart is the caller's.
// The gate and the output have all H.
// CHECK-LABEL: gpu.func @shared_heads_scan0(
// CHECK-SAME:    %[[Q:arg[0-9]+]]: !llvm.ptr<1> {{{[^}]*}}}, %[[K:arg[0-9]+]]: !llvm.ptr<1> {{{[^}]*}}}, %[[V:arg[0-9]+]]: !llvm.ptr<1> {{{[^}]*}}}, %[[G:arg[0-9]+]]: !llvm.ptr<1> {{{[^}]*}}}, %{{arg[0-9]+}}: !llvm.ptr<1>, %{{arg[0-9]+}}: i64, %[[H:arg[0-9]+]]: i64, %[[HKV:arg[0-9]+]]: i64, %[[QROW:arg[0-9]+]]: i64, %[[KROW:arg[0-9]+]]: i64, %[[VROW:arg[0-9]+]]: i64
// CHECK-DAG:     %[[CK:.*]] = arith.constant 48 : i64
// CHECK-DAG:     %[[CV:.*]] = arith.constant 60 : i64
// CHECK-DAG:     %[[HEADS:.*]] = arith.trunci %[[H]] : i64 to i32
// CHECK-DAG:     %[[HEAD:.*]] = arith.remui %{{.*}}, %[[HEADS]] : i32
// CHECK-DAG:     %[[KVHEADS:.*]] = arith.trunci %[[HKV]] : i64 to i32
// CHECK-DAG:     %[[SHARE:.*]] = arith.divui %[[HEADS]], %[[KVHEADS]] : i32
// CHECK-DAG:     %[[KVHEAD:.*]] = arith.divui %[[HEAD]], %[[SHARE]] : i32
// CHECK-DAG:     %[[WIDE:.*]] = arith.extui %[[HEAD]] : i32 to i64
// CHECK-DAG:     %[[KVWIDE:.*]] = arith.extui %[[KVHEAD]] : i32 to i64
// CHECK-DAG:     %[[QSTRIDE:.*]] = arith.trunci %[[QROW]] : i64 to i32
// CHECK-DAG:     llvm.inline_asm has_side_effects "mov.b32 $0, $1;", "=r,r" %[[QSTRIDE]]
// CHECK-DAG:     %[[KSTRIDE:.*]] = arith.trunci %[[KROW]] : i64 to i32
// CHECK-DAG:     llvm.inline_asm has_side_effects "mov.b32 $0, $1;", "=r,r" %[[KSTRIDE]]
// CHECK-DAG:     %[[VSTRIDE:.*]] = arith.trunci %[[VROW]] : i64 to i32
// CHECK-DAG:     llvm.inline_asm has_side_effects "mov.b32 $0, $1;", "=r,r" %[[VSTRIDE]]
// CHECK-DAG:     %[[QAT:.*]] = arith.muli %[[WIDE]], %[[CK]] : i64
// CHECK-DAG:     %[[QCOLUMN:.*]] = arith.trunci %[[QAT]] : i64 to i32
// CHECK-DAG:     %[[QBACK:.*]] = arith.extui %[[QCOLUMN]] : i32 to i64
// CHECK-DAG:     %[[QFIRST:.*]] = arith.addi %{{.*}}, %[[QBACK]] : i64
// CHECK-DAG:     %[[QHERE:.*]] = arith.addi %[[QFIRST]], %{{.*}} : i64
// CHECK-DAG:     llvm.getelementptr %[[Q]][%[[QHERE]]]
// CHECK-DAG:     %[[KAT:.*]] = arith.muli %[[KVWIDE]], %[[CK]] : i64
// CHECK-DAG:     %[[KCOLUMN:.*]] = arith.trunci %[[KAT]] : i64 to i32
// CHECK-DAG:     %[[KBACK:.*]] = arith.extui %[[KCOLUMN]] : i32 to i64
// CHECK-DAG:     %[[KFIRST:.*]] = arith.addi %{{.*}}, %[[KBACK]] : i64
// CHECK-DAG:     %[[KHERE:.*]] = arith.addi %[[KFIRST]], %{{.*}} : i64
// CHECK-DAG:     llvm.getelementptr %[[K]][%[[KHERE]]]
// CHECK-DAG:     %[[VAT:.*]] = arith.muli %[[KVWIDE]], %[[CV]] : i64
// CHECK-DAG:     %[[VCOLUMN:.*]] = arith.trunci %[[VAT]] : i64 to i32
// CHECK-DAG:     %[[VBACK:.*]] = arith.extui %[[VCOLUMN]] : i32 to i64
// CHECK-DAG:     %[[VFIRST:.*]] = arith.addi %{{.*}}, %[[VBACK]] : i64
// CHECK-DAG:     %[[VHERE:.*]] = arith.addi %[[VFIRST]], %{{.*}} : i64
// CHECK-DAG:     llvm.getelementptr %[[V]][%[[VHERE]]]
// CHECK-DAG:     %[[GFIRST:.*]] = arith.addi %{{.*}}, %[[WIDE]] : i64
// CHECK-DAG:     llvm.getelementptr %[[G]][%[[GFIRST]]]
func.func @shared_heads(%q: tensor<?x2x?x48xbf16>, %k: tensor<?x2x?x48xbf16>,
                        %v: tensor<?x2x?x60xbf16>, %g: tensor<?x2x?xf32>) -> tensor<?x2x?x60xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x2x?xf32>)
      : tensor<?x2x?x48xbf16>, tensor<?x2x?x48xbf16>, tensor<?x2x?x60xbf16>
      -> tensor<?x2x?x60xbf16>, tensor<?x?x48x60xf32>
  return %o : tensor<?x2x?x60xbf16>
}

// -----

// Trap 7: a read is summed over lanes, then over warps, in f32. Nothing is rounded
// before the last of these sums, and nothing is summed after.
// CHECK-LABEL: gpu.func @split_sum_scan0_one(
// CHECK-NOT:     arith.truncf
// CHECK:         gpu.shuffle xor %{{.*}} : f32
// CHECK-NOT:     arith.truncf
// CHECK:         gpu.barrier
// CHECK-NOT:     arith.truncf
// CHECK:         arith.addf %{{.*}} : vector<{{[0-9]+}}xf32>
// CHECK:         arith.truncf %{{.*}} : f32 to bf16
// CHECK-NOT:     arith.addf
// CHECK-NOT:     math.fma
// CHECK:         gpu.return
func.func @split_sum(%q: tensor<?x1x?x256xbf16>, %k: tensor<?x1x?x256xbf16>,
                     %v: tensor<?x1x?x64xbf16>) -> tensor<?x1x?x64xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<?x1x?x256xbf16>, tensor<?x1x?x256xbf16>, tensor<?x1x?x64xbf16>
      -> tensor<?x1x?x64xbf16>, tensor<?x?x256x64xf32>
  return %o : tensor<?x1x?x64xbf16>
}
