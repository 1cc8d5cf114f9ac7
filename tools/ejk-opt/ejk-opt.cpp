//===- ejk-opt.cpp - run ejk's passes on a file ---------------------------===//
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "tools/common/Registration.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  ejk::registerAll(registry);
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "ejk: gated linear recurrences\n", registry));
}
