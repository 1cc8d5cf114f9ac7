//===- Mutations.cpp - small random changes of a module -------------------===//
#include "Mutations.h"
#include "Insertions.h"
#include "dialect/tile/Tile.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include <limits>

using namespace mlir;
using namespace ejk;
using namespace ejk::fuzz;

namespace {
class Mutator {
public:
  Mutator(ModuleOp module, Generator &random) : module(module), random(random) {
    module->walk([&](Operation *op) {
      if (op != module)
        ops.push_back(op);
      for (Region &region : op->getRegions())
        for (Block &block : region)
          llvm::append_range(values, block.getArguments());
      llvm::append_range(values, op->getResults());
    });
  }

  void run() {
    if (ops.empty())
      return;
    // The first are the likelier to make what verifies.
    switch (below(random, 18)) {
    case 0:
    case 1:
      return replaceOperand();
    case 2:
      return eraseOp();
    case 3:
      return duplicateOp();
    case 4:
      return moveOp();
    case 5:
    case 6:
    case 7:
      return changeAttribute();
    case 8:
      return copyAttribute();
    case 9:
      return removeAttribute();
    case 10:
    case 11:
      return changeSize();
    case 12:
      return changeElementType();
    case 13:
      return changeType();
    case 14:
    case 15:
      return insertAttribute(ops, random);
    case 16:
      return splitBlock(anyOp(), values, random);
    case 17:
      return insertBlock(anyOp(), random);
    }
  }

private:
  Operation *anyOp() { return pick(ArrayRef(ops), random); }

  /// Another value of `type`, wherever it is; null where there is none.
  Value otherValue(Type type, Value than) {
    SmallVector<Value> found;
    for (Value value : values)
      if (value != than && value.getType() == type)
        found.push_back(value);
    return found.empty() ? Value() : pick(ArrayRef(found), random);
  }

  void replaceOperand() {
    Operation *op = anyOp();
    if (op->getNumOperands() == 0)
      return;
    OpOperand &operand = op->getOpOperand(below(random, op->getNumOperands()));
    Value other = below(random, 8) == 0 ? pick(ArrayRef(values), random)
                                        : otherValue(operand.get().getType(), operand.get());
    if (other)
      operand.set(other);
  }

  void eraseOp() {
    Operation *op = anyOp();
    for (Value result : op->getResults()) {
      if (result.use_empty())
        continue;
      Value other = otherValue(result.getType(), result);
      if (!other || (other.getDefiningOp() && op->isAncestor(other.getDefiningOp())))
        return;
      result.replaceAllUsesWith(other);
    }
    for (Region &region : op->getRegions())
      for (Block &block : region)
        block.dropAllDefinedValueUses();
    op->erase();
  }

  void duplicateOp() {
    Operation *op = anyOp();
    if (op->hasTrait<OpTrait::IsTerminator>())
      return;
    OpBuilder b(op);
    b.setInsertionPointAfter(op);
    Operation *copy = b.clone(*op);
    for (auto [result, copied] : llvm::zip(op->getResults(), copy->getResults()))
      result.replaceUsesWithIf(copied, [&](OpOperand &use) {
        return use.getOwner() != copy && below(random, 2) == 0;
      });
  }

  void moveOp() {
    Operation *op = anyOp(), *to = below(random, 4) ? nullptr : anyOp();
    if (!to) {
      to = &op->getBlock()->front();
      for (size_t n = below(random, llvm::range_size(*op->getBlock())); n > 0; --n)
        to = to->getNextNode();
    }
    if (op != to && !op->isAncestor(to))
      op->moveBefore(to);
  }

  //===--------------------------------------------------------------------===//
  // Attributes
  //===--------------------------------------------------------------------===//

