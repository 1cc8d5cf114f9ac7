//===- Differences.cpp - gradients against central differences ------------===//
#include "Differences.h"
#include "Inputs.h"
#include "dialect/ejk/Names.h"
#include "dialect/reference/Interpreter.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>
#include <random>

using namespace mlir;
using namespace ejk;

/// The step, and how far the two may lie apart: a central difference is off by step²
/// times a third derivative, which is relative to the gradient, and by the rounding
/// of the values' terms over the step, which is not.
static constexpr double kStep = 1e-5, kTolerance = 1e-6, kRounding = 1e-15;

using Tensors = SmallVector<reference::Tensor>;

namespace {
struct Weighed {
  double sum = 0, size = 0; ///< of the terms, and of their absolute values
};
} // namespace

static Weighed weigh(ArrayRef<reference::Tensor> results, ArrayRef<reference::Tensor> cotangents) {
  Weighed weighed;
  for (auto [result, cotangent] : llvm::zip(results, cotangents))
    for (auto [x, d] : llvm::zip(result.floats, cotangent.floats)) {
      weighed.sum += x * d;
      weighed.size += std::abs(x * d);
    }
  return weighed;
}

FailureOr<bool> ejk::compareWithDifferences(func::FuncOp function, func::FuncOp derivative,
                                            const std::vector<HostTensor> &inputs, uint64_t seed) {
  Tensors arguments;
  for (auto [input, type] : llvm::zip(inputs, derivative.getArgumentTypes()))
    arguments.push_back(toInterpreter(input, type));
  reference::Options options;
  options.precision = reference::Precision::f64;
  FailureOr<Tensors> gradients = reference::interpret(derivative, arguments, options);
  if (failed(gradients))
    return failure();
  unsigned count = function.getNumArguments();
  Tensors primal(arguments.begin(), arguments.begin() + count);
  ArrayRef<reference::Tensor> cotangents = ArrayRef(arguments).drop_front(count);
  std::mt19937_64 random(seed);
  bool agree = true;
  for (unsigned i = 0; i < count; ++i) {
    std::string name = argumentName(derivative, i);
    // Not every argument has a gradient.
    std::optional<unsigned> result;
    for (unsigned r = 0; r < derivative.getNumResults(); ++r)
      if (auto of = derivative.getResultAttrOfType<StringAttr>(r, kGradientOfAttr);
          of && of.getValue() == name)
        result = r;
    if (!result)
      continue;
    std::vector<double> direction(primal[i].floats.size());
    std::normal_distribution<double> normal;
    for (double &d : direction)
      d = normal(random);
    double expected = 0, scale = 0;
    for (auto [g, d] : llvm::zip((*gradients)[*result].floats, direction)) {
      expected += g * d;
      scale += g * g;
    }
    Weighed values[2];
    for (int side : {0, 1}) {
      Tensors moved = primal;
      for (auto [x, d] : llvm::zip(moved[i].floats, direction))
        x += (side ? kStep : -kStep) * d;
      FailureOr<Tensors> results = reference::interpret(function, moved, options);
      if (failed(results))
        return failure();
      values[side] = weigh(*results, cotangents);
    }
    double found = (values[1].sum - values[0].sum) / (2 * kStep);
    double noise = kRounding * (values[1].size + values[0].size) / (2 * kStep);
    // Along a random direction the derivative is about the gradient's norm.
    double norm = std::sqrt(scale), off = std::abs(found - expected);
    double error = off > noise ? (off - noise) / std::max(norm, 1e-300) : 0;
    bool ok = error <= kTolerance;
    llvm::outs() << "differences d" << name << ": " << (ok ? "pass" : "FAIL")
                 << llvm::format(", %.9g, central difference %.9g, error %.1e (tolerance %.0e)\n",
                                 expected, found, error, kTolerance);
    agree &= ok;
  }
  return agree;
}
