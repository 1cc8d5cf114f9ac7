//===- Interpret.cpp - run a module's numeric tests -----------------------===//
#include "tools/interpret/Interpret.h"
#include "tools/io/TensorFile.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include <cmath>
#include <limits>

namespace ejk::check {
#define GEN_PASS_DEF_INTERPRET
#include "tools/interpret/InterpretPass.h.inc"
} // namespace ejk::check

using namespace mlir;
using namespace ejk::check;
using namespace ejk::reference;

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

static LogicalResult random(RandomOp op, llvm::SmallVectorImpl<Tensor> &results) {
  auto type = cast<RankedTensorType>(op.getType());
  if (!checkSize(type.getShape()))
    return op.emitError() << "the tensor is more than the interpreter holds";
  Tensor t = Tensor::zeros(type.getElementType(), type.getShape());
  Random numbers(op.getSeed());
  Distribution distribution = op.getDistribution();
  for (double &x : t.floats)
    x = numbers.draw(distribution);
  roundRow(t.element, t.floats.data(), t.floats.size());
  results.push_back(std::move(t));
  return success();
}

/// The folder of the file that `location` lies in; empty when it is in none.
static std::string folderOf(Location location) {
  std::string folder;
  location->walk([&](Location part) {
    auto file = dyn_cast<FileLineColRange>(LocationAttr(part));
    if (!file)
      return WalkResult::advance();
    folder = llvm::sys::path::parent_path(file.getFilename().getValue()).str();
    return WalkResult::interrupt();
  });
  return folder;
}

static LogicalResult load(LoadOp op, StringRef folder, llvm::SmallVectorImpl<Tensor> &results) {
  llvm::SmallString<128> path(op.getPath());
  if (llvm::sys::path::is_relative(path)) {
    path = folder.empty() ? folderOf(op.getLoc()) : folder.str();
    llvm::sys::path::append(path, op.getPath());
  }
  auto bytes = ejk::readFile(path.str().str());
  if (!bytes)
    return op.emitError() << bytes.error().message;
  auto read = ejk::parseNpy(*bytes);
  if (!read)
    return op.emitError() << "'" << path << "': " << read.error().message;
  const ejk::HostTensor &host = *read;
  auto type = cast<RankedTensorType>(op.getType());
  bool isFloatFile = host.dtype == ejk::DataType::F16 || host.dtype == ejk::DataType::BF16 ||
                     host.dtype == ejk::DataType::F32 || host.dtype == ejk::DataType::F64;
  bool fits = size_t(type.getRank()) == host.shape.size() &&
              isFloatFile == isa<FloatType>(type.getElementType());
  for (size_t dim = 0; fits && dim < host.shape.size(); ++dim)
    fits = type.isDynamicDim(dim) || type.getDimSize(dim) == host.shape[dim];
  if (!fits)
    return op.emitError() << "'" << path << "' must hold " << type << ", but holds "
                          << host.describe();
  Tensor t = Tensor::zeros(type.getElementType(), host.shape);
  for (size_t i = 0; i < t.size(); ++i)
    if (t.isFloat())
      t.floats[i] = roundTo(t.element, ejk::elementAsDouble(host, i));
    else
      t.ints[i] = int64_t(ejk::elementAsDouble(host, i));
  results.push_back(std::move(t));
  return success();
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

static double element(const Tensor &t, int64_t i) {
  return t.floats.empty() ? double(t.ints[i]) : t.floats[i];
}

/// "[1, 0, 3]" for a flat index.
static std::string indexOf(const Tensor &t, int64_t flat) {
  SmallVector<int64_t> index(t.rank());
  for (int64_t dim = t.rank() - 1; dim >= 0; --dim) {
    index[dim] = flat % t.shape[dim];
    flat /= t.shape[dim];
  }
  return spellShape(index);
}

/// Equal, or both NaN.
static bool agree(double a, double e) { return a == e || (std::isnan(a) && std::isnan(e)); }

Distance ejk::check::distance(const Tensor &actual, const Tensor &expected) {
  // Scaled by the largest number, so that no square overflows or vanishes.
  double scale = 0;
  bool oneSided = false; // NaN or infinite on one side alone
  Distance d;
  auto isNumber = [&](size_t i) {
    return !agree(element(actual, i), element(expected, i)) || std::isfinite(element(actual, i));
  };
  for (size_t i = 0; i < actual.size(); ++i) {
    double a = element(actual, i), e = element(expected, i);
    if (d.first < 0 && !agree(a, e))
      d.first = i;
    if (!isNumber(i))
      continue; // both NaN, or infinities of one sign: no distance
    if (!oneSided && !(std::isfinite(a) && std::isfinite(e))) {
      oneSided = true;
      d.first = i;
    }
    scale = std::max({scale, std::fabs(a), std::fabs(e)});
  }
  if (oneSided)
    d.relative = std::numeric_limits<double>::quiet_NaN();
  else if (scale > 0) {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < actual.size(); ++i) {
      if (!isNumber(i))
        continue;
      double a = element(actual, i), e = element(expected, i);
      difference += (a - e) / scale * ((a - e) / scale);
      norm += e / scale * (e / scale);
    }
    d.relative = difference == 0 ? 0 : std::sqrt(difference) / std::sqrt(norm);
  }
  return d;
}

