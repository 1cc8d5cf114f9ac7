//===- Branch.h - tile.guarded and scf.if alike --------------------*- C++ -*-===//
//
// Where control forks in a block program: at a `tile.guarded`, whose first path is the fast one, or
// at an `scf.if` on any other condition. For passes that follow values and accesses through a
// branch, whatever its condition means. A pass that relies on a range guard, or on an exact path
// being rare, takes GuardedOp alone.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_DIALECT_TILE_BRANCH_H
#define EJK_DIALECT_TILE_BRANCH_H

#include "dialect/tile/Tile.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace ejk::tile {

class Branch {
public:
  Branch() = default;
  /// `op` as a branch; null if it is none, or null.
  static Branch of(mlir::Operation *op) {
    return Branch(llvm::isa_and_nonnull<GuardedOp, mlir::scf::IfOp>(op) ? op : nullptr);
  }
  static bool is(mlir::Operation *op) { return bool(of(op)); }

  explicit operator bool() const { return op; }
  bool operator==(const Branch &other) const { return op == other.op; }
  mlir::Operation *operator->() const { return op; }
  mlir::Operation *getOperation() const { return op; }

  mlir::Value getCondition() const { return op->getOperand(0); }
  mlir::Region &getThenRegion() const { return op->getRegion(0); }
  mlir::Region &getElseRegion() const { return op->getRegion(1); }
  mlir::Block *thenBlock() const { return &getThenRegion().front(); }
  /// Null for an `scf.if` without `else`.
  mlir::Block *elseBlock() const {
    return getElseRegion().empty() ? nullptr : &getElseRegion().front();
  }

  /// Whether `op` ends one side of a branch.
  static bool isEnd(mlir::Operation *op) {
    return llvm::isa<tile::YieldOp, mlir::scf::YieldOp>(op) && is(op->getParentOp());
  }

private:
  explicit Branch(mlir::Operation *op) : op(op) {}
  mlir::Operation *op = nullptr;
};

} // namespace ejk::tile

#endif // EJK_DIALECT_TILE_BRANCH_H
