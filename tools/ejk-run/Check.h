//===- Check.h - results beside the interpreter --------------------*- C++ -*-===//
#ifndef EJK_TOOLS_EJK_RUN_CHECK_H
#define EJK_TOOLS_EJK_RUN_CHECK_H

#include "GateTerms.h"
#include "dialect/reference/Interpreter.h"

namespace ejk {

/// The results of `function` in the interpreter, which shows on a terminal how far it is.
mlir::FailureOr<llvm::SmallVector<reference::Tensor>>
interpretOn(mlir::func::FuncOp function, const std::vector<HostTensor> &inputs,
            reference::Precision precision);

/// The results under their names; as f64 instead of their own types for a reference, which is not
/// rounded.
mlir::FailureOr<std::vector<HostTensor>>
toHost(mlir::func::FuncOp function, llvm::ArrayRef<reference::Tensor> results, bool asReference);

/// The largest relative errors that pass: where inputs or the result have 16 bits, and elsewhere.
struct Limits {
  double narrow, f32;
};

/// Compares with the f64 interpreter; whether all pass. `terms`: of gates' gradients, if
/// `function` is a derivative.
mlir::FailureOr<bool> checkAgainstInterpreter(mlir::func::FuncOp function, GateTerms *terms,
                                              const Limits &limits,
                                              const std::vector<HostTensor> &inputs,
                                              const std::vector<HostTensor> &outputs);

} // namespace ejk

#endif // EJK_TOOLS_EJK_RUN_CHECK_H
