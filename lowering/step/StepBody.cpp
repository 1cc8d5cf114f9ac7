//===- StepBody.cpp - one step on a thread's part of the state -------------===//
#include "lowering/step/StepEmitter.h"
#include "lowering/kernels/StepElements.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/Passes.h"
#include "passes/scan/ScanProperties.h"
#include "llvm/ADT/SetVector.h"
#include <limits>

using namespace mlir;
using namespace ejk;

unsigned StepEmitter::tileSize(Type type, Layout layout) const {
  auto vector = dyn_cast<VectorType>(type);
  if (!vector)
    return 1;
  if (vector.getRank() == 2)
    return plan.rowsPerThread * plan.colsPerThread;
  return layout == Layout::row ? plan.rowsPerThread : plan.colsPerThread;
}

//===----------------------------------------------------------------------===//
// A value as a tile
//===----------------------------------------------------------------------===//

Tile StepEmitter::exponentialOf(const Tile &tile) {
  return llvm::map_to_vector(tile, [&](Value v) -> Value { return b.make<math::ExpOp>(v); });
}

Tile StepEmitter::tileOf(Value value, Layout layout, bool exponential) {
  auto planned = plan.layouts.find(value);
  if (planned == plan.layouts.end() || planned->second == layout || layout == Layout::scalar)
    return tileAsPlanned(value, layout, exponential);
  // Only blocks with a whole state have vectors that are used along both axes.
  if (!exchanged.contains(value)) {
    Tile tile = exchange(tileAsPlanned(value, planned->second, false), planned->second);
    exchanged[value] = tile;
  }
  Tile tile = exchanged[value];
  return exponential ? exponentialOf(tile) : tile;
}

Tile StepEmitter::tileAsPlanned(Value value, Layout layout, bool exponential) {
  if (auto it = tiles.find(value); it != tiles.end())
    return exponential ? exponentialOf(it->second) : it->second;
  unsigned size = tileSize(value.getType(), layout);
  DenseElementsAttr constant;
  if (matchPattern(value, m_Constant(&constant))) {
    Tile tile(size,
              b.make<arith::ConstantOp>(cast<TypedAttr>(constant.getSplatValue<Attribute>())));
    return exponential ? exponentialOf(tile) : tile;
  }
  if (auto broadcast = value.getDefiningOp<vector::BroadcastOp>();
      broadcast && !isa<VectorType>(broadcast.getSource().getType()))
    return Tile(size, tileOf(broadcast.getSource(), Layout::scalar, exponential).front());
  if (Value invariant = invariants.lookupOrNull(value))
    return {exponential ? invariantExponentials.lookup(value) : invariant};
  if (!isa<VectorType>(value.getType()))
    layout = Layout::scalar;
  std::optional<unsigned> crossing = plan.find(value, layout, exponential);
  if (!crossing)
    return elementwise(value.getDefiningOp(), layout);
  unsigned index = *crossing;
  // Those of queries are all computed where their loop begins.
  auto [it, isNew] = crossingTiles.try_emplace(index);
  if (isNew)
    it->second = loadCrossing(index);
  return it->second;
}

/// Loads this thread's part of a crossing from its stage.
Tile StepEmitter::loadCrossing(unsigned index) {
  const Crossing &crossing = plan.crossings[index];
  Value rowStart = b.add(b.mul(stepInChunk, plan.lengthOf(crossing.layout)), crossing.offset);
  unsigned count = 1, parts = 1;
  Value position = b.i32(0);
  if (crossing.layout == Layout::row) {
    count = plan.rowGroup;
    parts = plan.rowsPerThread / count;
    position = b.mul(rowSlot, count);
  } else if (crossing.layout == Layout::column) {
    count = plan.colsPerThread;
    position = localColumn;
  }
  Tile tile;
  for (unsigned part = 0; part < parts; ++part) {
    Value offset = b.add(b.add(rowStart, position), part * count * plan.rowSlots());
    Value loaded = b.load(KernelBuilder::withCount(b.getF32Type(), count),
                          b.at(stageAddress, b.getF32Type(), offset));
    tile.append(b.unpack(loaded));
  }
  // Narrow values are stored as f32, which represents them exactly.
  Type element = getElementTypeOrSelf(crossing.value.getType());
  if (element != b.getF32Type())
    for (Value &v : tile)
      v = b.make<arith::TruncFOp>(element, v);
  return tile;
}

