//===- VectorLayouts.h - which vectors lie as a matrix's rows do ----*- C++ -*-===//
//
// A vector over lanes is in every warp, and what matrices give of it and take goes
// through shared memory, with a barrier. Where each warp has whole rows of all the
// matrices that a vector is summed over, taken from and spread along, as they are
// stored, it needs no more of the vector than its own rows'.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_LAYOUT_VECTORLAYOUTS_H
#define EJK_LOWERING_LAYOUT_VECTORLAYOUTS_H

#include "lowering/layout/TileLayout.h"
#include "llvm/ADT/EquivalenceClasses.h"

namespace ejk {

class VectorLayouts {
public:
  /// `computed` says in which layout a matrix is computed.
  VectorLayouts(tile::ProgramOp program,
                llvm::function_ref<tile::LayoutAttr(mlir::Value)> computed);

  /// The layout that `vector` is computed in; null for lanes.
  tile::LayoutAttr layoutOf(mlir::Value vector) const;

private:
  using Value = mlir::Value;
  void collect(mlir::Operation *op, llvm::function_ref<tile::LayoutAttr(mlir::Value)> computed);
  void join(Value a, Value b);
  void *classOf(Value value) const;
  /// Joined vectors have a layout that they all would like, or, null, lanes.
  void propose(Value vector, tile::LayoutAttr layout);

  llvm::EquivalenceClasses<void *> classes;
  llvm::SmallVector<std::pair<Value, tile::LayoutAttr>> proposals;
  llvm::SmallVector<Value> ofMatrices, alongMatrices;
  llvm::DenseMap<void *, tile::LayoutAttr> layouts;
};

} // namespace ejk

#endif // EJK_LOWERING_LAYOUT_VECTORLAYOUTS_H
