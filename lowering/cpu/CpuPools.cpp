//===- CpuPools.cpp - copies of states in pools, on a CPU -----------------===//
#include "lowering/cpu/CpuPools.h"
#include "lowering/cpu/CpuBuilder.h"

using namespace mlir;
using namespace ejk;

/// An item is a head's state, or the rows of a sequence.
FailureOr<Kernel> ejk::emitCpuPool(Operation *op, gpu::GPUModuleOp module, StringRef name) {
  PoolKernelOp copy(op);
  if (failed(copy.check()))
    return failure();
  CpuBuilder b(OpBuilder(op->getContext()), op->getLoc());
  b.setInsertionPointToEnd(module.getBody());
  Kernel kernel;
  // Sizes are arguments of their own.
  unsigned count = 0;
  auto ownSize = [&](Value, unsigned) { return std::to_string(count++); };
  KernelSignature signature(kernel, ownSize);
  PoolArguments pools(PoolUse::of(op));
  unsigned numTensors = copy.addTensors(signature, pools);
  signature.addSize(copy.states ? copy.states : copy.rows, 1);
  if (copy.rows)
    for (int64_t d = 2, rank = copy.copiedType().getRank(); d < rank; ++d)
      signature.addSize(copy.rows, d);
  pools.addSizes(signature);

  LLVM::LLVMFuncOp function = makeCpuFunction(b, name);
  kernel.function = cast<FunctionOpInterface>(function.getOperation());
  unsigned next = 0;
  auto take = [&] { return cpuArgument(b, function, next++, b.pointer()); };
  Value memory = copy.memory ? take() : Value(), copied = take();
  Value offsets = copy.cuSeqlens ? take() : Value();
  pools.takeTensors(take);
  auto size = [&](unsigned i) {
    return cpuArgument(b, function, numTensors + i, b.getI64Type());
  };
  pools.takeSizes(size);
  Type element = copy.copiedType().getElementType();

  auto copyState = [&](Value item) {
    Value heads = size(0);
    int64_t each = copy.elements();
    pools.locate(b, b.div(item, heads));
    Value pool = copy.isRead ? cast<ReadStatesOp>(op).getPool() : cast<WriteStatesOp>(op).getPool();
    Type stored = getElementTypeOrSelf(pool.getType());
    Value exists = copy.isRead && pools.hasStart ? pools.hasStart : pools.isActive;
    auto move = [&](Value e) {
      auto inPool = [&] {
        Value first = pools.placeOf(b, pool, copy.isRead ? pools.start : pools.end,
                                    b.rem(item, heads), each);
        return b.at(memory, stored, b.add(first, copy.placeInSlot(b, e)));
      };
      Value own = b.at(copied, element, b.add(b.mul(item, each), e));
      if (copy.isRead)
        b.storeLanes(b.widen(b.loadLanes(stored, inPool())), own);
      else
        b.storeLanes(b.roundTo(stored, b.loadLanes(element, own)), inPool());
    };
    auto overElements = [&](llvm::function_ref<void(Value)> body) {
      b.loop(b.i64(0), b.i64(each), 1, {}, [&](Value e, ValueRange) {
        body(e);
        return SmallVector<Value>();
      });
    };
    auto branch = b.make<scf::IfOp>(TypeRange(), exists, /*withElseRegion=*/copy.isRead);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    overElements(move);
    if (!copy.isRead)
      return;
    b.setInsertionPointToStart(branch.elseBlock());
    overElements([&](Value e) {
      b.storeLanes(b.zero(element), b.at(copied, element, b.add(b.mul(item, each), e)));
    });
  };
  auto clearRows = [&](Value sequence) {
    pools.locate(b, sequence);
    Value isSkipped = b.make<arith::XOrIOp>(pools.isActive, b.make<arith::ConstantIntOp>(1, 1));
    b.onlyIf(isSkipped, [&] {
      CpuBuilder::RowRange range = b.rowsOf(sequence, size(0), copy.cuSeqlens, offsets);
      Value row = b.i64(1);
      for (int64_t d = 2, rank = copy.copiedType().getRank(); d < rank; ++d)
        row = b.mul(row, size(unsigned(d - 1)));
      Value first = b.mul(range.first, row);
      b.loop(b.i64(0), b.mul(range.length, row), 1, {}, [&](Value e, ValueRange) {
        b.storeLanes(b.zero(element), b.at(copied, element, b.add(first, e)));
        return SmallVector<Value>();
      });
    });
  };
  b.loop(function.getArgument(1), function.getArgument(2), 1, {}, [&](Value item, ValueRange) {
    if (copy.states)
      copyState(item);
    else
      clearRows(item);
    return SmallVector<Value>();
  });
  b.make<LLVM::ReturnOp>(ValueRange());
  kernel.threads = 1;
  if (copy.states)
    kernel.gridSizes = {{copy.states, 0}, {copy.states, 1}};
  else if (copy.cuSeqlens)
    kernel.sequencesFrom = copy.cuSeqlens;
  else
    kernel.gridSizes = {{copy.rows, 0}};
  return kernel;
}