/// Whether the operands have one shape; an error when not.
static bool sameShape(Operation *op, ArrayRef<const Tensor *> operands) {
  if (operands[0]->shape == operands[1]->shape)
    return true;
  op->emitError() << "actual has shape " << spellShape(operands[0]->shape) << ", but expected has "
                  << spellShape(operands[1]->shape);
  return false;
}

static std::string firstDifference(const Distance &d, ArrayRef<const Tensor *> operands) {
  return llvm::formatv("first at {0}: actual {1:E10}, expected {2:E10}",
                       indexOf(*operands[0], d.first), element(*operands[0], d.first),
                       element(*operands[1], d.first));
}

static bool expectClose(ExpectCloseOp op, ArrayRef<const Tensor *> operands) {
  if (!sameShape(op, operands))
    return false;
  double tolerance = op.getMaxRelative().convertToDouble();
  Distance d = distance(*operands[0], *operands[1]);
  if (d.relative <= tolerance)
    return true;
  std::string error =
      std::isnan(d.relative)
          ? "NaN or infinite on one side alone"
          : llvm::formatv("relative error {0:E3} exceeds {1:E3}", d.relative, tolerance).str();
  op.emitError() << error << "; " << firstDifference(d, operands);
  return false;
}

static bool expectEqual(ExpectEqualOp op, ArrayRef<const Tensor *> operands) {
  if (!sameShape(op, operands))
    return false;
  const Tensor &actual = *operands[0], &expected = *operands[1];
  Distance d;
  int64_t count = 0;
  for (size_t i = 0; i < actual.size(); ++i)
    if (actual.isFloat() ? !agree(actual.floats[i], expected.floats[i])
                         : actual.ints[i] != expected.ints[i]) {
      if (d.first < 0)
        d.first = i;
      ++count;
    }
  if (count == 0)
    return true;
  op.emitError() << count << " of " << actual.size() << " elements differ; "
                 << firstDifference(d, operands);
  return false;
}

void ejk::check::addCheckOps(Options &options, Outcome &outcome, StringRef folder) {
  options.extension = [&outcome, folder](Operation *op) -> OpHandler {
    if (!isa<RandomOp, LoadOp, ExpectCloseOp, ExpectEqualOp>(op))
      return {};
    return [&outcome, folder](Operation *op, ArrayRef<const Tensor *> operands,
                      llvm::SmallVectorImpl<Tensor> &results) -> LogicalResult {
      auto count = [&](bool passed) {
        ++(passed ? outcome.passed : outcome.failed);
        return success();
      };
      return llvm::TypeSwitch<Operation *, LogicalResult>(op)
          .Case([&](RandomOp op) { return random(op, results); })
          .Case([&](LoadOp op) { return load(op, folder, results); })
          .Case([&](ExpectCloseOp op) { return count(expectClose(op, operands)); })
          .Case([&](ExpectEqualOp op) { return count(expectEqual(op, operands)); });
    };
  };
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct InterpretPass : ejk::check::impl::InterpretBase<InterpretPass> {
  using InterpretBase::InterpretBase;
  void runOnOperation() override {
    Outcome outcome;
    Options options;
    options.precision = precision;
    if (partitionSeed >= 0)
      options.partitionSeed = partitionSeed;
    if (pathTolerance >= 0)
      options.pathTolerance = pathTolerance;
    addCheckOps(options, outcome, folder);
    bool ran = true;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      // What checks nothing is only called from what does.
      WalkResult found = function.walk([](Operation *op) {
        return isa<ExpectCloseOp, ExpectEqualOp>(op) ? WalkResult::interrupt()
                                                     : WalkResult::advance();
      });
      if (!found.wasInterrupted() || function.getNumArguments() != 0)
        continue;
      ran &= succeeded(interpret(function, {}, options));
    }
    numChecks += outcome.passed;
    if (ran && outcome.passed + outcome.failed == 0) {
      getOperation().emitError("no check ran: a function without arguments must hold "
                               "'check.expect_close' or 'check.expect_equal'");
      ran = false;
    }
    if (!ran || outcome.failed)
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
