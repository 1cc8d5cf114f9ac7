//===- DiagnosticLog.cpp - diagnostics as data ----------------------------===//
#include "lowering/driver/DiagnosticLog.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"

using namespace mlir;
using namespace ejk;

/// The first place in a file that `location` names: of what was inlined, where it stands.
static FileLineColLoc findPlace(Location location) {
  FileLineColLoc place;
  location->walk([&](Location part) {
    place = dyn_cast<FileLineColLoc>(part);
    return place ? WalkResult::interrupt() : WalkResult::advance();
  });
  return place;
}

static int32_t severityOf(DiagnosticSeverity severity) {
  switch (severity) {
  case DiagnosticSeverity::Note:
    return EJK_NOTE;
  case DiagnosticSeverity::Remark:
    return EJK_REMARK;
  case DiagnosticSeverity::Warning:
    return EJK_WARNING;
  case DiagnosticSeverity::Error:
    return EJK_DIAGNOSED_ERROR;
  }
  return EJK_DIAGNOSED_ERROR;
}

const char *DiagnosticLog::keep(StringRef text) { return texts.emplace_back(text.str()).c_str(); }

ejk_diagnostic DiagnosticLog::convert(const Diagnostic &diagnostic) {
  ejk_diagnostic result = {};
  result.severity = severityOf(diagnostic.getSeverity());
  result.text = keep(diagnostic.str());
  result.file = "";
  if (FileLineColLoc place = findPlace(diagnostic.getLocation())) {
    result.file = keep(place.getFilename());
    result.line = place.getLine();
    result.column = place.getColumn();
  }
  std::vector<ejk_diagnostic> own;
  for (const Diagnostic &note : const_cast<Diagnostic &>(diagnostic).getNotes())
    own.push_back(convert(note));
  if (!own.empty()) {
    notes.push_back(std::move(own));
    result.notes = notes.back().data();
    result.num_notes = notes.back().size();
  }
  return result;
}

void DiagnosticLog::add(const Diagnostic &diagnostic) {
  diagnostics.push_back(convert(diagnostic));
}

void DiagnosticLog::addError(StringRef text) {
  ejk_diagnostic error = {};
  error.severity = EJK_DIAGNOSED_ERROR;
  error.file = "";
  error.text = keep(text);
  diagnostics.push_back(error);
}

bool DiagnosticLog::hasError() const {
  return llvm::any_of(
      diagnostics, [](const ejk_diagnostic &d) { return d.severity == EJK_DIAGNOSED_ERROR; });
}
