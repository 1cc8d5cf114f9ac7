//===- AdjointRules.cpp - the derivative rule of each op -------------------===//
#include "passes/autodiff/AdjointRules.h"
#include "dialect/ejk/Ejk.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/StringMap.h"
#include <cmath>

using namespace mlir;
using namespace ejk;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

void Cotangents::add(OpBuilder &b, Location loc, Value value, Value cotangent) {
  Value &sum = values[value];
  sum = sum ? arith::AddFOp::create(b, loc, sum, cotangent).getResult() : cotangent;
}

bool ejk::isFloating(Value value) { return isa<FloatType>(getElementTypeOrSelf(value.getType())); }

static Type withElement(Type type, Type element) {
  auto shaped = dyn_cast<ShapedType>(type);
  return shaped ? Type(shaped.clone(element)) : element;
}

Value ejk::convertTo(OpBuilder &b, Location loc, Value value, Type element) {
  Type from = getElementTypeOrSelf(value.getType());
  if (from == element)
    return value;
  Type type = withElement(value.getType(), element);
  if (from.getIntOrFloatBitWidth() < element.getIntOrFloatBitWidth())
    return arith::ExtFOp::create(b, loc, type, value);
  return arith::TruncFOp::create(b, loc, type, value);
}

Value ejk::widenToF32(OpBuilder &b, Location loc, Value value) {
  bool narrow = getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth() < 32;
  return narrow ? convertTo(b, loc, value, b.getF32Type()) : value;
}

Value ejk::splatLike(OpBuilder &b, Location loc, Value like, double number) {
  Type type = like.getType();
  Type elementType = getElementTypeOrSelf(type);
  Attribute element = isa<FloatType>(elementType) ? Attribute(b.getFloatAttr(elementType, number))
                                                  : b.getIntegerAttr(elementType, int64_t(number));
  auto shaped = dyn_cast<ShapedType>(type);
  if (!shaped)
    return arith::ConstantOp::create(b, loc, cast<TypedAttr>(element));
  if (shaped.hasStaticShape())
    return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(shaped, element));
  SmallVector<Value> sizes;
  for (int64_t d = 0; d < shaped.getRank(); ++d)
    if (shaped.isDynamicDim(d))
      sizes.push_back(tensor::DimOp::create(b, loc, like, d));
  Value empty = tensor::EmptyOp::create(b, loc, shaped, sizes);
  Value scalar = arith::ConstantOp::create(b, loc, cast<TypedAttr>(element));
  return linalg::FillOp::create(b, loc, scalar, empty).getResult(0);
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

namespace {
/// The inputs of a rule: g is the result's cotangent, y the result, x(i) an operand, all of one
/// shape and widened.
struct Rule {
  Operation *op;
  OpBuilder &b;
  Value g;
  llvm::function_ref<Value(Value)> primal;
  llvm::function_ref<bool(Value)> wants;
  llvm::function_ref<void(Value, Value)> give;

  Location loc() { return op->getLoc(); }
  Value raw(unsigned i) { return primal(op->getOperand(i)); }
  Value x(unsigned i) { return widenToF32(b, loc(), raw(i)); }
  Value y() { return widenToF32(b, loc(), primal(op->getResult(0))); }
  bool wanted(unsigned i) { return wants(op->getOperand(i)); }
  void add(unsigned i, Value cotangent) { give(op->getOperand(i), cotangent); }
  void add(unsigned i, llvm::function_ref<Value()> cotangent) {
    if (wanted(i))
      add(i, cotangent());
  }
  Value number(double c) { return splatLike(b, loc(), g, c); }
  Value plus(Value a, Value c) { return arith::AddFOp::create(b, loc(), a, c); }
  Value minus(Value a, Value c) { return arith::SubFOp::create(b, loc(), a, c); }
  Value times(Value a, Value c) { return arith::MulFOp::create(b, loc(), a, c); }
  Value over(Value a, Value c) { return arith::DivFOp::create(b, loc(), a, c); }
  Value minus(Value a) { return arith::NegFOp::create(b, loc(), a); }
  Value times(double c, Value a) { return times(number(c), a); }
  template <typename Op> Value apply(Value a) { return Op::create(b, loc(), a); }
  Value select(Value condition, Value a, Value c) {
    return arith::SelectOp::create(b, loc(), condition, a, c);
  }
  Value compare(arith::CmpFPredicate predicate, Value a, Value c) {
    return arith::CmpFOp::create(b, loc(), predicate, a, c);
  }
};

using RuleFn = void (*)(Rule &);
} // namespace

