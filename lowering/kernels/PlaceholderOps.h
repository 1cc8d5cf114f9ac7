//===- PlaceholderOps.h - ops of a kernel that is only measured --*- C++ -*-===//
//
// A kernel is emitted to find what it needs of shared memory and of barriers, and its code thrown
// away. To create and erase its ops took most of that time. So, while a kernel is measured, one op
// without operands stands for all ops of the same name and result type. Ops with regions and
// terminators are real, because ops are inserted there.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_KERNELS_PLACEHOLDEROPS_H
#define EJK_LOWERING_KERNELS_PLACEHOLDEROPS_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"

namespace ejk {

/// Must outlive the kernels that are measured with it.
class PlaceholderOps {
public:
  PlaceholderOps() = default;
  PlaceholderOps(const PlaceholderOps &) = delete;
  PlaceholderOps &operator=(const PlaceholderOps &) = delete;
  ~PlaceholderOps();

  /// The op that stands for all like `state`; null where the op must be a real one.
  mlir::Operation *get(mlir::OperationState &state);

  /// The constant of `type`; null before there is one.
  mlir::Value constant(mlir::Type type) const { return constants.lookup(type); }

private:
  /// By name and type of the result, which is null where there is none.
  llvm::DenseMap<std::pair<const void *, const void *>, mlir::Operation *> ops;
  llvm::DenseMap<mlir::Type, mlir::Value> constants;
};

} // namespace ejk

#endif // EJK_LOWERING_KERNELS_PLACEHOLDEROPS_H
