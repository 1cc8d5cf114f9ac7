//===- StepKernel.cpp - the step-by-step kernel of a scan ------------------===//
//
// Emits the kernel around a step: positions of threads and the loop over chunks of steps.
// StepStates.cpp loads and stores states; StepStages.cpp computes a chunk's crossings into shared memory;
// StepBody.cpp emits one step on the state.
//
//   load the states
//   stage(0); barrier
//   for each chunk c:
//     start loading chunk c+1's rows into registers
//     for each step of chunk c: run the step from its stage
//     compute chunk c+1's crossings into the other stage; barrier
//   store the states
//
// A kernel for a single step has one stage and no loop. Rows without a state have another kernel
// (RowKernel.cpp).
//
//===----------------------------------------------------------------------===//
#include "lowering/step/StepKernel.h"
#include "lowering/kernels/PooledStates.h"
#include "lowering/kernels/ShiftedRows.h"
#include "lowering/step/StepEmitter.h"
#include "lowering/target/CostModel.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "passes/Passes.h"
#include "passes/scan/ScanProperties.h"

using namespace mlir;
using namespace ejk;

//===----------------------------------------------------------------------===//
// The signature
//===----------------------------------------------------------------------===//

/// What the threads of one block can have: a multiprocessor's quarter has 16K registers for its
/// warps, and a thread has a multiple of 8.
static unsigned registersOfWholeBlock(unsigned threads) {
  unsigned warpsOfQuarter = llvm::divideCeil(threads / kWarpSize, 4u);
  return std::min(255u, 16 * 1024 / (warpsOfQuarter * kWarpSize) / 8 * 8);
}

/// The register limit. ptxas spills a few registers rather than lose a block per SM. 168 registers
/// allow three blocks of four warps, and most kernels then spill nothing. Kernels with a large tile
/// do, as do those that combine two of: gates on both axes, a state size that is no multiple of a
/// warp, a saved state, and the many loads of a single step.
static int32_t registers(const StepPlan &plan) {
  ScanOp scan = plan.scan;
  if (plan.ofRows)
    return plan.ofRows->sums ? cost::kRegistersOfRowSums : cost::kRegistersOfRows;
  if (plan.wholeState)
    return registersOfWholeBlock(plan.threads());
  bool largeTile = !plan.singleStep && plan.rowsPerThread * plan.colsPerThread > 32;
  bool odd = plan.rows % kWarpSize || plan.columns % kWarpSize;
  bool saves = !scan.getSavedStates().empty() || !scan.getSaves().empty();
  bool gatesOnBoth = getDecayClass(scan) == DecayClass::both;
  return largeTile || plan.singleStep + odd + saves + gatesOnBoth >= 2 ? 255 : 168;
}