  Attribute changed(Attribute attribute) {
    MLIRContext *context = module.getContext();
    return llvm::TypeSwitch<Attribute, Attribute>(attribute)
        .Case([&](IntegerAttr a) -> Attribute {
          if (a.getType().isInteger(1))
            return BoolAttr::get(context, a.getValue().isZero());
          APInt value(64, number(a.getValue().getSExtValue(), random));
          return IntegerAttr::get(a.getType(), value.trunc(a.getValue().getBitWidth()));
        })
        .Case([&](FloatAttr a) -> Attribute {
          double values[] = {0.0, -0.0, 1.0, -1.0, 1e30, 1e-30, 88.0,
                             std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity(), -a.getValueAsDouble()};
          return FloatAttr::get(a.getType(), pick(ArrayRef(values), random));
        })
        .Case([&](StringAttr a) -> Attribute {
          const char *texts[] = {"",    "x",  "../x",     "B", "T",
                                 "N+1", "64", "B*T/64+N", "g", "\x1b[2J"};
          return StringAttr::get(context, pick(ArrayRef(texts), random));
        })
        .Case([&](tile::LayoutAttr a) -> Attribute {
          auto kind = tile::LayoutKind(below(random, 8));
          int64_t rows = a.getRowParts(), columns = a.getColumnParts();
          if (below(random, 2))
            (below(random, 2) ? rows : columns) = number(rows, random);
          return tile::LayoutAttr::get(context, below(random, 2) ? kind : a.getKind(), rows,
                                       columns);
        })
        .Case([&](ArrayAttr a) -> Attribute {
          SmallVector<Attribute> elements(a.getValue());
          if (elements.empty())
            return a;
          size_t i = below(random, elements.size()), j = below(random, elements.size());
          switch (below(random, 4)) {
          case 0:
            elements.erase(elements.begin() + i);
            break;
          case 1:
            elements.push_back(elements[i]);
            break;
          case 2:
            std::swap(elements[i], elements[j]);
            break;
          default:
            if (Attribute one = changed(elements[i]))
              elements[i] = one;
          }
          return ArrayAttr::get(context, elements);
        })
        .Case([&](DictionaryAttr a) -> Attribute {
          NamedAttrList elements(a.getValue());
          if (elements.empty())
            return a;
          NamedAttribute one = pick(a.getValue(), random);
          if (below(random, 3) == 0)
            elements.erase(one.getName());
          else if (Attribute other = changed(one.getValue()))
            elements.set(one.getName(), other);
          return elements.getDictionary(context);
        })
        .Case([&](DenseI64ArrayAttr a) -> Attribute {
          SmallVector<int64_t> numbers(a.asArrayRef());
          if (numbers.empty() || below(random, 4) == 0)
            numbers.push_back(number(0, random));
          else if (below(random, 4) == 0)
            numbers.pop_back();
          else if (int64_t &one = numbers[below(random, numbers.size())]; true)
            one = number(one, random);
          return DenseI64ArrayAttr::get(context, numbers);
        })
        .Case([&](AffineMapAttr a) -> Attribute {
          AffineMap map = a.getValue();
          SmallVector<AffineExpr> results(map.getResults());
          if (results.empty())
            return a;
          size_t i = below(random, results.size());
          if (below(random, 2) && map.getNumDims())
            results[i] = getAffineDimExpr(below(random, map.getNumDims()), context);
          else
            std::swap(results[i], results[below(random, results.size())]);
          return AffineMapAttr::get(
              AffineMap::get(map.getNumDims(), map.getNumSymbols(), results, context));
        })
        .Case([&](DenseElementsAttr a) -> Attribute {
          Type element = a.getElementType();
          if (isa<FloatType>(element))
            return DenseElementsAttr::get(
                a.getType(), changed(FloatAttr::get(element, 1.0)));
          return a;
        })
        .Default(Attribute());
  }

  /// An op with attributes, and one of them; no name where the op found has none.
  std::pair<Operation *, NamedAttribute> anyAttribute() {
    NamedAttribute none(StringAttr::get(module.getContext(), "none"),
                        UnitAttr::get(module.getContext()));
    for (unsigned attempt = 0; attempt < 20; ++attempt) {
      Operation *op = anyOp();
      DictionaryAttr all = op->getAttrDictionary();
      if (!all.empty())
        return {op, pick(all.getValue(), random)};
    }
    return {nullptr, none};
  }

  /// An attribute of another kind is none for an op that has its own place for it. What the
  /// op's parser and builders put there in its stead they put there here.
  static void setAttribute(Operation *op, StringAttr name, Attribute value) {
    if (value)
      op->setAttr(name, value);
    else
      op->removeAttr(name);
    if (op->getPropertiesStorageSize())
      op->getName().populateDefaultProperties(op->getPropertiesStorage());
  }

  void changeAttribute() {
    auto [op, attribute] = anyAttribute();
    if (!op)
      return;
    if (Attribute other = changed(attribute.getValue()))
      setAttribute(op, attribute.getName(), other);
  }

  void copyAttribute() {
    auto [op, attribute] = anyAttribute();
    if (!op)
      return;
    Operation *to = anyOp();
    if (below(random, 2)) {
      // Wherever the same kind of op lacks it, or has another.
      SmallVector<Operation *> alike;
      for (Operation *other : ops)
        if (other->getName() == op->getName())
          alike.push_back(other);
      to = pick(ArrayRef(alike), random);
    }
    setAttribute(to, attribute.getName(), attribute.getValue());
  }

  void removeAttribute() {
    auto [op, attribute] = anyAttribute();
    if (op)
      setAttribute(op, attribute.getName(), nullptr);
  }

  //===--------------------------------------------------------------------===//
  // Types
  //===--------------------------------------------------------------------===//

