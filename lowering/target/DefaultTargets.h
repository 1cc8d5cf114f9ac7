//===- DefaultTargets.h - what a package is for by default --------*- C++ -*-===//
#ifndef EJK_LOWERING_TARGET_DEFAULTTARGETS_H
#define EJK_LOWERING_TARGET_DEFAULTTARGETS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace ejk {
/// The architectures that a package has code for if none is named: one that all later GPUs run, and
/// those that kernels are tuned for (docs/performance.md).
llvm::ArrayRef<llvm::StringLiteral> defaultTargets();
} // namespace ejk

#endif // EJK_LOWERING_TARGET_DEFAULTTARGETS_H
