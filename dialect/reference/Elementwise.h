//===- Elementwise.h - scalar functions of arith and math ---------*- C++ -*-===//
//
// A table of scalar functions. They apply to rows of elements: whole tensors, vectors of a step, or
// single elements of a linalg body.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_DIALECT_REFERENCE_ELEMENTWISE_H
#define EJK_DIALECT_REFERENCE_ELEMENTWISE_H

#include "dialect/reference/Tensor.h"
#include "mlir/IR/Operation.h"
#include <functional>

namespace ejk::reference {

/// Elements of a row: floats or integers; the other pointer is null.
struct Row {
  double *floats = nullptr;
  int64_t *ints = nullptr;
};

/// Computes `count` elements. The result may alias an operand.
using RowKernel = std::function<void(const Row *operands, Row result, size_t count)>;

/// The kernel of an elementwise op with one result, including rounding or wrapping; null if the op
/// is not known.
RowKernel elementwiseKernel(mlir::Operation *op, Precision precision);

} // namespace ejk::reference

#endif // EJK_DIALECT_REFERENCE_ELEMENTWISE_H
