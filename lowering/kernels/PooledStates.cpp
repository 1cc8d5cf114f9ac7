//===- PooledStates.cpp - states that kernels keep in pools ---------------===//
#include "lowering/kernels/PooledStates.h"
#include "lowering/target/CostModel.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace ejk;

//===----------------------------------------------------------------------===//
// What a scan's kernel does
//===----------------------------------------------------------------------===//

void PoolUse::addPool(Value pool) {
  if (!llvm::is_contained(pools, pool))
    pools.push_back(pool);
}

bool PoolUse::writesPerRow() const { return writeIndex && tensorType(writeIndex).getRank() == 2; }

PoolUse PoolUse::of(Operation *op) {
  PoolUse use;
  if (auto read = dyn_cast<ReadStatesOp>(op)) {
    use.readIndex = read.getIndex();
    use.accepted = read.getAccepted();
    use.firstSlot = read.getFirstSlot();
    use.addPool(read.getPool());
  } else if (auto write = dyn_cast<WriteStatesOp>(op)) {
    use.writeIndex = write.getIndex();
    use.firstSlot = write.getFirstSlot();
    use.addPool(write.getPool());
  } else {
    auto zero = cast<ZeroSkippedOp>(op);
    use.readIndex = zero.getIndices().front();
    if (zero.getIndices().size() > 1)
      use.writeIndex = zero.getIndices().back();
    use.firstSlot = zero.getFirstSlot();
    use.addPool(zero.getPool());
  }
  return use;
}

/// The op that `value` is for alone; null where there is none or another one.
template <typename Op> static Op onlyUser(Value value) {
  return value.hasOneUse() ? dyn_cast<Op>(*value.user_begin()) : Op();
}

PooledScan::PooledScan(ScanOp scan) {
  for (unsigned i = 0; i < scan.getNumStates(); ++i) {
    Value initial = scan.getInitialState(i);
    auto start = initial && initial.hasOneUse() ? initial.getDefiningOp<ReadStatesOp>() : nullptr;
    auto end = onlyUser<WriteStatesOp>(scan.getFinalStates()[i]);
    // Blocks have columns of a matrix for themselves. A vector is every block's to read and one's to
    // write, which others must not see: it is copied.
    bool isMatrix = tensorType(scan.getFinalStates()[i]).getRank() == 4;
    starts.push_back(isMatrix ? start : ReadStatesOp());
    ends.push_back(isMatrix && end && !end.isPerRow() ? end : WriteStatesOp());
  }
  for (Value save : scan.getSaves()) {
    auto write = onlyUser<WriteStatesOp>(save);
    bool isOwn = write && write.isPerRow() && write.getCuSeqlens() == scan.getCuSeqlens() &&
                 *scan.getSaveEvery() == 1;
    saves.push_back(isOwn ? write : WriteStatesOp());
  }
  for (Value output : scan.getOutputs())
    cleared.push_back(onlyUser<ZeroSkippedOp>(output));
  if (scan.getSegments() || !addAll(scan))
    *this = PooledScan();
  for (ZeroSkippedOp &zero : cleared) {
    if (!zero)
      continue;
    auto hasIndex = [&](Value index) { return !index || llvm::is_contained(zero.getIndices(), index); };
    bool isOwn = llvm::is_contained(use.pools, zero.getPool()) && hasIndex(use.readIndex) &&
                 hasIndex(use.writeIndex) && int64_t(zero.getFirstSlot()) == use.firstSlot &&
                 zero.getCuSeqlens() == scan.getCuSeqlens() &&
                 llvm::all_of(zero.getIndices(), [&](Value index) {
                   return index == use.readIndex || index == use.writeIndex;
                 });
    if (!isOwn)
      zero = {};
  }
}

/// Takes over what the ops say; fails where two differ, or others use a pool.
bool PooledScan::addAll(ScanOp scan) {
  bool isFirst = true;
  auto agrees = [&](PoolUse other, Value PoolUse::*index) {
    if (!isFirst && use.firstSlot != other.firstSlot)
      return false;
    isFirst = false;
    use.firstSlot = other.firstSlot;
    use.addPool(other.pools.front());
    if (use.*index && use.*index != other.*index)
      return false;
    use.*index = other.*index;
    return true;
  };
  for (ReadStatesOp start : starts) {
    if (!start)
      continue;
    bool isFirstRead = !use.readIndex;
    if (!agrees(PoolUse::of(start), &PoolUse::readIndex) ||
        (!isFirstRead && use.accepted != start.getAccepted()))
      return false;
    use.accepted = start.getAccepted();
  }
  for (ArrayRef<WriteStatesOp> writes : {ArrayRef(ends), ArrayRef(saves)})
    for (WriteStatesOp write : writes)
      if (write && !agrees(PoolUse::of(write), &PoolUse::writeIndex))
        return false;
  auto isGiven = [](WriteStatesOp write) { return bool(write); };
  if (llvm::any_of(saves, isGiven) && !llvm::all_of(saves, isGiven))
    return false;
  for (Value pool : use.pools)
    for (Operation *user : pool.getUsers())
      // A copy that is made before the scan starts has what was there.
      if (!isa<tensor::DimOp, ZeroSkippedOp>(user) && !holds(user) &&
          !(isa<ReadStatesOp>(user) && user->isBeforeInBlock(scan)))
        return false;
  return !use.pools.empty();
}

