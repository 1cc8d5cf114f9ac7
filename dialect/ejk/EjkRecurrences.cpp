//===- EjkRecurrences.cpp - the recurrences' shared view and verifier -----===//
#include "dialect/ejk/Ejk.h"
#include "dialect/ejk/ShapeCheck.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace ejk;

//===----------------------------------------------------------------------===//
// ShapeCheck
//===----------------------------------------------------------------------===//

std::string ShapeCheck::spell(ArrayRef<StringRef> letters) {
  return "[" + llvm::join(letters, ",") + "]";
}

int64_t ShapeCheck::size(StringRef letter) const {
  auto it = bound.find(letter);
  return it == bound.end() ? ShapedType::kDynamic : it->second.first;
}

void ShapeCheck::bind(StringRef letter, int64_t size, StringRef from) {
  if (!ShapedType::isDynamic(size))
    bound.try_emplace(letter, size, from.str());
}

LogicalResult ShapeCheck::check(Value value, StringRef name, ArrayRef<StringRef> letters,
                                StringRef constraint) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getRank() != int64_t(letters.size()))
    return op->emitOpError() << "'" << name << "' must be " << spell(letters) << " (" << constraint
                             << "), rank " << letters.size() << ", but has rank " << type.getRank()
                             << ": " << type;
  for (auto [dim, letter] : llvm::enumerate(letters)) {
    int64_t found = type.getDimSize(dim);
    if (ShapedType::isDynamic(found))
      continue;
    auto [it, isNew] = bound.try_emplace(letter, found, ("'" + name + "'").str());
    if (!isNew && it->second.first != found)
      return op->emitOpError() << "'" << name << "' must be " << spell(letters) << " ("
                               << constraint << ") with " << letter << " = " << it->second.first
                               << " as " << it->second.second << " has it, but dimension " << dim
                               << " is " << found;
  }
  return success();
}

LogicalResult ShapeCheck::checkEither(Value value, StringRef name, ArrayRef<StringRef> shorter,
                                      ArrayRef<StringRef> longer, StringRef constraint) {
  int64_t rank = cast<RankedTensorType>(value.getType()).getRank();
  for (ArrayRef<StringRef> letters : {shorter, longer})
    if (rank == int64_t(letters.size()))
      return check(value, name, letters, constraint);
  return op->emitOpError() << "'" << name << "' must be " << spell(shorter) << " or "
                           << spell(longer) << " (" << constraint << "), but has rank " << rank
                           << ": " << value.getType();
}

//===----------------------------------------------------------------------===//
// Recurrence
//===----------------------------------------------------------------------===//

template <typename Op> static Recurrence viewCommon(Op op) {
  Recurrence r;
  r.query = op.getQuery();
  r.key = op.getKey();
  r.value = op.getValue();
  r.initialState = op.getInitialState();
  r.cuSeqlens = op.getCuSeqlens();
  r.output = op.getOutput();
  r.finalState = op.getFinalState();
  r.softmaxScale = op.getSoftmaxScaleAttr();
  r.reverse = op.getReverse();
  if constexpr (!std::is_same_v<Op, LightningAttnOp>)
    r.sharedState = op.getSharedState();
  return r;
}

std::optional<Recurrence> Recurrence::of(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::optional<Recurrence>>(op)
      .Case([](RecurrentOp op) {
        Recurrence r = viewCommon(op);
        r.g = op.getG();
        r.gGamma = op.getGGamma();
        r.gk = op.getGk();
        r.gv = op.getGv();
        return r;
      })
      .Case([](GLAOp op) {
        Recurrence r = viewCommon(op);
        r.g = op.getG();
        r.gGamma = op.getGGamma();
        return r;
      })
      .Case([](LightningAttnOp op) {
        Recurrence r = viewCommon(op);
        r.lightningFactor = 1.0 - double(op.getLayerIdx()) / double(op.getNumLayers());
        return r;
      })
      .Case([](DeltaRuleOp op) {
        Recurrence r = viewCommon(op);
        r.beta = op.getBeta();
        r.g = op.getG();
        r.gk = op.getGk();
        return r;
      })
      .Default([](Operation *) { return std::nullopt; });
}

int64_t Recurrence::keyChannels() const {
  return cast<RankedTensorType>(query.getType()).getDimSize(3);
}
int64_t Recurrence::valueChannels() const {
  return cast<RankedTensorType>(value.getType()).getDimSize(3);
}
double Recurrence::scale() const {
  return softmaxScale ? softmaxScale.getValueAsDouble() : 1.0 / std::sqrt(double(keyChannels()));
}

//===----------------------------------------------------------------------===//
// Verifier
//===----------------------------------------------------------------------===//

