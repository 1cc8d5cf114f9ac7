//===- CommonScale.cpp - constant multipliers of vectors ------------------===//
#include "passes/chunk/CommonScale.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace mlir;
using namespace ejk;

bool ejk::splitConstant(Value &vector, double &scale) {
  auto mul = vector.getDefiningOp<arith::MulFOp>();
  for (unsigned side = 0; mul && side < 2; ++side) {
    auto constant = mul->getOperand(side).getDefiningOp<arith::ConstantOp>();
    auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr();
    if (!splat)
      continue;
    double value = splat.getSplatValue<APFloat>().convertToDouble();
    if (!(std::abs(value) > 1e-6 && std::abs(value) < 1e6))
      return false; // the state divided by it could over- or underflow
    vector = mul->getOperand(1 - side);
    scale *= value;
    return true;
  }
  return false;
}

std::optional<double> ejk::takeCommonScale(MutableArrayRef<Factors> products) {
  SmallVector<Factors> rest(products);
  SmallVector<double> scales;
  for (Factors &vectors : rest) {
    scales.push_back(1);
    if (!splitConstant(vectors[0], scales.back()))
      splitConstant(vectors[1], scales.back());
  }
  if (scales.empty() || !llvm::all_equal(scales))
    return std::nullopt;
  llvm::copy(rest, products.begin());
  return scales.front();
}
