//===- CpuTileKernel.cpp - the kernel of a block program on a CPU ---------===//
#include "lowering/cpu/CpuTileKernel.h"
#include "ejk/package_format.h"
#include "lowering/cpu/CpuTileEmitter.h"
#include "lowering/kernels/ShiftedRows.h"

using namespace mlir;
using namespace ejk;

/// What a package promises a kernel's thread, less what registers take that are spilled.
static constexpr int64_t kMostStackBytes = EJK_CPU_STACK_BYTES - 64 * 1024;

//===----------------------------------------------------------------------===//
// The signature, and who works on what
//===----------------------------------------------------------------------===//

/// The next argument that passes `tensor`; null where nobody takes a result.
Value CpuTileEmitter::takePointer(Value tensor) {
  SmallVector<Value> &left = pointers[tensor];
  if (left.empty())
    return {};
  Value pointer = left.front();
  left.erase(left.begin());
  return pointer;
}

void CpuTileEmitter::buildSignature(SizeName sizeName) {
  KernelSignature signature(kernel, sizeName);
  SmallVector<Value> tensors;
  auto addAll = [&](ValueRange values) {
    for (Value tensor : values)
      if (tensor.getDefiningOp() != program || !tensor.use_empty())
        tensors.push_back(tensor);
  };
  SmallVector<Value> sequences = llvm::map_to_vector(
      program.getSequences(), [&](Value rows) { return loadedTensor(program, rows); });
  addAll(sequences);
  for (Value tensor : program.getSequences())
    if (ShiftOp shift = shiftOfRows(program, tensor); shift && shift.getHalo())
      tensors.push_back(shift.getHalo());
  addAll(program.getParameters());
  addAll(program.getInitialStates());
  if (Value cu = program.getCuSeqlens())
    tensors.push_back(cu);
  addAll(program.getResults());
  for (Value tensor : tensors)
    signature.addTensor(tensor, /*isReadOnly=*/false);
  Value firstTensor = program.getSequences().front();
  unsigned steps = signature.addSize(firstTensor, 1), queryHeads = signature.addSize(firstTensor, 2);
  SmallVector<unsigned> sequenceHeads, parameterHeads;
  for (Value tensor : program.getSequences())
    sequenceHeads.push_back(signature.addSize(tensor, 2));
  SmallVector<std::optional<unsigned>> rowStrides = llvm::map_to_vector(
      sequences, [&](Value tensor) { return signature.addRowStride(tensor); });
  for (Value tensor : program.getParameters())
    parameterHeads.push_back(signature.addSize(tensor, tensorType(tensor).getRank() - 1));

  LLVM::LLVMFuncOp function = makeCpuFunction(b, name);
  kernel.function = cast<FunctionOpInterface>(function.getOperation());
  entry = &function.getBody().front();
  begin = entry->getArgument(1);
  end = entry->getArgument(2);
  unsigned next = 0;
  for (Value tensor : tensors)
    pointers[tensor].push_back(cpuArgument(b, function, next++, b.pointer()));
  SmallVector<Value> sizes;
  while (next < kernel.operands.size())
    sizes.push_back(cpuArgument(b, function, next++, b.getI64Type()));
  totalSteps = sizes[steps];
  heads = sizes[queryHeads];
  auto addRows = [&](Value arg, Value tensor, Value ownHeads) {
    if (Value pointer = takePointer(tensor))
      rows[arg] = {pointer, {}, ownHeads, tensorType(tensor).getElementType()};
  };
  for (auto [arg, rows, tensor, i, stride] :
       llvm::zip(program.getSequenceArgs(), program.getSequences(), sequences, sequenceHeads,
                 rowStrides)) {
    addRows(arg, tensor, sizes[i]);
    if (stride)
      this->rows[arg].givenStride = sizes[*stride];
    if (ShiftOp shift = shiftOfRows(program, rows))
      this->rows[arg].shift = shift.getBy();
  }
  for (auto [arg, tensor] : llvm::zip(program.getSequenceArgs(), program.getSequences()))
    if (ShiftOp shift = shiftOfRows(program, tensor); shift && shift.getHalo()) {
      rows[arg].haloPointer = takePointer(shift.getHalo());
      rows[arg].haloRows = tensorType(shift.getHalo()).getDimSize(1);
    }
  for (auto [tensor, i] : llvm::zip(program.getParameters(), parameterHeads))
    parameters.push_back({takePointer(tensor), sizes[i]});
  for (auto [arg, tensor] : llvm::zip(program.getInitialArgs(), program.getInitialStates()))
    slots[arg] = takePointer(tensor);
  if (Value cu = program.getCuSeqlens())
    offsets = takePointer(cu);
  for (auto [arg, tensor] : llvm::zip(program.getOutputArgs(), program.getOutputs()))
    addRows(arg, tensor, heads);
  for (auto [arg, tensor] : llvm::zip(program.getFinalArgs(), program.getFinalStates()))
    if (Value pointer = takePointer(tensor))
      slots[arg] = pointer;
}

