//===- Conditions.h - conditions of alternatives as attributes ----*- C++ -*-===//
//
// [op, a, b], in which a and b are numbers, names of sizes or facts of the device, or conditions
// themselves (docs/package-format.md).
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_SELECT_CONDITIONS_H
#define EJK_LOWERING_SELECT_CONDITIONS_H

#include "mlir/IR/Builders.h"

namespace ejk {
struct DimExpr;

inline mlir::ArrayAttr condition(mlir::Builder &b, llvm::StringRef op, mlir::Attribute left,
                                 mlir::Attribute right) {
  return b.getArrayAttr({b.getStringAttr(op), left, right});
}

/// Both conditions, either of which may be null.
inline mlir::ArrayAttr both(mlir::Builder &b, mlir::ArrayAttr left, mlir::ArrayAttr right) {
  return !left ? right : !right ? left : condition(b, "and", left, right);
}

/// The packed sequences of so many offsets: N, given N+1.
DimExpr sequencesOf(DimExpr offsets);

/// `size` as conditions spell it; null for what an argument's size does not tell.
mlir::Attribute sizeAttribute(mlir::Builder &b, const DimExpr &size);

} // namespace ejk

#endif // EJK_LOWERING_SELECT_CONDITIONS_H
