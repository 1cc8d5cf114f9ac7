//===- SameOps.h - ops that compute the same ----------------------*- C++ -*-===//
#ifndef EJK_LOWERING_KERNELS_SAMEOPS_H
#define EJK_LOWERING_KERNELS_SAMEOPS_H

#include "mlir/IR/Operation.h"

namespace ejk {
/// Whether two ops compute the same of operands that are different tensors: they have the same
/// types, attributes and regions, take one tensor twice in the same places, and the same of their
/// results are unused. Their regions use nothing from outside.
bool computeTheSame(mlir::Operation *a, mlir::Operation *b);
} // namespace ejk

#endif // EJK_LOWERING_KERNELS_SAMEOPS_H
