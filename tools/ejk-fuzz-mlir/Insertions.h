//===- Insertions.h - blocks and attributes that a module did not have -*- C++ -*-===//
#ifndef EJK_TOOLS_EJK_FUZZ_MLIR_INSERTIONS_H
#define EJK_TOOLS_EJK_FUZZ_MLIR_INSERTIONS_H

#include "Mutations.h"
#include "mlir/IR/Operation.h"

namespace ejk::fuzz {
template <typename T> const T &pick(llvm::ArrayRef<T> all, Generator &random) {
  return all[below(random, all.size())];
}

/// A number near `old`, or one that checks of sizes and indices may have forgotten.
int64_t number(int64_t old, Generator &random);

/// What follows `op` becomes a block of its own, to which some of `values` are passed.
void splitBlock(mlir::Operation *op, llvm::ArrayRef<mlir::Value> values, Generator &random);

/// A block after that of `op`. Nothing reaches the new block, or the block of `op` ends in it and
/// loses its terminator.
void insertBlock(mlir::Operation *op, Generator &random);

/// An attribute of ejk's dialect at a function of `ops`, an argument or a result, of the kind that
/// it must have or of another.
void insertAttribute(llvm::ArrayRef<mlir::Operation *> ops, Generator &random);
} // namespace ejk::fuzz

#endif // EJK_TOOLS_EJK_FUZZ_MLIR_INSERTIONS_H
