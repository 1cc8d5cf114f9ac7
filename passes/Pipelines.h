//===- Pipelines.h - named pipelines over the recurrence ----------*- C++ -*-===//
#ifndef EJK_PASSES_PIPELINES_H
#define EJK_PASSES_PIPELINES_H

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "passes/SavePolicy.h"
#include <string>
#include <vector>

namespace ejk {

/// Adds the specialisation passes in order; registered as --ejk-specialize.
void buildSpecializePipeline(mlir::OpPassManager &pm);

/// The requested parts of a function's derivative; empty lists stand for everything.
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

/// Of a pipeline that has none: MLIR refuses options of one without this, and does not say why.
struct NoFlags : mlir::PassPipelineOptions<NoFlags> {};

} // namespace ejk

#endif // EJK_PASSES_PIPELINES_H
