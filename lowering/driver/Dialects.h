//===- Dialects.h - the dialects that the compiler knows ----------*- C++ -*-===//
#ifndef EJK_LOWERING_DRIVER_DIALECTS_H
#define EJK_LOWERING_DRIVER_DIALECTS_H

#include "mlir/IR/DialectRegistry.h"

namespace ejk {
/// Registers the dialects that a user's file may hold, and those that it is lowered through.
void registerDialects(mlir::DialectRegistry &registry);
} // namespace ejk

#endif // EJK_LOWERING_DRIVER_DIALECTS_H