static Type elementOf(Value v) { return cast<RankedTensorType>(v.getType()).getElementType(); }

namespace {
struct ElementTypes {
  StringRef words;
  bool (*hold)(Type);
};
/// What an operand or result may be a tensor of, and the constraint that says so.
struct NamedTypes {
  StringRef name;
  ElementTypes types;
  StringRef constraint;
};
} // namespace

static constexpr ElementTypes anyFloat = {
    "f32, f16 or bf16", [](Type t) { return t.isF32() || t.isF16() || t.isBF16(); }};
static constexpr ElementTypes onlyF32 = {"f32", [](Type t) { return t.isF32(); }};
static constexpr ElementTypes anyOffset = {
    "i32 or i64", [](Type t) { return t.isSignlessInteger(32) || t.isSignlessInteger(64); }};

static constexpr NamedTypes namedTypes[] = {
    {"query", anyFloat, "C2"},   {"key", anyFloat, "C2"},          {"value", anyFloat, "C2"},
    {"g", anyFloat, "C5"},       {"g_gamma", onlyF32, "C6"},       {"gk", anyFloat, "C7"},
    {"gv", anyFloat, "C8"},      {"initial_state", onlyF32, "C9"}, {"cu_seqlens", anyOffset, "C10"},
    {"output", anyFloat, "C11"}, {"final_state", onlyF32, "C12"},  {"beta", anyFloat, "C15"},
};

static LogicalResult verifyElementType(Operation *op, Value value, StringRef name) {
  const NamedTypes *named =
      llvm::find_if(namedTypes, [&](const NamedTypes &types) { return types.name == name; });
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  if (tensor && named->types.hold(tensor.getElementType()))
    return success();
  return op->emitOpError() << "'" << name << "' must be a ranked tensor of " << named->types.words
                           << " (" << named->constraint << "), but is " << value.getType();
}

LogicalResult ejk::verifyNamedOperands(Operation *op, ArrayRef<StringRef> names,
                                       ArrayRef<int32_t> segments) {
  unsigned operand = 0;
  for (auto [name, count] : llvm::zip_equal(names, segments))
    for (int32_t i = 0; i < count; ++i)
      if (failed(verifyElementType(op, op->getOperand(operand++), name)))
        return failure();
  return success(succeeded(verifyElementType(op, op->getResult(0), "output")) &&
                 succeeded(verifyElementType(op, op->getResult(1), "final_state")));
}

