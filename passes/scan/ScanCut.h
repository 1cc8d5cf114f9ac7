//===- ScanCut.h - one scan as two, the second after the first ----*- C++ -*-===//
#ifndef EJK_PASSES_SCAN_SCANCUT_H
#define EJK_PASSES_SCAN_SCANCUT_H

#include "dialect/ejk/Ejk.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseSet.h"

namespace ejk {

/// Cuts a scan in two that walk alike. *Late* is what depends, in this step or an
/// earlier one, on the `seeds`; the second scan computes it, the first all else.
/// Values of the first that the second needs reach it as sequences if they are
/// numbers or vectors carried in a state, or if `crosses` holds them; the rest
/// (elementwise work, and the K×V states) it computes again.
class ScanCut {
public:
  ScanCut(ScanOp scan, llvm::ArrayRef<mlir::Value> seeds,
          llvm::function_ref<bool(mlir::Value)> crosses);

  bool isLate(mlir::Value value) const { return late.contains(value); }
  /// Makes tensors of the late values in `given`, from those of `wanted`.
  using Between =
      llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::OpBuilder &, mlir::ValueRange)>;
  /// Puts the two in the scan's place. The second takes the late values in `given`
  /// as sequences too, made between the scans from those of `wanted`, which the
  /// first computes.
  void apply(llvm::ArrayRef<mlir::Value> wanted, llvm::ArrayRef<mlir::Value> given,
             Between between);

private:
  void findNeeded(llvm::ArrayRef<mlir::Value> given);

  ScanOp scan;
  llvm::DenseSet<mlir::Value> late, crossing;
  /// What the second scan computes, and what of the first it takes.
  llvm::DenseSet<mlir::Value> needed;
  llvm::SmallVector<mlir::Value> taken;
};

} // namespace ejk

#endif // EJK_PASSES_SCAN_SCANCUT_H
