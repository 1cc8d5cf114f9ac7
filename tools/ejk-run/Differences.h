//===- Differences.h - gradients against central differences ------*- C++ -*-===//
#ifndef EJK_TOOLS_EJKRUN_DIFFERENCES_H
#define EJK_TOOLS_EJKRUN_DIFFERENCES_H

#include "io/HostTensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ejk {
/// Compares, in f64, each gradient that `derivative` gives with central
/// differences of `function`: along a random direction of the one argument, the
/// derivative of the results' sum, weighted by their cotangents. `inputs` are
/// the derivative's. Prints a line for each; whether all agree.
llvm::FailureOr<bool> compareWithDifferences(mlir::func::FuncOp function,
                                             mlir::func::FuncOp derivative,
                                             const std::vector<HostTensor> &inputs, uint64_t seed);
} // namespace ejk

#endif // EJK_TOOLS_EJKRUN_DIFFERENCES_H
