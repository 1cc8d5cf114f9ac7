//===- ReadModule.h - a user's file, with the names it gives ------*- C++ -*-===//
#ifndef EJK_LOWERING_DRIVER_READMODULE_H
#define EJK_LOWERING_DRIVER_READMODULE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <memory>

namespace llvm {
class SourceMgr;
}

namespace ejk {
/// Parses the main file of `sources`. Arguments of functions are named as in the source
/// (`%query` is called query), where no `ejk.name` says otherwise; MLIR alone forgets
/// these names.
///
/// A package refuses names that could lead a file elsewhere or that a terminal obeys
/// (runtime/package/Names.h). So does this: an error stands at the public function or
/// the argument that has such a name. Null after an error.
mlir::OwningOpRef<mlir::ModuleOp> readModule(const std::shared_ptr<llvm::SourceMgr> &sources,
                                             mlir::MLIRContext *context);

/// Verifies a module that was parsed without that. Upstream's verifier of `tensor.concat` reads
/// past the shapes of its operands where `dim` is negative; here that is an error.
llvm::LogicalResult verifyParsed(mlir::ModuleOp module);
} // namespace ejk

#endif // EJK_LOWERING_DRIVER_READMODULE_H
