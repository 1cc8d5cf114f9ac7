//===- EjkQueries.cpp - values of a step that differ between query heads --===//
#include "dialect/ejk/EjkStep.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace ejk;

llvm::DenseSet<Value> ScanOp::findQueryValues() {
  llvm::DenseSet<Value> found;
  if (getQueries().empty())
    return found;
  found.insert_range(getQueryArgs());
  for (Operation &op : getStep().without_terminator()) {
    bool differs = false;
    op.walk([&](Operation *inner) {
      differs |= isa<HeadIndexOp, NumHeadsOp>(inner) ||
                 llvm::any_of(inner->getOperands(), [&](Value v) { return found.contains(v); });
    });
    if (differs)
      found.insert_range(op.getResults());
  }
  return found;
}

/// Says why a value of a query head cannot stand there.
static void noteSource(InFlightDiagnostic &error, ScanOp scan) {
  error.attachNote(scan.getLoc()) << "the query heads of a group share the scan's states; without "
                                     "'queries', each has states of its own";
}

LogicalResult ejk::verifyQueryValues(ScanOp scan) {
  llvm::DenseSet<Value> queryValues = scan.findQueryValues();
  if (!scan.getSavedStates().empty())
    return scan.emitOpError("reads saved states beside 'queries' (C12)");
  for (Operation &op : scan.getStep().without_terminator())
    for (Value result : op.getResults()) {
      auto vector = dyn_cast<VectorType>(result.getType());
      if (!vector || vector.getRank() != 2 || !queryValues.contains(result))
        continue;
      InFlightDiagnostic error =
          op.emitOpError("gives a K×V value that depends on a query or on its head (C13)");
      noteSource(error, scan);
      return error;
    }
  YieldOp yield = scan.getYield();
  for (auto [i, value] : llvm::enumerate(yield.getStates()))
    if (queryValues.contains(value)) {
      InFlightDiagnostic error = yield.emitOpError()
                                 << "state " << i << " depends on a query or on its head (C13)";
      noteSource(error, scan);
      return error;
    }
  auto headsOf = [](Value rows) { return cast<RankedTensorType>(rows.getType()).getDimSize(2); };
  for (auto [i, output, value] : llvm::enumerate(scan.getOutputs(), yield.getOutputs())) {
    bool ofQuery = queryValues.contains(value);
    int64_t found = headsOf(output),
            wanted = headsOf(ofQuery ? scan.getQueries().front() : scan.getSequences().front());
    if (!ShapedType::isDynamic(found) && !ShapedType::isDynamic(wanted) && found != wanted)
      return scan.emitOpError() << "output " << i << " must have " << wanted << " heads, as "
                                << (ofQuery ? "the queries have" : "sequence 0 has")
                                << " (C7), but has " << found;
  }
  return success();
}
