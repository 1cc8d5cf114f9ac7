//===- Views.h - tensors that are the memory of others ------------*- C++ -*-===//
#ifndef EJK_LOWERING_KERNELS_VIEWS_H
#define EJK_LOWERING_KERNELS_VIEWS_H

#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace ejk {

/// The tensor whose memory `tensor` is: casts and changes of shape are views of it.
inline mlir::Value sameMemory(mlir::Value tensor) {
  namespace t = mlir::tensor;
  while (mlir::isa_and_nonnull<t::CastOp, t::CollapseShapeOp, t::ExpandShapeOp, t::ReshapeOp>(
      tensor.getDefiningOp()))
    tensor = tensor.getDefiningOp()->getOperand(0);
  return tensor;
}

} // namespace ejk

#endif // EJK_LOWERING_KERNELS_VIEWS_H