/// Adds g to the operand that was selected, and a half of g to each of two equal ones, as PyTorch
/// and JAX do.
static void addToTaken(Rule &r, arith::CmpFPredicate firstTaken, arith::CmpFPredicate secondTaken) {
  auto share = [&](arith::CmpFPredicate taken) {
    Value isEqual = r.compare(arith::CmpFPredicate::OEQ, r.x(0), r.x(1));
    Value other = r.select(isEqual, r.times(0.5, r.g), r.number(0));
    return r.select(r.compare(taken, r.x(0), r.x(1)), r.g, other);
  };
  r.add(0, [&] { return share(firstTaken); });
  r.add(1, [&] { return share(secondTaken); });
}

/// The same where one that is NaN is not selected. Of two equal operands the first one is.
static void addToTakenNumber(Rule &r, arith::CmpFPredicate firstTaken) {
  auto share = [&](Value ifFirst, Value ifSecond) {
    Value isNaN = r.compare(arith::CmpFPredicate::UNO, r.x(1), r.x(1));
    Value other = r.select(isNaN, ifFirst, ifSecond);
    return r.select(r.compare(firstTaken, r.x(0), r.x(1)), ifFirst, other);
  };
  r.add(0, [&] { return share(r.g, r.number(0)); });
  r.add(1, [&] { return share(r.number(0), r.g); });
}

/// x(0) ⊙ x(1).
static void addToOperandsOfProduct(Rule &r) {
  r.add(0, [&] { return r.times(r.g, r.x(1)); });
  r.add(1, [&] { return r.times(r.g, r.x(0)); });
}

/// (1 − x)(1 + x), which loses less near ±1 than 1 − x².
static Value oneMinusSquare(Rule &r) {
  Value x = r.x(0), one = r.number(1);
  return r.times(r.minus(one, x), r.plus(one, x));
}

/// min(max(x, low), high): adds g to the operand that was selected; at a bound, to x.
static void addClamped(Rule &r) {
  using P = arith::CmpFPredicate;
  Value zero = r.number(0), x = r.x(0), low = r.x(1), high = r.x(2);
  auto both = [&](Value a, Value c) -> Value { return arith::AndIOp::create(r.b, r.loc(), a, c); };
  r.add(0, [&] {
    return r.select(both(r.compare(P::UGE, x, low), r.compare(P::ULE, x, high)), r.g, zero);
  });
  r.add(1, [&] {
    return r.select(both(r.compare(P::OLT, x, low), r.compare(P::OLE, low, high)), r.g, zero);
  });
  r.add(2, [&] {
    Value isAbove = arith::OrIOp::create(r.b, r.loc(), r.compare(P::OGT, x, high),
                                         r.compare(P::OGT, low, high));
    return r.select(isAbove, r.g, zero);
  });
}

/// y·x^(y−1), or 0 if y is 0; and x^y·ln x, or 0 if x is 0 and y ≥ 0. The exponent and the argument
/// are selected, not the result, so that second derivatives have no infinity there.
static void addPower(Rule &r) {
  using P = arith::CmpFPredicate;
  Value x = r.x(0), y = r.x(1), zero = r.number(0);
  r.add(0, [&] {
    Value isZero = r.compare(P::OEQ, y, zero);
    Value less = r.select(isZero, zero, r.minus(y, r.number(1)));
    return r.times(r.g, r.times(y, math::PowFOp::create(r.b, r.loc(), x, less)));
  });
  r.add(1, [&] {
    Value isZero =
        arith::AndIOp::create(r.b, r.loc(), r.compare(P::OEQ, x, zero), r.compare(P::OGE, y, zero));
    Value log = r.apply<math::LogOp>(r.select(isZero, r.number(1), x));
    return r.times(r.g, r.times(r.y(), log));
  });
}

