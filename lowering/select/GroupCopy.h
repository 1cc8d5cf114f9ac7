//===- GroupCopy.h - a group of scans once more --------------------*- C++ -*-===//
#ifndef EJK_LOWERING_SELECT_GROUPCOPY_H
#define EJK_LOWERING_SELECT_GROUPCOPY_H

#include "dialect/tile/Tile.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/IRMapping.h"
#include "passes/scan/TensorSums.h"
#include "llvm/ADT/MapVector.h"

namespace ejk {

/// A group of scans once more, behind themselves, in the originals' place for all who
/// use them. Sums over what they end with, which may end as early as they do, come too.
class GroupCopy {
public:
  explicit GroupCopy(llvm::ArrayRef<ScanOp> group) : group(group) {
    mlir::IRMapping mapping;
    llvm::SmallVector<mlir::Operation *> members;
    auto copy = [&](mlir::Operation *op) {
      mlir::OpBuilder b(op->getContext());
      b.setInsertionPointAfter(op);
      members.push_back(op);
      return b.clone(*op, mapping);
    };
    for (ScanOp scan : group) {
      scans.push_back(mlir::cast<ScanOp>(copy(scan)));
      for (mlir::Operation *user : llvm::SmallVector<mlir::Operation *>(scan->getUsers()))
        if (auto generic = mlir::dyn_cast<mlir::linalg::GenericOp>(user); generic && isSumOver(generic, 2))
          copy(generic);
    }
    for (mlir::Operation *op : members)
      for (mlir::Value result : op->getResults())
        for (mlir::OpOperand &use : llvm::make_early_inc_range(result.getUses()))
          if (!llvm::is_contained(members, use.getOwner())) {
            uses.push_back({&use, result});
            use.set(mapping.lookup(result));
          }
  }

  /// Back to the originals.
  void undo() {
    for (auto [use, value] : uses)
      use->set(value);
    erase(scans);
  }

  /// Ends with what took the copies' place; with `choose` the originals stay for
  /// sequences of one row.
  void finish(bool choose) {
    if (!choose)
      return erase(group);
    llvm::MapVector<mlir::Value, mlir::Value> chosen;
    for (auto [use, value] : uses) {
      mlir::Value &result = chosen[value];
      if (!result) {
        mlir::Value made = use->get();
        mlir::OpBuilder b(value.getContext());
        b.setInsertionPointAfterValue(made);
        ScanOp first = group.front();
        result = tile::ChooseOp::create(b, value.getLoc(), made.getType(), value, made,
                                        first.getSequences().front());
      }
      use->set(result);
    }
  }

  llvm::SmallVector<ScanOp> scans;

private:
  /// Erases scans and the sums of what they end with, that nothing else uses.
  static void erase(llvm::ArrayRef<ScanOp> scans) {
    for (ScanOp scan : llvm::reverse(scans)) {
      for (mlir::Operation *sum : llvm::SmallVector<mlir::Operation *>(scan->getUsers()))
        sum->erase();
      scan.erase();
    }
  }

  llvm::ArrayRef<ScanOp> group;
  llvm::SmallVector<std::pair<mlir::OpOperand *, mlir::Value>> uses;
};

} // namespace ejk

#endif // EJK_LOWERING_SELECT_GROUPCOPY_H
