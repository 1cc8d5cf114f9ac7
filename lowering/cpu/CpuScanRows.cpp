//===- CpuScanRows.cpp - a step on a column block -------------------------===//
#include "lowering/cpu/CpuScanEmitter.h"
#include "mlir/IR/Matchers.h"
#include "passes/scan/ScanProperties.h"

using namespace mlir;
using namespace ejk;

//===----------------------------------------------------------------------===//
// Passes over the rows
//===----------------------------------------------------------------------===//

SmallVector<Value> CpuScanEmitter::sumOverRows(unsigned numSums, RowBody body) {
  unsigned unroll = plan.unroll;
  int64_t whole = steps.rows / unroll * unroll;
  SmallVector<Value> zeros(numSums * unroll, b.number(0, plan.width));
  SmallVector<Value> sums =
      b.loop(b.i64(0), b.i64(whole), unroll, zeros, [&](Value row, ValueRange partial) {
        SmallVector<Value> next;
        for (unsigned u = 0; u < unroll; ++u)
          next.append(body(b.add(row, u), partial.slice(u * numSums, numSums)));
        return next;
      });
  SmallVector<Value> first(sums.begin(), sums.begin() + numSums);
  if (whole != steps.rows)
    first = b.loop(b.i64(whole), b.i64(steps.rows), 1, first, body);
  llvm::copy(first, sums.begin());
  for (unsigned distance = 1; distance < unroll; distance *= 2)
    for (unsigned u = 0; u + distance < unroll; u += 2 * distance)
      for (unsigned i = 0; i < numSums; ++i)
        sums[u * numSums + i] =
            b.addF(sums[u * numSums + i], sums[(u + distance) * numSums + i]);
  sums.resize(numSums);
  return sums;
}

Value CpuScanEmitter::rowOperand(Value value, Value row, bool isExponential, Scope &rows) {
  Channels at{Layout::row, row, 1, {}};
  Scope here(&rows);
  return isExponential ? exponential(value, at, here) : evaluateWide(value, at, here);
}

void CpuScanEmitter::prepareMatrix(Value matrix, const Channels &at, Scope &columns,
                                   Scope &prepared) {
  Operation *op = matrix.getDefiningOp();
  if (!op || prepared.lookup(matrix))
    return;
  auto column = [&](Value vector) {
    prepared.known[vector] = b.splat(evaluateWide(vector, at, columns), at.width);
  };
  if (auto decay = dyn_cast<DecayOp>(op)) {
    Layout layout = steps.layoutOf(decay.getAxis());
    if (layout != Layout::row) // rows' gates are loaded row by row
      prepared.known[decay.getResult()] =
          b.splat(exponential(decay.getGate(), layout == Layout::column ? at : Channels{}, columns),
                  at.width);
    return prepareMatrix(decay.getState(), at, columns, prepared);
  }
  if (auto outer = dyn_cast<OuterAddOp>(op)) {
    column(steps.rowAxis == Axis::key ? outer.getValue() : outer.getKey());
    return prepareMatrix(outer.getState(), at, columns, prepared);
  }
  for (Value operand : op->getOperands()) {
    if (isMatrix(operand))
      prepareMatrix(operand, at, columns, prepared);
    else // a number that is spread over the matrix
      prepared.known[operand] = evaluate(operand, {}, columns);
  }
}