void StepEmitter::buildSignature(SizeName sizeName) {
  // Sequences, parameters and offsets may use the read-only cache. An initial state may alias the
  // final state.
  KernelSignature signature(kernel, sizeName);
  SmallVector<Value> rowsOfSteps(scan.getSequences());
  llvm::append_range(rowsOfSteps, scan.getQueries());
  for (Value v : rowsOfSteps)
    signature.addTensor(loadedTensor(scan, v), true);
  for (Value v : rowsOfSteps)
    if (ShiftOp shift = shiftOfRows(scan, v); shift && shift.getHalo())
      signature.addTensor(shift.getHalo(), true);
  for (Value v : scan.getParameters())
    signature.addTensor(v, true);
  pooled = PooledScan(scan);
  pools = PoolArguments(pooled.use);
  auto startOf = [&](unsigned i) { return pooled ? pooled.starts[i] : ReadStatesOp(); };
  auto inPool = [&](WriteStatesOp write, Value states) {
    return write ? Value(write.getResult()) : states;
  };
  for (unsigned i = 0; i < scan.getNumStates(); ++i)
    if (Value initial = scan.getInitialState(i))
      signature.addTensor(startOf(i) ? startOf(i).getPool() : initial, false);
  for (Value v : scan.getSavedStates())
    signature.addTensor(v, true);
  for (Value optional : {scan.getCuSeqlens(), scan.getRemembered()})
    if (optional)
      signature.addTensor(optional, true);
  pools.addTensors(signature);
  for (Value v : scan.getOutputs())
    signature.addTensor(v, false);
  for (auto [i, v] : llvm::enumerate(scan.getFinalStates()))
    if (!v.use_empty())
      signature.addTensor(inPool(pooled ? pooled.ends[i] : WriteStatesOp(), v), false);
  for (auto [i, v] : llvm::enumerate(scan.getSaves()))
    signature.addTensor(inPool(pooled ? pooled.saves[i] : WriteStatesOp(), v), false);
  if (plan.singleStep)
    for (LastRowsOp op : lastRowsOf(scan))
      lastRows.push_back({op});
  for (const LastRows &last : lastRows) {
    LastRowsOp op = last.op;
    signature.addTensor(op.getRows(), true);
    if (op.getHalo())
      signature.addTensor(op.getHalo(), true);
    signature.addTensor(op.getResult(), false);
  }
  unsigned numPointers = signature.numTensors();
  ScanSizes sizes = ScanSizes::add(signature, scan);
  SmallVector<unsigned> headsOfLastRows = llvm::map_to_vector(
      lastRows, [&](LastRows &last) { return signature.addSize(last.op.getRows(), 2); });
  SmallVector<std::optional<unsigned>> stridesOfLastRows = llvm::map_to_vector(
      lastRows, [&](LastRows &last) { return signature.addRowStride(last.op.getRows()); });
  pools.addSizes(signature);
  std::optional<unsigned> offsetsArgument;
  if (scan.getSegments() && scan.getCuSeqlens())
    offsetsArgument = signature.addSize(scan.getCuSeqlens(), 0);
  std::optional<unsigned> segments;
  if (scan.getSegments())
    segments = signature.addSegments(bool(scan.getCuSeqlens()));

  auto function = signature.makeFunction(b, name);
  function->setAttr(NVVM::NVVMDialect::getMaxnregAttrName(), b.getI32IntegerAttr(registers(plan)));
  function.setKnownBlockSizeAttr(b.getDenseI32ArrayAttr({int32_t(plan.threads()), 1, 1}));
  kernel.function = function;
  kernel.threads = plan.threads();
  b.setInsertionPointToStart(&function.getBody().front());

  // Arguments in the order in which they were added.
  unsigned next = 0;
  auto take = [&] { return Value(function.getArgument(next++)); };
  for (unsigned i = 0, e = rowsOfSteps.size(); i < e; ++i)
    sequences.push_back({take()});
  for (auto [row, v] : llvm::zip(sequences, rowsOfSteps)) {
    row.shift = shiftOfRows(scan, v);
    if (row.shift && row.shift.getHalo())
      row.haloPointer = take();
  }
  for (unsigned i = 0, e = scan.getParameters().size(); i < e; ++i)
    parameters.push_back({take()});
  for (unsigned i = 0, e = scan.getNumStates(); i < e; ++i)
    initialPointers.push_back(scan.getInitialState(i) ? take() : Value());
  for (unsigned i = 0, e = scan.getSavedStates().size(); i < e; ++i)
    savedPointers.push_back(take());
  if (scan.getCuSeqlens())
    cuPointer = take();
  if (scan.getRemembered())
    rememberedPointer = take();
  pools.takeTensors(take);
  for (unsigned i = 0, e = scan.getOutputs().size(); i < e; ++i)
    outputs.push_back({take()});
  for (Value v : scan.getFinalStates())
    finalPointers.push_back(v.use_empty() ? Value() : take());
  for (unsigned i = 0, e = scan.getSaves().size(); i < e; ++i)
    savePointers.push_back(take());
  for (LastRows &last : lastRows) {
    last.rows = take();
    last.halo = last.op.getHalo() ? take() : Value();
    last.result = take();
  }
  auto size = [&](unsigned i) { return Value(function.getArgument(numPointers + i)); };
  totalSteps = plan.singleStep ? b.i64(1) : size(sizes.steps);
  heads = size(sizes.heads);
  for (auto [last, heads, stride] : llvm::zip(lastRows, headsOfLastRows, stridesOfLastRows)) {
    last.heads = size(heads);
    last.stride = stride ? size(*stride) : Value();
  }
  pools.takeSizes(size);
  if (offsetsArgument)
    offsets = size(*offsetsArgument);
  if (segments)
    segmentSizes = SegmentSizes::take(size, *segments, bool(scan.getCuSeqlens()));
  for (auto [row, i] : llvm::zip(sequences, sizes.sequenceHeads))
    row.heads = size(i);
  queryHeads = sizes.queryHeads ? size(*sizes.queryHeads) : heads;
  for (Row &row : MutableArrayRef(sequences).drop_front(scan.getSequences().size()))
    row.heads = queryHeads;
  for (auto [row, i] : llvm::zip(parameters, sizes.parameterHeads))
    row.heads = i ? size(*i) : Value();
  for (auto [row, i] : llvm::zip(sequences, sizes.rowStrides))
    if (i)
      row.givenStride = b.narrow(size(*i));
}

