//===- Calls.h - a run's calls, known before their kernels ------*- C++ -*-===//
#ifndef EJK_TOOLS_EJKRUN_CALLS_H
#define EJK_TOOLS_EJKRUN_CALLS_H

#include "harness/Choice.h"
#include "harness/Harness.h"
#include "lowering/driver/Compiler.h"
#include <optional>

namespace ejk {
/// What a run calls of a package, so that no other kernel is compiled.
class Calls {
public:
  /// The run calls `name` on `inputs`. As a derivative of `primal`, which is "" otherwise, it also calls the
  /// forward that saves states for it, and `primal` beside that where they are timed.
  Calls(DeviceSession &session, std::string name, std::string primal,
        const std::vector<HostTensor> &inputs, bool areTimed)
      : session(session), name(std::move(name)), primal(std::move(primal)), inputs(inputs),
        areTimed(areTimed) {}

  ExpectedCall expect(const Manifest &manifest, const Entry &entry);

  /// How `name` is computed, and why, once that is known: some lines for people.
  const Result<std::string> &explanation() const { return *explained; }

private:
  bool isForward(const Entry &entry) const {
    return !primal.empty() && entry.forwardOf == primal;
  }

  DeviceSession &session;
  std::string name, primal;
  const std::vector<HostTensor> &inputs;
  bool areTimed;
  std::optional<Result<std::string>> explained;
};
} // namespace ejk

#endif // EJK_TOOLS_EJKRUN_CALLS_H
