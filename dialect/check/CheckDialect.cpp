//===- CheckDialect.cpp - registration, verifiers, random numbers ---------===//
#include "dialect/check/Check.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace ejk::check;

#include "dialect/check/CheckDialect.cpp.inc"
#include "dialect/check/CheckEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/check/CheckAttrs.cpp.inc"

// The op spells its distribution as a bare keyword; anywhere else it is
// #check.distribution<normal>.
static ParseResult parseDistributionName(OpAsmParser &p, DistributionAttr &attr) {
  FailureOr<Distribution> distribution = FieldParser<Distribution>::parse(p);
  if (failed(distribution))
    return failure();
  attr = DistributionAttr::get(p.getContext(), *distribution);
  return success();
}
static void printDistributionName(OpAsmPrinter &p, Operation *, DistributionAttr attr) {
  p << stringifyDistribution(attr.getValue());
}

#define GET_OP_CLASSES
#include "dialect/check/CheckOps.cpp.inc"

void CheckDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/check/CheckAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/check/CheckOps.cpp.inc"
      >();
}

LogicalResult LoadOp::verify() {
  if (getPath().empty())
    return emitOpError("must have a path (C1), but it is empty");
  return success();
}

LogicalResult ExpectCloseOp::verify() {
  double tolerance = getMaxRelative().convertToDouble();
  if (!std::isfinite(tolerance) || tolerance < 0)
    return emitOpError() << "'max_relative' must be finite and not negative (C1), but is "
                         << getMaxRelativeAttr();
  return success();
}

//===----------------------------------------------------------------------===//
// Random
//===----------------------------------------------------------------------===//

uint64_t Random::next() {
  uint64_t z = (state += kStep);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

double Random::uniform() { return double(next() >> 11) * 0x1p-53; }

double Random::normal() {
  double radius = std::sqrt(-2 * std::log1p(-uniform())); // 1 - uniform() is never 0
  return radius * std::cos(2 * M_PI * uniform());
}

double Random::draw(Distribution distribution) {
  switch (distribution) {
  case Distribution::normal:
    return normal();
  case Distribution::uniform:
    return uniform();
  case Distribution::log_gate:
    return -std::log1p(std::exp(-normal()));
  case Distribution::zero:
    return 0;
  }
  return 0;
}
