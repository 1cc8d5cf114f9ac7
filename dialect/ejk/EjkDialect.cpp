//===- EjkDialect.cpp - registration --------------------------------------===//
#include "dialect/ejk/Ejk.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace ejk;

#include "dialect/ejk/EjkDialect.cpp.inc"
#include "dialect/ejk/EjkEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/ejk/EjkAttrs.cpp.inc"

// An op spells its axis as a bare keyword; anywhere else it is #ejk.axis<key>.
static ParseResult parseAxisName(OpAsmParser &p, AxisAttr &attr) {
  FailureOr<Axis> axis = FieldParser<Axis>::parse(p);
  if (failed(axis))
    return failure();
  attr = AxisAttr::get(p.getContext(), *axis);
  return success();
}
static void printAxisName(OpAsmPrinter &p, Operation *, AxisAttr attr) {
  p << stringifyAxis(attr.getValue());
}

#define GET_OP_CLASSES
#include "dialect/ejk/EjkOps.cpp.inc"

void EjkDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/ejk/EjkAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/ejk/EjkOps.cpp.inc"
      >();
}