/// Sets elements past the state's rows in `tile` to `number`. The tile has `perRow` elements for
/// each row.
void StepEmitter::clearPaddedRows(Tile &tile, unsigned perRow, double number) {
  for (unsigned i = 0; i < plan.rowsPerThread; ++i) {
    unsigned group = plan.rowGroup,
             last = i / group * group * plan.rowSlots() + i % group + (plan.rowSlots() - 1) * group;
    if (last < plan.rows)
      continue; // a row of the state in every thread
    Value valid = b.less(rowOf(i), plan.rows);
    for (unsigned j = 0; j < perRow; ++j) {
      Value &element = tile[i * perRow + j];
      Value padding =
          number ? b.make<arith::ConstantOp>(b.getFloatAttr(element.getType(), number)).getResult()
                 : b.zero(element.getType());
      element = b.make<arith::SelectOp>(valid, element, padding);
    }
  }
}

/// A vector along the rows, with zeros past the end, so that sums over rows need no bounds. The
/// padding of crossings is cleared in shared memory.
Tile StepEmitter::rowTileOf(Value value) {
  Tile tile = tileOf(value, Layout::row);
  std::optional<unsigned> crossing = plan.find(value, Layout::row, /*exponential=*/false);
  if (!crossing || plan.crossings[*crossing].ofQuery)
    clearPaddedRows(tile, 1);
  return tile;
}

/// A vector along the columns of a whole state, with `padding` past the last, so that sums over
/// columns need no bounds.
Tile StepEmitter::columnTileOf(Value value, double padding) {
  Tile tile = tileOf(value, Layout::column);
  if (plan.wholeState && columnsPadded)
    for (auto [j, element] : llvm::enumerate(tile)) {
      Value other = b.make<arith::ConstantOp>(b.getFloatAttr(element.getType(), padding));
      element = b.make<arith::SelectOp>(b.less(b.add(column, j), plan.columns), element, other);
    }
  return tile;
}

//===----------------------------------------------------------------------===//
// Step ops
//===----------------------------------------------------------------------===//

void StepEmitter::runDecay(DecayOp op) {
  Layout layout = plan.layoutOf(op.getAxis());
  Tile state = tileOf(op.getState(), layout), gate = tileOf(op.getGate(), layout, true);
  Tile &result = tiles[op.getResult()];
  unsigned cols = plan.colsPerThread;
  for (unsigned i = 0; i < plan.rowsPerThread; ++i)
    for (unsigned j = 0; j < cols; ++j) {
      Value factor = gate[layout == Layout::scalar ? 0 : layout == Layout::row ? i : j];
      result.push_back(b.make<arith::MulFOp>(state[i * cols + j], factor));
    }
}

void StepEmitter::runOuterAdd(OuterAddOp op) {
  Tile state = tileOf(op.getState(), Layout::row);
  bool byKey = plan.rowAxis == Axis::key;
  Tile rows = rowTileOf(byKey ? op.getKey() : op.getValue());
  Tile columns = columnTileOf(byKey ? op.getValue() : op.getKey());
  Tile &result = tiles[op.getResult()];
  for (unsigned i = 0; i < plan.rowsPerThread; ++i)
    for (unsigned j = 0; j < plan.colsPerThread; ++j)
      result.push_back(b.make<math::FmaOp>(rows[i], columns[j], state[i * plan.colsPerThread + j]));
}

void StepEmitter::runRead(ReadOp op) {
  Tile state = tileOf(op.getState(), Layout::row), result;
  unsigned cols = plan.colsPerThread;
  if (op.getAxis() != plan.rowAxis) {
    Tile vector = columnTileOf(op.getVector());
    for (unsigned i = 0; i < plan.rowsPerThread; ++i) {
      Value sum = b.make<arith::MulFOp>(state[i * cols], vector[0]);
      for (unsigned j = 1; j < cols; ++j)
        sum = b.make<math::FmaOp>(state[i * cols + j], vector[j], sum);
      result.push_back(sum);
    }
    combineColumns(result, [&](Value a, Value c) { return sumOf(a, c); });
    tiles[op.getResult()] = result;
    return;
  }
  Tile vector = rowTileOf(op.getVector());
  for (unsigned j = 0; j < cols; ++j) {
    SmallVector<Value> chains(plan.rowChains);
    for (unsigned i = 0; i < plan.rowsPerThread; ++i) {
      Value element = state[i * cols + j], &sum = chains[plan.chainOf(i)];
      sum = sum ? b.make<math::FmaOp>(element, vector[i], sum).getResult()
                : b.make<arith::MulFOp>(element, vector[i]).getResult();
    }
    result.push_back(combineChains(chains, [&](Value a, Value c) { return sumOf(a, c); }));
  }
  sumOverLanes(result);
  tiles[op.getResult()] = result;
}

