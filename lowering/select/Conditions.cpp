//===- Conditions.cpp - sizes in conditions of alternatives ---------------===//
#include "lowering/select/Conditions.h"
#include "dialect/shapes/Shapes.h"

using namespace mlir;
using namespace ejk;

static StringRef spell(DimExpr::Operator op) {
  switch (op) {
  case DimExpr::Operator::add:
    return "+";
  case DimExpr::Operator::multiply:
    return "*";
  case DimExpr::Operator::floorDivide:
    return "floordiv";
  case DimExpr::Operator::ceilDivide:
    return "ceildiv";
  case DimExpr::Operator::minimum:
    return "min";
  case DimExpr::Operator::maximum:
    return "max";
  }
  llvm_unreachable("unknown operator");
}

DimExpr ejk::sequencesOf(DimExpr offsets) {
  if (offsets.kind == DimExpr::Kind::symbolPlusOne)
    offsets.kind = DimExpr::Kind::symbol;
  else
    --offsets.value;
  return offsets;
}

Attribute ejk::sizeAttribute(Builder &b, const DimExpr &size) {
  switch (size.kind) {
  case DimExpr::Kind::constant:
    return b.getI64IntegerAttr(size.value);
  case DimExpr::Kind::symbol:
    return b.getStringAttr(size.symbol);
  case DimExpr::Kind::operation: {
    Attribute left = sizeAttribute(b, size.factors[0]), right = sizeAttribute(b, size.factors[1]);
    return left && right ? condition(b, spell(DimExpr::Operator(size.value)), left, right)
                         : Attribute();
  }
  case DimExpr::Kind::symbolPlusOne:
  case DimExpr::Kind::slots:
    return Attribute();
  }
  llvm_unreachable("unknown kind");
}
