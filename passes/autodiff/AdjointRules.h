//===- AdjointRules.h - the derivative rule of each op ------------*- C++ -*-===//
//
// A short rule for each op, for scalars, vectors and tensors alike: it adds to the cotangents of
// the operands, given that of the result. Cotangents of narrower types are f32, so that sums round
// nothing; widening and rounding ops pass cotangents on unchanged.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_PASSES_AUTODIFF_ADJOINTRULES_H
#define EJK_PASSES_AUTODIFF_ADJOINTRULES_H

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

namespace ejk {

/// The cotangents of values, as running sums.
class Cotangents {
public:
  mlir::Value lookup(mlir::Value value) const { return values.lookup(value); }
  void add(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value, mlir::Value cotangent);
  void set(mlir::Value value, mlir::Value cotangent) { values[value] = cotangent; }

private:
  llvm::DenseMap<mlir::Value, mlir::Value> values;
};

/// Whether `value` has a float type: only such values have cotangents.
bool isFloating(mlir::Value value);

/// `value`, widened to f32 if its elements are narrower.
mlir::Value widenToF32(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value);
/// `value` with elements of `element`, by rounding or widening.
mlir::Value convertTo(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value,
                      mlir::Type element);
/// A constant with `number` in every element and the type of `like`.
mlir::Value splatLike(mlir::OpBuilder &b, mlir::Location loc, mlir::Value like, double number);

/// Whether the derivative of `op` is zero almost everywhere, as for comparisons and roundings to
/// integers.
bool isPiecewiseConstant(mlir::Operation *op);

/// Applies the rule of `op`, whose result has the cotangent `g`. `primal` returns the value of an
/// operand or the result at the insertion point. `wants` tells whether an operand's cotangent is
/// needed, and `add` receives it. Fails with an error at `op` if it has no rule.
mlir::LogicalResult applyAdjointRule(mlir::Operation *op, mlir::OpBuilder &b, mlir::Value g,
                                     llvm::function_ref<mlir::Value(mlir::Value)> primal,
                                     llvm::function_ref<bool(mlir::Value)> wants,
                                     llvm::function_ref<void(mlir::Value, mlir::Value)> add);

} // namespace ejk

#endif // EJK_PASSES_AUTODIFF_ADJOINTRULES_H
