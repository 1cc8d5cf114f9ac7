//===- ElementKernel.cpp - kernels whose threads compute elements ---------===//
#include "lowering/kernels/ElementKernel.h"
#include "lowering/target/CostModel.h"

using namespace mlir;
using namespace ejk;

gpu::GPUFuncOp ejk::makeElementKernel(KernelBuilder &b, Kernel &kernel, StringRef name) {
  auto types = llvm::map_to_vector(kernel.operands, [&](const KernelOperand &operand) -> Type {
    bool isNumber = operand.dim || operand.number != KernelOperand::Number::none;
    return isNumber ? Type(b.getI64Type()) : b.globalPtr();
  });
  auto function = gpu::GPUFuncOp::create(b, b.loc, name, b.getFunctionType(types, {}));
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  function.setKnownBlockSizeAttr(b.getDenseI32ArrayAttr({int32_t(cost::kElementThreads), 1, 1}));
  b.setInsertionPointToStart(&function.getBody().front());
  kernel.function = function;
  kernel.threads = cost::kElementThreads;
  return function;
}
