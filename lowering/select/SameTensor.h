//===- SameTensor.h - tensors of a derivative that its function has too -*- C++ -*-===//
#ifndef EJK_LOWERING_SELECT_SAMETENSOR_H
#define EJK_LOWERING_SELECT_SAMETENSOR_H

#include "mlir/IR/Value.h"

namespace ejk {
/// Whether `derived`, a tensor of f_vjp, or what its size is made of, is `own`, of f: the derivative
/// takes f's arguments first. Over segments, scans make the states that others start from.
bool isSameTensor(mlir::Value derived, mlir::Value own);
} // namespace ejk

#endif // EJK_LOWERING_SELECT_SAMETENSOR_H
