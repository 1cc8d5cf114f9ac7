//===- GateTerms.h - what gates' gradients are measured against -*- C++ -*-===//
#ifndef EJK_TOOLS_EJK_RUN_GATETERMS_H
#define EJK_TOOLS_EJK_RUN_GATETERMS_H

#include "io/HostTensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace ejk {

/// The error of a gate's gradient may be this part of its terms' norm, where it is more of the
/// gradient's own.
inline constexpr double kTermsTolerance = 1e-5;

/// The terms that gates' gradients are sums of: q ⊙ dq and k ⊙ dk over the rest of the sequence,
/// and ht ⊙ dht. They are found, in f64, when they are first asked for.
class GateTerms {
public:
  /// Of the derivative of `function`, in `module`, by the arguments `wrt`. Copies the module,
  /// which may change afterwards.
  GateTerms(mlir::ModuleOp module, llvm::StringRef function, llvm::ArrayRef<std::string> wrt);

  /// The sizes of the terms of result `name`, null where no gate's gradient is part of it;
  /// `inputs` are the derivative's. Fails with diagnostics.
  mlir::FailureOr<const HostTensor *> of(const std::string &name,
                                         const std::vector<HostTensor> &inputs);

private:
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string function;
  std::vector<std::string> wrt;
  std::vector<HostTensor> sizes;
};

/// ‖actual − expected‖ and ‖sizes‖, Euclidean. Neither overflows where the largest element's
/// square does.
struct TermsComparison {
  double error = 0, norm = 0;
  /// The first element that is expected to be zero and is not; -1 where there is none.
  int64_t nonzero = -1;

  bool passes() const { return nonzero < 0 && error <= kTermsTolerance * norm; }
};
TermsComparison compareToTerms(const HostTensor &actual, const HostTensor &expected,
                               const HostTensor &sizes);

} // namespace ejk

#endif // EJK_TOOLS_EJK_RUN_GATETERMS_H
