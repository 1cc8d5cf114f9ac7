//===- SpilledToShared.h - tiles spilled to shared memory ---------*- C++ -*-===//
//
// Two kinds of tiles are spilled to shared memory if it suffices. Registers are allocated
// for the exact path as well as for the fast path, so fewer live tiles on the exact path
// keep the fast path from spilling to local memory:
//
//   - a matrix that a loop builds row by row;
//   - on the exact path, an operand A that could come from registers.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_LAYOUT_SPILLEDTOSHARED_H
#define EJK_LOWERING_LAYOUT_SPILLEDTOSHARED_H

#include "dialect/tile/Tile.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace ejk {

/// A matrix that `loop` carries as iter_arg `number` and that each iteration only inserts a row
/// into.
struct RowByRow {
  mlir::vector::InsertOp insert;
  mlir::scf::ForOp loop;
  unsigned number;

  mlir::Value argument() const;
  mlir::Value result() const;
  mlir::OpOperand &init() const;
};

/// All such matrices under `op`.
llvm::SmallVector<RowByRow> findRowByRow(mlir::Operation *op);

/// Whether `op` is on the exact path of a `tile.guarded`, not inside a loop there.
bool isOnExactPath(mlir::Operation *op);

/// The number of tiles of a laid-out program that are spilled to shared memory.
unsigned countSpilledTiles(tile::ProgramOp program);
/// Moves spilled tiles back to registers, those whose bit is set in `which`: first row-by-row
/// matrices, then operands, in program order.
void keepInRegisters(tile::ProgramOp program, uint64_t which = ~uint64_t(0));

} // namespace ejk

#endif // EJK_LOWERING_LAYOUT_SPILLEDTOSHARED_H