//===----------------------------------------------------------------------===//
// Positions of threads
//===----------------------------------------------------------------------===//

void StepEmitter::locate() {
  thread = b.threadId();
  Value lane = b.rem(thread, kWarpSize), warp = b.div(thread, kWarpSize);
  rowLane = b.rem(lane, plan.rowLanes);
  rowWarp = b.rem(warp, plan.rowWarps);
  rowSlot = b.add(b.mul(rowWarp, plan.rowLanes), rowLane);
  Value colSlot =
      b.add(b.mul(b.div(warp, plan.rowWarps), plan.colLanes), b.div(lane, plan.rowLanes));

  Value block = b.blockId();
  Value columnBlock = b.rem(block, plan.columnBlocks);
  Value sequenceHead = b.div(block, plan.columnBlocks);
  Value heads32 = b.narrow(heads);
  if (int64_t headsOfBlock = plan.ofRows ? plan.ofRows->heads : 1; headsOfBlock > 1) {
    Value blocks = b.div(b.add(heads32, headsOfBlock - 1), headsOfBlock);
    sequence = b.div(block, blocks);
    head = b.add(b.mul(b.rem(block, blocks), headsOfBlock), b.rem(thread, headsOfBlock));
    hasHead = b.less(head, heads32);
    head = b.min(head, b.sub(heads32, 1));
    stateIndex = b.wide(b.add(b.mul(sequence, heads32), head));
  } else {
    sequence = b.div(sequenceHead, heads32);
    head = b.rem(sequenceHead, heads32);
    stateIndex = b.wide(sequenceHead);
  }
  if (queryHeads != heads)
    group = b.div(b.narrow(queryHeads), heads32);
  else if (!scan.getQueries().empty())
    group = b.i32(1);
  queryHead = head;

  if (pooled)
    pools.locate(b, b.wide(sequence));

  blockColumn = b.mul(columnBlock, plan.blockColumns());
  localColumn = b.mul(colSlot, plan.colsPerThread);
  column = b.add(blockColumn, localColumn);
  columnsPadded = plan.columns != int64_t(plan.columnBlocks) * plan.blockColumns();
  leadsRows = b.equal(rowSlot, 0);
  leadsColumns = b.equal(b.add(blockColumn, localColumn), 0);

  // A sequence is one batch entry, or the rows between two offsets. The caller provides the
  // offsets, so they are clamped: no value can cause an access out of bounds.
  auto offset = [&](Value index) -> Value {
    Type type = tensorType(scan.getCuSeqlens()).getElementType();
    Value loaded = b.load(type, b.at(cuPointer, type, index));
    if (type.isInteger(32))
      loaded = b.make<arith::ExtSIOp>(b.getI64Type(), loaded);
    return b.min(b.max(loaded, b.i64(0)), totalSteps);
  };
  KernelSegment segment;
  if (scan.getSegments()) {
    segment =
        locateSegment(b, segmentSizes, sequence, offsets ? b.sub(offsets, 1) : Value(), offset);
    sequence = segment.sequence;
  }
  if (cuPointer) {
    firstRow = offset(b.wide(sequence));
    length = b.max(b.sub(offset(b.add(b.wide(sequence), 1)), firstRow), b.i64(0));
  } else {
    firstRow = b.mul(b.wide(sequence), totalSteps);
    length = totalSteps;
  }
  sequenceFirst = firstRow;
  sequenceLength = length;
  if (segment.start) {
    firstPosition = b.min(segment.start, length);
    firstRow = b.add(firstRow, firstPosition);
    length = b.min(b.sub(length, firstPosition), segment.rows);
  }
  if (auto count = scan.getTrailing()) {
    Value kept = keptRows(b, *count, length, rememberedPointer, stateIndex);
    if (!scan.getReverse()) {
      firstPosition = b.sub(b.add(firstPosition, length), kept);
      firstRow = b.sub(b.add(firstRow, length), kept);
    }
    length = kept;
  }

  // The head to read in each operand, and the address of its part.
  auto placeRow = [&](Row &row, Value tensor, bool ofQuery) {
    RankedTensorType type = tensorType(tensor);
    int64_t channels = type.getRank() == 4 ? type.getDimSize(3) : 1;
    row.element = type.getElementType();
    row.stride = row.givenStride ? b.wide(row.givenStride) : b.mul(row.heads, channels);
    Value column = b.mul(ofQuery ? b.wide(b.mul(head, group)) : ownHead(row.heads), channels);
    row.column = b.narrow(column);
    row.base = b.at(row.pointer, row.element, b.add(b.mul(firstRow, row.stride), column));
    if (row.haloPointer) {
      row.haloBase = b.at(row.haloPointer, row.element, column);
      row.haloStride = b.mul(row.heads, channels);
    }
  };
  unsigned numSequences = scan.getSequences().size();
  for (auto [i, row] : llvm::enumerate(sequences))
    placeRow(row, scan->getOperand(i), /*ofQuery=*/i >= numSequences);
  for (auto [row, tensor, value] :
       llvm::zip(outputs, scan.getOutputs(), scan.getYield().getOutputs())) {
    bool ofQuery = plan.queryValues.contains(value);
    row.heads = ofQuery ? queryHeads : heads;
    placeRow(row, tensor, ofQuery);
  }
  for (auto [row, tensor, arg] :
       llvm::zip(parameters, scan.getParameters(), scan.getParameterArgs())) {
    auto vector = dyn_cast<VectorType>(arg.getType());
    row.element = tensorType(tensor).getElementType();
    unsigned prefix = ScanSizes::prefixRank(tensor, arg);
    row.base = row.pointer;
    if (!prefix)
      continue;
    Value index = ownHead(row.heads);
    if (prefix == 2)
      index = b.add(b.mul(b.wide(sequence), row.heads), index);
    row.base = b.at(row.pointer, row.element, b.mul(index, vector ? vector.getNumElements() : 1));
  }
}

