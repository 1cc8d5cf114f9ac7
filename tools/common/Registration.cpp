//===- Registration.cpp - what every compiler tool knows ------------------===//
#include "tools/common/Registration.h"
#include "dialect/ejk/Ejk.h"
#include "dialect/check/Interpret.h"
#include "dialect/tile/Tile.h"
#include "lowering/Passes.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "passes/Passes.h"

void ejk::registerDialects(mlir::DialectRegistry &registry) {
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  registry.insert<EjkDialect, tile::TileDialect, check::CheckDialect>();
}

void ejk::registerAll(mlir::DialectRegistry &registry) {
  registerDialects(registry);
  mlir::registerAllPasses();
  registerEjkPasses();
  registerPipelines();
  check::registerEjkCheckPasses();
  registerEjkLoweringPasses();
  registerLoweringPipelines();
}
