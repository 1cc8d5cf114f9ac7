//===- EjkStep.h - what may stand in a step -----------------------*- C++ -*-===//
#ifndef EJK_DIALECT_EJK_EJKSTEP_H
#define EJK_DIALECT_EJK_EJKSTEP_H

#include "dialect/ejk/Ejk.h"

namespace ejk {
/// Checks every op of `scan`'s step (C10). An error stands at the op.
mlir::LogicalResult verifyStepOps(ScanOp scan);

/// Checks what a scan with queries does with values that depend on these (C7, C13).
mlir::LogicalResult verifyQueryValues(ScanOp scan);
} // namespace ejk

#endif // EJK_DIALECT_EJK_EJKSTEP_H
