//===- SeparateKernels.cpp - a module for each kernel ---------------------===//
#include "lowering/Passes.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <optional>

namespace ejk {
#define GEN_PASS_DEF_SEPARATEKERNELS
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;

namespace {
struct SeparateKernelsPass : ejk::impl::SeparateKernelsBase<SeparateKernelsPass> {
  void runOnOperation() override {
    for (auto kernels : llvm::make_early_inc_range(getOperation().getOps<gpu::GPUModuleOp>()))
      separate(kernels);
    getOperation().walk([&](gpu::LaunchFuncOp launch) {
      auto module = modules.find(launch.getKernelName());
      if (module != modules.end())
        launch.setKernelAttr(SymbolRefAttr::get(
            module->second, {FlatSymbolRefAttr::get(launch.getKernelName())}));
    });
    modules.clear();
  }

private:
  /// Leaves the first kernel of `kernels` where it is.
  void separate(gpu::GPUModuleOp kernels) {
    SymbolTable all(kernels);
    SymbolTable outside(getOperation());
    OpBuilder b(kernels.getContext());
    Operation *last = kernels;
    auto functions = llvm::to_vector(kernels.getOps<gpu::GPUFuncOp>());
    if (functions.size() < 2)
      return;
    for (gpu::GPUFuncOp kernel : ArrayRef(functions).drop_front()) {
      b.setInsertionPointAfter(last);
      auto module = cast<gpu::GPUModuleOp>(b.cloneWithoutRegions(*kernels.getOperation()));
      module.getBodyRegion().emplaceBlock();
      module.setName(kernel.getName());
      outside.insert(module);
      kernel->moveBefore(module.getBody(), module.getBody()->end());
      b.setInsertionPointToStart(module.getBody());
      copySymbols(kernel, all, b);
      modules[kernel.getName()] = module.getNameAttr();
      last = module;
      ++numSeparated;
    }
    // What only kernels that left have used.
    for (Operation &op : llvm::make_early_inc_range(*kernels.getBody()))
      if (!isa<gpu::GPUFuncOp>(op) && SymbolTable::symbolKnownUseEmpty(&op, kernels))
        op.erase();
  }

  static void copySymbols(gpu::GPUFuncOp kernel, SymbolTable &all, OpBuilder &b) {
    llvm::StringSet<> copied;
    std::optional<SymbolTable::UseRange> uses = SymbolTable::getSymbolUses(&kernel.getBody());
    for (SymbolTable::SymbolUse use : *uses) {
      StringAttr name = use.getSymbolRef().getRootReference();
      Operation *symbol = all.lookup(name);
      if (symbol && copied.insert(name).second)
        b.clone(*symbol);
    }
  }

  llvm::StringMap<StringAttr> modules;
};
} // namespace
