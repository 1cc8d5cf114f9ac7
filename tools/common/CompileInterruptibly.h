//===- CompileInterruptibly.h - compilations that end with a signal -*- C++ -*-===//
#ifndef EJK_TOOLS_COMMON_COMPILEINTERRUPTIBLY_H
#define EJK_TOOLS_COMMON_COMPILEINTERRUPTIBLY_H

#include "lowering/driver/Compiler.h"

namespace ejk {
/// `compile`, for tools, which compile one module at a time. SIGINT, as of Ctrl-C, SIGTERM and SIGHUP
/// cancel it: ptxas ends, too, temporary files are removed, and SIGINT then ends the process.
llvm::FailureOr<std::string> compileInterruptibly(mlir::ModuleOp module, Stage stage,
                                                  CompileOptions options);
} // namespace ejk

#endif // EJK_TOOLS_COMMON_COMPILEINTERRUPTIBLY_H
