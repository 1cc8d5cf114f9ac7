//===- Registration.h - what every compiler tool knows ------------*- C++ -*-===//
#ifndef EJK_TOOLS_COMMON_REGISTRATION_H
#define EJK_TOOLS_COMMON_REGISTRATION_H

#include "lowering/driver/Dialects.h"

namespace ejk {
/// The dialects, and every pass and pipeline, ejk's and upstream's.
void registerAll(mlir::DialectRegistry &registry);
} // namespace ejk

#endif // EJK_TOOLS_COMMON_REGISTRATION_H
