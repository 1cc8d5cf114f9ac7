//===- Meaning.cpp - what a module's functions compute --------------------===//
#include "Meaning.h"
#include "Inputs.h"
#include "tools/interpret/Interpret.h"
#include "dialect/shapes/Shapes.h"
#include "dialect/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"
#include <cmath>

using namespace mlir;
using namespace ejk;
using namespace ejk::fuzz;
using reference::Tensor;

/// How far results may be apart: passes reorder sums, which the interpreter takes in f64.
constexpr double kTolerance = 1e-6;
/// Numbers beyond are near what f32 holds, and differences of them may be anything.
constexpr double kLargest = 1e18;
/// What one function may hold, so that no mutant takes a second.
constexpr int64_t kMostElements = 1 << 16;

/// Small sizes for all that is free to choose.
static Sizes chooseSizes(func::FuncOp function, uint64_t seed) {
  ShapeAnalysis shapes(function);
  auto follows = [&](const std::string &symbol) {
    return llvm::any_of(shapes.ones(), [&](auto &one) { return one.dim.symbol == symbol; }) ||
           llvm::any_of(shapes.divisibilities(),
                        [&](auto &rule) { return rule.divisor.symbol == symbol; });
  };
  constexpr int64_t steps[] = {1, 3, 17, 40};
  Sizes sizes;
  for (const std::string &symbol : shapes.symbols())
    if (!follows(symbol))
      sizes[symbol] = symbol[0] == 'T' ? steps[seed % 4] : symbol[0] == 'N' ? 3 : 2;
  return sizes;
}

static bool isTame(const Tensor &tensor) {
  return llvm::all_of(tensor.floats, [](double x) { return std::fabs(x) < kLargest; });
}

/// How many of the last results of `op` are saved states, of which slots may be undefined, NaN.
static size_t savedStates(Operation *op) {
  if (auto scan = dyn_cast<ScanOp>(op))
    return scan.getSaves().size();
  auto program = dyn_cast<tile::ProgramOp>(op);
  return program ? program.getSaves().size() : 0;
}

static bool isTame(Operation *op, ArrayRef<Tensor> made) {
  size_t saves = savedStates(op);
  return llvm::all_of(made.drop_back(saves), [](const Tensor &x) { return isTame(x); }) &&
         llvm::all_of(made.take_back(saves), [](const Tensor &tensor) {
           return llvm::all_of(tensor.floats,
                               [](double x) { return std::isnan(x) || std::fabs(x) < kLargest; });
         });
}

/// How far apart the first two unlike tensors are; nothing where all are alike. What was undefined,
/// NaN, may be anything.
static std::optional<std::pair<size_t, std::string>> firstDifference(ArrayRef<Tensor> were,
                                                                     ArrayRef<Tensor> are) {
  for (auto [i, was, result] : llvm::enumerate(were, are)) {
    if (was.shape != result.shape)
      return {{i, "has another shape"}};
    Tensor is = result;
    for (auto [x, y] : llvm::zip(was.floats, is.floats))
      y = std::isnan(x) ? x : y;
    check::Distance d = check::distance(is, was);
    // Zero stays zero but for what sums leave.
    if (!(d.relative <= kTolerance) &&
        !llvm::all_of(llvm::zip(was.floats, is.floats), [](auto pair) {
          return std::fabs(std::get<0>(pair) - std::get<1>(pair)) <= kTolerance;
        }))
      return {{i, "differs by " + std::to_string(d.relative)}};
  }
  return std::nullopt;
}

