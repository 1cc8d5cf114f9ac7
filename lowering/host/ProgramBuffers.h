//===- ProgramBuffers.h - the memory of a program of launches --*- C++ -*-===//
#ifndef EJK_LOWERING_HOST_PROGRAMBUFFERS_H
#define EJK_LOWERING_HOST_PROGRAMBUFFERS_H

#include "lowering/host/ProgramSizes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace ejk {

/// The program of launches that a function on tensors becomes, and the buffer of each tensor: an
/// argument of the program, or workspace.
class ProgramBuffers : public ProgramSizes {
public:
  mlir::func::FuncOp program;

protected:
  using ProgramSizes::ProgramSizes;

  /// Creates the function of launches. Its arguments are memrefs, inputs first.
  llvm::LogicalResult createProgram();
  /// Whether each sum has one term, which is then the result itself: the function needs as many
  /// heads that share as there are to share.
  bool sumsSingleTerms(SumHeadsOp sum);
  /// The tensor whose buffer `tensor` has.
  mlir::Value memoryOf(mlir::Value tensor);
  /// How many elements the slots of a pool are apart. A caller decides over that of an argument.
  llvm::FailureOr<mlir::Value> hostSlotStride(mlir::Operation *op, mlir::Value pool);
  /// How many elements the rows of `tensor` are apart. A caller decides over that of an argument.
  llvm::FailureOr<mlir::Value> hostRowStride(mlir::Operation *op, mlir::Value tensor);
  /// The buffer of `tensor` for `op`; allocated if it has none.
  llvm::FailureOr<mlir::Value> bufferOf(mlir::Operation *op, mlir::Value tensor);

private:
  /// The number of elements that the dimensions of `tensor` from `first` on have.
  llvm::FailureOr<mlir::Value> elementsFrom(mlir::Operation *op, mlir::Value tensor, unsigned first);
  /// Lets a final state alias its initial state if nothing else reads that. This is safe for a K×V
  /// state, because the same thread reads and writes each element.
  void describeAlias(unsigned index, mlir::Value result);

  llvm::DenseMap<mlir::Value, mlir::Value> buffers; // of tensors
};

} // namespace ejk

#endif // EJK_LOWERING_HOST_PROGRAMBUFFERS_H
