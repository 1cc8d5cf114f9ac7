//===- Constants.h - values of constants --------------------------*- C++ -*-===//
#ifndef EJK_DIALECT_REFERENCE_CONSTANTS_H
#define EJK_DIALECT_REFERENCE_CONSTANTS_H

#include "dialect/reference/Tensor.h"
#include "mlir/IR/Operation.h"

namespace ejk::reference {

/// The value of an `arith.constant`: a scalar, vector or tensor. Fails with a diagnostic for an
/// unsupported element type.
mlir::FailureOr<Tensor> constantValue(mlir::Operation *op, Precision precision);

} // namespace ejk::reference

#endif // EJK_DIALECT_REFERENCE_CONSTANTS_H
