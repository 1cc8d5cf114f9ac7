//===- VectorLayouts.h - which vectors have a slice layout -----------*- C++ -*-===//
//
// In `lanes` layout every warp has a copy of a vector. Reductions to it and broadcasts of it then
// go through shared memory, with a barrier. In `rows` layout (a slice layout in Triton's terms) a
// warp has only the elements for its own rows, and needs no barrier. That is possible if each warp
// has whole stored rows of all matrices that the vector is reduced from, extracted from or
// broadcast along.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_LAYOUT_VECTORLAYOUTS_H
#define EJK_LOWERING_LAYOUT_VECTORLAYOUTS_H

#include "lowering/layout/TileLayout.h"
#include "llvm/ADT/EquivalenceClasses.h"

namespace ejk {

class VectorLayouts {
public:
  /// `computed` returns the layout in which a matrix is computed.
  VectorLayouts(tile::ProgramOp program,
                llvm::function_ref<tile::LayoutAttr(mlir::Value)> computed);

  /// The layout that `vector` is computed in; null for lanes.
  tile::LayoutAttr layoutOf(mlir::Value vector) const;

private:
  using Value = mlir::Value;
  void collect(mlir::Operation *op, llvm::function_ref<tile::LayoutAttr(mlir::Value)> computed);
  void join(Value a, Value b);
  void *classOf(Value value) const;
  /// Connected vectors get the layout that all of them propose; if they differ, or one proposes
  /// null, `lanes`.
  void propose(Value vector, tile::LayoutAttr layout);

  llvm::EquivalenceClasses<void *> classes;
  llvm::SmallVector<std::pair<Value, tile::LayoutAttr>> proposals;
  llvm::SmallVector<Value> ofMatrices, alongMatrices;
  llvm::DenseMap<void *, tile::LayoutAttr> layouts;
};

} // namespace ejk

#endif // EJK_LOWERING_LAYOUT_VECTORLAYOUTS_H