Value StepEmitter::ownHead(Value ownHeads) {
  return ejk::ownHead(b, head, heads, ownHeads, sharedHeads);
}

/// The position in the sequence of a row that is counted from the first one scanned here.
Value StepEmitter::positionOf(Value row) {
  return firstPosition ? b.add(b.wide(row), firstPosition) : row;
}

StepEmitter::RowAddress StepEmitter::findRow(const Row &row, Value memoryRow) {
  if (!row.shift)
    return {row.base, memoryRow, Value()};
  memoryRow = b.wide(memoryRow);
  ShiftedRow found = ShiftedRow::of(b, row.shift, memoryRow, positionOf(memoryRow),
                                    b.wide(sequence), sequenceLength);
  if (!row.haloBase)
    return {row.base, found.row, found.inside};
  if (row.givenStride)
    return {row.base, found.row, Value(), found.inside, found.haloRow};
  return {b.make<arith::SelectOp>(found.inside, row.base, row.haloBase),
          b.make<arith::SelectOp>(found.inside, found.row, found.haloRow), Value()};
}

/// The row of step `step`, counted from the first one scanned here.
Value StepEmitter::rowOfStep(Value step) {
  return scan.getReverse() ? b.sub(b.sub(length, 1), step) : step;
}

//===----------------------------------------------------------------------===//
// The loop over steps
//===----------------------------------------------------------------------===//

