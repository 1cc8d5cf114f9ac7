//===- Check.cpp - results beside the interpreter -------------------------===//
#include "Check.h"
#include "Inputs.h"
#include "Slots.h"
#include "dialect/ejk/Names.h"
#include "harness/Compare.h"
#include "llvm/Support/Format.h"
#include <unistd.h>

using namespace mlir;
using namespace ejk;

/// Shows how far a long interpretation is, on a terminal only.
static std::function<void(size_t, size_t)> progressBar() {
  if (!isatty(STDERR_FILENO))
    return {};
  return [last = -1](size_t done, size_t total) mutable {
    int percent = total ? int(100.0 * double(done) / double(total)) : 100;
    if (percent == last)
      return;
    last = percent;
    llvm::errs() << llvm::format("\rinterpreting: %3d %%", percent);
    if (percent == 100)
      llvm::errs() << "\r\x1b[K";
  };
}

FailureOr<SmallVector<reference::Tensor>>
ejk::interpretOn(func::FuncOp function, const std::vector<HostTensor> &inputs,
                 reference::Precision precision) {
  reference::Options options;
  options.precision = precision;
  options.progress = progressBar();
  SmallVector<reference::Tensor> arguments;
  for (auto [input, type] : llvm::zip(inputs, function.getArgumentTypes()))
    arguments.push_back(toInterpreter(input, type));
  return reference::interpret(function, arguments, options);
}

FailureOr<std::vector<HostTensor>>
ejk::toHost(func::FuncOp function, ArrayRef<reference::Tensor> results, bool asReference) {
  std::vector<HostTensor> tensors;
  for (auto [i, result] : llvm::enumerate(results)) {
    std::optional<DataType> dtype = dataTypeOf(result.element);
    if (!dtype)
      return function.emitError() << "result '" << resultName(function, i) << "' is "
                                  << result.typeName() << ", which no file can hold";
    if (asReference && result.isFloat())
      dtype = DataType::F64;
    tensors.push_back(fromInterpreter(result, resultName(function, i), *dtype));
  }
  return tensors;
}

static bool isNarrow(DataType dtype) { return dtype == DataType::F16 || dtype == DataType::BF16; }

/// Whether zeros of `expected` are other numbers in `found`.
static bool missesZeros(const HostTensor &found, const HostTensor &expected) {
  if (found.shape != expected.shape)
    return false;
  for (int64_t i = 0, count = expected.numElements(); i < count; ++i)
    if (elementAsDouble(expected, i) == 0 && elementAsDouble(found, i) != 0)
      return true;
  return false;
}

/// Where `found` is a gate's gradient, decides by its terms whether it passes, and says how.
static LogicalResult checkTerms(GateTerms &terms, const std::vector<HostTensor> &inputs,
                                const HostTensor &found, const HostTensor &expected, bool &ok,
                                std::string &words) {
  FailureOr<const HostTensor *> sizes = terms.of(found.name, inputs);
  if (failed(sizes))
    return failure();
  if (!*sizes || found.shape != expected.shape)
    return success();
  TermsComparison compared = compareToTerms(found, expected, **sizes);
  if (compared.nonzero >= 0) {
    ok = false;
    llvm::raw_string_ostream(words)
        << llvm::format(", element %lld is %.3g where the gate has no effect",
                        (long long)compared.nonzero, elementAsDouble(found, compared.nonzero));
    return success();
  }
  ok |= compared.passes();
  llvm::raw_string_ostream(words) << llvm::format(
      ", %.1e of the norm of its terms (limit %.0e)",
      compared.norm > 0 ? compared.error / compared.norm : 0, kTermsTolerance);
  return success();
}

FailureOr<bool> ejk::checkAgainstInterpreter(func::FuncOp function, GateTerms *terms,
                                             const Limits &limits,
                                             const std::vector<HostTensor> &inputs,
                                             const std::vector<HostTensor> &outputs) {
  FailureOr<SmallVector<reference::Tensor>> results =
      interpretOn(function, inputs, reference::Precision::f64);
  if (failed(results))
    return failure();
  FailureOr<std::vector<HostTensor>> expected = toHost(function, *results, /*asReference=*/true);
  if (failed(expected))
    return failure();
  bool narrowInput = llvm::any_of(inputs, [](const HostTensor &t) { return isNarrow(t.dtype); });
  bool passed = true;
  for (HostTensor &wanted : *expected) {
    const HostTensor *written = findTensor(outputs, wanted.name);
    if (!written) {
      llvm::outs() << "check " << wanted.name << ": FAIL, the run gave no such result\n";
      passed = false;
      continue;
    }
    HostTensor defined = *written, *found = &defined;
    zeroSkipped(function, inputs, defined);
    zeroSkipped(function, inputs, wanted);
    double limit = narrowInput || isNarrow(found->dtype) ? limits.narrow : limits.f32;
    Comparison comparison = compare(*found, wanted);
    bool ok = comparison.passes(limit);
    std::string words;
    if (terms && (!ok || missesZeros(*found, wanted)))
      if (failed(checkTerms(*terms, inputs, *found, wanted, ok, words)))
        return failure();
    llvm::outs() << "check " << wanted.name << ": " << (ok ? "pass" : "FAIL") << ", "
                 << comparison.describe() << words << llvm::format(" (tolerance %.0e)\n", limit);
    passed &= ok;
  }
  return passed;
}
