//===- Elementwise.h - scalar functions of arith and math ---------*- C++ -*-===//
//
// One table of functions, applied to rows of elements: whole tensors, a step's
// vectors, or the single elements of a linalg body.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_DIALECT_REFERENCE_ELEMENTWISE_H
#define EJK_DIALECT_REFERENCE_ELEMENTWISE_H

#include "dialect/reference/Tensor.h"
#include "mlir/IR/Operation.h"
#include <functional>

namespace ejk::reference {

/// Elements in a row: floats or integers, the other null.
struct Row {
  double *floats = nullptr;
  int64_t *ints = nullptr;
};

/// Computes `count` elements. The result may be one of the operands.
using RowKernel = std::function<void(const Row *operands, Row result, size_t count)>;

/// The kernel of an elementwise op with one result, its rounding or wrapping
/// included; a null function when there is none.
RowKernel elementwiseKernel(mlir::Operation *op, Precision precision);

/// The value of an `arith.constant`, of a scalar, vector or tensor; fails, with
/// a diagnostic, for an element type that is not supported.
mlir::FailureOr<Tensor> constantValue(mlir::Operation *op, Precision precision);

/// "the interpreter does not know …", at `op`.
mlir::LogicalResult unknownOp(mlir::Operation *op);

} // namespace ejk::reference

#endif // EJK_DIALECT_REFERENCE_ELEMENTWISE_H
