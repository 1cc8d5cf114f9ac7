//===- SumHeadsKernel.cpp - the kernel of an ejk.sum_heads ----------------===//
//
// Each thread computes elements of the result by summing over their group of heads in order. The
// tensor is viewed as [outer, heads', group, inner] and the result as [outer, heads', inner], so
// adjacent threads read adjacent channels: four of them in a load of 16 bytes where the number of
// channels is known to allow that, else one.
//
//===----------------------------------------------------------------------===//
#include "lowering/kernels/SumHeadsKernel.h"
#include "lowering/kernels/ElementKernel.h"
#include "lowering/target/CostModel.h"

using namespace mlir;
using namespace ejk;

/// How many of the result's elements, of one head, a thread computes.
static unsigned elementsOfThread(RankedTensorType type, unsigned dim) {
  bool isDivisible = dim + 1 < type.getRank() && !type.isDynamicDim(type.getRank() - 1) &&
                     type.getShape().back() % kElementsOfLoad == 0;
  return isDivisible ? kElementsOfLoad : 1;
}

Kernel ejk::emitSumHeadsKernel(SumHeadsOp op, gpu::GPUModuleOp module, StringRef name) {
  KernelBuilder b(OpBuilder(op.getContext()), op.getLoc());
  b.setInsertionPointToEnd(module.getBody());
  auto type = cast<RankedTensorType>(op.getType());
  unsigned rank = type.getRank(), dim = op.getDim(), elements = elementsOfThread(type, dim);
  Kernel kernel;
  kernel.operands = {
      {op.getTensor(), std::nullopt}, {op.getResult(), std::nullopt}, {op.getTensor(), dim}};
  for (unsigned d = 0; d < rank; ++d)
    kernel.operands.push_back({op.getResult(), d});
  gpu::GPUFuncOp function = makeElementKernel(b, kernel, name);
  auto size = [&](unsigned d) {
    return type.isDynamicDim(d) ? Value(function.getArgument(3 + d)) : b.i64(type.getDimSize(d));
  };
  auto ofThread = [&](Type element) {
    return elements == 1 ? element : VectorType::get({int64_t(elements)}, element);
  };
  Type f32 = ofThread(b.getF32Type());

  Value total = b.i64(1), inner = b.i64(1);
  for (unsigned d = 0; d < rank; ++d) {
    total = b.mul(total, size(d));
    if (d > dim)
      inner = b.mul(inner, size(d));
  }
  Value thread = b.add(b.mul(b.wide(b.blockId()), cost::kElementThreads), b.wide(b.threadId()));
  Value element = b.mul(thread, elements);
  b.onlyIf(b.less(element, total), [&] {
    // Heads are few, and a division of 64 bits takes several of 32.
    Value group = b.wide(b.div(b.narrow(function.getArgument(2)), b.narrow(size(dim))));
    Value first = b.add(b.mul(b.mul(b.div(element, inner), group), inner), b.rem(element, inner));
    Value sum = b.loop(b.i64(0), group, 1, b.zero(f32), [&](Value g, ValueRange sums) {
                   Value address =
                       b.at(function.getArgument(0), b.getF32Type(), b.add(first, b.mul(g, inner)));
                   Value term = b.load(f32, address);
                   return SmallVector<Value>{b.make<arith::AddFOp>(sums[0], term)};
                 }).front();
    if (!type.getElementType().isF32())
      sum = b.make<arith::TruncFOp>(ofThread(type.getElementType()), sum);
    b.store(sum, b.at(function.getArgument(1), type.getElementType(), element));
  });
  b.make<gpu::ReturnOp>();
  kernel.gridDivisor = cost::kElementThreads * elements;
  for (unsigned d = 0; d < rank; ++d)
    kernel.gridSizes.push_back({op.getResult(), d});
  return kernel;
}
