//===- SameOps.h - ops that compute the same ----------------------*- C++ -*-===//
#ifndef EJK_LOWERING_KERNELS_SAMEOPS_H
#define EJK_LOWERING_KERNELS_SAMEOPS_H

#include "mlir/IR/Operation.h"

namespace ejk {
/// Whether one kernel serves two ops, whose operands are different tensors: they have the same
/// types, attributes (but for the length of segments) and regions, take one tensor twice in
/// the same places, and the same of their results are unused, which does not matter with
/// `evenIfUnused`. Their regions use nothing from outside but constants.
bool computeTheSame(mlir::Operation *a, mlir::Operation *b, bool evenIfUnused = false);
} // namespace ejk

#endif // EJK_LOWERING_KERNELS_SAMEOPS_H
