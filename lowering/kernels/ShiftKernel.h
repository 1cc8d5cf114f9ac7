//===- ShiftKernel.h - the kernels of shift and last_rows ---------*- C++ -*-===//
#ifndef EJK_LOWERING_KERNELS_SHIFTKERNEL_H
#define EJK_LOWERING_KERNELS_SHIFTKERNEL_H

#include "dialect/ejk/EjkShifts.h"
#include "lowering/kernels/KernelBuilder.h"

namespace ejk {

/// What the kernel of an `ejk.shift` or an `ejk.last_rows` copies: each row of the result from a row of
/// the tensor or of the halo.
struct RowCopies {
  explicit RowCopies(mlir::Operation *op);

  mlir::Value rows, halo, cuSeqlens, result; // null where there is none
  /// The operands of its kernel: the memory of those above that are read or written, and sizes.
  llvm::SmallVector<KernelOperand> operands() const;
  /// The number of elements of a row that are side by side and known to be a multiple of 4, or 1.
  unsigned elementsOfLoad() const;
  mlir::Type element() const;

  /// The kernel's arguments, in the order of `operands()`.
  struct Arguments {
    mlir::Value rows, halo, offsets, result;
    mlir::Value batch, steps, sequences, rowSize, rowStride; // i64
  };
  /// Takes them in order; `next` gives an argument: a pointer, or an i64.
  Arguments take(KernelBuilder &b, llvm::function_ref<mlir::Value(bool isPointer)> next) const;

  /// The address of the row that row `number` of the result, counted over all sequences, is a copy
  /// of, and whether there is such a row; where there is none, the address is not to be read.
  struct Source {
    mlir::Value address, exists;
  };
  Source find(KernelBuilder &b, const Arguments &given, mlir::Value number) const;
  /// The result's rows.
  mlir::Value count(KernelBuilder &b, const Arguments &given) const;

private:
  bool isShift, zeros;
  int64_t by = 0, beyond = 0, resultRows = 0, haloRows = 0;
  bool reverse = false;
};

/// Adds to `module` a kernel called `name` that computes the result of `op`.
Kernel emitShiftKernel(mlir::Operation *op, mlir::gpu::GPUModuleOp module, llvm::StringRef name);
} // namespace ejk

#endif // EJK_LOWERING_KERNELS_SHIFTKERNEL_H
