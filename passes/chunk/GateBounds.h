//===- GateBounds.h - how strong a step's own gates may be --------*- C++ -*-===//
#ifndef EJK_PASSES_CHUNK_GATEBOUNDS_H
#define EJK_PASSES_CHUNK_GATEBOUNDS_H

#include "mlir/IR/Value.h"

namespace ejk {

struct Bounds {
  double least, most;
};

/// The bounds of the elements of `value`, of the floats that a step computes. They follow from its
/// constants and from functions that are bounded: -5 / (1 + exp(-x)) lies between -5 and 0, whatever
/// x is. Infinite where nothing is known.
Bounds boundsOf(mlir::Value value);

} // namespace ejk

#endif // EJK_PASSES_CHUNK_GATEBOUNDS_H