/// Combines what a thread computed of the rows of several lanes in the order of those lanes'
/// butterfly.
Value StepEmitter::combineChains(SmallVectorImpl<Value> &chains, Combine combine) {
  for (unsigned distance = chains.size() / 2; distance; distance /= 2)
    for (unsigned i = 0; i < distance; ++i)
      chains[i] = combine(chains[i], chains[i + distance]);
  return chains.front();
}

/// Combines the values of the lanes and warps that share columns.
void StepEmitter::combineLanes(Tile &partial, Combine combine) {
  // A butterfly leaves the same bits in every lane. Lanes that lie far apart are first: those whose
  // rows one thread has in large tiles.
  for (unsigned distance = plan.rowLanes / 2; distance; distance /= 2)
    for (Value &sum : partial) {
      auto shuffle =
          b.make<gpu::ShuffleOp>(sum, b.i32(distance), b.i32(kWarpSize), gpu::ShuffleMode::XOR);
      sum = combine(sum, shuffle.getShuffleResult());
    }
  if (plan.rowWarps > 1)
    combineWarps(partial, combine);
}

void StepEmitter::runReduction(Operation *op) {
  if (isOnlyChannel(op)) {
    Value vector = op->getOperand(0);
    tiles[op->getResult(0)] = {
        tileOf(vector, plan.layouts.lookup_or(vector, Layout::column)).front()};
    return;
  }
  Value operand = op->getOperand(0);
  bool alongColumns = plan.wholeState && plan.layoutOfSummed(operand) == Layout::column;
  double lowest = -std::numeric_limits<double>::infinity();
  Tile vector = alongColumns ? columnTileOf(operand, isa<MaxOp>(op) ? lowest : 0.0)
                             : rowTileOf(operand);
  auto combine = [&](Value a, Value c) -> Value {
    return isa<MaxOp>(op) ? b.make<arith::MaximumFOp>(a, c).getResult() : sumOf(a, c);
  };
  if (isa<MaxOp>(op) && !alongColumns)
    clearPaddedRows(vector, 1, lowest);
  SmallVector<Value> chains(alongColumns ? 1 : plan.rowChains);
  for (auto [i, element] : llvm::enumerate(vector)) {
    Value &result = chains[alongColumns ? 0 : plan.chainOf(i)];
    result = result ? combine(result, element) : element;
  }
  Tile all = {combineChains(chains, combine)};
  if (alongColumns)
    combineColumns(all, combine);
  else
    combineLanes(all, combine);
  tiles[op->getResult(0)] = all;
}

/// The saved state is loaded only for the first step of its chunk, which is uniform over the block.
void StepEmitter::runCheckpoint(CheckpointOp op) {
  bool overRows = op.getAxis() == plan.rowAxis, overAll = op.getAxis() == Axis::head;
  Layout layout = overAll ? Layout::scalar : overRows ? Layout::column : Layout::row;
  Tile otherwise = tileOf(op.getVector(), layout);
  Tile state = tileOf(op.getState(), Layout::row);
  unsigned cols = plan.colsPerThread;
  SmallVector<Type> types(otherwise.size(), b.getF32Type());
  auto branch = b.make<scf::IfOp>(types, entersChunk(currentRow), /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&branch.getThenRegion().front());
    unsigned number = cast<BlockArgument>(op.getSaved()).getArgNumber() -
                      cast<BlockArgument>(scan.getSavedArgs().front()).getArgNumber();
    Tile sums(otherwise.size(), b.f32(0.0));
    forEachSaved(number, currentRow, [&](unsigned slot, Value saved) {
      Value &sum = sums[overAll ? 0 : overRows ? slot % cols : slot / cols];
      sum = b.make<math::FmaOp>(state[slot], saved, sum);
    });
    if (overRows || overAll)
      sumOverLanes(sums);
    if (!overRows)
      combineColumns(sums, [&](Value a, Value c) { return sumOf(a, c); });
    b.make<scf::YieldOp>(sums);
    b.setInsertionPointToStart(&branch.getElseRegion().front());
    b.make<scf::YieldOp>(otherwise);
  }
  tiles[op.getResult()] = Tile(branch.getResults());
}

