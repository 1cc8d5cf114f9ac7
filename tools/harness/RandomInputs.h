//===- RandomInputs.h - inputs for an entry, from sizes and a seed
//-*-C++-*-===//

#ifndef EJK_TOOLS_HARNESS_RANDOMINPUTS_H
#define EJK_TOOLS_HARNESS_RANDOMINPUTS_H

#include "io/HostTensor.h"
#include "package/Manifest.h"

#include <map>

namespace ejk {

/// Values of symbols: {"B": 4, "T": 128}.
using Sizes = std::map<std::string, int64_t>;

/// Parses "B=4,T=128".
Result<Sizes> parseSizes(std::string_view text);

/// Draws all inputs of an entry: normal numbers; log gates of the profile `gates`
/// (GateProfiles.h); row offsets that start at 0, never decrease and end at
/// their total. The same seed gives the same numbers everywhere.
Result<std::vector<HostTensor>> randomInputs(const Entry &entry, const Sizes &sizes, uint64_t seed,
                                             std::string_view gates = "mid");

/// The values of an entry's symbols, in their order: one for each, no others.
Result<std::vector<int64_t>> symbolValues(const Entry &entry, const Sizes &sizes);

} // namespace ejk

#endif // EJK_TOOLS_HARNESS_RANDOMINPUTS_H
