//===- SavePolicy.h - what a derivative saves of the forward pass -*- C++ -*-===//
#ifndef EJK_PASSES_SAVEPOLICY_H
#define EJK_PASSES_SAVEPOLICY_H

#include <cstdint>

namespace ejk {

/// Where the sum over later steps that is a gate's gradient starts.
enum class GateGradients {
  /// At the end of the sequence. Errors grow with its length.
  suffix,
  /// At the end of each chunk, where the forward pass saves the state.
  checkpoint,
  /// No gradient: instead, the sum of the absolute values of its terms, from the end of the
  /// sequence. The error of the gradient is measured against it.
  terms
};
struct SavePolicy {
  GateGradients gateGradients = GateGradients::checkpoint;
  /// Rows of a chunk. 0 selects 64 if a sequence is f16 or bf16. If all are f32 and errors are
  /// smaller, it selects 32, or 16 if a gate depends on a parameter, whose gradient sums the
  /// errors.
  int64_t checkpointEvery = 0;
};

} // namespace ejk

#endif // EJK_PASSES_SAVEPOLICY_H