/// n·x^(n−1), or 0 if n is 0.
static void addIntegerPower(Rule &r) {
  Value x = r.x(0), n = r.raw(1);
  Value zero = splatLike(r.b, r.loc(), n, 0);
  Value less = arith::SubIOp::create(r.b, r.loc(), n, splatLike(r.b, r.loc(), n, 1));
  Value isZero = arith::CmpIOp::create(r.b, r.loc(), arith::CmpIPredicate::eq, n, zero);
  Value power = math::FPowIOp::create(r.b, r.loc(), x, r.select(isZero, zero, less));
  Value times = arith::SIToFPOp::create(r.b, r.loc(), x.getType(), n);
  r.add(0, r.times(r.g, r.times(times, power)));
}

/// x / (x² + y²) and −y / (x² + y²), after dividing both by the larger one, so that no square
/// overflows or underflows. NaN at the origin.
static void addAngle(Rule &r) {
  Value y = r.x(0), x = r.x(1);
  Value larger =
      arith::MaximumFOp::create(r.b, r.loc(), r.apply<math::AbsFOp>(y), r.apply<math::AbsFOp>(x));
  Value up = r.over(y, larger), along = r.over(x, larger);
  Value share = r.over(r.over(r.g, r.plus(r.times(up, up), r.times(along, along))), larger);
  r.add(0, [&] { return r.times(share, along); });
  r.add(1, [&] { return r.minus(r.times(share, up)); });
}

/// g times the slope of |x|, which at 0 is 0, as PyTorch and JAX have it.
static Value timesSlopeOfAbs(Rule &r, Value g) {
  Value zero = r.number(0);
  Value isDown = r.compare(arith::CmpFPredicate::OLT, r.x(0), zero);
  Value isUp = r.compare(arith::CmpFPredicate::OGT, r.x(0), zero);
  return r.select(isUp, g, r.select(isDown, r.minus(g), zero));
}

/// The slope of |x| with the sign of y; the sign has no slope.
static void addCopySign(Rule &r) {
  Value sign = math::CopySignOp::create(r.b, r.loc(), r.number(1), r.x(1));
  r.add(0, timesSlopeOfAbs(r, r.times(r.g, sign)));
}

/// 1 − y², or 4e/(1 + e)² with e = exp(−2|x|) where 1 − y² cancels.
static void addTanh(Rule &r) {
  Value x = r.x(0), y = r.y(), one = r.number(1), size = r.apply<math::AbsFOp>(x);
  Value e = r.apply<math::ExpOp>(r.times(-2, size)), sum = r.plus(one, e);
  Value steep = r.over(r.over(r.times(4, e), sum), sum);
  Value isFlat = r.compare(arith::CmpFPredicate::OLT, size, one);
  r.add(0, r.times(r.g, r.select(isFlat, r.minus(one, r.times(y, y)), steep)));
}

/// 1/√(1 + x²), or 1/|x| before x² overflows.
static void addArcSinh(Rule &r) {
  Value x = r.x(0), one = r.number(1), large = r.number(1e9), size = r.apply<math::AbsFOp>(x);
  auto isLarge = [&] { return r.compare(arith::CmpFPredicate::OGT, size, large); };
  Value within = r.select(isLarge(), one, x);
  Value root = r.apply<math::SqrtOp>(r.plus(one, r.times(within, within)));
  r.add(0, r.over(r.g, r.select(isLarge(), size, root)));
}

