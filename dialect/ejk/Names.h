//===- Names.h - what a function's tensors are called -------------*- C++ -*-===//
//
// The names a user meets in files of inputs and outputs, on the command line
// and in a package's manifest. One place decides them, so that they agree.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_DIALECT_EJK_NAMES_H
#define EJK_DIALECT_EJK_NAMES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <string>

namespace ejk {
/// The attribute, on a function's argument or result, that names it.
constexpr llvm::StringLiteral kNameAttr = "ejk.name";

/// The specification's letter for the operand of a recurrence that `use` is:
/// q, k, v, g, g_gamma, gk, gv, h0 or cu_seqlens; empty for any other use.
llvm::StringRef recurrenceOperandName(mlir::OpOperand &use);

/// The name of argument `index`: its `ejk.name`, else the letter of the one
/// recurrence operand it feeds, else "arg<index>". Names are unique within the
/// function, arguments and results together: a repeated one gets "_2", "_3", ….
std::string argumentName(mlir::func::FuncOp function, unsigned index);

/// The name of result `index`: its `ejk.name`, else "o" or "ht" for what a
/// recurrence returns, else "out<index>"; unique as above.
std::string resultName(mlir::func::FuncOp function, unsigned index);
} // namespace ejk

#endif // EJK_DIALECT_EJK_NAMES_H
