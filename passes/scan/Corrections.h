//===- Corrections.h - what a step adds that depends on reads -----*- C++ -*-===//
//
// A step that corrects its state adds an outer product of which one vector depends on what it
// reads of that state. It has a chunkwise form, and one by segments, where that vector is
//
//   u = w + Σ c r
//
// with reads r, a number c of the head for each, and w that does not depend on them: then all
// channels of a chunk's u solve systems with one matrix.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_PASSES_SCAN_CORRECTIONS_H
#define EJK_PASSES_SCAN_CORRECTIONS_H

#include "dialect/ejk/Ejk.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include <string>

namespace ejk {

/// One vector as such a sum.
struct CorrectionParts {
  /// w and c, values of the step.
  mlir::Value rest;
  llvm::MapVector<mlir::Operation *, mlir::Value> factors; // by ReadOp
  /// The w' of u = c (r + w'), where there is one read and the step says so; else null.
  mlir::Value shift;
};

/// The corrections of a step. What w and c are computed with stands in the step until this is
/// destroyed.
class Corrections {
public:
  Corrections() = default;
  Corrections(const Corrections &) = delete;
  ~Corrections();

  /// Takes the vectors of `scan`'s outer products apart that depend on reads of the state that
  /// is added to. Where one has no such parts, gives its op, and says why in `why`.
  mlir::Operation *find(ScanOp scan, std::string &why);

  /// The parts of the vector along `dim` of `add`; null where it depends on no read of its state.
  const CorrectionParts *of(OuterAddOp add, unsigned dim) const;
  /// Whether what is read feeds a correction.
  bool feeds(ReadOp read) const { return fed.contains(read); }

private:
  llvm::DenseMap<std::pair<mlir::Operation *, unsigned>, CorrectionParts> parts;
  llvm::DenseSet<mlir::Operation *> fed;
  llvm::SmallVector<mlir::Operation *> made;
};

} // namespace ejk

#endif // EJK_PASSES_SCAN_CORRECTIONS_H
