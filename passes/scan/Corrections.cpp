//===- Corrections.cpp - what a step adds that depends on reads -----------===//
#include "passes/scan/Corrections.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/scan/ScanProperties.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace ejk;

/// The state that the step's K×V value `matrix` is made of.
static Value rootOf(Value matrix) {
  while (isa_and_nonnull<DecayOp, OuterAddOp>(matrix.getDefiningOp()))
    matrix = matrix.getDefiningOp()->getOperand(0);
  return matrix;
}

namespace {
/// Takes apart what depends on the reads of one state.
class Splitter {
public:
  Splitter(Value state, Operation *before, SmallVectorImpl<Operation *> &made)
      : state(state), b(before), loc(before->getLoc()), made(made) {}

  bool depends(Value value) {
    auto known = dependent.find(value);
    if (known != dependent.end())
      return known->second;
    Operation *op = value.getDefiningOp();
    bool result = false;
    if (auto read = dyn_cast_or_null<ReadOp>(op))
      result = rootOf(read.getState()) == state || depends(read.getVector());
    else if (op && !isMatrix(value))
      result = llvm::any_of(op->getOperands(), [&](Value v) { return depends(v); });
    return dependent[value] = result;
  }

  /// Null, after `why` was set, where `value` is no sum of reads.
  std::optional<CorrectionParts> split(Value value) {
    if (!depends(value))
      return CorrectionParts{value, {}, {}};
    // A sum may take one value twice, and so on.
    if (auto known = splits.find(value); known != splits.end())
      return known->second;
    std::optional<CorrectionParts> found = splitDependent(value);
    if (found)
      splits.insert({value, *found});
    return found;
  }

  std::optional<CorrectionParts> splitDependent(Value value) {
    Operation *op = value.getDefiningOp();
    if (isa<ReadOp>(op)) {
      if (depends(cast<ReadOp>(op).getVector()))
        return refuse("what is read of the state decides over what is read with");
      CorrectionParts parts;
      parts.factors[op] = Value();
      return parts;
    }
    return llvm::TypeSwitch<Operation *, std::optional<CorrectionParts>>(op)
        .Case<arith::AddFOp, arith::SubFOp>([&](auto sum) { return splitSum(sum); })
        .Case([&](arith::NegFOp) -> std::optional<CorrectionParts> {
          std::optional<CorrectionParts> parts = split(op->getOperand(0));
          if (!parts)
            return parts;
          return map(
              *parts, [&](Value rest) { return make<arith::NegFOp>(rest); },
              [&](Value factor) { return negative(factor); });
        })
        .Case([&](arith::MulFOp product) -> std::optional<CorrectionParts> {
          bool onRight = depends(product.getRhs());
          if (onRight && depends(product.getLhs()))
            return refuse("what is added is not linear in what is read");
          Value other = product->getOperand(!onRight);
          return scale(product->getOperand(onRight), other,
                       [&](Value x, Value y) { return make<arith::MulFOp>(x, y); });
        })
        .Case([&](arith::DivFOp quotient) -> std::optional<CorrectionParts> {
          if (depends(quotient.getRhs()))
            return refuse("what is added is not linear in what is read");
          return scale(quotient.getLhs(), quotient.getRhs(), [&](Value x, Value y) {
            return make<arith::DivFOp>(x ? x : one(y.getType()), y);
          });
        })
        .Default(
            [&](Operation *) { return refuse("what is added is not linear in what is read"); });
  }

  /// `parts` of a vector of `type`, with zero and one as values.
  void complete(CorrectionParts &parts, Type type) {
    if (!parts.rest)
      parts.rest = make<arith::ConstantOp>(cast<TypedAttr>(b.getZeroAttr(type)));
    for (auto &[read, factor] : parts.factors)
      if (!factor)
        factor = one(b.getF32Type());
  }

  std::string why;

private:
  std::nullopt_t refuse(StringRef reason) {
    why = reason.str();
    return std::nullopt;
  }
  template <typename Op, typename... Args> Value make(Args... args) {
    auto op = Op::create(b, loc, args...);
    made.push_back(op);
    return op;
  }
  Value one(Type type) {
    TypedAttr attr = b.getF32FloatAttr(1);
    if (auto vector = dyn_cast<VectorType>(type))
      attr = DenseElementsAttr::get(vector, Attribute(attr));
    return make<arith::ConstantOp>(attr);
  }
  Value negative(Value factor) {
    return make<arith::NegFOp>(factor ? factor : one(b.getF32Type()));
  }

