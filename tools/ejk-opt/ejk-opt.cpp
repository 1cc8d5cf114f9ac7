//===- ejk-opt.cpp - run ejk's passes on a file ---------------------------===//
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "tools/common/Registration.h"
#include "llvm/Support/CommandLine.h"

/// Has messages come without the op's generic form, unless the flag is given.
static void printNoOpsOnDiagnostics() {
  mlir::registerMLIRContextCLOptions();
  auto found = llvm::cl::getRegisteredOptions().find("mlir-print-op-on-diagnostic");
  if (found != llvm::cl::getRegisteredOptions().end())
    static_cast<llvm::cl::opt<bool> *>(found->second)->setInitialValue(false);
}

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  ejk::registerAll(registry);
  printNoOpsOnDiagnostics();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "ejk: gated linear recurrences\n", registry));
}