/// ±2/√π · e^(−x²).
static void addErf(Rule &r, double sign) {
  Value x = r.x(0), e = r.apply<math::ExpOp>(r.minus(r.times(x, x)));
  r.add(0, r.times(r.times(sign * 2 / std::sqrt(M_PI), r.g), e));
}

/// The operand of `value`, which an Op of one operand computes; else null.
template <typename Op> static Value operandOf(Value value) {
  auto op = value ? value.getDefiningOp<Op>() : Op();
  return op ? op->getOperand(0) : Value();
}

static bool isZero(Value value) { return matchPattern(value, m_AnyZeroFloat()); }

/// `value` as a select of two values by whether `x` is below zero; null if it is none.
static arith::SelectOp selectBySign(Value value, Value x) {
  auto select = value.getDefiningOp<arith::SelectOp>();
  auto isBelow = select ? select.getCondition().getDefiningOp<arith::CmpFOp>() : arith::CmpFOp();
  bool fits = isBelow && isBelow.getPredicate() == arith::CmpFPredicate::OLT &&
              isBelow.getLhs() == x && isZero(isBelow.getRhs());
  return fits ? select : arith::SelectOp();
}

static bool isMinusAbs(Value value, Value x) {
  auto select = selectBySign(value, x);
  return operandOf<math::AbsFOp>(operandOf<arith::NegFOp>(value)) == x ||
         (select && select.getTrueValue() == x &&
          operandOf<arith::NegFOp>(select.getFalseValue()) == x);
}

static bool isPositivePart(Value value, Value x) {
  auto most = value.getDefiningOp<arith::MaximumFOp>();
  auto select = selectBySign(value, x);
  return (most && most.getLhs() == x && isZero(most.getRhs())) ||
         (select && isZero(select.getTrueValue()) && select.getFalseValue() == x);
}

/// The exponential exp(-|x|) of `sum`, if that is a softplus max(x, 0) + log1p(exp(-|x|)); else
/// null.
static Value exponentialOfSoftplus(Operation *sum, Value &x) {
  for (unsigned i : {0, 1}) {
    Value top = sum->getOperand(i), e = operandOf<math::Log1pOp>(sum->getOperand(1 - i));
    Value power = operandOf<math::ExpOp>(e);
    if (!power || !top.getDefiningOp())
      continue;
    for (Value operand : top.getDefiningOp()->getOperands())
      if (isPositivePart(top, x = operand) && isMinusAbs(power, x))
        return e;
  }
  return {};
}

/// A sum; of a softplus, whose terms have slopes with several cases each, (1 or e) / (1 + e).
static void addSum(Rule &r) {
  Value x, e = exponentialOfSoftplus(r.op, x);
  if (!e) {
    r.add(0, r.g), r.add(1, r.g);
    return;
  }
  if (!r.wants(x))
    return;
  Value one = r.number(1), below = r.primal(x);
  e = widenToF32(r.b, r.loc(), r.primal(e));
  below = r.compare(arith::CmpFPredicate::OLT, below, splatLike(r.b, r.loc(), below, 0));
  r.give(x, r.times(r.g, r.over(r.select(below, e, one), r.plus(one, e))));
}

