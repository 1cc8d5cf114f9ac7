//===- SpilledToShared.h - in shared memory for want of registers -*- C++ -*-===//
//
// Two kinds of tiles lie in shared memory, where it suffices, so that the other side of a branch
// needs fewer registers than its first, which then spills nothing for it:
//
//   - a matrix that a loop makes row by row;
//   - on the other side, a left factor that could come from registers.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_LAYOUT_SPILLEDTOSHARED_H
#define EJK_LOWERING_LAYOUT_SPILLEDTOSHARED_H

#include "dialect/tile/Tile.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace ejk {

/// A matrix that `loop` carries as its argument `number`, and does nothing with but to put a row
/// into it in each iteration.
struct RowByRow {
  mlir::vector::InsertOp insert;
  mlir::scf::ForOp loop;
  unsigned number;

  mlir::Value argument() const;
  mlir::Value result() const;
  mlir::OpOperand &init() const;
};

/// Those in or under `op`.
llvm::SmallVector<RowByRow> findRowByRow(mlir::Operation *op);

/// Whether `op` is on the other side of a branch, which is taken where the first cannot be.
bool isOnOtherSide(mlir::Operation *op);

/// How many tiles of a laid-out program lie in shared memory by choice.
unsigned countByChoice(tile::ProgramOp program);
/// Has those in registers, instead, whose bits `which` has: rows' matrices, then factors, as they
/// come in the program.
void holdInRegisters(tile::ProgramOp program, uint64_t which = ~uint64_t(0));

} // namespace ejk

#endif // EJK_LOWERING_LAYOUT_SPILLEDTOSHARED_H