Value CpuScanEmitter::matrixRow(Value matrix, Value row, const Block &block, Scope &prepared,
                                Scope &rows) {
  if (Value known = rows.lookup(matrix))
    return known;
  auto splat = [&](Value number) { return b.splat(number, plan.width); };
  auto rowOf = [&](Value m) { return matrixRow(m, row, block, prepared, rows); };
  Operation *op = matrix.getDefiningOp();
  Value result;
  Attribute constant;
  if (!op) {
    unsigned number = cast<BlockArgument>(matrix).getArgNumber() - scan.getFirstStateArg();
    result = b.loadLanes(CpuBuilder::withCount(b.getF32Type(), plan.width),
                         tileRow(tiles[number], block, row));
  } else if (auto decay = dyn_cast<DecayOp>(op)) {
    Value state = rowOf(decay.getState());
    Value factor = steps.layoutOf(decay.getAxis()) == Layout::row
                       ? splat(rowOperand(decay.getGate(), row, /*isExponential=*/true, rows))
                       : prepared.lookup(matrix);
    result = b.mulF(state, factor);
  } else if (auto outer = dyn_cast<OuterAddOp>(op)) {
    bool byKey = steps.rowAxis == Axis::key;
    Value state = rowOf(outer.getState());
    Value factor = rowOperand(byKey ? outer.getKey() : outer.getValue(), row, false, rows);
    result = b.fma(splat(factor), prepared.lookup(byKey ? outer.getValue() : outer.getKey()), state);
  } else if (matchPattern(matrix, m_Constant(&constant))) {
    Attribute element = cast<DenseElementsAttr>(constant).getSplatValue<Attribute>();
    result = splat(b.make<arith::ConstantOp>(cast<TypedAttr>(element)));
  } else if (isa<vector::BroadcastOp>(op)) {
    result = splat(prepared.lookup(op->getOperand(0)));
  } else {
    IRMapping operands;
    for (Value operand : op->getOperands())
      operands.map(operand, isMatrix(operand) ? rowOf(operand) : prepared.lookup(operand));
    Operation *clone = b.clone(*op, operands);
    clone->getResult(0).setType(CpuBuilder::withCount(matrix.getType(), plan.width));
    result = clone->getResult(0);
  }
  return rows.known[matrix] = result;
}

//===----------------------------------------------------------------------===//
// Saved states
//===----------------------------------------------------------------------===//

/// Sums a saved state only where the walk enters its chunk.
void CpuScanEmitter::runAnchor(AnchorOp op, const Block &block, Scope &step, Scope &columns) {
  Channels at{Layout::column, block.position, plan.width, block.mask};
  Scope prepared;
  prepareMatrix(op.getState(), at, columns, prepared);
  Type type = CpuBuilder::withCount(b.getF32Type(), plan.width);
  auto branch = b.make<scf::IfOp>(type, entersChunk(currentRow), /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&branch.getThenRegion().front());
  unsigned number = cast<BlockArgument>(op.getSaved()).getArgNumber() -
                    cast<BlockArgument>(scan.getSavedArgs().front()).getArgNumber();
  Type element = getElementTypeOrSelf(op.getSaved().getType());
  Value memory = b.at(savedPointers[number], element,
                      b.mul(savedIndex(currentRow), matrixElements()));
  if (!plan.liesAsInMemory())
    copyMatrix(memory, element, turnedTile, block, /*toMemory=*/false);
  SmallVector<Value> sums = sumOverRows(1, [&](Value row, ValueRange partial) {
    Scope rows(&step);
    Value saved;
    if (plan.liesAsInMemory())
      saved = b.widen(b.loadLanes(
          CpuBuilder::withCount(element, plan.width),
          b.at(memory, element, b.add(b.mul(row, steps.columns), block.position)), block.mask));
    else
      saved = b.loadLanes(CpuBuilder::withCount(b.getF32Type(), plan.width),
                          floatAt(turnedTile, b.mul(row, plan.width)));
    Value state = matrixRow(op.getState(), row, block, prepared, rows);
    return SmallVector<Value>{b.fma(state, saved, partial[0])};
  });
  b.make<scf::YieldOp>(sums);
  b.setInsertionPointToStart(&branch.getElseRegion().front());
  b.make<scf::YieldOp>(b.zero(type));
  anchorSums[op] = branch.getResult(0);
}

void CpuScanEmitter::storeSave(unsigned i, const Block &block, Scope &step, Scope &columns) {
  Value value = scan.getYield().getSaves()[i];
  Channels at{Layout::column, block.position, plan.width, block.mask};
  Scope prepared;
  prepareMatrix(value, at, columns, prepared);
  b.onlyIf(leavesChunk(currentRow), [&] {
    Type element = cast<RankedTensorType>(scan.getSaves()[i].getType()).getElementType();
    Value memory =
        b.at(savePointers[i], element, b.mul(savedIndex(currentRow), matrixElements()));
    sumOverRows(0, [&](Value row, ValueRange) {
      Scope rows(&step);
      Value state = matrixRow(value, row, block, prepared, rows);
      if (plan.liesAsInMemory())
        b.storeLanes(b.roundTo(element, state),
                     b.at(memory, element, b.add(b.mul(row, steps.columns), block.position)),
                     block.mask);
      else
        b.storeLanes(state, floatAt(turnedTile, b.mul(row, plan.width)));
      return SmallVector<Value>();
    });
    if (!plan.liesAsInMemory())
      copyMatrix(memory, element, turnedTile, block, /*toMemory=*/true);
  });
}