static const llvm::StringMap<RuleFn> &table() {
  using P = arith::CmpFPredicate;
  static const auto *rules = new llvm::StringMap<RuleFn>{
      {"arith.addf", addSum},
      {"arith.subf",
       [](Rule &r) {
         r.add(0, r.g);
         r.add(1, [&] { return r.minus(r.g); });
       }},
      {"arith.mulf", addToOperandsOfProduct},
      {"ejk.cancelling_pair", addToOperandsOfProduct},
      {"arith.divf",
       [](Rule &r) {
         Value share = r.over(r.g, r.x(1));
         r.add(0, share);
         r.add(1, [&] { return r.minus(r.times(share, r.y())); });
       }},
      {"arith.negf", [](Rule &r) { r.add(0, [&] { return r.minus(r.g); }); }},
      {"arith.extf", [](Rule &r) { r.add(0, r.g); }},
      {"arith.truncf", [](Rule &r) { r.add(0, r.g); }},
      {"arith.maximumf", [](Rule &r) { addToTaken(r, P::OGT, P::OLT); }},
      {"arith.maxnumf", [](Rule &r) { addToTakenNumber(r, P::OGE); }},
      {"arith.minimumf", [](Rule &r) { addToTaken(r, P::OLT, P::OGT); }},
      {"arith.minnumf", [](Rule &r) { addToTakenNumber(r, P::OLE); }},
      {"arith.select",
       [](Rule &r) {
         Value zero = r.number(0);
         r.add(1, [&] { return r.select(r.raw(0), r.g, zero); });
         r.add(2, [&] { return r.select(r.raw(0), zero, r.g); });
       }},
      {"math.fma",
       [](Rule &r) {
         r.add(0, [&] { return r.times(r.g, r.x(1)); });
         r.add(1, [&] { return r.times(r.g, r.x(0)); });
         r.add(2, r.g);
       }},
      {"math.exp", [](Rule &r) { r.add(0, r.times(r.g, r.y())); }},
      {"math.exp2", [](Rule &r) { r.add(0, r.times(r.g, r.times(std::log(2.0), r.y()))); }},
      // Not y + 1, which cancels where y is near −1.
      {"math.expm1", [](Rule &r) { r.add(0, r.times(r.g, r.apply<math::ExpOp>(r.x(0)))); }},
      {"math.log", [](Rule &r) { r.add(0, r.over(r.g, r.x(0))); }},
      {"math.log2", [](Rule &r) { r.add(0, r.over(r.times(1 / std::log(2.0), r.g), r.x(0))); }},
      {"math.log1p", [](Rule &r) { r.add(0, r.over(r.g, r.plus(r.x(0), r.number(1)))); }},
      {"math.sqrt", [](Rule &r) { r.add(0, r.over(r.times(0.5, r.g), r.y())); }},
      {"math.rsqrt",
       [](Rule &r) {
         Value y = r.y();
         r.add(0, r.times(r.times(r.times(-0.5, r.g), y), r.times(y, y)));
       }},
      {"math.tanh", addTanh},
      {"math.erf", [](Rule &r) { addErf(r, 1); }},
      {"math.erfc", [](Rule &r) { addErf(r, -1); }},
      {"math.tan",
       [](Rule &r) {
         Value y = r.y();
         r.add(0, r.times(r.g, r.plus(r.number(1), r.times(y, y))));
       }},
      {"math.sinh", [](Rule &r) { r.add(0, r.times(r.g, r.apply<math::CoshOp>(r.x(0)))); }},
      {"math.cosh", [](Rule &r) { r.add(0, r.times(r.g, r.apply<math::SinhOp>(r.x(0)))); }},
      {"math.asin",
       [](Rule &r) { r.add(0, r.over(r.g, r.apply<math::SqrtOp>(oneMinusSquare(r)))); }},
      {"math.acos",
       [](Rule &r) { r.add(0, r.minus(r.over(r.g, r.apply<math::SqrtOp>(oneMinusSquare(r))))); }},
      {"math.asinh", addArcSinh},
      // Two roots, since x² may overflow.
      {"math.acosh",
       [](Rule &r) {
         Value x = r.x(0), one = r.number(1);
         Value share = r.over(r.g, r.apply<math::SqrtOp>(r.minus(x, one)));
         r.add(0, r.over(share, r.apply<math::SqrtOp>(r.plus(x, one))));
       }},
      {"math.atanh", [](Rule &r) { r.add(0, r.over(r.g, oneMinusSquare(r))); }},
      {"math.atan2", addAngle},
      // Infinite at 0.
      {"math.cbrt",
       [](Rule &r) {
         Value y = r.y();
         r.add(0, r.over(r.g, r.times(3, r.times(y, y))));
       }},
      {"math.powf", addPower},
      {"math.fpowi", addIntegerPower},
      {"math.clampf", addClamped},
      {"math.copysign", addCopySign},
      {"math.log10", [](Rule &r) { r.add(0, r.over(r.times(1 / std::log(10.0), r.g), r.x(0))); }},
      {"math.atan",
       [](Rule &r) {
         Value x = r.x(0);
         r.add(0, r.over(r.g, r.plus(r.number(1), r.times(x, x))));
       }},
      {"math.sin", [](Rule &r) { r.add(0, r.times(r.g, r.apply<math::CosOp>(r.x(0)))); }},
      {"math.cos", [](Rule &r) { r.add(0, r.minus(r.times(r.g, r.apply<math::SinOp>(r.x(0))))); }},
      {"math.absf", [](Rule &r) { r.add(0, timesSlopeOfAbs(r, r.g)); }},
      {"vector.broadcast",
       [](Rule &r) { r.add(0, SumOp::create(r.b, r.loc(), r.b.getF32Type(), r.g)); }},
      {"ejk.gate_gradient",
       [](Rule &r) {
         auto op = cast<GateGradientOp>(r.op);
         r.add(0, GateGradientOp::create(r.b, r.loc(), r.g.getType(), r.g, r.x(1),
                                         op.getZeroFirst(), op.getZeroLast()));
       }},
      {"ejk.sum",
       [](Rule &r) {
         r.add(0, vector::BroadcastOp::create(r.b, r.loc(), r.op->getOperand(0).getType(), r.g));
       }},
      // Channels that share the largest value share the cotangent.
      {"ejk.max",
       [](Rule &r) {
         Type type = r.op->getOperand(0).getType();
         auto spread = [&](Value v) -> Value {
           return vector::BroadcastOp::create(r.b, r.loc(), type, v);
         };
         Value x = r.x(0), isLargest = r.compare(P::OEQ, x, spread(r.y()));
         Value zero = splatLike(r.b, r.loc(), x, 0), one = splatLike(r.b, r.loc(), x, 1);
         Value count =
             SumOp::create(r.b, r.loc(), r.b.getF32Type(), r.select(isLargest, one, zero));
         r.add(0, r.select(isLargest, spread(r.over(r.g, count)), zero));
       }},
      {"ejk.rotate_half",
       [](Rule &r) {
         r.add(0, r.minus(RotateHalfOp::create(r.b, r.loc(), r.g.getType(), r.g)));
       }},
  };
  return *rules;
}

