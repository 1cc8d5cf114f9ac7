//===- FloatBounds.cpp - what floats of a step lie between -----------------===//
#include "passes/FloatBounds.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
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
Bounds FloatBounds::ofSide(Value side, Operation *compares, bool holds) {
  Bounds bounds = of(side);
  auto condition = dyn_cast_or_null<arith::CmpFOp>(compares);
  if (!condition)
    return bounds;
  using Predicate = arith::CmpFPredicate;
  Bounds limit = of(condition.getRhs());
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

Bounds FloatBounds::ofSelect(Operation *op) {
  auto select = cast<arith::SelectOp>(op);
  Operation *condition = select.getCondition().getDefiningOp();
  Bounds x = ofSide(select.getTrueValue(), condition, /*holds=*/true);
  Bounds y = ofSide(select.getFalseValue(), condition, /*holds=*/false);
  return {std::min(x.least, y.least), std::max(x.most, y.most)};
}

Bounds FloatBounds::of(Value value) {
  if (auto found = known.find(value); found != known.end())
    return found->second;
  Bounds bounds = compute(value);
  known[value] = bounds;
  return bounds;
}

Bounds FloatBounds::compute(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !isa<FloatType>(getElementTypeOrSelf(value)))
    return kUnknown;
  auto operand = [&](unsigned i) { return of(op->getOperand(i)); };
  Bounds bounds =
      llvm::TypeSwitch<Operation *, Bounds>(op)
          .Case([](arith::ConstantOp constant) { return ofConstant(constant); })
          .Case<vector::BroadcastOp, arith::ExtFOp>([&](auto) { return operand(0); })
          .Case([&](arith::NegFOp) {
            Bounds x = operand(0);
            return Bounds{-x.most, -x.least};
          })
          .Case([&](arith::AddFOp) {
            Bounds x = operand(0), y = operand(1);
            return Bounds{x.least + y.least, x.most + y.most};
          })
          .Case([&](arith::SubFOp) {
            Bounds x = operand(0), y = operand(1);
            return Bounds{x.least - y.most, x.most - y.least};
          })
          .Case([&](arith::MulFOp) { return product(operand(0), operand(1)); })
          .Case([&](arith::DivFOp) {
            Bounds y = operand(1);
            return y.least > 0 ? product(operand(0), {1 / y.most, 1 / y.least}) : kUnknown;
          })
          .Case<arith::MaximumFOp, arith::MaxNumFOp>([&](auto) {
            Bounds x = operand(0), y = operand(1);
            return Bounds{std::max(x.least, y.least), std::max(x.most, y.most)};
          })
          .Case<arith::MinimumFOp, arith::MinNumFOp>([&](auto) {
            Bounds x = operand(0), y = operand(1);
            return Bounds{std::min(x.least, y.least), std::min(x.most, y.most)};
          })
          .Case([&](arith::SelectOp select) { return ofSelect(select); })
          .Case([&](math::ClampFOp) {
            Bounds x = operand(0), low = operand(1), high = operand(2);
            return Bounds{std::min(std::max(x.least, low.least), high.most),
                          std::min(std::max(x.most, low.most), high.most)};
          })
          .Case([&](math::AbsFOp) {
            Bounds x = operand(0);
            double least = x.least <= 0 && x.most >= 0 ? 0 : std::min(std::abs(x.least), std::abs(x.most));
            return Bounds{least, std::max(std::abs(x.least), std::abs(x.most))};
          })
          .Case([&](math::ExpOp) {
            Bounds x = operand(0);
            return Bounds{std::exp(x.least), std::exp(x.most)};
          })
          .Case([&](LLVM::CallIntrinsicOp call) { // tiles' exponentials
            if (call.getIntrin() != "llvm.nvvm.ex2.approx.ftz.f")
              return kUnknown;
            Bounds x = operand(0);
            return Bounds{std::exp2(x.least), std::exp2(x.most)};
          })
          .Case([&](math::TanhOp) {
            Bounds x = operand(0);
            return Bounds{std::tanh(x.least), std::tanh(x.most)};
          })
          .Case([&](math::Log1pOp) {
            Bounds x = operand(0);
            return x.least > -1 ? Bounds{std::log1p(x.least), std::log1p(x.most)} : kUnknown;
          })
          .Default([](Operation *) { return kUnknown; });
  return std::isnan(bounds.least) || std::isnan(bounds.most) ? kUnknown : bounds;
}
