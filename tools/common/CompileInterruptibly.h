//===- CompileInterruptibly.h - compilations that end with a signal -*- C++ -*-===//
#ifndef EJK_TOOLS_COMMON_COMPILEINTERRUPTIBLY_H
#define EJK_TOOLS_COMMON_COMPILEINTERRUPTIBLY_H

#include "lowering/driver/Compiler.h"

namespace ejk {
/// `compile` of a tool that is not done with more than one module at a time. A signal to end, as of
/// Ctrl-C, cancels it: ptxas ends, too, temporary files go, and the signal then ends the process.
llvm::FailureOr<std::string> compileInterruptibly(mlir::ModuleOp module, Stage stage,
                                                  CompileOptions options);
} // namespace ejk

#endif // EJK_TOOLS_COMMON_COMPILEINTERRUPTIBLY_H
