//===- RegisterPressure.h - register pressure of a block ----------*- C++ -*-===//
#ifndef EJK_PASSES_PROGRAM_REGISTERPRESSURE_H
#define EJK_PASSES_PROGRAM_REGISTERPRESSURE_H

#include "dialect/tile/Tile.h"
#include "llvm/ADT/STLExtras.h"

namespace ejk {

/// Whether `block` has so many matmuls that registers are short.
inline bool hasManyMatmuls(mlir::Block &block) {
  constexpr unsigned most = 6;
  return llvm::range_size(block.getOps<tile::DotOp>()) > most;
}

} // namespace ejk

#endif // EJK_PASSES_PROGRAM_REGISTERPRESSURE_H
