//===- Choice.h - which variant of an entry is taken, and why ---*- C++ -*-===//
//
// For people, and for what is counted without a device. A launch chooses by
// itself, by the same rule (runtime/api/Choose.h).
//
//===----------------------------------------------------------------------===//

#ifndef EJK_TOOLS_HARNESS_CHOICE_H
#define EJK_TOOLS_HARNESS_CHOICE_H

#include "RandomInputs.h"

namespace ejk {

/// A device, at hand or not.
struct ChoiceDevice {
  std::string arch;                ///< of the code, one of the package's; "" for its last one
  int64_t capability = 0;          ///< 90 for sm_90; 0 for that of `arch`
  int64_t multiprocessors = 132;   ///< an H200's
  int64_t sharedBytes = 227 << 10; ///< likewise: of a block
  std::string schedule = "";       ///< that is forced; "" for none
};

/// An entry's variant for the sizes of a call.
struct VariantChoice {
  const Variant *variant = nullptr;
  std::string arch;
  /// The sizes in the order of the entry's symbols, then the device's facts.
  std::vector<int64_t> symbols;
  /// "schedule chunk for sm_90a: T >= 16", what was passed over, and the sizes; a line each.
  std::string explanation;
};

Result<VariantChoice> chooseVariant(const Manifest &manifest, const Entry &entry,
                                    const Sizes &sizes, const ChoiceDevice &device = {});

/// The sizes of an entry's symbols that these inputs have.
Sizes sizesOf(const Entry &entry, const std::vector<HostTensor> &inputs);

/// Whether `condition` holds; one that is not there does.
Result<bool> holds(const std::optional<Expr> &condition, const std::vector<int64_t> &symbols);

} // namespace ejk

#endif // EJK_TOOLS_HARNESS_CHOICE_H
