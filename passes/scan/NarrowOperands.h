//===- NarrowOperands.h - which sequences may enter 16-bit matmuls -*- C++ -*-===//
#ifndef EJK_PASSES_SCAN_NARROWOPERANDS_H
#define EJK_PASSES_SCAN_NARROWOPERANDS_H

#include "dialect/ejk/Ejk.h"

namespace ejk {

/// Where the matmul operands of a scan come from: the keys, values and read vectors of its step.
///
/// Rows are tensors of vectors, [B,T,H,C]. Operands may be rounded to 16 bits when all rows that
/// they are computed from
///  - have 16-bit elements;
///  - or, with `roundComputed`, are computed from such rows: by elementwise ops, sums over heads,
///    and other recurrences, in f32 or not;
///  - or, with `roundComputed`, are gates of the same scan, or what these are computed from, in f32
///    or not.
/// Tensors of one number per head and step, and parameters, do not matter.
struct OperandSources {
  /// Whether there are rows with 16-bit elements.
  bool hasNarrow = false;
  /// f32 rows that forbid the rounding; null where none do.
  mlir::Value wide;

  bool mayBeRounded() const { return hasNarrow && !wide; }
};
OperandSources findOperandSources(ScanOp scan, bool roundComputed);

/// Narrows operands (ejk-narrow-operands). Returns the number of sequences that became 16-bit.
unsigned narrowOperands(llvm::ArrayRef<ScanOp> scans, bool roundComputed);

} // namespace ejk

#endif // EJK_PASSES_SCAN_NARROWOPERANDS_H
