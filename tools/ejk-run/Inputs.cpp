//===- Inputs.cpp - a function's inputs, from files or at random ----------===//
#include "Inputs.h"
#include "Slots.h"
#include "dialect/check/Check.h"
#include "dialect/ejk/Ejk.h"
#include "dialect/ejk/Names.h"
#include "dialect/ejk/Roles.h"
#include "dialect/tile/Tile.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Parallel.h"
#include <cmath>

using namespace mlir;
using namespace ejk;

static Error bad(const Twine &message) { return {ErrorCode::InvalidArgument, message.str()}; }

std::optional<DataType> ejk::dataTypeOf(Type element) {
  if (element.isF32())
    return DataType::F32;
  if (element.isF16())
    return DataType::F16;
  if (element.isBF16())
    return DataType::BF16;
  if (element.isF64())
    return DataType::F64;
  if (element.isSignlessInteger(32))
    return DataType::I32;
  if (element.isSignlessInteger(64) || element.isIndex())
    return DataType::I64;
  return std::nullopt;
}

namespace {
/// The sizes of a function's symbols, and which argument each came from.
class SymbolSizes {
public:
  explicit SymbolSizes(func::FuncOp function, bool fromNpy = false)
      : function(function), shapes(function), fromNpy(fromNpy) {}

  unsigned rank(unsigned argument) const {
    auto type = dyn_cast<RankedTensorType>(function.getArgumentTypes()[argument]);
    return type ? type.getRank() : 0;
  }
  /// "bf16 [B, T, H, 64]"
  std::string spell(unsigned argument) const;
  /// Checks an argument's shape and binds the symbols that it is the first to have.
  Result<bool> bind(unsigned argument, const HostTensor &tensor);
  /// Divisibility, and what must be 1.
  Result<bool> checkRules() const;

  /// Nothing where a symbol has no size.
  std::optional<int64_t> evaluate(const DimExpr &dim) const {
    if (dim.kind == DimExpr::Kind::constant)
      return dim.value;
    if (dim.kind == DimExpr::Kind::slots) {
      std::optional<int64_t> values[3];
      for (unsigned i = 0; i < 3; ++i)
        if (!(values[i] = evaluate(dim.factors[i])))
          return std::nullopt;
      return *values[0] * *values[1] / dim.value + *values[2];
    }
    auto it = sizes.find(dim.symbol);
    if (it == sizes.end())
      return std::nullopt;
    return it->second + (dim.kind == DimExpr::Kind::symbolPlusOne);
  }
  DimExpr dim(unsigned argument, unsigned dim) const {
    return shapes.dim(function.getArgument(argument), dim);
  }

  /// Sizes that no input binds.
  void know(const Sizes &chosen) {
    for (auto [symbol, size] : chosen) {
      sizes[symbol] = size;
      boundBy[symbol] = "--random";
    }
  }

  Sizes sizes;
  mutable func::FuncOp function; // a handle, whose getters are not const
  ShapeAnalysis shapes;

private:
  bool fromNpy;
  std::map<std::string, std::string> boundBy;
};
} // namespace

std::string SymbolSizes::spell(unsigned argument) const {
  Type element = getElementTypeOrSelf(function.getArgumentTypes()[argument]);
  std::string text(dataTypeName(*dataTypeOf(element)));
  text += " [";
  for (unsigned i = 0, e = rank(argument); i < e; ++i)
    text += (i ? ", " : "") + dim(argument, i).str();
  return text + "]";
}

