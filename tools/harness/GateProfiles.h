//===- GateProfiles.h - log gates as models have them -----------*- C++ -*-===//

#ifndef EJK_TOOLS_HARNESS_GATEPROFILES_H
#define EJK_TOOLS_HARNESS_GATEPROFILES_H

#include "package/Result.h"

#include <string>
#include <string_view>
#include <vector>

namespace ejk {

/// Draws log gates, in nats, as models that use them train with them. How a channel forgets depends
/// on its head and on itself, so a profile first draws numbers for these.
class GateProfile {
public:
  /// A profile for gates of `shape`: [.., .., heads, channels..], [heads, channels] or [heads]. The
  /// error says which names there are.
  static Result<GateProfile> make(std::string_view name, const std::vector<int64_t> &shape,
                                  uint64_t seed);
  /// "mid, weak, …"
  static std::string names();

  /// The gate at `index` of the row-major tensor, from a normal number.
  double at(int64_t index, double normal) const;
  /// How many gates a row has: heads times channels.
  int64_t rowSize() const { return heads * channels; }

private:
  enum class Kind { mid, weak, mixed, logsigmoid, lb5, softplus, saturated, resets };
  static const struct Name {
    const char *name;
    Kind kind;
  } all[];

  Kind kind = Kind::mid;
  int64_t heads = 1, channels = 1;
  std::vector<double> ofHead, ofChannel;
};

} // namespace ejk

#endif // EJK_TOOLS_HARNESS_GATEPROFILES_H