void StepEmitter::runGateGradient(GateGradientOp op) {
  Layout layout = plan.layouts.lookup_or(op.getResult(), Layout::scalar);
  Tile gradient = tileOf(op.getGradient(), layout), gate = tileOf(op.getGate(), layout);
  SmallVector<Value> idle;
  if (op.getZeroFirst())
    idle.push_back(b.equal(currentRow, 0));
  if (op.getZeroLast())
    idle.push_back(b.equal(b.sub(b.sub(sequenceLength, 1), currentRow), 0));
  Value zero = b.f32(0.0), lowest = b.f32(-std::numeric_limits<double>::infinity());
  Tile result;
  for (auto [i, x] : llvm::enumerate(gradient)) {
    Value g = gate[gate.size() == 1 ? 0 : i];
    Value none = b.make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, g, lowest);
    for (Value here : idle)
      none = b.make<arith::OrIOp>(here, none);
    result.push_back(b.make<arith::SelectOp>(none, zero, x));
  }
  tiles[op.getResult()] = result;
}

/// Combines the values of the warps that share columns, in the order of their rows.
void StepEmitter::combineWarps(Tile &partial, Combine combine) {
  unsigned area = plan.stages() * plan.stageFloats + readsDone++ * plan.partialFloats();
  auto place = [&](Value warp) {
    Value offset = b.add(b.mul(warp, plan.blockColumns()), localColumn);
    return b.at(sharedBase(), b.getF32Type(), b.add(offset, area));
  };
  b.onlyIf(b.equal(rowLane, 0), [&] { b.store(b.pack(partial), place(rowWarp)); });
  b.make<gpu::BarrierOp>();
  Type type = KernelBuilder::withCount(b.getF32Type(), partial.size());
  Value sum = b.load(type, place(b.i32(0)));
  for (unsigned warp = 1; warp < plan.rowWarps; ++warp)
    sum = combine(sum, b.load(type, place(b.i32(warp))));
  partial = b.unpack(sum);
}

Tile StepEmitter::elementwise(Operation *op, Layout layout) {
  Value value = op->getResult(0);
  if (isa<StepIndexOp>(op))
    return tiles[value] = {b.make<arith::IndexCastOp>(b.getIndexType(), currentRow)};
  if (isa<HeadIndexOp, NumHeadsOp>(op)) {
    Value number = isa<HeadIndexOp>(op) ? b.wide(queryHead) : queryHeads;
    return tiles[value] = {b.make<arith::IndexCastOp>(b.getIndexType(), number)};
  }
  SmallVector<Tile> operands;
  for (Value operand : op->getOperands())
    operands.push_back(tileOf(operand, layout));
  Tile result;
  for (unsigned i = 0, e = tileSize(value.getType(), layout); i < e; ++i) {
    auto element = [&](const Tile &tile) { return tile.size() == 1 ? tile[0] : tile[i]; };
    if (isa<vector::BroadcastOp>(op)) {
      result.push_back(element(operands.front()));
      continue;
    }
    IRMapping mapping;
    for (auto [operand, tile] : llvm::zip(op->getOperands(), operands))
      mapping.map(operand, element(tile));
    result.push_back(cloneStepOp(b, op, mapping, getElementTypeOrSelf(value.getType())));
  }
  if (auto vector = dyn_cast<VectorType>(value.getType()); vector && vector.getRank() == 2)
    clearPaddedRows(result, plan.colsPerThread);
  return tiles[value] = result;
}

