//===- BackEnd.h - from scans to code, for one kind of machine ----*- C++ -*-===//
//
// A back end takes specialised scans to code for one architecture. All else of a compilation
// is the same for every machine: reading, specialising and differentiating before it, and the
// package after it.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_DRIVER_BACKEND_H
#define EJK_LOWERING_DRIVER_BACKEND_H

#include "lowering/driver/Compiler.h"
#include "runtime/package/Package.h"
#include "llvm/Support/JSON.h"
#include <memory>

namespace ejk {

class BackEnd {
public:
  virtual ~BackEnd() = default;
  /// The architecture that it makes code for.
  virtual llvm::StringRef arch() const = 0;
  /// Lowers `module` in place down to `stage`, which is not Stage::package, and returns the
  /// stage's text; an error where the back end has no such stage.
  virtual llvm::FailureOr<std::string> print(mlir::ModuleOp module, Stage stage) = 0;
  /// Code of `module`, and a manifest that has an entry for each public function.
  struct Code {
    llvm::json::Object manifest;
    std::vector<ImageData> images;
  };
  virtual llvm::FailureOr<Code> compile(mlir::ModuleOp module) = 0;
};

/// A GPU's, by way of PTX; null after an error at `loc` where no such architecture is known.
std::unique_ptr<BackEnd> makeCudaBackEnd(llvm::StringRef arch, const CompileOptions &options,
                                         mlir::Location loc);
/// A CPU's, by way of LLVM; null likewise.
std::unique_ptr<BackEnd> makeCpuBackEnd(llvm::StringRef arch, const CompileOptions &options,
                                        mlir::Location loc);

/// `op` as text that ends with a line break.
std::string printOp(mlir::Operation *op);
/// Whether whoever compiles wants no more of it.
inline bool isCancelled(const CompileOptions &options) {
  return options.cancelled && options.cancelled();
}

} // namespace ejk

#endif // EJK_LOWERING_DRIVER_BACKEND_H