bool ejk::isPiecewiseConstant(Operation *op) {
  return isa<arith::CmpFOp, math::IsNaNOp, math::IsInfOp, math::IsFiniteOp, math::IsNormalOp,
             math::FloorOp, math::CeilOp, math::RoundOp, math::RoundEvenOp, math::TruncOp>(op);
}

LogicalResult ejk::applyAdjointRule(Operation *op, OpBuilder &b, Value g,
                                    llvm::function_ref<Value(Value)> primal,
                                    llvm::function_ref<bool(Value)> wants,
                                    llvm::function_ref<void(Value, Value)> add) {
  auto it = table().find(op->getName().getStringRef());
  if (it == table().end())
    return op->emitError() << "'" << op->getName()
                           << "' has no derivative rule; write it with ops of arith and math that "
                              "have one, or leave out of 'wrt' the inputs that reach it";
  // A broadcast of a vector needs a sum over one dimension, not over all.
  if (auto broadcast = dyn_cast<vector::BroadcastOp>(op);
      broadcast && (isa<VectorType>(broadcast.getSourceType()) ||
                    cast<VectorType>(broadcast.getType()).getRank() != 1))
    return op->emitError("only a broadcast of one number to a vector has a derivative rule");
  auto giveWanted = [&](Value operand, Value cotangent) {
    if (wants(operand))
      add(operand, cotangent);
  };
  Rule rule{op, b, g, primal, wants, giveWanted};
  it->second(rule);
  return success();
}