/// Finds what belongs to the item's sequence and head.
void CpuTileEmitter::locate(Value item) {
  stateIndex = item;
  sequence = b.div(item, heads);
  head = b.rem(item, heads);
  CpuBuilder::RowRange range = b.rowsOf(sequence, totalSteps, program.getCuSeqlens(), offsets);
  Value firstRow = range.first;
  length = range.length;
  auto ownHead = [&](Value ownHeads) {
    return ownHeads == heads ? head : b.div(head, b.div(heads, ownHeads));
  };
  auto placeRows = [&](Value arg, Value tensor) {
    auto found = rows.find(arg);
    if (found == rows.end())
      return;
    Rows &row = found->second;
    int64_t channels = tensorType(tensor).getRank() == 4 ? tensorType(tensor).getDimSize(3) : 1;
    row.stride = row.givenStride ? row.givenStride : b.mul(row.heads, channels);
    Value first = b.add(b.mul(firstRow, row.stride), b.mul(ownHead(row.heads), channels));
    if (row.shift)
      first = b.sub(first, b.mul(row.stride, row.shift));
    row.base = b.at(row.base, row.element, first);
    if (row.haloPointer) {
      Value place = b.mul(sequence, row.haloRows);
      place = row.shift > 0 ? b.add(place, row.haloRows - row.shift)
                            : b.sub(b.sub(place, row.shift), length);
      Value inRow = b.mul(ownHead(row.heads), channels);
      row.haloStride = b.mul(row.heads, channels);
      row.haloBase =
          b.at(row.haloPointer, row.element, b.add(b.mul(place, row.haloStride), inRow));
    }
  };
  for (auto [arg, tensor] : llvm::zip(program.getSequenceArgs(), program.getSequences()))
    placeRows(arg, tensor);
  for (auto [arg, tensor] : llvm::zip(program.getOutputArgs(), program.getOutputs()))
    placeRows(arg, tensor);
  for (ValueRange args : {program.getInitialArgs(), program.getFinalArgs()})
    for (Value arg : args)
      if (slots.count(arg)) {
        Type slot = cast<tile::SlotsType>(arg.getType()).getSlot();
        auto vector = dyn_cast<VectorType>(slot);
        slots[arg] = b.at(slots[arg], b.getF32Type(),
                          b.mul(stateIndex, vector ? vector.getNumElements() : 1));
      }
  // Scalars alone: one for each head.
  for (auto [parameter, tensor, arg] :
       llvm::zip(parameters, program.getParameters(), program.getParameterArgs())) {
    Type type = tensorType(tensor).getElementType();
    scalars.map(arg, b.loadLanes(type, b.at(parameter.first, type, ownHead(parameter.second))));
  }
  auto asIndex = [&](Value v) { return b.make<arith::IndexCastOp>(b.getIndexType(), v); };
  scalars.map(program.getLength(), asIndex(length));
  scalars.map(program.getSlice(), asIndex(b.i64(0)));
  scalars.map(program.getHead(), asIndex(head));
  scalars.map(program.getNumHeads(), asIndex(heads));
}

Value CpuTileEmitter::asI64(Value index) {
  return b.make<arith::IndexCastOp>(b.getI64Type(), scalars.lookup(index));
}

//===----------------------------------------------------------------------===//
// The program's ops
//===----------------------------------------------------------------------===//

LogicalResult CpuTileEmitter::emitOps(mlir::Block &block) {
  for (Operation &op : block.without_terminator())
    if (failed(emitOp(&op)))
      return failure();
  return success();
}

