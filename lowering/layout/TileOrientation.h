//===- TileOrientation.h - which matrices are kept transposed ------*- C++ -*-===//
//
// A group of four warps multiplies 64 rows at a time. Their left factor may come
// straight from registers, where the accumulators of one product are the left
// factor of another; all else comes from shared memory. Which products are made
// transposed decides how much must pass through there, and whether a warp has whole
// rows of a matrix that vectors are taken of. What elementwise ops, loops and sums
// join lies one way; of all ways the cheapest is chosen.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_LAYOUT_TILEORIENTATION_H
#define EJK_LOWERING_LAYOUT_TILEORIENTATION_H

#include "lowering/layout/TileLayout.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/SetVector.h"

namespace ejk {

/// Whether `value` is one number in all its elements.
bool isUniformTile(mlir::Value value);

/// Calls `join` for each two values of which `op`, a loop or a branch, hands one on as the other.
/// False where it is neither.
bool joinHandedOn(mlir::Operation *op, llvm::function_ref<void(mlir::Value, mlir::Value)> join);

class TileOrientation {
public:
  /// Without `warpgroups` every matrix lies as `computedLayout` says.
  TileOrientation(tile::ProgramOp program, unsigned warps, bool warpgroups);

  /// The layout that `matrix` is computed in.
  tile::LayoutAttr layoutOf(mlir::Value matrix);
  /// Whether some product takes `value` from shared memory.
  bool isStored(mlir::Value value) const { return stored.contains(value); }
  /// Whether `value` is made where it is needed, once for each layout: rows from
  /// shared memory, and vectors spread over a matrix.
  static bool isRemade(mlir::Value value);

private:
  using Value = mlir::Value;
  /// Those of the classes that are transposed.
  using Choice = llvm::DenseSet<void *>;

  void join(Value a, Value b);
  void collect(mlir::Operation *op);
  void *classOf(Value value);
  bool isTransposed(Value value, const Choice &choice);
  int64_t costOf(const Choice &choice);
  int64_t costOf(tile::DotOp dot, const Choice &choice, llvm::SetVector<Value> &stored);
  int64_t costOf(tile::CumsumOp sums, const Choice &choice);
  void choose();

  unsigned warps;
  bool warpgroups;
  llvm::EquivalenceClasses<void *> classes;
  llvm::SmallVector<tile::DotOp> dots;
  llvm::SmallVector<tile::CumsumOp> sums;
  llvm::SmallVector<Value> inMemory;   // better not transposed
  llvm::SmallVector<Value> givingRows; // better transposed
  Choice transposed;
  llvm::SetVector<Value> stored;
};

} // namespace ejk

#endif // EJK_LOWERING_LAYOUT_TILEORIENTATION_H
