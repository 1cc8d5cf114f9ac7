//===- GateBounds.cpp - how strong a step's own gates may be ---------------===//
#include "passes/chunk/GateBounds.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir;
using namespace ejk;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();
static constexpr Bounds kUnknown = {-kInfinity, kInfinity};

static Bounds product(Bounds x, Bounds y) {
  auto multiply = [](double a, double b) { return a == 0 || b == 0 ? 0 : a * b; };
  auto [least, most] = std::minmax({multiply(x.least, y.least), multiply(x.least, y.most),
                                    multiply(x.most, y.least), multiply(x.most, y.most)});
  return {least, most};
}

static Bounds ofConstant(arith::ConstantOp op) {
  if (auto number = dyn_cast<FloatAttr>(op.getValue()))
    return {number.getValueAsDouble(), number.getValueAsDouble()};
  auto dense = dyn_cast<DenseFPElementsAttr>(op.getValue());
  if (!dense)
    return kUnknown;
  Bounds bounds = {kInfinity, -kInfinity};
  for (const APFloat &element : dense.getValues<APFloat>()) {
    double x = element.convertToDouble();
    bounds = {std::min(bounds.least, x), std::max(bounds.most, x)};
  }
  return bounds;
}

static Bounds both(Bounds x, Bounds y) {
  return {std::max(x.least, y.least), std::min(x.most, y.most)};
}

/// The bounds of one side of a select whose condition says whether `x` is below a number: of x and -x
/// they are known there. x is NaN in neither, or the gate is.
static Bounds ofSide(Value side, arith::CmpFOp condition, bool holds) {
  Bounds bounds = boundsOf(side);
  if (!condition)
    return bounds;
  using Predicate = arith::CmpFPredicate;
  Bounds limit = boundsOf(condition.getRhs());
  switch (condition.getPredicate()) {
  case Predicate::OLT:
  case Predicate::OLE:
    limit = holds ? Bounds{-kInfinity, limit.most} : Bounds{limit.least, kInfinity};
    break;
  case Predicate::OGT:
  case Predicate::OGE:
    limit = holds ? Bounds{limit.least, kInfinity} : Bounds{-kInfinity, limit.most};
    break;
  default:
    return bounds;
  }
  if (side == condition.getLhs())
    return both(bounds, limit);
  if (auto negated = side.getDefiningOp<arith::NegFOp>();
      negated && negated.getOperand() == condition.getLhs())
    return both(bounds, {-limit.most, -limit.least});
  return bounds;
}

static Bounds ofSelect(arith::SelectOp op) {
  auto condition = op.getCondition().getDefiningOp<arith::CmpFOp>();
  Bounds x = ofSide(op.getTrueValue(), condition, /*holds=*/true);
  Bounds y = ofSide(op.getFalseValue(), condition, /*holds=*/false);
  return {std::min(x.least, y.least), std::max(x.most, y.most)};
}

Bounds ejk::boundsOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !isa<FloatType>(getElementTypeOrSelf(value)))
    return kUnknown;
  auto of = [&](unsigned operand) { return boundsOf(op->getOperand(operand)); };
  Bounds bounds =
      llvm::TypeSwitch<Operation *, Bounds>(op)
          .Case([](arith::ConstantOp constant) { return ofConstant(constant); })
          .Case<vector::BroadcastOp, arith::ExtFOp>([&](auto) { return of(0); })
          .Case([&](arith::NegFOp) {
            Bounds x = of(0);
            return Bounds{-x.most, -x.least};
          })
          .Case([&](arith::AddFOp) {
            Bounds x = of(0), y = of(1);
            return Bounds{x.least + y.least, x.most + y.most};
          })
          .Case([&](arith::SubFOp) {
            Bounds x = of(0), y = of(1);
            return Bounds{x.least - y.most, x.most - y.least};
          })
          .Case([&](arith::MulFOp) { return product(of(0), of(1)); })
          .Case([&](arith::DivFOp) {
            Bounds y = of(1);
            return y.least > 0 ? product(of(0), {1 / y.most, 1 / y.least}) : kUnknown;
          })
          .Case<arith::MaximumFOp, arith::MaxNumFOp>([&](auto) {
            Bounds x = of(0), y = of(1);
            return Bounds{std::max(x.least, y.least), std::max(x.most, y.most)};
          })
          .Case<arith::MinimumFOp, arith::MinNumFOp>([&](auto) {
            Bounds x = of(0), y = of(1);
            return Bounds{std::min(x.least, y.least), std::min(x.most, y.most)};
          })
          .Case([](arith::SelectOp select) { return ofSelect(select); })
          .Case([&](math::ClampFOp) {
            Bounds x = of(0), low = of(1), high = of(2);
            return Bounds{std::min(std::max(x.least, low.least), high.most),
                          std::min(std::max(x.most, low.most), high.most)};
          })
          .Case([&](math::AbsFOp) {
            Bounds x = of(0);
            double least = x.least <= 0 && x.most >= 0 ? 0 : std::min(std::abs(x.least), std::abs(x.most));
            return Bounds{least, std::max(std::abs(x.least), std::abs(x.most))};
          })
          .Case([&](math::ExpOp) {
            Bounds x = of(0);
            return Bounds{std::exp(x.least), std::exp(x.most)};
          })
          .Case([&](math::TanhOp) {
            Bounds x = of(0);
            return Bounds{std::tanh(x.least), std::tanh(x.most)};
          })
          .Case([&](math::Log1pOp) {
            Bounds x = of(0);
            return x.least > -1 ? Bounds{std::log1p(x.least), std::log1p(x.most)} : kUnknown;
          })
          .Default([](Operation *) { return kUnknown; });
  return std::isnan(bounds.least) || std::isnan(bounds.most) ? kUnknown : bounds;
}
