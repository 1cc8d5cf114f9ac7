//===- ShiftedRows.h - rows that a scan's kernel loads elsewhere --*- C++ -*-===//
//
// A scan's or a block program's kernel that reads an `ejk.shift` loads the rows where they lie: those
// of the shifted tensor, at another step, and those of its halo.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_KERNELS_SHIFTEDROWS_H
#define EJK_LOWERING_KERNELS_SHIFTEDROWS_H

#include "dialect/ejk/EjkShifts.h"
#include "dialect/tile/Tile.h"
#include "lowering/kernels/KernelBuilder.h"

namespace ejk {

/// The shift whose rows the kernel of `user`, an `ejk.scan` or a `tile.program`, loads itself in the
/// place of `rows`, one of its sequences or queries; null where there is none.
ShiftOp shiftOfRows(mlir::Operation *user, mlir::Value rows);

/// The tensor that the kernel of `user` loads in the place of `rows`.
mlir::Value loadedTensor(mlir::Operation *user, mlir::Value rows);

/// Whether all users of `shift` load its rows themselves, so that it needs no kernel.
bool isDoneByLoads(ShiftOp shift);

/// Whether the kernel of `op` loads rows elsewhere, or stores last rows.
bool hasShiftedRows(mlir::Operation *op);

/// The `ejk.last_rows` of tensors that `scan` reads, which a kernel of one step of it computes, too:
/// the halo's rows but the oldest, and the step's.
llvm::SmallVector<LastRowsOp> lastRowsOf(ScanOp scan);

/// The scan whose kernel of one step computes `last`; null where there is none.
ScanOp scanOfLastRows(LastRowsOp last);

/// Where a row of a shift is: row `row` of the tensor, counted as the given ones are, if `inside`;
/// else row `haloRow` of the halo, if there is one.
struct ShiftedRow {
  mlir::Value inside, row, haloRow;

  /// Of the row at `position` of sequence `sequence`, which has `length` rows. `row` is the row's
  /// number where the shift's result would be loaded. All are i64.
  static ShiftedRow of(KernelBuilder &b, ShiftOp shift, mlir::Value row, mlir::Value position,
                       mlir::Value sequence, mlir::Value length);
};
} // namespace ejk

#endif // EJK_LOWERING_KERNELS_SHIFTEDROWS_H
