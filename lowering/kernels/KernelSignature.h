//===- KernelSignature.h - the arguments of a scan's kernel -------*- C++ -*-===//
#ifndef EJK_LOWERING_KERNELS_KERNELSIGNATURE_H
#define EJK_LOWERING_KERNELS_KERNELSIGNATURE_H

#include "lowering/kernels/KernelBuilder.h"
#include "llvm/ADT/StringMap.h"

namespace ejk {

/// The name of a size, such that sizes of one name are equal in every call.
using SizeName = llvm::function_ref<std::string(mlir::Value tensor, unsigned dim)>;

/// Lists a kernel's arguments and makes its function: first tensors, then sizes, then what else
/// there is. Sizes of one name are one argument, so heads that are not shared need no division.
class KernelSignature {
public:
  KernelSignature(Kernel &kernel, SizeName sizeName) : kernel(kernel), sizeName(sizeName) {}

  /// Adds a tensor. What is only read may go through the read-only cache.
  void addTensor(mlir::Value tensor, bool isReadOnly);
  /// Adds a size, after all tensors. Returns its number among the sizes.
  unsigned addSize(mlir::Value tensor, unsigned dim);
  unsigned numTensors() const { return readOnly.size(); }

  /// Makes the kernel's function. Arguments that were added to the kernel by others, behind the
  /// sizes, have type `other`.
  mlir::gpu::GPUFuncOp makeFunction(KernelBuilder &b, llvm::StringRef name,
                                    mlir::Type other = {}) const;

private:
  Kernel &kernel;
  SizeName sizeName;
  llvm::SmallVector<bool> readOnly;
  llvm::StringMap<unsigned> sizeNumbers;
};

} // namespace ejk

#endif // EJK_LOWERING_KERNELS_KERNELSIGNATURE_H
