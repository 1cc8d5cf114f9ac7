//===- SavePolicyFlags.h - what a derivative saves, on the command line ---===//
#ifndef EJK_TOOLS_COMMON_SAVEPOLICYFLAGS_H
#define EJK_TOOLS_COMMON_SAVEPOLICYFLAGS_H

#include "passes/SavePolicy.h"
#include "tools/common/Choice.h"

namespace ejk {
/// --gate-gradients and --checkpoint-every, of tools that derive a backward.
class SavePolicyFlags {
public:
  explicit SavePolicyFlags(llvm::cl::OptionCategory &category)
      : gateGradients(
            "gate-gradients", llvm::cl::cat(category), llvm::cl::init(GateGradients::checkpoint),
            llvm::cl::desc("For --vjp: where the sums of gates' gradients start"),
            llvm::cl::values(
                clEnumValN(GateGradients::suffix, "suffix",
                           "at the sequence's end: fewest bytes, errors grow with the length"),
                clEnumValN(GateGradients::checkpoint, "checkpoint",
                           "at the end of every chunk, from a saved state (the default)"))),
        checkpointEvery(
            "checkpoint-every", llvm::cl::cat(category), llvm::cl::init(0),
            llvm::cl::value_desc("rows"),
            llvm::cl::desc("The rows of a chunk; by default 64, with f32 inputs 32 or, for a "
                           "parameter that gates depend on, 16")) {}

  bool given() const {
    return gateGradients.getNumOccurrences() > 0 || checkpointEvery.getNumOccurrences() > 0;
  }
  SavePolicy get() const { return {gateGradients, checkpointEvery}; }

private:
  Choice<GateGradients> gateGradients;
  llvm::cl::opt<int64_t> checkpointEvery;
};
} // namespace ejk

#endif // EJK_TOOLS_COMMON_SAVEPOLICYFLAGS_H