Result<bool> SymbolSizes::bind(unsigned argument, const HostTensor &tensor) {
  std::string name = argumentName(function, argument);
  auto wrong = [&](const Twine &why) {
    return bad("input '" + name + "' must be " + spell(argument) + why + ", but is " +
               tensor.describe());
  };
  DataType wanted = *dataTypeOf(getElementTypeOrSelf(function.getArgumentTypes()[argument]));
  if (tensor.dtype != wanted)
    return wrong(wanted == DataType::BF16 && fromNpy
                     ? " (which .npy files cannot hold: use safetensors)"
                     : "");
  if (tensor.shape.size() != rank(argument))
    return wrong("");
  for (unsigned i = 0, e = rank(argument); i < e; ++i) {
    DimExpr expr = dim(argument, i);
    if (std::optional<int64_t> size = evaluate(expr)) {
      if (*size != tensor.shape[i])
        return expr.symbol.empty()
                   ? wrong(expr.kind == DimExpr::Kind::slots
                               ? " with " + Twine(*size) + " slots for the sizes of the others"
                               : "")
                   : wrong(" with " + expr.symbol + " = " + Twine(sizes[expr.symbol]) + " as '" +
                           boundBy[expr.symbol] + "' has it");
      continue;
    }
    if (expr.kind == DimExpr::Kind::slots)
      continue; // its sizes are bound by a later argument
    int64_t size = tensor.shape[i] - (expr.kind == DimExpr::Kind::symbolPlusOne);
    if (size < 0)
      return wrong("");
    sizes[expr.symbol] = size;
    boundBy[expr.symbol] = name;
  }
  return true;
}

Result<bool> SymbolSizes::checkRules() const {
  for (const ShapeAnalysis::Divides &rule : shapes.divisibilities()) {
    std::optional<int64_t> divisor = evaluate(rule.divisor), dividend = evaluate(rule.dividend);
    if (divisor && dividend && (*divisor == 0 ? *dividend != 0 : *dividend % *divisor != 0))
      return bad(rule.message + ", but they are " + Twine(*divisor) + " and " + Twine(*dividend));
  }
  for (const ShapeAnalysis::IsOne &rule : shapes.ones()) {
    std::optional<int64_t> size = evaluate(rule.dim);
    if (size && *size != 1)
      return bad(rule.message + ", but is " + Twine(*size));
  }
  return true;
}

/// An argument of a type that no file holds is an error before any other.
static Result<bool> checkArgumentTypes(func::FuncOp function) {
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
    if ((isa<ShapedType>(type) && !isa<RankedTensorType>(type)) ||
        !dataTypeOf(getElementTypeOrSelf(type))) {
      std::string text;
      llvm::raw_string_ostream(text) << type;
      return bad("argument '" + argumentName(function, i) + "' is " + text +
                 ", which no input file can hold");
    }
  return true;
}

/// What is given for an argument, by its name or else by the letter of its operand; null when
/// nothing is.
static const HostTensor *givenFor(func::FuncOp function, unsigned argument,
                                  const std::vector<HostTensor> &given) {
  if (const HostTensor *tensor = findTensor(given, argumentName(function, argument)))
    return tensor;
  std::string operand = argumentOperand(function, argument);
  return !operand.empty() && findArgument(function, operand) == argument
             ? findTensor(given, operand)
             : nullptr;
}

/// Takes each argument's tensor from `given` and binds its sizes; an argument
/// behind the first `required` may be missing, and is left without a name.
static Result<std::vector<HostTensor>>
takeGiven(SymbolSizes &symbols, const std::vector<HostTensor> &given, unsigned required) {
  func::FuncOp function = symbols.function;
  if (Result<bool> types = checkArgumentTypes(function); !types)
    return types.error();
  std::vector<HostTensor> inputs;
  for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i) {
    std::string name = argumentName(function, i);
    const HostTensor *tensor = givenFor(function, i, given);
    if (!tensor && i < required) {
      std::string names =
          llvm::join(llvm::map_range(given, [](const HostTensor &t) { return t.name; }), ", ");
      return bad("input '" + name + "' must be " + symbols.spell(i) + ", but is not given; " +
                 (given.empty() ? std::string("use --inputs or --random") : "given are: " + names) +
                 "; the function takes: " + listArguments(function));
    }
    if (!tensor) {
      inputs.emplace_back();
      continue;
    }
    if (Result<bool> bound = symbols.bind(i, *tensor); !bound)
      return bound.error();
    inputs.push_back(*tensor);
    inputs.back().name = name;
  }
  if (Result<bool> rules = symbols.checkRules(); !rules)
    return rules.error();
  return inputs;
}

