//===- Options.h - ejk-launch's command line --------------------*- C++ -*-===//

#ifndef EJK_TOOLS_EJKLAUNCH_OPTIONS_H
#define EJK_TOOLS_EJKLAUNCH_OPTIONS_H

#include "package/Result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ejk {

struct LaunchOptions {
  std::string package;
  std::string entry;
  std::vector<std::string> inputs;
  std::string outputs;
  std::vector<std::string> expect;
  std::optional<std::string> random;
  std::string gates = "mid";
  uint64_t seed = 0;
  double rtol = 3e-3;
  /// Which GPU, the CPU, or whichever the package has code for: a GPU first.
  enum class Device { automatic, cuda, cpu } deviceKind = Device::automatic;
  int device = 0;
  std::string schedule;
  std::string arch;
  std::optional<int64_t> multiprocessors;
  bool explain = false;
  bool bench = false;
  bool info = false;
  std::string code; ///< the folder to write code into; empty if none
  bool inPlace = false;
  int64_t rowGap = -1;
  bool preferPtx = false;
  bool help = false, version = false;
};

extern const char *const launchHelp;

/// The error is one of usage.
Result<LaunchOptions> parseOptions(int argc, char **argv);

} // namespace ejk

#endif // EJK_TOOLS_EJKLAUNCH_OPTIONS_H
