//===- PruneAlternatives.cpp - alternatives that schedules left as they were ----===//
#include "dialect/ejk/AlternativeAttributes.h"
#include "dialect/ejk/Ejk.h"
#include "dialect/tile/Tile.h"
#include "lowering/select/Alternatives.h"
#include "lowering/select/Conditions.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/scan/ExpandQueries.h"

using namespace mlir;
using namespace ejk;

/// The condition that holds where `when`, that a size is at least a number, does not; null for
/// others.
static ArrayAttr negated(ArrayAttr when) {
  if (!when || when.size() != 3 || when[0] != StringAttr::get(when.getContext(), ">="))
    return {};
  Builder b(when.getContext());
  return condition(b, "<", when[1], when[2]);
}

/// Whether `function` was to choose by gates, and has no programs to choose from.
static bool choosesNothing(func::FuncOp function) {
  auto programs = function.getBody().getOps<tile::ProgramOp>();
  return scheduleOf(function) == kByGatesSchedule &&
         llvm::all_of(programs, [](tile::ProgramOp program) { return program.getInto().empty(); });
}

static bool hasPrograms(func::FuncOp function) {
  return function.walk([](tile::ProgramOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

void ejk::pruneAlternatives(ModuleOp module) {
  auto isEmpty = [](func::FuncOp function) {
    StringRef schedule = scheduleOf(function);
    return choosesNothing(function) ||
           (!schedule.empty() && schedule != kStepSchedule && !hasPrograms(function));
  };
  for (auto function :
       llvm::to_vector(llvm::make_filter_range(module.getOps<func::FuncOp>(), isEmpty))) {
    if (function->hasAttr(kAlternativeOfAttr)) {
      function.erase();
      continue;
    }
    // By steps after all; a copy that was to be so is one too many, unless it has queries, which
    // it computes in turn: the function itself, over query heads, is better for many rows. The
    // copy's body is as it was before it was cut, or made of segments, for chunks.
    StringRef entry = function.getName();
    for (auto other : llvm::to_vector(module.getOps<func::FuncOp>())) {
      if (other == function || entryOf(other) != entry || scheduleOf(other) != kStepSchedule)
        continue;
      if (scansWithQueries(other).empty()) {
        function.getBody().takeBody(other.getBody());
        other.erase();
        continue;
      }
      if (ArrayAttr few = negated(function->getAttrOfType<ArrayAttr>(kWhenAttr))) {
        other->setAttr(kWhenAttr, few);
        other->moveBefore(function);
        continue;
      }
      function.getBody().takeBody(other.getBody());
      other.erase();
    }
    function->setAttr(kScheduleAttr, StringAttr::get(module.getContext(), kStepSchedule));
    function->removeAttr(kWhenAttr);
  }
}
