//===- KernelSignature.h - the arguments of a scan's kernel -------*- C++ -*-===//
#ifndef EJK_LOWERING_KERNELS_KERNELSIGNATURE_H
#define EJK_LOWERING_KERNELS_KERNELSIGNATURE_H

#include "dialect/ejk/Ejk.h"
#include "lowering/kernels/KernelBuilder.h"
#include "llvm/ADT/StringMap.h"

namespace ejk {

/// Names a size. Sizes with equal names are equal in every call.
using SizeName = llvm::function_ref<std::string(mlir::Value tensor, unsigned dim)>;

/// Builds a kernel's argument list and function: tensors, then sizes, then others. Sizes with equal
/// names share one argument, so a kernel without shared heads needs no division.
class KernelSignature {
public:
  KernelSignature(Kernel &kernel, SizeName sizeName) : kernel(kernel), sizeName(sizeName) {}

  /// Adds a tensor. A read-only tensor may use the read-only cache.
  void addTensor(mlir::Value tensor, bool isReadOnly);
  /// Adds a size, after all tensors. Returns its index among the sizes.
  unsigned addSize(mlir::Value tensor, unsigned dim);
  /// Adds what places segments as sizes: their rows; and of a batch how many of each entry are
  /// scanned, and the number of the first of these. Returns the index of the rows among the sizes;
  /// the others follow.
  unsigned addSegments(bool packed);
  /// Adds the stride between the slots of a pool as a size. Returns its index among the sizes.
  unsigned addSlotStride(mlir::Value pool);
  /// Adds the stride between the rows of `tensor` as a size, which has 31 bits. Returns its index
  /// among the sizes; nothing where its rows lie one behind the other.
  std::optional<unsigned> addRowStride(mlir::Value tensor);
  unsigned numTensors() const { return readOnly.size(); }

  /// Creates the kernel's function. Arguments that were added after the sizes have type `other`.
  mlir::gpu::GPUFuncOp makeFunction(KernelBuilder &b, llvm::StringRef name,
                                    mlir::Type other = {}) const;

private:
  Kernel &kernel;
  SizeName sizeName;
  llvm::SmallVector<bool> readOnly;
  llvm::StringMap<unsigned> sizeNumbers;
  llvm::DenseMap<mlir::Value, unsigned> rowStrides;
  unsigned numSizes = 0;
};

/// The head to read in a tensor with `ownHeads` heads, which divide the `heads` query heads, for
/// query head `head`; i64. `known` has those that the kernel has computed, by the number of heads.
mlir::Value ownHead(KernelBuilder &b, mlir::Value head, mlir::Value heads, mlir::Value ownHeads,
                    llvm::DenseMap<mlir::Value, mlir::Value> &known);

/// Where a scan's kernel finds its sizes, by their number among the sizes.
struct ScanSizes {
  /// T, or the rows of all packed sequences; and the heads that states belong to.
  unsigned steps, heads;
  /// The heads of each sequence, and of each parameter that has one value per head.
  llvm::SmallVector<unsigned> sequenceHeads;
  llvm::SmallVector<std::optional<unsigned>> parameterHeads;
  /// The heads of queries, where there are any.
  std::optional<unsigned> queryHeads = {};
  /// The row strides of the tensors that are loaded for the sequences, and then for the queries.
  llvm::SmallVector<std::optional<unsigned>> rowStrides = {};

  /// Adds them to `signature`.
  static ScanSizes add(KernelSignature &signature, ScanOp scan);
  /// Dimensions of a parameter before those of its value in a step: none, the head's, or the
  /// sequence's and the head's.
  static unsigned prefixRank(mlir::Value parameter, mlir::Value arg);
};

} // namespace ejk

#endif // EJK_LOWERING_KERNELS_KERNELSIGNATURE_H
