//===- Tensor.h - values of the interpreter -----------------------*- C++ -*-===//
#ifndef EJK_DIALECT_REFERENCE_TENSOR_H
#define EJK_DIALECT_REFERENCE_TENSOR_H

#include "mlir/IR/BuiltinTypes.h"
#include <vector>

namespace ejk::reference {

/// The interpreter's precision. `f64`: every float is a double, and narrower types round nothing;
/// this is the oracle. `native`: each result is rounded to its element type, as in a kernel.
enum class Precision { f64, native };

/// A compact row-major tensor, or a scalar at rank 0. Every float type is stored as double, and
/// every integer and index as int64.
struct Tensor {
  mlir::Type element;
  llvm::SmallVector<int64_t> shape;
  std::vector<double> floats;
  std::vector<int64_t> ints;

  /// Zeros. The size must pass `checkSize`.
  static Tensor zeros(mlir::Type element, llvm::ArrayRef<int64_t> shape);
  static Tensor scalar(mlir::Type element, double value);
  static Tensor scalar(mlir::Type element, int64_t value);

  bool isFloat() const { return llvm::isa<mlir::FloatType>(element); }
  /// One of the two is empty. Loops over elements ask each time, so that the type is not looked at.
  size_t size() const { return floats.size() + ints.size(); }
  int64_t rank() const { return shape.size(); }
  /// "tensor<2x3xf32>"
  std::string typeName() const;
};

/// The number of elements of `shape`; null if a size is negative or the tensor would not reasonably
/// fit in memory.
std::optional<size_t> checkSize(llvm::ArrayRef<int64_t> shape);

/// Whether tensors of `element` can be interpreted.
bool isSupportedElement(mlir::Type element);

/// "[2, 3]"
std::string spellShape(llvm::ArrayRef<int64_t> shape);

/// `value` rounded to the nearest number of `type`, ties to even.
double roundTo(mlir::Type type, double value);
void roundRow(mlir::Type type, double *row, size_t count);
/// An integer wrapped to the width of `type`: sign-extended, and i1 as 0 or 1.
int64_t wrapTo(mlir::Type type, int64_t value);

} // namespace ejk::reference

#endif // EJK_DIALECT_REFERENCE_TENSOR_H
