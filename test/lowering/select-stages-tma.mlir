// A branch's operands are pipelined where rows come as TMA tiles, those of f32 too: both stages, and the exact
// path in the buffers of operands that it does not read, fit into a block. Rows of 100 channels do not come so,
// and threads would wait for the copies that they have just started. A delta rule's branch
// inverts a system, which leaves no registers for the next one's operands.
// RUN: ejk-opt %s --ejk-specialize "--ejk-to-gpu=arch=sm_90a schedule=chunk" \
// RUN:   --mlir-print-ir-after=ejk-select-stages -o /dev/null 2>&1 | FileCheck %s
// RUN: ejk-opt %s --ejk-specialize "--ejk-to-gpu=arch=sm_90 schedule=chunk" \
// RUN:   --mlir-print-ir-after=ejk-select-stages -o /dev/null 2>&1 | FileCheck %s --check-prefix=SM90

// SM90-NOT: tile.take held

// CHECK-LABEL: func.func @boxes(
// CHECK:         tile.make_ring : <2 of
// CHECK:         tile.make_ring : <2 of
// CHECK:         tile.range_guard
// CHECK:         scf.for
// CHECK:         tile.take held
func.func @boxes(%q: tensor<?x?x2x128xbf16>, %k: tensor<?x?x2x128xbf16>, %v: tensor<?x?x2x128xbf16>,
                 %gk: tensor<?x?x2x128xbf16>) -> tensor<?x?x2x128xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x2x128xbf16>)
      : tensor<?x?x2x128xbf16>, tensor<?x?x2x128xbf16>, tensor<?x?x2x128xbf16>
      -> tensor<?x?x2x128xbf16>, tensor<?x2x128x128xf32>
  return %o : tensor<?x?x2x128xbf16>
}

// CHECK-LABEL: func.func @words(
// CHECK:         tile.make_ring : <2 of vector<64x128xf32>
// CHECK:         tile.make_ring : <2 of
// CHECK:         tile.range_guard
// CHECK:         scf.for
// CHECK:         tile.take held
func.func @words(%q: tensor<?x?x2x128xbf16>, %k: tensor<?x?x2x128xbf16>, %v: tensor<?x?x2x128xbf16>,
                 %gk: tensor<?x?x2x128xf32>) -> tensor<?x?x2x128xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x2x128xf32>)
      : tensor<?x?x2x128xbf16>, tensor<?x?x2x128xbf16>, tensor<?x?x2x128xbf16>
      -> tensor<?x?x2x128xbf16>, tensor<?x2x128x128xf32>
  return %o : tensor<?x?x2x128xbf16>
}

// CHECK-LABEL: func.func @copies(
// CHECK-NOT:     tile.take held
// CHECK:         return
func.func @copies(%q: tensor<?x?x2x100xbf16>, %k: tensor<?x?x2x100xbf16>, %v: tensor<?x?x2x128xbf16>,
                  %gk: tensor<?x?x2x100xf32>) -> tensor<?x?x2x128xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x2x100xf32>)
      : tensor<?x?x2x100xbf16>, tensor<?x?x2x100xbf16>, tensor<?x?x2x128xbf16>
      -> tensor<?x?x2x128xbf16>, tensor<?x2x100x128xf32>
  return %o : tensor<?x?x2x128xbf16>
}

// CHECK-LABEL: func.func @corrects(
// CHECK-NOT:     tile.take held
// CHECK:         return
func.func @corrects(%q: tensor<?x?x2x64xbf16>, %k: tensor<?x?x2x64xbf16>, %v: tensor<?x?x2x64xbf16>,
                    %beta: tensor<?x?x2xf32>, %gk: tensor<?x?x2x64xbf16>) -> tensor<?x?x2x64xbf16> {
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<?x?x2xf32>) gk(%gk : tensor<?x?x2x64xbf16>)
      : tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>
      -> tensor<?x?x2x64xbf16>, tensor<?x2x64x64xf32>
  return %o : tensor<?x?x2x64xbf16>
}
