//===- Inputs.h - a function's inputs, from files or at random ----*- C++ -*-===//
#ifndef EJK_TOOLS_EJKRUN_INPUTS_H
#define EJK_TOOLS_EJKRUN_INPUTS_H

#include "dialect/shapes/Shapes.h"
#include "dialect/reference/Tensor.h"
#include "harness/GateProfiles.h"
#include "harness/RandomInputs.h"

namespace ejk {

/// The file type of an element type; nothing when files have none for it.
std::optional<DataType> dataTypeOf(mlir::Type element);

/// One tensor per argument, in order, under the arguments' names: taken from
/// `given` by name and checked for type, rank and sizes that agree, with `sizes`
/// of the arguments' symbols, too. Arguments behind the first `required`, such as a
/// derivative's cotangents, are drawn at random where they are not given. `fromNpy` says
/// that .npy files gave them.
Result<std::vector<HostTensor>> matchInputs(mlir::func::FuncOp function,
                                            const std::vector<HostTensor> &given, unsigned required,
                                            const Sizes &sizes, uint64_t seed,
                                            llvm::StringRef gates, bool fromNpy);

/// That there is an argument for each of `given`.
Result<bool> checkNames(mlir::func::FuncOp function, const std::vector<HostTensor> &given);

/// The same, drawn at random with the sizes of the symbols (dialect/shapes/Shapes.h).
/// Key/value and parameter heads are as many as query heads when not given, B
/// of packed sequences is 1. Gates are of the profile `gates` (harness/GateProfiles.h); packed sequences differ
/// in length, and when there are several one of them is empty. Sequences whose states lie in a pool
/// have different ones, and one of eight has none.
Result<std::vector<HostTensor>> drawInputs(mlir::func::FuncOp function, Sizes sizes, uint64_t seed,
                                           llvm::StringRef gates = "logsigmoid");

/// For the interpreter, and back with values rounded to the type.
reference::Tensor toInterpreter(const HostTensor &tensor, mlir::Type type);
HostTensor fromInterpreter(const reference::Tensor &tensor, std::string name, DataType dtype);

} // namespace ejk

#endif // EJK_TOOLS_EJKRUN_INPUTS_H
