//===- EjkDialect.cpp - registration --------------------------------------===//
#include "dialect/ejk/EjkShifts.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
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

/// Parses nothing. A keyword after a recurrence's operands is an operand that the op
/// does not have, under a name that `names` lacks, or in the wrong place.
static ParseResult parseEndOfOperands(OpAsmParser &p, ArrayRef<StringRef> names) {
  SMLoc loc = p.getCurrentLocation();
  StringRef keyword;
  if (failed(p.parseOptionalKeyword(&keyword)))
    return success();
  if (keyword == "reverse")
    return p.emitError(loc, "expects 'reverse' before its operands");
  ArrayRef<StringRef> optional = names.drop_front(3);
  InFlightDiagnostic error = p.emitError(loc) << "has no operand '" << keyword << "'";
  StringRef meant = keyword == "h0"      ? "initial_state"
                    : keyword == "gamma" ? "g_gamma"
                                         : nearestName(keyword, optional);
  if (llvm::is_contained(RecurrentOp::getOperandNames(), keyword))
    return error << "; 'ejk.recurrent' has it";
  if (llvm::is_contained(optional, meant))
    return error << "; did you mean '" << meant << "'?";
  return error << "; it has: " << llvm::join(optional, ", ");
}
static void printEndOfOperands(OpAsmPrinter &, Operation *, ArrayRef<StringRef>) {}

/// Types of `types`, with commas between them; the error says which there must be.
static ParseResult parseTypesOf(OpAsmParser &p, ArrayRef<Type *> types, StringRef which) {
  for (auto [i, type] : llvm::enumerate(types)) {
    // What follows stands on a later line.
    if (i > 0 && failed(p.parseOptionalComma()))
      return p.emitError(p.getNameLoc(), "expected the types of ") << which;
    if (p.parseType(*type))
      return failure();
  }
  return success();
}
static ParseResult parseOperandTypes(OpAsmParser &p, Type &query, Type &key, Type &value) {
  return parseTypesOf(p, {&query, &key, &value}, "query, key and value");
}
static void printOperandTypes(OpAsmPrinter &p, Operation *, Type query, Type key, Type value) {
  p << query << ", " << key << ", " << value;
}
static ParseResult parseResultTypes(OpAsmParser &p, Type &output, Type &finalState) {
  return parseTypesOf(p, {&output, &finalState}, "both results: the output and the final state");
}
static void printResultTypes(OpAsmPrinter &p, Operation *, Type output, Type finalState) {
  p << output << ", " << finalState;
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
  addOperations<
#define GET_OP_LIST
#include "dialect/ejk/EjkShifts.cpp.inc"
      >();
}
