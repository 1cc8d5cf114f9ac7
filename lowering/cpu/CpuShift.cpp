//===- CpuShift.cpp - rows of other steps, on a CPU -----------------------===//
//
// An item of the grid is one row of the result, which is a copy of another row or zero.
//
//===----------------------------------------------------------------------===//
#include "lowering/cpu/CpuShift.h"
#include "lowering/cpu/CpuBuilder.h"
#include "lowering/kernels/ShiftKernel.h"

using namespace mlir;
using namespace ejk;

/// The elements that are copied at once.
static constexpr unsigned kWidth = 16;

Kernel ejk::emitCpuShift(Operation *op, gpu::GPUModuleOp module, StringRef name) {
  CpuBuilder b(OpBuilder(op->getContext()), op->getLoc());
  b.setInsertionPointToEnd(module.getBody());
  RowCopies copies(op);
  Kernel kernel;
  kernel.operands = copies.operands();
  LLVM::LLVMFuncOp function = makeCpuFunction(b, name);
  kernel.function = cast<FunctionOpInterface>(function.getOperation());
  unsigned next = 0;
  RowCopies::Arguments given = copies.take(b, [&](bool isPointer) {
    return cpuArgument(b, function, next++, isPointer ? Type(b.pointer()) : b.getI64Type());
  });
  Type element = copies.element();
  b.loop(function.getArgument(1), function.getArgument(2), 1, {}, [&](Value item, ValueRange) {
    RowCopies::Source source = copies.find(b, given, item);
    Value to = b.at(given.result, element, b.mul(item, given.rowSize));
    Value whole = b.mul(b.div(given.rowSize, kWidth), kWidth);
    auto fill = [&](llvm::function_ref<Value(Type, Value position)> valueAt) {
      for (unsigned width : {kWidth, 1u})
        b.loop(width > 1 ? b.i64(0) : whole, width > 1 ? whole : given.rowSize, width, {},
               [&](Value position, ValueRange) {
                 Type type = CpuBuilder::withCount(element, width);
                 b.storeLanes(valueAt(type, position), b.at(to, element, position));
                 return SmallVector<Value>();
               });
    };
    auto branch = b.make<scf::IfOp>(TypeRange(), source.exists, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    fill([&](Type type, Value position) {
      return b.loadLanes(type, b.at(source.address, element, position));
    });
    b.setInsertionPointToStart(branch.elseBlock());
    fill([&](Type type, Value) { return b.zero(type); });
    return SmallVector<Value>();
  });
  b.make<LLVM::ReturnOp>(ValueRange());
  kernel.threads = 1;
  kernel.gridSizes = {{copies.result, 0}, {copies.result, 1}};
  return kernel;
}
