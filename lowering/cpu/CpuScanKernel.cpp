//===- CpuScanKernel.cpp - the kernel of a scan on a CPU ------------------===//
#include "lowering/cpu/CpuScanEmitter.h"
#include "ejk/package_format.h"
#include "lowering/kernels/ShiftedRows.h"
#include "passes/scan/ScanProperties.h"

using namespace mlir;
using namespace ejk;

/// What a package promises a kernel's thread, less what registers take that are spilled.
static constexpr int64_t kMostStackBytes = EJK_CPU_STACK_BYTES - 64 * 1024;

//===----------------------------------------------------------------------===//
// The signature
//===----------------------------------------------------------------------===//

void CpuScanEmitter::buildSignature(SizeName sizeName) {
  KernelSignature signature(kernel, sizeName);
  SmallVector<Value> tensors;
  auto addAll = [&](ValueRange values) { llvm::append_range(tensors, values); };
  for (Value rows : scan.getSequences())
    tensors.push_back(loadedTensor(scan, rows));
  for (Value rows : scan.getSequences())
    if (ShiftOp shift = shiftOfRows(scan, rows); shift && shift.getHalo())
      tensors.push_back(shift.getHalo());
  addAll(scan.getParameters());
  pooled = PooledScan(scan);
  pools = PoolArguments(pooled.use);
  auto inPool = [&](WriteStatesOp write, Value states) {
    return write ? Value(write.getResult()) : states;
  };
  for (unsigned i = 0, e = scan.getNumStates(); i < e; ++i)
    if (Value initial = scan.getInitialState(i))
      tensors.push_back(pooled && pooled.starts[i] ? pooled.starts[i].getPool() : initial);
  addAll(scan.getSavedStates());
  if (Value cu = scan.getCuSeqlens())
    tensors.push_back(cu);
  addAll(scan.getOutputs());
  for (auto [i, state] : llvm::enumerate(scan.getFinalStates()))
    if (!state.use_empty())
      tensors.push_back(inPool(pooled ? pooled.ends[i] : WriteStatesOp(), state));
  for (auto [i, save] : llvm::enumerate(scan.getSaves()))
    tensors.push_back(inPool(pooled ? pooled.saves[i] : WriteStatesOp(), save));
  for (Value tensor : tensors)
    signature.addTensor(tensor, /*isReadOnly=*/false);
  pools.addTensors(signature);
  unsigned numTensors = signature.numTensors();
  ScanSizes sizesOfScan = ScanSizes::add(signature, scan);
  pools.addSizes(signature);

  LLVM::LLVMFuncOp function = makeCpuFunction(b, name);
  kernel.function = cast<FunctionOpInterface>(function.getOperation());
  entry = &function.getBody().front();
  begin = entry->getArgument(1);
  end = entry->getArgument(2);
  unsigned next = 0;
  auto take = [&](Type type) { return cpuArgument(b, function, next++, type); };
  auto takePointer = [&] { return take(b.pointer()); };
  for (unsigned i = 0, e = scan.getSequences().size(); i < e; ++i)
    sequences.push_back({takePointer()});
  for (auto [row, rows] : llvm::zip(sequences, scan.getSequences())) {
    row.shift = shiftOfRows(scan, rows);
    if (row.shift && row.shift.getHalo())
      row.haloPointer = takePointer();
  }
  for (unsigned i = 0, e = scan.getParameters().size(); i < e; ++i)
    parameters.push_back({takePointer()});
  for (unsigned i = 0, e = scan.getNumStates(); i < e; ++i)
    initialPointers.push_back(scan.getInitialState(i) ? takePointer() : Value());
  for (unsigned i = 0, e = scan.getSavedStates().size(); i < e; ++i)
    savedPointers.push_back(takePointer());
  if (scan.getCuSeqlens())
    cuPointer = takePointer();
  for (unsigned i = 0, e = scan.getOutputs().size(); i < e; ++i)
    outputs.push_back({takePointer()});
  for (Value state : scan.getFinalStates())
    finalPointers.push_back(state.use_empty() ? Value() : takePointer());
  for (unsigned i = 0, e = scan.getSaves().size(); i < e; ++i)
    savePointers.push_back(takePointer());
  pools.takeTensors(takePointer);
  assert(next == numTensors && "the order of the tensors differs");
  SmallVector<Value> sizes;
  while (next < kernel.operands.size())
    sizes.push_back(take(b.getI64Type()));
  pools.takeSizes([&](unsigned i) { return sizes[i]; });
  totalSteps = sizes[sizesOfScan.steps];
  heads = sizes[sizesOfScan.heads];
  for (auto [row, i] : llvm::zip(sequences, sizesOfScan.sequenceHeads))
    row.heads = sizes[i];
  for (auto [row, i] : llvm::zip(parameters, sizesOfScan.parameterHeads))
    row.heads = i ? sizes[*i] : Value();
  for (auto [row, i] : llvm::zip(sequences, sizesOfScan.rowStrides))
    if (i)
      row.givenStride = sizes[*i];
}

