//===- CpuScanRows.cpp - a step on a column block -------------------------===//
#include "lowering/cpu/CpuScanEmitter.h"
#include "lowering/kernels/StepElements.h"
#include "mlir/IR/IRMapping.h"
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
    result =
        b.fma(splat(factor), prepared.lookup(byKey ? outer.getValue() : outer.getKey()), state);
  } else if (matchPattern(matrix, m_Constant(&constant))) {
    Attribute element = cast<DenseElementsAttr>(constant).getSplatValue<Attribute>();
    result = splat(b.make<arith::ConstantOp>(cast<TypedAttr>(element)));
  } else if (isa<vector::BroadcastOp>(op)) {
    result = splat(prepared.lookup(op->getOperand(0)));
  } else {
    IRMapping operands;
    for (Value operand : op->getOperands())
      operands.map(operand, isMatrix(operand) ? rowOf(operand) : prepared.lookup(operand));
    result = cloneStepOp(b, op, operands, CpuBuilder::withCount(matrix.getType(), plan.width));
  }
  return rows.known[matrix] = result;
}

//===----------------------------------------------------------------------===//
// Saved states
//===----------------------------------------------------------------------===//

/// Sums a saved state only where the walk enters its chunk.
void CpuScanEmitter::runCheckpoint(CheckpointOp op, const Block &block, Scope &step,
                                   Scope &columns) {
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
  bool isByRow = plan.savedByRow[number];
  if (!isByRow)
    copyMatrix(memory, element, turnedTile, block, /*toMemory=*/false);
  SmallVector<Value> sums = sumOverRows(1, [&](Value row, ValueRange partial) {
    Scope rows(&step);
    Value saved;
    if (isByRow)
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
  checkpointSums[op] = branch.getResult(0);
}

/// Puts row `row` of a matrix that is saved at `place` there, or on its way there.
void CpuScanEmitter::storeSavedRow(const SavePlace &place, Value row, const Block &block,
                                   Value state) {
  if (!place.byRow)
    return b.storeLanes(state, floatAt(turnedTile, b.mul(row, plan.width)));
  Value offset = b.add(b.mul(row, steps.columns), block.position);
  b.onlyIf(place.exists, [&] {
    b.storeLanes(b.roundTo(place.element, state), b.at(place.memory, place.element, offset),
                 block.mask);
  });
}

/// What is left to do when all rows are stored.
void CpuScanEmitter::finishSave(const SavePlace &place, const Block &block) {
  if (place.byRow)
    return;
  b.onlyIf(place.exists, [&] {
    copyMatrix(place.memory, place.element, turnedTile, block, /*toMemory=*/true,
               place.valueMajor);
  });
}

void CpuScanEmitter::storeSave(unsigned i, const Block &block, Scope &step, Scope &columns) {
  Value value = scan.getYield().getSaves()[i];
  Channels at{Layout::column, block.position, plan.width, block.mask};
  Scope prepared;
  prepareMatrix(value, at, columns, prepared);
  b.onlyIf(leavesChunk(currentRow), [&] {
    SavePlace place = placeOfSave(i, currentRow);
    sumOverRows(0, [&](Value row, ValueRange) {
      Scope rows(&step);
      storeSavedRow(place, row, block, matrixRow(value, row, block, prepared, rows));
      return SmallVector<Value>();
    });
    finishSave(place, block);
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
    auto checkpoint = dyn_cast<CheckpointOp>(op);
    if (checkpoint && plan.levelOf(checkpoint.getState()) == level)
      runCheckpoint(checkpoint, block, step, columns);
    auto read = dyn_cast<ReadOp>(op);
    if (read && !plan.aside.contains(read.getResult()) &&
        plan.levelOf(read.getResult()) == level + 1)
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
  SmallVector<SideRead> sideReads;
  for (auto &[op, side] : sides) {
    auto read = cast<ReadOp>(op);
    prepareMatrix(read.getState(), at, columns, prepared);
    sideReads.push_back({read, 0, sideVector(read, at, columns)});
  }
  SmallVector<Value> sums = sumOverRows(reads.size(), [&](Value row, ValueRange partial) {
    Scope rows(&step);
    SmallVector<Value> next;
    for (auto [read, sum] : llvm::zip(reads, partial)) {
      Value state = matrixRow(read.getState(), row, block, prepared, rows);
      Value factor = rowOperand(read.getVector(), row, false, rows);
      next.push_back(b.fma(state, b.splat(factor, plan.width), sum));
    }
    for (SideRead read : sideReads) {
      Value state = matrixRow(read.op.getState(), row, block, prepared, rows);
      addSideRows(read, row, inChunk, {{sideProducts(state, read.vector, block.mask)}});
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

static bool isCarried(const CpuScanPlan &plan, Value arg) {
  return plan.late.contains(arg) && !isMatrix(arg);
}

/// The vectors along the columns, and late numbers, that the block carries from step to step.
SmallVector<Value> CpuScanEmitter::loadCarried(const Block &block) {
  SmallVector<Value> carried;
  for (auto [tile, arg] : llvm::zip(tiles, scan.getStateArgs()))
    if (isCarried(plan, arg))
      carried.push_back(
          hasChannels(arg)
              ? b.loadLanes(CpuBuilder::withCount(b.getF32Type(), plan.width),
                            floatAt(tile, b.mul(block.index, plan.width)))
              : b.loadLanes(b.getF32Type(), tile));
  return carried;
}

void CpuScanEmitter::storeCarried(const Block &block, ValueRange carried) {
  auto next = carried.begin();
  for (auto [tile, arg] : llvm::zip(tiles, scan.getStateArgs()))
    if (isCarried(plan, arg))
      b.storeLanes(*next++,
                   hasChannels(arg) ? floatAt(tile, b.mul(block.index, plan.width)) : tile);
}

SmallVector<Value> CpuScanEmitter::finishStep(const Block &block, Scope &columns,
                                              ValueRange carried, Value isLeader) {
  Channels at{Layout::column, block.position, plan.width, block.mask};
  auto now = carried.begin();
  for (Value arg : scan.getStateArgs())
    if (isCarried(plan, arg))
      columns.known[arg] = *now++;
  YieldOp yield = scan.getYield();
  for (auto [i, value] : llvm::enumerate(yield.getOutputs()))
    if (!plan.aside.contains(value) &&
        (plan.late.contains(value) || outputLayout(value) == Layout::column))
      storeOutput(i, evaluate(value, at, columns), at, isLeader);
  SmallVector<Value> next;
  for (auto [arg, value] : llvm::zip(scan.getStateArgs(), yield.getStates()))
    if (isCarried(plan, arg))
      next.push_back(evaluate(value, at, columns));
  return next;
}

void CpuScanEmitter::runStep(const Block &block, Value isLeader) {
  Scope step;
  Scope columns(&step);
  SmallVector<Value> carried = loadCarried(block);
  auto now = carried.begin();
  for (Value arg : scan.getStateArgs())
    if (isCarried(plan, arg))
      columns.known[arg] = *now++;
  for (unsigned level = 0; level <= plan.lastLevel; ++level)
    runLevel(level, block, step, columns);
  storeCarried(block, finishStep(block, columns, carried, isLeader));
}
