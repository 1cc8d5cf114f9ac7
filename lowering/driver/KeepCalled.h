//===- KeepCalled.h - a package for known calls alone -------------*- C++ -*-===//
#ifndef EJK_LOWERING_DRIVER_KEEPCALLED_H
#define EJK_LOWERING_DRIVER_KEEPCALLED_H

#include "lowering/driver/Compiler.h"
#include "runtime/package/Package.h"
#include "llvm/Support/JSON.h"

namespace ejk {
/// Takes what `expected` leaves out from the manifest of `module`, from its kernels and from its host
/// functions. `code` stands for the package's code. A failure has been reported.
llvm::LogicalResult keepCalled(mlir::ModuleOp module, llvm::json::Object &manifest, const ImageData &code,
                               const ExpectCalls &expected);
} // namespace ejk

#endif // EJK_LOWERING_DRIVER_KEEPCALLED_H