void StepEmitter::storeOutput(unsigned i, Value value, Value row) {
  const Row &output = outputs[i];
  auto vector = dyn_cast<VectorType>(value.getType());
  Layout layout = Layout::scalar;
  if (vector)
    layout = plan.stateful.contains(value)          ? plan.layouts.lookup_or(value, Layout::column)
             : vector.getDimSize(0) == plan.columns ? Layout::column
                                                    : Layout::row;
  Tile tile = tileOf(value, layout);
  Value start = b.mul(row, output.stride);
  if (plan.queryValues.contains(value)) {
    auto type = cast<RankedTensorType>(scan.getOutputs()[i].getType());
    start = b.add(start, b.mul(b.wide(queryInGroup), type.getRank() == 4 ? type.getDimSize(3) : 1));
  }
  auto storePart = [&](unsigned first, unsigned count, Value channel, Value valid) {
    b.onlyIf(valid, [&] {
      ValueRange elements = ValueRange(tile).slice(first, count);
      b.store(b.pack(elements),
              b.at(output.base, output.element, channel ? b.add(start, b.wide(channel)) : start));
    });
  };
  if (layout == Layout::scalar)
    return storePart(0, 1, Value(), b.both(leadsRows, leadsColumns));
  bool isColumn = layout == Layout::column;
  unsigned group = isColumn ? plan.colsPerThread : plan.rowGroup;
  unsigned count = (isColumn ? plan.columns : plan.rows) % group ? 1 : group;
  bool padded = isColumn ? columnsPadded : plan.paddedRows() != plan.rows;
  for (unsigned first = 0; first < tile.size(); first += count) {
    Value channel = isColumn ? b.add(column, first) : rowOf(first);
    Value valid = padded ? b.less(channel, isColumn ? plan.columns : plan.rows) : Value();
    storePart(first, count, channel, b.both(valid, isColumn ? leadsRows : leadsColumns));
  }
}

void StepEmitter::runOp(Operation *op) {
  if (!plan.stateful.contains(op->getResult(0)) || tiles.contains(op->getResult(0)))
    return;
  if (auto decay = dyn_cast<DecayOp>(op))
    runDecay(decay);
  else if (auto outer = dyn_cast<OuterAddOp>(op))
    runOuterAdd(outer);
  else if (auto read = dyn_cast<ReadOp>(op))
    runRead(read);
  else if (auto checkpoint = dyn_cast<CheckpointOp>(op))
    runCheckpoint(checkpoint);
  else if (isReduction(op))
    runReduction(op);
  else if (auto gradient = dyn_cast<GateGradientOp>(op))
    runGateGradient(gradient);
  else
    elementwise(op, plan.layouts.lookup_or(op->getResult(0), Layout::scalar));
}

SmallVector<Tile> StepEmitter::runStep(Value step, Value row, Value stage, ArrayRef<Tile> states,
                                       llvm::function_ref<void(ArrayRef<Tile>)> withStates) {
  tiles.clear();
  crossingTiles.clear();
  exchanged.clear();
  for (auto [arg, tile] : llvm::zip(scan.getStateArgs(), states))
    tiles[arg] = tile;
  stepInChunk = step;
  currentRow = positionOf(row);
  if (plan.sharedFloats())
    stageAddress = b.at(sharedBase(), b.getF32Type(), b.mul(stage, plan.stageFloats));
  // The new states first, because storing them need not wait for the reads.
  YieldOp yield = scan.getYield();
  llvm::SetVector<Operation *> slice;
  BackwardSliceOptions options;
  options.inclusive = true;
  options.omitBlockArguments = true;
  for (Value value : yield.getStates())
    if (value.getDefiningOp())
      (void)getBackwardSlice(value, &slice, options);
  for (Operation &op : scan.getStep().without_terminator())
    if (slice.contains(&op))
      runOp(&op);
  SmallVector<Tile> next;
  for (auto [arg, value] : llvm::zip(scan.getStateArgs(), yield.getStates()))
    next.push_back(tileOf(value, plan.layouts.lookup_or(arg, Layout::scalar)));
  withStates(next);
  for (Operation &op : scan.getStep().without_terminator())
    if (!plan.queryValues.contains(op.getResult(0)))
      runOp(&op);
  for (auto [i, value] : llvm::enumerate(yield.getOutputs()))
    if (!plan.queryValues.contains(value))
      storeOutput(i, value, row);
  storeSaves(currentRow);
  if (!plan.queryValues.empty())
    runQueries(row);
  return next;
}
