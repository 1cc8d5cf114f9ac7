//===- GateTerms.cpp - what gates' gradients are measured against ---------===//
#include "GateTerms.h"
#include "Inputs.h"
#include "dialect/ejk/Names.h"
#include "dialect/reference/Interpreter.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Pipelines.h"
#include <cmath>

using namespace mlir;
using namespace ejk;

GateTerms::GateTerms(ModuleOp module, StringRef function, ArrayRef<std::string> wrt)
    : module(module.clone()), function(function), wrt(wrt.begin(), wrt.end()) {}

FailureOr<const HostTensor *> GateTerms::of(const std::string &name,
                                            const std::vector<HostTensor> &inputs) {
  if (sizes.empty()) {
    PassManager pm(module->getContext());
    buildBackwardPipeline(pm, {function, wrt, {}, {GateGradients::terms, 0}});
    if (failed(pm.run(*module)))
      return failure();
    auto derived = module->lookupSymbol<func::FuncOp>(function + "_terms");
    SmallVector<reference::Tensor> arguments;
    for (auto [input, type] : llvm::zip(inputs, derived.getArgumentTypes()))
      arguments.push_back(toInterpreter(input, type));
    FailureOr<SmallVector<reference::Tensor>> results = reference::interpret(derived, arguments);
    if (failed(results))
      return failure();
    for (auto [i, result] : llvm::enumerate(*results))
      sizes.push_back(fromInterpreter(result, resultName(derived, i), DataType::F64));
  }
  const HostTensor *found = findTensor(sizes, name);
  for (int64_t i = 0; found && i < found->numElements(); ++i)
    if (elementAsDouble(*found, i) != 0)
      return found;
  return nullptr;
}

TermsComparison ejk::compareToTerms(const HostTensor &actual, const HostTensor &expected,
                                    const HostTensor &sizes) {
  TermsComparison result;
  double largest = 0, error = 0, norm = 0;
  int64_t count = expected.numElements();
  for (int64_t i = 0; i < count; ++i)
    largest = std::fmax(largest, elementAsDouble(sizes, i));
  for (int64_t i = 0; i < count; ++i) {
    double a = elementAsDouble(actual, i), e = elementAsDouble(expected, i);
    if (e == 0 && a != 0 && result.nonzero < 0)
      result.nonzero = i;
    double difference = (a - e) / largest, size = elementAsDouble(sizes, i) / largest;
    error += difference * difference;
    norm += size * size;
  }
  result.error = std::sqrt(error) * largest;
  result.norm = std::sqrt(norm) * largest;
  return result;
}
