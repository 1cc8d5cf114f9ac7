//===- Traffic.h - the bytes a program's launches move ----------*- C++ -*-===//

#ifndef EJK_TOOLS_HARNESS_TRAFFIC_H
#define EJK_TOOLS_HARNESS_TRAFFIC_H

#include "Choice.h"

namespace ejk {

struct LaunchTraffic {
  std::string kernel;
  int64_t bytes = 0; ///< of all its buffers, each once; in place counts twice
};

struct Traffic {
  std::string schedule, arch;          ///< of the variant that is taken; the first may be ""
  std::vector<LaunchTraffic> launches; ///< those that run at these sizes
  int64_t moved = 0;                   ///< by all of them
  int64_t floor = 0;                   ///< each input and each output once
  int64_t workspace = 0;

  /// A line for each launch and one for the whole.
  std::string describe() const;
};

/// What an entry's launches move when its symbols have these sizes, if each
/// reads or writes each of its buffers once, from the manifest alone.
Result<Traffic> countTraffic(const Manifest &manifest, const Entry &entry, const Sizes &sizes,
                             const ChoiceDevice &device = {});

} // namespace ejk

#endif // EJK_TOOLS_HARNESS_TRAFFIC_H
