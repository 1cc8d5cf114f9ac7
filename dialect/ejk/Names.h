//===- Names.h - what a function's tensors are called -------------*- C++ -*-===//
//
// The names a user meets in files of inputs and outputs, on the command line
// and in a package's manifest. One place decides them, so that they agree.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_DIALECT_EJK_NAMES_H
#define EJK_DIALECT_EJK_NAMES_H

#include "dialect/ejk/Attributes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include <optional>
#include <string>

namespace ejk {
/// Names the arguments of `function` that have no `ejk.name` by `sourceNames`: the
/// name that each has in the source, without its '%', empty where there is none. What
/// is no identifier is not taken (a name may become a file's), nor are numbers and
/// `arg0`, `arg1`, …, which a printer made up.
void nameArguments(mlir::func::FuncOp function, llvm::ArrayRef<llvm::StringRef> sourceNames);

/// The specification's letter for the operand of a recurrence that `use` is:
/// q, k, v, beta, g, g_gamma, gk, gv, h0 or cu_seqlens; empty for any other use.
llvm::StringRef recurrenceOperandName(mlir::OpOperand &use);

/// The letter of the one recurrence operand that argument `index` feeds, or was when
/// `ejk.operand` noted it; empty where there is none.
std::string argumentOperand(mlir::func::FuncOp function, unsigned index);

/// The function of `module` that is the derivative of `name` (`ejk.derivative_of`), not another
/// way to compute it; null where there is none.
mlir::func::FuncOp findDerivative(mlir::ModuleOp module, llvm::StringRef name);

/// The argument called `name`, or else the only one that feeds the operand of this
/// letter; nothing where there is none.
std::optional<unsigned> findArgument(mlir::func::FuncOp function, llvm::StringRef name);

/// "q, k, v": the arguments' names, for messages.
std::string listArguments(mlir::func::FuncOp function);

/// The name of argument `index`: its `ejk.name`, which tools that read a
/// file set to the name in the source, else the letter of the one recurrence operand it
/// feeds, else "arg<index>". Names of arguments are unique among
/// them, names of results among those: a repeated one gets "_2", "_3", ….
std::string argumentName(mlir::func::FuncOp function, unsigned index);

/// The name of result `index`: its `ejk.name`, else "o" or "ht" for what a
/// recurrence returns, else "out<index>"; unique as above.
std::string resultName(mlir::func::FuncOp function, unsigned index);
} // namespace ejk

#endif // EJK_DIALECT_EJK_NAMES_H