bool PooledScan::holds(Operation *op) const {
  auto isOp = [&](auto other) { return other && other == op; };
  return llvm::any_of(starts, isOp) || llvm::any_of(ends, isOp) || llvm::any_of(saves, isOp) ||
         llvm::any_of(cleared, isOp);
}

bool PooledScan::valueMajor() {
  return llvm::any_of(starts, [](ReadStatesOp op) { return op && op.getValueMajor(); }) ||
         llvm::any_of(ends, [](WriteStatesOp op) { return op && op.getValueMajor(); }) ||
         llvm::any_of(saves, [](WriteStatesOp op) { return op && op.getValueMajor(); });
}

//===----------------------------------------------------------------------===//
// Arguments and slots
//===----------------------------------------------------------------------===//

void PoolArguments::add(KernelSignature &signature, Index &index, Value tensor) {
  index.tensor = tensor;
  if (tensor)
    signature.addTensor(tensor, /*isReadOnly=*/true);
}

void PoolArguments::addTensors(KernelSignature &signature) {
  add(signature, read, use.readIndex);
  add(signature, accepted, use.accepted);
  if (use.writeIndex != use.readIndex)
    add(signature, write, use.writeIndex);
}

void PoolArguments::addSizes(KernelSignature &signature) {
  for (Index *index : {&read, &write})
    if (index->tensor && tensorType(index->tensor).getRank() == 2)
      index->rowsNumber = signature.addSize(index->tensor, 1);
  for (Value pool : use.pools) {
    sizeNumbers.push_back(signature.addSize(pool, 0));
    strideNumbers.push_back(signature.addSlotStride(pool));
  }
}

void PoolArguments::takeTensors(llvm::function_ref<Value()> take) {
  for (Index *index : {&read, &accepted, &write})
    if (index->tensor)
      index->pointer = take();
}

void PoolArguments::takeSizes(llvm::function_ref<Value(unsigned)> size) {
  for (Index *index : {&read, &write})
    if (index->rowsNumber)
      index->rows = size(*index->rowsNumber);
  for (unsigned number : sizeNumbers)
    sizes.push_back(size(number));
  for (unsigned number : strideNumbers)
    strides.push_back(size(number));
  // One index for reads and writes is one argument.
  if (use.writeIndex && use.writeIndex == use.readIndex)
    write = read;
}

/// Entry `entry`, as an i64; 0 unless `exists`.
Value PoolArguments::load(KernelBuilder &b, const Index &index, Value entry, Value exists) {
  Type type = getElementTypeOrSelf(index.tensor.getType());
  Value loaded = b.loadIf(exists, type, [&] { return b.at(index.pointer, type, entry); });
  return type.isInteger(32) ? b.make<arith::ExtSIOp>(b.getI64Type(), loaded).getResult() : loaded;
}

Value PoolArguments::isSlot(KernelBuilder &b, Value slot) {
  return b.both(b.less(b.i64(use.firstSlot - 1), slot), b.less(slot, numSlots));
}

/// Whether one of the sequence's entries is a slot.
Value PoolArguments::anySlot(KernelBuilder &b, const Index &index) {
  if (!index.rows)
    return isSlot(b, load(b, index, sequence));
  Value first = b.mul(sequence, index.rows), no = b.make<arith::ConstantIntOp>(0, 1);
  return b.loop(b.i64(0), index.rows, 1, {no}, [&](Value row, ValueRange found) {
    Value one = isSlot(b, load(b, index, b.add(first, row)));
    return SmallVector<Value>{b.make<arith::OrIOp>(found[0], one)};
  })[0];
}