//===----------------------------------------------------------------------===//
// Random inputs
//===----------------------------------------------------------------------===//

/// An error names a size that the function does not have.
static Result<bool> checkSymbols(const SymbolSizes &symbols) {
  ArrayRef<std::string> known = symbols.shapes.symbols();
  for (const auto &[name, size] : symbols.sizes)
    if (!llvm::is_contained(known, name))
      return bad("--random: the function has no size '" + name +
                 "'; it has: " + llvm::join(known, ", "));
  return true;
}

/// Gives symbols that follow from others their sizes; an error names the rest.
static Result<bool> completeSizes(SymbolSizes &symbols) {
  if (Result<bool> known = checkSymbols(symbols); !known)
    return known;
  for (const ShapeAnalysis::IsOne &rule : symbols.shapes.ones())
    symbols.sizes.try_emplace(rule.dim.symbol, 1);
  for (const ShapeAnalysis::Divides &rule : symbols.shapes.divisibilities())
    if (std::optional<int64_t> heads = symbols.evaluate(rule.dividend))
      if (rule.divisor.kind == DimExpr::Kind::symbol)
        symbols.sizes.try_emplace(rule.divisor.symbol, *heads);
  std::string missing;
  for (unsigned i = 0, e = symbols.function.getNumArguments(); i < e; ++i)
    for (unsigned d = 0, rank = symbols.rank(i); d < rank; ++d) {
      DimExpr expr = symbols.dim(i, d);
      if (!symbols.evaluate(expr) && missing.find(expr.symbol) == std::string::npos)
        missing += (missing.empty() ? "" : ", ") + expr.symbol;
    }
  if (!missing.empty())
    return bad("--random also needs sizes for: " + missing);
  return symbols.checkRules();
}

namespace {
/// How an input's numbers are drawn, and what multiplies them.
struct Drawn {
  check::Distribution distribution;
  double factor = 1;
};
} // namespace

/// At the scale that a trained model has, so that no state grows past what its type holds:
/// keys about as long as 1, as normalised ones are, decays near 1, beta between 0 and 1. (The delta
/// rule subtracts beta k kᵀ from what it keeps, which else grows with the steps.)
static Drawn drawnAs(func::FuncOp function, unsigned index, int64_t channels) {
  switch (roleOf(function, index)) {
  case Role::logDecay: // of a profile
    return {check::Distribution::normal};
  case Role::rate:
    return {check::Distribution::uniform};
  case Role::key:
    return {check::Distribution::normal, channels > 0 ? 1 / std::sqrt(double(channels)) : 1};
  case Role::none:
    return {check::Distribution::normal};
  }
}