  void replaceTypes(llvm::function_ref<Type(ShapedType)> change) {
    AttrTypeReplacer replacer;
    replacer.addReplacement([&](Type type) -> std::optional<Type> {
      auto shaped = dyn_cast<ShapedType>(type);
      if (!shaped || !shaped.hasRank() || !isa<RankedTensorType, VectorType>(type))
        return std::nullopt;
      return change(shaped);
    });
    // A ring takes fewer kinds of tiles, and making one of others is an error at once.
    replacer.addReplacement([&](tile::RingType ring) -> std::optional<std::pair<Type, WalkResult>> {
      return std::make_pair(Type(ring), WalkResult::skip());
    });
    replacer.addReplacement([&](DenseElementsAttr elements) -> std::optional<Attribute> {
      ShapedType type = elements.getType(), to = cast<ShapedType>(replacer.replace(type));
      if (type == to || !elements.isSplat() || !to.hasStaticShape())
        return std::nullopt;
      if (type.getElementType() == to.getElementType())
        return elements.resizeSplat(to);
      if (auto value = dyn_cast<FloatAttr>(elements.getSplatValue<Attribute>()))
        if (isa<FloatType>(to.getElementType()))
          return DenseElementsAttr::get(
              to, Attribute(FloatAttr::get(to.getElementType(), value.getValueAsDouble())));
      return std::nullopt;
    });
    replacer.recursivelyReplaceElementsIn(module, /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                          /*replaceTypes=*/true);
  }

  ShapedType anyShapedType() {
    SmallVector<ShapedType> types;
    for (Value value : values)
      if (auto type = dyn_cast<ShapedType>(value.getType()); type && type.hasRank())
        types.push_back(type);
    return types.empty() ? ShapedType() : pick(ArrayRef(types), random);
  }

  /// One size becomes another wherever it is.
  void changeSize() {
    ShapedType type = anyShapedType();
    if (!type || type.getRank() == 0)
      return;
    unsigned dim = below(random, type.getRank());
    int64_t from = type.getDimSize(dim), sizes[] = {1, 2, 3, 8, 15, 16, 17, 32, 48, 64, 128, 256};
    int64_t to = pick(ArrayRef(sizes), random);
    if (below(random, 4) == 0)
      to = isa<RankedTensorType>(type) ? ShapedType::kDynamic : 0;
    bool hereOnly = ShapedType::isDynamic(from) || below(random, 3) == 0;
    replaceTypes([&](ShapedType old) -> Type {
      SmallVector<int64_t> shape(old.getShape());
      if (hereOnly) {
        if (old == type)
          shape[dim] = to;
      } else {
        llvm::replace(shape, from, to);
      }
      // Vectors have no size that is not known, nor one of 0.
      if (isa<VectorType>(old) &&
          llvm::any_of(shape, [](int64_t size) { return ShapedType::isDynamic(size) || !size; }))
        return old;
      return old.clone(shape);
    });
  }

  Type anyElementType() {
    MLIRContext *context = module.getContext();
    Type types[] = {Float32Type::get(context),  BFloat16Type::get(context),
                    Float16Type::get(context),  Float64Type::get(context),
                    IntegerType::get(context, 32), IntegerType::get(context, 64),
                    IntegerType::get(context, 1),  IndexType::get(context)};
    return types[below(random, below(random, 3) ? 4 : std::size(types))];
  }

  void changeElementType() {
    ShapedType type = anyShapedType();
    if (!type)
      return;
    Type from = type.getElementType(), to = anyElementType();
    bool onlyThis = below(random, 2);
    replaceTypes([&](ShapedType old) -> Type {
      bool isIt = onlyThis ? old == type : old.getElementType() == from;
      return isIt ? old.clone(to) : old;
    });
  }

  /// A value of another value's type.
  void changeType() {
    if (values.empty())
      return;
    Value value = pick(ArrayRef(values), random);
    value.setType(pick(ArrayRef(values), random).getType());
  }

  ModuleOp module;
  Generator &random;
  SmallVector<Operation *> ops;
  SmallVector<Value> values;
};
} // namespace

void fuzz::mutate(ModuleOp module, Generator &random) { Mutator(module, random).run(); }

std::string fuzz::mutateText(StringRef text, Generator &random) {
  SmallVector<StringRef> lines;
  text.split(lines, '\n');
  size_t i = below(random, lines.size()), j = below(random, lines.size());
  std::string changed;
  switch (below(random, 6)) {
  case 0:
    lines.erase(lines.begin() + i);
    break;
  case 1:
    lines.insert(lines.begin() + j, lines[i]);
    break;
  case 2:
    std::swap(lines[i], lines[std::min(i + 1, lines.size() - 1)]);
    break;
  default: {
    // The start of a number, from a random place on.
    size_t at = text.find_first_of("0123456789", below(random, text.size()));
    if (at == StringRef::npos)
      return text.str();
    size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
    int64_t old = 0;
    (void)text.slice(at, end).getAsInteger(10, old);
    return (text.take_front(at) + Twine(number(old, random)) + text.drop_front(end)).str();
  }
  }
  return llvm::join(lines, "\n");
}
