//===- FloatBounds.h - what floats of a step lie between ----------*- C++ -*-===//
#ifndef EJK_PASSES_FLOATBOUNDS_H
#define EJK_PASSES_FLOATBOUNDS_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

namespace ejk {

struct Bounds {
  double least, most;
};

/// The bounds of the elements of floats that a step computes. They follow from its constants and from
/// functions that are bounded: -5 / (1 + exp(-x)) lies between -5 and 0, whatever x is. Infinite where
/// nothing is known.
class FloatBounds {
public:
  Bounds of(mlir::Value value);

private:
  Bounds compute(mlir::Value value);
  Bounds ofSelect(mlir::Operation *op);
  Bounds ofSide(mlir::Value side, mlir::Operation *condition, bool holds);

  llvm::DenseMap<mlir::Value, Bounds> known;
};

} // namespace ejk

#endif // EJK_PASSES_FLOATBOUNDS_H
