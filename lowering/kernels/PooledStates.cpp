//===- PooledStates.cpp - states that a scan's kernel keeps in a pool -----===//
//
// A kernel that reads a state from a pool and writes it there spares a copy in each direction.
// All of its threads have read what they write, and nobody else reads it.
//
//===----------------------------------------------------------------------===//
#include "lowering/kernels/PooledStates.h"
#include "lowering/kernels/ElementKernel.h"
#include "lowering/target/CostModel.h"

using namespace mlir;
using namespace ejk;

static constexpr unsigned kThreads = cost::kElementThreads;

PooledState ejk::pooledState(ScanOp scan, unsigned i) {
  PooledState state;
  Value initial = scan.getInitialState(i), final = scan.getFinalStates()[i];
  if (initial)
    state.start = initial.getDefiningOp<ReadStatesOp>();
  if (final.hasOneUse())
    state.end = dyn_cast<WriteStatesOp>(*final.user_begin());
  if (state.end && state.end.getStates() != final)
    state.end = {};
  if (state.start && !state.start->hasOneUse())
    state.start = {};
  if (state.start && state.end &&
      (state.start.getPool() != state.end.getPool() ||
       state.start.getIndex() != state.end.getIndex()))
    return {};
  if (!state)
    return {};
  for (Operation *user : state.pool().getUsers())
    if (user != state.start && user != state.end)
      return {};
  return state;
}

Kernel ejk::emitPoolCopyKernel(Operation *op, gpu::GPUModuleOp module, StringRef name) {
  KernelBuilder b(OpBuilder(op->getContext()), op->getLoc());
  b.setInsertionPointToEnd(module.getBody());
  auto read = dyn_cast<ReadStatesOp>(op);
  auto write = dyn_cast<WriteStatesOp>(op);
  Value pool = read ? read.getPool() : write.getResult();
  Value index = read ? read.getIndex() : write.getIndex();
  Value states = read ? read.getStates() : write.getStates();
  auto poolType = cast<RankedTensorType>(pool.getType());
  Type indexType = cast<RankedTensorType>(index.getType()).getElementType();
  Kernel kernel;
  kernel.operands = {{pool, std::nullopt}, {index, std::nullopt}, {states, std::nullopt},
                     {pool, 0}, {states, 0}, {states, 1}};
  gpu::GPUFuncOp function = makeElementKernel(b, kernel, name);
  auto arg = [&](unsigned i) { return Value(function.getArgument(i)); };
  int64_t channels = poolType.getDimSize(2) * poolType.getDimSize(3);
  Value each = b.mul(arg(5), channels);
  Value element = b.add(b.mul(b.wide(b.blockId()), kThreads), b.wide(b.threadId()));
  b.onlyIf(b.less(element, b.mul(arg(4), each)), [&] {
    Value place = b.load(indexType, b.at(arg(1), indexType, b.div(element, each)));
    if (indexType.isInteger(32))
      place = b.make<arith::ExtSIOp>(b.getI64Type(), place);
    Value exists = b.both(b.less(b.i64(-1), place), b.less(place, arg(3)));
    auto inPool = [&] {
      return b.at(arg(0), poolType.getElementType(),
                  b.add(b.mul(place, each), b.rem(element, each)));
    };
    Value own = b.at(arg(2), b.getF32Type(), element);
    if (read) {
      Value x = b.loadIf(exists, poolType.getElementType(), inPool);
      if (!x.getType().isF32())
        x = b.make<arith::ExtFOp>(b.getF32Type(), x);
      b.store(x, own);
      return;
    }
    b.onlyIf(exists, [&] {
      Value x = b.load(b.getF32Type(), own);
      if (!poolType.getElementType().isF32())
        x = b.make<arith::TruncFOp>(poolType.getElementType(), x);
      b.store(x, inPool());
    });
  });
  b.make<gpu::ReturnOp>();
  kernel.gridDivisor = kThreads;
  kernel.gridFactor = 1;
  for (unsigned d = 0; d < 4; ++d)
    kernel.gridSizes.push_back({states, d});
  return kernel;
}
