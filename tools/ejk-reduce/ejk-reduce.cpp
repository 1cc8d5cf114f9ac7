//===- ejk-reduce.cpp - shrink a file that shows a fault ------------------===//
#include "mlir/IR/MLIRContext.h"
#include "mlir/Reducer/Passes.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"
#include "tools/common/Registration.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  ejk::registerAll(registry);
  mlir::registerReducerPasses();
  mlir::MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  return failed(mlir::mlirReduceMain(argc, argv, context));
}
