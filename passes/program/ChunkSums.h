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
  /// The sum that the value `number` is which `loop` carries; nothing where it is something else.
  static std::optional<ChunkSum> of(tile::ProgramOp program, mlir::scf::ForOp loop, unsigned number);
  /// The number of the final state of `program`, the sum's own.
  unsigned finalState(tile::ProgramOp program) const;
  /// Removes the sum from `loop`, a copy of its own, but for what simplification removes.
  void removeFrom(mlir::scf::ForOp loop) const;

  unsigned number;
  tile::StoreSlotOp store;
};

/// Has `loop` carry the sums of `from`, whose initial values `mapping` knows, too; it hands them on as they
/// are. Returns the loop in its place.
mlir::scf::ForOp carrySums(llvm::ArrayRef<ChunkSum> sums, mlir::scf::ForOp from, mlir::scf::ForOp loop,
                           mlir::IRMapping &mapping);
/// Has `loop`, which carries the sums of `from`, hand on what `mapping` knows of a chunk, and stores them to
/// the last final states of `program`.
void finishSums(llvm::ArrayRef<ChunkSum> sums, mlir::scf::ForOp from, tile::ProgramOp program,
                mlir::scf::ForOp loop, mlir::IRMapping &mapping);

} // namespace ejk

#endif // EJK_PASSES_PROGRAM_CHUNKSUMS_H