//===----------------------------------------------------------------------===//
// Who works on what
//===----------------------------------------------------------------------===//

/// Finds the rows of the sequence, and the parts of the tensors that are its head's.
void CpuScanEmitter::locate() {
  sharedHeads.clear();
  sequence = b.div(stateIndex, heads);
  head = b.rem(stateIndex, heads);
  CpuBuilder::RowRange range = b.rowsOf(sequence, totalSteps, scan.getCuSeqlens(), cuPointer);
  firstRow = range.first;
  length = range.length;
  auto place = [&](Row &row, Value tensor) {
    RankedTensorType type = tensorType(tensor);
    int64_t channels = type.getRank() == 4 ? type.getDimSize(3) : 1;
    row.element = type.getElementType();
    row.stride = row.givenStride ? row.givenStride : b.mul(row.heads, channels);
    Value column = b.mul(ownHead(row.heads), channels);
    row.base = b.at(row.pointer, row.element, b.add(b.mul(firstRow, row.stride), column));
    if (row.haloPointer) {
      row.haloBase = b.at(row.haloPointer, row.element, column);
      row.haloStride = b.mul(row.heads, channels);
    }
  };
  for (auto [row, tensor] : llvm::zip(sequences, scan.getSequences()))
    place(row, tensor);
  for (auto [row, tensor] : llvm::zip(outputs, scan.getOutputs())) {
    row.heads = heads;
    place(row, tensor);
  }
  for (auto [row, tensor, arg] :
       llvm::zip(parameters, scan.getParameters(), scan.getParameterArgs())) {
    auto vector = dyn_cast<VectorType>(arg.getType());
    row.element = tensorType(tensor).getElementType();
    row.base = row.pointer;
    unsigned prefix = ScanSizes::prefixRank(tensor, arg);
    if (!prefix)
      continue;
    Value index = ownHead(row.heads);
    if (prefix == 2)
      index = b.add(b.mul(sequence, row.heads), index);
    row.base = b.at(row.pointer, row.element, b.mul(index, vector ? vector.getNumElements() : 1));
  }
}

/// The head, of `ownHeads` that divide the query heads, that this one shares.
Value CpuScanEmitter::ownHead(Value ownHeads) {
  if (ownHeads == heads)
    return head;
  Value &shared = sharedHeads[ownHeads];
  if (!shared)
    shared = b.div(head, b.div(heads, ownHeads));
  return shared;
}

/// The row of memory, counted from the sequence's first, of its step `step`.
Value CpuScanEmitter::rowOfStep(Value step) {
  return scan.getReverse() ? b.sub(b.sub(length, 1), step) : step;
}

/// Room on the stack, made once a call.
Value CpuScanEmitter::allocate(int64_t floats) {
  stackBytes += floats * sizeof(float);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(entry);
  Type type = LLVM::LLVMArrayType::get(b.getF32Type(), unsigned(floats));
  return b.make<LLVM::AllocaOp>(b.pointer(), type, b.i64(1), /*alignment=*/64);
}

//===----------------------------------------------------------------------===//
// The loops
//===----------------------------------------------------------------------===//

