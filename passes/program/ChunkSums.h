//===- ChunkSums.h - what a program sums up over its chunks -------*- C++ -*-===//
#ifndef EJK_PASSES_PROGRAM_CHUNKSUMS_H
#define EJK_PASSES_PROGRAM_CHUNKSUMS_H

#include "dialect/tile/Tile.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include <optional>

namespace ejk {

/// A value that a loop over chunks carries from zero on, that each chunk adds to, and that is stored as a
/// final state: the gradient of a parameter. The chunks may be added in any order.
struct ChunkSum {
  /// The sum that `loop` carries as its value `number`; nothing where that value is no sum.
  static std::optional<ChunkSum> of(tile::ProgramOp program, mlir::scf::ForOp loop, unsigned number);
  /// Which final state of `program`, in whose loop it was found, the sum is stored as.
  unsigned finalState(tile::ProgramOp program) const;
  /// Erases the sum's store after `loop`, a copy of the loop that it was found in, and has the loop hand the
  /// value on as it is. Simplification then removes the value.
  void removeFrom(mlir::scf::ForOp loop) const;

  unsigned number;
  tile::StoreSlotOp store;
};

/// Replaces `loop` by one that also carries the sums of `from`, and hands them on as they are until
/// finishSums. `mapping` gives their initial values, and gets the new loop's values. Returns the new loop.
mlir::scf::ForOp carrySums(llvm::ArrayRef<ChunkSum> sums, mlir::scf::ForOp from, mlir::scf::ForOp loop,
                           mlir::IRMapping &mapping);
/// Has `loop`, made by carrySums, hand on the sums with a chunk added, which `mapping` gives, and stores them
/// after the loop as the last final states of `program`.
void finishSums(llvm::ArrayRef<ChunkSum> sums, mlir::scf::ForOp from, tile::ProgramOp program,
                mlir::scf::ForOp loop, mlir::IRMapping &mapping);

} // namespace ejk

#endif // EJK_PASSES_PROGRAM_CHUNKSUMS_H
