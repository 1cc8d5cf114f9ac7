//===- MathExpansions.h - math ops as f32 formulas ----------------*- C++ -*-===//
//
// Where upstream's expansion or approximation of an op is wrong somewhere in the op's domain,
// or off by many ulp. docs/elementwise.md has the errors.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_PTX_MATHEXPANSIONS_H
#define EJK_LOWERING_PTX_MATHEXPANSIONS_H

#include "lowering/ptx/FloatBuilder.h"

namespace ejk {

/// log2 e in two parts, each a number of f32.
constexpr double kLog2E = 0x1.715476p+0, kLog2ELow = 0x1.4ae0cp-26;

/// sin, cos, tan, asin, acos, atan, atan2.
void populateTrigonometricExpansions(mlir::RewritePatternSet &patterns);
/// log, log2, log10, log1p, asinh, acosh, atanh.
void populateLogarithmExpansions(mlir::RewritePatternSet &patterns);
/// exp2, expm1, sinh, cosh, powf, fpowi.
void populatePowerExpansions(mlir::RewritePatternSet &patterns);
/// exp and rsqrt, for targets with a unit for them.
void populateSpecialFunctions(mlir::RewritePatternSet &patterns);
/// Ops under `root` whose operands lie between bounds that follow from the ops before them, as
/// those of a sigmoid and a softplus do: log1p, and for targets with a unit for 1/x quotients.
void expandWithinBounds(mlir::Operation *root, bool specialFunctionUnit);
/// cbrt, clampf.
void populateOtherExpansions(mlir::RewritePatternSet &patterns);
/// isnan, isinf, isfinite, isnormal; in any type, since what is normal depends on it.
void populateTestExpansions(mlir::RewritePatternSet &patterns);

/// x = 2^exponent · (1 + fraction), with 2/3 ≤ 1 + fraction < 4/3, for a positive normal x.
struct SplitFloat {
  Number exponent, fraction;
};
SplitFloat splitFloat(FloatBuilder &m, Number x);

} // namespace ejk

#endif // EJK_LOWERING_PTX_MATHEXPANSIONS_H
