//===- Shifts.h - rows of other steps -----------------------------*- C++ -*-===//
#ifndef EJK_DIALECT_REFERENCE_SHIFTS_H
#define EJK_DIALECT_REFERENCE_SHIFTS_H

#include "dialect/ejk/EjkShifts.h"
#include "dialect/reference/Handlers.h"

namespace ejk::reference {
mlir::LogicalResult interpretShift(ShiftOp op, Operands operands, Results &results);
mlir::LogicalResult interpretLastRows(LastRowsOp op, Operands operands, Results &results);
} // namespace ejk::reference

#endif // EJK_DIALECT_REFERENCE_SHIFTS_H