static LogicalResult verifyRecurrence(Operation *op) {
  Recurrence r = *Recurrence::of(op);
  Type type = elementOf(r.query);
  ShapeCheck shapes(op);
  // Heads of query, of key, of value, and of the state.
  bool isDelta = bool(r.beta);
  StringRef hk = isDelta ? "Hk" : "Hkv", hv = isDelta ? "Hv" : "Hkv";
  StringRef hq = isDelta && !r.sharedState ? "Hk" : "H";
  StringRef h = isDelta ? "Hv" : r.sharedState ? "Hkv" : "H", ho = r.sharedState ? "H" : h;

  // C1 to C4: query, key and value.
  if (failed(shapes.check(r.query, "query", {"B", "T", hq, "K"}, "C1")) ||
      failed(shapes.check(r.key, "key", {"B", "T", hk, "K"}, "C1")) ||
      failed(shapes.check(r.value, "value", {"B", "T", hv, "V"}, "C1")))
    return failure();
  for (auto [operand, name] : {std::pair(r.key, "key"), std::pair(r.value, "value")})
    if (elementOf(operand) != type)
      return op->emitOpError() << "'" << name << "' must have query's element type " << type
                               << " (C2), but has " << elementOf(operand);
  // Each of an axis's tensors gives its size, for every kernel is made for it.
  for (auto [operand, name, letter, dim] :
       {std::tuple(r.query, "query", "K", 3), std::tuple(r.key, "key", "K", 3),
        std::tuple(r.value, "value", "V", 3), std::tuple(r.g, "g", "K", 3),
        std::tuple(r.gk, "gk", "K", 3), std::tuple(r.gv, "gv", "V", 3),
        std::tuple(r.initialState, "initial_state", "K", 2),
        std::tuple(r.initialState, "initial_state", "V", 3)}) {
    auto type = operand ? cast<RankedTensorType>(operand.getType()) : RankedTensorType();
    if (!type || type.getRank() <= dim)
      continue; // what another constraint is about
    int64_t size = type.getDimSize(dim);
    if (ShapedType::isDynamic(size) || size < 1 || size > kMaxChannels) {
      auto diag = op->emitOpError() << "'" << name << "' must have a static " << letter
                                    << " from 1 to " << kMaxChannels << " (C3), but ";
      return ShapedType::isDynamic(size) ? diag << "it is dynamic" : diag << "it is " << size;
    }
  }
  // `few` heads are shared by those of `many`.
  auto checkDivides = [&](StringRef few, StringRef many, StringRef message) -> LogicalResult {
    int64_t shared = shapes.size(few), heads = shapes.size(many);
    if (ShapedType::isDynamic(heads) || ShapedType::isDynamic(shared) ||
        (shared != 0 && heads % shared == 0))
      return success();
    return op->emitOpError() << message << " (C4), but " << few << " = " << shared << " and "
                             << many << " = " << heads;
  };
  if (isDelta &&
      failed(checkDivides(hk, hv,
                          r.sharedState ? "key heads must divide value heads"
                                        : "query and key heads must divide value heads")))
    return failure();
  if (hq == "H" && failed(checkDivides(hv, hq,
                                       isDelta ? "value heads must divide query heads"
                                               : "key/value heads must divide query heads")))
    return failure();

  // C5, C7, C8, C15: gates and beta, whose B may be static where query's is not.
  if (r.g && failed(isDelta ? shapes.check(r.g, "g", {"B", "T", h}, "C5")
                            : shapes.checkEither(r.g, "g", {"B", "T", h}, {"B", "T", h, "K"},
                                                 "C5")))
    return failure();
  if ((r.beta && failed(shapes.check(r.beta, "beta", {"B", "T", h}, "C15"))) ||
      (r.gk && failed(shapes.check(r.gk, "gk", {"B", "T", h, "K"}, "C7"))) ||
      (r.gv && failed(shapes.check(r.gv, "gv", {"B", "T", h, "V"}, "C8"))))
    return failure();

  // C10 comes before what depends on N.
  if (r.cuSeqlens) {
    if (failed(shapes.check(r.cuSeqlens, "cu_seqlens", {"N+1"}, "C10")))
      return failure();
    int64_t batch = shapes.size("B"), entries = shapes.size("N+1");
    if (!ShapedType::isDynamic(batch) && batch != 1)
      return op->emitOpError() << "with 'cu_seqlens', B must be 1 (C10), but is " << batch;
    shapes.bind("B", 1, "'cu_seqlens'");
    if (!ShapedType::isDynamic(entries)) {
      if (entries < 1)
        return op->emitOpError("'cu_seqlens' must have N+1 entries (C10), but has none");
      shapes.bind("N", entries - 1, "'cu_seqlens'");
    }
  } else {
    shapes.bind("N", shapes.size("B"), "the batch");
  }

  // C6: what depends on N.
  if (r.gGamma && failed(shapes.checkEither(r.gGamma, "g_gamma", {h}, {"N", h}, "C6")))
    return failure();

  // C9, C11 to C13: states, output, scale.
  if (r.initialState &&
      failed(shapes.check(r.initialState, "initial_state", {"N", h, "K", "V"}, "C9")))
    return failure();
  if (elementOf(r.output) != type)
    return op->emitOpError() << "'output' must have query's element type " << type
                             << " (C11), but has " << elementOf(r.output);
  if (failed(shapes.check(r.output, "output", {"B", "T", ho, "V"}, "C11")) ||
      failed(shapes.check(r.finalState, "final_state", {"N", h, "K", "V"}, "C12")))
    return failure();
  for (auto [result, dim, constraint] :
       {std::tuple(r.output, 3, "C11"), std::tuple(r.finalState, 2, "C12"),
        std::tuple(r.finalState, 3, "C12")})
    if (cast<RankedTensorType>(result.getType()).isDynamicDim(dim))
      return op->emitOpError() << "result type " << result.getType()
                               << " must have static channels (" << constraint
                               << "), but dimension " << dim << " is dynamic";
  if (r.softmaxScale && !std::isfinite(r.softmaxScale.getValueAsDouble()))
    return op->emitOpError() << "'softmax_scale' must be finite (C13), but is " << r.softmaxScale;
  return success();
}

LogicalResult RecurrentOp::verify() { return verifyRecurrence(*this); }
LogicalResult DeltaRuleOp::verify() { return verifyRecurrence(*this); }
LogicalResult GLAOp::verify() { return verifyRecurrence(*this); }
LogicalResult LightningAttnOp::verify() {
  int64_t layer = getLayerIdx(), layers = getNumLayers();
  if (layer < 0 || layer >= layers)
    return emitOpError() << "'layer_idx' must be from 0 to num_layers - 1 (C14), but layer_idx = "
                         << layer << " and num_layers = " << layers;
  return verifyRecurrence(*this);
}