/// A branch of two regions, or of one.
LogicalResult CpuTileEmitter::emitBranch(Operation *op, Value condition) {
  // A result that only replaces a carried tile may do so here, if nobody else reads that.
  auto bufferFor = [&](OpResult result) -> Value {
    auto loop = dyn_cast<scf::ForOp>(op->getParentOp());
    auto isInside = [&](Operation *user) { return op->isProperAncestor(user); };
    if (loop && result.hasOneUse())
      for (auto [yielded, arg] : llvm::zip(loop.getYieldedValues(), loop.getRegionIterArgs()))
        if (yielded == result && llvm::all_of(arg.getUsers(), isInside))
          return buffers.lookup(arg);
    return allocateFor(result);
  };
  SmallVector<Value> results;
  for (OpResult result : op->getResults())
    results.push_back(bufferFor(result));
  auto branch = b.make<scf::IfOp>(TypeRange(), scalars.lookup(condition),
                                  /*withElseRegion=*/!op->getRegion(1).empty());
  for (auto [from, to] : llvm::zip(op->getRegions(), branch->getRegions())) {
    if (from.empty())
      continue;
    auto known = std::tuple(buffers, strides, rowPacks, columnPacks, accesses);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&to.front());
    if (failed(emitOps(from.front())))
      return failure();
    SmallVector<std::pair<Value, Value>> targets;
    for (auto [buffer, tile] : llvm::zip(results, from.front().getTerminator()->getOperands()))
      targets.push_back({buffer, tile});
    assign(targets);
    std::tie(buffers, strides, rowPacks, columnPacks, accesses) = known;
  }
  for (auto [result, buffer] : llvm::zip(op->getResults(), results)) {
    buffers[result] = buffer;
    if (packsOfBuffers.lookup(buffer))
      packed.insert(result);
  }
  return success();
}

LogicalResult CpuTileEmitter::emitFor(scf::ForOp op) {
  SmallVector<std::pair<Value, Value>> carried;
  for (auto [start, arg] : llvm::zip(op.getInitArgs(), op.getRegionIterArgs())) {
    carried.push_back({allocateFor(start), start});
    if (Value operand = matmulOperandOf(arg)) {
      rowPacks[operand] = packsOfBuffers[carried.back().first] =
          allocate(dim(arg, 0) * dim(arg, 1) * 2);
      packed.insert(arg);
    }
  }
  assign(carried);
  auto loop = b.make<scf::ForOp>(scalars.lookup(op.getLowerBound()),
                                 scalars.lookup(op.getUpperBound()), scalars.lookup(op.getStep()));
  auto known = std::tuple(buffers, strides, rowPacks, columnPacks, accesses);
  accesses.clear();
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    scalars.map(op.getInductionVar(), loop.getInductionVar());
    for (auto [arg, start] : llvm::zip(op.getRegionIterArgs(), carried))
      buffers[arg] = start.first;
    if (failed(emitOps(*op.getBody())))
      return failure();
    for (auto [target, tile] : llvm::zip(carried, op.getYieldedValues()))
      target.second = tile;
    assign(carried);
  }
  std::tie(buffers, strides, rowPacks, columnPacks, accesses) = known;
  for (auto [result, target] : llvm::zip(op->getResults(), carried))
    buffers[result] = target.first;
  return success();
}

/// Row `position` of a tile, or an element of a vector.
static Value positionOf(vector::ExtractOp op, KernelBuilder &b, llvm::function_ref<Value(Value)> asI64) {
  return op.getStaticPosition()[0] == ShapedType::kDynamic ? asI64(op.getDynamicPosition()[0])
                                                           : b.i64(op.getStaticPosition()[0]);
}

