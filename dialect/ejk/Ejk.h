//===- Ejk.h - the ejk dialect --------------------------------------------===//
//
// Ops, attributes and shared views of them. See dialect/ejk/Ejk.td for the meaning.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_DIALECT_EJK_EJK_H
#define EJK_DIALECT_EJK_EJK_H

#include "dialect/ejk/KnownAttributes.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialect/ejk/EjkDialect.h.inc"
#include "dialect/ejk/EjkEnums.h.inc"

namespace ejk {
class YieldOp;

/// That the operands and results of a recurrence are tensors of the types they may
/// have. `segments` says how many operands each of `names` has.
llvm::LogicalResult verifyNamedOperands(mlir::Operation *op, llvm::ArrayRef<llvm::StringRef> names,
                                        llvm::ArrayRef<int32_t> segments);

/// The trait that verifies this, before ODS does so by number.
template <typename ConcreteOp>
class NamedOperands : public mlir::OpTrait::TraitBase<ConcreteOp, NamedOperands> {
public:
  static llvm::LogicalResult verifyTrait(mlir::Operation *op) {
    return verifyNamedOperands(op, ConcreteOp::getOperandNames(),
                               mlir::cast<ConcreteOp>(op).getProperties().operandSegmentSizes);
  }
};

/// The largest K and V that a state may have.
constexpr int64_t kMaxChannels = 512;

/// The most rows between saved states, or of a segment, so that no product of two such overflows.
constexpr int64_t kMaxRows = int64_t(1) << 30;

/// How many of a segment's last rows a scan takes; all for 0. With `remembered`, only where that is below 1.
struct TrailingRows {
  int64_t count = 0;
  mlir::Value remembered = {};
};

/// The operands and attributes of any of the recurrences, absent ones null, so
/// that verifier, interpreter and rewrites treat the short forms alike.
struct Recurrence {
  /// `beta` is of the delta rule alone, whose state belongs to a value head; that of the others
  /// belongs to a query head, with `sharedState` to a key/value head.
  mlir::Value query, key, value, beta, g, gGamma, gk, gv, initialState, cuSeqlens;
  mlir::Value output, finalState;
  mlir::FloatAttr softmaxScale;
  bool reverse = false, sharedState = false;
  /// Set for lightning attention only: γ_h = slope · h, slope = -(8/H)·factor.
  std::optional<double> lightningFactor;

  /// The operand that has a head for each state.
  mlir::Value heads() const { return beta || sharedState ? value : query; }
  /// The operand that has a head for each of the output's.
  mlir::Value outputHeads() const { return sharedState ? query : heads(); }
  int64_t keyChannels() const;
  int64_t valueChannels() const;
  /// softmax_scale, or its default K^-½.
  double scale() const;

  /// The view of `op`, or nothing when it is not a recurrence.
  static std::optional<Recurrence> of(mlir::Operation *op);
};
} // namespace ejk

#define GET_ATTRDEF_CLASSES
#include "dialect/ejk/EjkAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialect/ejk/EjkOps.h.inc"

#endif // EJK_DIALECT_EJK_EJK_H
