//===- ManifestWriter.h - the manifest of a package ---------------*- C++ -*-===//
#ifndef EJK_LOWERING_HOST_MANIFESTWRITER_H
#define EJK_LOWERING_HOST_MANIFESTWRITER_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

namespace ejk {
/// The manifest (docs/package-format.md, without images) of a module that `ejk-lower-to-gpu` or
/// `ejk-lower-to-cpu` produced: one entry per public function. Its kernels will be in images of
/// `imageKind` for `arch`.
llvm::FailureOr<llvm::json::Object> writeManifest(mlir::ModuleOp module, llvm::StringRef arch,
                                                  llvm::StringRef imageKind);
} // namespace ejk

#endif // EJK_LOWERING_HOST_MANIFESTWRITER_H