FailureOr<Kernel> CpuScanEmitter::run(gpu::GPUModuleOp module, SizeName sizeName) {
  b.setInsertionPointToEnd(module.getBody());
  buildSignature(sizeName);
  allocateStates();
  allocateSides();
  if (plan.timeBlock > 1)
    allocateLinear();

  // What is read along the columns sums all blocks, which are then one item.
  unsigned itemsOfHead = plan.hasSideReads() ? 1 : plan.blocks;
  // Items of one sequence and head together, as many as their tiles have room for.
  auto walk = b.make<scf::WhileOp>(
      TypeRange{b.getI64Type()}, ValueRange{begin},
      [&](OpBuilder &, Location, ValueRange items) {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToEnd(items.front().getParentBlock());
        b.make<scf::ConditionOp>(b.less(items[0], end), items);
      },
      [&](OpBuilder &, Location, ValueRange items) {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToEnd(items.front().getParentBlock());
        Value item = items[0];
        stateIndex = b.div(item, itemsOfHead);
        Value first = b.rem(item, itemsOfHead);
        Value left = b.min(b.sub(b.i64(itemsOfHead), first), b.sub(end, item));
        Value taken = b.min(left, b.i64(plan.group));
        Value count = plan.hasSideReads() ? b.i64(plan.blocks) : taken;
        numBlocks = count;
        linesOfBlock = shareOfLines(count);
        runSequence(first);
        b.make<scf::YieldOp>(ValueRange{b.add(item, taken)});
      });
  b.setInsertionPointAfter(walk);
  b.make<LLVM::ReturnOp>(ValueRange());

  kernel.threads = itemsOfHead; // items that share a prologue
  kernel.gridSizes.push_back({scan.getSequences().front(), 2});
  if (Value cu = scan.getCuSeqlens())
    kernel.sequencesFrom = cu;
  else
    kernel.gridSizes.push_back({scan.getSequences().front(), 0});
  kernel.gridFactor = itemsOfHead;
  if (stackBytes > kMostStackBytes)
    return scan.emitError() << "its kernel needs " << stackBytes
                            << " bytes of stack, of at most " << kMostStackBytes
                            << " that a CPU's kernel may use; split the scan",
           failure();
  return kernel;
}

void CpuScanEmitter::runSequence(Value firstBlock) {
  locate();
  Value isLeader = b.equal(firstBlock, 0);
  OpBuilder::InsertionGuard guard(b);
  if (pooled) {
    pools.locate(b, sequence);
    auto branch = b.make<scf::IfOp>(TypeRange(), pools.isActive, /*withElseRegion=*/true);
    b.setInsertionPointToStart(branch.elseBlock());
    clearOutputs(isLeader);
    b.setInsertionPointToStart(branch.thenBlock());
  }
  computeInvariants();
  loadStates(firstBlock);
  b.loop(b.i64(0), length, plan.chunk, {}, [&](Value firstStep, ValueRange) {
    Value count = b.min(b.sub(length, firstStep), b.i64(plan.chunk));
    runChunk(firstStep, count, firstBlock);
    return SmallVector<Value>();
  });
  storeStates(firstBlock, isLeader);
}

void CpuScanEmitter::runChunk(Value firstStep, Value count, Value firstBlock) {
  // The column blocks say what they need of the prologue, which comes before them.
  staged.clear();
  Value isLeader = b.equal(firstBlock, 0);
  auto before = b.make<scf::ExecuteRegionOp>(TypeRange());
  b.createBlock(&before.getRegion());
  b.make<scf::YieldOp>();
  b.setInsertionPointAfter(before);
  clearSides(count);
  forEachBlock(firstBlock, [&](const Block &block) {
    auto singly = [&](Value from, Value to) {
      b.loop(from, to, 1, {}, [&](Value step, ValueRange) {
        inChunk = step;
        Value now = b.add(firstStep, step);
        prefetchShare(block, now, 1, b.i64(0), 1);
        currentRow = rowOfStep(now);
        runStep(block, isLeader);
        return SmallVector<Value>();
      });
    };
    if (plan.timeBlock == 1)
      return singly(b.i64(0), count);
    b.loop(b.i64(0), count, plan.timeBlock, {}, [&](Value inFirst, ValueRange) {
      Value last = b.add(inFirst, plan.timeBlock), first = b.add(firstStep, inFirst);
      Value isWhole =
          b.make<arith::CmpIOp>(arith::CmpIPredicate::sle, last, count);
      if (Value boundary = hasBoundary(first))
        isWhole = b.make<arith::SelectOp>(boundary, b.make<arith::ConstantIntOp>(0, 1), isWhole);
      auto branch = b.make<scf::IfOp>(TypeRange(), isWhole, /*withElseRegion=*/true);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(branch.thenBlock());
      runLinear(block, first, inFirst, isLeader);
      b.setInsertionPointToStart(branch.elseBlock());
      singly(inFirst, b.min(last, count));
      return SmallVector<Value>();
    });
  });
  if (plan.hasSideReads())
    finishSides(firstStep, count);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&before.getRegion().front());
  inPrologue = true;
  emitPrologue(firstStep, count, isLeader);
  inPrologue = false;
  if (plan.timeBlock > 1)
    emitLinearPrologue(firstStep, count);
}

FailureOr<Kernel> ejk::emitCpuScan(const CpuScanPlan &plan, gpu::GPUModuleOp module,
                                   StringRef name, SizeName sizeName) {
  return CpuScanEmitter(plan, name, OpBuilder(module.getContext())).run(module, sizeName);
}
