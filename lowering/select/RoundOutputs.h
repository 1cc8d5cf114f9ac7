//===- RoundOutputs.h - outputs that are only used rounded --------*- C++ -*-===//
#ifndef EJK_LOWERING_SELECT_ROUNDOUTPUTS_H
#define EJK_LOWERING_SELECT_ROUNDOUTPUTS_H

#include "mlir/IR/BuiltinOps.h"

namespace ejk {

/// Lets programs store outputs in 16 bits that are f32 and of which all users take one rounding:
/// the cotangents of reads, which a delta rule's derivative takes in matmuls. A kernel that rounds
/// them would read all and write half again. No number changes. Returns how many outputs are
/// narrower.
unsigned roundOutputs(mlir::ModuleOp module);

} // namespace ejk

#endif // EJK_LOWERING_SELECT_ROUNDOUTPUTS_H
