//===- Check.h - the check dialect: numeric tests as IR -----------*- C++ -*-===//
#ifndef EJK_DIALECT_CHECK_CHECK_H
#define EJK_DIALECT_CHECK_CHECK_H

#include "dialect/ejk/KnownAttributes.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialect/check/CheckDialect.h.inc"
#include "dialect/check/CheckEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/check/CheckAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialect/check/CheckOps.h.inc"

namespace ejk::check {
/// Numbers that are the same on every machine: splitmix64, and Box and Muller's
/// method. `check.random` is defined by it, and ejk-run makes its inputs so.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}
  uint64_t next();
  /// From 0 up to 1, without 1.
  double uniform();
  double normal();
  /// From any distribution but uniform, two numbers of `next`.
  double draw(Distribution distribution);
  /// As that many calls of `next`.
  void skip(uint64_t count) { state += count * kStep; }

private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15;

  uint64_t state;
};
} // namespace ejk::check

#endif // EJK_DIALECT_CHECK_CHECK_H