Result<std::vector<HostTensor>> ejk::drawInputs(func::FuncOp function, Sizes sizes, uint64_t seed,
                                                StringRef gates) {
  if (Result<bool> types = checkArgumentTypes(function); !types)
    return types.error();
  SymbolSizes symbols(function);
  symbols.sizes = std::move(sizes);
  if (Result<bool> complete = completeSizes(symbols); !complete)
    return complete.error();
  std::vector<HostTensor> inputs;
  // Every argument has a generator of its own, seeded by one: a change of one
  // size leaves the other tensors' numbers.
  check::Random seeds(seed);
  std::map<void *, Taken> taken; // of each pool
  for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i) {
    check::Random random(seeds.next());
    std::vector<int64_t> shape;
    for (unsigned d = 0, rank = symbols.rank(i); d < rank; ++d)
      shape.push_back(*symbols.evaluate(symbols.dim(i, d)));
    std::string name = argumentName(function, i);
    if (!reference::checkSize(shape))
      return bad("input '" + name + "' would have shape " + reference::spellShape(shape) +
                 ", which is too large");
    DataType dtype = *dataTypeOf(getElementTypeOrSelf(function.getArgumentTypes()[i]));
    HostTensor tensor = makeTensor(name, dtype, shape);
    Value argument = function.getArgument(i);
    if (Value rows = packedBy(argument)) {
      int64_t steps = symbols.evaluate(symbols.shapes.dim(rows, 1)).value_or(0);
      for (auto [n, offset] : llvm::enumerate(drawOffsets(shape[0], steps, random)))
        setElement(tensor, n, offset);
    } else if (Value pool = pooledBy(argument)) {
      int64_t states = symbols.evaluate(symbols.shapes.dim(pool, 0)).value_or(0);
      int64_t sequences = shape.empty() ? 1 : shape.front();
      for (auto [n, index] : llvm::enumerate(drawIndices(tensor.numElements(), sequences, states,
                                                         taken[pool.getAsOpaquePointer()], random)))
        setElement(tensor, n, index);
    } else if (Value drafted = acceptedOf(argument)) {
      int64_t rows = symbols.evaluate(symbols.shapes.dim(drafted, 1)).value_or(1);
      for (int64_t n = 0; n < shape[0]; ++n)
        setElement(tensor, n, 1 + double(random.next() % rows));
    } else if (isa<FloatType>(getElementTypeOrSelf(function.getArgumentTypes()[i]))) {
      Drawn drawn = drawnAs(function, i, shape.empty() ? 1 : shape.back());
      bool isGate = roleOf(function, i) == Role::logDecay;
      Result<GateProfile> profile =
          GateProfile::make(gates, isGate ? shape : std::vector<int64_t>(), seed);
      if (!profile)
        return bad("--gates: " + profile.error().message);
      constexpr int64_t some = 1 << 16;
      int64_t size = tensor.numElements();
      llvm::parallelFor(0, llvm::divideCeil(size, some), [&](size_t part) {
        check::Random own = random;
        own.skip(2 * part * some);
        for (int64_t n = part * some, end = std::min(size, n + some); n < end; ++n) {
          double x = own.draw(drawn.distribution);
          setElement(tensor, n, isGate ? profile->at(n, x) : drawn.factor * x);
        }
      });
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

Result<bool> ejk::checkNames(func::FuncOp function, const std::vector<HostTensor> &given) {
  for (const HostTensor &tensor : given)
    if (!findArgument(function, tensor.name))
      return bad("--inputs: the function has no input '" + tensor.name +
                 "'; it has: " + listArguments(function));
  return true;
}

Result<std::vector<HostTensor>> ejk::matchInputs(func::FuncOp function,
                                                 const std::vector<HostTensor> &given,
                                                 unsigned required, const Sizes &sizes,
                                                 uint64_t seed, StringRef gates, bool fromNpy) {
  SymbolSizes symbols(function, fromNpy);
  symbols.know(sizes);
  if (Result<bool> known = checkSymbols(symbols); !known)
    return known.error();
  Result<std::vector<HostTensor>> inputs = takeGiven(symbols, given, required);
  if (!inputs || llvm::none_of(*inputs, [](const HostTensor &t) { return t.name.empty(); }))
    return inputs;
  Result<std::vector<HostTensor>> drawn = drawInputs(function, symbols.sizes, seed, gates);
  if (!drawn)
    return drawn;
  for (auto [input, replacement] : llvm::zip(*inputs, *drawn))
    if (input.name.empty())
      input = std::move(replacement);
  return inputs;
}

//===----------------------------------------------------------------------===//
// To the interpreter and back
//===----------------------------------------------------------------------===//

reference::Tensor ejk::toInterpreter(const HostTensor &tensor, Type type) {
  reference::Tensor t = reference::Tensor::zeros(getElementTypeOrSelf(type), tensor.shape);
  for (int64_t i = 0, n = tensor.numElements(); i < n; ++i)
    if (t.isFloat())
      t.floats[i] = elementAsDouble(tensor, i);
    else
      t.ints[i] = int64_t(elementAsDouble(tensor, i));
  return t;
}

HostTensor ejk::fromInterpreter(const reference::Tensor &tensor, std::string name, DataType dtype) {
  HostTensor host = makeTensor(std::move(name), dtype,
                               std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end()));
  for (size_t i = 0; i < tensor.size(); ++i)
    setElement(host, i, tensor.isFloat() ? tensor.floats[i] : double(tensor.ints[i]));
  return host;
}