  template <typename Rest, typename Factor>
  CorrectionParts map(CorrectionParts parts, Rest ofRest, Factor ofFactor) {
    if (parts.rest)
      parts.rest = ofRest(parts.rest);
    for (auto &[read, factor] : parts.factors)
      factor = ofFactor(factor);
    return parts;
  }

  template <typename Op> std::optional<CorrectionParts> splitSum(Op sum) {
    std::optional<CorrectionParts> lhs = split(sum.getLhs());
    std::optional<CorrectionParts> rhs = lhs ? split(sum.getRhs()) : std::nullopt;
    if (!rhs)
      return std::nullopt;
    constexpr bool isSub = std::is_same_v<Op, arith::SubFOp>;
    if constexpr (isSub)
      *rhs = map(
          *rhs, [&](Value rest) { return lhs->rest ? rest : make<arith::NegFOp>(rest); },
          [&](Value factor) { return negative(factor); });
    if (rhs->rest && lhs->rest)
      lhs->rest = make<Op>(lhs->rest, rhs->rest);
    else if (rhs->rest)
      lhs->rest = rhs->rest;
    for (auto [read, factor] : rhs->factors) {
      auto [place, isNew] = lhs->factors.insert({read, factor});
      if (!isNew)
        place->second = make<arith::AddFOp>(
            place->second ? place->second : one(b.getF32Type()),
            factor ? factor : one(b.getF32Type()));
    }
    lhs->shift = shiftOf(*lhs);
    return lhs;
  }

  /// That of a sum whose read is not scaled. It stays where the sum is.
  Value shiftOf(const CorrectionParts &parts) {
    if (parts.factors.size() != 1 || !parts.rest)
      return {};
    Value factor = parts.factors.front().second;
    if (!factor)
      return parts.rest;
    auto negated = factor.getDefiningOp<arith::NegFOp>();
    return negated && matchPattern(negated.getOperand(), m_OneFloat())
               ? make<arith::NegFOp>(parts.rest)
               : Value();
  }

  /// `value` by `other`, a vector of one number in all channels.
  template <typename Apply>
  std::optional<CorrectionParts> scale(Value value, Value other, Apply apply) {
    Value number;
    if (auto broadcast = other.getDefiningOp<vector::BroadcastOp>())
      number = broadcast.getSource();
    else if (auto constant = other.getDefiningOp<arith::ConstantOp>())
      if (auto splat = dyn_cast<SplatElementsAttr>(constant.getValue()))
        number = make<arith::ConstantOp>(cast<TypedAttr>(splat.getSplatValue<Attribute>()));
    if (!number || !number.getType().isF32())
      return refuse("what multiplies a read that is added is not one number of the head");
    std::optional<CorrectionParts> parts = split(value);
    if (!parts)
      return parts;
    return map(
        *parts, [&](Value rest) { return apply(rest, other); },
        [&](Value factor) { return apply(factor ? factor : one(b.getF32Type()), number); });
  }

  Value state;
  OpBuilder b;
  Location loc;
  SmallVectorImpl<Operation *> &made;
  llvm::DenseMap<Value, bool> dependent;
  llvm::DenseMap<Value, CorrectionParts> splits;
};
} // namespace

Operation *Corrections::find(ScanOp scan, std::string &why) {
  SmallVector<OuterAddOp> adds(scan.getStep().getOps<OuterAddOp>());
  for (OuterAddOp add : adds) {
    Splitter splitter(rootOf(add.getState()), add, made);
    for (unsigned dim : {0, 1}) {
      Value vector = dim ? add.getValue() : add.getKey();
      if (!splitter.depends(vector))
        continue;
      std::optional<CorrectionParts> split = splitter.split(vector);
      if (!split) {
        why = splitter.why;
        return add;
      }
      for (auto &[op, factor] : split->factors) {
        auto read = cast<ReadOp>(op);
        if ((read.getAxis() == Axis::key) != (dim == 1)) {
          why = "what is read along one axis is added along the same";
          return add;
        }
        fed.insert(read);
      }
      splitter.complete(*split, vector.getType());
      parts[{add, dim}] = std::move(*split);
    }
  }
  return nullptr;
}

const CorrectionParts *Corrections::of(OuterAddOp add, unsigned dim) const {
  auto it = parts.find({add, dim});
  return it == parts.end() ? nullptr : &it->second;
}

Corrections::~Corrections() {
  for (Operation *op : llvm::reverse(made))
    op->erase();
}
