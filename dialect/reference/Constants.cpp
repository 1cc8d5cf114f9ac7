//===- Constants.cpp - values of constants ---------------------------------===//
#include "dialect/reference/Constants.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace ejk::reference;

FailureOr<Tensor> ejk::reference::constantValue(Operation *op, Precision precision) {
  Attribute attr = cast<arith::ConstantOp>(op).getValue();
  auto shaped = dyn_cast<ShapedType>(op->getResult(0).getType());
  Type element = getElementTypeOrSelf(op->getResult(0).getType());
  auto elements = dyn_cast<DenseElementsAttr>(attr);
  std::optional<size_t> size = shaped ? checkSize(shaped.getShape()) : std::optional<size_t>(1);
  if (!isSupportedElement(element) || (shaped && !elements) || !size)
    return op->emitError() << "the interpreter cannot hold a constant of type "
                           << op->getResult(0).getType();
  Tensor t = Tensor::zeros(element, shaped ? shaped.getShape() : ArrayRef<int64_t>());
  auto toDouble = [&](APFloat value) {
    bool lossy;
    value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
    return value.convertToDouble();
  };
  auto toInt = [&](const APInt &value) { return wrapTo(element, value.getSExtValue()); };
  if (auto scalar = dyn_cast<FloatAttr>(attr))
    t.floats[0] = toDouble(scalar.getValue());
  else if (auto scalar = dyn_cast<IntegerAttr>(attr))
    t.ints[0] = toInt(scalar.getValue());
  else if (t.isFloat() && elements.isSplat())
    llvm::fill(t.floats, toDouble(elements.getSplatValue<APFloat>()));
  else if (t.isFloat())
    llvm::transform(elements.getValues<APFloat>(), t.floats.begin(), toDouble);
  else
    llvm::transform(elements.getValues<APInt>(), t.ints.begin(), toInt);
  return t;
}
