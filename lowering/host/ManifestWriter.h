//===- ManifestWriter.h - what a package says of a program --------*- C++ -*-===//
#ifndef EJK_LOWERING_HOST_MANIFESTWRITER_H
#define EJK_LOWERING_HOST_MANIFESTWRITER_H

#include "lowering/target/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

namespace ejk {
/// The manifest (docs/package-format.md, without images) of a module that
/// `ejk-lower-to-gpu` made: one entry per public function.
llvm::FailureOr<llvm::json::Object> writeManifest(mlir::ModuleOp module, const Target &target);
} // namespace ejk

#endif // EJK_LOWERING_HOST_MANIFESTWRITER_H