/// Whether the exact paths of `function`'s range guards give `results`, too.
bool Meaning::pathsAgree(func::FuncOp function, const Function &known) {
  SmallVector<tile::RangeGuardOp> guards;
  auto module = function->getParentOfType<ModuleOp>();
  if (!module.walk([](tile::RangeGuardOp) { return WalkResult::interrupt(); }).wasInterrupted())
    return true;
  OwningOpRef<ModuleOp> copy = module.clone();
  copy->walk([&](tile::RangeGuardOp guard) { guards.push_back(guard); });
  for (tile::RangeGuardOp guard : guards) {
    OpBuilder b(guard);
    guard.replaceAllUsesWith(
        arith::ConstantIntOp::create(b, guard.getLoc(), 0, /*width=*/1).getResult());
    guard.erase();
  }
  std::optional<std::vector<Tensor>> exact =
      run(copy->lookupSymbol<func::FuncOp>(function.getName()), known.inputs);
  return exact && exact->size() == known.results.size() &&
         !firstDifference(known.results, *exact);
}

std::optional<std::vector<Tensor>> Meaning::run(func::FuncOp function, ArrayRef<Tensor> inputs,
                                                bool *allTame) {
  std::vector<Tensor> checked;
  reference::Options options;
  options.threads = 1;
  check::Outcome outcome;
  check::addCheckOps(options, outcome);
  auto checkOps = options.extension;
  options.extension = [&](Operation *op) -> reference::OpHandler {
    if (!isa<check::ExpectCloseOp, check::ExpectEqualOp>(op))
      return checkOps(op);
    return [&](Operation *, ArrayRef<const Tensor *> operands,
               SmallVectorImpl<Tensor> &) -> LogicalResult {
      checked.push_back(*operands[0]);
      return success();
    };
  };
  if (allTame)
    options.observe = [&](Operation *op, ArrayRef<Tensor> made) {
      // A constant of -inf may be a gate that forgets.
      *allTame &= op->hasTrait<OpTrait::ConstantLike>() || isTame(op, made);
    };
  FailureOr<SmallVector<Tensor>> results = reference::interpret(function, inputs, options);
  if (failed(results))
    return std::nullopt;
  std::vector<Tensor> all(results->begin(), results->end());
  llvm::append_range(all, checked);
  return all;
}

/// Whether the function's tensors are small, and of types that inputs can have.
static bool canRun(func::FuncOp function) {
  WalkResult walked = function.walk([](Operation *op) {
    for (Type type : op->getResultTypes())
      if (auto shaped = dyn_cast<ShapedType>(type); shaped && shaped.hasStaticShape())
        if (!reference::checkSize(shaped.getShape()) || shaped.getNumElements() > kMostElements)
          return WalkResult::interrupt();
    return WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return false;
  return llvm::all_of(function.getArgumentTypes(), [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && dataTypeOf(tensor.getElementType());
  });
}

Meaning::Meaning(ModuleOp module, uint64_t seed) {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isPrivate() || function.isExternal() || !canRun(function))
      continue;
    Sizes sizes = chooseSizes(function, seed);
    Result<std::vector<HostTensor>> drawn = drawInputs(function, sizes, seed);
    if (!drawn)
      continue;
    Function known;
    known.type = function.getFunctionType();
    int64_t elements = 0;
    for (auto [tensor, type] : llvm::zip(*drawn, function.getArgumentTypes())) {
      elements += tensor.numElements();
      known.inputs.push_back(toInterpreter(tensor, type));
    }
    if (elements > kMostElements)
      continue;
    bool allTame = true;
    std::optional<std::vector<Tensor>> results = run(function, known.inputs, &allTame);
    if (!results || !allTame)
      continue;
    known.results = std::move(*results);
    if (pathsAgree(function, known))
      functions[function.getName().str()] = std::move(known);
  }
}

std::string Meaning::differenceFrom(ModuleOp module, unsigned &compared) const {
  for (const auto &[name, known] : functions) {
    auto function = module.lookupSymbol<func::FuncOp>(name);
    if (!function || function.getFunctionType() != known.type)
      continue;
    std::optional<std::vector<Tensor>> results = run(function, known.inputs);
    if (!results)
      return name + ": can no longer be interpreted";
    if (results->size() != known.results.size())
      return name + ": checks another number of tensors";
    if (auto difference = firstDifference(known.results, *results))
      return name + ": result " + std::to_string(difference->first) + " " + difference->second;
    ++compared;
  }
  return "";
}
