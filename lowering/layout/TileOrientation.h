//===- TileOrientation.h - which matrices are stored transposed ----*- C++ -*-===//
//
// A `wgmma` multiplies 64 rows of operand A. A may come from registers: the accumulators of one
// matmul can be operand A of the next. All other operands come from shared memory. Computing a
// matmul transposed (rhsᵀ · lhsᵀ) swaps A and B, so the choice decides how many bytes pass through
// shared memory. It also decides whether a warp has whole rows of a matrix that is reduced to
// vectors.
//
// Matrices that elementwise ops, loops and cumsums connect form a class with one orientation. All
// combinations of classes are tried for the cheapest, up to a limit.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_LAYOUT_TILEORIENTATION_H
#define EJK_LOWERING_LAYOUT_TILEORIENTATION_H

#include "lowering/layout/TileLayout.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/SetVector.h"

namespace ejk {

/// Whether all elements of `value` are equal.
bool isUniformTile(mlir::Value value);

/// If `op` is a loop or a branch, calls `join` for each pair of values of which one is passed on as
/// the other, and returns true.
bool joinPassedOn(mlir::Operation *op, llvm::function_ref<void(mlir::Value, mlir::Value)> join);

class TileOrientation {
public:
  /// Without `warpgroups`, every matrix has its `computedLayout`.
  TileOrientation(tile::ProgramOp program, unsigned warps, bool warpgroups);

  /// The layout that `matrix` is computed in.
  tile::LayoutAttr layoutOf(mlir::Value matrix);
  /// Whether tensor cores could multiply the operands of `dot` in tf32 as they are oriented.
  bool fitsTf32(tile::DotOp dot);
  /// Whether all matmuls and cumsums can be computed as they are oriented.
  bool isPossible();
  /// Whether some matmul reads `value` from shared memory.
  bool isStored(mlir::Value value) const { return stored.contains(value); }
  /// Whether `value` is rematerialised for each layout in which it is used: rows loaded from shared
  /// memory, and broadcast vectors.
  static bool isRematerialised(mlir::Value value);

private:
  using Value = mlir::Value;
  /// The classes that are transposed.
  using Choice = llvm::DenseSet<void *>;

  void join(Value a, Value b);
  void collect(mlir::Operation *op);
  void *classOf(Value value);
  bool isTransposed(Value value, const Choice &choice);
  int64_t costOf(tile::DotOp dot, bool inTf32, const Choice &choice,
                 llvm::SetVector<Value> &stored);
  int64_t costOf(tile::CumsumOp sums, const Choice &choice);
  void choose();

  unsigned warps;
  bool warpgroups;
  llvm::EquivalenceClasses<void *> classes;
  llvm::SmallVector<tile::DotOp> dots;
  llvm::SmallVector<tile::CumsumOp> sums;
  llvm::SmallVector<Value> memoryTiles; // cheaper if not transposed
  llvm::SmallVector<Value> rowSources;  // cheaper if transposed
  Choice transposed;
  llvm::SetVector<Value> stored;
};

} // namespace ejk

#endif // EJK_LOWERING_LAYOUT_TILEORIENTATION_H
