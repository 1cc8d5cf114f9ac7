//===- DiagnosticLog.h - diagnostics as data ----------------------*- C++ -*-===//
#ifndef EJK_LOWERING_DRIVER_DIAGNOSTICLOG_H
#define EJK_LOWERING_DRIVER_DIAGNOSTICLOG_H

#include "ejk/compiler.h"
#include "mlir/IR/Diagnostics.h"
#include <deque>
#include <string>
#include <vector>

namespace ejk {
/// Keeps diagnostics as the structs of the C interface. What they point to lives as long as the
/// log, and does not move when the log grows.
class DiagnosticLog {
public:
  void add(const mlir::Diagnostic &diagnostic);
  /// An error without a place.
  void addError(llvm::StringRef text);

  llvm::ArrayRef<ejk_diagnostic> list() const { return diagnostics; }
  bool hasError() const;

private:
  ejk_diagnostic convert(const mlir::Diagnostic &diagnostic);
  const char *keep(llvm::StringRef text);

  std::deque<std::string> texts;
  std::deque<std::vector<ejk_diagnostic>> notes;
  std::vector<ejk_diagnostic> diagnostics;
};
} // namespace ejk

#endif // EJK_LOWERING_DRIVER_DIAGNOSTICLOG_H
