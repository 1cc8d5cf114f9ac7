//===- Choose.h - which of an entry's variants a call takes -----*- C++ -*-===//
//
// By the sizes of the inputs and facts of the device, on the host: the same
// call always takes the same variant. Nothing here allocates unless it fails.
//
//===----------------------------------------------------------------------===//

#ifndef EJK_RUNTIME_API_CHOOSE_H
#define EJK_RUNTIME_API_CHOOSE_H

#include "Operands.h"

namespace ejk {

/// The variant that a launch of `executable` takes, or, where `schedule` is not
/// null, the first of that schedule that can compute these sizes.
ejk_error *chooseVariant(const ejk_executable &executable, const Entry &entry, const char *schedule,
                         Symbols &symbols, size_t &chosen);

/// Whether a launch may take `variant` on some device.
struct PossibleVariants {
  bool may[EJK_MAX_VARIANTS];
};

/// Those variants that a launch with these sizes may take on some device.
ejk_error *findPossibleVariants(const Manifest &manifest, const Entry &entry,
                                const Symbols &symbols, PossibleVariants &possible);

/// Whether the condition of the schedule or kernel `name` holds; one that is not there does.
ejk_error *evaluateCondition(const Entry &entry, const char *kind, const std::string &name,
                             const std::optional<Expr> &condition, const Symbols &symbols,
                             bool &holds);

} // namespace ejk

#endif // EJK_RUNTIME_API_CHOOSE_H
