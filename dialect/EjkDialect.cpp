//===- EjkDialect.cpp - registration --------------------------------------===//
#include "dialect/Ejk.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace ejk;

#include "dialect/EjkDialect.cpp.inc"
#include "dialect/EjkEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/EjkAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialect/EjkOps.cpp.inc"

void EjkDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/EjkAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/EjkOps.cpp.inc"
      >();
}
