//===- HeadsKernel.cpp - the kernel of repeat_heads and first_heads -------===//
//
// Each thread copies elements of the result, four of them in 16 bytes where a head's number of
// elements allows that.
//
//===----------------------------------------------------------------------===//
#include "lowering/kernels/HeadsKernel.h"
#include "lowering/kernels/ElementKernel.h"
#include "lowering/target/CostModel.h"

using namespace mlir;
using namespace ejk;

int64_t ejk::elementsOfHead(Value states) {
  int64_t count = 1;
  for (int64_t size : cast<RankedTensorType>(states.getType()).getShape().drop_front(2))
    count *= size;
  return count;
}

Kernel ejk::emitHeadsKernel(Operation *op, gpu::GPUModuleOp module, StringRef name) {
  KernelBuilder b(OpBuilder(op->getContext()), op->getLoc());
  b.setInsertionPointToEnd(module.getBody());
  Value states = op->getOperand(0), result = op->getResult(0);
  int64_t inner = elementsOfHead(result);
  unsigned elements = inner % kElementsOfLoad ? 1 : kElementsOfLoad;
  Kernel kernel;
  kernel.operands = {
      {states, std::nullopt}, {result, std::nullopt}, {states, 1}, {result, 1}, {result, 0}};
  gpu::GPUFuncOp function = makeElementKernel(b, kernel, name);
  auto arg = [&](unsigned i) { return Value(function.getArgument(i)); };
  Value from = arg(2), to = arg(3), total = b.mul(b.mul(arg(4), to), inner);
  Value thread = b.add(b.mul(b.wide(b.blockId()), cost::kElementThreads), b.wide(b.threadId()));
  Value element = b.mul(thread, elements);
  b.onlyIf(b.less(element, total), [&] {
    HeadSource source(op);
    Value head = b.div(element, inner);
    Type type = KernelBuilder::withCount(b.getF32Type(), elements);
    Value copied = b.loadIf(source.exists(b, head, from, to), type, [&] {
      Value there = b.mul(source.of(b, head, from, to), inner);
      return b.at(arg(0), b.getF32Type(), b.add(there, b.rem(element, inner)));
    });
    b.store(copied, b.at(arg(1), b.getF32Type(), element));
  });
  b.make<gpu::ReturnOp>();
  kernel.gridDivisor = cost::kElementThreads * elements;
  for (int64_t d = 0, rank = cast<RankedTensorType>(result.getType()).getRank(); d < rank; ++d)
    kernel.gridSizes.push_back({result, unsigned(d)});
  return kernel;
}
