//===- AdjointRules.h - how each op passes its cotangent back -----*- C++ -*-===//
//
// One short rule per op, for scalars, vectors and tensors alike: what an op's
// operands gain when its result's cotangent is known. Cotangents are held in f32
// where the value is narrower, so that nothing is rounded before it is summed;
// widening and rounding therefore pass them on as they are.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_PASSES_AUTODIFF_ADJOINTRULES_H
#define EJK_PASSES_AUTODIFF_ADJOINTRULES_H

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

namespace ejk {

/// The cotangents of values, summed as they come.
class Cotangents {
public:
  mlir::Value lookup(mlir::Value value) const { return values.lookup(value); }
  void add(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value, mlir::Value cotangent);
  void set(mlir::Value value, mlir::Value cotangent) { values[value] = cotangent; }

private:
  llvm::DenseMap<mlir::Value, mlir::Value> values;
};

/// Whether `value` is of floats: the only values that have cotangents.
bool isFloating(mlir::Value value);

/// `value` with f32 elements where its own are narrower.
mlir::Value widenToF32(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value);
/// `value` with elements of `element`, by rounding or widening.
mlir::Value convertTo(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value,
                      mlir::Type element);
/// `number` in every element of a value like `like`.
mlir::Value splatLike(mlir::OpBuilder &b, mlir::Location loc, mlir::Value like, double number);

/// Whether the result of `op` carries a derivative by its operands: comparisons
/// and roundings to integers do not, being constant almost everywhere.
bool isPiecewiseConstant(mlir::Operation *op);

/// Applies the rule of `op`, whose result has cotangent `g`. `primal` gives an
/// operand's or the result's value where the rule is applied, `wants` whether an
/// operand's cotangent is of use, and `add` receives it. Fails with an error at
/// `op` when it has no rule.
mlir::LogicalResult applyAdjointRule(mlir::Operation *op, mlir::OpBuilder &b, mlir::Value g,
                                     llvm::function_ref<mlir::Value(mlir::Value)> primal,
                                     llvm::function_ref<bool(mlir::Value)> wants,
                                     llvm::function_ref<void(mlir::Value, mlir::Value)> add);

} // namespace ejk

#endif // EJK_PASSES_AUTODIFF_ADJOINTRULES_H
