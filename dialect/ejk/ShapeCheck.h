//===- ShapeCheck.h - shape checks with named dimensions ----------*- C++ -*-===//
//
// Checks operands against shapes written in the letters of the specification.
// A letter is bound by the first static size it meets; a later one that
// disagrees is an error that names the operand, the dimension, both sizes and
// where the first came from.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_DIALECT_EJK_SHAPECHECK_H
#define EJK_DIALECT_EJK_SHAPECHECK_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/StringMap.h"

namespace ejk {
class ShapeCheck {
public:
  explicit ShapeCheck(mlir::Operation *op) : op(op) {}

  /// Checks that `value`, called `name`, has the shape `letters` (as
  /// {"B","T","H","K"}), reporting against constraint `constraint`.
  mlir::LogicalResult check(mlir::Value value, llvm::StringRef name,
                            llvm::ArrayRef<llvm::StringRef> letters, llvm::StringRef constraint);
  /// The same for a value that may have either of two ranks.
  mlir::LogicalResult checkEither(mlir::Value value, llvm::StringRef name,
                                  llvm::ArrayRef<llvm::StringRef> shorter,
                                  llvm::ArrayRef<llvm::StringRef> longer,
                                  llvm::StringRef constraint);
  /// The size bound to `letter`, or dynamic.
  int64_t size(llvm::StringRef letter) const;
  /// Binds `letter` without an operand; used where one size implies another.
  void bind(llvm::StringRef letter, int64_t size, llvm::StringRef from);

  /// "[B,T,H]" for messages.
  static std::string spell(llvm::ArrayRef<llvm::StringRef> letters);

private:
  mlir::Operation *op;
  llvm::StringMap<std::pair<int64_t, std::string>> bound;
};
} // namespace ejk

#endif // EJK_DIALECT_EJK_SHAPECHECK_H
