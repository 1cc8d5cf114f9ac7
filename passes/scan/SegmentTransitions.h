//===- SegmentTransitions.h - what segments make of their starts --*- C++ -*-===//
//
// A step that corrects its state (Corrections.h) is affine in it: S ← A S + k wᵀ, with A a K×K
// matrix and w free of the state. A segment then maps its start S to M S + X: X is what it makes of
// zero, and M, its transition, the product of its steps' matrices A. M is the final state of the
// same scan with w = 0 and K value channels, from the identity.
//
// Gates forget. Where the transition of a segment's last rows alone has a norm below half of an f32's last
// bit, the segment ends with what these rows add, whatever it starts from.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_PASSES_SCAN_SEGMENTTRANSITIONS_H
#define EJK_PASSES_SCAN_SEGMENTTRANSITIONS_H

#include "dialect/ejk/Ejk.h"
#include "passes/scan/Corrections.h"
#include "passes/scan/SegmentViews.h"
#include "llvm/ADT/SetVector.h"

namespace ejk {

/// The values of a step that `roots` are computed from, and those.
llvm::SetVector<mlir::Value> computedFrom(llvm::ArrayRef<mlir::Value> roots);
/// The first sequence of `scan` whose rows are in `needed` and which has as many heads; null without.
mlir::Value sequenceWithHeads(ScanOp scan, const llvm::SetVector<mlir::Value> &needed);

class SegmentTransitions {
public:
  /// For the K×V state with argument `arg`, of next value `next`.
  SegmentTransitions(ScanOp scan, mlir::Value arg, mlir::Value next, const Corrections &corrections)
      : scan(scan), arg(arg), next(next), corrections(corrections) {}

  /// The op in the way of such a form, and `why`; null where there is none. `isStateful` says
  /// whether a value depends on any state.
  mlir::Operation *findObstacle(llvm::function_ref<bool(mlir::Value)> isStateful, std::string &why);

  /// Identities, [segments,H,K,K].
  mlir::Value makeIdentities(mlir::OpBuilder &b, SegmentViews &views);
  /// The transitions of the segments' rows `trailing`, from `identities`.
  mlir::Value scanTransitions(mlir::OpBuilder &b, SegmentsAttr segments, mlir::Value identities,
                              TrailingRows trailing);
  /// How much segments remember of what is before those rows, [segments,H]: the square of the norm of
  /// `transitions`, in units of 2^-25.
  mlir::Value measure(mlir::OpBuilder &b, mlir::Value transitions);

private:
  /// Calls `visit` with each op of the chain from `arg` to `value`, and of the states that
  /// corrections in it read.
  void visitChain(mlir::Value value, llvm::function_ref<void(mlir::Operation *)> visit);

  ScanOp scan;
  mlir::Value arg, next;
  const Corrections &corrections;
};
} // namespace ejk

#endif // EJK_PASSES_SCAN_SEGMENTTRANSITIONS_H
