//===- CompileInterruptibly.cpp - compilations that end with a signal -----===//
#include "tools/common/CompileInterruptibly.h"
#include "llvm/Support/Signals.h"
#include <csignal>

using namespace mlir;
using namespace ejk;

static volatile std::sig_atomic_t interrupted = 0;

FailureOr<std::string> ejk::compileInterruptibly(ModuleOp module, Stage stage,
                                                 CompileOptions options) {
  // LLVM's handler calls it, for SIGINT, SIGTERM and SIGHUP, and forgets it: a second one ends the
  // process at once.
  llvm::sys::SetInterruptFunction([] { interrupted = 1; });
  options.cancelled = [] { return interrupted != 0; };
  cancelPasses(*module.getContext(), options.cancelled);
  FailureOr<std::string> result = compile(module, stage, options);
  module.getContext()->registerActionHandler(nullptr);
  llvm::sys::SetInterruptFunction(nullptr);
  if (interrupted) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  return result;
}
