//===- Registration.h - what every compiler tool knows ------------*- C++ -*-===//
#ifndef EJK_TOOLS_COMMON_REGISTRATION_H
#define EJK_TOOLS_COMMON_REGISTRATION_H

#include "mlir/IR/DialectRegistry.h"

namespace ejk {
/// Registers the dialects a user's file may hold.
void registerDialects(mlir::DialectRegistry &registry);
/// The dialects, and every pass and pipeline, ejk's and upstream's.
void registerAll(mlir::DialectRegistry &registry);
} // namespace ejk

#endif // EJK_TOOLS_COMMON_REGISTRATION_H
