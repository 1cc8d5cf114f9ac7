//===- StepQueries.cpp - the queries that share a state -------------------===//
//
//   rows = load(query 0)
//   for each query of the group:
//     next = load(the query after it)
//     compute its crossings from `rows`, and what depends on them and the state; store outputs
//     rows = next
//
//===----------------------------------------------------------------------===//
#include "lowering/step/StepEmitter.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace ejk;

void StepEmitter::forEachQueryPart(const Domain &domain,
                                   llvm::function_ref<void(Value, Value)> visit) {
  if (domain.layout == Layout::scalar)
    return visit(b.i32(0), Value());
  bool isRow = domain.layout == Layout::row;
  unsigned count = isRow ? plan.rowsPerThread : plan.colsPerThread;
  bool padded = isRow ? plan.paddedRows() != plan.rows : columnsPadded;
  for (unsigned i = 0; i < count; i += domain.width) {
    Value channel = isRow ? rowOf(i) : b.add(column, i);
    visit(channel, padded ? b.less(channel, domain.length - (domain.width - 1)) : Value());
  }
}

SmallVector<Value> StepEmitter::loadQueryRows(Value row, Value query) {
  SmallVector<Value> loaded;
  for (const Domain &domain : plan.queryDomains)
    forEachQueryPart(domain, [&](Value channel, Value valid) {
      for (LoadedRow source : domain.rows) {
        const Row &from = sequences[source.sequence];
        Value arg = scan.getStep().getArgument(source.sequence);
        bool vector = hasChannels(arg), ofQuery = plan.queryValues.contains(arg);
        auto type = dyn_cast<VectorType>(arg.getType());
        RowAddress there = findRow(from, row);
        loaded.push_back(
            b.loadIf(b.both(valid, there.exists),
                     KernelBuilder::withCount(from.element, vector ? domain.width : 1), [&] {
                       Value inRow;
                       if (vector)
                         inRow = b.wide(source.rotated ? rotated(domain.layout, channel) : channel);
                       if (ofQuery) {
                         Value own = b.mul(b.wide(query), type ? type.getNumElements() : 1);
                         inRow = inRow ? b.add(own, inRow) : own;
                       }
                       return addressOf(from, there, inRow);
                     }));
      }
    });
  return loaded;
}

void StepEmitter::computeQueryCrossings(ValueRange rows, Value row) {
  auto next = rows.begin();
  for (const Domain &domain : plan.queryDomains) {
    unsigned index = domain.crossings.front();
    Value value = plan.crossings[index].value;
    Tile tile;
    forEachQueryPart(domain, [&](Value channel, Value valid) {
      Place here, otherHalf;
      for (LoadedRow source : domain.rows) {
        Value arg = scan.getStep().getArgument(source.sequence);
        if (!source.rotated)
          here.known.map(arg, *next);
        if (source.rotated || !hasChannels(arg))
          otherHalf.known.map(arg, *next);
        ++next;
      }
      // Channels past the end of a parameter must not be read.
      if (valid)
        channel = b.min(channel, b.i32(domain.length - domain.width));
      here.row = otherHalf.row = row;
      if (domain.layout != Layout::scalar)
        here.position = channel;
      if (domain.rotates)
        otherHalf.position = rotated(domain.layout, channel);
      tile.append(b.unpack(evaluate(value, domain.width, here, &otherHalf)));
    });
    crossingTiles[index] = tile;
  }
}

void StepEmitter::runQueries(Value row) {
  auto outerTiles = tiles;
  auto outerCrossings = crossingTiles;
  Value zero = b.i32(0), last = b.sub(group, 1), memoryRow = row;
  YieldOp yield = scan.getYield();
  b.loop(zero, group, 1, loadQueryRows(memoryRow, zero), [&](Value query, ValueRange rows) {
    SmallVector<Value> next = loadQueryRows(memoryRow, b.min(b.add(query, 1), last));
    queryInGroup = query;
    queryHead = b.add(b.mul(head, group), query);
    computeQueryCrossings(rows, row);
    for (Operation &op : scan.getStep().without_terminator())
      if (plan.queryValues.contains(op.getResult(0)))
        runOp(&op);
    for (auto [i, value] : llvm::enumerate(yield.getOutputs()))
      if (plan.queryValues.contains(value))
        storeOutput(i, value, row);
    // The next query's sums over warps go to the same shared memory.
    if (plan.rowWarps > 1)
      b.make<gpu::BarrierOp>();
    return next;
  });
  queryInGroup = Value();
  queryHead = head;
  tiles = std::move(outerTiles);
  crossingTiles = std::move(outerCrossings);
}
