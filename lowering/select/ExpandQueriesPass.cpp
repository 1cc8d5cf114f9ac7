//===- ExpandQueriesPass.cpp - states of query heads, for kernels that need them ----===//
#include "lowering/Passes.h"
#include "lowering/step/StepPlan.h"
#include "mlir/IR/Diagnostics.h"
#include "passes/scan/ExpandQueries.h"

namespace ejk {
#define GEN_PASS_DEF_EXPANDQUERIES
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

/// Whether the step-by-step kernel of `scan` can compute each query of a group in turn.
static bool stepsTakeQueries(ScanOp scan) {
  ScopedDiagnosticHandler silent(scan.getContext(), [](Diagnostic &) { return success(); });
  for (bool singleStep : {false, true}) {
    FailureOr<StepPlan> plan = StepPlan::make(scan, singleStep);
    if (failed(plan) || plan->wholeState)
      return false;
  }
  return true;
}

namespace {
struct ExpandQueriesPass : ejk::impl::ExpandQueriesBase<ExpandQueriesPass> {
  using ExpandQueriesBase::ExpandQueriesBase;

  void runOnOperation() override {
    for (ScanOp scan : scansWithQueries(getOperation())) {
      if (forSteps && stepsTakeQueries(scan)) {
        ++numKept;
        continue;
      }
      if (forSteps)
        scan.emitRemark("keeps a state for each query head while it runs: a kernel computes the "
                        "queries of a group in turn only where a step's reads and sums are along "
                        "one axis of the state");
      expandQueries(scan);
      ++numExpanded;
    }
  }
};
} // namespace
