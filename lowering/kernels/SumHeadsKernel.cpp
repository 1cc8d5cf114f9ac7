//===- SumHeadsKernel.cpp - the kernel of an ejk.sum_heads ----------------===//
//
// Each thread computes one element of the result by summing over its group of heads in order. The
// tensor is viewed as [outer, heads', group, inner] and the result as [outer, heads', inner], so
// adjacent threads read adjacent channels.
//
//===----------------------------------------------------------------------===//
#include "lowering/kernels/SumHeadsKernel.h"

using namespace mlir;
using namespace ejk;

static constexpr unsigned kThreads = 256;

Kernel ejk::emitSumHeadsKernel(SumHeadsOp op, gpu::GPUModuleOp module, StringRef name) {
  KernelBuilder b(OpBuilder(op.getContext()), op.getLoc());
  b.setInsertionPointToEnd(module.getBody());
  auto type = cast<RankedTensorType>(op.getType());
  unsigned rank = type.getRank(), dim = op.getDim();
  Kernel kernel;
  kernel.operands = {
      {op.getTensor(), std::nullopt}, {op.getResult(), std::nullopt}, {op.getTensor(), dim}};
  for (unsigned d = 0; d < rank; ++d)
    kernel.operands.push_back({op.getResult(), d});
  SmallVector<Type> types(2, b.globalPtr());
  types.append(1 + rank, b.getI64Type());
  auto function = gpu::GPUFuncOp::create(b, b.loc, name, b.getFunctionType(types, {}));
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  function.setKnownBlockSizeAttr(b.getDenseI32ArrayAttr({int32_t(kThreads), 1, 1}));
  b.setInsertionPointToStart(&function.getBody().front());
  auto size = [&](unsigned d) { return Value(function.getArgument(3 + d)); };

  Value total = b.i64(1), inner = b.i64(1);
  for (unsigned d = 0; d < rank; ++d) {
    total = b.mul(total, size(d));
    if (d > dim)
      inner = b.mul(inner, size(d));
  }
  Value element = b.add(b.mul(b.wide(b.blockId()), kThreads), b.wide(b.threadId()));
  b.onlyIf(b.less(element, total), [&] {
    Value group = b.div(function.getArgument(2), size(dim));
    Value first = b.add(b.mul(b.mul(b.div(element, inner), group), inner), b.rem(element, inner));
    Value sum = b.loop(b.i64(0), group, 1, b.f32(0.0), [&](Value g, ValueRange sums) {
                   Value address =
                       b.at(function.getArgument(0), b.getF32Type(), b.add(first, b.mul(g, inner)));
                   Value term = b.load(b.getF32Type(), address);
                   return SmallVector<Value>{b.make<arith::AddFOp>(sums[0], term)};
                 }).front();
    if (!type.getElementType().isF32())
      sum = b.make<arith::TruncFOp>(type.getElementType(), sum);
    b.store(sum, b.at(function.getArgument(1), type.getElementType(), element));
  });
  b.make<gpu::ReturnOp>();
  kernel.function = function;
  kernel.threads = kThreads;
  kernel.gridDivisor = kThreads;
  for (unsigned d = 0; d < rank; ++d)
    kernel.gridSizes.push_back({op.getResult(), d});
  return kernel;
}
