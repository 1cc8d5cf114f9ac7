//===- Passes.h - passes on the recurrence itself -----------------*- C++ -*-===//
#ifndef EJK_PASSES_PASSES_H
#define EJK_PASSES_PASSES_H

#include "dialect/ejk/Attributes.h"
#include "dialect/ejk/Ejk.h"
#include "mlir/Pass/Pass.h"
#include "passes/autodiff/DeriveScan.h"

namespace ejk {
#define GEN_PASS_DECL
#include "passes/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

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

/// Adds the specialisation passes in order; registered as --ejk-specialize.
void buildSpecializePipeline(mlir::OpPassManager &pm);

/// What of a function's derivative is wanted; empty lists stand for everything.
struct BackwardOptions {
  std::string function;
  std::vector<std::string> wrt, cotangents;
  SavePolicy policy;
};
/// Adds the passes that turn a user's module into one that also holds its
/// functions' derivatives, as specialised scans; registered as --ejk-backward.
void buildBackwardPipeline(mlir::OpPassManager &pm, const BackwardOptions &options = {});
/// Adds the passes that turn specialised scans into block programs where they
/// have a chunkwise form; registered as --ejk-to-tile.
void buildTilePipeline(mlir::OpPassManager &pm);
void registerPipelines();
} // namespace ejk

#endif // EJK_PASSES_PASSES_H
