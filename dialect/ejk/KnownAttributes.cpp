//===- KnownAttributes.cpp - no attribute goes unseen ---------------------===//
#include "dialect/ejk/KnownAttributes.h"
#include "dialect/ejk/AlternativeAttributes.h"
#include "dialect/ejk/Attributes.h"
#include "dialect/ejk/Ejk.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace ejk;

StringRef ejk::nearestName(StringRef name, ArrayRef<StringRef> known) {
  // A third of the letters may differ; a name of one letter is near to nothing.
  unsigned best = name.size() / 3 + 1;
  StringRef nearest;
  for (StringRef candidate : known) {
    unsigned distance = name.edit_distance(candidate, /*AllowReplacements=*/true, best);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

//===----------------------------------------------------------------------===//
// Attributes of an op
//===----------------------------------------------------------------------===//

namespace {
/// What other libraries call an attribute, and what it is called here or why there is none.
struct OtherName {
  StringRef name, meant, advice = {};
};
} // namespace

static constexpr OtherName otherNames[] = {
    {"scale", "softmax_scale"},
    {"sm_scale", "softmax_scale"},
    {"qk_scale", "softmax_scale"},
    {"attention_scale", "softmax_scale"},
    {"is_reverse", "reverse"},
    {"reversed", "reverse"},
    {"backward", "reverse"},
    {"layer", "layer_idx"},
    {"layer_index", "layer_idx"},
    {"layer_id", "layer_idx"},
    {"layers", "num_layers"},
    {"n_layers", "num_layers"},
    {"num_hidden_layers", "num_layers"},
    {"output_final_state", "", "the final state is always a result, and unused costs nothing"},
    {"return_final_state", "", "the final state is always a result, and unused costs nothing"},
    {"head_first", "", "tensors are [B,T,H,channels]"},
    {"chunk_size", "", "the schedule chooses chunks (--schedule)"},
};

/// The attributes that `name` has and a user may write: not those that its syntax implies.
static SmallVector<StringRef> attributesOf(OperationName name) {
  SmallVector<StringRef> names;
  for (StringAttr attribute : name.getAttributeNames())
    if (!attribute.strref().ends_with("SegmentSizes") && attribute != "has_initial")
      names.push_back(attribute.strref());
  return names;
}

/// The other op of the dialect that has an attribute of this name; empty where none or several do.
static std::string onlyOpWith(Operation *op, StringRef attribute) {
  std::string found;
  for (RegisteredOperationName other : op->getContext()->getRegisteredOperations()) {
    if (other.getDialectNamespace() != op->getName().getDialectNamespace() ||
        !llvm::is_contained(attributesOf(other), attribute))
      continue;
    if (!found.empty())
      return "";
    found = other.getStringRef().str();
  }
  return found;
}

LogicalResult ejk::verifyKnownAttributes(Operation *op) {
  for (NamedAttribute attribute : op->getDiscardableAttrs()) {
    StringRef name = attribute.getName().strref();
    if (name.contains('.'))
      continue; // a dialect's, which verifies it
    SmallVector<StringRef> known = attributesOf(op->getName());
    InFlightDiagnostic error = op->emitOpError() << "has no attribute '" << name << "'";
    const OtherName *other =
        llvm::find_if(otherNames, [&](const OtherName &o) { return o.name == name; });
    if (other != std::end(otherNames) && !other->advice.empty())
      return error << ": " << other->advice;
    if (std::string owner = onlyOpWith(op, name); !owner.empty())
      return error << ", which '" << owner << "' has";
    StringRef meant = nearestName(name, known);
    if (other != std::end(otherNames) && llvm::is_contained(known, other->meant))
      meant = other->meant;
    if (!meant.empty())
      return error << "; did you mean '" << meant << "'?";
    if (known.empty())
      return error << "; it has none";
    return error << "; it has: " << llvm::join(known, ", ");
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Attributes of a dialect
//===----------------------------------------------------------------------===//

/// Each of `size` and `message`, and perhaps a `divisor`.
static bool isConstraint(Attribute value) {
  auto fields = dyn_cast<DictionaryAttr>(value);
  return fields && fields.contains("size") && fields.contains("message") &&
         fields.size() == (fields.contains("divisor") ? 3 : 2) &&
         llvm::all_of(fields, [](NamedAttribute field) { return isa<StringAttr>(field.getValue()); });
}

static bool isNumber(Attribute value) {
  auto number = dyn_cast<IntegerAttr>(value);
  return number && (number.getType().isIndex() || number.getType().isSignlessInteger()) &&
         number.getValue().getBitWidth() <= 64;
}

static bool isCondition(Attribute value) {
  auto condition = dyn_cast<ArrayAttr>(value);
  return condition && condition.size() == 3 && isa<StringAttr>(condition[0]) &&
         llvm::all_of(condition.getValue().drop_front(), [](Attribute operand) {
           return isa<StringAttr>(operand) || isNumber(operand) || isCondition(operand);
         });
}

static bool isOfKind(Attribute value, DialectAttribute::Kind kind) {
  switch (kind) {
  case DialectAttribute::Kind::string:
    return isa<StringAttr>(value);
  case DialectAttribute::Kind::integer:
    return isNumber(value);
  case DialectAttribute::Kind::unit:
    return isa<UnitAttr>(value);
  case DialectAttribute::Kind::array:
    return isa<ArrayAttr>(value);
  case DialectAttribute::Kind::sizes:
    return isa<ArrayAttr>(value) && llvm::all_of(cast<ArrayAttr>(value), llvm::IsaPred<StringAttr>);
  case DialectAttribute::Kind::constraints:
    return isa<ArrayAttr>(value) && llvm::all_of(cast<ArrayAttr>(value), isConstraint);
  case DialectAttribute::Kind::condition:
    return isCondition(value);
  }
  return false;
}

static StringRef spell(DialectAttribute::Kind kind) {
  switch (kind) {
  case DialectAttribute::Kind::string:
    return "a string";
  case DialectAttribute::Kind::integer:
    return "an integer";
  case DialectAttribute::Kind::unit:
    return "written without a value";
  case DialectAttribute::Kind::array:
    return "an array";
  case DialectAttribute::Kind::sizes:
    return "an array of strings";
  case DialectAttribute::Kind::constraints:
    return "an array of dictionaries with the strings size, message and perhaps divisor";
  case DialectAttribute::Kind::condition:
    return "an array of an operator and two operands";
  }
  return {};
}

static bool mayStand(const DialectAttribute &attribute, AttributePlace place) {
  switch (place) {
  case AttributePlace::op:
    return attribute.onOps;
  case AttributePlace::argument:
    return attribute.onArguments;
  case AttributePlace::result:
    return attribute.onResults;
  }
  return false;
}

LogicalResult ejk::verifyDialectAttribute(Operation *op, NamedAttribute attribute,
                                          AttributePlace place, ArrayRef<DialectAttribute> known) {
  StringRef name = attribute.getName().strref();
  StringRef where = place == AttributePlace::op         ? "an op"
                    : place == AttributePlace::argument ? "a function's argument"
                                                        : "a function's result";
  SmallVector<StringRef> here;
  for (const DialectAttribute &candidate : known)
    if (mayStand(candidate, place))
      here.push_back(candidate.name);
  if (!llvm::is_contained(here, name)) {
    InFlightDiagnostic error = op->emitError() << "'" << name << "' is no attribute of " << where;
    if (StringRef meant = nearestName(name, here); !meant.empty())
      return error << "; did you mean '" << meant << "'?";
    if (here.empty())
      return error;
    return error << "; there are: " << llvm::join(here, ", ");
  }
  const DialectAttribute *found = llvm::find_if(
      known, [&](const DialectAttribute &candidate) { return candidate.name == name; });
  if (!isOfKind(attribute.getValue(), found->kind))
    return op->emitError() << "'" << name << "' must be " << spell(found->kind) << ", but is "
                           << attribute.getValue();
  return success();
}

using Kind = DialectAttribute::Kind;

static constexpr DialectAttribute ejkAttributes[] = {
    // name, kind, on ops, on arguments, on results
    {kNameAttr, Kind::string, false, true, true},
    {kOperandAttr, Kind::string, false, true, false},
    {kLogDecayAttr, Kind::unit, false, true, false},
    {kKeyAttr, Kind::unit, false, true, false},
    {kRateAttr, Kind::unit, false, true, false},
    {kShapeAttr, Kind::sizes, false, true, true},
    {kTotalAttr, Kind::string, false, true, false},
    {kIndexedStatesAttr, Kind::string, false, true, false},
    {kMayAliasAttr, Kind::integer, false, true, true},
    {kInPlaceAttr, Kind::unit, false, true, true},
    {kRowStrideAttr, Kind::unit, false, true, false},
    {kConstraintsAttr, Kind::constraints, true, false, false},
    {kForwardOfAttr, Kind::string, true, false, false},
    {kDerivativeOfAttr, Kind::string, true, false, false},
    {kCotangentOfAttr, Kind::string, false, true, false},
    {kGradientOfAttr, Kind::string, false, true, true},
    {kSavedReadAttr, Kind::unit, false, true, false},
    {kScheduleAttr, Kind::string, true, false, false},
    {kAlternativeOfAttr, Kind::string, true, false, false},
    {kNeedsAttr, Kind::condition, true, false, false},
    {kWhenAttr, Kind::condition, true, false, false},
    {kTwoTermsAttr, Kind::unit, true, false, false},
    {kByGatesAttr, Kind::unit, true, false, false},
    {kForWeakGatesAttr, Kind::unit, true, false, false},
    {kLaunchedApartAttr, Kind::unit, true, false, false},
    {kLargeTilesAttr, Kind::unit, true, false, false},
    {kGivenReadsAttr, Kind::integer, true, false, false},
    {kNumInputsAttr, Kind::integer, true, false, false},
    {kDecayClassAttr, Kind::string, true, false, false},
};

/// That a described shape's numbers are the sizes of `type`, as far as both are known. Of what is no
/// tensor and no buffer, no size is described.
static LogicalResult verifyShape(Operation *op, Type type, ArrayAttr shape) {
  if (!isa<RankedTensorType, MemRefType>(type))
    return success();
  auto shaped = cast<ShapedType>(type);
  bool agrees = shape.size() == size_t(shaped.getRank());
  for (unsigned i = 0; agrees && i < shape.size(); ++i) {
    int64_t size;
    if (!cast<StringAttr>(shape[i]).getValue().getAsInteger(10, size))
      agrees = shaped.isDynamicDim(i) ? size >= 0 : size == shaped.getDimSize(i);
  }
  if (agrees)
    return success();
  return op->emitError() << "'" << kShapeAttr << "' must describe the type " << type << ", but is "
                         << shape;
}

/// What an attribute of known kind says of an argument or a result of `type`.
static LogicalResult verifyDescription(Operation *op, Type type, NamedAttribute attribute) {
  if (attribute.getName() == kShapeAttr)
    return verifyShape(op, type, cast<ArrayAttr>(attribute.getValue()));
  // Which memory may be shared, and which may be strided, is computed from the function's body.
  bool isStride = attribute.getName() == kRowStrideAttr;
  if ((attribute.getName() == kMayAliasAttr || attribute.getName() == kInPlaceAttr || isStride) &&
      isa<TensorType>(type))
    return op->emitError() << "'" << attribute.getName().strref()
                           << "' describes the buffers of a lowered function, but stands at a "
                           << type;
  auto buffer = dyn_cast<MemRefType>(type);
  if (isStride && (!buffer || buffer.getRank() < 3 || buffer.getLayout().isIdentity()))
    return op->emitError() << "'" << kRowStrideAttr
                           << "' needs a strided buffer of three dimensions or more, but stands at a "
                           << type;
  return success();
}

LogicalResult EjkDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  return verifyDialectAttribute(op, attribute, AttributePlace::op, ejkAttributes);
}
LogicalResult EjkDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned argument,
                                                   NamedAttribute attribute) {
  if (failed(verifyDialectAttribute(op, attribute, AttributePlace::argument, ejkAttributes)))
    return failure();
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function || argument >= function.getNumArguments())
    return success();
  return verifyDescription(op, function.getArgumentTypes()[argument], attribute);
}
LogicalResult EjkDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned result,
                                                      NamedAttribute attribute) {
  if (failed(verifyDialectAttribute(op, attribute, AttributePlace::result, ejkAttributes)))
    return failure();
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function || result >= function.getNumResults())
    return success();
  return verifyDescription(op, function.getResultTypes()[result], attribute);
}