//===----------------------------------------------------------------------===//
// A step
//===----------------------------------------------------------------------===//

/// All reads and matrices of a level, in one pass over the rows; at the last level also the
/// new states, which replace the old ones row by row.
void CpuScanEmitter::runLevel(unsigned level, const Block &block, Scope &step, Scope &columns) {
  Channels at{Layout::column, block.position, plan.width, block.mask};
  bool isLast = level == plan.lastLevel;
  SmallVector<ReadOp> reads;
  for (Operation &op : scan.getStep().without_terminator()) {
    auto anchor = dyn_cast<AnchorOp>(op);
    if (anchor && plan.levelOf(anchor.getState()) == level)
      runAnchor(anchor, block, step, columns);
    auto read = dyn_cast<ReadOp>(op);
    if (read && plan.levelOf(read.getResult()) == level + 1)
      reads.push_back(read);
  }
  SmallVector<std::pair<unsigned, Value>> updates;
  if (isLast) {
    for (unsigned i = 0, e = scan.getSaves().size(); i < e; ++i)
      storeSave(i, block, step, columns);
    for (auto [i, value] : llvm::enumerate(scan.getYield().getStates()))
      if (isMatrix(value) && value != scan.getStateArgs()[i])
        updates.push_back({i, value});
  }
  if (reads.empty() && updates.empty())
    return;
  Scope prepared;
  for (ReadOp read : reads)
    prepareMatrix(read.getState(), at, columns, prepared);
  for (auto [i, value] : updates)
    prepareMatrix(value, at, columns, prepared);
  SmallVector<Value> sums = sumOverRows(reads.size(), [&](Value row, ValueRange partial) {
    Scope rows(&step);
    SmallVector<Value> next;
    for (auto [read, sum] : llvm::zip(reads, partial)) {
      Value state = matrixRow(read.getState(), row, block, prepared, rows);
      Value factor = rowOperand(read.getVector(), row, false, rows);
      next.push_back(b.fma(state, b.splat(factor, plan.width), sum));
    }
    SmallVector<Value> states;
    for (auto [i, value] : updates)
      states.push_back(matrixRow(value, row, block, prepared, rows));
    for (auto [update, state] : llvm::zip(updates, states))
      b.storeLanes(state, tileRow(tiles[update.first], block, row));
    return next;
  });
  for (auto [read, sum] : llvm::zip(reads, sums))
    columns.known[read.getResult()] = sum;
}

void CpuScanEmitter::runStep(const Block &block, Value isLeader) {
  Scope step;
  Scope columns(&step);
  Channels at{Layout::column, block.position, plan.width, block.mask};
  auto place = [&](unsigned i) {
    return hasChannels(scan.getStateArgs()[i])
               ? floatAt(tiles[i], b.mul(block.index, plan.width))
               : tiles[i];
  };
  auto isCarried = [&](Value arg) { return plan.late.contains(arg) && !isMatrix(arg); };
  for (auto [i, arg] : llvm::enumerate(scan.getStateArgs()))
    if (isCarried(arg))
      columns.known[arg] = b.loadLanes(
          CpuBuilder::withCount(b.getF32Type(), hasChannels(arg) ? plan.width : 1), place(i));
  for (unsigned level = 0; level <= plan.lastLevel; ++level)
    runLevel(level, block, step, columns);

  YieldOp yield = scan.getYield();
  for (auto [i, value] : llvm::enumerate(yield.getOutputs()))
    if (plan.late.contains(value) || outputLayout(value) == Layout::column)
      storeOutput(i, evaluate(value, at, columns), at, isLeader);
  SmallVector<std::pair<unsigned, Value>> next;
  for (auto [i, value] : llvm::enumerate(yield.getStates()))
    if (isCarried(scan.getStateArgs()[i]))
      next.push_back({i, evaluate(value, at, columns)});
  for (auto [i, value] : next)
    b.storeLanes(value, place(i));
}
