//===- ejk-lsp-server.cpp - editor support for files with ejk ops ---------===//
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "tools/common/CommandLine.h"
#include "tools/common/Registration.h"

int main(int argc, char **argv) {
  llvm::cl::OptionCategory category("EJK's options");
  ejk::initCommandLine("ejk-lsp-server", category);
  mlir::DialectRegistry registry;
  ejk::registerDialects(registry);
  return failed(mlir::MlirLspServerMain(argc, argv, registry));
}
