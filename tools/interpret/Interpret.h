//===- Interpret.h - run check's ops in the interpreter -----------*- C++ -*-===//
#ifndef EJK_TOOLS_INTERPRET_INTERPRET_H
#define EJK_TOOLS_INTERPRET_INTERPRET_H

#include "dialect/check/Check.h"
#include "dialect/reference/Interpreter.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace ejk::check {
#define GEN_PASS_DECL
#include "tools/interpret/InterpretPass.h.inc"
#define GEN_PASS_REGISTRATION
#include "tools/interpret/InterpretPass.h.inc"

/// How the checks of a run went.
struct Outcome {
  unsigned passed = 0, failed = 0;
};

/// Lets `options` interpret check's ops too, counting into `outcome`. A check that
/// fails is a diagnostic, and the run goes on. `check.load` finds relative paths in
/// `folder` or, where that is empty, beside the op's own file. `outcome` and `folder`
/// must outlive `options`.
void addCheckOps(reference::Options &options, Outcome &outcome, llvm::StringRef folder = "");

/// How far two tensors of one type are apart.
struct Distance {
  double relative = 0; ///< ‖actual − expected‖ / ‖expected‖; NaN where there is none
  int64_t first = -1;  ///< the first element that differs, flat; -1 when equal
};
Distance distance(const reference::Tensor &actual, const reference::Tensor &expected);
} // namespace ejk::check

#endif // EJK_TOOLS_INTERPRET_INTERPRET_H