void PoolArguments::locate(KernelBuilder &b, Value ofSequence) {
  sequence = ofSequence;
  isActive = start = hasStart = end = hasEnd = {};
  numSlots = sizes.front();
  for (Value size : ArrayRef(sizes).drop_front())
    numSlots = b.min(numSlots, size);
  if (read.tensor && (accepted.tensor || !read.rows)) {
    if (accepted.tensor) {
      Value row = b.sub(b.max(b.min(load(b, accepted, sequence), read.rows), b.i64(1)), 1);
      Value hasRows = b.less(b.i64(0), read.rows);
      start = load(b, read, b.add(b.mul(sequence, read.rows), row), hasRows);
      hasStart = b.both(hasRows, isSlot(b, start));
    } else {
      start = load(b, read, sequence);
      hasStart = isSlot(b, start);
    }
  }
  bool isOne = write.tensor == read.tensor;
  if (write.tensor && !write.rows) {
    end = isOne ? start : load(b, write, sequence);
    hasEnd = isOne ? hasStart : isSlot(b, end);
  }
  Value active = read.tensor ? (read.rows ? anySlot(b, read) : hasStart) : Value();
  if (write.tensor && !isOne) {
    Value writes = write.rows ? anySlot(b, write) : hasEnd;
    active = active ? b.make<arith::OrIOp>(active, writes).getResult() : writes;
  }
  isActive = active;
  // Where one index decides, an active sequence has its slot.
  if (hasStart == active)
    hasStart = {};
  if (hasEnd == active)
    hasEnd = {};
  if (isOne && end && !hasStart)
    hasEnd = {};
}

PoolArguments::Slot PoolArguments::slotAfter(KernelBuilder &b, Value row) {
  Value isIndexed = b.less(row, write.rows);
  Value slot = load(b, write, b.add(b.mul(sequence, write.rows), row), isIndexed);
  return {slot, b.both(isIndexed, isSlot(b, slot))};
}

Value PoolArguments::placeOf(KernelBuilder &b, Value pool, Value slot, Value head,
                             int64_t elements) {
  unsigned number = llvm::find(use.pools, pool) - use.pools.begin();
  return b.add(b.mul(slot, strides[number]), b.mul(head, elements));
}

//===----------------------------------------------------------------------===//
// Kernels of their own
//===----------------------------------------------------------------------===//

PoolKernelOp::PoolKernelOp(Operation *op) : op(op) {
  if (auto read = dyn_cast<ReadStatesOp>(op)) {
    memory = read.getPool();
    states = read.getStates();
    isRead = true;
    valueMajor = read.getValueMajor();
  } else if (auto write = dyn_cast<WriteStatesOp>(op)) {
    memory = write.getResult();
    states = write.getStates();
    valueMajor = write.getValueMajor();
  } else {
    auto zero = cast<ZeroSkippedOp>(op);
    rows = zero.getResult();
    cuSeqlens = zero.getCuSeqlens();
  }
}

LogicalResult PoolKernelOp::check() const {
  auto write = dyn_cast<WriteStatesOp>(op);
  if (write && write.isPerRow())
    return op->emitError("writes states after each row, which only the step-by-step kernel of the "
                         "scan that saves them does: its pool ops must have one index to read, one "
                         "to write and one 'first_slot', and nothing else may use pool or states");
  return success();
}

unsigned PoolKernelOp::addTensors(KernelSignature &signature, PoolArguments &pools) const {
  for (Value tensor : {memory, states, rows, cuSeqlens})
    if (tensor)
      signature.addTensor(tensor, /*isReadOnly=*/false);
  pools.addTensors(signature);
  return signature.numTensors();
}

int64_t PoolKernelOp::elements() const {
  RankedTensorType type = copiedType();
  int64_t count = 1;
  for (int64_t size : type.getShape().drop_front(states ? 2 : 3))
    count *= size;
  return count;
}

Value PoolKernelOp::placeInSlot(KernelBuilder &b, Value element) const {
  if (!valueMajor)
    return element;
  int64_t keys = copiedType().getDimSize(2), values = copiedType().getDimSize(3);
  return b.add(b.mul(b.rem(element, values), keys), b.div(element, values));
}

/// Blocks that clear the rows of one sequence together.
static constexpr int64_t kClearingBlocks = 8;

