//===- ManifestSpelling.h - how a manifest spells IR --------------*- C++ -*-===//
#ifndef EJK_LOWERING_HOST_MANIFESTSPELLING_H
#define EJK_LOWERING_HOST_MANIFESTSPELLING_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/JSON.h"

namespace ejk {

/// The expression of a described size: "64", "T", "N+1" or "B*T/64+N".
llvm::json::Value sizeExpr(llvm::StringRef spelling);

/// The name of an element type; "" for one that no package holds.
llvm::StringRef dtypeOf(mlir::Type type);

/// The operator of a comparison. Sizes are never negative, so that it does not matter whether signs are
/// compared.
llvm::StringRef comparison(mlir::arith::CmpIPredicate predicate);

} // namespace ejk

#endif // EJK_LOWERING_HOST_MANIFESTSPELLING_H
