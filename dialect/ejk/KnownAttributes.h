//===- KnownAttributes.h - no attribute goes unseen --------------*- C++ -*-===//
//
// MLIR keeps an attribute that an op does not have, and drops it when the op is
// rewritten. Here it is an error that names the right attribute where one is near.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_DIALECT_EJK_KNOWNATTRIBUTES_H
#define EJK_DIALECT_EJK_KNOWNATTRIBUTES_H

#include "mlir/IR/OpDefinition.h"

namespace ejk {
/// That each attribute of `op` without a dialect's prefix is one of the op's own.
llvm::LogicalResult verifyKnownAttributes(mlir::Operation *op);

/// The trait (`Ejk_KnownAttributes` in ODS) that verifies this.
template <typename ConcreteOp>
class KnownAttributes : public mlir::OpTrait::TraitBase<ConcreteOp, KnownAttributes> {
public:
  static llvm::LogicalResult verifyTrait(mlir::Operation *op) { return verifyKnownAttributes(op); }
};

/// A discardable attribute of a dialect. Sizes are an array of strings, constraints one of
/// dictionaries of strings, and a condition is [operator, operand, operand], where an operand is a
/// size, a number or a condition.
struct DialectAttribute {
  enum class Kind { string, integer, unit, array, sizes, constraints, condition };
  llvm::StringRef name;
  Kind kind;
  bool onOps, onArguments, onResults;
};

/// Where a discardable attribute stands.
enum class AttributePlace { op, argument, result };

/// That `attribute` is one of `known`, stands where it may and has its kind.
llvm::LogicalResult verifyDialectAttribute(mlir::Operation *op, mlir::NamedAttribute attribute,
                                           AttributePlace place,
                                           llvm::ArrayRef<DialectAttribute> known);

/// Which of `known` a misspelt `name` most likely stands for; empty where none is near.
llvm::StringRef nearestName(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> known);
} // namespace ejk

#endif // EJK_DIALECT_EJK_KNOWNATTRIBUTES_H
