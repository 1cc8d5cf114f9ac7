//===- CallPlan.h - a call, checked and evaluated ---------------*- C++ -*-===//
//
// What ejk_launch and ejk_entry_check share. The plan lives on the stack; its
// arrays have the sizes that package_format.h bounds.
//
//===----------------------------------------------------------------------===//

#ifndef EJK_RUNTIME_API_CALLPLAN_H
#define EJK_RUNTIME_API_CALLPLAN_H

#include "Choose.h"

namespace ejk {

/// A tensor map as the driver takes it: the innermost dimension first, strides
/// in bytes.
struct TensorMapPlan {
  uint64_t address;
  uint64_t sizes[EJK_MAX_TENSOR_MAP_RANK], strides[EJK_MAX_TENSOR_MAP_RANK - 1];
  uint32_t box[EJK_MAX_TENSOR_MAP_RANK];
};

/// What a call is made with.
struct CallArguments {
  TensorList inputs, outputs;
  void *workspace = nullptr;
  size_t workspaceBytes = 0;
  /// Null where the caller has neither a device nor a workspace yet: what
  /// depends on those alone is not checked.
  const ejk_executable *executable = nullptr;
  /// The schedule that is forced; null for none.
  const char *schedule = nullptr;
};

/// Every number that the driver needs, for all of the entry's kernels.
struct CallPlan {
  Symbols symbols;
  /// The one of the entry's variants that is launched, on the executable's device.
  size_t variant;
  /// All outputs are empty: nothing is to be launched, and the rest is not set.
  bool isEmpty;
  unsigned grids[EJK_MAX_LAUNCHES]; ///< 0 for a launch that is skipped
  uint64_t values[EJK_MAX_ARGUMENTS];
  /// Those of a launch with an empty grid are not set.
  TensorMapPlan tensorMaps[EJK_MAX_TENSOR_MAPS];
};

/// Checks everything that can be known on the host, chooses a variant and
/// evaluates its formulas; without an executable, those of each variant that
/// may be chosen on some device.
ejk_error *planCall(const Manifest &manifest, const Entry &entry, const CallArguments &arguments,
                    CallPlan &plan);

} // namespace ejk

#endif // EJK_RUNTIME_API_CALLPLAN_H
