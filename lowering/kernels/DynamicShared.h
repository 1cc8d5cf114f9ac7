//===- DynamicShared.h - shared memory whose size the launch sets -*- C++ -*-===//
#ifndef EJK_LOWERING_KERNELS_DYNAMICSHARED_H
#define EJK_LOWERING_KERNELS_DYNAMICSHARED_H

#include "lowering/kernels/KernelBuilder.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace ejk {

/// The symbol of a block's dynamic shared memory, which all kernels of `module` share. It is
/// aligned to 1024 bytes, as operands of `wgmma` are. Created at the builder's place if need be.
inline mlir::LLVM::GlobalOp dynamicShared(KernelBuilder &b, mlir::gpu::GPUModuleOp module) {
  llvm::StringRef name = "ejk_shared";
  if (auto known = module.lookupSymbol<mlir::LLVM::GlobalOp>(name))
    return known;
  return mlir::LLVM::GlobalOp::create(b, b.loc, mlir::LLVM::LLVMArrayType::get(b.getI8Type(), 0),
                                      /*isConstant=*/false, mlir::LLVM::Linkage::External, name,
                                      mlir::Attribute(), /*alignment=*/1024, kSharedSpace);
}

} // namespace ejk

#endif // EJK_LOWERING_KERNELS_DYNAMICSHARED_H
