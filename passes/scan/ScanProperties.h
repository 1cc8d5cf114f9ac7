//===- ScanProperties.h - what a scan's step has and reads --------*- C++ -*-===//
#ifndef EJK_PASSES_SCAN_SCANPROPERTIES_H
#define EJK_PASSES_SCAN_SCANPROPERTIES_H

#include "dialect/ejk/Ejk.h"

namespace ejk {

/// Whether a step's value is a K×V matrix.
bool isMatrix(mlir::Value value);

/// Whether `value`, in `scan`'s step, is the same at every step of a sequence:
/// computed from parameters, constants and the head alone.
bool isConstantInTime(ScanOp scan, mlir::Value value);

/// The axis that a scan's steps sum its states along in reads and anchors; nothing
/// where they do so along both. Key where there are none.
std::optional<Axis> getReadAxis(ScanOp scan);
/// Whether the step holds `scf.if`, which canonicalisation turns into selects. Passes that
/// rewrite a step leave such a scan alone.
bool hasBranches(ScanOp scan);

/// Whether `op` makes one number of a vector: `ejk.sum` or `ejk.max`.
bool isReduction(mlir::Operation *op);
/// Whether `op` is a reduction of a vector of one channel, and so that channel.
bool isOnlyChannel(mlir::Operation *op);
/// Whether a step can take `reduction` while it reads: one along the axis of the reads,
/// of what does not depend on a state.
bool isReductionAlongReads(ScanOp scan, mlir::Operation *reduction);
/// Whether `value` depends on a state, or on a reduction, that the step's threads have
/// only together.
bool dependsOnThreads(ScanOp scan, mlir::Value value);

/// The classes of decay a step can have, cheapest first.
enum class DecayClass { none, constant, scalar, key, value, both };
llvm::StringRef stringifyDecayClass(DecayClass decayClass);
/// The class of `scan`'s decays as they stand.
DecayClass getDecayClass(ScanOp scan);

} // namespace ejk

#endif // EJK_PASSES_SCAN_SCANPROPERTIES_H