FailureOr<Kernel> ejk::emitPoolKernel(Operation *op, gpu::GPUModuleOp module, StringRef name) {
  PoolKernelOp copy(op);
  if (failed(copy.check()))
    return failure();
  constexpr unsigned threads = cost::kElementThreads;
  KernelBuilder b(OpBuilder(op->getContext()), op->getLoc());
  b.setInsertionPointToEnd(module.getBody());
  Kernel kernel;
  // Sizes are arguments of their own.
  unsigned count = 0;
  auto ownSize = [&](Value, unsigned) { return std::to_string(count++); };
  KernelSignature signature(kernel, ownSize);
  PoolArguments pools(PoolUse::of(op));
  unsigned numPointers = copy.addTensors(signature, pools);
  unsigned outer = copy.states ? signature.addSize(copy.states, 0) : signature.addSize(copy.rows, 1);
  unsigned heads = copy.states ? signature.addSize(copy.states, 1) : 0;
  SmallVector<unsigned> inRow;
  for (int64_t d = 2, rank = copy.states ? 0 : copy.copiedType().getRank(); d < rank; ++d)
    inRow.push_back(signature.addSize(copy.rows, d));
  pools.addSizes(signature);
  auto function = signature.makeFunction(b, name);
  function.setKnownBlockSizeAttr(b.getDenseI32ArrayAttr({int32_t(threads), 1, 1}));
  kernel.function = function;
  kernel.threads = threads;
  b.setInsertionPointToStart(&function.getBody().front());
  unsigned next = 0;
  auto take = [&] { return Value(function.getArgument(next++)); };
  Value memory = copy.memory ? take() : Value(), copied = take();
  Value offsets = copy.cuSeqlens ? take() : Value();
  pools.takeTensors(take);
  auto size = [&](unsigned i) { return Value(function.getArgument(numPointers + i)); };
  pools.takeSizes(size);
  Value thread = b.wide(b.threadId()), block = b.wide(b.blockId());
  Type element = copy.copiedType().getElementType();

  if (copy.states) {
    int64_t each = copy.elements();
    Value index = b.add(b.mul(block, threads), thread);
    Value state = b.div(index, each), inState = b.rem(index, each);
    b.onlyIf(b.less(state, b.mul(size(outer), size(heads))), [&] {
      pools.locate(b, b.div(state, size(heads)));
      Value pool = copy.isRead ? cast<ReadStatesOp>(op).getPool() : cast<WriteStatesOp>(op).getPool();
      Type stored = tensorType(pool).getElementType();
      auto inPool = [&] {
        Value first = pools.placeOf(b, pool, copy.isRead ? pools.start : pools.end,
                                    b.rem(state, size(heads)), each);
        return b.at(memory, stored, b.add(first, copy.placeInSlot(b, inState)));
      };
      Value own = b.at(copied, element, index);
      // With one index, a sequence is active where it has the slot.
      Value exists = copy.isRead && pools.hasStart ? pools.hasStart : pools.isActive;
      if (copy.isRead) {
        Value x = b.loadIf(exists, stored, inPool);
        b.store(stored.isF32() ? x : b.make<arith::ExtFOp>(element, x).getResult(), own);
        return;
      }
      b.onlyIf(exists, [&] {
        Value x = b.load(element, own);
        b.store(stored.isF32() ? x : b.make<arith::TruncFOp>(stored, x).getResult(), inPool());
      });
    });
    kernel.gridDivisor = threads;
    for (int64_t d = 0; d < copy.copiedType().getRank(); ++d)
      kernel.gridSizes.push_back({copy.states, unsigned(d)});
  } else {
    Value sequence = b.div(block, kClearingBlocks);
    pools.locate(b, sequence);
    Value isSkipped = b.make<arith::XOrIOp>(pools.isActive, b.make<arith::ConstantIntOp>(1, 1));
    b.onlyIf(isSkipped, [&] {
      Value first = b.mul(sequence, size(outer)), length = size(outer);
      if (offsets) {
        Type type = getElementTypeOrSelf(copy.cuSeqlens.getType());
        auto offset = [&](Value entry) {
          Value x = b.resize(b.load(type, b.at(offsets, type, entry)), b.getI64Type(), true);
          return b.min(b.max(x, b.i64(0)), size(outer));
        };
        first = offset(sequence);
        length = b.max(b.sub(offset(b.add(sequence, 1)), first), b.i64(0));
      }
      Value row = b.i64(1);
      for (unsigned i : inRow)
        row = b.mul(row, size(i));
      Value begin = b.add(b.mul(b.rem(block, kClearingBlocks), threads), thread);
      b.loop(begin, b.mul(length, row), kClearingBlocks * threads, {}, [&](Value i, ValueRange) {
        b.store(b.zero(element), b.at(copied, element, b.add(b.mul(first, row), i)));
        return SmallVector<Value>();
      });
    });
    kernel.gridFactor = kClearingBlocks;
    if (copy.cuSeqlens)
      kernel.sequencesFrom = copy.cuSeqlens;
    else
      kernel.gridSizes.push_back({copy.rows, 0});
  }
  b.make<gpu::ReturnOp>();
  return kernel;
}
