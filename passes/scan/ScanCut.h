//===- ScanCut.h - cut a scan into two -----------------------------*- C++ -*-===//
#ifndef EJK_PASSES_SCAN_SCANCUT_H
#define EJK_PASSES_SCAN_SCANCUT_H

#include "dialect/ejk/Ejk.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseSet.h"

namespace ejk {

/// Cuts a scan into two with the same direction. *Late* values depend, in this step or an earlier
/// one, on the `seeds`. The second scan computes the late values, and the first all others. Values
/// of the first that the second needs become sequences if they are scalar or vector states, or if
/// `crosses` has them. The second scan recomputes the rest (elementwise ops and K×V states).
class ScanCut {
public:
  ScanCut(ScanOp scan, llvm::ArrayRef<mlir::Value> seeds,
          llvm::function_ref<bool(mlir::Value)> crosses);

  bool isLate(mlir::Value value) const { return late.contains(value); }
  /// Creates tensors of the late values in `given` from those of `wanted`.
  using Between =
      llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::OpBuilder &, mlir::ValueRange)>;
  /// Replaces the scan by the two. The second one also reads the late values in `given` as
  /// sequences. They are computed between the scans from tensors of `wanted`, which the first scan
  /// computes. Returns the scans made: two, or the first alone where the second has no users.
  llvm::SmallVector<ScanOp> apply(llvm::ArrayRef<mlir::Value> wanted,
                                  llvm::ArrayRef<mlir::Value> given, Between between);
  /// Replaces the scan by the two, with nothing computed between them.
  llvm::SmallVector<ScanOp> apply();

private:
  void findNeeded(llvm::ArrayRef<mlir::Value> given);
  /// Replaces a result of the scan. The types of its users may have other dynamic sizes.
  void replaceResult(mlir::OpBuilder &b, mlir::Value result, mlir::Value made);

  ScanOp scan;
  llvm::DenseSet<mlir::Value> late, crossing;
  /// The values that the second scan computes or reads from the first.
  llvm::DenseSet<mlir::Value> needed;
  llvm::SmallVector<mlir::Value> taken;
};

/// Whether a step reads `value` of a K×V state: what a later scan takes as a sequence. A checkpoint
/// is a read, of a saved state.
bool isReadOfState(mlir::Value value);

/// Applies `cut` to the scans under `root` whose step has no branches and that have no queries, for
/// a kernel that takes a scan with queries takes it whole; and to the scans that it makes of them.
/// `cut` returns these, or none where it leaves its scan as it is.
void cutScans(mlir::Operation *root, llvm::function_ref<llvm::SmallVector<ScanOp>(ScanOp)> cut);

} // namespace ejk

#endif // EJK_PASSES_SCAN_SCANCUT_H
