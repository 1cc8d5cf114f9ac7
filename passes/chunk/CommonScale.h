//===- CommonScale.h - constant multipliers of vectors ------------*- C++ -*-===//
#ifndef EJK_PASSES_CHUNK_COMMONSCALE_H
#define EJK_PASSES_CHUNK_COMMONSCALE_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/ArrayRef.h"
#include <array>
#include <optional>

namespace ejk {

/// Moves a constant multiplier of `vector` into `scale`. Returns whether there is one. What remains
/// is often a row as loaded, which needs no rounding.
bool splitConstant(mlir::Value &vector, double &scale);

/// The key and the value of an outer product.
using Factors = std::array<mlir::Value, 2>;

/// Takes the constant multiplier that all of `products` have out of them, and returns it. Returns
/// nothing, and changes nothing, where they have different ones.
std::optional<double> takeCommonScale(llvm::MutableArrayRef<Factors> products);

} // namespace ejk

#endif // EJK_PASSES_CHUNK_COMMONSCALE_H
