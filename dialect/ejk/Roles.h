//===- Roles.h - what a function's tensors are to its recurrences -*- C++ -*-===//
//
// Tools that draw inputs draw them as models have them: gates at most 0, keys of a delta rule about
// as long as 1, its rates between 0 and 1. With others a delta rule's state grows from step to step.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_DIALECT_EJK_ROLES_H
#define EJK_DIALECT_EJK_ROLES_H

#include "dialect/ejk/Attributes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ejk {

enum class Role { none, logDecay, key, rate };

/// What argument `index` is, as it stands or widened, to a recurrence or the steps of a scan; or was
/// when `ejk.log_decay`, `ejk.key` or `ejk.rate` noted it. In a step that adds what depends on a read,
/// its key is the vector that is read with or added along, and its rate what multiplies the read on its
/// way.
Role roleOf(mlir::func::FuncOp function, unsigned index);

/// The attribute that notes a role; empty for none.
llvm::StringRef attributeOf(Role role);

} // namespace ejk

#endif // EJK_DIALECT_EJK_ROLES_H
