//===- ProgramFit.h - whether a program fits a thread block -----*- C++ -*-===//
#ifndef EJK_LOWERING_SELECT_PROGRAMFIT_H
#define EJK_LOWERING_SELECT_PROGRAMFIT_H

#include "lowering/select/KnownNeeds.h"
#include "mlir/Pass/PassManager.h"
#include "passes/program/CutFront.h"
#include <functional>

namespace ejk {

/// `program` in several kernels, each of which uses what those before it give, where its slices
/// would each compute what a chunk has of its rows alone (passes/program/CutFront.h). They stand
/// before it, and the last one gives what it does. Empty where that does not pay.
llvm::SmallVector<tile::ProgramOp> cutFronts(tile::ProgramOp program);

/// Asks what programs need of a target.
class ProgramFit {
public:
  /// `runPipeline` runs passes on an op, for the pass that asks.
  using RunPipeline = std::function<llvm::LogicalResult(mlir::OpPassManager &, mlir::Operation *)>;
  ProgramFit(const Target &target, bool roundExponentials, int64_t twoTermStates,
             RunPipeline runPipeline)
      : target(target), roundExponentials(roundExponentials), twoTermStates(twoTermStates),
        runPipeline(std::move(runPipeline)) {}

  /// What `program` needs with so many stages of rows. With `mayLoadLate`, f32 matrices may have no
  /// stage. Fails after an error.
  llvm::FailureOr<KnownNeeds::Need> needOf(tile::ProgramOp program, unsigned stages,
                                           bool mayLoadLate);
  /// Whether `program`, with one stage of rows, fits a thread block. Fails after an error.
  llvm::FailureOr<bool> fitsBlock(tile::ProgramOp program);
  /// What the kernels that `cutFronts` gives need at most, if it gives some and all fit.
  llvm::FailureOr<std::optional<KnownNeeds::Need>> needOfCut(tile::ProgramOp program,
                                                             unsigned stages, bool mayLoadLate);

private:
  const Target &target;
  bool roundExponentials;
  int64_t twoTermStates;
  RunPipeline runPipeline;
  KnownNeeds known;
};

} // namespace ejk

#endif // EJK_LOWERING_SELECT_PROGRAMFIT_H