LogicalResult CpuTileEmitter::emitOp(Operation *op) {
  auto copyRow = [&](Value target, llvm::function_ref<Value(Value position)> lanes, int64_t count) {
    b.loop(b.i64(0), b.i64(count), kLanes, {}, [&](Value position, ValueRange) {
      b.storeLanes(lanes(position), b.at(target, b.getF32Type(), position));
      return SmallVector<Value>();
    });
  };
  if (auto load = dyn_cast<tile::LoadOp>(op))
    return this->load(load), success();
  if (auto store = dyn_cast<tile::StoreOp>(op))
    return this->store(store), success();
  if (auto load = dyn_cast<tile::LoadSlotOp>(op))
    return buffers[load.getResult()] = slots.lookup(load.getSlots()), success();
  if (auto store = dyn_cast<tile::StoreSlotOp>(op)) {
    if (Value target = slots.lookup(store.getSlots()))
      write(store.getTile(), target);
    return success();
  }
  if (auto cumsum = dyn_cast<tile::CumsumOp>(op))
    return cumulate(cumsum), success();
  if (auto sum = dyn_cast<tile::SumOp>(op))
    return this->sum(sum), success();
  if (auto guard = dyn_cast<tile::RangeGuardOp>(op))
    return scalars.map(guard.getResult(), guardRange(guard)), success();
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return emitBranch(branch, branch.getCondition());
  if (auto guarded = dyn_cast<tile::GuardedOp>(op))
    return emitBranch(guarded, guarded.getGuard());
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return emitFor(loop);
  if (auto extract = dyn_cast<vector::ExtractOp>(op)) {
    Value source = extract.getSource(), result = extract.getResult();
    Value position = positionOf(extract, b, [&](Value index) { return asI64(index); });
    if (!isTile(result))
      return scalars.map(result, evaluateLine(source, position, 1)), success();
    Value made = allocateFor(result);
    prepare(source);
    copyRow(made, [&](Value column) { return b.widen(evaluate(source, {position, column, 1, 1})[0]); },
            dim(result, 0));
    return buffers[result] = made, success();
  }
  if (auto insert = dyn_cast<vector::InsertOp>(op)) {
    // Into a carried tile that nobody else reads; its next is this one.
    Value target = insert.getDest(), made = buffers.lookup(target);
    if (!isa<BlockArgument>(target) || !target.hasOneUse()) {
      made = allocateFor(target);
      write(target, made);
    }
    int64_t columns = dim(target, 1);
    Value row = insert.getStaticPosition()[0] == ShapedType::kDynamic
                    ? asI64(insert.getDynamicPosition()[0])
                    : b.i64(insert.getStaticPosition()[0]);
    copyRow(b.at(made, b.getF32Type(), b.mul(row, columns)),
            [&](Value column) { return evaluateLine(insert.getValueToStore(), column, kLanes); },
            columns);
    return buffers[insert.getResult()] = made, success();
  }

  if (op->getNumResults() != 1)
    return op->emitError() << "'" << op->getName() << "' has no code for a CPU";
  Value result = op->getResult(0);
  bool takesTiles = llvm::any_of(op->getOperands(), [](Value v) { return isTile(v); });
  if (!isTile(result)) {
    if (takesTiles)
      return op->emitError() << "'" << op->getName() << "' has no code for a CPU";
    b.clone(*op, scalars);
    return success();
  }
  bool isKnown = op->hasTrait<OpTrait::ConstantLike>() ||
                 isa<tile::DotOp, tile::MaskOp, tile::WindowOp, tile::BroadcastOp, vector::BroadcastOp>(
                     op) ||
                 OpTrait::hasElementwiseMappableTraits(op);
  if (!isKnown)
    return op->emitError() << "'" << op->getName() << "' has no code for a CPU";
  if (op->hasTrait<OpTrait::ConstantLike>() || elementOf(result).isInteger(1))
    return success();
  // Vectors are short; of matrices, what is costly and taken twice, or elsewhere.
  bool isTakenOnce =
      result.hasOneUse() && (*result.user_begin())->getBlock() == op->getBlock();
  if (rank(result) == 1 ? !isa<vector::BroadcastOp>(op)
                        : isCostly(result) && (inverseOf(op) ? !scaleRows(op) : !isTakenOnce))
    inMemory(result);
  return success();
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

FailureOr<Kernel> CpuTileEmitter::run(gpu::GPUModuleOp module, SizeName sizeName) {
  b.setInsertionPointToEnd(module.getBody());
  buildSignature(sizeName);
  LogicalResult result = success();
  b.loop(begin, end, 1, {}, [&](Value item, ValueRange) {
    locate(item);
    result = emitOps(program.getBlock());
    return SmallVector<Value>();
  });
  b.make<LLVM::ReturnOp>(ValueRange());
  if (failed(result))
    return failure();
  kernel.threads = 1;
  kernel.gridSizes.push_back({program.getSequences().front(), 2});
  if (Value cu = program.getCuSeqlens())
    kernel.sequencesFrom = cu;
  else
    kernel.gridSizes.push_back({program.getSequences().front(), 0});
  if (stackBytes > kMostStackBytes)
    return program.emitError() << "its kernel needs " << stackBytes << " bytes of stack, of at most "
                               << kMostStackBytes << " that a CPU's kernel may use",
           failure();
  return kernel;
}

FailureOr<Kernel> ejk::emitCpuProgram(tile::ProgramOp program, gpu::GPUModuleOp module,
                                      StringRef name, SizeName sizeName) {
  return CpuTileEmitter(program, name, OpBuilder(program.getContext())).run(module, sizeName);
}