Kernel StepEmitter::run(gpu::GPUModuleOp module, SizeName sizeName) {
  b.setInsertionPointToEnd(module.getBody());
  if (plan.sharedFloats())
    declareShared(module);
  buildSignature(sizeName);
  locate();
  if (plan.ofRows) {
    runRows();
    b.make<gpu::ReturnOp>();
    describeLaunch();
    return kernel;
  }
  scf::IfOp whereInPool;
  if (pools.isActive) {
    // A sequence that has no slot in the pool is left out.
    bool clears = llvm::any_of(pooled.cleared, [](ZeroSkippedOp zero) { return bool(zero); });
    whereInPool = b.make<scf::IfOp>(TypeRange(), pools.isActive, clears);
    if (clears) {
      b.setInsertionPointToStart(whereInPool.elseBlock());
      clearOutputs();
    }
    b.setInsertionPointToStart(whereInPool.thenBlock());
  }
  auto finish = [&] {
    if (whereInPool)
      b.setInsertionPointAfter(whereInPool);
    b.make<gpu::ReturnOp>();
    describeLaunch();
    return kernel;
  };
  computeInvariants();

  unsigned numStates = scan.getNumStates();
  SmallVector<Value> carried;
  SmallVector<unsigned> tileEnds;
  for (unsigned i = 0; i < numStates; ++i) {
    carried.append(loadState(i));
    tileEnds.push_back(carried.size());
  }
  auto tilesOf = [&](ValueRange values) {
    SmallVector<Tile> tiles;
    unsigned begin = 0;
    for (unsigned end : tileEnds) {
      tiles.emplace_back(values.begin() + begin, values.begin() + end);
      begin = end;
    }
    return tiles;
  };
  auto flatten = [](ArrayRef<Tile> tiles) {
    SmallVector<Value> values;
    for (const Tile &tile : tiles)
      values.append(tile);
    return values;
  };

  clearPadding();
  commit(prefetch(b.i64(0)), b.i64(0), b.i32(0));
  barrier();
  auto storeStates = [&](ArrayRef<Tile> tiles) {
    for (auto [i, tile] : llvm::enumerate(tiles))
      storeState(i, tile);
  };
  if (plan.singleStep) {
    runStep(b.i32(0), b.i64(0), b.i32(0), tilesOf(carried), storeStates);
    storeLastRows();
    return finish();
  }
  int64_t chunk = plan.chunk;
  Value chunks = b.div(b.add(length, chunk - 1), chunk);
  carried = b.loop(b.i64(0), chunks, 1, carried, [&](Value c, ValueRange states) {
    Value firstStep = b.mul(c, chunk);
    Value nextStep = b.add(firstStep, chunk);
    SmallVector<Value> rows = prefetch(nextStep);
    Value parity = b.narrow(b.rem(c, 2));
    Value left = b.narrow(b.min(b.sub(length, firstStep), b.i64(chunk)));
    auto steps = [&](Value from, Value to, unsigned count, ValueRange in) {
      return b.loop(from, to, count, in, [&](Value s, ValueRange args) {
        SmallVector<Tile> tiles = tilesOf(args);
        for (unsigned u = 0; u < count; ++u) {
          Value step = b.add(s, u);
          tiles = runStep(step, rowOfStep(b.add(firstStep, b.wide(step))), parity, tiles);
        }
        return flatten(tiles);
      });
    };
    Value whole = b.mul(b.div(left, plan.unroll), plan.unroll);
    SmallVector<Value> after = steps(b.i32(0), whole, plan.unroll, states);
    if (plan.unroll > 1)
      after = steps(whole, left, 1, after);
    commit(rows, nextStep, b.sub(b.i32(1), parity));
    barrier();
    return after;
  });
  storeStates(tilesOf(carried));
  return finish();
}

void StepEmitter::describeLaunch() {
  kernel.gridSizes.push_back({scan.getSequences().front(), 2});
  if (scan.getSegments())
    kernel.segmented = true;
  else if (Value cu = scan.getCuSeqlens())
    kernel.sequencesFrom = cu;
  else
    kernel.gridSizes.push_back({scan.getSequences().front(), 0});
  kernel.gridFactor = plan.columnBlocks;
  kernel.headsOfBlock = plan.ofRows ? plan.ofRows->heads : 1;
}

void StepEmitter::barrier() {
  if (plan.stageFloats)
    b.make<gpu::BarrierOp>();
}

Kernel ejk::emitStepKernel(const StepPlan &plan, gpu::GPUModuleOp module, StringRef name,
                           SizeName sizeName) {
  return StepEmitter(plan, name, OpBuilder(module.getContext())).run(module, sizeName);
}
